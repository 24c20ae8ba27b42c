"""The back end that Triton asks which targets xtarget compiles for."""

from __future__ import annotations

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
        from xtarget._triton_backend.devices import default_options
        from xtarget._triton_backend.tuning import TunableBackend

        return TunableBackend.checked(target, default_options())

    @staticmethod
    def supports_target(target: Any) -> bool:
        return bool(target.backend == "spirv")


# Triton looks for a class without abstract methods and fails at import when there is none. Nothing
# is ever an instance of this class, so it shall not matter which methods a later Triton adds.
SpirvBackend.__abstractmethods__ = frozenset()
