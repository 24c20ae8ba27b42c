"""Read a cubin without loading it.

Source: CUDA Binary Utilities (cuobjdump -elf, -res-usage) for the meaning; the layout of `.nv.info`
sections is what those tools print, attribute by attribute.
"""

from __future__ import annotations

import struct

from ..._values.errors import LoadError
from ..._values.types import Artifact, DeviceInfo, Resources
from .._binaries.elf import Elf
from . import ptx

__all__ = ["arch_of", "check_cubin", "entries", "entries_of", "resources"]

_EM_CUDA = 190
_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
#: Formats of an attribute: no value, one byte, two bytes, or a counted string of bytes.
_COUNTED = 4


def _parse(cubin: bytes) -> Elf:
    elf = Elf.parse(cubin)
    if elf.machine != _EM_CUDA:
        raise LoadError(
            f"this ELF file is for machine {elf.machine}, not for CUDA ({_EM_CUDA}). Load it on "
            "the vendor's own device."
        )
    return elf


def entries(cubin: bytes) -> tuple[str, ...]:
    """Names of the kernels in a cubin."""
    prefix = ".nv.info."
    found = (s.name for s in _parse(cubin).sections if s.name.startswith(prefix))
    return tuple(sorted(name.removeprefix(prefix) for name in found))


def arch_of(cubin: bytes) -> str:
    """The arch a cubin was made for (`sm_90`): bits 0-7 of the ELF flags up to ABI version 7,
    bits 8-15 from 8 on (CUDA 13's ptxas)."""
    elf = _parse(cubin)
    return f"sm_{elf.flags >> (8 if elf.abi_version >= 8 else 0) & 0xFF}"


def entries_of(artifact: Artifact) -> tuple[str, ...]:
    """Names of the kernels in a cubin or a PTX text."""
    if artifact.format != "ptx":
        return entries(artifact.binary)
    return ptx.entries(_text(artifact))


def _text(artifact: Artifact) -> str:
    return artifact.binary.decode("ascii", "replace")


def check_cubin(artifact: Artifact, info: DeviceInfo) -> tuple[str, ...]:
    """Refuse what the driver would refuse with less to say, or would take by mistake; the names of
    the kernels otherwise.

    Raises:
        LoadError: neither a cubin nor PTX, damaged, or for an arch that this device does not run.
    """
    if artifact.format == "ptx":
        return _check_ptx(artifact, info)
    if artifact.format != "cubin":
        raise LoadError(
            f"{info.name} loads cubins and PTX; the artifact of {artifact.entry} is "
            f"{artifact.format} for {artifact.target}. Compile it for {info.target}."
        )
    try:
        arch, known = arch_of(artifact.binary), entries(artifact.binary)
    except LoadError as error:
        raise LoadError(f"{artifact.entry} cannot be loaded on {info.name}: {error}") from None
    made, here = int(arch.removeprefix("sm_")), int(info.target.arch.removeprefix("sm_"))
    # binaries run on later minor revisions of their own major one (CUDA C++ Programming Guide,
    # "Binary Compatibility")
    if made // 10 != here // 10 or made > here:
        raise LoadError(
            f"the cubin of {artifact.entry} is for {arch}, {info.name} ({info.product}) is "
            f"{info.target.arch}. Compile it for {info.target}."
        )
    if artifact.entry not in known:
        raise LoadError(
            f"the cubin has no entry {artifact.entry!r}; it has {', '.join(known) or 'none'}."
        )
    return known


def _check_ptx(artifact: Artifact, info: DeviceInfo) -> tuple[str, ...]:
    """PTX ISA, `.target`: PTX for an arch is compiled for that one and later ones; where a letter
    follows the number, for that one (a) or its family (f), which is not looked at here."""
    found = ptx.target(_text(artifact))
    if found is None:
        raise LoadError(
            f"the PTX of {artifact.entry} names no .target, so it is not PTX. Compile it again."
        )
    (made, letter), here = found, int(info.target.arch.removeprefix("sm_"))
    if made > here or (letter and made != here):
        raise LoadError(
            f"the PTX of {artifact.entry} is for sm_{made}{letter}, {info.name} "
            f"({info.product}) is {info.target.arch}. Compile it for {info.target}."
        )
    known = entries_of(artifact)
    if artifact.entry not in known:
        raise LoadError(f"the PTX has no entry {artifact.entry!r}. Compile it again.")
    return known


def resources(cubin: bytes, entry: str) -> Resources:
    """Registers, local and static shared memory of one kernel.

    Raises:
        LoadError: not a cubin, or damaged.
    """
    elf = _parse(cubin)
    symbols = elf.symbols()
    info = elf.section(".nv.info")
    values: dict[int, int] = {}
    for attribute, data in _attributes(b"" if info is None else bytes(info.data)):
        if attribute in (_REGCOUNT, _FRAME_SIZE) and len(data) == 8:
            symbol, value = struct.unpack("<II", data)
            if symbol < len(symbols) and symbols[symbol].name == entry:
                values[attribute] = value
    shared = elf.section(f".nv.shared.{entry}")
    return Resources(
        registers=values.get(_REGCOUNT),
        local_bytes=values.get(_FRAME_SIZE),
        static_shared_bytes=0 if shared is None else shared.size,
    )


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _COUNTED:
            if at + size > len(data):
                raise LoadError("the cubin's .nv.info section is damaged. Compile it again.")
            found.append((attribute, data[at : at + size]))
            at += size
    return found
