"""Kernels that stay loaded on a device: `XTARGET_MODULES` bounds their number and their bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .._devices import registry
from .._system.locks import Lock
from .._values import environment
from .._values.types import Artifact, CompileRequest
from ..targets._objects.device import on_full
from ..targets.base import Device, Function
from ..targets.optional import CountsMemory

__all__ = [
    "FunctionKey",
    "Shelf",
    "forget_oldest",
    "functions",
    "loaded_binaries",
    "on_forget",
    "unloaded",
    "what_holds",
]


class FunctionKey(tuple[str, CompileRequest]):
    """A device and a specialization. The hash of the second takes longer than all else that
    finding a function takes, so it is taken once."""

    _hash: int

    def __new__(cls, device: str, request: CompileRequest) -> FunctionKey:
        key = super().__new__(cls, (device, request))
        key._hash = tuple.__hash__(key)
        return key

    def __hash__(self) -> int:
        return self._hash


class Shelf:
    """The youngest artifacts of functions that were unloaded, to load them again."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: dict[Hashable, Artifact] = {}
        self._lock = Lock()

    def put(self, key: Hashable, made: Artifact) -> None:
        with self._lock:
            self._remove(key)
            self._kept[key] = made
            self._bytes += len(made.binary)
            while len(self._kept) > 1 and self._bytes > self._most:
                self._remove(next(iter(self._kept)))

    def take(self, key: Hashable) -> Artifact | None:
        with self._lock:
            return self._remove(key)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _remove(self, key: Hashable) -> Artifact | None:
        made = self._kept.pop(key, None)
        if made is not None:
            self._bytes -= len(made.binary)
        return made


#: Functions of devices, by request, those that were bound longest ago first; a fork's child keeps
#: them alive and unused.
functions: dict[FunctionKey, Function] = {}
#: Called with functions that were let go of.
on_forget: list[Callable[[list[Function]], None]] = []
#: Artifacts of functions that were unloaded, by their keys.
unloaded = Shelf(64 << 20)
#: One of so many is let go of at once, with all beyond the limit.
_SHARE = 8
_kept: list[dict[FunctionKey, Function]] = []


def _in_forked_child() -> None:
    _kept.append(dict(functions))
    functions.clear()


registry.after_fork.append(_in_forked_child)


def _drop_functions(device: str) -> None:
    for key in _here(device):
        functions.pop(key, None)


registry.on_lost.append(_drop_functions)


def _here(device: str) -> list[FunctionKey]:
    return [key for key in list(functions) if key[0] == device]


def _size(key: FunctionKey) -> int:
    loaded = functions.get(key)
    return 0 if loaded is None else len(loaded.artifact.binary)


def _is_loose(key: FunctionKey) -> bool:
    """Nothing holds it: no graph of another library may launch it."""
    return not getattr(functions.get(key), "stays", False)  # `Stays`, whose check takes longer


def loaded_binaries() -> dict[str, list[int]]:
    """By device, the sizes of the binaries that are loaded, bytes."""
    found: dict[str, list[int]] = {}
    for key in list(functions):
        found.setdefault(key[0], []).append(_size(key))
    return found


def what_holds(device: Device) -> str:
    """A sentence for who has no memory left."""
    name, sizes = device.info.name, loaded_binaries().get(device.info.name, [])
    arrays = device.memory_use().in_use if isinstance(device, CountsMemory) else 0
    return (
        f"Of {device.info.memory_bytes} bytes on {name}, arrays and graphs of xtarget have "
        f"{arrays}, {len(sizes)} loaded kernels {sum(sizes)}; "
        "the other libraries' figures say the rest."
    )


def forget_oldest(device: str) -> None:
    """Let go of the functions of a device that were bound longest ago, where there are more than
    may stay, and tell who may launch them. The run time unloads a module when nobody can launch it
    any more, no graph holds it, and its work is done. Those that another library's graph may hold
    stay, and so does their entry: loading them once more would not make the first go. They count,
    but leave at least half of the places to others.
    """
    most, most_bytes = environment.modules()
    if len(functions) <= most and most_bytes is None:
        return
    here = _here(device)
    if len(here) <= most and (most_bytes is None or sum(map(_size, here)) <= most_bytes):
        return
    loose = list(filter(_is_loose, here))
    room = _room(most, len(here) - len(loose))
    room_bytes = None
    if most_bytes is not None:
        room_bytes = _room(most_bytes, sum(map(_size, {*here} - {*loose})))
    kept = used = 0
    for key in reversed(loose):
        used += _size(key)
        if kept == room or (kept and room_bytes is not None and used > room_bytes):
            break
        kept += 1
    _forget(loose[: len(loose) - kept])


def _room(most: int, staying: int) -> int:
    """The share of the others. Several go at a time, because finding their users takes long."""
    return max(most - most // _SHARE - staying, most - most // 2)


def _forget(keys: list[FunctionKey]) -> None:
    gone = []
    for key in keys:
        function = functions.pop(key, None)
        if function is not None:
            gone.append(function)
            unloaded.put(key, function.artifact)
    for told in on_forget:
        told(gone)


def _forget_all(device: str) -> None:
    """The device has no memory left: each call that comes loads its kernels again."""
    _forget(list(filter(_is_loose, _here(device))))


on_full.append(_forget_all)
