"""The back end that Triton asks which targets xtarget compiles for."""

from __future__ import annotations

import os
import sys
from typing import Any

from triton.backends.compiler import BaseBackend

__all__ = ["SpirvBackend"]


class SpirvBackend(BaseBackend):  # type: ignore[misc]  # Triton has no types
    """Stands for `SpirvBackend` of `xtarget.targets._spirv.frontend`; calling it makes one."""

    #: How xtarget knows its own when it looks at Triton's table of back ends.
    OWNER = "xtarget"

    def __new__(cls, target: Any) -> Any:
        from xtarget.targets._triton.files import is_inside

        if is_inside():  # xtarget itself compiles, and says all options
            from xtarget.targets._spirv.frontend import backend

            return backend.SpirvBackend.checked(target, {})
        if _asked_by_tool():
            from xtarget import CompileError

            raise CompileError(
                "triton.tools.compile writes C from a template, and Triton has none for spirv. "
                "Declare the kernel with @xtarget.kernel and build a bundle (xtarget bundle build "
                "--library FOLDER --target cpu -o FILE), which C and C++ programs launch with "
                "libxtarget; for CUDA and HIP, xtarget bundle emit-c writes C of such a bundle."
            )
        from xtarget._triton_backend.devices import default_options
        from xtarget._triton_backend.tuning import TunableBackend

        return TunableBackend.checked(target, default_options())

    @staticmethod
    def supports_target(target: Any) -> bool:
        return bool(target.backend == "spirv")


def _asked_by_tool() -> bool:
    """Whether `triton.tools.compile` makes a back end: through `make_backend` of Triton's."""
    maker = sys._getframe(1).f_back
    caller = maker.f_back if maker else None
    return caller is not None and caller.f_globals.get("__file__") == _tool()


def _tool() -> str:
    triton = sys.modules["triton"]
    return os.path.join(os.path.dirname(triton.__file__ or ""), "tools", "compile.py")


# Triton looks for a class without abstract methods and fails at import when there is none. Nothing
# is ever an instance of this class, so it shall not matter which methods a later Triton adds.
SpirvBackend.__abstractmethods__ = frozenset()
