"""The tool chain of a binary: Triton, its tools and its settings, and the code of xtarget that
drives them. It is identified by content, never by path or file time. So two installations of the
same files are the same tool chain, and a tool that was replaced in place is a different one.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ..._system.life import process_start
from ..._system.package import FOLDER
from .._host import contents

__all__ = [
    "as_content",
    "fingerprint",
    "is_installed",
    "say_once",
    "settings_of_a_compilation",
    "unidentified",
    "unsettled",
]

#: How the names of variables begin that decide what Triton, LLVM or ptxas makes.
_SWITCHES = (
    "TRITON_",
    "LLVM_",
    "MLIR_",
    "DISABLE_LLVM_OPT",
    "DISABLE_PTXAS_OPT",
    "PTXAS_",
    "AMDGCN_",
    "NVPTX_",
    "ALLOW_LHS_TMEM_LAYOUT_CONVERSION",
    "USE_IR_LOC",
)
#: Those of them that change nothing in a binary: caches, dumps, choice of devices, profilers, and
#: libraries that launch.
_NEUTRAL = (
    "TRITON_ALWAYS_COMPILE",
    "TRITON_CACHE",
    "TRITON_CUDACRT_PATH",
    "TRITON_CUDART_PATH",
    "TRITON_CUPTI",
    "TRITON_DEFAULT_BACKEND",
    "TRITON_DISABLE_LINE_INFO",
    "TRITON_DUMP",
    "TRITON_ENABLE_NVTX",
    "TRITON_HOME",
    "TRITON_HSA_",
    "TRITON_KERNEL_DUMP",
    "TRITON_LIBCUDA_PATH",
    "TRITON_LIBHIP_PATH",
    "TRITON_OVERRIDE_DIR",  # with TRITON_KERNEL_OVERRIDE its files count
    "TRITON_PRINT",
    "TRITON_PROFILE_",
    "TRITON_PROTON",
    "TRITON_REDIS",
    "TRITON_REMOTE_CACHE",
    "TRITON_ROC",
    "TRITON_STORE_BINARY_ONLY",
)
#: Groups of Triton's knobs that decide what it makes, and what in them does not.
_KNOBS = ("compilation", "runtime", "language", "nvidia", "amd")
_NEUTRAL_KNOBS = frozenset(
    (
        *("always_compile", "dump_ir", "listener", "store_binary_only", "front_end_debugging"),
        *("disable_line_info", "launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook"),
        *("kernel_load_end_hook", "kernel_unload_hook", "jit_cache_hook", "jit_post_compile_hook"),
        *("debug", "interpret", "cuobjdump", "nvdisasm", "libcuda_path", "libhip_path"),
    )
)
#: Folders of Triton's without a Python file that kernels could reach.
_OUTSIDE = frozenset(("include", "lib", "bin"))
_OWN = Path(FOLDER)
#: Files of xtarget that stand between every request and its binary.
_OWN_FILES = (
    "_values/types.py",
    "targets/_triton/accesses.py",
    "targets/_triton/compile.py",
    "targets/_triton/front_end_fixes.py",
    "targets/_triton/files.py",
    "targets/_triton/locations.py",
    "targets/_triton/parsing.py",
    "targets/_binaries/elf.py",
    "targets/_objects/scalars.py",
    "targets/_objects/tensor_maps.py",
)


def is_installed() -> bool:
    """Return whether Triton is installed. Does not import it."""
    return _root() is not None


def _root() -> Path | None:
    loaded = sys.modules.get("triton")
    places = getattr(loaded, "__path__", None)
    if places is None:
        spec = importlib.util.find_spec("triton")
        places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


def fingerprint(tools: Sequence[str] = (), own: Sequence[str] = ()) -> str:
    """The tool chain as lines of text; empty when Triton is not installed. Read anew each time, in
    about a millisecond.

    Args:
        tools: what the back end uses, as paths in Triton's folder; may have `*`.
        own: files of xtarget that this compiler needs beside those that all need, as paths in its
            package; may have `*`.
    """
    root = _root()
    if root is None:
        return ""
    return "\n".join([*_files(root, tools, own), *_of_the_user()])


def _files(root: Path, tools: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    python = contents.python_files(root, _OUTSIDE)
    version = contents.written_version(root / "__init__.py")
    yield f"triton {version} {contents.of_files(f'python {root}', python)[:32]}"
    for inner, path in _listed(root, ("_C/libtriton*.so", *tools)):
        yield f"{inner} {contents.of_file(path)[:32]}"
    ours = _listed(_OWN, (*_OWN_FILES, *own))
    yield f"xtarget {contents.of_files(f'xtarget {_OWN} {own}', ours)[:32]}"


def _listed(root: Path, patterns: Sequence[str]) -> list[tuple[str, str]]:
    """(path in the folder, path) of files by their patterns."""

    return [
        (inner, os.path.join(root, inner))
        for pattern in patterns
        for inner in (_matching(root, pattern) if "*" in pattern else [pattern])
    ]


def _matching(root: Path, pattern: str) -> list[str]:
    """Files of a folder whose last part is a pattern."""
    folder, _, last = pattern.rpartition("/")
    names = contents.names_in(os.path.join(root, folder))[0]
    return [f"{folder}/{name}" for name in fnmatch.filter(names, last)]


# ---------------------------------------------------------------------------------------- settings

#: The user's settings while a compilation has its own in Triton's knobs.
_during: list[str] | None = None
#: How many compilations have begun.
_begun = 0


def _of_the_user() -> list[str]:
    """The settings that a compilation which begins now would have; other threads may compile."""
    while True:
        before, during = _begun, _during
        found = _settings() if during is None else during
        if during is not None or before == _begun:  # else the knobs may have been ours
            return found


@contextmanager
def settings_of_a_compilation() -> Iterator[None]:
    """Within it, Triton's knobs are ours, and `fingerprint` tells those of the user.

    Only one thread at a time.
    """
    global _during, _begun
    _during = _settings()
    _begun += 1
    try:
        yield
    finally:
        _during = None


def _settings() -> list[str]:
    """Return the environment variables and knobs that affect the output, and the parts of Triton
    that were replaced in this process."""
    given = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SWITCHES) and not name.startswith(_NEUTRAL)
    }
    knobs = sys.modules.get("triton.knobs")
    lines = [] if knobs is None else _knobs(knobs, given)
    lines += [f"env {name}={_setting(name, value)}" for name, value in given.items()]
    if _is_on(given.get("TRITON_KERNEL_OVERRIDE", "")):
        home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
        folder = os.environ.get("TRITON_OVERRIDE_DIR") or os.path.join(home, ".triton", "override")
        if knobs is not None:
            folder = vars(knobs.cache).get("override_dir", folder)
        lines.append(f"overrides {contents.of_folder(folder)[:32]}")
    if knobs is not None:  # Triton is imported
        from .replaced import replaced

        lines += [f"replaced {name}={_text(value, name)}" for name, value in replaced()]
    return sorted(lines)


def _knobs(knobs: ModuleType, given: dict[str, str]) -> list[str]:
    """Return the knobs that were set in Python. A knob that has a variable counts as that
    variable, which is changed in `given`."""
    lines = []
    for group in _KNOBS:
        values = getattr(knobs, group, None)
        for name, value in list(vars(values).items()) if values is not None else ():
            if name in _NEUTRAL_KNOBS:
                continue
            variable = getattr(vars(type(values)).get(name), "key", None)
            if variable is None:
                if value is not None:
                    text = _text(value, f"the knob {group}.{name}")
                    lines.append(f"knob {group}.{name}={text}")
            elif value is None:
                given.pop(variable, None)
            elif type(value) in (bool, int, str):
                given[variable] = str(int(value)) if isinstance(value, bool) else str(value)
            else:
                lines.append(f"knob {group}.{name}={_text(value, f'the knob {group}.{name}')}")
    # read from the environment when Triton is imported, and not again
    debug = bool(getattr(getattr(knobs, "runtime", None), "debug", False))
    if debug != _is_on(given.get("TRITON_DEBUG", "")):
        lines.append(f"knob runtime.debug={debug}")
    return lines


def _is_on(value: str) -> bool:
    """As Triton reads a variable that is a switch."""
    return value.lower() in ("1", "true", "on", "yes", "y")


def _setting(name: str, value: str) -> str:
    if "/" not in value and name.endswith("_PATH"):
        import shutil

        return as_content(shutil.which(value) or value)
    return as_content(value)


def as_content(value: str) -> str:
    """Return a setting as it is, or the content of the file, files or folder that it names."""
    if "/" not in value:
        return value
    if os.path.isfile(value):
        return f"content {contents.of_file(value)[:32]}"
    if os.path.isdir(value):
        return f"content {contents.of_folder(value)[:32]}"
    for separator in (os.pathsep, ";", ","):
        parts = value.split(separator)
        if len(parts) > 1 and any(os.path.exists(part) for part in parts):
            return separator.join(map(as_content, parts))
    return value


def _text(value: Any, what: str) -> str:
    if type(value).__name__ == "NvidiaTool":
        return as_content(value.path)
    from .identity import Unidentified, text_of_value

    try:
        return text_of_value(value, what)
    except Unidentified as why:
        return f"{_UNIDENTIFIED} ({why}) {id(value)}"


_UNIDENTIFIED = "unidentified"


def unidentified(toolchain: str) -> str:
    """Return why no output of this tool chain may be kept; empty where all of it has a text."""
    for line in toolchain.splitlines():
        if f"={_UNIDENTIFIED} (" in line:
            return line.partition(f"={_UNIDENTIFIED} (")[2].rpartition(")")[0]
    return ""


# ------------------------------------------------------------------------------- as it was imported

_first: dict[tuple[Sequence[str], Sequence[str]], list[str]] = {}
_warned: set[str] = set()


def unsettled(tools: Sequence[str] = (), own: Sequence[str] = ()) -> str:
    """Return why a compilation now may not match the tool chain's files; empty where it does.

    Python keeps what it has imported, and Triton keeps what it has found out about a tool. So a
    file that has changed since is in `fingerprint`, but not in this process.
    """
    root = _root()
    if root is None:
        return ""
    now = list(_files(root, tools, own))
    first = _first.setdefault((tuple(tools), tuple(own)), now)
    changed = [line.partition(" ")[0] for line in now if line not in first]
    if changed:
        return f"{', '.join(changed)} changed on the disk since this process has loaded it"
    young = _perhaps_changed(root, python=now[0])
    return f"{young} changed on the disk after this process began" if young else ""


#: Of each of Triton's modules that was not imported yet when this process looked last: that time.
_absent: dict[str, float] = {}
#: The modules whose file was what they were imported from: what the import made, and the content
#: of all Python files at that time.
_as_imported: dict[str, tuple[object, str]] = {}
#: The file system's clock may be behind by one tick of the kernel's, 10 ms at most.
_TICK = 0.05


def _perhaps_changed(root: Path, python: str) -> str:
    """A file of Triton's that may have had another content when it was imported; empty if none.

    A file that was last touched before its import is what was imported. It stays so as long as the
    content is the same, even if its times change, as they do when somebody makes a link to it.

    Args:
        python: what the content of all Python files is, read before this call.
    """
    began = process_start()
    if began is None:
        return ""
    for inner, path in contents.python_files(root, _OUTSIDE):
        name = "triton." + inner.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        looked = time.time()
        module = sys.modules.get(name)
        if module is None:
            _absent[name] = looked - _TICK
            continue
        made = getattr(module, "__spec__", None) or module  # a reload makes a new one
        before = _as_imported.get(name)
        if before is not None and before[0] is made and before[1] == python:
            continue
        if _absent.get(name, began) < os.stat(path).st_ctime <= looked:
            return path
        _as_imported[name] = made, python
    return ""


def say_once(text: str, about: str = "") -> None:
    """A warning that a process gives once.

    Args:
        about: what the warning is about, if other texts say the same; empty: the text itself.
    """
    if (about or text) not in _warned:
        _warned.add(about or text)
        import logging

        logging.getLogger("xtarget.cache").warning("%s", text)
