"""The entry point `torch.backends`: `import torch` calls it.

Nothing happens without `XTARGET_INDUCTOR=1`: then torch.compile makes Triton kernels for the CPU.
The processes in which Inductor compiles are told by the same variable.
"""

from __future__ import annotations

import os

__all__ = ["autoload"]


def autoload() -> None:
    """An exception here would break `import torch`, which is why only who asks can meet one."""
    if os.environ.get("XTARGET_INDUCTOR", "") in ("", "0"):
        return
    from xtarget.targets._triton.importing import import_triton

    import_triton()
    from xtarget._triton_backend.inductor import enable

    enable()
