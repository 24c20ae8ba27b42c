"""Registering kernels with torch: schema, implementation, fake function, gradient, vmap."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from threading import RLock
from typing import Any

import torch

from .._kernels import libraries
from .._kernels.libraries import RegisteredKernel
from .._launch.objects import Kernel
from .._launch.objects import get as kernel_of
from .._launch.run import run
from .._values.errors import ArgumentError
from ..spec import KernelSpec
from .batching import batched
from .cache_tag import tag_caches
from .fakes import fake_results, result_count
from .gradients import add_gradient
from .schemas import arguments, schemas

__all__ = ["operators", "register"]

NAMESPACE = "xtarget"

_lock = RLock()
_registered: dict[str, RegisteredKernel] = {}
#: By the kernel's name, what keeps its operator; torch forgets the operator with it.
_libraries: dict[str, torch.library.Library] = {}
_refused: dict[str, str] = {}
#: torch frees an operator that nothing is registered for, also one that a program holds.
_kept = torch.library.Library(NAMESPACE, "FRAGMENT")
_kept_names: set[str] = set()


def operators() -> dict[str, str]:
    """Register the kernels of all libraries that are loaded and are not registered yet.

    Returns:
        kernels that torch cannot have as operators, and why.
    """
    for name in libraries.catalog():
        if name not in _registered and name not in _refused:
            try:
                _register(name, None)
            except ArgumentError as error:
                _refused[name] = str(error)
    tag_caches(_registered)
    return dict(_refused)


def register(kernel: Any, *, results: int | None = None) -> Any:
    """Make a kernel `torch.ops.xtarget.NAME`.

    A kernel that takes the name of another later takes its operator too; what torch.compile has
    compiled is compiled anew then, since it has the shapes of the one before. What it keeps on disk
    has the kernels in its key (`torch.compiler.config.cache_key_tag`).

    Args:
        kernel: a name, a kernel object, or a function of `@xtarget.kernel`.
        results: how many tensors it gives; None: found by planning a small call.

    Returns:
        the operator (`torch.ops.xtarget.NAME`).

    Raises:
        ArgumentError: torch's schemas cannot express it, or somebody else has made an operator of
            this name.
    """
    name = kernel if isinstance(kernel, str) else _name(kernel)
    _register(name, results)
    tag_caches(_registered)
    return getattr(getattr(torch.ops, NAMESPACE), name)


def _register(name: str, results: int | None) -> None:
    found = libraries.find(name)
    with _lock:
        known = _registered.get(name)
        if known is None or known.spec is not found.spec:
            _forget(name)
            _define(found, result_count(found) if results is None else results)
            _registered[name] = found
            if known is not None:
                _forget_graphs()


def _forget(name: str) -> None:
    """Take an operator away from torch."""
    _registered.pop(name, None)
    library = _libraries.pop(name, None)
    if library is None:
        return
    for operator in {one.removeprefix(f"{NAMESPACE}::") for one in library._op_defs} - _kept_names:
        _kept.impl(operator, _is_gone, "PrivateUse3")  # a key of no device of ours
        _kept_names.add(operator)
    library._destroy()


def _forget_graphs() -> None:
    """Have torch.compile compile anew: its graphs have the shapes of a kernel that was replaced,
    and nothing of torch's looks whether an operator is still the same."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _is_gone(*args: Any, **options: Any) -> Any:
    raise ArgumentError("the kernel of this operator was replaced. Take it from torch.ops anew.")


def _follow(name: str) -> None:
    """The operator of a name is that of the kernel that has the name now: formulas of shapes and
    gradients would be another's."""
    with _lock:
        before = _registered.get(name)
        now = libraries.known(name) if before is not None else None
        if before is None or now is None or now.spec is before.spec:
            return
        try:
            register(name)
        except ArgumentError as error:
            _refused[name] = str(error)


libraries.on_change.append(_follow)


def _name(kernel: Any) -> str:
    return kernel.name if isinstance(kernel, Kernel) else kernel_of(kernel).name


def _define(kernel: RegisteredKernel, results: int) -> None:
    spec = kernel.spec
    libraries.rely_on_updates(spec.name)
    found = list(schemas(spec, results))
    library = _libraries[spec.name] = torch.library.Library(NAMESPACE, "FRAGMENT")
    for overload, schema in found:
        name = f"{spec.name}.{overload}" if overload else spec.name
        qualified = f"{NAMESPACE}::{name}"
        _declare(library, spec.name, name + schema)
        implementation = _implementation(kernel, results)
        library.impl(name, implementation, "CompositeExplicitAutograd")
        fake = functools.partial(_fake, kernel, results)
        torch.library.register_fake(qualified, fake, lib=library)
        operator = functools.cache(functools.partial(_operator, spec.name, overload))
        add_gradient(name, spec, results, operator, implementation, library)
        rule = batched(spec, operator)
        if rule is not None:
            torch.library.register_vmap(qualified, rule, lib=library)


def _declare(library: torch.library.Library, name: str, schema: str) -> None:
    try:
        library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    except RuntimeError as error:
        _forget(name)
        if hasattr(getattr(torch.ops, NAMESPACE), name):
            raise ArgumentError(
                f"torch.ops.{NAMESPACE}.{name} is an operator that somebody else has made. Rename "
                "the kernel by name=, or let the other leave our namespace."
            ) from error
        raise


def _operator(name: str, overload: str) -> Any:
    return getattr(getattr(getattr(torch.ops, NAMESPACE), name), overload or "default")


def _implementation(kernel: RegisteredKernel, results: int) -> Callable[..., Any]:
    spec = kernel.spec
    name = spec.name

    def implementation(*args: Any, **options: Any) -> Any:
        if args and args[-1] is None:
            args = _present(spec, args)
        if options:
            return run(name, *args, **arguments(spec, options))
        return run(name, *args)

    def made(device: Any = None, **options: Any) -> Any:
        (out,) = fake_results(kernel, 1, (), {**options, "device": device})
        return out if out.is_meta else run(name, out=out, **arguments(spec, options))

    if not spec.inputs and results == 1:
        return made
    if results:
        return implementation
    return lambda *args, **options: (implementation(*args, **options), None)[1]


def _present(spec: KernelSpec, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the optional arrays at the end that were not given."""
    while args and args[-1] is None and spec.inputs[len(args) - 1].endswith("?"):
        args = args[:-1]
    return args


def _fake(kernel: RegisteredKernel, results: int, *args: Any, **options: Any) -> Any:
    found = fake_results(kernel, results, _present(kernel.spec, args), options)
    if len(found) != results:
        raise ArgumentError(
            f"{kernel.spec.name} gives {len(found)} tensors here and was registered with "
            f"{results}. Register it with the number of its results."
        )
    return found[0] if results == 1 else (found or None)
