"""From what `@xtarget.kernel` was given and what the function says itself to a `Declaration`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from .._values.authoring import REQUIRED, ArrayRule, Out, StrideRule
from .._values.errors import ArgumentError, XTargetError
from .configs import configs_of
from .contexts import Heuristic, Rule, formula, is_formula
from .declarations import (
    Declaration,
    Parameters,
    constant_of,
    constexpr_value,
    names_in,
    place_of,
    place_of_function,
    rule_of,
    rules_of,
)
from .dtype_words import no_dtype
from .lengths import solved_lengths

__all__ = ["declare"]


def declare(
    kernel: str,
    fn: Any,
    parameters: Parameters | None,
    given: Mapping[str, Any],
    decided: Mapping[str, Heuristic],
) -> Declaration:
    """Find out what each parameter is.

    Args:
        fn: the function, to say where it stands.
        parameters: None: it is not a Triton function, and gives the launches.
        given: the arguments of `@xtarget.kernel`, checked for their forms.
        decided: heuristics of its flags.

    Raises:
        XTargetError: something is not a parameter, has two parts, or does not fit.
    """
    said = parameters.rules if parameters else {}
    arrays, scalars, order = _parameter_order(kernel, fn, parameters, given)
    outputs = {
        n: o if isinstance(o, Out | ArrayRule) else Out(o) for n, o in given["outputs"].items()
    }
    workspaces = {
        n: o if isinstance(o, Out | ArrayRule) else Out(o) for n, o in given["workspaces"].items()
    }
    for name, rule in said.items():
        if isinstance(rule, ArrayRule) and rule.role in ("Out", "Workspace"):
            goal, word = (outputs, "outputs") if rule.role == "Out" else (workspaces, "workspaces")
            if name in goal:
                raise ArgumentError(
                    f"{kernel}: its parameter {name!r} ({place_of(fn, name)}) is {rule!r} and one "
                    f"of {word} too. Say it once."
                )
            goal[name] = rule
    named_sizes: Mapping[str, Any] = given["sizes"]
    strides = {n: r for n, r in {**said, **named_sizes}.items() if isinstance(r, StrideRule)}
    sizes = rules_of(kernel, "size", {n: r for n, r in named_sizes.items() if n not in strides})
    steps: dict[str, frozenset[int]] = {}
    for name, stride in strides.items():
        _check_stride(kernel, fn, name, stride, {**arrays, **outputs})
        sizes[name] = _stride(stride)
        steps[stride.array] = steps.get(stride.array, frozenset()) | {stride.axis}
    configs = configs_of(kernel, given["configs"])
    constants = {
        name: formula(f"constant {name!r}", value)
        if type(value) is str and is_formula(value)
        else constant_of(value)
        for name, value in given["constants"].items()
    }
    constants |= {
        name: constant_of(value)
        for name, value in (configs[0].constants if configs else {}).items()
    }
    computed = {*sizes, *constants, *given["flags"]}
    dims = {name: array for name, array in _dimensions(arrays) if name not in computed}
    flags = {
        name: REQUIRED if value is ... else constant_of(constexpr_value(value))
        for name, value in given["flags"].items()
    }
    known = {*arrays, *outputs, *workspaces, *computed, *dims}
    defaults = set(parameters.defaults) if parameters else set()
    certain = {name for name, _ in _dimensions({n: r for n, r in arrays.items() if not r.optional})}
    others = {*known, *scalars, *order, *defaults} - (dims.keys() - certain)
    solved = solved_lengths(arrays, others)
    dims = {name: array for name, (array, _) in solved.items()} | dims
    known |= solved.keys()
    if parameters:
        for name in parameters.names:
            if name in known or name in scalars:
                continue
            default = parameters.defaults.get(name, REQUIRED)
            if name in parameters.constexpr:
                flags[name] = constant_of(constexpr_value(default))
            else:
                scalars[name] = default
    if given["inputs"] is None and parameters:
        order = [name for name in parameters.names if name in arrays or name in scalars]
    else:
        order += [name for name in scalars if name not in order]
    updates = [*given["updates"], *(n for n, rule in arrays.items() if rule.role == "InOut")]
    declaration = Declaration(
        name=kernel,
        order=tuple(order),
        arrays=arrays,
        scalars=scalars,
        outputs=outputs,
        workspaces=workspaces,
        sizes=sizes,
        constants=constants,
        flags=flags,
        dims=dims,
        updates=tuple(dict.fromkeys(updates)),
        kinds={n: k for n, k in parameters.kinds.items() if n in scalars} if parameters else {},
        steps=steps,
        strided=given["strided"],
        grid=None if given["grid"] is None else rule_of(kernel, "grid", given["grid"]),
        num_warps=given["num_warps"],
        num_stages=given["num_stages"],
        options=given["options"],
        configs=configs,
        key=tuple(given["key"]),
        prune=given["prune"],
        solved={name: rule for name, (_, rule) in solved.items()},
        decided=decided,
    )
    _check(declaration, fn, parameters)
    return declaration


def _parameter_order(
    kernel: str, fn: Any, parameters: Parameters | None, given: Mapping[str, Any]
) -> tuple[dict[str, ArrayRule], dict[str, Any], list[str]]:
    """Arrays, numbers, and their order as far as `inputs` says it."""
    said = parameters.rules if parameters else {}
    named = {
        n: r for n, r in said.items() if isinstance(r, ArrayRule) and r.role in ("In", "InOut")
    }
    scalars = given["scalars"]
    scalars = dict(scalars) if isinstance(scalars, Mapping) else dict.fromkeys(scalars, REQUIRED)
    if given["inputs"] is None:
        arrays, order = named, []
    else:
        found = names_in(kernel, "input", given["inputs"])
        order = list(found)
        arrays = {n: named.get(n, rule) for n, rule in found.items() if n not in scalars}
        left = [n for n in named if n not in found]
        if left:
            raise ArgumentError(
                f"{kernel}: its parameter {left[0]!r} ({place_of(fn, left[0])}) is "
                f"{named[left[0]]!r}, but not one of inputs. Name it there, or leave inputs out."
            )
    defaults = parameters.defaults if parameters else {}
    for name, rule in arrays.items():
        if defaults.get(name, REQUIRED) is None:
            arrays[name] = rule | None
    for name in scalars:
        if scalars[name] is REQUIRED:
            scalars[name] = defaults.get(name, REQUIRED)
    return arrays, scalars, order


def _stride(rule: StrideRule) -> Rule:
    def stride(context: Any) -> Any:
        array = getattr(context, rule.array)
        return 0 if array is None else array.strides[rule.axis]

    return stride


def _check_stride(
    kernel: str, fn: Any, parameter: str, rule: StrideRule, arrays: Mapping[str, Any]
) -> None:
    """Refuse a stride of what is no array, or of a dimension that it has not."""
    where = f"{kernel}: its parameter {parameter!r} ({place_of(fn, parameter)}) is {rule!r}"
    array = arrays.get(rule.array)
    if array is None:
        raise ArgumentError(
            f"{where}, and {rule.array!r} is none of its inputs and outputs ({', '.join(arrays)})."
        )
    dims = array.dims if isinstance(array, ArrayRule) else None
    if dims is not None and ... not in dims and not -len(dims) <= rule.axis < len(dims):
        raise ArgumentError(
            f"{where}, and {rule.array} has {len(dims)} dimension{'s' if len(dims) != 1 else ''}: "
            f"{array!r}. Dimensions are counted from 0."
        )


def _dimensions(arrays: Mapping[str, ArrayRule]) -> Iterator[tuple[str, str]]:
    for array, rule in reversed(
        list(arrays.items())
    ):  # the first array that says a length is named
        for dim in rule.dims or ():
            if isinstance(dim, str) and dim.isidentifier():
                yield dim, array


def _check(declaration: Declaration, fn: Any, parameters: Parameters | None) -> None:
    """Check what can be checked before the first call."""
    kernel = declaration.name
    parts: dict[str, Sequence[str]] = {
        "inputs": tuple(declaration.arrays),
        "scalars": tuple(declaration.scalars),
        "outputs": tuple(declaration.outputs),
        "workspaces": tuple(declaration.workspaces),
        "sizes": tuple(declaration.sizes),
        "constants": tuple(declaration.constants),
        "flags": tuple(declaration.flags),
    }
    strange = [n for n in declaration.updates if n not in declaration.arrays]
    if strange:
        raise XTargetError(
            f"kernel {kernel}: {', '.join(strange)} of updates is none of its inputs "
            f"({', '.join(declaration.arrays)}). An array that it reads and writes in place is "
            "both."
        )
    if parameters is not None:
        wrong = [
            f"{name} of its {part}"
            for part, names in parts.items()
            for name in names
            if name not in parameters.names and part != "flags"
        ]
        if wrong:
            raise XTargetError(
                f"kernel {kernel}: {', '.join(wrong)} is not a parameter of the function "
                f"({place_of_function(fn)}), which has {', '.join(parameters.names)}. A length "
                'that no launch takes is named in an annotation (In["int32", "B + 1"] says B).'
            )
    seen: dict[str, str] = {}
    for part, names in parts.items():
        for name in names:
            if name in seen:
                raise ArgumentError(
                    f"{kernel}: its parameter {name!r} is named in {seen[name]} and {part}. Name "
                    "it once; an input that is written in place is one of updates too."
                )
            seen[name] = part
    for name, array in declaration.dims.items():
        if name in seen and seen[name] != "scalars":
            raise ArgumentError(
                f"{kernel}: {name!r} is a length of {array} and one of its {seen[name]}. Give "
                "one of them another name."
            )
    _check_layouts(declaration, fn)
    unknown = [
        n
        for n in declaration.key
        if n in declaration.scalars or n not in {*seen, *declaration.dims}
    ]
    if unknown:
        raise ArgumentError(
            f"{kernel}: its key names {unknown[0]!r}, which is not a size, flag or array of it. A "
            "configuration is chosen by what is known before a call, not by a number's value."
        )


def _not_like(declaration: Declaration, word: str, arrays: Set[str]) -> str:
    """Why an output cannot be like a parameter, and what to do."""
    if word in declaration.scalars:
        return (
            f", which is a number, as nothing says that it is an array. Name it in inputs "
            f'(inputs=("{word}",)), or write In["any"] as its annotation.'
        )
    if not arrays:
        return (
            ", as the kernel has no arrays. Name them in inputs, or give a function that gives "
            "(shape, dtype): lambda c: ((c.n,), 'float32')."
        )
    return (
        f", which is none of its arrays ({', '.join(sorted(arrays))}). "
        "Name one of these, or give a function that gives (shape, dtype)."
    )


def _no_array(declaration: Declaration, word: str) -> str:
    """Why a parameter that an output is to be like is nothing to be like."""
    if word not in declaration.scalars:
        return ""
    return (
        f"; {word!r} is a number, as nothing says that it is an array. Write In[...] as its "
        "annotation, or name it in inputs"
    )


def _check_layouts(declaration: Declaration, fn: Any) -> None:
    kernel = declaration.name
    known = {*declaration.arrays, *declaration.outputs, *declaration.workspaces}
    for name, array in (*declaration.arrays.items(), *declaration.outputs.items()):
        if isinstance(array, ArrayRule):
            for word in {w.strip() for w in array.dtype.split("|")} - known - {*declaration.flags}:
                reason = no_dtype(word)
                if reason:
                    raise ArgumentError(
                        f"{kernel}: the dtype of its parameter {name!r} ({place_of(fn, name)}) is "
                        f"{word!r}, {reason}"
                    )
    for part, made in (("output", declaration.outputs), ("workspace", declaration.workspaces)):
        for name, out in made.items():
            if isinstance(out, ArrayRule):
                if out.optional:
                    raise ArgumentError(
                        f"{kernel}: its {part} {name!r} ({place_of(fn, name)}) is {out!r}: each "
                        "call makes it. Leave `| None` out, or write InOut[...] | None, an array "
                        "that the caller gives or not."
                    )
                if out.dims is None and out.dtype not in known:
                    raise ArgumentError(
                        f"{kernel}: its {part} {name!r} ({place_of(fn, name)}) is {out!r}, which "
                        'says no shape. Write Out["float32", "M", "N"], or Out["x"] to be like x'
                        f"{_no_array(declaration, out.dtype)}."
                    )
                if out.dims is not None and ... in out.dims:
                    raise ArgumentError(
                        f"{kernel}: its {part} {name!r} ({place_of(fn, name)}) is {out!r}: `...` "
                        "says no shape. Name each dimension."
                    )
            elif isinstance(out.like, str) and out.like not in known:
                raise ArgumentError(
                    f"{kernel}: its {part} {name!r} cannot be like {out.like!r}"
                    f"{_not_like(declaration, out.like, known - {name})}"
                )
            elif not isinstance(out.like, str) and not callable(out.like):
                raise ArgumentError(
                    f"{kernel}: its {part} {name!r} is {out.like!r}. Give the name of an input "
                    "to be like, or a function: lambda c: (c.x.shape, c.x.dtype)."
                )
            if out.count is not None and (part != "output" or out.count not in declaration.outputs):
                raise ArgumentError(
                    f"{kernel}: its {part} {name!r} is counted by {out.count!r}, which is none of "
                    f"its outputs ({', '.join(declaration.outputs)})."
                )
