"""Errors that make Triton's autotuner go on to the next configuration.

It does so for three of Triton's own. One of them is that NVIDIA's assembler refuses a kernel; a
configuration that LLVM or a run time's compiler cannot build here, or not in time, is the same.
Where every configuration fails, the autotuner launches one of them, and its error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from triton.runtime.errors import OutOfResources, PTXASError

from .._errors import CompileError, LoadError
from .._types import Artifact, DeviceInfo
from ..targets._spirv.backend import SpirvBackend

__all__ = ["TunableBackend", "check_resources", "not_built"]


class _KnownError(PTXASError):  # type: ignore[misc]
    def __str__(self) -> str:
        return Exception.__str__(self)  # Triton's writes "PTXAS error" before it


class TunableCompileError(CompileError, _KnownError):
    """A `CompileError` that the autotuner knows."""


class TunableLoadError(LoadError, _KnownError):
    """A `LoadError` that the autotuner knows."""


@contextmanager
def not_built() -> Iterator[None]:
    """Make the errors of compiling and loading such that the autotuner knows them."""
    try:
        yield
    except CompileError as error:
        raise TunableCompileError(str(error)) from error
    except LoadError as error:
        raise TunableLoadError(str(error)) from error


class TunableBackend(SpirvBackend):
    """The compiler, for Triton's own launching."""

    def add_stages(self, stages: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().add_stages(stages, *args, **kwargs)
        stages.update({name: _known(stage) for name, stage in stages.items()})


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
