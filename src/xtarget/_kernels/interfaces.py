"""A kernel's interface for people: its signature as Python shows one, and a text for `help`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Final

from .._values.errors import ArgumentError
from .._values.types import COMPUTED, DTYPES, DtypeConstant
from ..spec import KernelSpec

__all__ = ["INPUT_DTYPES", "description", "input_dtypes", "signature"]

#: Inputs of the catalog that have a dtype of their own, by name: for examples and tests.
INPUT_DTYPES: Final = {
    "a_bits": "uint8",
    "a_scale": "float32",
    "b_bits": "uint8",
    "b_scale": "float32",
    "bits": "uint8",
    "condition": "bool",
    "exponent": "int32",
    "index": "int64",
    **{f"index{number}": "int64" for number in range(8)},
    "input_lengths": "int64",
    "lengths": "int32",
    "positions": "int64",
    "q_weight": "uint8",
    "scale": "uint8",
    "scales": "float32",
    "segment": "int64",
    "slots": "int64",
    "starts": "int32",
    "starts_k": "int32",
    "starts_q": "int32",
    "table": "int32",
    "target": "int64",
    "target_lengths": "int64",
    "targets": "int64",
    "where": "bool",
}


#: Inputs of anybody's kernels that are conditions, by name.
_CONDITIONS: Final = dict.fromkeys(("cond", "condition", "mask"), "bool")


def input_dtypes(spec: KernelSpec) -> Mapping[str, str]:
    """The dtypes of inputs that do not have the dtype of a call, by name: what examples give."""
    return _CONDITIONS if spec.category == "user" else {**_CONDITIONS, **INPUT_DTYPES}


class _LeftOut:
    """The default of an argument that may be left out."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT: Final = _LeftOut()


def _common(spec: KernelSpec) -> tuple[str, ...]:
    """Return what a call takes beside the kernel's own options."""
    return ("out", "device", "stream") if spec.results else ("device", "stream")


def signature(spec: KernelSpec) -> inspect.Signature:
    """The arguments of a call of the kernel. Where arrays and numbers have no names in a call
    (`KernelSpec.by_name`), an option may be called as one of them is; such an option stands in the
    text only.
    """
    found: list[Parameter] = []
    kind = Parameter.POSITIONAL_OR_KEYWORD if spec.by_name else Parameter.POSITIONAL_ONLY
    last = True  # what is left out before others is given as None
    for name in reversed(spec.inputs):
        last = last and name.endswith("?")
        default = LEFT_OUT if last else Parameter.empty
        found.insert(0, Parameter(name.rstrip("?"), kind, default=default))
    taken = {parameter.name for parameter in found}
    options = {**dict.fromkeys(_common(spec)), **spec.options}
    found += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_as_given(value))
        for name, value in options.items()
        if name not in taken and name.isidentifier()
    ]
    return inspect.Signature(found)


def _as_given(value: Any) -> Any:
    """An element type by its name, as a call gives it."""
    return value.name if isinstance(value, DtypeConstant) else value


def check_like(spec: KernelSpec, like: Any) -> None:
    """Check that a function which stands for a kernel's signature takes what the kernel takes.

    Raises:
        ArgumentError: it takes something else, or nothing that the kernel needs.
    """
    try:
        said = inspect.signature(like).parameters.values()
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{spec.name}: like={like!r:.80} has no signature. Give a Python function."
        ) from None
    inputs = [name.rstrip("?") for name in spec.inputs]
    keywords = {*_common(spec), *spec.options, *(inputs if spec.by_name else ())}
    by_place = [p for p in said if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in by_place]
    where = f"{spec.name}: like={getattr(like, '__name__', like)}"
    if names[: len(inputs)] != inputs[: len(names)] or len(names) > len(inputs):
        raise ArgumentError(
            f"{where} takes ({', '.join(names)}) by place, and the kernel takes "
            f"({', '.join(inputs)}). Give them in this order; put `*` before options."
        )
    rest = {p.name for p in said if p.kind is p.KEYWORD_ONLY}
    left = [name for name in spec.inputs[len(names) :] if not name.endswith("?")]
    missing = [name for name in left if name not in rest]
    strange = sorted(rest - keywords)
    if strange or missing:
        wrong = f"takes {strange[0]}=, which" if strange else f"does not take {missing[0]}, which"
        has = "is not an option of the kernel" if strange else "the kernel needs"
        raise ArgumentError(f"{where} {wrong} {has}. Its signature is {signature(spec)}.")


def description(spec: KernelSpec) -> str:
    """The text that `help` shows of a kernel."""
    lines = [f"{spec.name}{signature(spec)}", ""]
    if spec.summary:
        lines += [spec.summary, ""]
    dtypes = "every dtype" if set(spec.dtypes) == set(DTYPES) else ", ".join(spec.dtypes)
    if set(spec.dtypes) == set(COMPUTED):
        dtypes = "every dtype but floats of 8 bits"
    lines.append(f"Arrays of {dtypes}. Kernel of the category {spec.category!r}.")
    if spec.scalars:
        lines.append(f"By value, as numbers: {', '.join(spec.scalars)}.")
    optional = [name.rstrip("?") for name in spec.inputs if name.endswith("?")]
    if spec.by_name and optional:
        lines.append(f"May be left out, or None: {', '.join(optional)}.")
    if len(spec.outputs) > 1:
        lines.append(f"Results: {', '.join(spec.outputs)}; out= takes an array for each.")
    for number, config in enumerate(spec.configs):
        lines.append(f"config={number}: {config}.")
    if spec.updates:
        lines.append(f"Read and written in place: {', '.join(spec.updates)}.")
    if spec.options:
        given = ", ".join(f"{name}={value!r}" for name, value in spec.options.items())
        lines.append(f"Options: {given}.")
    if spec.words:
        words = ", ".join(f"{word} for {own}" for word, own in spec.words.items())
        lines.append(f"Other words: {words}.")
    if spec.aliases:
        lines.append(f"Other names: {', '.join(spec.aliases)}.")
    if spec.elementwise or spec.in_place:
        lines.append("`out` may be one of the arrays.")
    common = "".join(f", {name}=None" for name in _common(spec))
    lines += [
        "",
        f"k(*args{common}, **options)",
        f"    as xtarget.run({spec.name!r}, *args, ...)",
        f"k.prepare(*args{common}, **options)",
        "    a launch that keeps its arrays: launch(), launch.update(name=array)",
        "k.compile(*args, target=..., **options)",
        f"    as xtarget.compile({spec.name!r}, *args, ...)",
    ]
    return "\n".join(lines)
