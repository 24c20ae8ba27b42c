"""Options whose value is one of a few words."""

from __future__ import annotations

from xtarget import spec

__all__ = ["found", "heads_first", "one_of"]

#: As many words are told with commas and an "or".
_FEW = 3


def one_of(call: spec.Call, name: str, choices: tuple[str, ...]) -> str:
    """The option `name`.

    Raises:
        ArgumentError: it is none of `choices`.
    """
    value = call.options[name]
    if value not in choices:
        listed = f"one of {', '.join(choices)}"
        if len(choices) <= _FEW:
            listed = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be {listed}.")
    return str(value)


def found(call: spec.Call, name: str) -> int:
    """The option `name`, which a call finds in its arguments (`KernelSpec.found`).

    Raises:
        ArgumentError: it is no integer, or nobody has looked at the arguments.
    """
    value = call.options[name]
    if value is None:
        raise spec.ArgumentError(
            f"{call.kernel}: the shape of the result has to be known before the integers that say "
            f"it are read here. Give {name}=."
        )
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be an integer.")
    number: int = value.__index__()
    return number


def heads_first(call: spec.Call) -> bool:
    """The option `layout` of attention: the axis of the heads comes before the sequence.

    Raises:
        ArgumentError: it is neither 'bhsd' nor 'bshd'.
    """
    return one_of(call, "layout", ("bhsd", "bshd")) == "bhsd"
