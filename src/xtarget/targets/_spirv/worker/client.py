"""The parent's side of the child process that runs LLVM: one child, started on demand, reused.

The child forks for every request and tells when the fork died or took too long (see `worker`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ...._children.child import Child, ChildLostError, NoChildError
from ...._children.frames import Frame, pack
from ...._children.limits import CLOCK_TIMES, deadline, memory_text
from ...._system.locks import Lock
from ...._values.environment import build_memory, spirv_seconds
from ...._values.errors import CompileError
from ..llvm.text import Entry, Layout

__all__ = ["EmitError", "UnsupportedCodeError", "Worker", "worker"]

_MODULE = "xtarget.targets._spirv.worker.main"
#: Seconds that the child gets for its own work, on top of a request's time limit.
_GRACE = 10.0


@contextlib.contextmanager
def _startable() -> Iterator[None]:
    try:
        yield
    except NoChildError as error:
        raise CompileError(f"LLVM runs in a child process. {error}") from error


class UnsupportedCodeError(CompileError):
    """A kernel uses an operation that SPIR-V lacks.

    Args:
        what: is used.
        symbol: what it is called in Triton's LLVM IR.
        place: where, as `places.place_of` writes it.
    """

    def __init__(self, what: str, symbol: str, place: str = "") -> None:
        super().__init__(
            f"SPIR-V: the kernel uses {what}{place}, which has no counterpart there. "
            "Write the kernel without it for this target."
        )
        self.what = what
        self.symbol = symbol


class EmitError(CompileError):
    """LLVM's SPIR-V back end failed, ended its process or took too long."""


#: What LLVM's process does in a step, for messages.
_DOING = {"prepare": "rewriting LLVM IR for SPIR-V", "emit": "generating SPIR-V"}


class Worker:
    """LLVM in a child process. Calls from several threads wait for each other.

    Attributes:
        time_limit: seconds of processor time for one request; None is what the environment says at
            that time.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = time_limit
        self._lock = Lock()
        self._child = Child(_MODULE)

    def prepare(self, text: str, bitcode: bytes, entry: str, layout: Layout) -> tuple[str, Entry]:
        """`codegen.prepare`: LLVM IR for SPIR-V, and the facts of the kernel's entry.

        Raises:
            CompileError: something has no counterpart in SPIR-V, or LLVM failed.
        """
        kernel, parts = self._prepared(("prepare",), text, bitcode, entry, layout)
        return parts[0].decode(), kernel

    def build(
        self, text: str, bitcode: bytes, entry: str, layout: Layout
    ) -> tuple[str, Entry, bytes]:
        """`prepare` and `emit` in one request, which is faster than two.

        Raises:
            EmitError: the second failed.
            CompileError: the first failed.
        """
        kernel, parts = self._prepared(("prepare", "emit"), text, bitcode, entry, layout)
        return parts[0].decode(), kernel, parts[1]

    def emit(self, text: str) -> bytes:
        """`codegen.emit`: SPIR-V.

        Raises:
            EmitError: LLVM failed.
        """
        return self._call({"steps": ("emit",)}, [text.encode()])[1][0]

    def _prepared(
        self, steps: tuple[str, ...], text: str, bitcode: bytes, entry: str, layout: Layout
    ) -> tuple[Entry, list[bytes]]:
        request = {"steps": steps, "entry": entry, "layout": asdict(layout)}
        header, parts = self._call(request, [text.encode(), bitcode])
        kernel = Entry(
            entry,
            tuple(header["parameters"]),
            header["asserts"],
            header["warp_size"],
            tuple(header["only_read"]),
        )
        return kernel, parts

    def start(self) -> None:
        """Start the child if there is none; it loads LLVM while the caller goes on."""
        with self._lock, _startable():
            self._child.start()

    def close(self) -> None:
        """End the child; the next request starts another."""
        with self._lock:
            self._child.end()

    @property
    def pid(self) -> int | None:
        """Process id of the child, None if there is none."""
        return self._child.pid

    def _call(self, header: dict[str, Any], parts: list[bytes]) -> Frame:
        seconds = spirv_seconds() if self.time_limit is None else self.time_limit
        memory = build_memory()
        header = {**header, "time_limit": seconds, "memory_limit": memory}
        with self._lock, _startable():
            try:
                patience = CLOCK_TIMES * seconds + _GRACE
                self._child.start()
                answer, data = self._child.ask(pack(header, parts), deadline(patience))
                log = self._child.log() if "lost" in answer else ""
            except ChildLostError as lost:
                answer, data, log = {"lost": str(lost)}, [], lost.log
        step = answer.get("step", header["steps"][0])
        error = EmitError if step == "emit" else CompileError
        if "lost" in answer:
            hint = (
                "Make the kernel's blocks smaller, or give it more time with XTARGET_SPIRV_SECONDS."
                if answer["lost"].startswith("did not")
                else "LLVM's SPIR-V back end does so on code that it does not know, and where "
                f"{memory_text(memory)}."
            )
            raise error(
                f"{_DOING[step]}: LLVM's process {answer['lost']}. {hint}"
                + (f" It said:\n{log}" if log else "")
            )
        if "unsupported" in answer:
            raise UnsupportedCodeError(answer["unsupported"], answer["symbol"])
        if "error" in answer:
            raise error(f"{_DOING[step]} failed: {answer['error']}")
        return answer, data


#: The process's one child.
worker = Worker()
