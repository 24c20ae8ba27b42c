"""PyTorch operators: each kernel as `torch.ops.xtarget.NAME`, once this module is imported.

An operator has a fake function (shapes without memory, for `torch.compile` and `torch.export`;
sizes may be symbolic), a gradient where one is known, and rules for `vmap`.

    import torch, xtarget.torch

    y = torch.ops.xtarget.softmax(x, axis=-1)

Example for a kernel of your own: `xtarget.torch.register(my_kernel)`.

Source: torch.library, "Extending PyTorch"; schemas as in torch's `native_functions.yaml`.
"""

from __future__ import annotations

from .derivatives import differentiable
from .inductor import enable_inductor
from .operators import operators, register
from .override import override, replaceable

__all__ = ["differentiable", "enable_inductor", "operators", "override", "register", "replaceable"]

operators()
