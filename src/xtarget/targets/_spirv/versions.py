"""The Triton versions and the llvmlite versions that work together.

Triton's LLVM is newer than llvmlite's, and an LLVM promises to read older IR, not newer. Pairs in
the table compiled all kernels of tests/compile/spirv_kernels.py; the way from one to the other is
bitcode where Triton can write it (3.9), text with old-style literals otherwise.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..._values.environment import spirv_untested
from ..._values.errors import CompileError
from .._host import contents

__all__ = ["TESTED", "check", "llvmlite_version"]

_LLVMLITE = ((0, 48), (0, 49), (0, 50))

#: Triton to the llvmlite versions it was tested with.
TESTED = {(3, 6): _LLVMLITE, (3, 7): _LLVMLITE, (3, 8): _LLVMLITE, (3, 9): _LLVMLITE}


@cache
def llvmlite_version() -> str:
    """Empty when it is not installed. Does not import it."""
    try:
        return version("llvmlite")
    except PackageNotFoundError:
        return ""


def llvmlite_identity() -> str:
    """Version and content of the library and of the Python files that drive it; empty when it is
    not installed. Does not import it, nor importlib.metadata, which takes 10 ms.
    """
    found = importlib.util.find_spec("llvmlite")
    if found is None or not found.submodule_search_locations:
        return ""
    root = Path(next(iter(found.submodule_search_locations)))
    python = contents.python_files(root, frozenset(("tests",)))
    library = next(iter(sorted(root.glob("binding/libllvmlite.*"))), root)
    digest = contents.of_files(f"python {root}", python)
    written = contents.written_version(root / "_version.py")
    return f"{written} {digest[:16]}{contents.of_file(library)[:32]}"


def check(triton: str) -> None:
    """Refuse a pair that nobody tested.

    Raises:
        CompileError: llvmlite is missing, or its pair with Triton `triton` is not in the table.
    """
    llvmlite = llvmlite_version()
    if not llvmlite:
        raise CompileError(
            "compiling for SPIR-V needs llvmlite, which is not installed. "
            'Install it with: pip install "xtarget[compile]"'
        )
    if spirv_untested():
        return
    if _minor(llvmlite) not in TESTED.get(_minor(triton), ()):
        pairs = "; ".join(
            f"Triton {_text(key)} with llvmlite {', '.join(map(_text, values))}"
            for key, values in TESTED.items()
        )
        raise CompileError(
            f"Triton {triton} and llvmlite {llvmlite} were not tested together for SPIR-V. Tested: "
            f"{pairs}. Install one of these pairs, or set XTARGET_SPIRV_UNTESTED=1 to try this one."
        )


def _minor(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _text(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"
