"""Calls that NumPy's reference serves on the host, because somebody has asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._arrays import View, adopt, is_scalar, view_of
from .._arrays.dtypes import numpy_dtype
from .._arrays.host import KIND as HOST
from .._arrays.host import host_view, laid_out
from .._devices import registry
from .._kernels import libraries
from .._kernels.references import answers
from .._values.choosing import CONFIG
from .._values.errors import ArgumentError
from .._values.types import DTYPES, Target
from ..spec import ArrayType, contiguous_strides
from .arguments import placed
from .planning import plan_of_layouts
from .staging import write
from .untold import check_found

__all__ = ["run_reference"]

#: Shapes and dtypes of results are the same for every target.
_PLANNED_FOR = Target("nvidia", "sm_90")


def run_reference(kernel: str, args: tuple[Any, ...], out: Any, options: Mapping[str, Any]) -> Any:
    """Compute a call by the kernel's reference: arrays are copied to the host, results back.

    Args:
        args, out, options: as `xtarget.run` is given them.

    Returns:
        what `run` returns: of the same library, at the same place, of the same dtype.

    Raises:
        ArgumentError: the kernel has no reference, or writes in place; the arguments do not fit.
    """
    args, given = placed(kernel, args, dict(options))
    found = libraries.find(kernel)
    spec = found.spec
    if CONFIG not in spec.options:
        given.pop(CONFIG, None)  # says how a kernel computes
    if spec.reference is None or spec.updates:
        what = "writes in place" if spec.updates else "has no reference"
        raise ArgumentError(
            f"{spec.name} {what}, so NumPy cannot serve it on the host. Leave impl= and fallback= "
            "out."
        )
    adopted = [v if v is None or is_scalar(v) else adopt(v) for v in args]
    views = [None if v is None or is_scalar(v) else view_of(v) for v in adopted]
    values = [
        v if view is None else _on_the_host(view) for v, view in zip(adopted, views, strict=True)
    ]
    layouts = [v if view is None else view.type for v, view in zip(adopted, views, strict=True)]
    plan, _, _ = plan_of_layouts(found, layouts, given, _PLANNED_FOR)
    check_found(spec, layouts, given)
    floating = bool(plan.outputs) and DTYPES[plan.outputs[0].dtype].kind == "f"
    right = answers(spec, values, given, floating=floating)
    with np.errstate(all="ignore"):
        results = [
            np.ascontiguousarray(np.asarray(one).astype(numpy_dtype(type_.dtype)))
            .reshape(np.shape(one))
            for one, type_ in zip(right, plan.outputs, strict=False)  # others only count
        ]  # fmt: skip
    if out is None:
        like = next((v for v in views if v is not None and v.place), None)
        like = like or next((v for v in views if v is not None), None)
        made = tuple(_like(like, result) for result in results)
        return made[0] if len(made) == 1 else made
    goals = [out] if len(results) == 1 else _goals(spec.outputs, out)
    if len(goals) != len(results):
        raise ArgumentError(f"{spec.name} gives {len(results)} results; out has {len(goals)}.")
    for goal, result in zip(goals, results, strict=True):
        _store(spec.name, view_of(adopt(goal)), result)
    return out


def _goals(names: Sequence[str], out: Any) -> list[Any]:
    return [out[name] for name in names] if isinstance(out, Mapping) else list(out)


def _on_the_host(view: View) -> Any:
    """The array's elements as they are when the caller's own work is done."""
    if view.place is None:
        return host_view(view.address, view.type, view.owner)
    device = registry.open_device(view.place)
    (low, high), itemsize = view.type.span, view.type.itemsize
    nbytes = (high - low) * itemsize
    values = np.empty(nbytes, np.uint8)
    stream = view.kind.current_stream(device, view.owner) or device.default_stream
    stream.synchronize()
    if nbytes:
        start = view.address + low * itemsize
        device.borrow(start, nbytes).read(values.data, stream)
        stream.synchronize()
    return laid_out(values, view.type)


def _like(like: View | None, result: Any) -> Any:
    """A result as an array of the library of `like`, where that lies."""
    if like is None or (like.place is None and like.kind is HOST):
        return result
    shape = result.shape
    type_ = ArrayType(result.dtype.name, shape, contiguous_strides(shape))
    device = registry.open_device(like.place) if like.place else None
    made = like.kind.empty(type_, device, like.owner)  # type: ignore[arg-type]  # host kinds ask for none
    _store("result", view_of(adopt(made)), result)
    finish = getattr(like.kind, "finish", None)
    return made if finish is None else finish(made, like.owner)


def _store(name: str, goal: View, result: Any) -> None:
    type_ = goal.type
    if type_.shape != result.shape or type_.dtype != result.dtype.name:
        raise ArgumentError(
            f"{name}: out has shape {type_.shape} and dtype {type_.dtype}, but the result has "
            f"shape {result.shape} and dtype {result.dtype.name}. Give such an out, or leave it "
            "out."
        )
    if not goal.writable:
        raise ArgumentError(f"{name}: out is read-only. Give a writable array.")
    if goal.place is None:
        host_view(goal.address, type_, goal.owner)[...] = result
        return
    if not type_.contiguous:
        raise ArgumentError(
            f"{name}: out lies on {goal.place} and is not C-contiguous, so a result of the host "
            "cannot be copied there. Give a contiguous out, or leave it out."
        )
    device = registry.open_device(goal.place)
    stream = goal.kind.current_stream(device, goal.owner) or device.default_stream
    if result.nbytes:
        packed = np.ascontiguousarray(result)
        source = HOST.view(packed)
        write(device.borrow(goal.address, result.nbytes), source, stream)
        stream.synchronize()
