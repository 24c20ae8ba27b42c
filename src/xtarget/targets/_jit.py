"""Run times' own compilers, kept out of the user's process: they crash or hang on some modules.

A pool of child processes builds. Each of them is a module of a vendor (`cpu.jit`, `intel.jit`) that
calls `_jit_process.serve`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from typing import Any

from .._env import build_memory, jit_seconds
from .._errors import LoadError
from ._child import Child, ChildLostError, NoChildError
from ._child_process import CLOCK_TIMES, memory_text
from ._frames import Frame, pack

__all__ = ["Jit"]

#: Children that build at the same time. Each takes 100 to 200 MB while it lives.
_CHILDREN = max(1, min(4, os.cpu_count() or 1))
#: Builds after which a child is replaced: Intel's CPU compiler (2026.2) has crashed in processes
#: that built hundreds of modules.
_BUILDS = 100
#: Seconds for loading the run time and for the pipes, on top of the time limit of a build.
_GRACE = 30.0


class _Builder:
    """A child, and how much it has built."""

    def __init__(self, module: str) -> None:
        self.child = Child(module)
        self.built = 0


class Jit:
    """Builds modules in children that run `python -m module`, started when first needed.

    May be used by several threads at once.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        self._guard = threading.Lock()
        self._free = threading.BoundedSemaphore(_CHILDREN)
        self._idle: list[_Builder] = []
        self._builders: weakref.WeakSet[_Builder] = weakref.WeakSet()

    def build(self, what: str, device: str, spirv: bytes, entry: str, options: str = "") -> bytes:
        """What the child's vendor makes of a module.

        Args:
            what: that it cannot be loaded and where, as the start of a sentence.
            device: which device, in the words of the child's vendor.
            options: of the run time's compiler.

        Raises:
            LoadError: the run time refuses the module, or its compiler dies or takes too long.
        """
        seconds, memory = jit_seconds(), build_memory()
        header: dict[str, Any] = {"device": device, "entry": entry, "options": options}
        header |= {"seconds": seconds, "memory": memory}
        try:
            answer, parts = self._ask(pack(header, [spirv]), CLOCK_TIMES * seconds)
        except NoChildError as error:
            raise LoadError(f"{what}: machine code is made in a child process. {error}") from error
        except ChildLostError as lost:
            said = f" It said:\n{lost.log}" if lost.log else ""
            if lost.late:
                raise LoadError(
                    f"{what}: the run time's compiler did not finish within {seconds:g} s of "
                    "processor time, and its process was ended. Make the kernel's blocks smaller, "
                    f"or give it more time with XTARGET_JIT_SECONDS.{said}"
                ) from lost
            raise LoadError(
                f"{what}: the process of the run time's compiler {lost} while it made machine code "
                "of the SPIR-V. It does so on code that it cannot compile, and where "
                f"{memory_text(memory)}. Change the kernel's blocks or num_warps, or install "
                f"another version of the run time.{said}"
            ) from lost
        if "failed" in answer:
            raise LoadError(f"{what}: {answer['failed']}")
        return parts[0]

    def start(self) -> None:
        """Start the first child; it loads the run time while the caller goes on. Where it cannot be
        started, the build will say why.
        """
        with self._guard:
            if self._builders:
                return
            builder = _Builder(self._module)
            self._builders.add(builder)
        with contextlib.suppress(NoChildError):
            builder.child.start()
        with self._guard:
            self._idle.append(builder)

    def _ask(self, request: bytes, seconds: float) -> Frame:
        """One of the children's answer, which ends by itself after `seconds` on the clock."""
        with self._free:
            with self._guard:
                builder = self._idle.pop() if self._idle else _Builder(self._module)
                self._builders.add(builder)
            try:
                try:
                    frame = builder.child.ask(request, seconds + _GRACE, alarm=seconds)
                except ChildLostError as lost:
                    if lost.late or not builder.built:
                        raise
                    # it went while it was idle, or an earlier module has damaged it
                    builder.built = 0
                    frame = builder.child.ask(request, seconds + _GRACE, alarm=seconds)
            except BaseException:
                builder.child.end()
                raise
            builder.built += 1
            if builder.built >= _BUILDS:
                builder.child.end()
                builder.built = 0
            with self._guard:
                self._idle.append(builder)
        return frame

    @property
    def pids(self) -> list[int]:
        """The children there are."""
        with self._guard:
            found = [builder.child.pid for builder in self._builders]
        return [pid for pid in found if pid is not None]

    def close(self) -> None:
        """End the children that are idle; the next build starts another."""
        with self._guard:
            idle, self._idle = self._idle, []
        for builder in idle:
            builder.child.end()

    def forget(self) -> None:
        """After a fork, in the new process: the children stay the parent's."""
        for builder in list(self._builders):
            builder.child.forget()
        self._renew()


_all: weakref.WeakSet[Jit] = weakref.WeakSet()


def _close_all(*_: Any) -> None:
    for jit in list(_all):
        jit.close()


def _forget_all() -> None:
    for jit in list(_all):
        jit.forget()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
