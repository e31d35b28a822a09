"""Train a small convolutional classifier, the way most first tutorials do."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16 * 4 * 4, classes)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc(torch.flatten(x, 1))


def make_loader(count, batch_size):
    images = torch.randn(count, 3, 16, 16)
    labels = torch.randint(0, 10, (count,))
    return DataLoader(TensorDataset(images, labels), batch_size=batch_size, shuffle=True)


def train(net, loader, criterion, optimizer, device, epochs=2):
    for epoch in range(epochs):
        running_loss = 0.0
        correct, total = 0, 0
        for i, data in enumerate(loader, 0):
            inputs, labels = data[0].to(device), data[1].to(device)
            optimizer.zero_grad()
            outputs = net(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()

            running_loss += loss.item()
            _, predicted = torch.max(outputs, 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
            if i % 8 == 7:
                print(f"[{epoch + 1}, {i + 1:5d}] loss: {running_loss / 8:.3f}")
                running_loss = 0.0
        print(f"epoch {epoch + 1}: accuracy {100 * correct / total:.1f} %")


def main():
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    net = Net().to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    train(net, make_loader(128, 8), nn.CrossEntropyLoss(), optimizer, device)
    print("Finished Training")


if __name__ == "__main__":
    main()
