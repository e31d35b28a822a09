"""A VAE as a notebook exported to a script: everything at the top level, old style."""

# %%
import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data

use_cuda = torch.cuda.is_available()
train_data = torch.rand(64, 30)
train_loader = torch.utils.data.DataLoader(train_data, batch_size=8, shuffle=True)


# %%
class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(30, 20)
        self.fc21 = nn.Linear(20, 4)
        self.fc22 = nn.Linear(20, 4)
        self.fc3 = nn.Linear(4, 20)
        self.fc4 = nn.Linear(20, 30)

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(torch.relu(self.fc3(z)))), mu, logvar


model = VAE()
if use_cuda:
    model.cuda()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
loss_list = []

# %%
for epoch in range(2):
    train_loss = 0
    for batch_idx, data in enumerate(train_loader):
        if use_cuda:
            data = data.cuda()
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        bce = nn.functional.binary_cross_entropy(recon, data, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = bce + kld
        loss.backward()
        optimizer.step()
        train_loss += loss.data.cpu().numpy()
        loss_list.append(bce.data.cpu().numpy() / len(data))
        print("epoch %d batch %d loss %.3f" % (epoch, batch_idx, loss.data))
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / len(train_data)))

# %%
print(loss_list[-1])
