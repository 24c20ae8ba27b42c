"""`xtarget.split`: one call cut into parts along the first axis, for several devices at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._arrays import is_scalar
from .._arrays.dtypes import numpy_dtype
from .._devices import registry
from .._kernels import libraries
from .._system.locks import Lock
from .._values.errors import ArgumentError, shortened
from .._values.types import Target
from ..spec import ArrayType, KernelSpec
from ..targets.base import Stream
from .arguments import placed
from .planning import plan_of_layouts
from .run import run
from .split_parts import run_parts
from .split_pieces import in_pieces, work_off

__all__ = ["along", "split"]

#: The newest measurement counts as much as all before it.
_NEWEST = 0.5
#: Speeds that are known at once; the oldest go.
_MOST_SPEEDS = 4096

#: Elements of the first axis in a second, by kernel, layouts behind the first axis, and device.
_speeds: dict[tuple[Any, ...], float | None] = {}
_lock = Lock()


def split(
    kernel: str,
    /,
    *args: Any,
    devices: Sequence[Any],
    out: Any = None,
    **options: Any,
) -> Any:
    """Run a kernel on several devices at once, of one vendor or of several.

    The call is cut along the first axis of its results, and each device gets a part as large as it
    was fast before: the first call is cut evenly, and what it takes is not counted, as it compiles.
    For elementwise kernels with any broadcasting; softmaxes, scans, sorting and reductions along
    other axes than the first, layer_norm, rms_norm, and what else says in its spec what it works
    `along`; matmul, of which the first argument's rows or batches are cut. A large part goes to a
    device with memory of its own in pieces, some of which are copied while others are computed.

    Args:
        kernel: name of the kernel.
        args: arrays of the host (NumPy), and numbers, as for `run`. Or arrays that lie on the
            devices: each argument a list with one array for each, its part along the first axis,
            or all of what every device needs. They stay where they are.
        devices: names of devices, each once.
        out: an array of the host for the result, of kernels that have one; of parts, a list.
        options: the kernel's options.

    Returns:
        an array of the host, or a tuple of them; of parts, lists with one array on each device,
        whose launches nobody has waited for.

    Raises:
        ArgumentError: the kernel cannot be cut, or the arguments are not what it takes.
        NoDeviceError: there is no such device.
    """
    names = _names(devices)
    args, options = placed(kernel, args, options)
    registered = libraries.find(kernel)
    spec = registered.spec
    if any(isinstance(arg, list) for arg in args):
        target = _target(names[0])

        def cut_of(arrays: Sequence[Any]) -> list[bool]:
            plan = plan_of_layouts(registered, arrays, options, target)[0]
            return _cut(spec, arrays, {**spec.options, **options}, plan.outputs)

        return run_parts(spec, args, options, names, out, cut_of)
    given = tuple(_of_host(spec.name, arg) for arg in args)
    plan = plan_of_layouts(registered, given, options, _target(names[0]))[0]
    if out is not None and len(plan.outputs) != 1:
        raise ArgumentError(
            f"{spec.name} has {len(plan.outputs)} results, and split takes out= for one. Leave out "
            "out, and take what is returned."
        )
    cut = _cut(spec, given, {**spec.options, **options}, plan.outputs)
    result = plan.outputs[0]
    made = [_result(spec.name, type_, out) for type_ in plan.outputs]
    _check_apart(spec.name, made[0], given)
    rows = result.shape[0]
    key = (spec.name, tuple(map(_behind_the_first, given)), repr(sorted(options.items())))
    bounds = _bounds(rows, [_speeds.get((*key, name)) for name in names])

    def compute(name: str, low: int, high: int, stream: Stream | None) -> None:
        parts = [a[low:high] if whole else a for a, whole in zip(given, cut, strict=True)]
        if len(made) == 1:
            run(kernel, *parts, out=made[0][low:high], device=name, stream=stream, **options)
            return
        results = run(kernel, *parts, device=name, stream=stream, **options)
        for array, result in zip(made, results, strict=True):
            array[low:high] = result

    moved = [(a, whole) for a, whole in zip(given, cut, strict=True) if isinstance(a, np.ndarray)]
    works: list[tuple[str, list[tuple[int, int]]]] = []  # none of a result without rows
    for name, low, high in zip(names, bounds, bounds[1:], strict=False):
        if low < high:
            pieces = in_pieces(registry.open_device(name), moved, made, high - low)
            works.append((name, [(low + start, low + end) for start, end in pieces]))
    for (name, pieces), took in zip(works, work_off(works, compute), strict=True):
        _measured((*key, name), (pieces[-1][1] - pieces[0][0]) / max(took, 1e-9))
    _check_updates(libraries.find(kernel).spec, cut)  # undeclared stores are known now
    return made[0] if len(made) == 1 else tuple(made)


def _names(devices: Any) -> list[str]:
    if isinstance(devices, str) or not devices:
        raise ArgumentError(
            f"split: devices is {shortened(devices)}; give a list of names, for example "
            'devices=["nvidia:0", "nvidia:1"].'
        )
    names = [registry.find_device(device) for device in devices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"split: the device {twice} is named twice. Name each once.")
    return names


def _target(name: str) -> Target:
    return registry.open_device(name).info.target


def _of_host(kernel: str, arg: Any) -> Any:
    if arg is None or is_scalar(arg) or isinstance(arg, np.ndarray):
        return arg
    raise ArgumentError(
        f"{kernel}: split takes arrays of the host (NumPy) and numbers, not a "
        f"{type(arg).__name__}. Copy it to the host first, or use run."
    )


def _behind_the_first(arg: Any) -> Any:
    if isinstance(arg, np.ndarray):
        return arg.dtype.str, arg.shape[1:], arg.ndim
    return type(arg).__name__


def _cut(
    spec: KernelSpec, args: Sequence[Any], options: Mapping[str, Any], results: Sequence[ArrayType]
) -> list[bool]:
    """For each argument, whether it is cut along its first axis; others go to every device whole.

    Raises:
        ArgumentError: the kernel cannot be cut there.
    """
    cut = _axis_cut(spec, args, options, results)
    _check_updates(spec, cut)
    return cut


def _check_updates(spec: KernelSpec, cut: Sequence[bool]) -> None:
    """Each device would write a whole array of its own, or all of them the same one.

    Raises:
        ArgumentError: the kernel updates what is not cut.
    """
    for name, part in zip(spec.inputs, cut, strict=False):
        if name.rstrip("?") in spec.updates and not part:
            raise ArgumentError(
                f"{spec.name} cannot be cut: it updates {name.rstrip('?')}, which has no part for "
                "each device. Use run."
            )


def _axis_cut(
    spec: KernelSpec, args: Sequence[Any], options: Mapping[str, Any], results: Sequence[ArrayType]
) -> list[bool]:
    if not results:
        raise ArgumentError(f"{spec.name} cannot be cut: it has no result. Use run.")
    result = results[0]
    arrays = [arg if isinstance(arg, np.ndarray) else None for arg in args]
    first = next((array for array in arrays if array is not None), None)
    ndim = len(result.shape)
    if first is None or not (ndim or spec.along):
        raise ArgumentError(f"{spec.name}: there is no axis to cut. Use run.")
    rows = result.shape[0] if ndim else 0
    if spec.elementwise:
        return [a is not None and a.ndim == ndim and a.shape[0] == rows != 1 for a in arrays]
    if spec.name == "matmul" and ndim in (2, 3) and first.ndim == ndim:
        batched = ndim == 3 and rows > 1
        return [
            a is not None and a.ndim == ndim and (n == 0 or batched) and a.shape[0] == rows
            for n, a in enumerate(arrays)
        ]
    if spec.along and first.ndim > 1 and 0 not in along(spec, options, first.ndim):
        alike = spec.along == "axis"
        return [
            a is not None and (n == 0 or (alike and a.ndim == first.ndim and len(a) == rows != 1))
            for n, a in enumerate(arrays)
        ]
    if spec.along == "axis":
        axis = options.get("axis")
        why = f"its axis is {axis!r}, and the first one is what is cut: name another one"
    elif spec.along or spec.name == "matmul":
        why = "these arguments have no rows that are apart from each other"
    else:
        why = "its elements, or what lies along an axis, may need each other"
    raise ArgumentError(f"{spec.name} cannot be cut: {why}. Use run.")


def along(spec: KernelSpec, options: Mapping[str, Any], ndim: int) -> tuple[int, ...]:
    """The axes that one element of the result needs all of, counted from the front."""
    axis = options.get("axis") if spec.along == "axis" else -1
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(one % ndim for one in axes)


def _result(
    kernel: str, result: ArrayType, out: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any]:
    dtype = numpy_dtype(result.dtype)
    if out is None:
        return np.empty(result.shape, dtype)
    if not isinstance(out, np.ndarray) or out.shape != result.shape or out.dtype != dtype:
        given = (
            f"one of shape {out.shape} and dtype {out.dtype}"
            if isinstance(out, np.ndarray)
            else shortened(out)
        )
        raise ArgumentError(
            f"{kernel}: out has to be a NumPy array of shape {result.shape} and dtype "
            f"{result.dtype}, not {given}."
        )
    return out


def _check_apart(
    kernel: str, made: np.ndarray[Any, Any], args: Sequence[np.ndarray[Any, Any] | Any]
) -> None:
    """No part writes what another one reads.

    Raises:
        ArgumentError: the result shares memory with an argument, and is not the argument itself.
    """
    for arg in args:
        if isinstance(arg, np.ndarray) and np.may_share_memory(made, arg):
            ours, other = made.__array_interface__, arg.__array_interface__
            if any(ours[part] != other[part] for part in ("data", "strides", "shape")):
                raise ArgumentError(
                    f"{kernel}: out shares memory with an argument, which other devices read while "
                    "it is written. Give another array."
                )


def _bounds(rows: int, speeds: Sequence[float | None]) -> list[int]:
    """Where the devices' parts begin and end: by their speeds, evenly while one is not known. Each
    has a row while there are enough, so that its speed is known."""
    known = [speed for speed in speeds if speed is not None]
    shares = known if len(known) == len(speeds) else [1.0] * len(speeds)
    total, least = sum(shares), 1 if rows >= len(shares) else 0
    bounds, passed = [0], 0.0
    for place, share in enumerate(shares):
        passed += share
        left = len(shares) - place - 1
        end = round(rows * passed / total)
        bounds.append(min(max(end, bounds[-1] + least), rows - left * least))
    return bounds


def _measured(key: tuple[Any, ...], speed: float) -> None:
    """Keep a speed. The first one is of a call that may have compiled."""
    with _lock:
        if key not in _speeds:
            if len(_speeds) >= _MOST_SPEEDS:
                del _speeds[next(iter(_speeds))]
            _speeds[key] = None
            return
        before = _speeds.pop(key)
        _speeds[key] = speed if before is None else _NEWEST * speed + (1 - _NEWEST) * before
