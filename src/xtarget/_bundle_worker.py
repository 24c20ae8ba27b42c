"""Compiling in child processes, so that a compiler that hangs or crashes costs one kernel.

The parent starts `python -m xtarget._bundle_worker` and talks to it in lines of JSON; what the
compiler prints goes elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from . import _kernels, _registry
from ._cache.entry import describe
from ._errors import CompileError, XTargetError
from ._types import (
    Artifact,
    CompileRequest,
    DtypeConstant,
    Parameter,
    Resources,
    Scratch,
    Target,
)

__all__ = ["Compiled", "Job", "compile_all", "plain"]

_START_SECONDS = 60.0  # to import Triton, beside the time for the first compilation
_SHOWN = 300  # characters of what a crashed compiler printed last


@dataclass(frozen=True, slots=True)
class Job:
    """A request to compile, and where its source is."""

    target: Target
    origin: str
    source: str
    request: CompileRequest


@dataclass(frozen=True, slots=True)
class Compiled:
    """An artifact, and the seconds that its compiler took."""

    artifact: Artifact
    seconds: float


class _Gone(Exception):
    """The worker ended, or was ended, before it answered."""


def compile_all(
    jobs: Sequence[Job], workers: int, seconds: float
) -> Iterator[tuple[int, Compiled | CompileError]]:
    """Compile in `workers` processes; gives (index of the job, result) in the order of their ends.

    Args:
        seconds: limit for one compilation.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Compiled | CompileError]] = queue.SimpleQueue()
    for index in range(len(jobs)):
        todo.put(index)
    stop = threading.Event()

    def work() -> None:
        with _Worker() as worker:
            while not stop.is_set():
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                done.put((index, worker.compile(jobs[index], seconds, stop)))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            yield done.get()
    finally:  # also when the caller has enough: the children end before we go
        stop.set()
        for thread in threads:
            thread.join()


class _Worker:
    """A child process, started when it is first needed and again after it was lost."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        self._rest = b""

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def _end(self) -> int | None:
        process, self._process, self._rest = self._process, None, b""
        if process is None:
            return None
        code = process.poll()
        with contextlib.suppress(ProcessLookupError):  # it and what it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return process.returncode if code is None else code

    def compile(self, job: Job, seconds: float, stop: threading.Event) -> Compiled | CompileError:
        """The artifact, or the error that the build lists."""
        what = f"{job.request.source.name} for {job.target}"
        allowed = seconds if self._process is not None else seconds + _START_SECONDS
        try:
            answer = self._ask(_encode(job), allowed, stop)
        except TimeoutError:
            self._end()
            return CompileError(
                f"{what} was given up: its compiler took more than {allowed:.0f} s. Give it more "
                "with --timeout, or leave the kernel out."
            )
        except (_Gone, OSError):
            time.sleep(0.05)  # the child's end may come a moment after that of its pipe
            code = self._end()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()[-_SHOWN:]
            return CompileError(
                f"{what}: its compiler ended with {_ending(code)}. It said last: "
                f"{said or 'nothing'}"
            )
        if "error" in answer:
            return CompileError(answer["error"])
        return Compiled(_artifact(job.target, answer), float(answer["seconds"]))

    def _ask(self, question: bytes, seconds: float, stop: threading.Event) -> dict[str, Any]:
        process = self._process
        if process is None:
            self._errors.seek(0)
            self._errors.truncate()
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "xtarget._bundle_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        process.stdin.write(question + b"\n")
        process.stdin.flush()
        parts, output = [self._rest], process.stdout.fileno()
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if stop.is_set():
                raise _Gone
            if select.select([output], [], [], min(left, 0.2))[0]:
                part = os.read(output, 1 << 20)
                if not part:
                    raise _Gone
                parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


# ------------------------------------------------------------------------------ requests as JSON


def plain(value: Any) -> Any:
    """A constant as JSON takes it."""
    if isinstance(value, DtypeConstant):
        return {"dtype": value.name}
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return DtypeConstant(value["dtype"])
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


_FIELDS = ("signature", "constants", "aligned", "num_warps", "num_stages", "line_info", "options")


def _encode(job: Job) -> bytes:
    request = {name: plain(getattr(job.request, name)) for name in _FIELDS}
    return json.dumps(
        {
            "target": str(job.target),
            "origin": job.origin,
            "source": job.source,
            "digest": job.request.source.digest,
            "request": request,
        }
    ).encode()


def _artifact(target: Target, answer: dict[str, Any]) -> Artifact:
    fields = answer["artifact"]
    return Artifact(
        target=target,
        binary=base64.b64decode(answer["binary"]),
        texts=answer["texts"],
        parameters=tuple(Parameter(**p) for p in fields.pop("parameters")),
        global_scratch=Scratch(**fields.pop("global_scratch")),
        profile_scratch=Scratch(**fields.pop("profile_scratch")),
        resources=Resources(**fields.pop("resources")),
        **fields,
    )


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    target = Target.parse(question["target"])
    try:
        if question["origin"] not in loaded:
            _kernels.load_library(question["origin"])
            loaded.add(question["origin"])
        source = _kernels.library_source(question["origin"], question["source"])
        if source.digest != question["digest"]:
            raise CompileError(f"{source.path} was changed during the build. Build again.")
        request = CompileRequest(
            source=source, **{k: _tuples(v) for k, v in question["request"].items()}
        )
        start = time.perf_counter()
        made = _registry.compiler(target.vendor).compile(request, target)
        seconds = time.perf_counter() - start
    except XTargetError as error:
        return {"error": str(error)}
    return {
        "artifact": describe(made),
        "binary": base64.b64encode(made.binary).decode(),
        "texts": dict(made.texts),
        "seconds": seconds,
    }


loaded: set[str] = set()


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to see
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _main()
