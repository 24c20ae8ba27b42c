#!/usr/bin/env python3
"""Check what `xtarget compile` wrote: is each binary what its .json says?

Shares no code with the compilers, so that one mistake is not made twice. NVIDIA and AMD: ELF
machine, arch in the flags, entry point. SPIR-V: header, instruction stream, capabilities, entry
point, and spirv-val where it is installed. All: size, digest, and no path of this machine inside.
And every AMD instruction is read by LLVM's disassembler and by the emulator's (`second_opinion`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EM_CUDA, EM_AMDGPU = 190, 224
ELFOSABI_AMDGPU_HSA = 64
#: Source: LLVM, "User Guide for AMDGPU Backend", table "AMDGPU ELF Header e_flags": EF_AMDGPU_MACH.
AMDGPU_MACH = {
    "gfx90a": 0x3F,
    "gfx942": 0x4C,
    "gfx950": 0x4F,
    "gfx1100": 0x41,
    "gfx1201": 0x4E,
    "gfx1250": 0x49,
}
#: Source: Khronos, "SPIR-V Specification", section 2.3 and chapter 3.
SPIRV_MAGIC, OP_ENTRY_POINT, OP_CAPABILITY = 0x07230203, 15, 17
EXECUTION_MODEL_KERNEL, CAPABILITY_ADDRESSES, CAPABILITY_KERNEL = 6, 4, 6


class BadBinary(Exception):
    """The fault of one binary."""


def need(condition: bool, message: str) -> None:
    if not condition:
        raise BadBinary(message)


def elf_symbols(data: bytes) -> tuple[int, int, int, set[str]]:
    """(machine, OS ABI, flags, names of sections and symbols) of a little-endian ELF64 file."""
    need(data[:6] == b"\x7fELF\x02\x01", "is not a little-endian ELF64 file")
    need(len(data) >= 64, "ends inside the ELF header")
    machine = struct.unpack_from("<H", data, 18)[0]
    (start,) = struct.unpack_from("<Q", data, 40)
    (flags,) = struct.unpack_from("<I", data, 48)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    need(size == 64 and start + size * count <= len(data), "has a damaged section table")
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]

    def text(table: int, offset: int) -> str:
        begin, length = headers[table][4], headers[table][5]
        blob = data[begin : begin + length]
        need(offset < len(blob), "names something outside its string table")
        return blob[offset : blob.index(b"\0", offset)].decode()

    names = {text(names_at, header[0]) for header in headers}
    for header in headers:
        if header[1] not in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
            continue
        need(header[4] + header[5] <= len(data), "ends inside its symbols")
        for offset in range(header[4], header[4] + header[5], 24):
            names.add(text(header[6], struct.unpack_from("<I", data, offset)[0]))
    return machine, data[7], flags, names


def check_cubin(data: bytes, facts: dict[str, Any], arch: str) -> None:
    machine, _, flags, names = elf_symbols(data)
    need(machine == EM_CUDA, f"is for ELF machine {machine}, not {EM_CUDA} (CUDA)")
    number = int("".join(c for c in arch if c.isdigit()))
    # the arch moved from the low byte to the next one with the ELF ABI of CUDA 12.8
    need(number in (flags & 0xFF, flags >> 8 & 0xFF), f"has flags {flags:#x}, which is not {arch}")
    need(f".text.{facts['entry']}" in names, f"has no code section for {facts['entry']}")


def check_hsaco(data: bytes, facts: dict[str, Any], arch: str) -> None:
    machine, abi, flags, names = elf_symbols(data)
    need(machine == EM_AMDGPU, f"is for ELF machine {machine}, not {EM_AMDGPU} (AMDGPU)")
    need(abi == ELFOSABI_AMDGPU_HSA, f"has OS ABI {abi}, not {ELFOSABI_AMDGPU_HSA} (HSA)")
    need(arch in AMDGPU_MACH, f"is for {arch}, whose number this check does not know: add it")
    need(flags & 0xFF == AMDGPU_MACH[arch], f"has flags {flags:#x}, which is not {arch}")
    need(f"{facts['entry']}.kd" in names, f"has no kernel descriptor {facts['entry']}.kd")


def instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(opcode, operands) of each instruction."""
    at = 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        need(length > 0, f"has an instruction of no words at word {at}")
        need(at + length <= len(words), f"ends inside the instruction at word {at}")
        yield opcode, words[at + 1 : at + length]
        at += length


def check_spirv(data: bytes, facts: dict[str, Any], arch: str) -> None:
    need(arch == "spirv64", f"is for {arch}, which no SPIR-V of ours is")
    need(len(data) >= 20 and len(data) % 4 == 0, f"has {len(data)} bytes, no whole SPIR-V words")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    need(words[0] == SPIRV_MAGIC, f"begins with {words[0]:#x}, not SPIR-V's magic number")
    entries, capabilities = set(), set()
    for opcode, operands in instructions(words):
        if opcode == OP_ENTRY_POINT:
            need(operands[0] == EXECUTION_MODEL_KERNEL, "has an entry point that is not a kernel")
            name = struct.pack(f"<{len(operands) - 2}I", *operands[2:])
            entries.add(name[: name.index(b"\0")].decode())
        elif opcode == OP_CAPABILITY:
            capabilities.add(operands[0])
    need(facts["entry"] in entries, f"has no entry {facts['entry']}, but {sorted(entries)}")
    need(
        {CAPABILITY_ADDRESSES, CAPABILITY_KERNEL} <= capabilities,
        "lacks the capabilities Kernel and Addresses of an OpenCL module",
    )


def validate(tool: str, path: Path, version: int) -> None:
    """Khronos' own validator."""
    environment = f"spv{version >> 16 & 0xFF}.{version >> 8 & 0xFF}"
    done = subprocess.run(
        [tool, "--target-env", environment, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    message = (done.stdout + done.stderr).strip()
    need(done.returncode == 0, f"is refused by spirv-val --target-env {environment}: {message}")


CHECKS = {"cubin": check_cubin, "hsaco": check_hsaco, "spirv": check_spirv}
FORMAT_OF = {"nvidia": "cubin", "amd": "hsaco", "intel": "spirv", "cpu": "spirv"}


def check(manifest: Path, spirv_val: str | None) -> str:
    """Check the binary of one .json; returns its target."""
    text = manifest.read_text(encoding="utf-8")
    facts = json.loads(text)
    path = manifest.parent / facts["file"]
    need(path.is_file(), f"names {facts['file']}, which is not there")
    data = path.read_bytes()
    need(len(data) == facts["size"], f"has {len(data)} bytes instead of {facts['size']}")
    need(hashlib.sha256(data).hexdigest() == facts["sha256"], "has another digest than its .json")
    for place in {os.getcwd(), str(Path.home()), tempfile.gettempdir()} - {"/"}:
        inside = place.encode() + b"/" in data or place + "/" in text
        need(not inside, f"holds a path of this machine ({place})")
    vendor, _, arch = facts["target"].partition(":")
    need(facts["format"] == FORMAT_OF.get(vendor), f"is {facts['format']} for {vendor}")
    CHECKS[facts["format"]](data, facts, arch)
    if facts["format"] == "spirv" and spirv_val is not None:
        validate(spirv_val, path, struct.unpack_from("<I", data, 4)[0])
    return str(facts["target"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what `xtarget compile -o` wrote to")
    parser.add_argument("--require-spirv-val", action="store_true", help="fail without it")
    given = parser.parse_args()
    spirv_val = shutil.which("spirv-val")
    if spirv_val is None and given.require_spirv_val:
        print("spirv-val is not installed: apt install spirv-tools", file=sys.stderr)
        return 1
    good: Counter[str] = Counter()
    bad = 0
    for manifest in sorted(given.folder.rglob("*.json")):
        try:
            good[check(manifest, spirv_val)] += 1
        except (BadBinary, KeyError, ValueError, struct.error, OSError) as error:
            bad += 1
            print(f"{manifest}: the binary {error}", file=sys.stderr)
    for target, count in sorted(good.items()):
        print(f"{target:20}{count:5} right")
    if spirv_val is None:
        print("spirv-val is not installed: SPIR-V was checked for its structure only")
    import second_opinion  # beside this file, which may be loaded by its path alone

    agreed = second_opinion.report(sorted(given.folder.rglob("*.hsaco")))
    print(f"{good.total()} binaries right, {bad} wrong")
    return 0 if good and not bad and agreed else 1


if __name__ == "__main__":
    sys.exit(main())
