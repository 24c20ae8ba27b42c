"""The driver that Triton asks whether xtarget launches the kernels of this process."""

from __future__ import annotations

import os
import sys
from typing import Any

from triton.backends.driver import DriverBase

from .descriptors import accept_arrays
from .hooks import tell_changes

__all__ = ["SpirvDriver"]

tell_changes()


class SpirvDriver(DriverBase):  # type: ignore[misc]  # Triton has no types
    """Stands for `xtarget._triton_backend.driver.SpirvDriver`; calling it makes one of those."""

    def __new__(cls) -> Any:
        from xtarget._triton_backend.driver import SpirvDriver as Driver

        accept_arrays()
        return Driver()

    @staticmethod
    def is_active() -> bool:
        """Only when asked for: a machine's GPU stays Triton's device.

        Raises:
            RuntimeError: this Triton takes the one driver that is active, and there is another.
        """
        if os.environ.get("TRITON_DEFAULT_BACKEND") != "spirv":
            return False
        triton = sys.modules["triton"]  # complete by now, as it is not while it imports this
        if triton.__version__.startswith("3.6."):  # later ones read the variable themselves
            others = [
                name
                for name, backend in triton.backends.backends.items()
                if name != "spirv" and backend.driver.is_active()
            ]
            if others:
                raise RuntimeError(
                    f"Triton {triton.__version__} cannot choose between its back end "
                    f"{others[0]!r} and 'spirv', which TRITON_DEFAULT_BACKEND asks for. Install "
                    "Triton 3.7 or newer, or call triton.runtime.driver.set_active("
                    "xtarget_triton.driver.SpirvDriver()) before the first kernel."
                )
        return True


SpirvDriver.__abstractmethods__ = frozenset()  # as in `compiler`
if os.environ.get("TRITON_DEFAULT_BACKEND") == "spirv":
    accept_arrays()
