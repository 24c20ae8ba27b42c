"""The parent's side of the child process that runs LLVM: one child, started on demand, reused.

The child forks for every request and tells when the fork died or took too long (see `worker`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ..._env import spirv_seconds
from ..._errors import CompileError
from .irtext import Layout
from .worker import HEADER_LENGTH, pack, unpack_header

__all__ = ["Worker", "worker"]

_MODULE = "xtarget.targets._spirv.worker"
_LOG_BYTES = 4000
_CHUNK = 1 << 16
#: Seconds that the child gets for its own work, on top of a request's time limit.
_GRACE = 10.0


class _WorkerLostError(Exception):
    """The child ended, or did not answer in time."""


class Worker:
    """LLVM in a child process. Calls from several threads wait for each other.

    Attributes:
        time_limit: seconds for one request.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = spirv_seconds() if time_limit is None else time_limit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def prepare(
        self, text: str, bitcode: bytes, entry: str, layout: Layout
    ) -> tuple[str, tuple[str, ...], int]:
        """`codegen.prepare`: LLVM IR for SPIR-V, the kernel's parameters as LLVM types, and how
        many threads a warp of it has.

        Raises:
            CompileError: something has no counterpart in SPIR-V, or LLVM failed.
        """
        request = {"step": "prepare", "entry": entry, "layout": asdict(layout)}
        header, parts = self._call(
            "rewriting LLVM IR for SPIR-V", request, [text.encode(), bitcode]
        )
        return parts[0].decode(), tuple(header["parameters"]), int(header["warp_size"])

    def emit(self, text: str) -> bytes:
        """`codegen.emit`: SPIR-V.

        Raises:
            CompileError: LLVM failed.
        """
        return self._call("generating SPIR-V", {"step": "emit"}, [text.encode()])[1][0]

    def start(self) -> None:
        """Start the child if there is none; it loads LLVM while the caller goes on."""
        with self._lock:
            self._ensure()

    def close(self) -> None:
        """End the child; the next request starts another."""
        with self._lock:
            self._end()

    @property
    def pid(self) -> int | None:
        """Process id of the child, None if there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def forget(self) -> None:
        """After a fork, in the new process: the child and its pipes stay the parent's."""
        process, log = self._process, self._log
        self._lock = threading.Lock()
        self._process = self._log = None
        if process is not None:
            process.returncode = 0  # not ours to wait for
            for stream in (process.stdin, process.stdout, log):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def _call(
        self, doing: str, header: dict[str, Any], parts: list[bytes]
    ) -> tuple[dict[str, Any], list[bytes]]:
        header = {**header, "time_limit": self.time_limit}
        with self._lock:
            process = self._ensure()
            try:
                answer, data = self._exchange(process, pack(header, parts))
                log = self._read_log() if "lost" in answer else ""
            except _WorkerLostError as lost:
                answer, log = {"lost": str(lost)}, self._end()
            except BaseException:  # an answer would be left in the pipe for the next request
                self._end()
                raise
        if "lost" in answer:
            hint = (
                "Make the kernel's blocks smaller, or give it more time with XTARGET_SPIRV_SECONDS."
                if answer["lost"].startswith("did not")
                else "LLVM's SPIR-V back end does so on code that it does not know."
            )
            raise CompileError(
                f"{doing}: LLVM's process {answer['lost']}. {hint}"
                + (f" It said:\n{log}" if log else "")
            )
        if "unsupported" in answer:
            raise CompileError(
                f"SPIR-V: the kernel uses {answer['unsupported']}, which has no counterpart there. "
                "Write the kernel without it for this target."
            )
        if "error" in answer:
            raise CompileError(f"{doing} failed: {answer['error']}")
        return answer, data

    def _ensure(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        if not sys.executable:
            raise CompileError(
                "LLVM runs in a child process, and this Python does not know its own executable "
                "(sys.executable is empty). Set sys.executable, or compile in another process."
            )
        here = str(Path(__file__).parents[3])
        given = os.environ.get("PYTHONPATH")
        path = here + (os.pathsep + given if given else "")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by _end
        # -P: a file json.py in the working directory must not become the child's json
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self._process

    def _end(self) -> str:
        """End the child and give what it wrote to its standard error."""
        process = self._process
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # a broken pipe is no news
                        stream.close()
            try:
                process.wait(1.0)  # it ends its fork, then itself, when standard input ends
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        text = self._read_log()
        if self._log is not None:
            self._log.close()
        self._process = self._log = None
        return text

    def _read_log(self) -> str:
        """What the child wrote to its standard error since the last time."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_BYTES))
        text = self._log.read().decode(errors="replace").strip()
        self._log.seek(0)
        self._log.truncate()
        return text

    def _exchange(
        self, process: subprocess.Popen[bytes], request: bytes
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send a frame and read one, both within the time limit."""
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + self.time_limit + _GRACE
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        unsent, received = memoryview(request), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise _WorkerLostError("did not answer")
                for key, _ in ready:
                    if key.fileobj is process.stdin:
                        try:
                            unsent = unsent[os.write(key.fd, unsent[:_CHUNK]) :]
                        except BrokenPipeError:
                            unsent = unsent[len(unsent) :]  # the other pipe tells the rest
                        if not unsent:
                            selector.unregister(process.stdin)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        status = process.wait()
                        raise _WorkerLostError(f"ended with status {status}")
                    received += chunk
                    answer = _unpack(received)
                    if answer is not None:
                        return answer


def _unpack(data: bytearray) -> tuple[dict[str, Any], list[bytes]] | None:
    """The frame in `data`, None while it is incomplete."""
    start = HEADER_LENGTH.size
    if len(data) < start:
        return None
    end = start + HEADER_LENGTH.unpack(data[:start])[0]
    if len(data) < end:
        return None
    header, lengths = unpack_header(bytes(data[start:end]))
    if len(data) < end + sum(lengths):
        return None
    parts = []
    for length in lengths:
        parts.append(bytes(data[end : end + length]))
        end += length
    return header, parts


#: The process's one child.
worker = Worker()
atexit.register(worker.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=worker.forget)
