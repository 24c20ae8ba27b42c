"""Kernel libraries: folders with a `catalog.py`, found, loaded and looked up by kernel name."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from . import _env
from ._errors import CompileError, UnknownKernelError, XTargetError
from ._types import KernelSource
from .spec import KernelSpec

__all__ = ["RegisteredKernel", "catalog", "find", "library_source", "load_library", "register"]

ENTRY_POINT_GROUP = "xtarget.kernels"


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredKernel:
    """A spec and the way from a `Launch.source` text to the code behind it."""

    spec: KernelSpec
    source: Callable[[str], KernelSource]
    origin: str


_lock = threading.RLock()
_kernels: dict[str, RegisteredKernel] = {}
_libraries: dict[Path, Library] = {}
_ready = False
#: Called after a kernel was added or replaced.
on_change: list[Callable[[], None]] = []


# ---------------------------------------------------------------------------------------- libraries


class Library:
    """A folder of Triton files with a `catalog.py` that exports `KERNELS`.

    The folder is imported as a package of a name of its own, so its files use relative imports and
    two libraries never collide (an `__init__.py` is not run). Only `catalog.py` and what it imports
    is imported at first; the Triton files are, when something has to be compiled.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = "xtarget_kernels_" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        self._sources: dict[str, KernelSource] = {}
        package = ModuleType(self.package)
        package.__path__ = [str(folder)]
        sys.modules[self.package] = package

    def specs(self) -> tuple[KernelSpec, ...]:
        """The catalog.

        Raises:
            XTargetError: it cannot be imported, or exports something else.
        """
        try:
            catalog = importlib.import_module(f"{self.package}.catalog")
            specs = tuple(catalog.KERNELS)
        except (Exception, SystemExit) as error:  # a script that was never meant for import
            raise XTargetError(
                f"the catalog of {self.folder} cannot be used: {type(error).__name__}: {error}. "
                "It is a Python file that exports KERNELS, a sequence of "
                "xtarget.spec.KernelSpec objects; correct it."
            ) from error
        wrong = [spec for spec in specs if not isinstance(spec, KernelSpec)]
        if wrong:
            raise XTargetError(
                f"the catalog of {self.folder} cannot be used: its KERNELS contains {wrong[0]!r}, "
                "which is no xtarget.spec.KernelSpec. Correct it."
            )
        return specs

    def source(self, text: str) -> KernelSource:
        """The code of `file:function`."""
        source = self._sources.get(text)
        if source is None:
            file, _, function = text.partition(":")
            path = self.folder / f"{file}.py"
            source = KernelSource(
                name=function,
                digest=_digest(self.folder, file),
                path=str(path),
                load=lambda: self._load(file, function),
            )
            self._sources[text] = source
        return source

    def _load(self, file: str, function: str) -> Any:
        path = self.folder / f"{file}.py"
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
        return fn


def _digest(folder: Path, file: str) -> str:
    """sha256 over a Triton file and every file that it imports, directly or not, apart from Triton
    and the standard library: all text that can change what is compiled."""
    seen: dict[str, Path] = {}
    todo = [(file, folder / f"{file}.py")]
    digest = hashlib.sha256()
    while todo:
        name, path = todo.pop()
        if name in seen:
            continue
        seen[name] = path
        try:
            text = path.read_bytes()
        except OSError as error:
            raise XTargetError(
                f"the kernel library has no file {path.name} in {folder} ({error.strerror}). "
                "Correct `source` in its catalog."
            ) from error
        todo += _imports(text, path, folder)
    for name in sorted(seen):
        content = seen[name].read_bytes()
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def _imports(text: bytes, path: Path, folder: Path) -> list[tuple[str, Path]]:
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:  # it has a line, but not where the encoding is wrong
        place = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise CompileError(f"{place}: {error.msg}. Correct the Triton file.") from error
    except ValueError as error:
        raise CompileError(f"{path}: {error}. Correct the Triton file.") from error
    found: list[tuple[str, Path]] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(n, folder / f"{n}.py") for n in names if (folder / f"{n}.py").exists()]
            continue
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            root = name.partition(".")[0]
            if root in ("triton", "xtarget", "__future__") or root in sys.stdlib_module_names:
                continue
            try:
                spec = importlib.util.find_spec(name)
            except ImportError:
                spec = None
            if spec is not None and spec.origin and spec.origin.endswith(".py"):
                found.append((name, Path(spec.origin)))
    return found


def _own_folder() -> Path:
    """Our own kernel library: beside `src` in a checkout and an editable install, inside the
    package in a wheel."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_kernel_library", here.parent.parent / "kernels"):
        if (folder / "catalog.py").is_file():
            return folder
    raise XTargetError(
        f"the kernel library is missing: neither {here / '_kernel_library'} nor "
        f"{here.parent.parent / 'kernels'} has a catalog.py. Install xtarget again."
    )


def load_library(path: str | Path) -> tuple[str, ...]:
    """Add the kernels of a folder with a `catalog.py` that exports `KERNELS`.

    A kernel of a name that is taken replaces the earlier one, so a user's kernel wins over ours.

    Returns:
        the names of its kernels.

    Raises:
        XTargetError: the folder has no catalog, or the catalog cannot be imported.
    """
    try:
        folder = Path(path).resolve()
    except (TypeError, ValueError) as error:
        raise XTargetError(
            f"a kernel library is given by the path of its folder, not by {path!r} ({error})."
        ) from error
    if not (folder / "catalog.py").is_file():
        raise XTargetError(
            f"{folder} is not a kernel library: it has no catalog.py. A library is a folder with "
            "Triton files and a catalog.py that exports KERNELS, xtarget.spec.KernelSpec objects."
        )
    with _lock:
        library = _libraries.get(folder) or Library(folder)
        specs = library.specs()
        _libraries[folder] = library
        for spec in specs:
            register(spec, library.source, str(folder))
        return tuple(spec.name for spec in specs)


def library_source(folder: str, text: str) -> KernelSource:
    """The code of `file:function` in a library's folder, whoever replaced its kernels.

    Raises:
        XTargetError: the folder is no library that was loaded.
    """
    library = _libraries.get(Path(folder))
    if library is None:
        raise XTargetError(
            f"{text} does not come from a kernel library ({folder}), so other processes cannot "
            "load it. Put the kernel into a folder with a catalog.py and name it in "
            "XTARGET_KERNELS."
        )
    return library.source(text)


def _load_own() -> None:
    """Our library, then those of `XTARGET_KERNELS`."""
    global _ready
    if _ready:
        return
    with _lock:
        if _ready:
            return
        early = dict(_kernels)
        load_library(_own_folder())
        for folder in _env.kernel_folders():
            load_library(folder)
        _kernels.update(early)  # what the user registered before the first look-up stays on top
        _ready = True


@cache
def _load_packages() -> None:
    """Libraries of installed packages. They add kernels and replace none: looking for them reads
    every installed package's metadata (tens of milliseconds), so it is done only for a name that
    is not known otherwise."""
    import importlib.metadata

    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        with _lock:
            known = dict(_kernels)
            try:
                folder = Path(point.load().__file__).parent
            except (Exception, SystemExit) as error:
                raise XTargetError(
                    f"the kernel library {point.name!r} of an installed package ({point.value}) "
                    f"cannot be used: {type(error).__name__}: {error}. Correct or remove the "
                    "package."
                ) from error
            load_library(folder)
            _kernels.update(known)


# ------------------------------------------------------------------------------------------ look-up


def register(spec: KernelSpec, source: Callable[[str], KernelSource], origin: str) -> None:
    """Add one kernel."""
    with _lock:
        _kernels[spec.name] = RegisteredKernel(spec, source, origin)
        for changed in on_change:
            changed()


def catalog() -> Mapping[str, KernelSpec]:
    """Every kernel that `run` knows, by name."""
    _load_own()
    _load_packages()
    return MappingProxyType({name: _kernels[name].spec for name in sorted(_kernels)})


def find(name: str) -> RegisteredKernel:
    """The kernel of that name.

    Raises:
        UnknownKernelError: there is none; the message suggests near ones.
    """
    if not isinstance(name, str):
        raise UnknownKernelError(
            f"a kernel is given by its name, not by {name!r}. Register a function with "
            "@xtarget.kernel and pass its name."
        )
    kernel = _kernels.get(name)
    if kernel is None or not _ready:
        _load_own()
        if name not in _kernels:
            _load_packages()
        kernel = _kernels.get(name)
    if kernel is None:
        import difflib

        near = difflib.get_close_matches(str(name), _kernels, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UnknownKernelError(
            f"there is no kernel {name!r}. {hint}`xtarget kernels` lists them all."
        )
    return kernel
