"""`@xtarget.kernel`: register a `@triton.jit` function with a small declarative spec."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar, cast

from .._values.errors import ArgumentError, XTargetError, shortened
from .._values.symbols import SymInt
from .._values.types import DTYPES, Constant, KernelSource
from ..spec import Argument, ArrayType, Call, Input, KernelSpec, Launch, Out, Output, Plan
from ..targets._triton.identity import manifest_of
from . import libraries
from .checks import check_declared

__all__ = ["kernel"]

_Function = TypeVar("_Function")
#: What a size, an output or a grid is computed from: the arguments' layouts, sizes and constants as
#: attributes (`c.x.shape`, `c.n`, `c.BLOCK`).
_Rule: TypeAlias = Callable[[Any], Any]


def kernel(
    *,
    inputs: Sequence[str],
    outputs: Mapping[str, str | _Rule | Out],
    grid: _Rule,
    updates: Sequence[str] = (),
    complete: bool = False,
    sizes: Mapping[str, _Rule] | None = None,
    constants: Mapping[str, Constant] | None = None,
    name: str | None = None,
    dtypes: Sequence[str] = tuple(DTYPES),
    strided: bool = False,
    elementwise: bool = False,
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
            c.x.dtype)`); or `xtarget.spec.Out`, which also says what its elements are before.
        updates: those of `inputs` that the kernel reads and writes in place, like a cache; it may
            store to no other input.
        complete: the kernel writes every element of its outputs, and reads none before. This saves
            time: a new output is not set to zeros first, and an `out=` on the host is not copied to
            a device that copies.
        grid: gives the number of blocks in one to three dimensions (`lambda c: (c.n // 64,)`; an
            int is one dimension).
        sizes: integer parameters computed from the layouts (`lambda c: c.x.size`; strides, in
            elements, are `c.x.strides`).
        constants: the `tl.constexpr` parameters.
        name: the kernel's name; the function's when None.
        dtypes: dtypes that the inputs may have.
        strided: the kernel gets strides through `sizes` and takes any view. If False, arrays have
            to be C-contiguous and `run` refuses others.
        elementwise: each block loads all that it needs of the inputs' elements at the places that
            it stores to, and of no others, before it stores. So `out` may be one of the inputs.
        num_warps, num_stages: Triton's options of the same names.
        options: further options of Triton's back ends (`maxnreg`, `waves_per_eu`, `num_ctas`).
        summary: one line for `xtarget kernels`.
        reference: the same on NumPy arrays, for `xtarget run --check`.

    Returns:
        the function, unchanged: Triton launches it by `function[grid](...)`, and other kernels
        call it. `xtarget.get(function)` is the kernel as an object to call.

    Raises:
        XTargetError: a name in the spec is not a parameter of the function, or a part of it is no
            function of the call.
    """
    for part, text in (("name", name), ("summary", summary)):
        fits = isinstance(text, str) and text.isprintable() and (text.strip() or part != "name")
        if text is not None and not fits:
            raise ArgumentError(
                f"@xtarget.kernel: its {part} is {text!r}. Give it as text of one line."
            )
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(
            f"@xtarget.kernel: options are {options!r}. Give a mapping from names of Triton's "
            'options, such as options={"maxnreg": 64}.'
        )
    for part, given in (("outputs", outputs), ("sizes", sizes), ("constants", constants)):
        if not isinstance(given, Mapping) and not (given is None and part != "outputs"):
            raise ArgumentError(
                f"@xtarget.kernel: {part} are {given!r}. Give a mapping from parameters of the "
                'function, such as outputs={"out": "x"}.'
            )
    sizes, constants, options = dict(sizes or {}), dict(constants or {}), dict(options or {})
    # the caller may change a list afterwards
    inputs, updates, dtypes = (
        tuple(given) if isinstance(given, list) else given for given in (inputs, updates, dtypes)
    )
    made = {p: o if isinstance(o, Out) else Out(o) for p, o in outputs.items()}
    likes = {parameter: output.like for parameter, output in made.items()}

    def decorate(function: _Function) -> _Function:
        fn: Any = function
        if hasattr(fn, "arg_names") and not hasattr(fn, "cache_key"):
            raise XTargetError(
                f"@xtarget.kernel takes a @triton.jit function as it is, not a "
                f"{type(fn).__name__}: leave @triton.autotune and @triton.heuristics out, and give "
                "the configuration by constants, num_warps and num_stages."
            )
        if not hasattr(fn, "arg_names"):
            raise XTargetError(
                f"@xtarget.kernel needs a @triton.jit function, not {fn!r}. Put @triton.jit below "
                "@xtarget.kernel(...)."
            )
        own_name: str = name or fn.__name__
        check_declared(
            own_name,
            {"inputs": inputs, "updates": updates},
            {"outputs": made, "sizes": sizes, "constants": constants, "options": options},
            {"complete": complete, "strided": strided, "elementwise": elementwise},
            (num_warps, num_stages),
            dtypes=dtypes,
            init={parameter: output.init for parameter, output in made.items()},
            reference=reference,
        )
        given = [*inputs, *made, *sizes, *constants]
        parts = {"inputs": inputs, "outputs": made, "sizes": sizes, "constants": constants}
        wrong = [
            f"{name} of its {part}"
            for part, names in parts.items()
            for name in names
            if name not in fn.arg_names
        ]
        strange = [n for n in updates if n not in inputs]
        if strange:
            raise XTargetError(
                f"kernel {own_name}: {', '.join(strange)} of updates is none of its inputs "
                f"({', '.join(inputs)}). An array that it reads and writes in place is both."
            )
        if wrong:
            raise XTargetError(
                f"kernel {own_name}: {', '.join(wrong)} is no parameter of the function, which has "
                f"{', '.join(fn.arg_names)}."
            )
        _check_rules(own_name, inputs, likes, {**_named("size", sizes), "grid": grid})
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
            updates=tuple(updates),
            complete=complete,
            elementwise=elementwise,
        )
        origin = str(getattr(fn.fn, "__code__", None) and fn.fn.__code__.co_filename)

        known: KernelSource | None = None

        def source(_: str) -> KernelSource:
            nonlocal known
            if known is None or known.holds is None or not known.holds():
                known = loaded_source(fn, origin)
            return known

        libraries.register(spec, source, origin, fn)
        return function

    def _plan(own_name: str, call: Call, fn: Any, scalars: Sequence[str]) -> Plan:
        arrays = [call.array(i) for i in range(len(inputs))]
        if not strided:
            for parameter, array in zip(inputs, arrays, strict=True):
                _require_contiguous(own_name, parameter, array)
        context = SimpleNamespace(**dict(zip(inputs, arrays, strict=True)), **constants)
        context.vendor, context.compute_units = call.vendor, call.compute_units
        ask = _Questions(own_name, context, constants)
        if call.out is not None and len(made) > 1:
            raise ArgumentError(f"{own_name} has {len(made)} outputs; out= takes one.")
        results = []
        for parameter, rule in likes.items():
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
        for index, parameter in enumerate(made):
            args[parameter] = Output(index)
        for parameter in sizes:
            args[parameter] = getattr(context, parameter)
        padded = (*blocks, 1, 1)
        launch = Launch(
            source=own_name,
            args={n: args[n] for n in fn.arg_names if n in args},
            constants=constants,
            grid=(padded[0], padded[1], padded[2]),
            num_warps=operator.index(num_warps),
            num_stages=operator.index(num_stages),
            options=options,
        )
        init = tuple(output.init for output in made.values())
        return Plan(tuple(results), (launch,), init=init)

    return decorate


def loaded_source(fn: Any, path: str) -> KernelSource:
    """A function that is loaded, with the values that it reads now."""
    manifest = manifest_of(fn)
    return KernelSource(
        name=fn.__name__,
        digest=manifest.digest,
        path=path,
        load=lambda: fn,
        parts=manifest.shown(),
        unidentified=manifest.unidentified,
        again=lambda: loaded_source(fn, path),
        holds=manifest.holds(),
        places="\n".join(manifest.places),
    )


def _named(part: str, rules: Mapping[str, _Rule]) -> dict[str, _Rule]:
    return {f"{part} {name!r}": rule for name, rule in rules.items()}


def _check_rules(
    kernel_name: str,
    inputs: Sequence[str],
    outputs: Mapping[str, str | _Rule],
    rules: Mapping[str, _Rule],
) -> None:
    """Check what can be checked of a spec before the first call."""
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
            f"{self._kernel}: its {part} gave {shortened(answer)}; {rule}{self._constants}. "
            "Correct it in @xtarget.kernel."
        )


def _integer(value: Any) -> int | None:
    """A whole number of Python or NumPy, also one that is written as a float; else None."""
    if type(value) is SymInt:
        return cast(int, value)
    try:
        return operator.index(value)
    except TypeError:
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole else None


def _integers(value: Any) -> tuple[int, ...] | None:
    """Whole numbers; one alone is a tuple of one."""
    if isinstance(value, bool):
        return None
    one = _integer(value)
    if one is not None:
        return (one,)
    if isinstance(value, str | bytes | Set | Mapping):  # without an order, or no numbers
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

    from .._arrays.dtypes import name_of

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
