"""The answers of a compile server: the entry of its cache for a unit of `_compile.units`.

One compilation a key is in work at a time, whoever asks for it, and its entry is signed and kept
as if this machine had wanted it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from .. import _cache
from .._artifacts.entry import Place, is_c_name, pack
from .._children import frames
from .._compile import functions
from .._compile.apart import apart
from .._compile.keys import key_parts, why_not_kept
from .._compile.limited import ask_child
from .._compile.routes import TRITON
from .._compile.units import laid_question, other_tools
from .._compile.workers import request_of
from .._devices import registry
from .._executors.asking import answer
from .._executors.carried import digest_of
from .._values.errors import CompileError, XTargetError
from .._values.types import KernelSource, Target
from . import bundles

__all__ = ["Limits", "Work"]

#: Descriptions of sources that are remembered.
_MOST_DESCRIBED = 4096
_MINUTE = 60.0


class Limits:
    """How much is done at the same time, and for whom.

    Args:
        jobs: compilations at the same time.
        waiting: requests that wait for their turn; a further one is told to come again.
        per_minute: compilations of one client in a minute; None for any number. What is there
            already costs nothing.
    """

    def __init__(self, jobs: int, waiting: int, per_minute: int | None) -> None:
        self._slots = threading.Semaphore(jobs)
        self._lock = threading.Lock()
        self._most = jobs + waiting
        self._inside = 0
        self._per_minute = per_minute
        self._left: dict[str, tuple[float, float]] = {}

    @contextlib.contextmanager
    def turn(self, client: str) -> Iterator[str]:
        """Wait for a turn; gives why there is none, or an empty text."""
        why = self._enter(client)
        if why:
            yield why
            return
        try:
            with self._slots:
                yield ""
        finally:
            with self._lock:
                self._inside -= 1

    def _enter(self, client: str) -> str:
        with self._lock:
            if self._inside >= self._most:
                return f"{self._inside} compilations are in work or wait already. Ask again later"
            if self._per_minute is not None:
                now = time.monotonic()
                left, since = self._left.get(client, (float(self._per_minute), now))
                left += (now - since) * self._per_minute / _MINUTE
                left = min(left, float(self._per_minute))
                self._left[client] = left, now
                if left < 1:
                    wait = (1 - left) * _MINUTE / self._per_minute
                    return (
                        f"the client {client} has had its {self._per_minute} compilations of a "
                        f"minute (--per-minute). Ask again in {wait:.0f} s"
                    )
                self._left[client] = left - 1, now
            self._inside += 1
        return ""


class Work:
    """Answers units.

    Attributes:
        counts: `units`, and what became of them: `there`, `compiled`, `errors`, `refused`, `later`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._described: OrderedDict[tuple[str, str], Future[dict[str, Any]]] = OrderedDict()
        self._bundles: dict[bytes, Future[bytes]] = {}
        self.counts = Counter[str]()

    def answer(self, client: str, unit: bytes) -> bytes:
        """The frame for a client.

        Raises:
            ValueError, KeyError, TypeError: it is no unit.
        """
        frame = answer(unit, lambda header, parts: self._answer(client, header, parts))
        header, _ = frames.unpack(bytearray(frame)) or ({}, [])
        become = {"error": "errors", "refused": "refused", "away": "refused", "later": "later"}
        for word, counted in become.items():
            if word in header:
                self._count(counted)
        self._count("units")
        return frame

    def bundle(self, client: str, request: bytes) -> bytes:
        """The bundle for a request of `bundles`; those who ask the same get the same one.

        Raises:
            XTargetError: there is none, in a sentence.
            ValueError, KeyError, TypeError: it is no request.
        """
        with self._lock:
            mine = request not in self._bundles
            made = self._bundles.setdefault(request, Future())
        if mine:
            try:
                with self._limits.turn(client) as busy:
                    if busy:
                        raise XTargetError(f"{busy}.")
                    content, report = bundles.bundle_for(request)
                self._count("compiled", report.compiled)
                self._count("there", report.from_cache)
                made.set_result(content)
            except BaseException as error:
                self._count("errors")
                made.set_exception(error)
            finally:
                with self._lock:
                    del self._bundles[request]
        self._count("units")
        return made.result()

    def _count(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.counts[what] += number

    def _answer(self, client: str, header: dict[str, Any], parts: list[bytes]) -> frames.Frame:
        target = Target.parse(header["question"]["target"])
        toolchain = registry.compiler(target.vendor).fingerprint
        if not toolchain:
            return {"away": f"it has no compiler for {target}"}, []
        if header["toolchain"] not in ("", toolchain):
            return other_tools("it", target, "or none of Triton's here"), []
        asked_for = laid_question(header, parts)
        if isinstance(asked_for, str):
            return {"away": asked_for}, []
        if "origin" not in asked_for:
            why = "it is a function of a program. Put it into a folder with a catalog.py"
            return {"away": f"{header['what']}: {why}"}, []
        seconds = float(header["seconds"])
        contents = digest_of(dict(zip(header["files"], parts, strict=True)))
        source = self._source(asked_for, contents, header["what"], seconds)
        if source.digest != asked_for["digest"]:
            return {"away": f"{header['what']} reads other values there than here"}, []
        return self._entry(client, source, asked_for["request"], target, toolchain)

    def _entry(
        self,
        client: str,
        source: KernelSource,
        fields: dict[str, Any],
        target: Target,
        toolchain: str,
    ) -> frames.Frame:
        request = request_of(source, fields)
        why = why_not_kept(request, toolchain)
        if why:
            return {"away": f"{source.name} is not kept for other processes: {why}"}, []
        key_is = key_parts(request, target, toolchain)
        key, cache = _cache.key_of(key_is), _cache.default_cache()
        found = cache.look(Place(target, source.name, key))
        if isinstance(found, tuple):
            self._count("there")
            return {"toolchain": toolchain}, [pack(found[1])]
        with self._limits.turn(client) as busy:
            if busy:
                return {"later": busy}, []
            with apart(here=True):
                made = functions.artifact(request, target)
        if made.route != TRITON:
            return {"away": f"it has made {source.name} by the route {made.route}"}, []
        self._count("compiled")
        return {"toolchain": toolchain}, [pack(cache.sealed(source.name, key, key_is, made))]

    def _source(
        self, asked_for: dict[str, Any], contents: str, what: str, seconds: float
    ) -> KernelSource:
        """The source as a child sees it, for nobody else's word goes into a key.

        Raises:
            CompileError: it cannot be imported.
        """
        about, mine = (contents, str(asked_for["source"])), False
        with self._lock:
            if about not in self._described:
                self._described[about], mine = Future(), True
                while len(self._described) > _MOST_DESCRIBED:
                    self._described.popitem(last=False)
            told = self._described[about]
        if mine:
            try:
                question = {name: asked_for[name] for name in ("origin", "source")}
                told.set_result(ask_child(f"kernel {what}", frames.pack(question), seconds)[0])
            except BaseException as error:  # those who wait have it too, and the next one asks anew
                with self._lock:
                    self._described.pop(about, None)
                told.set_exception(error)
        known = told.result()
        if not is_c_name(known["name"]):
            raise CompileError(f"{what}: the kernel has no name.")
        return KernelSource(
            name=known["name"],
            digest=known["digest"],
            path=str(asked_for["source"]),
            load=_not_here,
            parts=tuple((label, text) for label, text in known["labelled"]),
            unidentified=known["unidentified"],
            places=known["places"],
            library=(asked_for["origin"], asked_for["source"]),
        )


def _not_here() -> Any:
    raise CompileError("A compile server does not import kernels; its children do.")
