"""A program whose kernel `doubled` has another result in each version: its folder has the kernel.

It prints whether torch.compile gives what eager mode does, and Inductor's counters.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import doubled_kernel  # noqa: F401 - it registers the kernel
import torch
from torch._dynamo.utils import counters

import xtarget.torch  # noqa: F401 - the operators


def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.ops.xtarget.doubled(x)
    return (y * 2 + 1).sum(), y * 3


x = torch.arange(8.0)
eager = model(x)
for _ in range(2):
    torch.compiler.reset()  # what it remembers is on the disk alone
    for one, other in zip(torch.compile(model, fullgraph=True)(x), eager, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
print(json.dumps({"counters": dict(counters["aot_autograd"])}))
