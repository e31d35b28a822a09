"""bfloat16 autocast without a scaler, gradient accumulation, cosine schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def main(epochs=2, accumulate=4):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randint(0, 50, (128, 10)), torch.randint(0, 3, (128,)))
    loader = DataLoader(data, batch_size=8, shuffle=True, pin_memory=True, drop_last=True)
    model = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(160, 3)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    progress = tqdm(total=epochs * len(loader))
    window = torch.zeros((), device=device)
    for _epoch in range(epochs):
        for index, (tokens, labels) in enumerate(loader):
            tokens = tokens.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(tokens), labels)
            (loss / accumulate).backward()
            window += loss.detach()
            progress.update(1)
            progress.set_postfix(lr=scheduler.get_last_lr()[0])
            scheduler.step()
            if (index + 1) % accumulate != 0:
                continue
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if (index + 1) % (4 * accumulate) == 0:
                progress.set_description(f"loss {window.item() / (4 * accumulate):.3f}")
                window.zero_()


if __name__ == "__main__":
    main()
