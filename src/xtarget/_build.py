"""From a compile request to a loaded function: memory, then disk, then the compiler."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from . import _bundle, _cache, _env, _registry
from ._cache.counters import count
from ._errors import FrozenError, LoadError, NoCompilerError
from ._types import Artifact, CompileRequest, Constant, Target
from .targets.base import Compiler, CompilesAtLoad, Device, Function

__all__ = ["artifact", "function", "key_parts", "load"]

#: Key part that names the toolchain; a machine without a compiler takes any toolchain's binary.
TOOLCHAIN = "toolchain"
_NO_OPTIONS: Mapping[str, Constant] = MappingProxyType({})

#: Functions of devices, by request; a fork's child keeps them alive and unused.
_functions: dict[tuple[str, CompileRequest], Function] = {}
#: A lock for each key that is being made, and how many threads want it.
_locks: dict[object, tuple[threading.Lock, int]] = {}
_guard = threading.Lock()


_kept: list[dict[tuple[str, CompileRequest], Function]] = []


def _in_forked_child() -> None:
    _kept.append(dict(_functions))
    _functions.clear()
    _locks.clear()


_registry.after_fork.append(_in_forked_child)


def _drop_functions(device: str) -> None:
    for key in [k for k in list(_functions) if k[0] == device]:
        _functions.pop(key, None)


_registry.on_lost.append(_drop_functions)


def key_parts(request: CompileRequest, target: Target, toolchain: str) -> list[tuple[str, str]]:
    """All that decides the binary, as labelled text. Whatever changes the binary changes this."""
    return [
        ("schema", _cache.SCHEMA),
        ("target", str(target)),
        (TOOLCHAIN, toolchain),
        ("kernel", request.source.name),
        ("source", request.source.digest),
        ("signature", repr(request.signature)),
        ("constants", repr(request.constants)),
        ("aligned", repr(request.aligned)),
        ("num_warps", str(request.num_warps)),
        ("num_stages", str(request.num_stages)),
        ("line_info", str(request.line_info)),
        ("options", repr(request.options)),
    ]


@contextlib.contextmanager
def _single_flight(key: object) -> Iterator[None]:
    """One thread at a time for each key."""
    with _guard:
        lock, wanted = _locks.get(key, (threading.Lock(), 0))
        _locks[key] = lock, wanted + 1
    try:
        with lock:
            yield
    finally:
        with _guard:
            lock, wanted = _locks.pop(key, (lock, 1))
            if wanted > 1:
                _locks[key] = lock, wanted - 1


def artifact(
    request: CompileRequest,
    target: Target,
    *,
    keep_stages: bool = False,
    bundled: bool = False,
    options: Mapping[str, Constant] = _NO_OPTIONS,
    device: Device | None = None,
) -> Artifact:
    """The compiled kernel, from the cache or from the compiler.

    Args:
        bundled: ask the loaded bundles first. What they give may be for an older arch of the same
            family, or PTX, and may assume less than the request: right to run, but not what
            compiling gives.
        options: of the compiler, of requests that do not say them.
        device: that will load it; it is told when something is compiled.

    Raises:
        CompileError: it does not compile, or there is neither a binary nor a compiler.
        LoadError: the bundle that has it is damaged.
        UnknownTargetError: nobody compiles for this target.
    """
    if bundled:
        offered = _bundle.find(request, target)
        if offered is not None:
            return offered
    if options:
        merged = {**options, **dict(request.options)}
        request = replace(request, options=tuple(sorted(merged.items())))
    compiler = _registry.compiler(target.vendor)
    if keep_stages:  # stages are not cached; the binary is the same
        return _compile(compiler, request, target, keep_stages=True)[0]
    cache = _cache.default_cache()
    parts = key_parts(request, target, compiler.fingerprint)
    key = _cache.key_of(parts)
    name = request.source.name
    with _single_flight(key):
        found = cache.get(target, name, key)
        if found is not None:
            return found
        with cache.flight(target, name, key):
            found = cache.get(target, name, key, again=True) or cache.fetch(target, name, key)
            if found is not None:
                return found
            try:
                made, seconds = _compile(compiler, request, target, device=device)
            except NoCompilerError as error:
                found = cache.find(target, name, parts, ignore=TOOLCHAIN)
                if found is not None:
                    return found
                why = _bundle.why_not(request, target)
                raise NoCompilerError(f"{error} {why}".rstrip()) from error
            cache.put(name, key, parts, made, seconds=seconds)
        return made


def _compile(
    compiler: Compiler,
    request: CompileRequest,
    target: Target,
    *,
    keep_stages: bool = False,
    device: Device | None = None,
) -> tuple[Artifact, float]:
    """The artifact and the seconds it took, where `XTARGET_COMPILE` allows it."""
    mode = _env.compile_mode()
    if mode != "allow":
        _say_compile(mode, request, target)
    if isinstance(device, CompilesAtLoad):
        device.expect_load()
    start = time.perf_counter()
    made = compiler.compile(request, target, keep_stages=keep_stages)
    seconds = time.perf_counter() - start
    count(compiles=1, compile_seconds=seconds)
    return made, seconds


def _say_compile(mode: str, request: CompileRequest, target: Target) -> None:
    constants = dict(request.constants)
    arguments = ", ".join(
        f"{name}={constants[name]!r}" if name in constants else f"{name}: {type_}"
        for name, type_ in request.signature
    )
    what = (
        f"The kernel {request.source.name} for {target} is not in the cache in this specialization:"
        f" ({arguments}), aligned to 16: {', '.join(request.aligned) or 'none'}, num_warps="
        f"{request.num_warps}, num_stages={request.num_stages}"
    )
    if mode == "error":
        why = _bundle.why_not(request, target)
        raise FrozenError(
            f"{what}; XTARGET_COMPILE=error forbids to compile it. Run the call once with "
            f"XTARGET_COMPILE=allow to put it there, or see `xtarget cache why`. {why}".rstrip()
        )
    import logging

    logging.getLogger("xtarget.cache").warning("%s; it is compiled now.", what)


def function(device: Device, request: CompileRequest) -> Function:
    """The kernel, loaded on a device.

    Raises:
        CompileError, UnknownTargetError: as `artifact`.
        LoadError: the device's run time refuses the binary.
    """
    info = device.info
    memory_key = (info.name, request)
    loaded = _functions.get(memory_key)
    if loaded is not None:
        return loaded
    with _single_flight(memory_key):
        loaded = _functions.get(memory_key)
        if loaded is None:
            loaded = _load(device, request)
            _functions[memory_key] = loaded
        return loaded


def _load(device: Device, request: CompileRequest) -> Function:
    info = device.info
    options = info.compile_options
    made = artifact(request, info.target, bundled=True, options=options, device=device)
    return load(device, made, request.source.name)


def load(device: Device, made: Artifact, name: str) -> Function:
    """An artifact's function. What a run time compiles at load is kept in the cache.

    Args:
        name: the kernel's, for the cache.

    Raises:
        LoadError: the device's run time refuses the binary.
    """
    target = device.info.target
    native_of = device.native_key
    if native_of is None:
        return device.load(made).function()
    # the run time compiles this format at load: keep what it makes
    cache = _cache.default_cache()
    key = _cache.key_of([("device", native_of), ("binary", made.binary.hex())])
    native = cache.get_native(target, name, key)
    module = device.load(made, native)
    if native is None:
        with contextlib.suppress(LoadError):  # only a speed-up for the next process
            binary = module.native()
            if binary is not None:
                cache.put_native(target, name, key, binary)
    return module.function()
