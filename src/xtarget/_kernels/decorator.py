"""`@xtarget.kernel`: register a `@triton.jit` function with a small declarative spec."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .._values.authoring import ArrayRule, Out, StrideRule
from .._values.choosing import CONFIG
from .._values.errors import ArgumentError, XTargetError
from .._values.types import DTYPES, Constant, KernelSource
from ..spec import KernelSpec
from ..targets._triton.identity import manifest_of
from . import libraries
from .checks import check_declared
from .contexts import Rule
from .declarations import Parameters
from .declared_plans import planned
from .declaring import declare
from .descriptors import described
from .triton_wrappers import INTERPRETED, is_interpreted, name_of, over_constants, unwrapped

__all__ = ["kernel"]

_Function = TypeVar("_Function")


def kernel(
    function: None = None,
    /,
    *,
    inputs: Sequence[str] | Mapping[str, ArrayRule] | None = None,
    outputs: Mapping[str, str | Rule | Out | ArrayRule] | None = None,
    grid: Rule | str | int | tuple[int, ...] | None = None,
    updates: Sequence[str] = (),
    complete: bool = False,
    scalars: Sequence[str] | Mapping[str, Any] = (),
    sizes: Mapping[str, Rule | str | StrideRule] | None = None,
    constants: Mapping[str, Constant | Rule] | None = None,
    flags: Mapping[str, Any] | None = None,
    workspaces: Mapping[str, str | Rule | Out | ArrayRule] | None = None,
    configs: Sequence[Any] = (),
    key: Sequence[str] = (),
    prune: Callable[[list[Any], Any], Sequence[Any]] | None = None,
    name: str | None = None,
    dtypes: Sequence[str] = tuple(DTYPES),
    strided: bool = False,
    in_place: bool = False,
    elementwise: bool = False,
    num_warps: int | Rule = 4,
    num_stages: int | Rule = 2,
    options: Mapping[str, Constant] | None = None,
    summary: str = "",
    reference: Callable[..., Any] | None = None,
    examples: Callable[[tuple[int, ...]], Sequence[Any]] | None = None,
    impl: str = "",
    targets: Sequence[str] = (),
    why: str = "",
) -> Callable[[_Function], _Function]:
    """Register a `@triton.jit` function so that `xtarget.run(name, ...)` launches it everywhere.

    Each parameter is an array, a number of the caller's, a size, or a `tl.constexpr`. Annotations
    say it (`x: In["float16", "M", "K"]`, of xtarget.spec), or the arguments below. A rule is a
    function of the call (`lambda c: c.x.shape[0] * c.BLOCK`): the arrays' layouts, sizes, constants
    and flags are attributes, in any order. Where a rule gives sizes, a formula as text does too
    (`"cdiv(M, BLOCK)"`), or a whole number.

    A function that is not Triton's may give several launches: it is called with the call's layouts
    and yields `xtarget.spec.step(function, grid)` for each.

    Args:
        inputs: parameters that are input arrays, in the order in which `run` takes them; `"x?"` may
            be left out, or None. Also numbers of `scalars` whose place is among them. None: those
            that are annotated, and the numbers, in the function's order.
        outputs: parameter to layout: the name of an input (or other output) to be like, or a rule
            that gives (shape, dtype) (`lambda c: (c.x.shape, c.x.dtype)`), or `Out`, which also
            says what its elements are before, or an annotation.
        grid: a rule for the number of blocks in one to three dimensions (`lambda c: (c.n // 64,)`,
            `"cdiv(n, 64), 2"`, `1`).
        updates: those of `inputs` that the kernel reads and writes in place, like a cache; it may
            store to no other input.
        complete: the kernel writes every element of its outputs, and reads none before. This saves
            time: a new output is not set to zeros first, and an `out=` on the host is not copied to
            a device that copies.
        scalars: numbers that the caller gives, perhaps with defaults. What is named nowhere and is
            no `tl.constexpr` is one too; the function's defaults count.
        sizes: integer parameters computed from the call (`lambda c: c.x.size`), or strides of an
            array (`Stride["x", 0]`), in elements.
        constants: `tl.constexpr` parameters: values, or rules. Text is a formula where it calls
            one of those that formulas may call (`"next_power_of_2(N)"`).
        flags: `tl.constexpr` parameters that the caller gives by keyword, with their defaults
            (`...`: none): a switch, a dtype, a name. A `tl.constexpr` that is named nowhere is one.
            One that is no parameter of the function is for rules.
        workspaces: memory for the launches of a call, as `outputs`.
        configs: `Config` or `triton.Config`, among which `Kernel.tune` finds the fastest.
        key: sizes, flags and arrays that decide which is the fastest.
        prune: `prune(configs, c)` gives those that are worth a trial for a call.
        name: the kernel's name; the function's when None.
        dtypes: dtypes that the inputs may have.
        strided: the kernel gets strides through `sizes` and takes any view. If False, arrays have
            to be C-contiguous and `run` refuses others.
        in_place: each block loads all that it needs of the inputs at the places that it stores to,
            and nothing of other blocks' places, before it stores (a softmax of whole rows). So
            `out` may be one of the inputs.
        elementwise: each element of the output is made of the inputs' elements at its own place
            alone. That is in_place too, and torch's vmap adds a dimension in front.
        num_warps, num_stages: Triton's options of the same names, or rules.
        options: further options of Triton's back ends (`maxnreg`, `waves_per_eu`, `num_ctas`).
        summary: one line for `xtarget kernels`.
        reference: the same on NumPy arrays, for `xtarget run --check`.
        examples: shapes of the inputs for a benchmark's `--shape` (`KernelSpec.examples`).
        impl: the kernel is another implementation of the operator `name`, which stays what it is:
            `xtarget.run(name, ..., impl=impl)` runs this one.
        targets: the vendors and targets that it serves then (`cpu`, `nvidia:sm_90`); none: all.
        why: what it is good for, for `xtarget kernels NAME`.

    Returns:
        the function, unchanged: Triton launches it by `function[grid](...)`, and other kernels
        call it. `xtarget.get(function)` is the kernel as an object to call.

    Raises:
        XTargetError: a name in the spec is not a parameter of the function, or a part of it is no
            function of the call.
    """
    if function is not None:
        raise ArgumentError(
            "@xtarget.kernel needs its arguments, the grid at least: write "
            '@xtarget.kernel(grid="cdiv(N, BLOCK)").'
        )
    _check_texts(name, summary)
    if (targets or why) and not impl:
        raise ArgumentError(
            "@xtarget.kernel: targets and why say something of another implementation of an "
            "operator. Give impl=, its word, as well."
        )
    given: dict[str, Any] = {
        **_mappings(outputs=outputs, sizes=sizes, constants=constants, flags=flags,
                    workspaces=workspaces, options=options),
        # the caller may change a list afterwards
        **{
            part: tuple(value) if isinstance(value, list) else value
            for part, value in (
                ("inputs", inputs), ("updates", updates), ("scalars", scalars),
                ("configs", configs), ("key", key),
            )
        },
        "grid": grid, "strided": strided, "num_warps": num_warps, "num_stages": num_stages,
        "prune": prune,
    }  # fmt: skip
    dtypes = tuple(dtypes) if isinstance(dtypes, list) else dtypes

    def decorate(function: _Function) -> _Function:
        own_name: str = name or name_of(function)
        if is_interpreted(function):  # Triton's own launches go on; ours say why they cannot
            libraries.refuse(own_name, INTERPRETED)
            return function
        fn, wrapped = unwrapped(own_name, function)
        _check_function(own_name, fn, grid)
        heuristics = wrapped.pop("heuristics", {})
        decided = {name: rule for name, rule in heuristics.items() if name in given["flags"]}
        rest = {name: rule for name, rule in heuristics.items() if name not in decided}
        own = {**given, **wrapped, "constants": over_constants(rest, given["constants"])}
        check_declared(
            own_name,
            own,
            {
                "complete": complete,
                "strided": strided,
                "elementwise": elementwise,
                "in_place": in_place,
            },
            dtypes=dtypes,
            functions={"reference": reference, "examples": examples, "prune": own["prune"]},
        )
        parameters = Parameters.of(own_name, fn) if hasattr(fn, "arg_names") else None
        declaration = declare(own_name, fn, parameters, own, decided)
        sources = _Sources(own_name, fn)
        hooks = [one.pre_hook for one in declaration.configs if one.pre_hook is not None]
        rules = (*_rules(own), *decided.values(), *hooks, declaration)
        names = list(declaration.outputs)
        spec = KernelSpec(
            name=own_name,
            inputs=declaration.inputs,
            plan=partial(
                planned,
                declaration,
                fn,
                sources.named,
                sources.described,
                _known(sources),
                sources.digest,
                rules,
            ),
            summary=summary or (fn.__doc__ or "").strip().partition("\n")[0],
            dtypes=tuple(dtypes),
            options={**declaration.flags, **({CONFIG: None} if declaration.configs else {})},
            scalars=tuple(declaration.scalars),
            floats=tuple(name for name, kind in declaration.kinds.items() if kind is float),
            reference=reference,
            examples=examples,
            updates=declaration.updates,
            complete=complete,
            elementwise=elementwise,
            in_place=in_place,
            by_name=True,
            configs=declaration.configs,
            outputs=tuple(names),
            results=bool(names),
            counts=tuple(
                None if out.count is None else names.index(out.count)
                for out in declaration.outputs.values()
            ),
            impl=impl,
            targets=(targets,) if isinstance(targets, str) else tuple(targets),
            why=why,
        )
        libraries.register(spec, sources.source, sources.origin, function)
        return function

    return decorate


def _check_texts(name: Any, summary: Any) -> None:
    for part, text in (("name", name), ("summary", summary)):
        fits = isinstance(text, str) and text.isprintable() and (text.strip() or part != "name")
        if text is not None and not fits:
            raise ArgumentError(
                f"@xtarget.kernel: its {part} is {text!r}. Give it as text of one line."
            )


def _mappings(**parts: Any) -> dict[str, dict[Any, Any]]:
    """The parts that are mappings, as ours."""
    examples = {"options": '{"maxnreg": 64}', "flags": '{"CAUSAL": False}'}
    for part, given in parts.items():
        if given is not None and not isinstance(given, Mapping):
            what = (
                "names of Triton's options" if part == "options" else "parameters of the function"
            )
            raise ArgumentError(
                f"@xtarget.kernel: {part} are {given!r}. Give a mapping from {what}, such as "
                f"{part}={examples.get(part, {'out': 'x'})}."
            )
    return {part: dict(given or {}) for part, given in parts.items()}


def _check_function(kernel_name: str, fn: Any, grid: Any) -> None:
    triton_function = hasattr(fn, "arg_names")
    if not triton_function and (grid is not None or not callable(fn)):
        raise XTargetError(
            f"@xtarget.kernel needs a @triton.jit function, not {fn!r}. Put @triton.jit below "
            "@xtarget.kernel(...), or leave grid out and yield xtarget.spec.step(function, grid) "
            "for each launch."
        )
    if triton_function and grid is None:
        raise ArgumentError(
            f"{kernel_name}: it has no grid. Give the number of blocks as a function of the call, "
            'grid=lambda c: cdiv(c.n, c.BLOCK), or as text: grid="cdiv(n, BLOCK)".'
        )


def _rules(parts: Mapping[str, Any]) -> list[Any]:
    """A user's functions among the parts of a spec: what they read may change."""
    found = [parts["grid"], parts["num_warps"], parts["num_stages"], parts["prune"]]
    for part in ("outputs", "sizes", "constants", "workspaces"):
        found += parts[part].values()
    found += [one.like for one in found if isinstance(one, Out)]
    return [rule for rule in found if callable(rule)]


class _Sources:
    """The Triton functions of a kernel, by the names that its launches give them."""

    def __init__(self, kernel_name: str, fn: Any) -> None:
        self._kernel, self._only = kernel_name, fn if hasattr(fn, "arg_names") else None
        self._function = fn
        code = getattr(getattr(fn, "fn", fn), "__code__", None)
        self.origin = str(code and code.co_filename)
        self._functions: dict[str, Any] = {kernel_name: self._only}
        self._known: dict[str, KernelSource] = {}
        self._described: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.parameters: dict[int, tuple[Any, Parameters]] = {}

    def described(self, fn: Any, names: Parameters, ranks: Mapping[str, int]) -> Any:
        """The function around one that takes tensor descriptors, always the same."""
        key = (id(fn), *ranks.items())
        known = self._described.get(key)
        if known is None:
            made = described(fn, names, ranks)
            known = self._described[key] = fn, made
        return known[1]

    def named(self, fn: Any) -> str:
        if fn is self._only:
            return self._kernel
        name = base = f"{self._kernel}:{fn.__name__}"
        number = 1
        while self._functions.setdefault(name, fn) is not fn:
            number += 1
            name = f"{base}.{number}"
        return name

    def digest(self) -> str:
        """Of the function as it is now."""
        if self._only is not None:
            return self.source(self._kernel).digest
        return hashlib.sha256(self._function.__code__.co_code).hexdigest()

    def source(self, text: str) -> KernelSource:
        known = self._known.get(text)
        if known is None or known.holds is None or not known.holds():
            known = self._known[text] = loaded_source(self._functions[text], self.origin)
        return known


def _known(sources: _Sources) -> Callable[[Any], Parameters]:
    """The parameters of functions, read once."""

    def parameters_of(fn: Any) -> Parameters:
        known = sources.parameters.get(id(fn))
        if known is None:
            known = sources.parameters[id(fn)] = fn, Parameters.of(fn.__name__, fn)
        return known[1]

    return parameters_of


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
