"""Transposed convolutions with a stride, as several plain ones: elements of the result that are as
far apart as the stride need the same taps.
"""

from __future__ import annotations

import itertools
import math
from typing import Final, NamedTuple

from xtarget import spec

from .problems import Problem

__all__ = ["apart", "divides"]

#: Launches of one call.
_MOST: Final = 8


class _Phase(NamedTuple):
    """Along one axis: the elements first, first + up, ... of the result.

    Attributes:
        tap, taps, step: the first tap that they need, how many there are, and how far apart.
    """

    first: int
    out: int
    before: int
    dilation: int
    tap: int
    taps: int
    step: int


def divides(problem: Problem) -> bool:
    """Whether `apart` leaves no `up`."""
    return problem.up is None or math.prod(problem.up) <= _MOST


def apart(problem: Problem) -> list[Problem]:
    """The problem without `up`, as several: or as it is, where there were too many."""
    p = problem
    if p.up is None or not divides(p):
        return [p]
    axes = [_phases(p, axis) for axis in range(3)]
    return [_one(p, phases) for phases in itertools.product(*axes)]


def _phases(p: Problem, axis: int) -> list[_Phase]:
    assert p.up is not None
    up, before, dilation = p.up[axis], p.before[axis], p.dilation[axis]
    found = []
    for first in range(min(up, p.out_shape[axis])):
        out = spec.cdiv(p.out_shape[axis] - first, up)
        # tap k reads an element where first - before + k * dilation is a multiple of up
        step = up // math.gcd(up, dilation)
        for tap in range(min(step, p.kernel[axis])):
            if (first - before + tap * dilation) % up == 0:
                start = (first - before + tap * dilation) // up
                taps = spec.cdiv(p.kernel[axis] - tap, step)
                own = _Phase(first, out, -start, dilation * step // up, tap, taps, step)
                break
        else:
            own = _Phase(first, out, 0, 1, 0, 0, 1)
        found.append(own)
    return found


def _one(p: Problem, phases: tuple[_Phase, ...]) -> Problem:
    assert p.up is not None
    sw, so = p.sw[3:], p.so[2:]
    return p._replace(
        out_shape=tuple(one.out for one in phases),
        kernel=tuple(one.taps for one in phases),
        before=tuple(one.before for one in phases),
        dilation=tuple(one.dilation for one in phases),
        up=None,
        sw=(*p.sw[:3], *(s * one.step for s, one in zip(sw, phases, strict=True))),
        so=(*p.so[:2], *(s * up for s, up in zip(so, p.up, strict=True))),
        from_weight=p.from_weight + sum(s * o.tap for s, o in zip(sw, phases, strict=True)),
        from_out=p.from_out + sum(s * o.first for s, o in zip(so, phases, strict=True)),
    )
