"""`import triton`, whatever comes in between: Ctrl-C, or a call from a signal handler.

A package whose import is broken off leaves submodules in `sys.modules`. Its next import finds them
there and does not make them attributes of the package again ("no attribute 'knobs'").
"""

from __future__ import annotations

import sys
import typing
from typing import Any

from ..._system.life import at_exit
from ..._system.locks import Lock
from ..._values.errors import CompileError, NoCompilerError
from .replaced import imported_by_us

__all__ = ["END_VERSION", "INSTALL", "MIN_VERSION", "import_triton"]

MIN_VERSION, END_VERSION = (3, 6), (3, 10)
INSTALL = 'pip install "xtarget[compile]"'
_lock = Lock()
_checked: Any = None


def import_triton() -> Any:
    """Triton, of a version that we work with.

    Raises:
        NoCompilerError: it is not installed.
        CompileError: it is of another version, or this thread is just importing it.
    """
    global _checked
    if _checked is not None and sys.modules.get("triton") is _checked:
        return _checked
    if not _lock.mine:
        with _lock:
            _checked = _whole()
            return _checked
    raise CompileError(
        "a kernel has to be compiled while this thread is importing Triton: a signal handler or a "
        "finalizer (__del__) has called for it. Run the kernel once before, or do not run kernels "
        "in there."
    )


def _whole() -> Any:
    loaded = "triton" in sys.modules
    if not loaded:
        _forget_half()
    try:
        import triton
        import triton.compiler
    except ImportError as error:
        _forget_half()
        raise NoCompilerError(
            f"no compiler is installed (import triton: {error}), and no binary of this kernel is "
            f"in the cache. Install one with: {INSTALL}"
        ) from error
    except BaseException:
        _forget_half()
        raise
    if not (hasattr(triton, "knobs") and hasattr(triton, "compile")):
        if getattr(getattr(triton, "__spec__", None), "_initializing", False):
            raise CompileError(
                "a kernel has to be compiled while this thread is importing Triton. Run kernels "
                "after that."
            )
        _forget_half()
        import triton
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not MIN_VERSION <= version < END_VERSION:
        raise CompileError(
            f"Triton {triton.__version__} is not supported; this xtarget works with "
            f"{MIN_VERSION[0]}.{MIN_VERSION[1]} to {END_VERSION[0]}.{END_VERSION[1] - 1}. "
            f"Install one with: {INSTALL}"
        )
    if not loaded:
        imported_by_us()
    # typing remembers overloads, and torch keeps what typing remembers: Triton's types would live
    # longer than Python, of which nanobind prints a page
    at_exit(typing.clear_overloads)
    return triton


#: Our modules that are built from Triton's classes.
_MADE_OF_TRITON = ("xtarget._triton_backend", "xtarget.targets._spirv.frontend.backend")


def _forget_half() -> None:
    """Drop what a broken import has left, so that the next one starts from nothing: Triton, and the
    back ends that it has loaded. Libraries in machine code stay: they cannot be loaded a second
    time.
    """
    import importlib.metadata

    points = importlib.metadata.entry_points(group="triton.backends")
    packages = ("triton", *_MADE_OF_TRITON, *{point.value.partition(".")[0] for point in points})
    for name in list(sys.modules):
        inside = any(name == package or name.startswith(f"{package}.") for package in packages)
        blocked = sys.modules.get(name) is None  # by the program: an import of it shall fail
        if inside and not blocked and not name.startswith("triton._C"):
            sys.modules.pop(name, None)
