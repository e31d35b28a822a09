"""Knowledge distillation with meters, spikes skipped by value."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def distill(student_logits, teacher_logits, labels, temperature, alpha):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=1),
        F.softmax(teacher_logits / temperature, dim=1),
        reduction="batchmean",
    )
    hard = F.cross_entropy(student_logits, labels)
    return alpha * temperature**2 * soft + (1 - alpha) * hard, soft, hard


def train_epoch(student, teacher, loader, optimizer, epoch, log_interval=4):
    batch_time, losses, soft_meter = Meter(), Meter(), Meter()
    student.train()
    end = time.perf_counter()
    for idx, (images, labels) in enumerate(loader):
        images = images.cuda()
        labels = labels.cuda()
        with torch.no_grad():
            teacher_logits = teacher(images)
        loss, soft, hard = distill(student(images), teacher_logits, labels, 4.0, 0.9)
        if loss.item() > 50:
            optimizer.zero_grad()
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), images.size(0))
        soft_meter.update(soft.detach(), images.size(0))
        batch_time.update(time.perf_counter() - end)
        end = time.perf_counter()
        if idx % log_interval == 0:
            print(
                f"epoch {epoch} [{idx}/{len(loader)}] loss {losses.val:.4f} ({losses.avg:.4f}) "
                f"soft {soft_meter.avg:.4f} hard {hard.item():.4f} {batch_time.avg:.3f} s"
            )


def main():
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
    teacher.cuda().eval()
    student.cuda()
    dataset = TensorDataset(torch.randn(64, 1, 8, 8), torch.randint(0, 6, (64,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
    for epoch in range(2):
        train_epoch(student, teacher, loader, optimizer, epoch)


if __name__ == "__main__":
    main()
