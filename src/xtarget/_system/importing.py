"""Watch the imports of threads. A fork waits for the imports of other threads; a signal handler
stops within an import of its own thread.

A module that another thread was importing can never be imported in the child: Python's lock of that
module stays taken there. While a thread compiles a kernel, it imports this package, Triton, and the
modules that they need of the standard library and of other packages. So a fork waits until these
imports are done.

CPython has no public name for "does any thread import?". Where its private name is missing, a fork
does not wait. A lock of our own around our imports would not work. It would have to be held at each
`import` in our functions and in Triton's. And threads that import each other's modules would wait
for each other; Python's own locks notice this, and ours cannot.

A signal handler or finalizer that runs within an import sees half a module, and must not use it.

`import xtarget` imports this module first, so this module imports next to nothing.
"""

from __future__ import annotations

import _imp
import importlib
import sys
import time
from _thread import get_ident
from typing import Final

from .._values.errors import DriverError
from .life import around_fork

__all__ = ["INTERRUPTED", "check_imported"]

#: Imports that end soon, beside those of the standard library, by the first part of their names.
_END = frozenset(("xtarget", "xtarget_emulator", "xtarget_triton", "triton"))
#: Seconds that a fork waits at most for these; for others; for a lock that nobody holds, which is
#: about to be taken or not quite free.
_PATIENCE, _LESS, _MOMENT = 20.0, 2.0, 0.2


def _importing() -> list[tuple[str, int | None]]:
    """The modules that threads are importing, and which thread each: None where it is about to, or
    is just done."""
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    found = []
    for name, reference in list(locks.items()):
        lock = reference()  # it lives as long as somebody uses it
        if lock is not None and hasattr(lock, "owner"):
            found.append((name, lock.owner))
    return found


#: Packages of which half a module makes our answers wrong: ours, and what drivers stand on.
_OURS = frozenset({"xtarget", "xtarget_emulator", "llvmlite", "pyopencl", "dpctl", "cuda", "hip"})
#: Of Triton these. Its other modules may ask for the device while they are imported, as
#: `triton._internal_testing` does.
_OF_TRITON = frozenset({"", "_C", "_utils", "backends", "compiler", "knobs", "language", "runtime"})
#: The end of a message on what has to be whole, or there once, before it is used.
INTERRUPTED: Final = (
    "a signal handler or a finalizer (__del__) has called for it meanwhile. Use it once before "
    "these can come up, or do not use it in there."
)


def check_imported() -> None:
    """Refuse to continue inside an unfinished import of this thread. The caller is then a signal
    handler or a finalizer, sees a half-loaded module, and would report a vendor as absent.

    Raises:
        DriverError: there is such an import, of ours or of what we stand on.
    """
    here = get_ident()
    for name, owner in _importing():
        if owner != here:
            continue
        root, part = (*name.split("."), "")[:2]
        if root in _OURS or (root == "triton" and part in _OF_TRITON):
            raise DriverError(f"xtarget is still importing {name}: {INTERRUPTED}")


def _worth_waiting() -> float:
    """Return for how many seconds to wait for the imports of other threads; 0 without any."""
    here, longest = get_ident(), 0.0
    for name, owner in _importing():
        if owner == here:
            continue
        root = name.partition(".")[0]
        ends = root in _END or root in sys.stdlib_module_names
        longest = max(longest, _MOMENT if owner is None else _PATIENCE if ends else _LESS)
    return longest


def _before_fork() -> None:
    start = time.monotonic()
    while True:
        _imp.acquire_lock()  # nobody begins an import from here on, until `_after_fork`
        if time.monotonic() - start >= _worth_waiting():
            return
        _imp.release_lock()
        time.sleep(0.005)  # the import lock tells nobody of an end


around_fork(_before_fork, _imp.release_lock)
