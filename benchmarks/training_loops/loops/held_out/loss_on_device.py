"""The loss is added up on the device and read once an epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, loader, criterion, optimizer, device):
    model.train()
    total_loss = torch.zeros((), device=device)
    correct = torch.zeros((), device=device, dtype=torch.long)
    rows = 0
    for inputs, labels in loader:
        inputs = inputs.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        total_loss += loss.detach() * inputs.size(0)
        correct += (outputs.argmax(dim=1) == labels).sum()
        rows += inputs.size(0)
    return total_loss.item() / rows, correct.item() / rows


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 5)).to(device)
    dataset = TensorDataset(torch.randn(80, 3, 4, 4), torch.randint(0, 5, (80,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loss, accuracy = train_epoch(model, loader, nn.CrossEntropyLoss(), optimizer, device)
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
