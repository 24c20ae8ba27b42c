"""Errors that make Triton's autotuner go on to the next configuration.

It does so for three of Triton's own. One of them is that NVIDIA's assembler refuses a kernel; a
configuration that LLVM or a run time's compiler cannot build here, or not in time, is the same.
Where every configuration fails, the autotuner launches one of them, and its error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from triton.runtime.errors import PTXASError

from .._values.errors import CompileError, FrozenError, LoadError

__all__ = ["not_built"]


class _KnownError(PTXASError):  # type: ignore[misc]  # Triton has no types
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
    except FrozenError:
        raise  # no other configuration shall be taken in its place
    except CompileError as error:
        raise TunableCompileError(str(error)) from error
    except LoadError as error:
        raise TunableLoadError(str(error)) from error
