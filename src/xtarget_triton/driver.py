"""What Triton asks whether xtarget launches the kernels of this process."""

from __future__ import annotations

import os
from typing import Any

from triton.backends.driver import DriverBase

__all__ = ["SpirvDriver"]


class SpirvDriver(DriverBase):  # type: ignore[misc]
    """Stands for `xtarget._triton_backend.driver.SpirvDriver`; calling it makes one of those."""

    def __new__(cls) -> Any:
        from xtarget._triton_backend.driver import SpirvDriver as Driver

        return Driver()

    @staticmethod
    def is_active() -> bool:
        """Only when asked for: a machine's GPU stays Triton's device. Triton 3.6 does not read the
        variable itself, and takes the one driver that is active.
        """
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "spirv"


SpirvDriver.__abstractmethods__ = frozenset()  # as in `compiler`
