"""The compiled core of launching (C, the stable ABI of Python 3.11), where it was built.

It answers calls that Python has made before; every other call, every message and every decision is
Python's, which does the same without it. `python.h` says what the files hold; what does not include
it knows no Python.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import suppress
from functools import cache
from typing import Any

from .._values import environment
from .._values.errors import ArgumentError, LoadError

__all__ = ["native", "told"]

#: Goes up with each change of what Python and C tell each other; `python.h` has it too.
_INTERFACE = 20


@cache
def native() -> Any:
    """The module of the core; None: there is none that fits, or `XTARGET_CORE` is `python`.

    Raises:
        LoadError: `XTARGET_CORE` is `c`, and there is none that fits.
    """
    chosen = environment.core()
    if chosen == "python":
        return None
    found, why = _import()
    if found is None and chosen == "c":
        raise LoadError(
            f"XTARGET_CORE=c, but {why or 'the compiled core was not built'}. Install xtarget "
            "again where there is a C compiler, or unset XTARGET_CORE."
        )
    if why:
        warnings.warn(f"{why}; launches are made without it.", RuntimeWarning, stacklevel=2)
    return found


def _import() -> tuple[Any, str]:
    """The module, or why the one that is there is not used."""
    try:
        found = importlib.import_module(f"{__name__}._native")
    except ModuleNotFoundError:
        return None, ""
    except ImportError as error:  # of another processor, or another C library
        return None, f"the compiled core cannot be loaded ({error})"
    version = sys.modules[__name__.partition(".")[0]].__version__
    theirs, ours = (found.VERSION, found.INTERFACE), (version, _INTERFACE)
    if theirs != ours:
        return None, (
            f"the compiled core {found.__file__} is of xtarget {found.VERSION} (interface "
            f"{found.INTERFACE}), and this is {version} ({_INTERFACE}): install xtarget again"
        )
    return found, ""


def told() -> str:
    """The core that makes launches, in words for people."""
    chosen = None
    with suppress(ArgumentError):  # told elsewhere
        chosen = environment.core()
    if chosen == "python":
        return "python (XTARGET_CORE=python)"
    found, why = _import()
    return f"python ({why or 'the compiled one was not built'})" if found is None else "c"
