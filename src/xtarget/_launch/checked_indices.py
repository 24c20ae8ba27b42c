"""Indices that are compared with what they are for, before a launch.

Kernels stay within their arrays whatever the indices are. To find a mistake, ask for the
check: the option `check` of a call, or `XTARGET_CHECK=1` for all, which may be set at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from .. import _core
from .._arrays import view_of
from .._values import environment
from .._values.errors import ArgumentError
from ..spec import ArrayType, KernelSpec

__all__ = ["IndexCheck", "index_check", "setting_holds"]

_NAME: Final = "XTARGET_CHECK"
_read = environment.check_reader()


def index_check(spec: KernelSpec, options: Mapping[str, Any]) -> IndexCheck | None:
    """The check of a call's indices before each launch; None: nothing is checked."""
    whole = {**spec.options, **options}
    wanted = spec.bounds is not None and (whole.get("check") or environment.check_indices())
    return IndexCheck(spec, whole) if wanted else None


def setting_holds(spec: KernelSpec, options: Mapping[str, Any]) -> Callable[[], bool] | None:
    """A function that tells whether `XTARGET_CHECK` is as it is now; None: a call does not depend
    on it."""
    if spec.bounds is None or {**spec.options, **options}.get("check"):
        return None
    core = _core.native()
    if core is not None:
        told: Callable[[], bool] = core.setting(_NAME.encode())
        return told
    now = _read()
    return lambda: _read() == now


class IndexCheck:
    """Refuses a launch with an index that is outside of its array."""

    def __init__(self, spec: KernelSpec, options: Mapping[str, Any]) -> None:
        assert spec.bounds is not None
        self._spec, self._options, self._bounds = spec, options, spec.bounds

    def __call__(self, args: Sequence[Any], out: Any) -> None:
        """Args:
            args: of the call.

        Raises:
            ArgumentError: an index is too large, or too small to count from the end.
        """
        # both stand above this file
        observe, run = (import_module(f"{__package__}.{name}") for name in ("observe", "run"))
        if observe.recording():  # what is captured has no values yet
            return
        types = [view_of(arg).type if hasattr(arg, "shape") else None for arg in args]
        shapes = [() if type_ is None else type_.shape for type_ in types]
        for place, lengths in self._bounds(shapes, self._options).items():
            type_ = types[place]
            if type_ is not None and type_.size:
                self._check(run.run, place, args[place], type_, lengths)

    def _check(
        self,
        run: Any,
        place: int,
        index: Any,
        type_: ArrayType,
        allowed: tuple[int, ...] | range,
    ) -> None:
        dtype, shape = type_.dtype, type_.shape
        lengths = (len(allowed),) if isinstance(allowed, range) else allowed
        limits = np.array(lengths, "uint64" if dtype == "uint64" else "int64")
        outside = run("ge", index, limits)
        if dtype.startswith("int"):
            lowest = limits * 0 if isinstance(allowed, range) else -limits
            outside = run("logical_or", outside, run("lt", index, lowest))
        if not bool(run("any", outside)):
            return
        where = np.unravel_index(int(run("argmax", outside)), shape)
        value = int(run("gather_nd", index, np.array(where, np.int64)))
        own = lengths[int(where[-1])] if len(lengths) > 1 else lengths[0]
        name = self._spec.inputs[place].rstrip("?")
        at = f"[{', '.join(map(str, map(int, where)))}]" if shape else ""
        if isinstance(allowed, range):
            raise ArgumentError(
                f"{self._spec.name}: {name}{at} is {value}. It has to be from 0 to {own - 1}."
            )
        least = -own if dtype.startswith("int") else 0
        raise ArgumentError(
            f"{self._spec.name}: {name}{at} is {value}, for an axis of length {own}. An index has "
            f"to be from {least} to {own - 1}."
        )
