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
compiled, eager = torch.compile(model, fullgraph=True)(x), model(x)
for one, other in zip(compiled, eager, strict=True):
    torch.testing.assert_close(one, other, rtol=0, atol=0)
print(json.dumps({"counters": dict(counters["aot_autograd"])}))
