"""Results of kernels that have several: the caller's arrays for them, and those of which only a
part is the result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from .._arrays import is_scalar
from .._kernels import libraries
from .._values.errors import ArgumentError, shortened
from ..spec import KernelSpec
from ..targets.base import Stream
from ..targets.optional import Capturable

__all__ = [
    "Outs",
    "check_may_count",
    "check_writable",
    "counted",
    "counts_later",
    "describe_outs",
    "outs_of",
]


class Outs(tuple[Any, ...]):
    """The caller's arrays for all outputs of a kernel, in their order."""

    __slots__ = ()


def outs_of(spec: KernelSpec, given: Any, read: Callable[[str, Any], Any]) -> Outs:
    """Put arrays, in a sequence or by the outputs' names, into their order.

    Args:
        read: gives the object that stands for an array, from its name and the array.

    Raises:
        ArgumentError: one is missing or too many.
    """
    names = spec.outputs
    if len(names) < 2:
        raise ArgumentError(
            f"{spec.name} takes one array as out, not a {type(given).__name__} of {len(given)}. "
            "If it gives several arrays, call it without out."
        )
    wanted = f"Give out=({', '.join(names)}), an array for each"
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given]
        if unknown or missing:
            word = f"no output {unknown[0]!r}" if unknown else f"an output {missing[0]!r} too"
            raise ArgumentError(f"{spec.name} has {word}. {wanted}, or by name.")
        given = [given[name] for name in names]
    if len(given) != len(names):
        raise ArgumentError(
            f"{spec.name}: out= has {len(given)} arrays, and it has {len(names)} outputs. {wanted}."
        )
    for name, array in zip(names, given, strict=True):
        check_writable(spec.name, f"out[{name!r}]", array)
    return Outs(read(f"out[{name!r}]", array) for name, array in zip(names, given, strict=True))


def check_writable(kernel: str, name: str, value: Any) -> None:
    """Refuse what nobody takes for an array, with the output that it was given for.

    Raises:
        ArgumentError: it is None, a number or text.
    """
    if value is None or isinstance(value, str) or is_scalar(value):
        every = "" if name == "out" else " for each output"
        raise ArgumentError(
            f"{kernel}: {name} is {shortened(value)}, which cannot be written to. Give an array"
            f"{every}, or call it without out=, which makes new ones."
        )


def describe_outs(describers: Mapping[type, Any], outs: Outs) -> tuple[Any, Hashable]:
    """Addresses, and what decides about the call, by what describes arrays."""
    found = [describers[type(array)](array) for array in outs]
    return tuple(address for address, _ in found), tuple(
        (type(array), part) for array, (_, part) in zip(outs, found, strict=True)
    )


def check_may_count(kernel: str, stream: Stream) -> None:
    """Refuse a call whose result's size is known after it only, where it runs later.

    Raises:
        ArgumentError: the stream is captured.
    """
    if isinstance(stream, Capturable) and stream.capturing():
        raise counts_later(kernel)


def counts_later(kernel: str) -> ArgumentError:
    """For a captured call."""
    instead = "Call it before, outside of what is captured."
    if len(libraries.find(kernel).spec.outputs) > 1:  # of which one is the count
        instead = "Give out= for all of its outputs; the count is one of them."
    return ArgumentError(
        f"{kernel}: the size of its result is known when it has run, and a captured call runs "
        f"later. {instead}"
    )


def counted(outputs: Sequence[Any], counts: Sequence[int | None], stream: Stream) -> list[Any]:
    """Cut outputs to their leading entries that are the result; counts themselves are none.

    Args:
        counts: by output, the one whose element says how many.
    """
    stream.synchronize()
    results = []
    for index, (array, count) in enumerate(zip(outputs, counts, strict=True)):
        if index not in counts:
            if count is not None:
                number = outputs[count]
                array = array[: int(number[(0,) * len(number.shape)])]
            results.append(array)
    return results
