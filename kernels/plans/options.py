"""Options whose value is one of a few words."""

from __future__ import annotations

from xtarget import spec

__all__ = ["heads_first", "one_of"]

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


def heads_first(call: spec.Call) -> bool:
    """The option `layout` of attention: the axis of the heads comes before the sequence.

    Raises:
        ArgumentError: it is neither 'bhsd' nor 'bshd'.
    """
    return one_of(call, "layout", ("bhsd", "bshd")) == "bhsd"
