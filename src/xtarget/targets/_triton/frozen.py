"""`XTARGET_COMPILE`: whether anything may be compiled, asked wherever something is about to be."""

from __future__ import annotations

from ..._values.environment import compile_mode
from ..._values.errors import FrozenError

__all__ = ["check_compile", "check_machine_code"]


def check_compile(what: str, hint: str = "") -> None:
    """Before a compilation.

    Args:
        what: which kernel is missing, and where, as a sentence without its full stop.
        hint: what else there is to know, as sentences.

    Raises:
        FrozenError: `XTARGET_COMPILE` forbids it.
    """
    mode = compile_mode()
    if mode == "error":
        raise FrozenError(
            f"{what}; XTARGET_COMPILE=error forbids to compile it. Run the call once with "
            f"XTARGET_COMPILE=allow to put it there, or see `xtarget cache why`. {hint}".rstrip()
        )
    if mode == "warn":
        import logging

        logging.getLogger("xtarget.cache").warning("%s; it is compiled now.", what)


def check_machine_code(entry: str, device: str, form: str = "SPIR-V") -> None:
    """Before a run time compiles a binary that is portable.

    Raises:
        FrozenError: `XTARGET_COMPILE` forbids it.
    """
    check_compile(
        f"The kernel {entry} is there as {form}, and its machine code for {device} is not in the "
        "cache"
    )
