"""A kernel's interface for people: its signature as Python shows one, and a text for `help`."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Final

from .._values.types import DTYPES
from ..spec import KernelSpec

__all__ = ["description", "signature"]


class _LeftOut:
    """The default of an argument that may be left out."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT: Final = _LeftOut()
#: What every call takes beside the kernel's own options.
_COMMON: Final = ("out", "device", "stream")


def signature(spec: KernelSpec) -> inspect.Signature:
    """The arguments of a call of the kernel. Arrays and numbers have no names in a call, so an
    option may be called as one of them is; such an option stands in the text only."""
    found = []
    for name in spec.inputs:
        default = LEFT_OUT if name.endswith("?") else Parameter.empty
        found.append(Parameter(name.rstrip("?"), Parameter.POSITIONAL_ONLY, default=default))
    taken = {parameter.name for parameter in found}
    options = {**dict.fromkeys(_COMMON), **spec.options}
    found += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=value)
        for name, value in options.items()
        if name not in taken and name.isidentifier()
    ]
    return inspect.Signature(found)


def description(spec: KernelSpec) -> str:
    """What `help` shows of a kernel."""
    lines = [f"{spec.name}{signature(spec)}", ""]
    if spec.summary:
        lines += [spec.summary, ""]
    dtypes = "every dtype" if set(spec.dtypes) == set(DTYPES) else ", ".join(spec.dtypes)
    lines.append(f"Arrays of {dtypes}. Kernel of the category {spec.category!r}.")
    if spec.scalars:
        lines.append(f"By value, as numbers: {', '.join(spec.scalars)}.")
    if spec.updates:
        lines.append(f"Read and written in place: {', '.join(spec.updates)}.")
    if spec.options:
        given = ", ".join(f"{name}={value!r}" for name, value in spec.options.items())
        lines.append(f"Options: {given}.")
    if spec.elementwise:
        lines.append("`out` may be one of the arrays.")
    lines += [
        "",
        "k(*args, out=None, device=None, stream=None, **options)",
        f"    as xtarget.run({spec.name!r}, *args, ...)",
        "k.prepare(*args, out=None, device=None, stream=None, **options)",
        "    a launch that keeps its arrays: launch(), launch.update(name=array)",
        "k.compile(*args, target=..., **options)",
        f"    as xtarget.compile({spec.name!r}, *args, ...)",
    ]
    return "\n".join(lines)
