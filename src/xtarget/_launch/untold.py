"""Options that a call finds in its arguments where it is not told them: how many classes there
are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._arrays import adopt, is_scalar, view_of
from .._devices import streams
from .._kernels import libraries
from .._values.errors import ArgumentError
from ..spec import ArrayType, KernelSpec
from ..targets.optional import Capturable
from .order import Order

if TYPE_CHECKING:
    from .._values.aliases import Args, Options

__all__ = ["UntoldError", "check_found", "check_told", "found_in"]


class UntoldError(ArgumentError):
    """The values of an argument have to be read before the call can be planned."""


def _untold(spec: KernelSpec, options: Mapping[str, Any]) -> list[str]:
    return [name for name in spec.found if options.get(name) is None]


def check_told(spec: KernelSpec, options: Mapping[str, Any]) -> None:
    """Raises:
    UntoldError: an option is left out that only values say.
    """
    for name in _untold(spec, options):
        raise _not_told(spec, name)


def _not_told(spec: KernelSpec, option: str) -> UntoldError:
    return UntoldError(
        f"{spec.name}: {option} is not given, and the integers that say it are not read here. "
        f"Give {option}=."
    )


def found_in(kernel: str, args: Args, device: Any, stream: Any, options: Options) -> Options:
    """The options of a call of `xtarget.run`, with those that it was not told.

    Raises:
        ArgumentError: an argument is empty, or the call is captured.
    """
    spec = libraries.find(kernel).spec
    told = dict(options)
    for name in _untold(spec, options):
        place, more = spec.found[name]
        told[name] = _largest(spec, place, name, args[place], device, stream) + more
    return told


def check_found(spec: KernelSpec, types: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raises:
    ArgumentError: an option is left out, and what says it is empty.
    """
    for name in _untold(spec, options):
        place, _ = spec.found[name]
        if isinstance(types[place], ArrayType):
            _check_some(spec, place, name, types[place])


def _check_some(spec: KernelSpec, place: int, option: str, type_: ArrayType) -> None:
    if not type_.size:
        of = spec.inputs[place].rstrip("?")
        raise ArgumentError(
            f"{spec.name}: {of} has shape {type_.shape}, so no largest integer, which says "
            f"{option}. Give {option}=."
        )


def _largest(
    spec: KernelSpec, place: int, option: str, index: Any, device: Any, stream: Any
) -> int:
    type_ = None if is_scalar(index) else view_of(adopt(index)).type
    if type_ is None or "int" not in type_.dtype:
        return 0  # the plan says what it takes
    _check_some(spec, place, option, type_)
    lookup = import_module(f"{__package__}.lookup")  # it stands above this file
    found = lookup.find("max", (index,), None, device, {}, stream)
    on = None if stream is None else streams.resolve(found.call.device, stream)
    launched_on = Order(found.call, found.args, on).launch
    if isinstance(launched_on, Capturable) and launched_on.capturing():
        raise _not_told(spec, option)
    largest = found.call.run(found.args, list(found.values), None, on)
    launched_on.synchronize()
    return int(largest)
