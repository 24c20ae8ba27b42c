"""A convolution as numbers: what its plans hand each other."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from xtarget import spec

from .alongside import NOTHING
from .windows import Windows, three

__all__ = ["KINDS", "LOOSE", "Operands", "Problem", "of_windows", "weight_strides"]

_Ints = tuple[int, ...]
#: Of the tiles for a dtype.
KINDS: Final = {"float16": "half", "bfloat16": "half", "float32": "single", "float64": "double"}


class Problem(NamedTuple):
    """A convolution over three axes.

    Attributes:
        rank: so many of the last axes have windows.
        rows, channels: of the result and of `x`, in one group.
        out_shape, in_shape, kernel: of the three axes.
        along, before, dilation: tap k of window o is at o * along - before + k * dilation,
        up: and elements of `x` are so far apart; None: side by side.
        sx, so: strides of samples, channels, and three axes.
        sw: strides of groups, channels of the result, channels of `x`, and three axes.
        from_weight, from_out: where weights and result begin.
    """

    rank: int
    samples: int
    groups: int
    rows: int
    channels: int
    out_shape: _Ints
    in_shape: _Ints
    kernel: _Ints
    along: _Ints
    before: _Ints
    dilation: _Ints
    up: _Ints | None
    sx: _Ints
    sw: _Ints
    so: _Ints
    from_weight: int = 0
    from_out: int = 0

    @property
    def positions(self) -> int:
        return self.samples * math.prod(self.out_shape)

    @property
    def products(self) -> int:
        return self.positions * self.groups * self.rows * self.channels * math.prod(self.kernel)

    def turned(self) -> Problem:
        """From the result to `x`: the gradient of a convolution."""
        return self._replace(
            rows=self.channels,
            channels=self.rows,
            out_shape=self.in_shape,
            in_shape=self.out_shape,
            along=(1, 1, 1),
            before=tuple(-b for b in self.before),
            dilation=tuple(-d for d in self.dilation),
            up=self.along,
            sx=self.so,
            sw=(self.sw[0], self.sw[2], self.sw[1], *self.sw[3:]),
            so=self.sx,
        )

    def numbers(self) -> dict[str, spec.Argument]:
        """The arguments that all kernels take, by the parameters' names."""
        return {
            "positions": self.positions,
            "groups": self.groups,
            "rows": self.rows,
            "channels": self.channels,
            "tap_count": math.prod(self.kernel),
            "out_shape": self.out_shape,
            "in_shape": self.in_shape,
            "kernel": self.kernel,
            "along": self.along,
            "before": self.before,
            "dilation": self.dilation,
            "from_weight": self.from_weight,
            "from_out": self.from_out,
        }


#: Those of `Problem.numbers` whose values are in no binary, of the kernels that read tiles by tap.
LOOSE: Final = ("groups", "out_shape", "in_shape", "kernel", "along", "before", "dilation")


class Operands(NamedTuple):
    """Where the arrays of a convolution are.

    Attributes:
        dtype: of `x` and `weight`.
        temporaries: those of the plan, to which launches add their own.
    """

    x: spec.Input | spec.Temporary
    weight: spec.Input | spec.Temporary
    bias: spec.Argument | None
    out: spec.Output
    dtype: str
    temporaries: list[spec.ArrayType]

    def given(self) -> dict[str, spec.Argument]:
        """Arguments by name."""
        bias = {} if self.bias is None else {"bias": self.bias}
        return {"x": self.x, "weight": self.weight, "out": self.out, **bias}

    def absent(self) -> dict[str, None]:
        """The arguments that are left out, as constants."""
        return {**NOTHING, **({"bias": None} if self.bias is None else {})}


def weight_strides(weight: spec.ArrayType, groups: int) -> _Ints:
    """`Problem.sw` of weights, whose first axis has the channels of all groups."""
    sw = weight.strides
    return (weight.shape[0] // groups * sw[0], *sw[:2], *three(sw[2:], 0))


def of_windows(
    x: spec.ArrayType, weight: spec.ArrayType, out: spec.ArrayType, windows: Windows, groups: int
) -> Problem:
    """A plain convolution; arrays have their channels second."""
    return Problem(
        x.ndim - 2,
        x.shape[0],
        groups,
        weight.shape[0] // groups,
        weight.shape[1],
        three(windows.out, 1),
        three(x.shape[2:], 1),
        three(windows.kernel, 1),
        three(windows.stride, 1),
        three(windows.before, 0),
        three(windows.dilation, 1),
        None,
        (*x.strides[:2], *three(x.strides[2:], 0)),
        weight_strides(weight, groups),
        (*out.strides[:2], *three(out.strides[2:], 0)),
    )
