"""A call's arguments and its bound call, for who keeps them: prepared launches, and observed ones.

`run` does the same without the objects in between.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .._arrays import is_scalar, kind_of
from .._devices import registry
from .._kernels import libraries
from .._values.value_classes import value_class
from . import run as _run
from .call import BoundCall
from .outs import Outs, check_writable, outs_of

if TYPE_CHECKING:
    from .._values.aliases import Args

__all__ = ["Found", "adopted", "adopted_out", "described", "find", "kind_if_array"]


@value_class(frozen=True, slots=True)
class Found:
    """A call that lacks a stream only.

    Attributes:
        args, out: the arrays as they are read, and numbers; `out` is None where none was given.
        values: their addresses, and the numbers' values; that of `out` last.
        parts: what of each decides about the call: dtype, layout, place.
    """

    call: BoundCall
    args: tuple[Any, ...]
    out: Any
    values: tuple[Any, ...]
    parts: tuple[Hashable, ...]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All arguments, and what is given for the outputs."""
        if type(self.out) is Outs:
            return (*self.args, *self.out)
        return self.args if self.out is None else (*self.args, self.out)

    def check(self) -> None:
        """Check what may have changed since the last launch.

        Raises:
            ArgumentError: a library is recording what it computes, or what is written overlaps
                another array.
        """
        call = self.call
        for consent in call.consents:
            consent(self.args, self.out)
        if self.out is not None:
            call.check_overlap(self.values)
        call.check_updates(self.arrays, self.all_values)

    @property
    def all_values(self) -> tuple[Any, ...]:
        """The values, those of the arrays for several outputs one by one."""
        return (*self.values[:-1], *self.values[-1]) if type(self.out) is Outs else self.values


def adopted(kernel: str, name: str, value: Any, *, written: bool) -> Any:
    """The object that stands for an argument.

    Args:
        written: the kernel writes to it.

    Raises:
        ArgumentError: it is neither an array nor a number, or would lose what is written to it.
    """
    if type(value) in _run._describers:
        return value
    found = _run._describe(value)
    if written:
        _run._check_lasting(kernel, name, value, found)
    return found


def adopted_out(kernel: str, out: Any) -> Any:
    """The stand-in for the caller's array for the result, or for those for several results.

    Raises:
        ArgumentError: as `adopted`; or these are not the kernel's outputs.
    """
    if isinstance(out, tuple | list | Mapping):
        spec = libraries.find(kernel).spec
        return outs_of(spec, out, partial(adopted, kernel, written=True))
    return adopted(kernel, "out", out, written=True)


def kind_if_array(value: Any) -> Any:
    """The kind of an array, or those of several; None for a number, and for what was left out."""
    if type(value) is Outs:
        return tuple(map(kind_of, value))
    return None if value is None or is_scalar(value) else kind_of(value)


def described(value: Any) -> tuple[Any, Hashable]:
    """Address and layout of an array, value and size of a number, of what `adopted` gave."""
    address, part = _run._describers[type(value)](value)
    return address, part


def find(
    kernel: str, args: Args, out: Any, device: Any, options: Mapping[str, Any], stream: Any = None
) -> Found:
    """Look a call up; bind it the first time.

    Args:
        stream: where it is going to be launched, as `run` is given it.

    Raises:
        XTargetError: as `run`.
    """
    if device is not None and type(device) is not str:
        device = registry.find_device(device)
    spec = libraries.find(kernel).spec  # a wrong name is said before a wrong argument
    names = [name.rstrip("?") for name in spec.inputs]
    names += ["" for _ in args[len(names) :]]  # too many are refused where they are counted
    stands = tuple(
        adopted(kernel, name, value, written=name in spec.updates)
        for name, value in zip(names, args, strict=False)
    )
    if out is not None:
        check_writable(kernel, "out", out)
    stands_out = None if out is None else adopted_out(kernel, out)
    values, parts = [], []
    for value in (*stands, *(() if out is None else (stands_out,))):
        address, part = described(value)
        values.append(address)
        parts.append(part)
    key: list[Hashable] = [kernel, device, *parts]
    if out is not None:
        key.append("out")
    if options:
        key.append(_run._options_key(dict(options)))
    call = _run.call_of(tuple(key), kernel, stands, stands_out, device, dict(options), stream)
    # stores that were not declared till now
    _run._check_updated(kernel, args, stands, spec.updates)
    return Found(call, stands, stands_out, tuple(values), tuple(parts))
