"""The parent's side: a child process that answers requests. It is started on demand, reused, ended
with the parent, and given up if it does not answer."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable
from typing import IO, Any

from .._system.life import at_exit, in_forked_child
from .._system.scratch import make_room
from . import start
from .frames import Frame, unpack
from .limits import CLOCK_TIMES
from .start import NoChildError

__all__ = ["Child", "ChildLostError", "NoChildError"]

_LOG_BYTES = 4000
_CHUNK = 1 << 16
#: How often a limit is looked at, in seconds.
_LOOK = 0.1
#: Seconds for a child to end by itself, and to be reaped after it was killed: one that is stuck in
#: a device's driver cannot be.
_END_SECONDS = 1.0
_UNKNOWN_END = "ended, how is not known, because this process ignores SIGCHLD,"


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


class Child:
    """`python -m module`, which calls `serve.serve`.

    Not for several threads at once. All children that are idle are ended at exit; after a fork they
    stay the parent's.

    Args:
        module: its name.
        log_bytes: how much of the end of its standard error is read.
    """

    def __init__(self, module: str, log_bytes: int = _LOG_BYTES) -> None:
        self._module = module
        self._log_bytes = log_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._unsent = memoryview(b"")
        self._asked = 0.0
        self._busy = False
        _all.add(self)

    @property
    def pid(self) -> int | None:
        """Process id of the child, None if there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> int:
        """Start the child if it does not run. The caller continues while the child loads its
        modules.

        Returns:
            its process id.

        Raises:
            NoChildError: it cannot be started.
        """
        pid = self.pid
        if pid is not None:
            return pid
        self.end()
        make_room()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed by end
        try:
            self._process = start.start(self._module, stdin=subprocess.PIPE, stderr=self._log)
        except NoChildError:
            self.end()
            raise
        return self._process.pid

    def ask(
        self,
        request: bytes,
        over: Callable[[], bool],
        *,
        alarm: float | None = None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
    ) -> Frame:
        """Send a frame and return the one that answers it. A child that is lost is ended.

        Args:
            over: says whether the time is up.
            alarm: seconds on the clock after which the child ends by its own alarm
                (`limits.end_after`); None if it has none. LLVM sets another one, of 5 seconds, when
                it crashes, for it can hang in telling so.
            on_note: is called with what the child says by `serve.note`.

        Raises:
            ChildLostError, NoChildError.
        """
        self.send(request)
        return self.receive(over, alarm=alarm, on_note=on_note)

    def send(self, request: bytes) -> None:
        """Begin to send a frame; `receive` sends the rest.

        Raises:
            NoChildError: the child cannot be started.
        """
        if self._process is None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._unsent = memoryview(request)
        self._asked, self._busy = time.monotonic(), True
        self._write(self._process.stdin.fileno())

    def receive(
        self,
        over: Callable[[], bool],
        *,
        alarm: float | None = None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
    ) -> Frame:
        """Return the answer to the last `send`. The arguments are those of `ask`.

        Raises:
            ChildLostError.
        """
        assert self._process is not None
        try:
            answer = self._receive(self._process, over, alarm, on_note)
        except ChildLostError as lost:
            lost.log = self.end(kill=True)
            raise
        except BaseException:  # an answer would be left in the pipe for the next request
            self.end(kill=True)
            raise
        self._busy = False
        return answer

    def _receive(
        self,
        process: subprocess.Popen[bytes],
        over: Callable[[], bool],
        alarm: float | None,
        on_note: Callable[[dict[str, Any]], None] | None,
    ) -> Frame:
        assert process.stdin is not None
        assert process.stdout is not None
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if self._unsent:
                selector.register(process.stdin, selectors.EVENT_WRITE)
            while True:
                ready = selector.select(_LOOK)
                if not ready and over():
                    raise ChildLostError("did not answer", late=True)
                for key, _ in ready:
                    if key.fileobj is process.stdin:
                        self._write(key.fd)
                        if not self._unsent:
                            selector.unregister(process.stdin)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        raise _lost(process, time.monotonic() - self._asked, alarm)
                    received += chunk
                    while (frame := unpack(received)) is not None:
                        if "note" not in frame[0]:
                            return frame
                        if on_note is not None:
                            on_note(frame[0]["note"])

    def _write(self, stdin: int) -> None:
        try:
            self._unsent = self._unsent[os.write(stdin, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent = memoryview(b"")  # the other pipe tells the rest

    def end(self, *, kill: bool = False) -> str:
        """End the child, and return its standard error.

        Args:
            kill: end it and what it started at once. Else it ends when its standard input does.
        """
        process = self._process
        if process is not None:
            if kill:
                start.kill(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # a broken pipe is not news
                        stream.close()
            if not _is_reaped(process):
                start.kill(process)
                _is_reaped(process)
        text = self.log()
        if self._log is not None:
            self._log.close()
        self._process = self._log = None
        self._busy = False
        return text

    def forget(self) -> None:
        """After a fork, in the new process: leave the child and its pipes to the parent."""
        process, log = self._process, self._log
        self._process = self._log = None
        self._busy = False
        if process is not None:
            process.returncode = 0  # not ours to wait for
            for stream in (process.stdin, process.stdout, log):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()

    def log(self) -> str:
        """Return the text that the child has written to its standard error since the last call."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - self._log_bytes))
        text = self._log.read().decode(errors="replace").strip()
        self._log.seek(0)
        self._log.truncate()
        return text

    @property
    def busy(self) -> bool:
        """True while a request is on its way, perhaps in another thread."""
        return self._busy


def _is_reaped(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
        return True
    return False


def _lost(process: subprocess.Popen[bytes], took: float, alarm: float | None) -> ChildLostError:
    """The error about a child whose pipe has ended.

    Args:
        took: seconds of its last request.
        alarm: as in `Child.ask`.
    """
    if not _is_reaped(process):
        return ChildLostError("closed its pipe without an answer")
    status = process.returncode
    if status == 0 and start.ignores_ends():
        return ChildLostError(_UNKNOWN_END, late=alarm is not None and took >= alarm / CLOCK_TIMES)
    # a child that limits its own time gets one of these from the kernel
    late = alarm is not None and (
        status == -signal.SIGPROF or (status == -signal.SIGALRM and took >= alarm)
    )
    return ChildLostError(_ending(status), late=late)


def _ending(status: int) -> str:
    """Say how a process ended, as the end of a sentence."""
    if status >= 0:
        return f"ended with status {status}"
    if status == -signal.SIGALRM:
        return "crashed"
    try:
        return f"died of {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"died of signal {-status}"


_all: weakref.WeakSet[Child] = weakref.WeakSet()


def _end_all() -> None:
    for child in list(_all):
        if not child.busy:  # else its pipe ends with this process, and with the pipe the child
            child.end()


def _forget_all() -> None:
    for child in list(_all):
        child.forget()


at_exit(_end_all)
in_forked_child(_forget_all)
