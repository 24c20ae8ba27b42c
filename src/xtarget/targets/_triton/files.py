"""Keep the files of `triton.compile` in memory, so that a killed process leaves no file.

Triton's own cache makes, renames within and removes a folder for each of the eight stages, and
reads them all again; nobody else looks at those of our compilations.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..._system.scratch import Folder, make_room

__all__ = ["Stages", "in_memory", "is_inside", "is_ours", "manager"]

_thread = threading.local()
#: Told the name of each stage that is complete.
on_stage: Callable[[str], None] | None = None


class _Stored(str):
    """The name of a stage where Triton expects a path, with the stage."""

    __slots__ = ("data",)

    data: str | bytes


class Stages:
    """The result of `triton.compile` in place of its kernel: the stages, without a launcher.

    Attributes:
        asm: text or bytes by the stage's name.
        metadata: a namedtuple, as Triton's kernel has it.
    """

    def __init__(self, source: Any, group: Mapping[str, str], key: str) -> None:
        from collections import namedtuple

        from triton.backends.compiler import GPUTarget

        stored = {name: data for name, data in group.items() if isinstance(data, _Stored)}
        text = next(path.data for name, path in stored.items() if name.endswith(".json"))
        metadata = json.loads(text)
        metadata["target"] = GPUTarget(**metadata["target"])
        # a tuple of names that only this kernel's back end knows
        self.metadata = namedtuple("KernelMetadata", sorted(metadata))(**metadata)
        self.asm = {
            name.rpartition(".")[2]: path.data
            for name, path in stored.items()
            if not name.endswith(".json")
        }


@cache
def manager() -> Any:
    """Triton's cache manager in memory, for compilations within `in_memory`; those of others, and
    the folders of dumps and overrides, stay Triton's.
    """
    from triton.runtime.cache import CacheManager, FileCacheManager

    class InMemory(CacheManager):  # type: ignore[misc]  # Triton has no types
        def __new__(cls, key: str, override: bool = False, dump: bool = False) -> Any:
            if override or dump or not is_inside():
                return FileCacheManager(key, override=override, dump=dump)
            return super().__new__(cls)

        def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
            self.key = key
            self._folder: Folder | None = None
            self._stored: dict[str, _Stored] = {}

        def has_file(self, filename: str) -> bool:
            return filename in self._stored

        def get_file(self, filename: str) -> str | None:
            """For USE_IR_LOC alone, which has a stage's text parsed from a file again."""
            stored = self._stored.get(filename)
            if stored is None:
                return None
            self._folder = self._folder or Folder("stages")
            path = self._folder.path / filename
            data = stored.data
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
            return str(path)

        def put(self, data: Any, filename: str, binary: bool = True) -> str:
            _thread.look(filename.rpartition(".")[2], data)
            stored = self._stored[filename] = _Stored(filename)
            stored.data = data if isinstance(data, bytes) else str(data)
            if on_stage is not None:
                on_stage(filename.rpartition(".")[2])
            return stored

        def get_group(self, filename: str) -> None:
            return None

        def put_group(self, filename: str, group: Any) -> str:
            return filename

    return InMemory


def is_inside() -> bool:
    return bool(getattr(_thread, "inside", False))


def is_ours(semantic: Any) -> bool:
    """Return True if Triton's front end works for a compilation of ours, or for one of Triton's own
    launching that is for our back end.
    """
    options = getattr(semantic.builder, "options", None)
    return is_inside() or getattr(options, "backend_name", None) == "spirv"


@contextmanager
def in_memory(knobs: Any, look: Callable[[str, Any], None]) -> Iterator[None]:
    """Within it, `triton.compile` in this thread writes no file and gives `Stages`. It takes no key
    of its compilation either: nothing is looked up by it, and for the first one of a process Triton
    reads and hashes all of itself, libtriton too, in 0.3 s.

    Args:
        knobs: Triton's, in a scope that its caller leaves.
        look: gets each stage's name and what came out of it: Triton's module, text or bytes.
    """
    make_room()  # Triton runs ptxas on temporary files
    _divert()
    knobs.cache.manager_class = manager()
    _thread.inside, _thread.look = True, look
    try:
        yield
    finally:
        _thread.inside = False


@cache
def _divert() -> None:
    from triton.compiler import compiler

    of_triton, kernel = compiler.get_cache_key, compiler.CompiledKernel

    def get_cache_key(*args: Any, **options: Any) -> str:
        return "xtarget" if is_inside() else str(of_triton(*args, **options))

    def new(cls: Any, *args: Any, **options: Any) -> Any:
        return Stages(*args, **options) if is_inside() else object.__new__(cls)

    compiler.get_cache_key = get_cache_key
    kernel.__new__ = staticmethod(new)
