"""Methods and slices of arrays while a function is traced: what NumPy and torch both know."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["METHODS", "part"]

#: Behind the end of any axis.
_END = 2**62
#: A call of an operator: name, arguments, options.
_Run = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]


def _reduced(kernel: str) -> Callable[..., Any]:
    def method(run: _Run, x: Any, *axis: Any, **named: Any) -> Any:
        options = {name: value for name, value in named.items() if value is not None}
        if axis:
            options["axis"] = axis[0] if len(axis) == 1 else axis
        return run(kernel, (x,), options)

    return method


def _reshape(run: _Run, x: Any, *shape: Any) -> Any:
    whole = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return run("reshape", (x,), {"shape": tuple(map(operator.index, whole))})


def _flatten(run: _Run, x: Any) -> Any:
    return run("reshape", (x,), {"shape": (-1,)})


def _squeeze(run: _Run, x: Any, axis: Any) -> Any:
    return run("squeeze", (x,), {"axis": axis})


#: By name, what an array's method does.
METHODS: Mapping[str, Callable[..., Any]] = {
    "all": _reduced("all"),
    "any": _reduced("any"),
    "flatten": _flatten,
    "mean": _reduced("mean"),
    "prod": _reduced("prod"),
    "ravel": _flatten,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "sum": _reduced("sum"),
}


def part(run: _Run, x: Any, key: Any, refuse: Callable[[], Any]) -> Any:
    """`x[key]`, for slices, integers, None and an ellipsis.

    Args:
        refuse: raises what is said of another key.
    """
    keys = [_plain(one, refuse) for one in (key if isinstance(key, tuple) else (key,))]
    if sum(one is Ellipsis for one in keys) > 1:
        refuse()
    used = sum(one is not None and one is not Ellipsis for one in keys)
    if used > x.ndim:
        refuse()
    every = [slice(None)] * (x.ndim - used)
    at = next((n for n, one in enumerate(keys) if one is Ellipsis), len(keys))
    keys[at : at + 1] = every
    slices: list[slice] = []
    gone: list[int] = []
    new: list[int] = []
    for one in keys:
        if one is None:
            new.append(len(slices) - len(gone) + len(new))
        elif isinstance(one, slice):
            slices.append(one)
        else:
            gone.append(len(slices))
            slices.append(slice(one, one + 1 if one != -1 else None, 1))
    while slices and slices[-1] == slice(None):
        slices.pop()
    if slices:
        bounds = [(one.start or 0, one.stop, one.step or 1) for one in slices]
        if any(step < 1 for _, _, step in bounds):
            refuse()
        starts, stops, steps = zip(*bounds, strict=True)
        ends = tuple(_END if stop is None else stop for stop in stops)
        x = run("strided_slice", (x,), {"starts": starts, "stops": ends, "steps": steps})
    if gone:
        x = run("squeeze", (x,), {"axis": tuple(gone)})
    return run("expand_dims", (x,), {"axis": tuple(new)}) if new else x


def _plain(key: Any, refuse: Callable[[], Any]) -> Any:
    """A key with integers of Python in it."""
    if key is None or key is Ellipsis:
        return key
    if isinstance(key, slice):
        bounds = (key.start, key.stop, key.step)
        return slice(*(None if one is None else operator.index(one) for one in bounds))
    if isinstance(key, bool) or not hasattr(key, "__index__"):
        refuse()
    try:
        return operator.index(key)
    except TypeError:  # an array of several
        return refuse()
