"""Compiling by an executor's workers: on other machines, or in processes of a caller's own.

A unit carries the files that the kernel is made from, as text, and the target. The worker lays them
into a folder, compiles in a child process of its own, as `limited` does, and answers with the
artifact. Nothing is pickled but the name of `compile_unit` and bytes.

A kernel that its files alone do not say (they read values of the machine, or name their own place)
is compiled by a worker that has equal files at the same place, and by this machine otherwise.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from .._children.frames import Frame, pack
from .._devices import registry
from .._executors.asking import Lost, answer, answers, asked
from .._executors.carried import MOST_BYTES, are_here, laid
from .._kernels import libraries
from .._system import files
from .._values.errors import CompileError
from .._values.types import Artifact, CompileRequest, Target
from .finding import where_found
from .limited import ask_child
from .workers import Compiled, Job, artifact_of, compile_all, question, where_of

__all__ = ["compile_elsewhere", "compile_on", "compile_unit", "laid_question", "unit_of"]

#: What a library is to the child that compiles: sources are asked for by their text.
_CATALOG = b"KERNELS = ()\n"


# ------------------------------------------------------------------------------ the side that asks


def unit_of(
    where: dict[str, Any], request: CompileRequest, target: Target, seconds: float, toolchain: str
) -> bytes:
    """A compilation with the files of its kernel.

    Args:
        where: its source is (`where_found`).
        seconds: of processor time.
        toolchain: the fingerprint of the compiler here.

    Raises:
        XTargetError: its files are gone.
    """
    if "origin" in where:
        contents, whole = libraries.closure(where["origin"], where["source"])
        folder = where["origin"]
    else:  # a function of the program: a worker that has the program compiles it
        folder, name = os.path.split(request.source.path)
        contents, whole = {name: files.read_regular(Path(folder, name), MOST_BYTES)}, False
    header = {
        "question": question(where, request, target),
        "what": f"{request.source.name} for {target}",
        "seconds": seconds,
        "toolchain": toolchain,
        "folder": folder,
        "files": list(contents),
        "whole": whole,
    }
    return asked(header, list(contents.values()))


def compile_on(
    executor: Executor, jobs: Sequence[Job], workers: int, seconds: float
) -> Iterator[tuple[int, Compiled | CompileError]]:
    """`workers.compile_all`, by an executor. What it cannot do is done by processes here.

    Args:
        workers: processes of this machine, for that.
        seconds: of processor time, for one compilation.

    Raises:
        XTargetError: a worker has another version of xtarget, of Python or of the tool chain.
    """
    here: list[int] = []
    why = ""

    def unit(index: int) -> bytes:
        job = jobs[index]
        toolchain = job.toolchain or registry.compiler(job.target.vendor).fingerprint
        return unit_of(where_of(job), job.request, job.target, seconds, toolchain)

    for index, frame in answers(executor, compile_unit, len(jobs), unit):
        job = jobs[index]
        result = _result(f"{job.request.source.name} for {job.target}", job.target, frame)
        if isinstance(result, str):
            here.append(index)
            why = result
        else:
            yield index, result
    if here:
        _say_here(len(here), why)
        for place, made in compile_all([jobs[i] for i in here], workers, seconds):
            yield here[place], made


def compile_elsewhere(
    executor: Executor, request: CompileRequest, target: Target, seconds: float, toolchain: str
) -> Artifact | None:
    """One compilation by an executor; None if this machine has to do it.

    Raises:
        CompileError: it does not compile, or its workers were lost.
        XTargetError: as `compile_on`.
    """
    what = f"{request.source.name} for {target}"
    where = {**where_found(request.source, what), "toolchain": toolchain}
    unit = unit_of(where, request, target, seconds, toolchain)
    (frame,) = (frame for _, frame in answers(executor, compile_unit, 1, lambda _: unit))
    result = _result(what, target, frame)
    if isinstance(result, CompileError):
        raise result
    if isinstance(result, str):
        _say_here(1, result)
        return None
    return result.artifact


def _result(what: str, target: Target, frame: Frame | Lost) -> Compiled | CompileError | str:
    """The worker's artifact, or the reason why this machine has to compile."""
    if isinstance(frame, Lost):
        if frame.broken:
            return f"the executor takes no work any more: {frame.why}"
        return CompileError(f"{what} was lost with the worker that compiled it: {frame.why}.")
    header, parts = frame
    if "away" in header:
        return str(header["away"])
    if "error" in header:
        return CompileError(str(header["error"]))
    try:
        digests = [hashlib.sha256(part).hexdigest() for part in parts]
        if header["digests"] != digests:
            raise CompileError(f"{what}: the binary was damaged on its way. Do it again.")
        made = artifact_of(target, header, parts)
        return Compiled(made, float(header["seconds"]), str(header["machine"]))
    except CompileError as error:
        return error
    except (KeyError, TypeError, ValueError) as error:
        return CompileError(f"{what}: a worker sent no artifact ({error!r}). Compile it again.")


def _say_here(count: int, why: str) -> None:
    logging.getLogger("xtarget").warning(
        "%d compilations are done by this machine, not by the executor: %s", count, why
    )


# ------------------------------------------------------------------------------ the side that works


def compile_unit(data: bytes) -> bytes:
    """On a worker: compile a unit."""
    return answer(data, _compile)


def _compile(header: dict[str, Any], parts: list[bytes]) -> Frame:
    target = Target.parse(header["question"]["target"])
    here = registry.compiler(target.vendor).fingerprint
    if not here and header["toolchain"]:
        from ..targets._triton.importing import INSTALL

        why = f"the worker on {socket.gethostname()} has no Triton. Install it there: {INSTALL}"
        return {"refused": why}, []
    if here != header["toolchain"]:
        return other_tools("a worker", target, "and set the same variables of Triton"), []
    asked_for = laid_question(header, parts)
    if isinstance(asked_for, str):
        return {"away": asked_for}, []
    found, binaries = ask_child(f"kernel {header['what']}", pack(asked_for), header["seconds"])
    digests = [hashlib.sha256(binary).hexdigest() for binary in binaries]
    return {**found, "digests": digests}, binaries


def other_tools(who: str, target: Target, way_out: str) -> dict[str, str]:
    """The refusal of a unit for another tool chain than is here."""
    return {
        "refused": f"{who} compiles for {target} with another tool chain (Triton, its tools or its "
        f"settings) than who asks has. Install the same packages on both, {way_out}."
    }


def laid_question(header: dict[str, Any], parts: list[bytes]) -> dict[str, Any] | str:
    """The question of a unit, about files that are here; or why its kernel cannot be compiled away
    from where it was made.

    Raises:
        XTargetError: a name of its files leads out of their folder.
    """
    contents = dict(zip(header["files"], parts, strict=True))
    asked_for = dict(header["question"])
    folder = Path(header["folder"])
    library = "origin" in asked_for
    if not are_here(folder, contents) or (library and not (folder / "catalog.py").is_file()):
        if not header["whole"]:
            why = (
                "its files read values of their machine, or name their own place"
                if library
                else "it is a function of a program"
            )
            return f"{header['what']}: {why}, and a worker has no equal {folder}"
        asked_for["origin"] = str(laid({**contents, "catalog.py": _CATALOG}))
    return asked_for
