"""Build hook of hatchling: the compiled core (src/xtarget/_core), where there is a C compiler, and
libxtarget (src/libxtarget) for C programs, where there are the headers of zlib and OpenSSL as well;
and for wheels the texts of the route `template` (ci/prepare_texts.py).

    python hatch_build.py [--werror]     builds it in place; editable installs do the same

Without a compiler, or without Python's headers, the wheel is pure Python and works the same, only
slower to launch. `XTARGET_BUILD_CORE=0` leaves the core out, `XTARGET_BUILD_CORE=1` insists on it.
`CC` and `CFLAGS` are heeded.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
FOLDER = ROOT / "src" / "xtarget" / "_core"
LIBRARY = FOLDER / "_native.abi3.so"
C_FOLDER = ROOT / "src" / "libxtarget"
#: Flags that the code needs; the rest is a choice.
_NEEDED = ("-std=c11", "-shared", "-fPIC", "-fvisibility=hidden")
#: Flags that not all compilers have: calls between files, and into other libraries, cost less.
_FASTER = ("-flto", "-fno-plt")


def build(*, strict: bool = False, into: Path = LIBRARY, flags: tuple[str, ...] = ()) -> str:
    """Compile the core.

    Args:
        strict: warnings are errors.
        flags: further ones.

    Returns:
        why there is no core; empty where there is one.
    """
    compiler, why = _compiler()
    if why:
        return why
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").is_file():
        return f"there is no Python.h in {include}"
    command = [
        *compiler, *_NEEDED, "-O2", "-Wall", "-Wextra", *(["-Werror"] if strict else []),
        *shlex.split(os.environ.get("CFLAGS", "")), *flags, f'-DXT_VERSION="{_version()}"',
        f"-I{include}", *map(str, sorted(FOLDER.glob("*.c"))), "-lm",
    ]  # fmt: skip
    if not _compiled([*command, *_FASTER], into):
        return ""
    return _compiled(command, into)


def build_c(folder: Path) -> str:
    """Put libxtarget with its headers, CMake package and pkg-config file into a folder.

    Returns:
        why it is not there; empty where it is.
    """
    compiler, why = _compiler()
    if why:
        return why
    files = [*sorted(C_FOLDER.glob("*.c")), FOLDER / "program.c"]
    library = folder / "lib" / "libxtarget.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *compiler, *_NEEDED, "-O2", "-Wall", "-Wextra", *shlex.split(os.environ.get("CFLAGS", "")),
        f'-DXT_VERSION="{_version()}"', f"-I{C_FOLDER / 'include'}", f"-I{FOLDER}",
        "-Wl,-soname,libxtarget.so", *map(str, files),
        "-lz", "-lcrypto", "-ldl", "-lpthread", "-lm",
    ]  # fmt: skip
    if _compiled([*command, *_FASTER], library):
        why = _compiled(command, library)
        if why:
            return why
    shutil.copytree(C_FOLDER / "include", folder / "include", dirs_exist_ok=True)
    for file in sorted((C_FOLDER / "cmake").iterdir()):
        to = folder / "lib" / ("pkgconfig" if ".pc" in file.name else "cmake/xtarget")
        to.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8").replace("@PROJECT_VERSION@", _version())
        (to / file.name.removesuffix(".in")).write_text(text, encoding="utf-8")
    return ""


def prepare_texts(into: Path) -> str:
    """Write the bodies of the route `template`.

    Returns:
        why they are not there; empty where they are.
    """
    command = [sys.executable, str(ROOT / "ci" / "prepare_texts.py"), "--out", str(into)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def _version() -> str:
    text = (ROOT / "src/xtarget/__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert version is not None
    return version[1]


def _compiler() -> tuple[list[str], str]:
    """The C compiler, or why there is none."""
    if os.name != "posix":
        return [], "it is written for POSIX systems"
    compiler = shlex.split(os.environ.get("CC", ""))
    if not compiler:
        found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        compiler = [found] if found else []
    if not compiler or shutil.which(compiler[0]) is None:
        return [], "there is no C compiler"
    return compiler, ""


def _compiled(command: list[str], into: Path) -> str:
    made = into.with_name(f"{into.name}.{os.getpid()}")
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    try:
        done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            return f"{command[0]} failed:\n{done.stderr}"
        made.replace(into)  # a process that has the old one keeps it
    finally:
        made.unlink(missing_ok=True)
    return ""


def main() -> None:
    why = build(strict="--werror" in sys.argv[1:])
    if why:
        raise SystemExit(f"the compiled core was not built: {why}")


if __name__ == "__main__":
    main()
else:
    try:
        from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    except ImportError:  # a test that builds variants of the core
        BuildHookInterface = None

    if BuildHookInterface is not None:

        class CoreBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is never read
            """Puts the core into wheels, and beside its sources for editable installs."""

            PLUGIN_NAME = "custom"

            def initialize(self, version: str, build_data: dict[str, Any]) -> None:
                if version != "editable":
                    self._add_texts(build_data)
                wanted = os.environ.get("XTARGET_BUILD_CORE", "")
                why = "XTARGET_BUILD_CORE=0" if wanted == "0" else build()
                if why:
                    if version == "editable":  # Python would find it
                        LIBRARY.unlink(missing_ok=True)
                    if wanted == "1":
                        raise RuntimeError(f"the compiled core was not built: {why}")
                    self.app.display_warning(f"xtarget is built without its compiled core: {why}")
                    return
                if version == "editable":
                    return  # it lies where Python finds it
                build_data["pure_python"] = False
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["tag"] = f"cp311-abi3-{platform}"
                build_data["force_include"][str(LIBRARY)] = "xtarget/_core/_native.abi3.so"
                folder = ROOT / "build" / "c"
                shutil.rmtree(folder, ignore_errors=True)
                why = build_c(folder)
                if why:
                    self.app.display_warning(f"the wheel has no libxtarget: {why}")
                    return
                for file in folder.rglob("*.*"):
                    if file.is_file():
                        place = f"xtarget/_c/{file.relative_to(folder)}"
                        build_data["force_include"][str(file)] = place

            def _add_texts(self, build_data: dict[str, Any]) -> None:
                texts = ROOT / "build" / "prepared.bin"
                why = prepare_texts(texts)
                if why:
                    self.app.display_warning(f"the wheel has no prepared texts: {why}")
                    return
                place = "xtarget/targets/_template/prepared.bin"
                build_data["force_include"][str(texts)] = place
