"""Kernel libraries: folders with a `catalog.py`, found, loaded and looked up by kernel name."""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from .._system.importing import INTERRUPTED
from .._system.locks import Lock
from .._system.package import FOLDER
from .._values import environment
from .._values.errors import (
    CompileError,
    DriverError,
    NoCompilerError,
    UnknownKernelError,
    XTargetError,
    shortened,
)
from .._values.types import KernelSource
from ..spec import KernelSpec
from ..targets._triton.identity import manifest_of
from ..targets._triton.importing import import_triton
from . import configs
from .applied import applied, parts_of
from .checks import check_spec
from .composed import composed, is_composed
from .names import Names, prefix_free
from .sources import KernelFile, read_kernel_file

__all__ = [
    "NOT_IMPORTED",
    "RegisteredKernel",
    "by_name",
    "catalog",
    "find",
    "is_refused",
    "library_source",
    "load_library",
    "names_of",
    "register",
    "sources_named",
    "without_imports",
]

ENTRY_POINT_GROUP = "xtarget.kernels"


@dataclass(frozen=True, slots=True, eq=False)
class RegisteredKernel:
    """A spec and the way from a `Launch.source` text to the code behind it.

    Attributes:
        fixed: it is of our own library, whose modules nobody changes: launches do not look.
        function: the Triton function of `@xtarget.kernel`.
    """

    spec: KernelSpec
    source: Callable[[str], KernelSource]
    origin: str
    fixed: bool = False
    function: Any = None


_lock = Lock()
_kernels: dict[str, RegisteredKernel] = {}
_names = Names()
#: The kernels whose arguments may be given by keyword: the place of each.
by_name: dict[str, dict[str, int]] = {}
_libraries: dict[Path, Library] = {}
_ready = False
#: Called with a kernel's name after it was replaced, one of its names came to mean another one, or
#: its file was imported.
on_change: list[Callable[[str], None]] = []


#: Why nothing is known of a source that `without_imports` has given.
NOT_IMPORTED = "what it reads is known after its import only"
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
        self._files: dict[str, KernelFile] = {}
        self._imported: set[str] = set()
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
            found = getattr(sys.modules.get(f"{self.package}.catalog"), "__spec__", None)
            if getattr(found, "_initializing", False):  # by this thread; others would have waited
                raise DriverError(
                    f"the catalog of {self.folder} is being imported: {INTERRUPTED}"
                ) from error
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

    def refused(self) -> Mapping[str, str]:
        """Names that the catalog knows and has no kernel for, each with the reason."""
        catalog = sys.modules[f"{self.package}.catalog"]
        return dict(getattr(catalog, "REFUSED", {}))

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
        if parts is not None or is_composed(text):
            place = str(self.folder), text
            if parts is None:
                source = composed(text, self.source, place)
            else:
                source = applied(self.source(parts[0]), self.source(parts[1]), place)
            self._sources[text] = source
            return source
        file, _, function = text.partition(":")
        read = self._files.get(file)
        if read is None:
            read = self._files[file] = read_kernel_file(self.folder, file)
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
                holds=partial(self._is_not_loaded, read),
                places=read.places,
            )
        self._sources[text] = source
        return source

    def _is_not_loaded(self, read: KernelFile) -> bool:
        """Check that no module of the file is loaded. Then the text alone defines the kernel."""
        return not any(f"{self.package}.{name}" in sys.modules for name in read.texts)

    def _as_loaded(self, text: str, read: KernelFile, file: str, function: str) -> KernelSource:
        """The code as it is imported, with the values that it reads now."""
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
            holds=partial(self._holds, file, function, fn, manifest.holds()),
            # as `source` says it of a file that is not imported: the keys are the same then
            places=read.places if as_written else "\n".join(manifest.places),
        )

    def _holds(self, file: str, function: str, fn: Any, unchanged: Callable[[], bool]) -> bool:
        """Check that the module still has this function, and that it reads the same values.

        The module may have been loaded again since."""
        module = sys.modules.get(f"{self.package}.{file}")
        return getattr(module, function, None) is fn and unchanged()

    def _tell(self) -> None:
        """A file was imported, perhaps with others of the folder: calls that were bound before do
        not look whether its values change."""
        for name, kernel in list(_kernels.items()):
            if kernel.origin == str(self.folder) and not kernel.fixed:
                for changed in on_change:
                    changed(name)

    def _load(self, file: str, function: str) -> Any:
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
            self._tell()
        return fn


@cache
def _own_folder() -> Path:
    """Our own kernel library: beside `src` in a checkout and an editable install, inside the
    package in a wheel."""
    here = Path(FOLDER)
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
    return _load_folder(path)


def _load_folder(path: str | Path, keep: Container[str] = ()) -> tuple[str, ...]:
    """`load_library`.

    Args:
        keep: names whose kernels it does not replace.
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
            check_spec(spec)
        _names.refuse(library.refused())
        for spec in specs:
            if spec.name not in keep:
                register(spec, library.source, str(folder))
        return tuple(spec.name for spec in specs)


def library_source(folder: str, text: str) -> KernelSource:
    """The code of `file:function` in a library's folder, whoever replaced its kernels.

    Raises:
        XTargetError: the folder is not a loaded library.
    """
    library = _libraries.get(Path(folder))
    if library is None:
        raise XTargetError(
            f"{text} does not come from a kernel library ({folder}), so other processes cannot "
            "load it. Put the kernel into a folder with a catalog.py and name it in "
            "XTARGET_KERNELS."
        )
    return library.source(text)


def sources_named(function: str) -> list[KernelSource]:
    """The code of every function of that name in the libraries that are known."""
    catalog()
    wanted = f"def {function}("
    found = []
    for folder, library in list(_libraries.items()):
        for path in sorted(folder.glob("*.py")):
            if path.is_file() and wanted in path.read_text(encoding="utf-8", errors="replace"):
                found.append(library.source(f"{path.stem}:{function}"))
    return found


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
        for folder in environment.kernel_folders():
            load_library(folder)
        _kernels.update(early)  # what the user registered before the first look-up stays on top
        for kernel in early.values():
            _name_arguments(kernel.spec)
        _ready = True


@cache
def _load_packages() -> None:
    """Libraries of installed packages. They add kernels and replace none: looking for them reads
    every installed package's metadata (tens of milliseconds), so it is done only for a name that
    is not known otherwise."""
    import importlib.metadata

    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        with _lock:
            try:
                folder = Path(point.load().__file__).parent
            except (Exception, SystemExit) as error:
                raise XTargetError(
                    f"the kernel library {point.name!r} of an installed package ({point.value}) "
                    f"cannot be used: {type(error).__name__}: {error}. Correct or remove the "
                    "package."
                ) from error
            _load_folder(folder, keep=frozenset(_kernels))


# ------------------------------------------------------------------------------------------ look-up


def register(
    spec: KernelSpec, source: Callable[[str], KernelSource], origin: str, function: Any = None
) -> None:
    """Add one kernel."""
    with _lock:
        fixed = origin == str(_own_folder())
        changes = _names.add(spec)
        changes.update(name for name in (spec.name, *spec.aliases) if name in _kernels)
        _kernels[spec.name] = RegisteredKernel(spec, source, origin, fixed, function)
        configs.forget(spec.name)
        for name in changes:
            for changed in on_change:
                changed(name)
        _name_arguments(spec)


def _name_arguments(spec: KernelSpec) -> None:
    if spec.by_name:
        by_name[spec.name] = {n.rstrip("?"): place for place, n in enumerate(spec.inputs)}
    else:
        by_name.pop(spec.name, None)


def is_registered(name: str) -> bool:
    """Whether a kernel of this very name is there."""
    return name in _kernels


def register_section(name: str, *given: Any) -> None:
    """Add a section of a fused function to our own library (`kernels/fused.py` says what is given).

    It has no aliases, and `catalog` does not list it.
    """
    _load_own()
    library = _libraries[_own_folder()]
    section = importlib.import_module(f"{library.package}.fused").section
    register(section(name, *given), library.source, str(library.folder))


def names_of(function: Any) -> list[str]:
    """The names under which `@xtarget.kernel` has registered a function."""
    known = list(_kernels.items())
    return [n for n, kernel in known if kernel.function is function and function is not None]


def catalog() -> Mapping[str, KernelSpec]:
    """Every kernel that `run` knows, by name."""
    _load_own()
    _load_packages()
    known = ((name, _kernels[name].spec) for name in sorted(_kernels))
    return MappingProxyType({name: spec for name, spec in known if spec.category != "fused"})


def find(name: str) -> RegisteredKernel:
    """The kernel of that name.

    Raises:
        UnknownKernelError: there is none; the message suggests near ones.
    """
    if not isinstance(name, str):
        raise UnknownKernelError(
            f"a kernel is given by its name, not by {shortened(name)}. Register a function with "
            "@xtarget.kernel and pass its name."
        )
    kernel = _named(name)
    if kernel is None or not _ready:
        _load_own()
        if _named(name) is None:
            _load_packages()
        kernel = _named(name)
    if kernel is None:
        raise _names.unknown(name, _kernels)
    return kernel


def is_refused(name: str) -> bool:
    """Whether a library says why it has no kernel of that name."""
    catalog()
    return bool(_names.reason(name))


def _named(name: str) -> RegisteredKernel | None:
    """The kernel of that name, or of which it is another name."""
    return _kernels.get(name) or _kernels.get(_names.kernel(name) or prefix_free(name))
