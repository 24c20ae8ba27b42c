"""A Triton file of a library as it was read, and what its text alone says."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import itertools
import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._system.locks import Lock
from .._values.errors import CompileError
from .._values.types import SourceText

if TYPE_CHECKING:
    from ..targets._triton.identity import Manifest

__all__ = ["KernelFile", "parsed"]


_numbers = itertools.count()
_importing = Lock()


@dataclass(frozen=True)
class KernelFile:
    """A Triton file and the files of its library that it imports, as they were read.

    Attributes:
        name: the file's module in the library.
        texts: content by module, and by path.
        dynamic: what in them is known after the import only, as a sentence; empty for static files.
    """

    name: str
    texts: dict[str, tuple[Path, bytes]]
    dynamic: str

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of all of the text."""
        total = hashlib.sha256()
        for name in sorted(self.texts):
            text = self.texts[name][1]
            total.update(f"{len(name)}:{name}:{len(text)}:".encode() + text)
        return total.hexdigest()

    def text(self, function: str) -> SourceText:
        """A function of the file, as text."""
        modules = {name: (str(path), text) for name, (path, text) in self.texts.items()}
        return SourceText(modules, f"{self.name}:{function}")

    @cached_property
    def places(self) -> str:
        """File and line of each function whose binaries may contain them: of those that assert."""
        found = []
        for name in sorted(self.texts):
            path, text = self.texts[name]
            if b"assert" in text:
                lines = text.decode("utf-8", "replace").splitlines()
                found += [
                    f"{path}:{node.lineno}"
                    for node in ast.walk(parsed(text, path))
                    if isinstance(node, ast.FunctionDef)
                    and any("assert" in line for line in lines[node.lineno - 1 : node.end_lineno])
                ]
        return "\n".join(found)

    @cached_property
    def _copy(self) -> ModuleType:
        """The file as its text says it is, imported under another name: nobody else can have
        changed anything in it. It needs Triton.
        """
        package = f"xtarget_static_{next(_numbers)}"
        # a finder that another thread takes away lets an import skip the next one
        with _importing, _imported_from(self.texts, package):
            return importlib.import_module(f"{package}.{self.name}")

    @cached_property
    def _manifests(self) -> dict[str, Manifest]:
        return {}

    def written(self, function: str) -> Manifest:
        """The manifest of a function as the text says it."""
        known = self._manifests.get(function)
        if known is None:
            from ..targets._triton.identity import manifest_of

            known = self._manifests[function] = manifest_of(getattr(self._copy, function))
        return known


@contextmanager
def _imported_from(texts: dict[str, tuple[Path, bytes]], package: str) -> Iterator[None]:
    """Within it, modules of `package` come from these texts."""

    class Finder:  # importlib.abc, which has its protocols, imports tempfile and more
        def find_spec(
            self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
        ) -> importlib.machinery.ModuleSpec | None:
            if not name.startswith(f"{package}."):
                return None
            inner = name[len(package) + 1 :]
            if inner in texts:
                is_package = texts[inner][0].name == "__init__.py"
            elif any(known.startswith(f"{inner}.") for known in texts):
                is_package = True  # a folder without a file of its own
            else:
                return None
            loader: Any = self
            return importlib.machinery.ModuleSpec(name, loader, is_package=is_package)

        def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
            return None

        def exec_module(self, module: ModuleType) -> None:
            inner = module.__name__[len(package) + 1 :]
            if inner not in texts:
                return
            text = texts[inner][1].decode()
            # inspect reads a function's text from here; without a time it is never read again
            file = f"<{module.__name__}>"
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            exec(compile(text, file, "exec", dont_inherit=True), vars(module))

    finder, root = Finder(), ModuleType(package)
    root.__path__ = []
    sys.modules[package] = root
    # other threads import meanwhile: a list that they walk along must not become shorter
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [one for one in sys.meta_path if one is not finder]
        for name in [n for n in list(sys.modules) if n == package or n.startswith(f"{package}.")]:
            del sys.modules[name]


def parsed(text: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(text, str(path))
    except SyntaxError as error:  # it has a line, but not where the encoding is wrong
        place = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise CompileError(f"{place}: {error.msg}. Correct the Triton file.") from error
    except ValueError as error:
        raise CompileError(f"{path}: {error}. Correct the Triton file.") from error
