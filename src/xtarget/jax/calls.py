"""`run`: from a call with JAX's arrays, traced or not, to a custom call of XLA."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays.dtypes import name_of, numpy_dtype
from .._kernels import libraries, plan_values
from .._kernels.libraries import RegisteredKernel
from .._launch.arguments import placed
from .._launch.objects import Kernel
from .._launch.objects import get as kernel_of
from .._launch.planning import plan_of_layouts
from .._launch.untold import check_told
from .._values.errors import ArgumentError
from .._values.types import Target
from .._values.value_classes import value_class
from ..spec import ArrayType, KernelSpec, contiguous_strides
from .gradients import with_gradient
from .handler import TARGET, register

__all__ = ["run"]

#: Plans for shapes only: what a kernel gives does not depend on where it runs.
_PLANNED_FOR = Target("cpu", "spirv64")


def run(kernel: Any, /, *args: Any, **options: Any) -> Any:
    """Run a kernel on JAX's arrays, also where `jax.jit` traces them.

    JAX's arrays are never written: those that the kernel updates in place are further results (XLA
    copies them unless they are donated). `jax.vmap` takes elementwise kernels at once, others one
    by one. `xtarget.jax.differentiable()` lists the kernels that have a gradient; for others,
    `jax.custom_vjp` says one.

    Args:
        kernel: a name, a kernel object, or a function of `@xtarget.kernel`.
        args: arrays; Python's numbers where `xtarget.run` takes them.
        options: the kernel's options.

    Returns:
        an array, or a tuple: the results, then the updated arrays.

    Raises:
        ArgumentError: the arguments are not what the kernel takes, or JAX cannot have its results.
        UnknownKernelError: there is no such kernel.
    """
    name = kernel if isinstance(kernel, str) else _name(kernel)
    for word in ("out", "device", "stream"):
        if word in options:
            raise ArgumentError(
                f"{name}: JAX's arrays are never written, and lie where JAX puts them: leave "
                f"{word}= out. A donated argument (donate_argnums of jax.jit) is used again."
            )
    args, options = placed(name, args, options)
    found = libraries.find(name)
    spec = found.spec
    if any(count is not None for count in spec.counts):
        raise ArgumentError(
            f"{name}: the size of its result is known when it has run, and JAX has to know it "
            "before. Call it outside of jit with xtarget.run."
        )
    check_told(spec, options)
    options = {key: _option(value) for key, value in options.items()}
    taken = [_argument(spec, place, value) for place, value in enumerate(args)]
    arrays = [value for value in taken if isinstance(value, jax.Array)]
    call = _call(found, taken, arrays, options)
    if any(isinstance(array, jax.core.Tracer) for array in arrays):
        call = with_gradient(spec, call, taken, options)
    results = call(*arrays)
    return results[0] if len(results) == 1 else results


@value_class(frozen=True, slots=True)
class _Known:
    """A call that was made before.

    Attributes:
        holds: whether what its plan has read of its module is still the same.
    """

    kernel: RegisteredKernel
    holds: Callable[[], bool]
    call: Callable[..., tuple[Any, ...]]


_known: dict[tuple[Any, ...], _Known] = {}
_MOST_KNOWN: Final = 4096


def _call(
    kernel: RegisteredKernel,
    taken: Sequence[Any],
    arrays: Sequence[jax.Array],
    options: Mapping[str, Any],
) -> Callable[..., tuple[Any, ...]]:
    """The custom call as a function of the arrays, planned and compiled once for equal layouts."""
    args = json.dumps([{} if isinstance(value, jax.Array) else value for value in taken])
    layouts = tuple((array.dtype, array.shape) for array in arrays)
    key = (kernel.spec.name, args, json.dumps(options), layouts, jax.config.jax_enable_x64)
    known = _known.get(key)
    if known is None or known.kernel is not kernel or not known.holds():
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        reads = plan_values.reads_of(kernel)
        made = _planned(kernel, taken, options)
        reads.leave_own()
        known = _known[key] = _Known(kernel, reads.holds, made)
    return known.call


def _planned(
    kernel: RegisteredKernel, taken: Sequence[Any], options: Mapping[str, Any]
) -> Callable[..., tuple[Any, ...]]:
    spec = kernel.spec
    arrays = [value for value in taken if isinstance(value, jax.Array)]
    layouts = [_layout(value) if isinstance(value, jax.Array) else value for value in taken]
    plan, _, _ = plan_of_layouts(kernel, layouts, options, _PLANNED_FOR)
    libraries.rely_on_updates(spec.name)
    names = [written.rstrip("?") for written in spec.inputs]
    updated = [names.index(one) for one in spec.updates if taken[names.index(one)] is not None]
    kinds = (*plan.outputs, *(layouts[place] for place in updated))
    before = [sum(isinstance(value, jax.Array) for value in taken[:place]) for place in updated]
    text = json.dumps(
        {
            "kernel": spec.name,
            "args": [{} if isinstance(value, jax.Array) else value for value in taken],
            "options": options,
            "updates": before,
        }
    )
    register()
    call = jax.ffi.ffi_call(
        TARGET,
        tuple(_result(spec, kind) for kind in kinds),
        vmap_method=_vmap_method(spec, arrays),
        input_output_aliases={place: len(plan.outputs) + nth for nth, place in enumerate(before)},
    )
    made: Callable[..., tuple[Any, ...]] = jax.jit(
        lambda *given: tuple(call(*given, call=text)), inline=True
    )
    return made


def _name(kernel: Any) -> str:
    return kernel.name if isinstance(kernel, Kernel) else kernel_of(kernel).name


def _option(value: Any) -> Any:
    """As JSON has it: dtypes by name, NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type | np.dtype) or hasattr(value, "dtype"):
        return name_of(np.dtype(value))
    return value


def _argument(spec: KernelSpec, place: int, value: Any) -> Any:
    """An array of JAX, a number of Python, or None.

    Raises:
        ArgumentError: a number that is traced.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    names = [name.rstrip("?") for name in spec.inputs]
    if place >= len(names) or names[place] not in spec.scalars:
        return array
    if isinstance(array, jax.core.Tracer):
        raise ArgumentError(
            f"{spec.name}: {names[place]} is a number that jax.jit traces, and the kernel takes it "
            "by value. Give a Python number, or name it in static_argnames of jax.jit."
        )
    return array.item()


def _layout(array: jax.Array) -> ArrayType:
    return ArrayType(name_of(array.dtype), array.shape, contiguous_strides(array.shape))


def _result(spec: KernelSpec, kind: ArrayType) -> jax.ShapeDtypeStruct:
    dtype = numpy_dtype(kind.dtype)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ArgumentError(
            f"{spec.name} gives {kind.dtype}, which JAX has only after "
            'jax.config.update("jax_enable_x64", True).'
        )
    return jax.ShapeDtypeStruct(kind.shape, dtype)


def _vmap_method(spec: KernelSpec, arrays: Sequence[jax.Array]) -> str:
    """One more dimension in front is right where arrays have equal numbers of dimensions."""
    alike = spec.elementwise and len({array.ndim for array in arrays}) == 1
    return "broadcast_all" if alike else "sequential"
