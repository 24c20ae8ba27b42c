"""The compiler and the check of resources for Triton's own launching, in whose errors Triton's
autotuner sees that it has to go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from triton.runtime.errors import OutOfResources

from .._values.environment import compile_seconds
from .._values.types import Artifact, DeviceInfo
from ..targets._spirv.frontend.backend import SpirvBackend
from ..targets._triton import files
from ..targets._triton.frozen import check_compile
from .tunable import not_built

__all__ = ["TunableBackend", "check_resources"]


class TunableBackend(SpirvBackend):
    """The compiler, for Triton's own launching."""

    def add_stages(self, stages: dict[str, Any], options: Any, *args: Any, **kwargs: Any) -> None:
        """Called where Triton's cache has no binary. The first stage is where it may end."""
        inside = files.is_inside()  # `_compile.functions` has asked already, and keeps the limit
        seconds = None if inside else compile_seconds()
        self._starts_llvm = seconds is None
        super().add_stages(stages, options, *args, **kwargs)
        if seconds is not None:
            from .limited import limit, limit_front_end

            limit_front_end()
            limit(stages, options, seconds)
        stages.update({name: _known(stage) for name, stage in stages.items()})
        if not inside:
            first = next(iter(stages))
            stages[first] = _if_allowed(stages[first], options)


def _if_allowed(stage: Callable[..., Any], options: Any) -> Callable[..., Any]:
    @wraps(stage)
    def build(module: Any, *args: Any) -> Any:
        name = getattr(module, "get_entry_func_name", lambda: "a kernel")()
        check_compile(
            f"The kernel {name} for spirv is not in Triton's cache in this specialization (num_"
            f"warps={options.num_warps}, num_stages={options.num_stages})"
        )
        return stage(module, *args)

    return build


def _known(stage: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(stage)
    def build(*args: Any) -> Any:
        with not_built():
            return stage(*args)

    return build


def check_resources(artifact: Artifact, info: DeviceInfo) -> None:
    """Before loading.

    Raises:
        OutOfResources: Triton's; the device is too small for a block.
    """
    threads = artifact.block[0]
    if threads > info.max_threads_per_block:
        raise OutOfResources(threads, info.max_threads_per_block, "threads")
    if artifact.shared_bytes > info.max_shared_bytes:
        raise OutOfResources(artifact.shared_bytes, info.max_shared_bytes, "shared memory")
