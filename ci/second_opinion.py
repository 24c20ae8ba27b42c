#!/usr/bin/env python3
"""Does the emulator read AMD's machine code as LLVM's disassembler does?

    second_opinion.py FOLDER     every .hsaco below it

Compared of every instruction: its length, what it is called (the generations' names of one meaning
are one name), and its operands: registers, constants, offsets, signs, halves of registers, and how
lanes are moved. Widths of register ranges, and what waits and caches are told, are LLVM's alone:
the emulator has no use for them.

LLVM is the libLLVM that XTARGET_LIBLLVM names, one of this machine (20 or newer), or the one that
`ci/rocm.sh --prepare` unpacks. Where there is none, one line says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from amd_operands import conflict

_OLDEST = 20
_ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def _libraries() -> list[tuple[list[str], str]]:
    """Interpreters, and libraries that they may load, the preferred one first."""
    here = [sys.executable, "-P"]
    named = os.environ.get("XTARGET_LIBLLVM")
    if named:
        return [(here, named)]
    found = []
    for path in sorted(Path("/usr/lib").glob("llvm-*/lib/libLLVM*.so*"), reverse=True):
        version = re.search(r"llvm-(\d+)", str(path))
        if version and int(version[1]) >= _OLDEST:
            found.append((here, str(path)))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    system = Path(os.environ.get("XTARGET_ROCM_FOLDER") or cache / "xtarget-rocm") / "system"
    libraries = system / "usr/lib/x86_64-linux-gnu"
    # of another Debian, with its own C library
    loader = [str(libraries / "ld-linux-x86-64.so.2"), "--library-path",
              f"{libraries}:/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu",
              str(Path(sys.executable).resolve()), "-P"]  # fmt: skip
    found += [(loader, str(path)) for path in sorted(libraries.glob("libLLVM-*.so"))]
    return found


class Llvm:
    """LLVM's disassembler, or the reason why there is none (`missing`)."""

    def __init__(self) -> None:
        self.missing = (
            f"no libLLVM of {_OLDEST} or newer is here (ci/rocm.sh --prepare unpacks one; "
            "XTARGET_LIBLLVM names one)"
        )
        self._command: list[str] = []
        script = str(Path(__file__).with_name("llvm_disassemble.py"))
        for python, library in _libraries():
            self._command = [*python, script, library]
            try:
                found = self.read([(arch, b"\x80\x00\x80\xbe") for arch in _ARCHS])
            except (OSError, RuntimeError) as error:
                self.missing = f"{library} cannot be used ({error})"
                continue
            if all(pieces[0][1].startswith("s_mov_b32") for pieces in found):
                self.missing = ""
                self.library = library
                return
            self.missing = f"{library} does not know all of {', '.join(_ARCHS)}"

    def read(self, codes: Sequence[tuple[str, bytes]]) -> list[list[tuple[int, str]]]:
        """For each arch and code the sizes and texts of its instructions."""
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = "".join(f"{arch} {code.hex()}\n" for arch, code in codes)
        out, err = child.communicate(lines, timeout=600)
        if child.returncode:
            raise RuntimeError((err.strip().splitlines() or [f"status {child.returncode}"])[-1])
        return [json.loads(line) for line in out.splitlines()]


def kernels(data: bytes) -> tuple[str, list[bytes]]:
    """The arch of a code object, and the code of its functions."""
    from xtarget.targets._binaries.elf import Elf
    from xtarget.targets.amd.code_object import CodeObject

    elf = Elf.parse(data)
    (text,) = (s for s in elf.sections if s.name == ".text")
    found = {(s.value, s.size) for s in elf.symbols() if s.info & 15 == 2 and s.size and s.value}
    return CodeObject.parse(data).arch, [
        bytes(text.data[value - text.address : value - text.address + size])
        for value, size in sorted(found)
    ]


def compare(binaries: Iterable[tuple[str, bytes]], llvm: Llvm) -> tuple[Counter[str], list[str]]:
    """Instructions that were compared, by arch, and what the two do not agree on.

    Args:
        binaries: names and code objects.
    """
    from xtarget_emulator.decode import _name, decode

    codes: dict[tuple[str, bytes], str] = {}
    for name, data in binaries:
        arch, functions = kernels(data)
        for code in functions:
            codes.setdefault((arch, code), name)
    count: Counter[str] = Counter()
    wrong = []
    for (arch, code), theirs in zip(codes, llvm.read(list(codes)), strict=True):
        ours = decode(code, arch)
        at = 0
        for ins, (size, text) in zip(ours, theirs, strict=False):
            count[arch] += 1
            why = conflict(ins, size, text, _name) if ins.address == at else "another address"
            if why:
                wrong.append(f"{codes[arch, code]} at 0x{at:x}, {arch}: {text!r}: {why}")
            at += size or 4
        if len(ours) != len(theirs):
            wrong.append(f"{codes[arch, code]}: {len(theirs)} instructions for {len(ours)}")
    return count, wrong


def report(paths: Iterable[Path]) -> bool:
    """Print what is to be said of these code objects; True where all agree, or nobody can tell."""
    llvm = Llvm()
    if llvm.missing:
        print(f"AMD's instructions have no second opinion: {llvm.missing}")
        return True
    try:
        count, wrong = compare(((p.name, p.read_bytes()) for p in paths), llvm)
    except ImportError as error:
        print(f"AMD's instructions have no second opinion: {error}")
        return True
    for text in wrong[:20]:
        print(text, file=sys.stderr)
    archs = ", ".join(f"{arch} {n:,}" for arch, n in sorted(count.items()))
    print(f"{count.total():,} AMD instructions ({archs}) against LLVM's: {len(wrong)} conflicts")
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if report(sorted(Path(sys.argv[1]).rglob("*.hsaco"))) else 1)
