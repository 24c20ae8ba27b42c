"""Run times' own compilers, kept out of the user's process: they crash or hang on some modules.

A pool of child processes builds. Each of them is a module of a vendor (`cpu.jit`, `intel.jit`) that
calls `jit_process.serve`.

What starts and asks a child is imported for the first build: a process whose machine code is in the
cache has none.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import weakref
from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any

from ..._system.life import in_forked_child
from ..._system.locks import Lock
from ..._values.environment import build_memory, jit_seconds
from ..._values.errors import LoadError

if TYPE_CHECKING:
    from ..._children.frames import Frame

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
        from ..._children.child import Child

        self.child = Child(module)
        self.built = 0

    def ask(self, request: bytes, seconds: float) -> Frame:
        """The answer of the child, which ends by itself after `seconds` on the clock."""
        from ..._children.limits import deadline

        self.child.start()
        return self.child.ask(request, deadline(seconds + _GRACE), alarm=seconds)


class Jit:
    """Builds modules in children that run `python -m module`, started when first needed.

    May be used by several threads at once.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        self._guard = Lock()
        # C code, without a lock that a signal handler's build could wait for
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(_CHILDREN):
            self._free.put(None)
        self._here = threading.local()
        self._idle: list[_Builder] = []
        self._builders: weakref.WeakSet[_Builder] = weakref.WeakSet()

    def build(self, what: str, device: str, spirv: bytes, entry: str, options: str = "") -> bytes:
        """Have the child build a module with its vendor's compiler; return what it built.

        Args:
            what: the start of an error message: that the module cannot be loaded, and where.
            device: the device, as the child's vendor names it.
            options: options of the run time's compiler.

        Raises:
            FrozenError: `XTARGET_COMPILE` forbids it.
            LoadError: the run time refuses the module, or its compiler dies or takes too long.
        """
        from ..._children.child import ChildLostError, NoChildError
        from ..._children.frames import pack
        from ..._children.limits import CLOCK_TIMES, memory_text
        from .._triton.frozen import check_machine_code

        check_machine_code(entry, device)
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
        from ..._children.child import NoChildError

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
        from ..._children.child import ChildLostError

        with self._turn():
            with self._guard:
                builder = self._idle.pop() if self._idle else _Builder(self._module)
                self._builders.add(builder)
            try:
                try:
                    frame = builder.ask(request, seconds)
                except ChildLostError as lost:
                    if lost.late or not builder.built:
                        raise
                    # it went while it was idle, or an earlier module has damaged it
                    builder.built = 0
                    frame = builder.ask(request, seconds)
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

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One of `_CHILDREN` at a time; none is waited for by a signal handler or a finalizer that
        interrupts a build of this thread, which goes on only after it."""
        free, here = self._free, self._here
        if getattr(here, "building", False):
            yield
            return
        turns: list[None] = []
        here.building = True
        try:
            # one step of C: no exception of a handler comes between taking it and knowing of it
            turns.extend(starmap(free.get, [()]))
            yield
        finally:
            here.building = False
            for turn in turns:
                free.put(turn)

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


_all: weakref.WeakSet[Jit] = weakref.WeakSet()


def _renew_all() -> None:
    """After a fork, in the new process: the turns are those of the parent's threads."""
    for jit in list(_all):
        jit._renew()


in_forked_child(_renew_all)
