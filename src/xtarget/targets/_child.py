"""A child process that answers requests, seen from its parent: started on demand, reused, ended
with the parent, and given up when it does not answer.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from ._frames import Frame, unpack

__all__ = ["Child", "ChildLostError", "NoChildError", "child_environment"]

_LOG_BYTES = 4000
_CHUNK = 1 << 16


def child_environment() -> dict[str, str]:
    """Environment variables with which a child process finds this package."""
    here = str(Path(__file__).parents[2])
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": here + (os.pathsep + given if given else "")}


class ChildLostError(Exception):
    """The child ended, or did not answer in time. The text is the end of a sentence about it.

    Attributes:
        log: what it wrote to its standard error.
        late: it was given up because of the time.
    """

    def __init__(self, how: str, *, late: bool = False) -> None:
        super().__init__(how)
        self.log = ""
        self.late = late


class NoChildError(Exception):
    """No child can be started. The text is a sentence."""


class Child:
    """`python -m module`, which reads frames from its standard input and answers each with one.

    Not for several threads at once.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child, None if there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the child if there is none; it loads what it needs while the caller goes on.

        Raises:
            NoChildError: it cannot be started.
        """
        if self.pid is not None:
            return
        self.end()
        if not sys.executable:
            raise NoChildError(
                "This Python does not know its own executable (sys.executable is empty), which a "
                "child process is started with. Set sys.executable."
            )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by end
        try:
            # -P: a file json.py in the working directory must not become the child's json
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,
                env=child_environment(),
            )
        except OSError as error:
            self.end()
            raise NoChildError(
                f"The child process {sys.executable} -m {self._module} cannot be started "
                f"({error}). Free memory or processes, and try again."
            ) from error

    def ask(self, request: bytes, seconds: float, *, alarm: float = math.inf) -> Frame:
        """Send a frame and read one, both within the time. A child that is lost is ended.

        Args:
            alarm: seconds after which the child ends by its own alarm. LLVM sets another one, of 5
                seconds, when it crashes, for it can hang in telling so.

        Raises:
            ChildLostError, NoChildError.
        """
        self.start()
        assert self._process is not None
        try:
            return self._exchange(self._process, request, seconds, alarm)
        except ChildLostError as lost:
            lost.log = self.end(kill=lost.late)
            raise
        except BaseException:  # an answer would be left in the pipe for the next request
            self.end()
            raise

    def end(self, *, kill: bool = False) -> str:
        """End the child, and give what it wrote to its standard error.

        Args:
            kill: do not wait for it to end by itself.
        """
        process = self._process
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # a broken pipe is no news
                        stream.close()
            try:
                process.wait(0.0 if kill else 1.0)  # it ends when its standard input does
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        text = self.log()
        if self._log is not None:
            self._log.close()
        self._process = self._log = None
        return text

    def forget(self) -> None:
        """After a fork, in the new process: the child and its pipes stay the parent's."""
        process, log = self._process, self._log
        self._process = self._log = None
        if process is not None:
            process.returncode = 0  # not ours to wait for
            for stream in (process.stdin, process.stdout, log):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def log(self) -> str:
        """What the child wrote to its standard error since the last time."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_BYTES))
        text = self._log.read().decode(errors="replace").strip()
        self._log.seek(0)
        self._log.truncate()
        return text

    @staticmethod
    def _exchange(
        process: subprocess.Popen[bytes], request: bytes, seconds: float, alarm: float
    ) -> Frame:
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.monotonic()
        deadline = began + seconds
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        unsent, received = memoryview(request), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise ChildLostError("did not answer", late=True)
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
                        # a child that limits its own time gets one of these from the kernel
                        late = status == -signal.SIGPROF or (
                            status == -signal.SIGALRM and time.monotonic() - began >= alarm
                        )
                        raise ChildLostError(_ending(status), late=late)
                    received += chunk
                    answer = unpack(received)
                    if answer is not None:
                        return answer


def _ending(status: int) -> str:
    """How a process ended, as the end of a sentence."""
    if status >= 0:
        return f"ended with status {status}"
    if status == -signal.SIGALRM:
        return "crashed"
    try:
        return f"died of {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"died of signal {-status}"
