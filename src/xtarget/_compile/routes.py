"""The ways from a kernel to its binary, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from .._devices import registry
from .._values import environment
from .._values.errors import ArgumentError, CompileError, FrozenError, NoCompilerError
from .._values.types import Artifact, CompileRequest, Target
from .._values.value_classes import value_class
from .._values.vendors import vendors
from ..targets.base import Compiler

__all__ = [
    "HOST",
    "STRICT",
    "TRITON",
    "NoRouteError",
    "Way",
    "first_that_serves",
    "first_ways",
    "named",
    "ways",
]

TRITON = "triton"
#: Words of `XTARGET_ROUTES` that are no compiler's: a route that fails is an error; NumPy's
#: reference serves what nothing can be compiled for (`_launch.chosen`).
STRICT, HOST = "strict", "host"
_warned: set[tuple[str, str, str]] = set()


class NoRouteError(CompileError):
    """No route can serve a request, and none has failed."""


@value_class(frozen=True, slots=True)
class Way:
    """A compiler of a vendor, by the name of its route.

    Attributes:
        refusal: why it cannot serve a request, as a sentence; empty if it can.
    """

    name: str
    compiler: Compiler
    refusal: Callable[[CompileRequest, Target], str] = field(repr=False)

    @property
    def is_triton(self) -> bool:
        return self.name == TRITON

    @property
    def key(self) -> str:
        """Its name in keys."""
        return "" if self.is_triton else self.name


def _each(vendor: str) -> Iterator[Way]:
    """All ways of a vendor, in the order in which they are tried if nobody says another one. Those
    that Triton makes unnecessary are not imported."""
    yield Way(TRITON, registry.compiler(vendor), lambda request, target: "")
    for route in registry.routes(vendor):
        yield Way(route.name, route, route.refusal)


def _all(vendor: str) -> Mapping[str, Way]:
    return {way.name: way for way in _each(vendor)}


def named(vendor: str, name: str) -> Way | None:
    """The way by which an artifact says that it was made; None if there is none any more."""
    return _all(vendor).get(name)


def ways(vendor: str) -> Iterable[Way]:
    """The ways that are tried, in their order: `XTARGET_ROUTES`, or all.

    Raises:
        ArgumentError: the variable names a route that no vendor has, or none of this one.
    """
    wanted = [name for name in environment.routes() if name not in (STRICT, HOST)]
    if not wanted:
        return () if HOST in environment.routes() else _each(vendor)
    there = _all(vendor)
    for name in wanted:
        if name not in there and not any(name in _all(other) for other in vendors()):
            known = sorted({own for other in vendors() for own in _all(other)})
            raise ArgumentError(
                f"XTARGET_ROUTES names {name!r}, which is not a route. There are "
                f"{', '.join(known)}, and the words {HOST} and {STRICT}."
            )
    found = tuple(there[name] for name in wanted if name in there)
    if not found:
        raise ArgumentError(
            f"XTARGET_ROUTES is {','.join(wanted)}, and {vendor} has none of these: it has "
            f"{', '.join(there)}. Add one of them."
        )
    return found


def first_ways(vendor: str) -> tuple[Way, ...]:
    """The ways that a bundle's binaries are made by: those of `XTARGET_ROUTES`, if another one than
    Triton is its first; else Triton alone.

    Raises:
        ArgumentError: as `ways` does.
    """
    chosen = tuple(ways(vendor)) if environment.routes() else ()
    if chosen and not chosen[0].is_triton:
        return chosen
    return (Way(TRITON, registry.compiler(vendor), lambda request, target: ""),)


def first_that_serves(
    request: CompileRequest, target: Target, make: Callable[[Way], Artifact]
) -> Artifact:
    """The result of the first way that can make it.

    A way that has no compiler here, or that cannot do this kernel, is passed over. One that fails
    is passed over with a warning if `XTARGET_ROUTES` names what comes next, or if the kernel has
    sources in other languages. Else the error of Triton, whose source it is, is the answer.

    Raises:
        CompileError: none can. The error is that of the first one; it says why the others did not.
    """
    order, given = ways(target.vendor), environment.routes()
    first: CompileError | None = None
    others: list[str] = []
    failed: tuple[Way, CompileError] | None = None
    for way in order:
        if failed is not None:  # there is a next one
            _say_failed(*failed, request, target)
            failed = None
        refused = way.refusal(request, target)
        if refused:
            others.append(f"The route {way.name} cannot serve it: {refused}")
            continue
        try:
            made = make(way)
        except FrozenError:
            raise
        except CompileError as error:
            absent = isinstance(error, NoCompilerError)
            goes_on = given or absent or request.source.written
            if STRICT in given or not goes_on:
                raise
            if first is None:
                first = error
            else:
                others.append(f"The route {way.name} failed: {error}")
            if not absent:
                failed = way, error
            continue
        return made
    if first is None:
        first = NoRouteError(f"kernel {request.source.name} has no route for {target}.")
    if not others:
        raise first
    raise type(first)(" ".join([str(first), *others])) from first


def _say_failed(way: Way, error: CompileError, request: CompileRequest, target: Target) -> None:
    about = (way.name, request.source.name, str(target))
    if about not in _warned:
        _warned.add(about)
        import logging  # is seldom needed, and brings traceback

        logging.getLogger("xtarget").warning(
            "the route %s has failed for %s on %s, and the next one is tried "
            "(XTARGET_ROUTES=strict,... makes it an error): %s",
            *about,
            error,
        )
