"""A kernel library: a folder of Triton files with a `catalog.py`."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from .._system.importing import INTERRUPTED
from .._values.errors import DriverError, XTargetError

if TYPE_CHECKING:
    from .._values.types import KernelSource
    from ..spec import KernelSpec
    from .library_code import LibraryCode

__all__ = ["Library"]

T = TypeVar("T")


class Library:
    """A folder of Triton files with a `catalog.py` that exports `KERNELS`.

    The folder is imported as a package of a name of its own, so its files use relative imports and
    two libraries never collide (an `__init__.py` is not run). Only `catalog.py` and what it imports
    is imported at first; the Triton files are, when something has to be compiled.
    """

    def __init__(
        self, folder: Path, on_import: Callable[[Path], object] = lambda folder: None
    ) -> None:
        """Take a folder.

        Args:
            on_import: called with the folder, when a file of it was imported.
        """
        self.folder = folder
        self._on_import = on_import
        # hashlib would load OpenSSL, a tenth of the time that the catalog takes
        path = str(folder).encode()
        self.package = f"xtarget_kernels_{zlib.crc32(path):08x}{zlib.crc32(path[::-1]):08x}"
        package = ModuleType(self.package)
        package.__path__ = [str(folder)]
        sys.modules[self.package] = package

    def specs(self) -> tuple[KernelSpec, ...]:
        """The catalog.

        Raises:
            XTargetError: it cannot be imported, or exports something else.
        """
        return self._specs(lambda catalog: catalog.KERNELS)

    def family(self, name: str) -> tuple[KernelSpec, ...]:
        """The kernels of one family, in a library that has a list of names.

        Raises:
            XTargetError: as for `specs`.
        """
        return self._specs(lambda catalog: catalog.family(name))

    def names(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """The kernels of each family with their other names, in a library that lists them.

        Raises:
            XTargetError: as for `specs`.
        """
        return dict(self._ask_catalog(lambda catalog: catalog.names()))

    def _specs(self, ask: Callable[[Any], Iterable[Any]]) -> tuple[KernelSpec, ...]:
        from ..spec import KernelSpec  # whoever lists names needs neither
        from .checks import check_spec

        specs = self._ask_catalog(lambda catalog: tuple(ask(catalog)))
        wrong = [spec for spec in specs if not isinstance(spec, KernelSpec)]
        if wrong:
            raise XTargetError(
                f"the catalog of {self.folder} cannot be used: its KERNELS contains {wrong[0]!r}, "
                "which is not an xtarget.spec.KernelSpec. Correct it."
            )
        for spec in specs:
            check_spec(spec)
        return specs

    def _ask_catalog(self, ask: Callable[[Any], T]) -> T:
        """Return what the catalog answers; it is imported first."""
        try:
            return ask(importlib.import_module(f"{self.package}.catalog"))
        except (Exception, SystemExit) as error:  # a script that was never meant for import
            if self._is_initializing():  # by this thread; others would have waited
                raise DriverError(
                    f"the catalog of {self.folder} is being imported: {INTERRUPTED}"
                ) from error
            raise XTargetError(
                f"the catalog of {self.folder} cannot be used: {type(error).__name__}: "
                f"{str(error).rstrip('.')}. It is a Python file that exports KERNELS, a sequence "
                "of xtarget.spec.KernelSpec objects; correct it."
            ) from error

    def _is_initializing(self) -> bool:
        """Whether a file of the library is in the middle of its import."""
        specs = [
            getattr(module, "__spec__", None)
            for name, module in list(sys.modules.items())
            if name.startswith(f"{self.package}.")
        ]
        return any(getattr(spec, "_initializing", False) for spec in specs)

    def refused(self) -> Mapping[str, str]:
        """Names that the catalog knows and has no kernel for, each with the reason."""
        catalog = sys.modules[f"{self.package}.catalog"]
        return dict(getattr(catalog, "REFUSED", {}))

    def source(self, text: str) -> KernelSource:
        """The code of `file:function`, or of `file:kernel(file:function)` (`applied`).

        Raises:
            XTargetError, CompileError: as `LibraryCode.source`.
        """
        return self._code.source(text)

    def closure(self, text: str) -> tuple[dict[str, bytes], bool]:
        """The files that a source is made from, by their paths in the folder; and whether they are
        all that it is made from, wherever they lie.

        Raises:
            XTargetError, CompileError: as `LibraryCode.source`.
        """
        return self._code.closure(text)

    @cached_property
    def _code(self) -> LibraryCode:
        from .library_code import LibraryCode  # whoever lists names reads no code

        return LibraryCode(self.folder, self.package, self._on_import)
