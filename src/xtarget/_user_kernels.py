"""`@xtarget.kernel`: register a `@triton.jit` function with a small declarative spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from . import _kernels
from ._errors import ArgumentError, XTargetError
from ._types import DTYPES, Constant, KernelSource
from .spec import Argument, ArrayType, Call, Input, KernelSpec, Launch, Output, Plan

__all__ = ["kernel"]

_Function = TypeVar("_Function")
#: What a size, an output or a grid is computed from: the arguments' layouts, sizes and constants as
#: attributes (`c.x.shape`, `c.n`, `c.BLOCK`).
_Rule: TypeAlias = Callable[[Any], Any]


def kernel(
    *,
    inputs: Sequence[str],
    outputs: Mapping[str, str | _Rule],
    grid: _Rule,
    sizes: Mapping[str, _Rule] | None = None,
    constants: Mapping[str, Constant] | None = None,
    name: str | None = None,
    dtypes: Sequence[str] = tuple(DTYPES),
    strided: bool = False,
    num_warps: int = 4,
    num_stages: int = 2,
    options: Mapping[str, Constant] | None = None,
    summary: str = "",
    reference: Callable[..., Any] | None = None,
) -> Callable[[_Function], _Function]:
    """Register a `@triton.jit` function so that `xtarget.run(name, ...)` launches it everywhere.

    Every parameter of the function is one of: an input array, an output array, a size, a
    constant, or else a scalar that the caller gives after the arrays, in the function's order.

    Args:
        inputs: parameters that are input arrays, in the order in which `run` takes them.
        outputs: parameter to layout: the name of an input to be like, or a function that gives
            (shape, dtype) from the call's layouts (`lambda c: (c.x.shape, c.x.dtype)`).
        grid: gives the number of blocks in one to three dimensions (`lambda c: (c.n // 64,)`).
        sizes: integer parameters computed from the layouts (`lambda c: c.x.size`; strides, in
            elements, are `c.x.strides`).
        constants: the `tl.constexpr` parameters.
        name: the kernel's name; the function's when None.
        dtypes: dtypes that the inputs may have.
        strided: the kernel gets strides through `sizes` and takes any view. If False, arrays have
            to be C-contiguous and `run` refuses others.
        num_warps, num_stages: Triton's options of the same names.
        options: further options of Triton's back ends (`maxnreg`, `waves_per_eu`, `num_ctas`).
        summary: one line for `xtarget kernels`.
        reference: the same on NumPy arrays, for `xtarget run --check`.

    Returns:
        the function, unchanged.

    Raises:
        XTargetError: a name in the spec is not a parameter of the function.
    """
    sizes, constants = dict(sizes or {}), dict(constants or {})

    def decorate(function: _Function) -> _Function:
        fn: Any = function
        if not hasattr(fn, "arg_names"):
            raise XTargetError(
                f"@xtarget.kernel needs a @triton.jit function, not {fn!r}. Put @triton.jit below "
                "@xtarget.kernel(...)."
            )
        own_name: str = name or fn.__name__
        given = [*inputs, *outputs, *sizes, *constants]
        wrong = [n for n in given if n not in fn.arg_names]
        if wrong:
            raise XTargetError(
                f"kernel {own_name}: {', '.join(wrong)} of its spec is no parameter of the "
                f"function, which has {', '.join(fn.arg_names)}."
            )
        scalars = [n for n in fn.arg_names if n not in given]

        def plan(call: Call) -> Plan:
            return _plan(own_name, call, fn, scalars)

        spec = KernelSpec(
            name=own_name,
            inputs=(*inputs, *scalars),
            plan=plan,
            summary=summary or (fn.__doc__ or "").strip().partition("\n")[0],
            dtypes=tuple(dtypes),
            scalars=tuple(scalars),
            reference=reference,
        )
        origin = str(getattr(fn.fn, "__code__", None) and fn.fn.__code__.co_filename)

        def source(_: str) -> KernelSource:
            # Triton's own digest: the function's text and all that it uses
            return KernelSource(fn.__name__, fn.cache_key, origin, lambda: fn)

        _kernels.register(spec, source, origin)
        return function

    def _plan(own_name: str, call: Call, fn: Any, scalars: Sequence[str]) -> Plan:
        arrays = [call.array(i) for i in range(len(inputs))]
        if not strided:
            for parameter, array in zip(inputs, arrays, strict=True):
                _require_contiguous(own_name, parameter, array)
        context = SimpleNamespace(**dict(zip(inputs, arrays, strict=True)), **constants)
        context.vendor, context.compute_units = call.vendor, call.compute_units
        results = []
        for parameter, rule in outputs.items():
            like = getattr(context, rule) if isinstance(rule, str) else None
            shape, dtype = (like.shape, like.dtype) if like is not None else rule(context)  # type: ignore[operator]
            if call.out is not None and len(outputs) > 1:
                raise ArgumentError(f"{own_name} has {len(outputs)} outputs; out= takes one.")
            results.append(call.output(shape, dtype))
            if not strided:
                _require_contiguous(own_name, parameter, results[-1])
            setattr(context, parameter, results[-1])
        for parameter, size in sizes.items():
            setattr(context, parameter, int(size(context)))
        blocks = tuple(int(n) for n in grid(context))
        if not 1 <= len(blocks) <= 3 or min(blocks) < 0:
            raise ArgumentError(
                f"{own_name}: its grid gave {blocks}; it has 1 to 3 dimensions ≥ 0."
            )
        args: dict[str, Argument] = {}
        for index, parameter in enumerate((*inputs, *scalars)):
            args[parameter] = Input(index)
        for index, parameter in enumerate(outputs):
            args[parameter] = Output(index)
        for parameter in sizes:
            args[parameter] = getattr(context, parameter)
        padded = (*blocks, 1, 1)
        launch = Launch(
            source=own_name,
            args={n: args[n] for n in fn.arg_names if n in args},
            constants=constants,
            grid=(padded[0], padded[1], padded[2]),
            num_warps=num_warps,
            num_stages=num_stages,
            options=dict(options or {}),
        )
        return Plan(tuple(results), (launch,))

    return decorate


def _require_contiguous(kernel_name: str, parameter: str, array: ArrayType) -> None:
    if not array.contiguous:
        raise ArgumentError(
            f"{kernel_name}: {parameter} is not C-contiguous (shape {array.shape}, strides "
            f"{array.strides} elements), and the kernel takes no strides. Pass a contiguous copy, "
            "or give the kernel its strides through `sizes` and register it with strided=True."
        )
