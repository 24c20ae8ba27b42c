"""Windows that slide over the axes of an array behind samples and channels: their options, and the
shapes that come of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xtarget import spec

from .movement import integers

__all__ = ["Windows", "each_axis", "fitting", "ordered", "padding_of", "rank_of", "three", "turned"]

_Ints = tuple[int, ...]
#: Axes that windows slide over.
_MOST = 3


class Windows(NamedTuple):
    """Windows over one to three axes.

    Attributes:
        kernel, stride, dilation, before, after: by axis.
        out: how many windows there are.
    """

    kernel: _Ints
    stride: _Ints
    dilation: _Ints
    before: _Ints
    after: _Ints
    out: _Ints


def three(values: Sequence[int], fill: int) -> _Ints:
    """Values of three axes; those that are missing are in front."""
    return (*(fill,) * (_MOST - len(values)), *values)


def each_axis(call: spec.Call, name: str, rank: int, least: int = 1) -> _Ints:
    """An option that is one number for all axes, or one for each.

    Raises:
        ArgumentError: it is not, or a number is below `least`.
    """
    values = integers(call, name)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} has {len(values)} numbers for {rank} axes; it has to be one, "
            "or one for each axis."
        )
    if min(values) < least:
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {call.options[name]!r}; no number may be below {least}."
        )
    return values


def rank_of(call: spec.Call, ndim: int, rank: int | None) -> int:
    """How many axes there are behind samples and channels.

    Args:
        rank: what the operator takes; None: one to three.

    Raises:
        ArgumentError: the array has others.
    """
    found = ndim - 2
    if found != rank if rank else not 1 <= found <= _MOST:
        wanted = rank + 2 if rank else f"3 to {_MOST + 2}"
        raise spec.ArgumentError(
            f"{call.kernel}: x has {ndim} dimensions; it needs {wanted}: samples, channels, and "
            f"{rank or f'1 to {_MOST}'} that windows slide over."
        )
    return found


def ordered(call: spec.Call, array: spec.ArrayType) -> spec.ArrayType:
    """The array with its channels second, wherever the option `channels_last` says they are."""
    if not call.options.get("channels_last"):
        return array
    order = (0, array.ndim - 1, *range(1, array.ndim - 1))
    return spec.ArrayType(
        array.dtype,
        tuple(array.shape[i] for i in order),
        tuple(array.strides[i] for i in order),
    )


def turned(call: spec.Call, shape: _Ints) -> _Ints:
    """A shape with channels second as that of the caller's array."""
    return (shape[0], *shape[2:], shape[1]) if call.options.get("channels_last") else shape


def padding_of(
    call: spec.Call, lengths: _Ints, kernel: _Ints, stride: _Ints, dilation: _Ints
) -> tuple[_Ints, _Ints]:
    """The lengths that the option `padding` adds before and after each axis.

    Raises:
        ArgumentError: it is not a number, no number for each axis, no pairs in one row, and neither
            'same' nor 'valid'.
    """
    rank, given = len(lengths), call.options["padding"]
    if isinstance(given, str):
        if given not in ("same", "valid"):
            raise spec.ArgumentError(
                f"{call.kernel}: padding is {given!r}; it has to be 'same', 'valid', or numbers."
            )
        if given == "valid":
            return (0,) * rank, (0,) * rank
        reach = (d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
        whole = tuple(
            max((spec.cdiv(n, s) - 1) * s + r - n, 0)
            for n, s, r in zip(lengths, stride, reach, strict=True)
        )
        return tuple(w // 2 for w in whole), tuple(w - w // 2 for w in whole)
    values = integers(call, "padding")
    if len(values) == 1:
        values *= rank
    if len(values) not in (rank, 2 * rank):
        raise spec.ArgumentError(
            f"{call.kernel}: padding has {len(values)} numbers for {rank} axes; it has to be one, "
            "one for each axis, or a pair for each, in one row."
        )
    if min(values) < 0:
        raise spec.ArgumentError(f"{call.kernel}: padding is {given!r}; no number may be below 0.")
    if len(values) == rank:
        return values, values
    return values[::2], values[1::2]


def fitting(call: spec.Call, lengths: _Ints, kernel: _Ints, *, ceil: bool = False) -> Windows:
    """The windows over axes of these lengths, by the options stride, padding and dilation.

    Args:
        ceil: a last window may reach past the padding, if it begins before it; so may the only
            one.

    Raises:
        ArgumentError: there is no window.
    """
    rank = len(lengths)
    given = call.options["stride"]
    stride = kernel if given is None else each_axis(call, "stride", rank)
    has = "dilation" in call.options
    dilation = each_axis(call, "dilation", rank) if has else (1,) * rank
    before, after = padding_of(call, lengths, kernel, stride, dilation)
    out = []
    for n, k, s, d, b, a in zip(lengths, kernel, stride, dilation, before, after, strict=True):
        free = n + b + a - d * (k - 1) - 1
        if free < 0 and not (ceil and free > -s):
            raise spec.ArgumentError(
                f"{call.kernel}: a window of {k} elements with dilation {d} reaches over "
                f"{d * (k - 1) + 1}, and the axis has {n + b + a} with its padding. Give a smaller "
                "one, or more padding."
            )
        count = free // s + 1
        if ceil:
            count = spec.cdiv(free, s) + 1
            # the last one begins inside of the array or of the padding before it
            if (count - 1) * s >= n + b:
                count -= 1
        out.append(count)
    return Windows(kernel, stride, dilation, before, after, tuple(out))
