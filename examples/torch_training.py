"""Training a small model in torch with our norm and activation, which have gradients.

Run it with: python examples/torch_training.py     (needs torch; on a GPU where torch has one)
"""

import torch

import xtarget.torch  # noqa: F401 - makes torch.ops.xtarget

ops = torch.ops.xtarget
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Norm(torch.nn.Module):
    """RMS norm by xtarget, or by torch."""

    def __init__(self, width, ours):
        super().__init__()
        self.weight, self.ours = torch.nn.Parameter(torch.ones(width)), ours

    def forward(self, x):
        if self.ours:
            return ops.gelu(ops.rms_norm(x, self.weight))
        return torch.nn.functional.gelu(
            torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        )


def model(ours):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(16, 64), Norm(64, ours), torch.nn.Linear(64, 1)]
    return torch.nn.Sequential(*layers).to(device)


x = torch.randn(256, 16, device=device)
y = x[:, :1] * x[:, 1:2]


def train(net, steps=30):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


ours, theirs = train(model(True)), train(model(False))
print(f"loss {ours[0]:.3f} to {ours[-1]:.3f}; with torch's own norm to {theirs[-1]:.3f}")
assert ours[-1] < 0.7 * ours[0]
assert abs(ours[-1] - theirs[-1]) < 0.02 * theirs[0]
