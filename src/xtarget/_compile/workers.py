"""Compiling in child processes, so that a compiler that hangs or crashes costs one kernel."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .._artifacts import entry
from .._children.child import Child, ChildLostError, NoChildError
from .._children.frames import Frame, pack
from .._children.limits import Patience
from .._values.errors import CompileError
from .._values.types import Artifact, CompileRequest, DtypeConstant, KernelSource, Target
from .._values.value_classes import value_class
from .finding import where_found

__all__ = [
    "COMPILE_CHILD",
    "Compiled",
    "Job",
    "artifact_of",
    "compile_all",
    "encode",
    "plain",
    "question",
    "request_of",
    "said_last",
    "sources_of",
    "where_of",
]

#: The module of the children.
COMPILE_CHILD = "xtarget._compile.compile_child"
_START_SECONDS = 60.0  # to import Triton, beside the time for the first compilation
_SHOWN = 300  # characters of what a crashed compiler printed last


@value_class(frozen=True, slots=True)
class Job:
    """A request to compile, and where its source is."""

    target: Target
    origin: str
    source: str
    request: CompileRequest
    toolchain: str = ""


@value_class(frozen=True, slots=True)
class Compiled:
    """An artifact, the seconds that its compiler took, and the machine if it was another process's
    (`units`)."""

    artifact: Artifact
    seconds: float
    machine: str = ""


def compile_all(
    jobs: Sequence[Job], workers: int, seconds: float
) -> Iterator[tuple[int, Compiled | CompileError]]:
    """Compile in `workers` processes; gives (index of the job, result) in the order of their ends.

    Args:
        seconds: of processor time, for one compilation.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Compiled | CompileError] | BaseException]
    done = queue.SimpleQueue()
    for index in range(len(jobs)):
        todo.put(index)
    stop = threading.Event()

    def work() -> None:
        child = Child(COMPILE_CHILD)
        try:
            while not stop.is_set():
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                done.put((index, _compile(child, jobs[index], seconds, stop)))
        except BaseException as error:  # the caller waits for a result of every job
            done.put(error)
        finally:
            child.end(kill=True)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:  # also when the caller has enough: the children end before we go
        stop.set()
        for thread in threads:
            thread.join()


def _compile(
    child: Child, job: Job, seconds: float, stop: threading.Event
) -> Compiled | CompileError:
    """The artifact, or the error that the build lists."""
    what = f"{job.request.source.name} for {job.target}"
    try:
        allowed = seconds if child.pid is not None else seconds + _START_SECONDS
        patience = Patience(allowed, child.start())
        answer, parts = child.ask(encode(job), lambda: stop.is_set() or patience.over())
    except NoChildError as error:
        return CompileError(f"{what}: {error}")
    except CompileError as error:  # no child finds its source
        return error
    except ChildLostError as lost:
        if lost.late and stop.is_set():
            return CompileError(f"{what} was given up.")
        if lost.late:
            return CompileError(
                f"{what} was given up: its compiler took more than {allowed:g} s of processor "
                "time. Give it more with --timeout, or leave the kernel out."
            )
        return CompileError(f"{what}: its compiler {lost}. It said last: {said_last(lost)}")
    if "error" in answer:
        return CompileError(answer["error"])
    try:
        return Compiled(artifact_of(job.target, answer, parts), float(answer["seconds"]))
    except CompileError as error:
        return error


def said_last(lost: ChildLostError) -> str:
    """The end of what a child that was lost wrote to its standard error."""
    return lost.log[-_SHOWN:] or "nothing"


def sources_of(
    wanted: Iterable[tuple[str, str]],
    seconds: float,
    ask: Callable[[bytes], Frame] | None = None,
) -> dict[tuple[str, str], dict[str, Any]]:
    """Import sources (origin, source) in another process and return what it reports.

    The values are members of a `KernelSource`. Sources that cannot be imported are missing.

    Args:
        seconds: limit of processor time for one import.
        ask: a process that stays (`limited.ask_child`); None: one that ends with this.
    """
    found = {}
    child = Child(COMPILE_CHILD)

    def ask_own(asked: bytes) -> Frame:
        patience = Patience(seconds + _START_SECONDS, child.start())
        return child.ask(asked, patience.over)

    try:
        for origin, source in wanted:
            try:
                answer, _ = (ask or ask_own)(pack({"origin": origin, "source": source}))
            except (NoChildError, ChildLostError, CompileError):
                continue  # compiling it fails in the same way, and says why
            if "error" not in answer:
                parts = tuple((label, text) for label, text in answer.pop("labelled"))
                found[origin, source] = {**answer, "parts": parts}
    finally:
        child.end(kill=True)
    return found


# ------------------------------------------------------------------------------ requests as frames


def plain(value: Any) -> Any:
    """A constant as JSON takes it."""
    if isinstance(value, DtypeConstant):
        return {"dtype": value.name}
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    """The constant of which `plain` made this value."""
    if isinstance(value, dict):
        return DtypeConstant(value["dtype"])
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


_FIELDS = ("signature", "constants", "aligned", "num_warps", "num_stages", "line_info", "options")


def where_of(job: Job) -> dict[str, Any]:
    """Where a child finds the source of a job.

    Raises:
        CompileError: it is a function of the program that no child finds.
    """
    where: dict[str, Any] = {"origin": job.origin, "source": job.source}
    if job.origin.endswith(".py"):  # of `@xtarget.kernel`, not of a library's folder
        where = where_found(job.request.source, job.request.source.name)
    if job.toolchain:
        where["toolchain"] = job.toolchain
    return where


def encode(job: Job) -> bytes:
    return pack(question(where_of(job), job.request, job.target))


def question(
    where: dict[str, Any], request: CompileRequest, target: Target, **more: Any
) -> dict[str, Any]:
    """A compilation as the header of a frame.

    Args:
        where: the source is, for `compile_child`.
        more: options of the compiler's `compile`.
    """
    fields = {name: plain(getattr(request, name)) for name in _FIELDS}
    digest = request.source.digest
    return {**where, "target": str(target), "digest": digest, "request": fields, "more": more}


def request_of(source: KernelSource, fields: dict[str, Any]) -> CompileRequest:
    """The request of a question's `request`."""
    return CompileRequest(source=source, **{name: _tuples(v) for name, v in fields.items()})


def artifact_of(target: Target, answer: dict[str, Any], parts: Sequence[bytes]) -> Artifact:
    """The artifact that a child sent, checked as one of the cache is: launching believes it.

    Raises:
        CompileError: it is none.
    """
    try:
        (binary,) = parts
        return entry.artifact_of(
            answer["artifact"],
            target=target,
            binary=binary,
            texts=answer["texts"],
            stage_seconds=entry.stage_times(answer.get("stage_seconds")),
        )
    except entry.DAMAGE as error:
        raise CompileError(
            f"the process that compiled for {target} sent no artifact that can be launched "
            f"({error}). Compile it again; if it stays so, report it with the kernel's source."
        ) from error
