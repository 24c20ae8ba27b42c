"""Calls with `impl=` or `fallback=`: another implementation of an operator, because it was asked
for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .._compile import routes
from .._kernels import implementations, libraries
from .._kernels.implementations import HOST, TORCH
from .._values import environment
from .._values.choosing import CONFIG
from .._values.errors import (
    ArgumentError,
    CompileError,
    FrozenError,
    LoadError,
    MissingFeatureError,
    NoCompilerError,
    NoDeviceError,
    OutOfResourcesError,
    UnsupportedInstruction,
    shortened,
)

if TYPE_CHECKING:
    from .._values.aliases import Args, Options

__all__ = ["WORDS", "chosen", "run_by_host", "run_chosen"]

#: Keywords of a call that say which implementation serves it.
WORDS: Final = frozenset(("impl", "fallback"))
#: What it means that a device cannot do it, where the arguments are right.
_LACKS = (
    CompileError, LoadError, MissingFeatureError, NoDeviceError, OutOfResourcesError,
    UnsupportedInstruction,
)  # fmt: skip
_told: set[tuple[str, str, str]] = set()


def chosen(kernel: str, options: Options) -> str:
    """The name of the kernel that a call means, for what is not a call: to compile, prepare, tune.

    Args:
        options: of the call, out of which `impl` is taken.

    Raises:
        ArgumentError: there is no such implementation, or it is not a kernel.
    """
    if "fallback" in options:
        raise ArgumentError(f"{kernel}: fallback= is for xtarget.run alone. Leave it out here.")
    impl = options.pop("impl", None)
    return kernel if impl is None else implementations.named(kernel, impl)


def run_chosen(
    run: Callable[..., Any],
    kernel: str,
    args: Args,
    out: Any,
    device: Any,
    stream: Any,
    options: Options,
) -> Any:
    """`xtarget.run` with `impl=` or `fallback=`.

    Args:
        run: makes the call without them.

    Raises:
        ArgumentError: one of them means nothing.
        XTargetError: as for `run`.
    """
    own = dict(options)
    impl, fallback = own.pop("impl", None), own.pop("fallback", None)
    if fallback not in (None, HOST):
        raise ArgumentError(
            f'{kernel}: fallback={shortened(fallback)} is not known. fallback="host" lets NumPy\'s '
            "reference serve what the device lacks."
        )
    if impl in (HOST, TORCH):
        ways = {way.name for way in implementations.listed(kernel)}
        if impl not in ways:
            implementations.named(kernel, impl)  # says which there are
        if own.get(CONFIG) is not None and CONFIG not in libraries.find(kernel).spec.options:
            raise ArgumentError(
                f"{kernel}: impl={impl!r} is no kernel, so config= says nothing of it. Leave "
                "config= out."
            )
        if stream is not None:
            raise ArgumentError(
                f"{kernel}: impl={impl!r} takes no stream. Leave stream= out: it works on the "
                "current one."
            )
        return _away(impl, kernel, args, out, device, own)
    name = kernel if impl is None else implementations.named(kernel, impl)
    try:
        return run(name, *args, out=out, device=device, stream=stream, **own)
    except _LACKS as error:
        if fallback is None or isinstance(error, FrozenError):
            raise
        _tell(name, device, error, 'fallback="host"')
        return _away(HOST, kernel, args, out, None, own)


def run_by_host(error: CompileError, kernel: str, args: Args, out: Any, options: Options) -> Any:
    """The result of a call for which nothing could be compiled, by NumPy's reference, if
    `XTARGET_ROUTES` names the host.

    Raises:
        CompileError: `error`; the host is not named, or a route has failed and `strict` is.
    """
    named = environment.routes()
    failed = routes.STRICT in named and not isinstance(error, NoCompilerError | routes.NoRouteError)
    if HOST not in named or failed or isinstance(error, FrozenError):
        raise error
    _tell(kernel, None, error, f"the route {HOST} of XTARGET_ROUTES")
    return _away(HOST, kernel, args, out, None, options)


def _away(impl: str, kernel: str, args: Args, out: Any, device: Any, options: Options) -> Any:
    if impl == HOST:
        if device is not None:
            raise ArgumentError(f'{kernel}: impl="host" takes no device. Leave device= out.')
        from .reference_calls import run_reference  # of no use to other calls

        return run_reference(kernel, args, out, options)
    from .torch_calls import run_torch

    return run_torch(kernel, args, out, device, options)


def _tell(kernel: str, device: Any, error: Exception, asked: str) -> None:
    """Say once that the host serves it, and by which word somebody asked for that."""
    name = libraries.find(kernel).spec.name
    known = (name, str(device), type(error).__name__)
    if known not in _told:
        _told.add(known)
        import logging  # is seldom needed, and brings traceback

        logging.getLogger("xtarget").warning(
            "%s: NumPy's reference serves it on the host (%s), because: %s This is said once.",
            name, asked, error,
        )  # fmt: skip
