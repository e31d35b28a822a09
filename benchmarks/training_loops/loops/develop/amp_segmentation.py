"""Segmentation with mixed precision, a progress bar, and a Dice score for every batch."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class Blobs(Dataset):
    def __init__(self, count=32, size=16):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(1, self.size, self.size, generator=generator)
        return {"image": image, "mask": (image > 0.5).float()}


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 3, padding=1))

    def forward(self, x):
        return self.up(self.down(x))


def dice_score(prediction, target):
    prediction = (prediction > 0.5).astype(np.float32)
    overlap = (prediction * target).sum()
    return 2.0 * overlap / (prediction.sum() + target.sum() + 1e-6)


def train_one_epoch(model, loader, optimizer, criterion, scaler, device, epoch):
    model.train()
    scores = []
    pbar = tqdm(loader, desc=f"Epoch {epoch}", unit="batch")
    for batch in pbar:
        images = batch["image"].to(device)
        true_masks = batch["mask"].to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            logits = model(images)
            loss = criterion(logits, true_masks)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()

        probs = torch.sigmoid(logits).detach().float().cpu().numpy()
        scores.append(dice_score(probs, batch["mask"].numpy()))
        pbar.set_postfix(
            **{"loss (batch)": loss.item(), "dice": scores[-1], "scale": scaler.get_scale()}
        )
        del images, true_masks, logits
        torch.cuda.empty_cache()
    return float(np.mean(scores))


def main():
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model = UNet().to(device)
    loader = DataLoader(Blobs(), batch_size=4, shuffle=True, pin_memory=True)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(1, 3):
        dice = train_one_epoch(
            model, loader, optimizer, nn.BCEWithLogitsLoss(), scaler, device, epoch
        )
        print(f"epoch {epoch}: dice {dice:.3f}")


if __name__ == "__main__":
    main()
