"""The code of a kernel library: what `file:function` stands for, read or imported."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .._system import files
from .._values.errors import CompileError, NoCompilerError
from .._values.types import KernelSource, WrittenSource
from .applied import COMPOSED, applied, parts_of
from .kernel_files import KernelFile
from .sources import read_kernel_file

__all__ = ["NOT_IMPORTED", "LibraryCode", "without_imports"]

#: Why nothing is known of a source that `without_imports` has given.
NOT_IMPORTED = "what it reads is known after its import only"
#: Bytes of a source in another language that are read.
_MOST_BYTES = 16 << 20
_may = threading.local()


@contextmanager
def without_imports() -> Iterator[None]:
    """Within it, sources of this thread come without an import of what is not static: a file may
    hang or crash, and other processes are asked for it.
    """
    _may.import_files = False
    try:
        yield
    finally:
        _may.import_files = True


class LibraryCode:
    """The Triton files of a library's folder, which are imported when something has to be compiled,
    as modules of the library's package.
    """

    def __init__(self, folder: Path, package: str, on_import: Callable[[Path], object]) -> None:
        """Take a folder.

        Args:
            package: the name under which the folder is imported.
            on_import: called with the folder, when a file of it was imported.
        """
        self.folder = folder
        self.package = package
        self._on_import = on_import
        self._sources: dict[str, KernelSource] = {}
        self._files: dict[str, KernelFile] = {}
        self._imported: set[str] = set()

    def source(self, text: str) -> KernelSource:
        """The code of `file:function`, or of `file:kernel(file:function)` (`applied`).

        Where the file's text says all that the function reads, nothing is imported. Otherwise, and
        once the file is imported, what is loaded decides.

        Raises:
            XTargetError: the library has no such file.
            CompileError: it cannot be imported, or has no such function.
        """
        known = self._sources.get(text)
        if known is not None and known.holds is not None and known.holds():
            return known
        parts = parts_of(text)
        if parts is not None or COMPOSED in text:
            place = str(self.folder), text
            if parts is None:
                from .composed import composed  # fused sections are

                source = composed(text, self.source, place)
            else:
                source = applied(self.source(parts[0]), self.source(parts[1]), parts[2], place)
            self._sources[text] = source
            return source
        file, _, function = text.partition(":")
        read = self._files.get(file)
        if read is None:
            read = self._files[file] = read_kernel_file(self.folder, file)
        written = self._written(file, function)
        loaded = not self._is_not_loaded(read)
        if read.dynamic and not loaded and not getattr(_may, "import_files", True):
            return KernelSource(
                name=function,
                digest=read.digest,
                path=str(self.folder / f"{file}.py"),
                load=partial(self._load, file, function),
                unidentified=NOT_IMPORTED,
                again=partial(self._as_loaded, text, read, file, function),
                library=(str(self.folder), text),
                written=written,
            )
        if read.dynamic or loaded:
            source = self._as_loaded(text, read, file, function)
        else:
            source = KernelSource(
                name=function,
                digest=read.digest,
                path=str(self.folder / f"{file}.py"),
                load=partial(self._load, file, function),
                again=partial(self._as_loaded, text, read, file, function),
                library=(str(self.folder), text),
                written=written,
                holds=partial(self._is_not_loaded, read),
                places=read.places,
                text=read.text(function),
            )
        self._sources[text] = source
        return source

    def _written(self, file: str, function: str) -> tuple[WrittenSource, ...]:
        """Sources of a function beside its Triton file: `FILE.FUNCTION.cl`, `.cu`, `.hip`."""
        found = []
        for suffix in ("cl", "cu", "hip"):
            path = self.folder.joinpath(*f"{file}.{function}".split(".")[:-1])
            path = path.with_name(f"{path.name}.{function}.{suffix}")
            if path.is_file():
                content = files.read_regular(path, _MOST_BYTES)
                found.append(WrittenSource(suffix, content, path.name))
        return tuple(found)

    def closure(self, text: str) -> tuple[dict[str, bytes], bool]:
        """The files that a source is made from, by their paths in the folder; and whether they are
        all that it is made from, wherever they lie.

        Raises:
            XTargetError, CompileError: as `source`.
        """
        found: dict[str, bytes] = {}
        whole = True
        for name in _functions_of(text):
            read = read_kernel_file(self.folder, name.partition(":")[0])
            # `places`: assertions contain the path of their file
            whole = whole and not read.dynamic and not read.places
            for path, content in read.texts.values():
                found[str(path.relative_to(self.folder))] = content
            place = Path(*name.partition(":")[0].split(".")).parent
            for written in self._written(*name.split(":")):
                found[str(place / written.name)] = written.text
        return found, whole

    def _is_not_loaded(self, read: KernelFile) -> bool:
        """Check that no module of the file is loaded. Then the text alone defines the kernel."""
        return not any(f"{self.package}.{name}" in sys.modules for name in read.texts)

    def _as_loaded(self, text: str, read: KernelFile, file: str, function: str) -> KernelSource:
        """The code as it is imported, with the values that it reads now."""
        from ..targets._triton.identity import manifest_of  # of no use where nothing is imported

        load = partial(self._load, file, function)
        try:
            fn = load()
            manifest = manifest_of(fn)
        except NoCompilerError as error:
            if not read.dynamic:
                raise
            raise NoCompilerError(
                f"{error} It is needed to look {function} up, too: {read.dynamic}, so only an "
                "import tells what it is. Write such values out as literals, then a binary is "
                "found without Triton."
            ) from error
        as_written = not read.dynamic and read.written(function).digest == manifest.digest
        return KernelSource(
            name=function,
            digest=read.digest if as_written else manifest.digest,
            path=str(self.folder / f"{file}.py"),
            load=load,
            parts=() if as_written else manifest.shown(),
            unidentified=manifest.unidentified,
            again=partial(self._as_loaded, text, read, file, function),
            library=(str(self.folder), text),
            written=self._written(file, function),
            holds=partial(self._holds, file, function, fn, manifest.holds()),
            # as `source` says it of a file that is not imported: the keys are the same then
            places=read.places if as_written else "\n".join(manifest.places),
            text=read.text(function) if as_written else None,
        )

    def _holds(self, file: str, function: str, fn: Any, unchanged: Callable[[], bool]) -> bool:
        """Check that the module still has this function, and that it reads the same values.

        The module may have been loaded again since."""
        module = sys.modules.get(f"{self.package}.{file}")
        return getattr(module, function, None) is fn and unchanged()

    def _load(self, file: str, function: str) -> Any:
        from ..targets._triton.importing import import_triton

        path = self.folder / f"{file}.py"
        import_triton()  # whole, also where an interruption has left half of it
        try:
            module = importlib.import_module(f"{self.package}.{file}")
        except (Exception, SystemExit) as error:
            raise CompileError(
                f"the Triton file {path} cannot be imported: {type(error).__name__}: {error}. "
                "Correct it, or install what it imports."
            ) from error
        fn = getattr(module, function, None)
        if not hasattr(fn, "arg_names"):
            raise CompileError(
                f"the Triton file {path} has no @triton.jit function {function!r}. Correct "
                "`source` in the library's catalog, which is file:function, or the file."
            )
        if file not in self._imported:
            self._imported.add(file)
            self._on_import(self.folder)
        return fn


def _functions_of(text: str) -> list[str]:
    """Every `file:function` that a source text names."""
    parts = parts_of(text)
    if parts is not None:
        return [name for part in parts[:2] for name in _functions_of(part)]
    if COMPOSED not in text:
        return [text]
    from .programs import functions_of

    return functions_of(text)
