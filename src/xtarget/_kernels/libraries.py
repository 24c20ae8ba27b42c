"""Kernel libraries: folders with a `catalog.py`, found, loaded and looked up by kernel name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._system.locks import Lock
from .._system.package import FOLDER
from .._values import environment
from .._values.errors import UnknownKernelError, XTargetError, shortened
from . import variants
from .library import Library
from .names import Names

if TYPE_CHECKING:
    from .._values.types import KernelSource
    from ..spec import KernelSpec

__all__ = [
    "RegisteredKernel",
    "catalog",
    "closure",
    "find",
    "is_refused",
    "keywords",
    "keywords_known",
    "known",
    "library_source",
    "load_library",
    "names_of",
    "of_one_library",
    "own_folder",
    "register",
    "sources_named",
]

ENTRY_POINT_GROUP = "xtarget.kernels"
#: Categories of kernels that the catalog does not list: a fused function's, which nobody calls by
#: name, and operators of it once more, with the defaults of the library whose name is called.
_SECTION = "fused"
_BY_LIBRARY = "by library"
_BY_LIBRARY_FAMILY = "by_library"


class RegisteredKernel:
    """A spec and the way from a `Launch.source` text to the code behind it; nobody changes it.

    No dataclass: what these import takes as long as all else that names of kernels need.

    Attributes:
        fixed: it is of our own library, whose modules nobody changes: launches do not look.
        function: the Triton function of `@xtarget.kernel`.
    """

    __slots__ = ("fixed", "function", "origin", "source", "spec")

    def __init__(
        self,
        spec: KernelSpec,
        source: Callable[[str], KernelSource],
        origin: str,
        fixed: bool = False,
        function: Any = None,
    ) -> None:
        self.spec, self.source, self.origin = spec, source, origin
        self.fixed, self.function = fixed, function

    def changed(self, **parts: Any) -> RegisteredKernel:
        """The same kernel with other parts of its spec."""
        from dataclasses import replace

        return self.of(replace(self.spec, **parts))

    def of(self, spec: KernelSpec) -> RegisteredKernel:
        """The same code behind another spec."""
        return RegisteredKernel(spec, self.source, self.origin, self.fixed, self.function)


_lock = Lock()
_kernels: dict[str, RegisteredKernel] = {}
#: Of each operator that has some, the names of its other implementations in the order in which they
#: came: every plan asks. What is no member of `_kernels` is not there any more.
_implementations: dict[str, dict[str, None]] = {}
#: The family of each kernel of our own library, whose files are imported when one is looked up. A
#: kernel of `_kernels` stands before one that is only listed here.
_listed: dict[str, str] = {}
_names = Names()
#: By the name in the call, what its keywords mean that are not options: an argument's place, or an
#: option that has another name.
_keywords: dict[str, Mapping[str, int | str]] = {}
_libraries: dict[Path, Library] = {}
#: Names of kernels of which other libraries know what they write: torch's operators, JAX's calls.
_relied_on: set[str] = set()
_ready = False
#: Called with a kernel's name after it was replaced, one of its names came to mean another one, or
#: its file was imported.
on_change: list[Callable[[str], None]] = []
#: Called with the name of each kernel that is added.
on_added: list[Callable[[str], None]] = []


# ---------------------------------------------------------------------------------------- libraries


def _tell_import(folder: Path) -> None:
    """A file of a library was imported, perhaps with others of the folder: calls that were bound
    before do not look whether its values change."""
    for name, kernel in list(_kernels.items()):
        if kernel.origin == str(folder) and not kernel.fixed:
            for changed in on_change:
                changed(name)


@cache
def own_folder() -> Path:
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
        library = _libraries.get(folder) or Library(folder, _tell_import)
        specs = library.specs()
        _libraries[folder] = library
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


def closure(folder: str, text: str) -> tuple[dict[str, bytes], bool]:
    """`Library.closure` of a library that is loaded.

    Raises:
        XTargetError: the folder is not a loaded library.
    """
    library = _libraries.get(Path(folder))
    if library is None:
        raise XTargetError(f"{folder} is not a kernel library that is loaded here.")
    return library.closure(text)


def sources_named(function: str) -> list[KernelSource]:
    """The code of every function of that name in the libraries that are known."""
    _load_own()
    _load_packages()
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
        _list_own()
        for name, kernel in early.items():
            _tell_replaced(name, kernel.origin, kernel.function)
        for folder in environment.kernel_folders():
            load_library(folder)
        _kernels.update(early)  # what the user registered before the first look-up stays on top
        _ready = True


def _list_own() -> None:
    """Take the names of our own kernels."""
    folder = own_folder()
    library = _libraries.get(folder) or Library(folder, _tell_import)
    _libraries[folder] = library
    for family, kernels in library.names().items():
        for name, aliases in kernels.items():
            _listed[name] = family
            _tell(name, aliases)
    _names.refuse(library.refused())


def _load_family(family: str) -> None:
    """Add our kernels of one family, except those that were replaced."""
    folder = own_folder()
    with _lock:
        library = _libraries[folder]
        for given in library.family(family):
            spec = variants.named(given, given.name) if given.impl else given
            if spec.name not in _kernels:
                _take(RegisteredKernel(spec, library.source, str(folder), True))


@cache
def _load_unlisted() -> None:
    """Add our kernels that the list of names lacks: rows that somebody is writing."""
    library = _libraries[own_folder()]
    _load_folder(library.folder, keep={*_listed, *_kernels})


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
            _load_folder(folder, keep={*_listed, *_kernels})


# ------------------------------------------------------------------------------------------ look-up


def register(
    spec: KernelSpec, source: Callable[[str], KernelSource], origin: str, function: Any = None
) -> None:
    """Add one kernel."""
    with _lock:
        fixed = origin == str(own_folder())
        if spec.impl:
            operator = spec.name if is_registered(spec.name) else _names.kernel(spec.name)
            spec = variants.named(spec, operator or spec.name)
        else:
            _tell_replaced(spec.name, origin, function)
        known = [name for name in (spec.name, *spec.aliases) if is_registered(name)]
        _take(RegisteredKernel(spec, source, origin, fixed, function))
        for added in on_added:
            added(spec.name)
        _tell(spec.name, spec.aliases, known)


def refuse(name: str, why: str) -> None:
    """Let calls of a name say why there is no such kernel."""
    _names.refuse({name: why})


def rely_on_updates(name: str) -> None:
    """Another library was told what a kernel writes, and does not ask again."""
    _relied_on.add(name)


def declare_updates(kernel: RegisteredKernel, inputs: Iterable[str]) -> bool:
    """Let a function of `@xtarget.kernel` update further inputs, as `updates=` does.

    Returns:
        whether it may: others rely on what it has declared (`rely_on_updates`), and kernels of a
        library's catalog are as their rows say.
    """
    name = kernel.spec.name
    operator = name.partition(variants.SEPARATOR)[0]  # which another implementation may serve
    with _lock:
        if kernel.function is None or operator in _relied_on:
            return False
        if _kernels.get(name) is kernel:  # or another thread was first
            updates = tuple(dict.fromkeys((*kernel.spec.updates, *inputs)))
            _take(kernel.changed(updates=updates))
    for changed in on_change:
        changed(name)
    return True


def _tell_replaced(name: str, origin: str, function: Any) -> None:
    """Say that a kernel takes the name of a library's, or of another function; a function that is
    defined once more (in a notebook) is the same one."""
    known = _kernels.get(name)
    before = str(own_folder()) if name in _listed else ""
    if known is not None and (Path(known.origin) in _libraries or _is_other(known, function)):
        before = known.origin
        if before == origin and known.function is not None:
            before = f"the function {known.function.__name__} there"
    if before not in ("", origin):
        import logging

        logging.getLogger("xtarget").warning(
            "the kernel %s of %s stands in the place of that of %s from now on.",
            name, origin, before,
        )  # fmt: skip


def _is_other(known: RegisteredKernel, function: Any) -> bool:
    """Whether a user's kernel is made of another function than the one that takes its name."""
    before = known.function
    if before is None or function is None:
        return False
    code, new = (getattr(getattr(f, "fn", f), "__code__", None) for f in (before, function))
    if code is None or new is None:
        return False
    return (code.co_name, code.co_filename) != (new.co_name, new.co_filename)


def own(name: str) -> RegisteredKernel | None:
    """The kernel of that name in our own library, whoever has the name now."""
    _load_own()
    family = _listed.get(name)
    if family is None:
        return None
    known = _kernel(name)
    if known is not None and known.fixed:
        return known
    library = _libraries[own_folder()]
    spec = next(one for one in library.family(family) if one.name == name and not one.impl)
    return RegisteredKernel(spec, library.source, str(library.folder), True)


def _add_own(name: str) -> None:
    """Make our own kernel one that can be asked for beside what serves instead of it."""
    kernel = own(name)
    assert kernel is not None
    alone = variants.asked(name, variants.OWN)
    with _lock:
        if alone not in _kernels:
            _take(kernel.changed(name=alone, impl=variants.OWN, aliases=()))


def _take(kernel: RegisteredKernel) -> None:
    """Make a kernel the one of its name."""
    name = kernel.spec.name
    _kernels[name] = kernel
    operator, apart, _ = name.partition(variants.SEPARATOR)
    if apart:
        _implementations.setdefault(operator, {})[name] = None


def others(name: str) -> list[RegisteredKernel]:
    """The other implementations of an operator that are registered."""
    found = map(_kernels.get, tuple(_implementations.get(name, ())))
    return [kernel for kernel in found if kernel is not None]


def torch_call(name: str) -> Any:
    """The call of torch's that computes what a kernel of our own library does; None: there is none,
    or another library has the name."""
    _load_own()
    kernel = own(name)
    if kernel is None or _kernel(name) is not kernel:
        return None
    package = _libraries[own_folder()].package
    return importlib.import_module(f"{package}.torch_calls").CALLS.get(name)


def _tell(name: str, aliases: Sequence[str], known: Iterable[str] = ()) -> None:
    """Take a kernel's names, and say which kernels they led to before.

    Args:
        known: of these names, those that are kernels.
    """
    _keywords.clear()
    for before in {*_names.add(name, aliases), *known}:
        for changed in on_change:
            changed(before)


def keywords(name: str) -> Mapping[str, int | str]:
    """The meaning of a call's keywords that do not name an option of the kernel: the place of an
    argument, or the option that has another name.

    Raises:
        UnknownKernelError: there is no such kernel.
    """
    found = _keywords.get(name)
    if found is None:
        with _lock:  # a kernel that is replaced meanwhile leaves nothing of the one before
            spec = find(name).spec
            places = {one.rstrip("?"): place for place, one in enumerate(spec.inputs)}
            words = {word: places.get(own, own) for word, own in spec.words.items()}
            found = {**words, **(places if spec.by_name else {})}
            _keywords[name] = found
    return found


def keywords_known() -> dict[str, Mapping[str, int | str]]:
    """By kernel, what `keywords` has said: it goes when kernels are replaced."""
    return _keywords


def is_registered(name: str) -> bool:
    """Whether a kernel of this very name is there."""
    return name in _kernels or name in _listed


def register_section(name: str, *given: Any) -> None:
    """Add a section of a fused function to our own library (`kernels/fused.py` says what is given).

    It has no aliases, and `catalog` does not list it.
    """
    _load_own()
    library = _libraries[own_folder()]
    section = importlib.import_module(f"{library.package}.fused").section
    register(section(name, *given), library.source, str(library.folder))


def register_of_scores(name: str, *given: Any) -> None:
    """Add attention with a function of its scores to our own library (`kernels/fused.py`)."""
    _load_own()
    library = _libraries[own_folder()]
    made = importlib.import_module(f"{library.package}.fused").of_scores
    register(made(name, *given), library.source, str(library.folder))


def register_through_views(name: str, kernel: str, views: Any) -> None:
    """Add a kernel of our own library that reads views of its arguments (`kernels/fused.py`), and
    the implementations that serve instead of it."""
    base = find(kernel)
    library = _libraries[own_folder()]
    made = importlib.import_module(f"{library.package}.fused").through_views
    for one in (*others(kernel), base):  # last what tells others that the name is there
        if one.origin == str(library.folder) and one.spec.impl != variants.OWN:
            register(made(name, one.spec, views), library.source, str(library.folder))


def names_of(function: Any) -> list[str]:
    """The names under which `@xtarget.kernel` has registered a function."""
    known = list(_kernels.items())
    return [n for n, kernel in known if kernel.function is function and function is not None]


def _is_hidden(kernel: RegisteredKernel) -> bool:
    """It is no operator of its own: a section of a fused function, another implementation, or an
    operator with other defaults."""
    return kernel.spec.category in (_SECTION, _BY_LIBRARY) or bool(kernel.spec.impl)


class _Catalog(Mapping[str, "KernelSpec"]):
    """The kernels by name, as they are known when it is asked."""

    def __getitem__(self, name: str) -> KernelSpec:
        kernel = _kernel(name)
        if kernel is None:
            _load_packages()
            kernel = _kernel(name)
        if kernel is None or _is_hidden(kernel):
            raise KeyError(name)
        return kernel.spec

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<catalog of {len(self)} kernels>"

    def _names(self) -> set[str]:
        _load_packages()
        hidden = {name for name, kernel in list(_kernels.items()) if _is_hidden(kernel)}
        listed = {name for name, family in _listed.items() if family != _BY_LIBRARY_FAMILY}
        return (listed | _kernels.keys()) - hidden


_catalog = _Catalog()


def of_one_library() -> list[KernelSpec]:
    """Operators with the defaults of the library whose names they have."""
    _load_own()
    listed = [name for name, family in _listed.items() if family == _BY_LIBRARY_FAMILY]
    return [kernel.spec for kernel in map(_kernel, listed) if kernel is not None]


def catalog() -> Mapping[str, KernelSpec]:
    """Every kernel that `run` knows, by name."""
    _load_own()
    return _catalog


def find(name: str) -> RegisteredKernel:
    """The kernel of that name.

    Raises:
        UnknownKernelError: there is none; the message suggests near ones.
    """
    if not isinstance(name, str):
        names = names_of(name)
        way = "Register a function with @xtarget.kernel and pass its name."
        if len(names) == 1:
            way = f"This one is {names[0]!r}: pass that, or call what xtarget.get of it gives."
        elif names:
            way = f"It is registered as {', '.join(map(repr, names))}: pass one of these."
        raise UnknownKernelError(f"a kernel is given by its name, not by {shortened(name)}. {way}")
    kernel = _named(name)
    if kernel is None or not _ready:
        _load_own()
        for load in (_load_packages, _load_unlisted):
            kernel = _named(name)
            if kernel is None:
                load()
        kernel = _named(name)
    if kernel is None:
        raise _names.unknown(name, catalog())
    return kernel


def is_refused(name: str) -> bool:
    """Whether a library says why it has no kernel of that name."""
    _load_own()
    _load_packages()
    return bool(_names.reason(name))


def _kernel(name: str) -> RegisteredKernel | None:
    """The kernel of this very name."""
    kernel = _kernels.get(name)
    if kernel is None and name in _listed:
        _load_family(_listed[name])
        kernel = _kernels.get(name)
    operator, apart, impl = name.partition(variants.SEPARATOR)
    if kernel is None and apart and operator in _listed:
        _load_family(_listed[operator])
        if impl == variants.OWN:
            _add_own(operator)
        kernel = _kernels.get(name)
    return kernel


def known(name: str) -> RegisteredKernel | None:
    """The kernel of that name; None also while the libraries are being loaded."""
    return _named(name) if _ready else None


def _named(name: str) -> RegisteredKernel | None:
    """The kernel of that name, or of which it is another name."""
    return _kernel(name) or _kernel(_names.meant(name))
