"""An operand that can be read, and the error for what is not executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from xtarget._values.errors import UnsupportedInstruction

from .decode import Instruction
from .memory import Array
from .waves import Waves

__all__ = ["Get", "Source", "unsupported"]

Get: TypeAlias = Callable[[Waves], Array]


def unsupported(ins: Instruction, what: str = "") -> UnsupportedInstruction:
    """The error for something that is not executed."""
    form = f" ({what})" if what else ""
    return UnsupportedInstruction(
        f"the emulator does not execute {ins}{form} of {ins.arch}. Run the kernel on a GPU, or "
        "report it with the kernel's source."
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A readable operand.

    Attributes:
        get: the value.
        reads: its registers, as `Waves.undefined` numbers them.
        lanes: for a moved (DPP) operand, the lanes that may be written, or None for all active.
        blank: for a moved operand, the lanes that would read nothing.
    """

    get: Get
    reads: tuple[int, ...]
    lanes: Callable[[Waves], Array | None] | None = None
    blank: Callable[[Waves], Array | None] | None = None
