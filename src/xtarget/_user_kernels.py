"""`@xtarget.kernel`: register a `@triton.jit` function with a small declarative spec."""

from __future__ import annotations

import operator
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
        outputs: parameter to layout: the name of an input (or earlier output) to be like, or a
            function that gives (shape, dtype) from the call's layouts (`lambda c: (c.x.shape,
            c.x.dtype)`).
        grid: gives the number of blocks in one to three dimensions (`lambda c: (c.n // 64,)`; an
            int is one dimension).
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
        XTargetError: a name in the spec is not a parameter of the function, or a part of it is no
            function of the call.
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
        _check_rules(own_name, inputs, outputs, {**_named("size", sizes), "grid": grid})
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
        ask = _Questions(own_name, context, constants)
        if call.out is not None and len(outputs) > 1:
            raise ArgumentError(f"{own_name} has {len(outputs)} outputs; out= takes one.")
        results = []
        for parameter, rule in outputs.items():
            results.append(call.output(*ask.layout(parameter, rule)))
            if not strided:
                _require_contiguous(own_name, parameter, results[-1])
            setattr(context, parameter, results[-1])
        for parameter, size in sizes.items():
            setattr(context, parameter, ask.size(parameter, size))
        blocks = ask.grid(grid)
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


def _named(part: str, rules: Mapping[str, _Rule]) -> dict[str, _Rule]:
    return {f"{part} {name!r}": rule for name, rule in rules.items()}


def _check_rules(
    kernel_name: str,
    inputs: Sequence[str],
    outputs: Mapping[str, str | _Rule],
    rules: Mapping[str, _Rule],
) -> None:
    """What can be said of a spec before the first call."""
    arrays = list(inputs)
    for parameter, rule in outputs.items():
        if isinstance(rule, str) and rule not in arrays:
            raise ArgumentError(
                f"{kernel_name}: its output {parameter!r} cannot be like {rule!r}, which is none "
                f"of its arrays ({', '.join(arrays)}). Name one of these, or give a function that "
                "gives (shape, dtype)."
            )
        if not isinstance(rule, str) and not callable(rule):
            raise ArgumentError(
                f"{kernel_name}: its output {parameter!r} is {rule!r}. Give the name of an input "
                "to be like, or a function: lambda c: (c.x.shape, c.x.dtype)."
            )
        arrays.append(parameter)
    for part, rule in rules.items():
        if not callable(rule):
            raise ArgumentError(
                f"{kernel_name}: its {part} is {rule!r}. Give a function of the call's layouts: "
                "lambda c: ..."
            )


class _Questions:
    """Asks the functions of a spec, which are a user's: whatever they raise or give that does not
    fit becomes an error that names the kernel and the part of its spec."""

    def __init__(
        self, kernel_name: str, context: SimpleNamespace, constants: Mapping[str, Constant]
    ) -> None:
        self._kernel, self._context = kernel_name, context
        values = ", ".join(f"{name}={value!r}" for name, value in constants.items())
        self._constants = f" (constants: {values})" if values else ""

    def layout(self, parameter: str, rule: str | _Rule) -> tuple[tuple[int, ...], str]:
        """Shape and dtype of an output."""
        part = f"output {parameter!r}"
        if isinstance(rule, str):
            like: ArrayType = getattr(self._context, rule)
            return like.shape, like.dtype
        answer = self._ask(part, rule)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise self._wrong(part, answer, "it has to be a pair: (shape, dtype)")
        shape, dtype = answer
        lengths = _integers(shape)
        if lengths is None or min(lengths, default=0) < 0:
            raise self._wrong(part, answer, "its shape has to be of whole numbers ≥ 0")
        name = _dtype_name(dtype)
        if name is None:
            raise self._wrong(part, answer, f"its dtype has to be one of {', '.join(DTYPES)}")
        return lengths, name

    def size(self, parameter: str, rule: _Rule) -> int:
        part = f"size {parameter!r}"
        answer = self._ask(part, rule)
        value = _integer(answer)
        if value is None or not -(2**63) <= value < 2**63:
            raise self._wrong(part, answer, "it has to be a whole number of at most 64 bits")
        return value

    def grid(self, rule: _Rule) -> tuple[int, ...]:
        answer = self._ask("grid", rule)
        blocks = _integers(answer)
        if blocks is None or not 1 <= len(blocks) <= 3 or min(blocks) < 0:
            raise self._wrong("grid", answer, "it has to be 1 to 3 dimensions, whole numbers ≥ 0")
        return blocks

    def _ask(self, part: str, rule: _Rule) -> Any:
        try:
            return rule(self._context)
        except XTargetError:
            raise  # says what it has to say
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, AttributeError) and error.obj is self._context:
                known = ", ".join(vars(self._context))
                reason = f"there is no {error.name!r} yet, only {known}"
            raise ArgumentError(
                f"{self._kernel}: its {part} cannot be computed: {reason}{self._constants}. "
                "Correct it in @xtarget.kernel."
            ) from error

    def _wrong(self, part: str, answer: Any, rule: str) -> ArgumentError:
        return ArgumentError(
            f"{self._kernel}: its {part} gave {answer!r}; {rule}{self._constants}. Correct it in "
            "@xtarget.kernel."
        )


def _integer(value: Any) -> int | None:
    """A whole number of Python or NumPy, also one that is written as a float; else None."""
    try:
        return operator.index(value)
    except TypeError:
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else None


def _integers(value: Any) -> tuple[int, ...] | None:
    """Whole numbers; one alone is a tuple of one."""
    one = _integer(value)
    if one is not None:
        return (one,)
    if isinstance(value, str):
        return None
    try:
        numbers = [_integer(n) for n in value]
    except TypeError:
        return None
    whole = tuple(n for n in numbers if n is not None)
    return whole if len(whole) == len(numbers) else None


def _dtype_name(dtype: Any) -> str | None:
    """Our name of a dtype by name or as NumPy writes it (`numpy.float32`, `x.dtype`); None where
    there is none."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    import numpy as np

    from ._dtypes import name_of

    if dtype is None:  # float64 to NumPy
        return None
    try:
        return name_of(np.dtype(dtype))
    except (TypeError, ValueError):  # ArgumentError is a ValueError
        return None


def _require_contiguous(kernel_name: str, parameter: str, array: ArrayType) -> None:
    if not array.contiguous:
        raise ArgumentError(
            f"{kernel_name}: {parameter} is not C-contiguous (shape {array.shape}, strides "
            f"{array.strides} elements), and the kernel takes no strides. Pass a contiguous copy, "
            "or give the kernel its strides through `sizes` and register it with strided=True."
        )
