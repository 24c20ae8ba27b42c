"""Building a bundle: what is wanted, from the cache or from the compilers, into one file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import (
    _build,
    _bundle,
    _bundle_classes,
    _bundle_sign,
    _cache,
    _kernels,
    _registry,
)
from ._bundle_classes import Class
from ._bundle_format import BundleFile
from ._bundle_worker import Job, compile_all, plain
from ._bundle_write import PACKING, Entry, Packed, pack_section, write_bundle
from ._cache.entry import describe
from ._errors import CompileError, LoadError, UnknownTargetError, XTargetError
from ._types import Artifact, CompileRequest, Target
from .targets._variants import portable_arch

__all__ = ["Order", "Report", "build", "wanted"]


@dataclass(frozen=True, slots=True)
class Order:
    """What a bundle is to hold. `views` and `full`: `_bundle_classes.COVERAGE`, `spec.ahead`."""

    kernels: tuple[str, ...]
    dtypes: tuple[str, ...]
    targets: tuple[Target, ...]
    views: bool = False
    full: bool = False


@dataclass(slots=True)
class Report:
    """What a build did."""

    variants: int = 0
    from_cache: int = 0
    compiled: int = 0
    up_to_date: bool = False
    nbytes: int = 0
    errors: list[str] = field(default_factory=list)


def wanted(order: Order) -> dict[Target, list[Class]]:
    """The classes to build for each target.

    Raises:
        UnknownKernelError: no such kernel.
        UnknownTargetError: nobody compiles for a target.
        CompileError: a kernel cannot be built ahead of time, or none takes the dtypes.
    """
    found: dict[Target, list[Class]] = {}
    for target in order.targets:
        archs = _registry.compiler(target.vendor).archs()
        if target.arch not in archs:
            raise UnknownTargetError(
                f"the compiler for {target.vendor} does not know {target.arch!r}. It knows "
                f"{', '.join(f'{target.vendor}:{arch}' for arch in archs)}."
            )
        merged: dict[CompileRequest, Class] = {}
        for name in order.kernels:
            kernel = _kernels.find(name)
            for dtype in order.dtypes:
                if dtype not in kernel.spec.dtypes:
                    continue
                for one in _bundle_classes.classes(
                    kernel, dtype, target, views=order.views, full=order.full
                ):
                    known = merged.setdefault(one.request, one)
                    known.variants |= one.variants
                    known.kernels |= one.kernels
        if not merged:
            raise CompileError(
                f"none of {', '.join(order.kernels)} takes {', '.join(order.dtypes)}. `xtarget "
                "kernels` lists what each takes."
            )
        found[target] = list(merged.values())
    return found


def _inputs(order: Order) -> dict[Target, str]:
    """Digest, for each target, of all that decides its section: our code, the libraries', the
    toolchain, the order."""
    folders = {Path(__file__).parent, *(Path(_kernels.find(k).origin) for k in order.kernels)}
    common = hashlib.sha256(f"{PACKING}\0{replace(order, targets=())!r}".encode())
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            common.update(f"\0{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    found = {}
    for target in order.targets:
        digest = common.copy()
        digest.update(f"\0{target}\0{_registry.compiler(target.vendor).fingerprint}".encode())
        found[target] = digest.hexdigest()
    return found


def _is_up_to_date(output: Path, inputs: str, signer: bytes) -> bool:
    """Whether a file is, to its last byte, what this build would write.

    Args:
        signer: public key of who signs; empty when nobody does.
    """
    try:
        file = BundleFile(output)
    except LoadError:
        return False
    try:
        if file.manifest.get("inputs") != inputs or file.signature[:32] != signer:
            return False
        for target in file.sections:
            for record in file.records(target):
                for variant in record["variants"]:
                    for name in ("binary", "portable"):
                        if name in variant:
                            file.binary(target, variant[name])
    except LoadError:
        return False
    finally:
        file.close()
    return True


def build(
    order: Order,
    output: Path,
    *,
    workers: int,
    seconds: float,
    key: Path | None = None,
    made_by: str = "xtarget",
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Report:
    """Write a bundle. A kernel that does not compile is left out and listed in the report.

    Args:
        workers: processes.
        seconds: limit for one compilation.
        key: private key to sign with.
        made_by: what the manifest says of that.
        progress: called with variants done, all variants, and what was done last.

    Raises:
        CompileError: nothing at all could be compiled, or the order asks for nothing.
        XTargetError: the file cannot be written; said before anything is compiled.
    """
    sign = None if key is None else _bundle_sign.signer(key)
    keys = _inputs(order)
    inputs = hashlib.sha256("".join(sorted(keys.values())).encode()).hexdigest()
    report = Report()
    if _is_up_to_date(output, inputs, b"" if sign is None else sign(b"")[:32]):
        report.up_to_date, report.nbytes = True, output.stat().st_size
        return report
    with _in_place_of(output) as temporary:
        content = _content(order, keys, report, inputs, sign, workers, seconds, made_by, progress)
        temporary.write_bytes(content)
    report.nbytes = len(content)
    report.errors.sort()
    return report


@contextlib.contextmanager
def _in_place_of(output: Path) -> Iterator[Path]:
    """A file that takes its place in the end."""
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        try:
            yield temporary
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise XTargetError(
            f"the bundle {output} cannot be written: {error.strerror or error}. Give the path of a "
            "file that can be written, with room for it."
        ) from error


def _content(
    order: Order,
    keys: Mapping[Target, str],
    report: Report,
    inputs: str,
    sign: Callable[[bytes], bytes] | None,
    workers: int,
    seconds: float,
    made_by: str,
    progress: Callable[[int, int, str], None],
) -> bytes:
    """The bundle's bytes, from the cache or compiled."""
    sections = {target: kept for target, key in keys.items() if (kept := _kept(target, key))}
    for section in sections.values():
        report.from_cache += sum(k["variants"] for k in section.listed["kernels"].values())
    rest = replace(order, targets=tuple(t for t in order.targets if t not in sections))
    for target, made in _make(rest, report, workers, seconds, progress).items():
        section = sections[target] = _section(target, made.done)
        if not made.failed:
            cache = _cache.default_cache()
            cache.put_section(target, keys[target], section.listed, section.content)
    if not any(section.listed["count"] for section in sections.values()):
        raise CompileError(
            "no kernel at all could be compiled: " + "\n".join(sorted(set(report.errors)))
        )
    facts = {
        "format": "xtarget bundle",
        "made_by": made_by,
        "inputs": inputs if not report.errors else "",
        "coverage": _bundle_classes.COVERAGE["views" if order.views else "contiguous"],
        "depth": "full" if order.full else "common",
        "dtypes": list(order.dtypes),
    }
    return write_bundle(facts, sections.values(), sign)


def _kept(target: Target, key: str) -> Packed | None:
    """The section as it was made from the same inputs, if the cache has it still."""
    kept = _cache.default_cache().get_section(target, key)
    return None if kept is None else Packed(*kept)


@dataclass(slots=True)
class _Made:
    """A target's artifacts, in the order of the jobs, and how many there are not."""

    done: list[tuple[Job, Class, Artifact]] = field(default_factory=list)
    failed: int = 0


def _make(
    order: Order,
    report: Report,
    workers: int,
    seconds: float,
    progress: Callable[[int, int, str], None],
) -> dict[Target, _Made]:
    """What is wanted for each target, from the cache or compiled."""
    jobs = [
        (Job(target, one.origin, one.source, request), one)
        for target, classes in (wanted(order) if order.targets else {}).items()
        for one in classes
        for request in one.requests()
    ]
    total = report.variants = report.from_cache + len(jobs)
    cache = _cache.default_cache()
    toolchains = {t: _registry.compiler(t.vendor).fingerprint for t in order.targets}
    parts = [_build.key_parts(j.request, j.target, toolchains[j.target]) for j, _ in jobs]
    made: dict[int, Artifact] = {}
    for index, (job, _) in enumerate(jobs):
        key = _cache.key_of(parts[index])
        artifact = cache.get(job.target, job.request.source.name, key)
        if artifact is not None:
            made[index] = artifact
    report.from_cache += len(made)
    progress(report.from_cache, total, "from the cache")
    missing = [index for index in range(len(jobs)) if index not in made]
    for place, result in compile_all([jobs[i][0] for i in missing], workers, seconds):
        index = missing[place]
        job = jobs[index][0]
        if isinstance(result, CompileError):
            report.errors.append(str(result))
        else:
            made[index] = result.artifact
            report.compiled += 1
            name, key = job.request.source.name, _cache.key_of(parts[index])
            cache.put(name, key, parts[index], result.artifact, seconds=result.seconds)
        done = report.from_cache + report.compiled + len(report.errors)
        progress(done, total, f"{job.request.source.name} for {job.target}")
    by_target = {target: _Made() for target in order.targets}
    for index, (job, one) in enumerate(jobs):
        of = by_target[job.target]
        if index in made:
            of.done.append((job, one, made[index]))
        else:
            of.failed += 1
    return by_target


def _section(target: Target, made: Iterable[tuple[Job, Class, Artifact]]) -> Packed:
    """A target's part of the bundle."""
    entries: dict[bytes, Entry] = {}
    kernels: dict[str, Any] = {}
    for job, one, artifact in made:
        request = job.request
        variant: dict[str, Any] = {
            "aligned": list(request.aligned),
            "artifact": describe(artifact),
        }
        binaries = {"binary": artifact.binary}
        ptx = artifact.texts.get("ptx")
        if ptx is not None:
            oldest = portable_arch(ptx)
            variant["arch_specific"] = oldest is None
            if oldest is not None:
                variant |= {"portable_arch": oldest, "portable_format": "ptx"}
                binaries["portable"] = ptx.encode()
        key = _bundle.class_key(request)
        entry = entries.get(key)
        if entry is None:
            record = {
                "parts": [list(part) for part in _bundle.class_parts(request)],
                "kernels": [list(pair) for pair in sorted(one.kernels)],
                "source": one.source,
                "constants": {name: plain(value) for name, value in request.constants},
                "variants": [],
            }
            entry = entries[key] = Entry(key, record, [])
        entry.record["variants"].append(variant)
        assert isinstance(entry.binaries, list)
        entry.binaries.append(binaries)
        listed = kernels.setdefault(
            request.source.name, {"sources": [], "dtypes": [], "variants": 0, "bytes": 0}
        )
        listed["variants"] += 1
        listed["bytes"] += len(artifact.binary)
        listed["sources"] = sorted({*listed["sources"], request.source.digest})
        listed["dtypes"] = sorted({*listed["dtypes"], *(dtype for _, dtype in one.kernels)})
    return pack_section(target, kernels, entries.values())
