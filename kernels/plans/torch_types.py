"""torch's type rules, for operators under torch's names: `torch.exp` of int8 is float32, and int64
beside float16 float16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xtarget.spec import ABSENT, ArrayType, Call, DtypeRules, Plan, ScalarType

__all__ = ["by_torchs_types", "dtypes_that_count"]

_DEFAULT = "float32"


def _kind(dtype: str) -> int:
    """0 for bool, 1 for integers, 2 for floating dtypes."""
    return 0 if dtype == "bool" else 2 if "float" in dtype else 1


class _TorchRules:
    """`xtarget.spec.DtypeRules` as torch has them. Source: `torch.result_type`."""

    def __init__(self, numpys: DtypeRules) -> None:
        self._numpys = numpys

    def promote(self, *dtypes: str) -> str:
        """The common dtype of the highest kind: integers do not widen a floating one."""
        given = [dtype for dtype in dtypes if dtype != ABSENT.dtype]
        highest = max(map(_kind, given))
        return self._numpys.promote(*(dtype for dtype in given if _kind(dtype) == highest))

    def floating(self, dtype: str) -> str:
        return dtype if _kind(dtype) == 2 else _DEFAULT

    def accumulated(self, dtype: str) -> str:
        return dtype if _kind(dtype) == 2 else "int64"


def dtypes_that_count(args: Sequence[ArrayType | ScalarType]) -> list[str]:
    """The dtypes of arguments as torch weighs them: an array of no dimension, and then a number,
    counts only where it is of a higher kind than those before it. A floating number is float32.
    """
    levels: tuple[list[str], ...] = ([], [], [])
    places = [0 if arg.shape else 1 if isinstance(arg, ArrayType) else 2 for arg in args]
    for place, arg in zip(places, args, strict=True):
        number = place == 2 and _kind(arg.dtype) == 2
        levels[place].append(_DEFAULT if number else arg.dtype)
    weighty: list[str] = []
    for level in levels:
        if level and max(map(_kind, level)) > max(map(_kind, weighty), default=-1):
            weighty = [dtype for dtype in level if _kind(dtype) == max(map(_kind, level))]
    return [arg.dtype if arg.dtype in weighty else weighty[0] for arg in args]


def by_torchs_types(plan: Callable[[Call], Plan]) -> Callable[[Call], Plan]:
    """The plan by torch's type rules."""
    return lambda call: plan(replace(call, rules=_TorchRules(call.rules)))
