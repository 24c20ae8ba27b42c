"""From a compile request to a loaded function: memory, then disk, then the compiler."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from .. import _cache
from .._cache.counters import count
from .._system.spans import span
from .._values import environment
from .._values.errors import (
    CompileError,
    NoCompilerError,
    OutOfMemoryError,
    XTargetError,
)
from .._values.types import Artifact, CompileRequest, Constant, Target
from ..targets._host import contents
from ..targets._triton.toolchain import say_once
from ..targets.base import Device, Function
from ..targets.optional import CompilesAtLoad, MakesRoom, Settles
from . import residency
from .apart import SECONDS, apart, executor_here, is_apart, is_asked
from .declared import line_of_store, undeclared_stores, with_declared_stores
from .keys import TOOLCHAIN, key_parts, settled, why_not_kept
from .loading import load
from .residency import functions as _functions
from .routes import Way, first_that_serves
from .single_flight import single_flight

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = [
    "artifact",
    "check_frozen",
    "compile_together",
    "function",
    "has_bundles",
    "is_bundled",
]

#: How often a compilation begins anew because what it reads has changed meanwhile.
_TRIES = 4
#: Units that an executor has at the same time from `compile_together`.
_ASKED = 64
_NO_OPTIONS: Mapping[str, Constant] = MappingProxyType({})


def _from_bundles(request: CompileRequest, target: Target) -> Artifact | None:
    """Return an artifact from the bundles."""
    if not has_bundles():
        return None
    from .._bundle import reader

    return reader.find(request, target)


def has_bundles() -> bool:
    """Whether there are bundles. Without one, their reader is not imported."""
    if "xtarget._bundle.reader" not in sys.modules and not environment.bundles():
        return False
    from .._bundle import reader

    return bool(reader.loaded())


def is_bundled(request: CompileRequest, target: Target) -> bool:
    """Whether a loaded bundle has a binary for a request."""
    if not has_bundles():
        return False
    from .._bundle import reader

    return any(offer.variant is not None for offer in reader.candidates(request, target))


def _why_no_bundle(request: CompileRequest, target: Target) -> str:
    from .._bundle import reader

    return reader.why_not(request, target)


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
        offered = _from_bundles(request, target)
        if offered is not None:
            contents.save()
            return with_declared_stores(request, offered)
    if options:
        merged = {**options, **dict(request.options)}
        request = replace(request, options=tuple(sorted(merged.items())))

    def make(way: Way) -> Artifact:
        if keep_stages:  # stages are not cached; the binary is the same
            check_frozen(request, target)
            return _compile(way, request, target, keep_stages=True)[0]
        return _made(way, request, target, device)

    return with_declared_stores(request, first_that_serves(request, target, make))


def _made(way: Way, request: CompileRequest, target: Target, device: Device | None) -> Artifact:
    for _ in range(_TRIES):
        found, now = _cached(way, request, target, device)
        if found is not None:
            stores = undeclared_stores(request, found)
            unknown = [one for one in stores if line_of_store(request, one) is None]
            if unknown and environment.compile_mode() != "error":
                with contextlib.suppress(NoCompilerError):  # what is cached may name older lines
                    found = _compile(way, request, target)[0]
            return found
        request = now
    raise CompileError(
        f"kernel {request.source.name} ({request.source.path}) changed each time that it was to be "
        "compiled: a value that it reads is set all the time. Set it once, then call again."
    )


def _cached(
    way: Way, request: CompileRequest, target: Target, device: Device | None
) -> tuple[Artifact | None, CompileRequest]:
    """The artifact; or None and what the request has become, because what was imported for it is
    not what it was made from."""
    cache = _cache.default_cache()
    toolchain = way.compiler.fingerprint
    parts = key_parts(request, target, toolchain, way.key)
    contents.save()
    key = _cache.key_of(parts)
    name = request.source.name
    with single_flight(key, name):
        why_not = why_not_kept(request, toolchain)
        if why_not:
            check_frozen(request, target)
            made = _compile(way, request, target, device=device)[0]
            say_once(f"{name} is compiled in each process anew and not kept: {why_not}")
            return made, request
        found = cache.get(target, name, key)
        if found is not None:
            if environment.cache_audit():
                from .audit import audited  # a few programs ask for it

                found = audited(found, way, request, target, key)
            return found, request
        with contextlib.nullcontext() if is_apart() else cache.flight(target, name, key):
            found = cache.get(target, name, key, again=True) or cache.fetch(target, name, key)
            if found is not None:
                return found, request
            if way.is_triton and not toolchain:  # without a compiler, whoever made it
                found = cache.find(target, name, parts, ignore=TOOLCHAIN)
                if found is not None:
                    return found, request
            absent = ""
            try:
                check_frozen(request, target)
                if way.is_triton and not is_asked() and environment.compile_server() is not None:
                    from .served import compile_there  # a few programs have one

                    there = compile_there(request, target, parts)
                    if isinstance(there, Artifact):
                        return there, request
                    absent = there
                now = settled(request) if way.is_triton else request  # a text is settled
                if now.source.digest != request.source.digest:
                    return None, now
                made, seconds = _compile(way, now, target, device=device)
            except NoCompilerError as error:
                if toolchain:
                    found = cache.find(target, name, parts, ignore=TOOLCHAIN)
                    if found is not None:
                        return found, request
                why = f"{absent} {_why_no_bundle(request, target)}"
                said = str(error) if str(error).endswith(".") or not absent else f"{error}."
                raise NoCompilerError(" ".join(f"{said} {why}".split())) from error
            if now.source.holds is not None and not now.source.holds():
                return None, settled(request)
            if _is_what_the_key_says(way, toolchain, name):
                cache.put(name, key, parts, made, seconds=seconds)
        return made, request


def _is_what_the_key_says(way: Way, toolchain: str, name: str) -> bool:
    """Check whether a finished compilation used the tool chain and settings of its key."""
    compiler = way.compiler
    why = compiler.unsettled() if isinstance(compiler, Settles) else ""
    said = f"{name} was compiled and is not kept for other processes"
    if why:  # for the rest of the process
        say_once(f"{said}, nor is what is compiled after it: {why}", about=why)
    elif compiler.fingerprint != toolchain:
        why = "settings or tools changed while it was compiled"
        say_once(f"{said}: {why}")
    return not why


def _compile(
    way: Way,
    request: CompileRequest,
    target: Target,
    *,
    keep_stages: bool = False,
    device: Device | None = None,
) -> tuple[Artifact, float]:
    """The artifact and the seconds it took."""
    if isinstance(device, CompilesAtLoad):
        device.expect_load()
    start = time.perf_counter()
    from .._system.progress import progress

    what = f"compiling {request.source.name} for {target}"
    with progress(what), span("compile", request.source.name, target=str(target)):
        made = _compiled(way, request, target, keep_stages=keep_stages)
    seconds = time.perf_counter() - start
    count(compiles=1, compile_seconds=seconds)
    return made, seconds


def _compiled(way: Way, request: CompileRequest, target: Target, *, keep_stages: bool) -> Artifact:
    compiler = way.compiler
    if not way.is_triton:  # quick, and what could crash has a process of its own already
        return compiler.compile(request, target, keep_stages=keep_stages)
    limit = environment.compile_seconds()
    if limit is None and is_apart():
        from .finding import can_be_found

        limit = SECONDS if can_be_found(request.source) else None
    if limit is None:
        return compiler.compile(request, target, keep_stages=keep_stages)
    from .limited import compile_in_child

    executor = executor_here()
    if executor is not None and not keep_stages:
        from .units import compile_elsewhere

        made = compile_elsewhere(executor, request, target, limit, compiler.fingerprint)
        if made is not None:
            return made
    return compile_in_child(request, target, limit, compiler.fingerprint, keep_stages=keep_stages)


def compile_together(
    wanted: Sequence[tuple[CompileRequest, Target, Mapping[str, Constant]]],
    workers: int,
    device: Device | None = None,
    executor: Executor | None = None,
) -> Iterator[tuple[int, XTargetError | None]]:
    """Have artifacts ready, each compiled in a process of its own.

    Args:
        wanted: requests, targets, and options of requests that do not say them.
        workers: processes at the same time.
        device: as for `artifact`.
        executor: its workers compile; as many at a time as it has.

    Gives:
        (index, why it could not be made) in the order of their ends.
    """
    # not where a first call is made at exit: these want to register what they do then
    from concurrent.futures import ThreadPoolExecutor, as_completed

    def make(index: int) -> tuple[int, XTargetError | None]:
        request, target, options = wanted[index]
        try:
            with apart(executor):
                artifact(request, target, bundled=True, options=options, device=device)
        except XTargetError as error:
            return index, error
        return index, None

    most = workers if executor is None else _ASKED
    with ThreadPoolExecutor(max(1, min(most, len(wanted)))) as pool:
        try:
            for done in as_completed([pool.submit(make, index) for index in range(len(wanted))]):
                yield done.result()
        finally:  # also when the caller has enough
            pool.shutdown(cancel_futures=True)


def check_frozen(request: CompileRequest, target: Target) -> None:
    """Before a compilation.

    Raises:
        FrozenError: `XTARGET_COMPILE` forbids it.
    """
    if environment.compile_mode() == "allow":
        return
    from ..targets._triton.frozen import check_compile

    constants = dict(request.constants)
    arguments = ", ".join(
        f"{name}={constants[name]!r}" if name in constants else f"{name}: {type_}"
        for name, type_ in request.signature
    )
    check_compile(
        f"The kernel {request.source.name} for {target} is not in the cache in this specialization:"
        f" ({arguments}), aligned to 16: {', '.join(request.aligned) or 'none'}, num_warps="
        f"{request.num_warps}, num_stages={request.num_stages}",
        _why_no_bundle(request, target),
    )


def function(
    device: Device, request: CompileRequest, key: residency.FunctionKey | None = None
) -> Function:
    """The kernel, loaded on a device.

    Args:
        key: of both, from who has asked before.

    Raises:
        CompileError, UnknownTargetError: as `artifact`.
        LoadError: the device's run time refuses the binary.
    """
    info = device.info
    memory_key = key or residency.FunctionKey(info.name, request)
    loaded = _functions.get(memory_key)
    if loaded is not None:
        with_declared_stores(request, loaded.artifact)
        _functions[memory_key] = _functions.pop(memory_key, loaded)  # the youngest now
        return loaded
    with single_flight(memory_key, request.source.name):
        loaded = _functions.get(memory_key)
        if loaded is None:
            loaded = _load(device, memory_key)
            _functions[memory_key] = loaded
            residency.forget_oldest(info.name)
        return loaded


def _load(device: Device, key: residency.FunctionKey) -> Function:
    """The function; where there is no memory for it, once more after others were unloaded.

    Raises:
        OutOfMemoryError: there is none; the message says what holds it.
    """
    try:
        return _load_now(device, key)
    except OutOfMemoryError:
        if isinstance(device, MakesRoom):
            device.make_room()
        try:
            return _load_now(device, key)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"{error} {residency.what_holds(device)}") from error


def _load_now(device: Device, key: residency.FunctionKey) -> Function:
    info, (_, request) = device.info, key
    known = residency.unloaded.take(key)
    if known is not None:
        return load(device, with_declared_stores(request, known), request.source.name)
    options = info.compile_options
    made = artifact(request, info.target, bundled=True, options=options, device=device)
    return load(device, made, request.source.name)
