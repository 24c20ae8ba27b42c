"""How a plan asks which of several ways it takes: all give the same result, one is the fastest.

What was measured is kept by table, words and ranges of sizes (`_kernels.tunings`). A range is an
octave: sizes that are nearest to the same power of two. A plan asks with comparisons alone, so that
the ranges are guards of the call's class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .value_classes import value_class

__all__ = ["CONFIG", "Chooser", "Question", "bounds_of", "octave_of"]

#: The word of a call that asks for a choice, by name or by number.
CONFIG: Final = "config"
#: From this octave on all sizes are one.
_LAST: Final = 40


@value_class(frozen=True, slots=True)
class Question:
    """A question of a plan.

    Attributes:
        table: what is chosen: `matmul`, `rows`, or a kernel's name.
        words: what has to be the same for a measurement to hold, by name.
        sizes: in elements, by name; those of a measurement may be others of the same range.
        default: what is taken where nothing was measured.
        variants: those that are worth a trial, most promising first; without the default or with.
        read: from the text of a choice to the choice; None: there is no such choice here.
        text: of a choice.
        estimate: of a choice, how long it takes by a model, in any unit; None: there is no model.
        holds: whether a choice gives the same result here; None: each one does.
        origin: `default`, `measured` or `derived`: what stands behind the default.
        source: where that is written.
    """

    table: str
    words: Callable[[], Mapping[str, str]]
    sizes: Mapping[str, int]
    default: Any
    variants: Callable[[], Sequence[Any]]
    read: Callable[[str], Any]
    origin: str = "default"
    source: str = ""
    text: Callable[[Any], str] = str
    estimate: Callable[[Any], float] | None = None
    holds: Callable[[Any], bool] | None = None


#: Gives the choice; None: the default.
Chooser = Callable[[Question], Any]


def octave_of(size: int) -> int:
    """The power of two that a size is nearest to (3 for 6 to 11), found by comparisons."""
    low, high = 0, _LAST
    while low < high:
        middle = (low + high) // 2
        if size <= bounds_of(middle)[1]:
            high = middle
        else:
            low = middle + 1
    return low


def bounds_of(octave: int) -> tuple[int, int]:
    """The least and the largest size of an octave, both belong to it. Sizes below 1 are of 0."""
    low = _boundary(octave - 1) + 1 if octave else 0
    return low, _boundary(octave)


def _boundary(octave: int) -> int:
    """The last whole number below 2 ** (octave + 1/2)."""
    return int((1 << octave) * 2**0.5)
