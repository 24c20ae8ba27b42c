"""Build a bundle: the binaries of an order, from the cache or from the compilers, in one file."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ... import _cache
from ..._children.frames import Frame
from ..._compile import functions, keys, routes
from ..._compile.workers import Compiled, Job, compile_all, sources_of
from ..._kernels import libraries, library_code
from ..._system.output import check_output, write_output
from ..._system.package import FOLDER
from ..._values.errors import ArgumentError, CompileError, LoadError
from ..._values.types import Artifact, Target
from ...targets._host import contents
from .. import signing
from ..format import BundleFile
from ..manifest import check_section
from ..packing import packing
from ..writer import Packed, write_bundle
from .call_forms import call_records
from .classes import COVERAGE, Class
from .orders import Order, classes_of, wanted
from .sections import differing, section_of

__all__ = ["Order", "Report", "build", "wanted"]

#: Jobs, one after another as they end: its index, and what came of it.
_Compile: TypeAlias = Callable[[list[Job]], Iterable[tuple[int, Compiled | CompileError]]]


@dataclass(slots=True)
class Report:
    """The result of a build, in numbers and errors."""

    variants: int = 0
    from_cache: int = 0
    compiled: int = 0
    up_to_date: bool = False
    nbytes: int = 0
    errors: list[str] = field(default_factory=list)
    #: Kernels of which not every call that is built for can be made from C.
    notes: list[str] = field(default_factory=list)
    #: What other processes said of sources that this one does not import.
    sources: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    #: How many variants each machine of an executor compiled.
    machines: Counter[str] = field(default_factory=Counter)


def _with_values(
    found: dict[Target, list[Class]],
    report: Report,
    seconds: float,
    ask: Callable[[bytes], Frame] | None = None,
) -> dict[Target, list[Class]]:
    """The classes with what their sources read, which other processes have to tell where only an
    import does."""
    unknown = [
        one
        for classes in found.values()
        for one in classes
        if one.request.source.unidentified == library_code.NOT_IMPORTED
    ]
    wanted = {(one.origin, one.source) for one in unknown}
    report.sources |= sources_of(sorted(wanted - set(report.sources)), seconds, ask)
    for one in unknown:
        told = report.sources.get((one.origin, one.source))
        if told is not None:
            one.request = replace(one.request, source=replace(one.request.source, **told))
    return found


def _inputs(
    order: Order,
    report: Report,
    seconds: float,
    ask: Callable[[bytes], Frame] | None,
    compression: str,
) -> dict[Target, str]:
    """Digest, for each target, of all that decides its section: our code, the libraries', the
    toolchain, the order."""
    origins = {Path(FOLDER), *(Path(libraries.find(k).origin) for k in order.names)}
    common = hashlib.sha256(f"{packing(compression)}\0{replace(order, targets=())!r}".encode())
    for origin in sorted(origins):
        # of a file with functions of `@xtarget.kernel`, the files beside it too: its rules use them
        folder = origin if origin.is_dir() else origin.parent
        for path in sorted((folder.rglob if origin.is_dir() else folder.glob)("*.py")):
            content = path.read_bytes()
            common.update(f"\0{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    # the text of users' libraries does not say what they read from elsewhere: their requests do
    foreign = tuple(k for k in order.kernels if not libraries.find(k).fixed)
    calls = tuple(c for c in order.calls if not libraries.find(c.kernel).fixed)
    classes = classes_of(replace(order, kernels=foreign, calls=calls)) if foreign or calls else {}
    classes = _with_values(classes, report, seconds, ask)
    found = {}
    for target in order.targets:
        digest = common.copy()
        for way in routes.first_ways(target.vendor):
            digest.update(f"\0{target}\0{way.key}\0{way.compiler.fingerprint}".encode())
        for one in classes.get(target, ()):
            for request in one.requests():
                digest.update(_cache.key_of(keys.key_parts(request, target, "")).encode())
        found[target] = digest.hexdigest()
    return found


def _is_up_to_date(output: Path, inputs: str, signer: bytes) -> bool:
    """Check whether a file is byte for byte the one that this build would write.

    Args:
        signer: public key of the signer; empty without a signature.
    """
    try:
        file = BundleFile(output)
    except LoadError:
        return False
    try:
        if file.manifest.get("inputs") != inputs or file.signature[:32] != signer:
            return False
        for _ in file.verify():
            pass
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
    executor: Executor | None = None,
    ask: Callable[[bytes], Frame] | None = None,
    compression: str = "zlib",
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Report:
    """Write a bundle. A kernel that does not compile is left out and listed in the report.

    Args:
        workers: processes.
        seconds: of processor time, for one compilation.
        key: private key to sign with.
        made_by: what the manifest says of that.
        executor: its workers compile, not processes of this machine.
        ask: a process that stays and imports kernels (`limited.ask_child`); None: one of its own.
        compression: what the parts of the file are packed by, `zlib` or `zstd`.
        progress: called with kernels looked at, all kernels, and which is next; then with variants
            done, all variants, and what was done last.

    Raises:
        CompileError: nothing at all could be compiled, or the order asks for nothing.
        ArgumentError: workers are to compile by a route that is not Triton's.
        XTargetError: the file cannot be written, or zstd is not installed; said before anything
            is compiled.
    """
    sign = None if key is None else signing.signer(key)
    report = Report()
    for target in order.targets if executor is not None else ():
        way = routes.first_ways(target.vendor)[0]
        if not way.is_triton:
            raise ArgumentError(
                f"XTARGET_ROUTES begins with {way.name} for {target}, and the workers of an "
                "executor compile by Triton alone. Build without it, or unset the variable."
            )
    keys = _inputs(order, report, seconds, ask, compression)
    inputs = hashlib.sha256("".join(sorted(keys.values())).encode()).hexdigest()
    if _is_up_to_date(output, inputs, b"" if sign is None else sign(b"")[:32]):
        report.up_to_date, report.nbytes = True, output.stat().st_size
        return report
    check_output(output)
    compile_jobs: _Compile = partial(compile_all, workers=workers, seconds=seconds)
    if executor is not None:
        from ..._compile.units import compile_on

        compile_jobs = partial(compile_on, executor, workers=workers, seconds=seconds)
    content = _content(
        order, keys, report, inputs, sign, seconds, made_by, compile_jobs, compression, progress
    )
    write_output(output, content)
    report.nbytes = len(content)
    report.errors.sort()
    return report


def _content(
    order: Order,
    keys: Mapping[Target, str],
    report: Report,
    inputs: str,
    sign: Callable[[bytes], bytes] | None,
    seconds: float,
    made_by: str,
    compile_jobs: _Compile,
    compression: str,
    progress: Callable[[int, int, str], None],
) -> bytes:
    """The bundle's bytes, from the cache or compiled."""
    sections = {target: kept for target, key in keys.items() if (kept := _kept(target, key))}
    for section in sections.values():
        report.from_cache += sum(k["variants"] for k in section.listed["kernels"].values())
    rest = replace(order, targets=tuple(t for t in order.targets if t not in sections))
    for target, made in _make(rest, report, seconds, compile_jobs, progress).items():
        done = list(differing(made.done))
        with library_code.without_imports():
            calls = call_records(
                order.kernels, order.dtypes, target, [(one, j.request, a) for j, one, a in done],
                calls=order.calls, views=order.views, full=order.full,
                incomplete=report.notes.append,
            )  # fmt: skip
        section = sections[target] = section_of(target, done, calls, compression)
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
        "coverage": COVERAGE["views" if order.views else "contiguous"],
        "depth": "full" if order.full else "common",
        "dtypes": list(order.dtypes),
    }
    return write_bundle(facts, sections.values(), sign, compression)


def _kept(target: Target, key: str) -> Packed | None:
    """The section as it was made from the same inputs, if the cache has it still."""
    kept = _cache.default_cache().get_section(target, key)
    if kept is None:
        return None
    listed, content = kept
    try:  # what a cache that others fill says is checked as a bundle is
        check_section(listed, target)
    except ValueError:
        return None
    return Packed(listed, content)


@dataclass(slots=True)
class _Made:
    """A target's artifacts, in the order of the jobs, and how many there are not."""

    done: list[tuple[Job, Class, Artifact]] = field(default_factory=list)
    failed: int = 0


def _make(
    order: Order,
    report: Report,
    seconds: float,
    compile_jobs: _Compile,
    progress: Callable[[int, int, str], None],
) -> dict[Target, _Made]:
    """Get the wanted variants of each target from the cache, or compile them."""
    first = {t: routes.first_ways(t.vendor)[0] for t in order.targets}
    toolchains = {t: way.compiler.fingerprint for t, way in first.items()}
    found = _with_values(wanted(order, progress) if order.targets else {}, report, seconds)
    jobs = [
        (Job(target, one.origin, one.source, request, toolchains[target]), one)
        for target, classes in found.items()
        for one in classes
        for request in one.requests()
    ]
    total = report.variants = report.from_cache + len(jobs)
    cache = _cache.default_cache()
    parts = [
        keys.key_parts(j.request, j.target, toolchains[j.target], first[j.target].key)
        for j, _ in jobs
    ]
    contents.save()
    made: dict[int, Artifact] = {}
    for index, (job, _) in enumerate(jobs):
        key = _cache.key_of(parts[index])
        artifact = None
        if not keys.why_not_kept(job.request, toolchains[job.target]):
            artifact = cache.get(job.target, job.request.source.name, key)
        if artifact is not None:
            made[index] = artifact
    report.from_cache += len(made)
    progress(report.from_cache, total, "from the cache")
    missing = [index for index in range(len(jobs)) if index not in made]
    for index in missing:
        functions.check_frozen(jobs[index][0].request, jobs[index][0].target)
    wanted_jobs = [jobs[i][0] for i in missing]
    for place, result in _compiled(wanted_jobs, first, compile_jobs):
        index = missing[place]
        job = jobs[index][0]
        if isinstance(result, CompileError):
            report.errors.append(str(result))
        else:
            made[index] = result.artifact
            report.compiled += 1
            name, key = job.request.source.name, _cache.key_of(parts[index])
            kept = not first[job.target].is_triton  # a route keeps its own, under its name
            if not kept and not keys.why_not_kept(job.request, toolchains[job.target]):
                cache.put(name, key, parts[index], result.artifact, seconds=result.seconds)
        done = report.from_cache + report.compiled + len(report.errors)
        where = ""
        if isinstance(result, Compiled) and result.machine:
            where = f" on {result.machine}"
            report.machines[result.machine] += 1
        progress(done, total, f"{job.request.source.name} for {job.target}{where}")
    by_target = {target: _Made() for target in order.targets}
    for index, (job, one) in enumerate(jobs):
        of = by_target[job.target]
        if index in made:
            of.done.append((job, one, made[index]))
        else:
            of.failed += 1
    return by_target


def _compiled(
    jobs: Sequence[Job], first: Mapping[Target, routes.Way], compile_jobs: _Compile
) -> Iterator[tuple[int, Compiled | CompileError]]:
    """Compile jobs: by Triton in other processes, by the other routes, which take milliseconds, in
    this one. Yields the index of each with its result."""
    by_triton = [index for index, job in enumerate(jobs) if first[job.target].is_triton]
    for place, result in compile_jobs([jobs[index] for index in by_triton]):
        yield by_triton[place], result
    for index, job in enumerate(jobs):
        if first[job.target].is_triton:
            continue
        start = time.perf_counter()
        try:
            made = functions.artifact(job.request, job.target)
        except CompileError as error:
            yield index, error
        else:
            yield index, Compiled(made, time.perf_counter() - start)
