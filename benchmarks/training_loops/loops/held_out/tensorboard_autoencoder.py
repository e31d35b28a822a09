"""An autoencoder whose curves go to TensorBoard."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))
        self.decode = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 20))

    def forward(self, x):
        z = self.encode(x)
        return self.decode(z), z


def run(writer, device, epochs=2, hist_every=5):
    model = AutoEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(
        TensorDataset(torch.randn(80, 20)), batch_size=8, shuffle=True, pin_memory=True
    )
    global_step = 0
    for epoch in range(epochs):
        epoch_loss = torch.zeros((), device=device)
        for (x,) in loader:
            x = x.to(device, non_blocking=True)
            recon, z = model(x)
            recon_loss = (recon - x).pow(2).mean()
            sparsity = z.abs().mean()
            loss = recon_loss + 1e-3 * sparsity
            opt.zero_grad()
            loss.backward()
            opt.step()
            epoch_loss += loss.detach()
            writer.add_scalar("train/recon", recon_loss, global_step)
            writer.add_scalars("train/parts", {"sparsity": sparsity.item()}, global_step)
            writer.add_scalar("train/lr", opt.param_groups[0]["lr"], global_step)
            if global_step % hist_every == 0:
                writer.add_histogram("z", z.detach().cpu(), global_step)
            global_step += 1
        writer.add_scalar("train/epoch_loss", epoch_loss.item() / len(loader), epoch)


def main():
    writer = SummaryWriter("runs/autoencoder")
    run(writer, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    writer.close()


if __name__ == "__main__":
    main()
