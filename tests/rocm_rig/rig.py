"""AMD's own HIP and HSA run time on this machine without a GPU: a Python that finds them.

`ci/rocm.sh` unpacks Debian's packages of ROCm once. Here the model is built (model.c), and for each
version of HIP and each set of GPUs there is a folder that looks like a virtual environment: its
`bin/python` starts this environment's interpreter on the unpacked system's libc, with the model in
the kernel driver's place. What such a Python starts by `sys.executable` is on the rig as well.

    python tests/rocm_rig/rig.py 7 gfx942,gfx1100     prints the path of that Python
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

__all__ = ["HIPS", "Rig", "RigMissing"]

sys.path.insert(0, str(Path(__file__).parent))

from topology import write as write_topology

_HERE = Path(__file__).parent
#: Major versions of HIP. Both run on the HSA run time of 7: that of 6 has no door for models.
HIPS = ("6", "7")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_HSA = "libhsa-runtime64.so.1"
#: The CPU and the most GPUs that the model has (MOST_DEVICES of model.c).
_MOST_NODES = 17
#: Settings that keep HIP and HSA to what the model has: copies by the host, where even large ones
#: pin no memory (libhsakmt's model ends the process there), no virtual memory, and waiting by
#: looking (a thread that waits for an event can miss it, as libhsakmt's model sets one without the
#: lock that the waiting thread holds).
_SETTINGS = {
    "HSA_ENABLE_INTERRUPT": "0",
    "GPU_FORCE_BLIT_COPY_SIZE": "0",
    "DEBUG_HIP_MEM_POOL_VMHEAP": "0",
    "GPU_PINNED_MIN_XFER_SIZE": "4000000",  # KiB
    "GPU_PINNED_XFER_SIZE": "4000",  # MiB
    "XTARGET_PROBE_SECONDS": "100",
}


class RigMissing(Exception):
    """The rig cannot be had here, with the reason."""


class Rig:
    """The unpacked system and what is built on it.

    Args:
        folder: made by `ci/rocm.sh`; by default the one that it makes.

    Raises:
        RigMissing: the packages are not unpacked, or there is no C compiler.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        if not (self.folder / "made").exists():
            raise RigMissing(f"ROCm is not unpacked in {self.folder}; ci/rocm.sh does that")
        self.libraries = self.folder / "system" / _LIBRARIES
        sources = [_HERE / "model.c", Path(__file__), _HERE / "topology.py", _HERE / "gpus.toml"]
        content = b"".join(path.read_bytes() for path in sources) + str(_HERE).encode()
        self.built = self.folder / "built" / hashlib.sha256(content).hexdigest()[:16]
        self.model = self.built / "libmodel.so"
        if not self.model.exists():
            self._build()

    def python(self, hip: str, *archs: str, link: bool = True) -> Path:
        """A Python on whose machine these GPUs are.

        Args:
            hip: of `HIPS`.
            link: the bare name libamdhip64.so is there too, as ROCm's -dev packages have it.
        """
        name = f"{hip}-{','.join(archs)}{'' if link else '-bare'}"
        python = self.built / name / "bin" / "python"
        if not python.exists():
            with tempfile.TemporaryDirectory(dir=self.built) as made:
                self._environment(Path(made), self.built / name, hip, archs, link)
                try:
                    os.replace(made, self.built / name)
                except OSError:  # another process was faster
                    if not python.exists():
                        raise
                else:
                    Path(made).mkdir()
        return python

    # ------------------------------------------------------------------------------------ building

    def _build(self) -> None:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise RigMissing("there is no C compiler (cc, or what CC names) for the model")
        self.built.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.built) as folder:
            made = Path(folder)
            hsa = made / _HSA
            hsa.write_bytes(_opened((self.libraries / _HSA).read_bytes()))
            executor = made / "executor"
            words = [sys.executable, str(_HERE / "executor.py")]
            executor.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
            executor.chmod(0o755)
            model = made / self.model.name
            flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
            command = [compiler, *flags, "-fvisibility=hidden", "-o", str(model)]
            subprocess.run([*command, str(_HERE / "model.c")], check=True, timeout=120)
            for file in (hsa, executor, model):  # the model last: it says that all is there
                os.replace(file, self.built / file.name)

    def _environment(
        self, made: Path, place: Path, hip: str, archs: tuple[str, ...], link: bool
    ) -> None:
        write_topology(made / "topology", archs)
        (made / "lib").mkdir()
        name = f"libamdhip64.so.{hip}"
        (made / "lib" / name).symlink_to(self.libraries / name)
        if link:
            (made / "lib" / "libamdhip64.so").symlink_to(name)
        base = Path(sysconfig.get_config_var("BINDIR"))
        (made / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = made / "lib" / version / "site-packages"
        packages.mkdir(parents=True)
        paths = [p for p in map(Path, sys.path) if p.name == "site-packages" and p.is_dir()]
        lines = [f"import site; site.addsitedir({str(path)!r})" for path in paths]
        (packages / "rig.pth").write_text("\n".join(lines) + "\n")
        system = [str(place / "lib"), str(self.built), str(self.libraries)]
        system += ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"]
        variables = {
            "HSA_MODEL_LIB": str(self.model),
            "HSA_MODEL_TOPOLOGY": str(place / "topology"),
            "XTARGET_TEST_RIG_EXECUTOR": str(self.built / "executor"),
            **_SETTINGS,
        }
        if link:
            variables["ROCM_PATH"] = str(place)
        python = made / "bin" / "python"
        python.parent.mkdir()
        exports = "\n".join(
            f"export {name}={shlex.quote(text)}" for name, text in variables.items()
        )
        start = [
            str(self.libraries / "ld-linux-x86-64.so.2"),
            *("--library-path", ":".join(system)),
            *("--argv0", str(place / "bin" / "python")),
            str(Path(sys.executable).resolve()),
        ]
        python.write_text(f'#!/bin/sh\n{exports}\nexec {shlex.join(start)} "$@"\n')
        python.chmod(0o755)


def default_folder() -> Path:
    """Where `ci/rocm.sh` unpacks ROCm: XTARGET_ROCM_FOLDER, or a folder of the user's cache."""
    named = os.environ.get("XTARGET_ROCM_FOLDER")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "xtarget-rocm"


def _opened(library: bytes) -> bytes:
    """AMD's HSA library (Debian's 7.2.4) with three changes.

    An assertion lets the model have one GPU only; without it there can be several. A GPU like
    gfx90a gets its handler of traps by an ioctl that the model aborts at; here it succeeds, as no
    trap ever comes. And with a model hsaKmtOpenKFD never sets the number of nodes that it makes
    two tables for, which took up to 38 GB, so that a fork could be refused; here it is the most
    there can be.

    Raises:
        RigMissing: the library is another one.
    """
    from xtarget.targets._binaries.elf import Elf

    sections = {section.name: section for section in Elf.parse(library).sections}
    text, constants = sections[".text"], sections[".rodata"]
    code = bytearray(text.data)
    wanted = bytes(constants.data).find(b"!model_mmio_page\0") + constants.address
    jumps = 0
    for load in re.finditer(rb"\x48\x8d\x3d(....)", bytes(code), re.S):  # lea rdi, [rip + ...]
        here = load.start()
        if text.address + here + 7 + struct.unpack("<i", load[1])[0] != wanted:
            continue
        for jump in re.finditer(rb"\x0f\x85(....)", bytes(code), re.S):  # jne
            target = jump.start() + 6 + struct.unpack("<i", jump[1])[0]
            if here - 32 <= target <= here:
                code[jump.start() : jump.start() + 6] = bytes.fromhex("660f1f440000")  # nop
                jumps += 1
    # mov esi, AMDKFD_IOC_SET_TRAP_HANDLER ... call; cmp eax, -1
    calls = re.findall(rb"\xbe\x13\x4b\x18\x40.{0,48}?\xe8....\x83\xf8\xff", bytes(code), re.S)
    # mov edi, [rsp]; movq [rbp], 1; call; test eax, eax ... mov edi, [rsp]; call; cmp byte [...], 0
    tables = re.findall(
        rb"\x8b\x3c\x24\x48\xc7\x45\x00\x01\x00\x00\x00\xe8....\x85\xc0.{15}"
        rb"\x8b\x3c\x24\xe8....\x80\x3d",
        bytes(code),
        re.S,
    )
    if (jumps, len(calls), len(tables)) != (1, 1, 1):
        raise RigMissing(
            "the HSA library is none that is known: "
            f"{jumps}, {len(calls)} and {len(tables)} places to change"
        )
    done = calls[0][:-8] + bytes.fromhex("31c00f1f00") + calls[0][-3:]  # xor eax, eax
    nodes = bytes((0x6A, _MOST_NODES, 0x5F))  # push; pop rdi
    text_now = bytes(code).replace(calls[0], done)
    text_now = text_now.replace(tables[0], tables[0].replace(b"\x8b\x3c\x24", nodes))
    start = text.offset
    return library[:start] + text_now + library[start + text.size :]


if __name__ == "__main__":
    try:
        print(Rig().python(sys.argv[1], *sys.argv[2].split(",")))
    except RigMissing as error:
        sys.exit(f"rocm_rig: {error}.")
