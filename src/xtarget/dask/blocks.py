"""`map_blocks`: from a call with Dask's arrays to one call a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import dask.array as da
import numpy as np

from .._arrays.dtypes import numpy_dtype
from .._devices import registry
from .._fuse.fused import Fused, fuse
from .._kernels import libraries
from .._launch.arguments import placed
from .._launch.planning import plan_of_layouts
from .._launch.run import run
from .._launch.split import along
from .._values.errors import ArgumentError, NoDeviceError, UnknownTargetError
from .._values.types import Target
from ..spec import ArrayType, KernelSpec, contiguous_strides

__all__ = ["map_blocks"]

#: Shapes do not depend on where a kernel runs.
_PLANNED_FOR = Target("cpu", "spirv64")


def map_blocks(kernel: Any, /, *args: Any, device: str | None = None, **options: Any) -> Any:
    """Run a kernel on each block of Dask's arrays.

    Elementwise kernels, and chains of them, take any chunks, with broadcasting. Kernels that need
    all elements along an axis (softmax, scans, reductions of an `axis`, layer_norm, rms_norm: those
    that `xtarget.split` cuts) get that axis in one chunk: it is merged where it is not.

    Args:
        kernel: the name of a kernel, or a function of `xtarget.fuse`. Workers need the kernels of
            your own, too (XTARGET_KERNELS).
        args: Dask's arrays; arrays of NumPy and numbers where `xtarget.run` takes them.
        device: of all workers. None: each takes the one that its resources name (`dask worker
            --resources "nvidia:1=1"`), else its default.
        options: the kernel's options.

    Returns:
        a Dask array.

    Raises:
        ArgumentError: the blocks need each other, or there are several results.
        UnknownKernelError: there is no such kernel.
    """
    if isinstance(kernel, Fused):
        if options:
            raise ArgumentError(
                f"{kernel.__name__}: options of a chain stand in its function. Leave out "
                f"{', '.join(options)}."
            )
        work, apart, result = _chain(kernel, args)
    else:
        work, args, apart, result = _named(kernel, args, options)
    first = next((arg for arg in args if isinstance(arg, da.Array)), None)
    if first is None:
        raise ArgumentError("map_blocks: none of the arguments is a Dask array. Use xtarget.run.")
    return _mapped(work, args, apart, result, device)


def _layout(arg: Any) -> Any:
    if isinstance(arg, da.Array | np.ndarray):
        if any(length != length for length in arg.shape):
            raise ArgumentError(
                "map_blocks: an array does not know its shape. Call compute_chunk_sizes() on it."
            )
        return ArrayType(arg.dtype.name, tuple(arg.shape), contiguous_strides(tuple(arg.shape)))
    return arg


def _named(kernel: str, args: Sequence[Any], options: Mapping[str, Any]) -> tuple[Any, ...]:
    """The work of each block, the arguments in their order, the whole axes, the result."""
    args, options = placed(kernel, tuple(args), dict(options))
    registered = libraries.find(kernel)
    spec = registered.spec
    layouts = [_layout(arg) for arg in args]
    plan = plan_of_layouts(registered, layouts, options, _PLANNED_FOR)[0]
    if len(plan.outputs) != 1 or spec.updates:
        raise ArgumentError(
            f"{spec.name} has not exactly one result, and map_blocks makes one array. Use Dask's "
            "own map_blocks with xtarget.run."
        )
    result = plan.outputs[0]
    arrays = [layout for layout in layouts if isinstance(layout, ArrayType)]
    apart = _whole_axes(spec, arrays, {**spec.options, **options}, result.shape)
    return (kernel, tuple(sorted(options.items()))), args, apart, result


def _whole_axes(
    spec: KernelSpec,
    arrays: Sequence[ArrayType],
    options: Mapping[str, Any],
    result: tuple[int, ...],
) -> tuple[int, ...]:
    """The axes of the first array that a block has to have all of.

    Raises:
        ArgumentError: blocks need each other in another way.
    """
    if spec.elementwise:
        return ()
    shape = arrays[0].shape if arrays else ()
    if spec.along and shape:
        axes = along(spec, options, len(shape))
        if spec.along == "last":
            alike = result == shape
        else:
            kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
            alike = len(arrays) == 1 and (len(result) == len(shape) or result == kept)
        if alike and len(set(axes)) < len(shape):
            return tuple(sorted(set(axes)))
    raise ArgumentError(
        f"{spec.name} cannot be done block by block here: its elements may need each other across "
        "blocks. Use Dask's own functions, or give it one chunk through Dask's map_blocks and "
        "xtarget.run."
    )


def _chain(chain: Fused, args: Sequence[Any]) -> tuple[Any, ...]:
    import cloudpickle

    stands = [
        np.broadcast_to(np.zeros((), arg.dtype), arg.shape) if isinstance(arg, da.Array) else arg
        for arg in args
    ]
    nodes, results = chain.operators(*stands)
    if len(results) != 1:
        raise ArgumentError(
            f"{chain.__name__} has {len(results)} results, and map_blocks makes one array."
        )
    shape = max((np.shape(stand) for stand in stands), key=len)
    last = len(shape) - 1
    apart: tuple[int, ...] = ()
    for spec, layouts, options, given in nodes:
        if spec.elementwise:
            continue
        axes = _whole_axes(spec, layouts, options, given.shape)
        if axes != (last,) or len(given.shape) != len(shape):
            raise ArgumentError(
                f"{chain.__name__} works along other axes than the last one, or drops it "
                f"({spec.name}): in blocks it would mean something else. Make two chains, or give "
                "keepdims=True."
            )
        apart = (last,)
    (result,) = results
    if apart and result.shape != shape:
        raise ArgumentError(
            f"{chain.__name__} gives another shape than it takes, and works along an axis. Do the "
            "reduction by itself."
        )
    return (cloudpickle.dumps(chain.function), None), apart, result


def _mapped(
    work: Any, args: Sequence[Any], apart: tuple[int, ...], result: ArrayType, device: str | None
) -> Any:
    """The lazy array: indices of axes from the right, as NumPy broadcasts, or of the first array
    where axes go."""
    first = next(arg for arg in args if isinstance(arg, da.Array))
    names = tuple(range(first.ndim))
    if not apart:  # elementwise
        names = tuple(range(len(result.shape)))
    kept = tuple(n for n in names if n not in apart) if len(result.shape) < len(names) else names
    pairs: list[Any] = []
    for place, arg in enumerate(args):
        if not isinstance(arg, da.Array | np.ndarray) or not np.ndim(arg):
            pairs += [arg, None]
            continue
        whole = arg if isinstance(arg, da.Array) else da.from_array(arg, chunks=-1)
        own = names[len(names) - whole.ndim :]
        if apart and place and whole.ndim < len(names):
            whole = whole.rechunk(-1)
        else:
            whole = whole.rechunk({axis: -1 for axis, n in enumerate(own) if n in apart})
        pairs += [whole, own]
    return da.blockwise(
        _block,
        kept,
        *pairs,
        dtype=numpy_dtype(result.dtype),
        meta=np.empty((0,) * len(kept), numpy_dtype(result.dtype)),
        concatenate=True,
        name=None,
        work=work,
        device=device,
        adjust_chunks={n: result.shape[n] for n in apart} if kept == names else None,
    )


# ------------------------------------------------------------------------------- on the worker


def _block(*args: Any, work: tuple[Any, Any], device: str | None) -> Any:
    """One block, on the worker's device."""
    kernel, options = work
    where = _device_here() if device is None else device
    # what came from another worker may begin at any address
    parts = [
        np.require(a, requirements=("C", "A")) if isinstance(a, np.ndarray) else a for a in args
    ]
    if options is None:
        return _fused(kernel)(*parts, device=where)
    libraries.rely_on_updates(libraries.find(kernel).spec.name)  # other tasks read blocks as well
    return run(kernel, *parts, device=where, **dict(options))


@lru_cache(maxsize=64)
def _fused(function: bytes) -> Fused:
    import cloudpickle

    made: Fused = fuse(cloudpickle.loads(function))
    return made


def _device_here() -> str | None:
    """The device that the worker's resources name; None outside of a worker, or without one."""
    try:
        from distributed import get_worker

        resources: Mapping[str, float] = get_worker().state.total_resources
    except (ImportError, ValueError):
        return None
    for name in resources:
        try:
            return registry.find_device(name)
        except (NoDeviceError, UnknownTargetError, ArgumentError):
            continue  # a resource of another kind
    return None
