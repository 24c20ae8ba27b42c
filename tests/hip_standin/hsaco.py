"""Hand-made code objects: the parts of an hsaco that loaders read, each of which a test can break.

The kernel's code itself is empty; Triton's real output is tested beside it (tests/compile).
"""

from __future__ import annotations

import struct
from dataclasses import replace

from xtarget._values.types import Artifact, Parameter, Scratch, Target
from xtarget.targets.amd import kernarg as _kernarg

HIDDEN = tuple(Parameter(n, "*i8", hidden=n) for n in ("global_scratch", "profile_scratch"))
ADD = (
    Parameter("a", "*fp32"),
    Parameter("b", "*fp32"),
    Parameter("o", "*fp32"),
    Parameter("n", "i32"),
)


def pack(value) -> bytes:
    """MessagePack, as short as LLVM writes it."""
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if value < 128 else b"\xce" + struct.pack(">I", value)
    if isinstance(value, str):
        return b"\xda" + struct.pack(">H", len(value)) + value.encode()
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))
    items = b"".join(pack(k) + pack(v) for k, v in value.items())
    return b"\xde" + struct.pack(">H", len(value)) + items


def metadata(name: str, parameters, *, warps: int, warp_size: int, **changes) -> dict:
    """The metadata of one kernel; `changes` replaces entries (`vgpr_count=300`)."""
    fields = _kernarg.layout(parameters)
    kernel = {
        ".name": name,
        ".symbol": f"{name}.kd",
        ".args": [
            {
                ".offset": f.offset,
                ".size": f.size,
                ".value_kind": "global_buffer" if f.is_pointer else "by_value",
            }
            for f in fields
        ],
        ".kernarg_segment_size": _kernarg.segment_bytes(fields),
        ".kernarg_segment_align": 8,
        ".wavefront_size": warp_size,
        ".max_flat_workgroup_size": warps * warp_size,
        ".vgpr_count": 9,
        ".sgpr_count": 18,
        ".agpr_count": 2,
        ".vgpr_spill_count": 3,
        ".sgpr_spill_count": 4,
        ".private_segment_fixed_size": 12,
        ".group_segment_fixed_size": 0,
        ".uses_dynamic_stack": False,
    }
    kernel.update({"." + key: value for key, value in changes.items()})
    return kernel


def elf(
    kernels: list[dict], *, flags: int, machine: int = 224, kernarg: int | None = None
) -> bytes:
    """An ELF file with a metadata note and a kernel descriptor for each kernel."""
    payload = pack({"amdhsa.version": [1, 2], "amdhsa.kernels": kernels})
    payload += bytes(-len(payload) % 4)
    note = struct.pack("<III", 7, len(payload), 32) + b"AMDGPU\0\0" + payload
    names, symbols, descriptors = b"\0", bytes(24), b""
    for k in kernels:
        symbols += struct.pack("<IBBHQQ", len(names), 17, 3, 4, len(descriptors), 64)
        names += k[".symbol"].encode() + b"\0"
        size = k[".kernarg_segment_size"] if kernarg is None else kernarg
        group, private = k[".group_segment_fixed_size"], k[".private_segment_fixed_size"]
        descriptors += struct.pack("<III52x", group, private, size)
    rows = [
        ("", 0, b"", 0),
        (".note", 7, note, 0),
        (".dynsym", 11, symbols, 3),
        (".dynstr", 3, names, 0),
        (".rodata", 1, descriptors, 0),
    ]
    titles = b"\0" + b"".join(r[0].encode() + b"\0" for r in rows[1:]) + b".shstrtab\0"
    rows.append((".shstrtab", 3, titles, 0))
    body, table = b"", b""
    for title, kind, data, link in rows:
        at = titles.index(title.encode() + b"\0") if title else 0
        offset = 64 + len(body) if kind else 0
        table += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, offset, len(data), link, 0, 8, 0)
        body += data + bytes(-len(data) % 8)
    ident = b"\x7fELF" + bytes((2, 1, 1, 64, 3)) + bytes(7)
    fields = (3, machine, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return ident + struct.pack("<HHIQQQI6H", *fields) + body + table


def artifact(
    name: str = "add",
    parameters=ADD,
    *,
    arch: str = "gfx942",
    flags: int = 0x54C,
    warps: int = 4,
    warp_size: int = 64,
    shared: int = 0,
    kernarg: int | None = None,
    scratch: Scratch = Scratch(),  # noqa: B008 (a frozen value)
    artifact_changes=(),
    **changes,
) -> Artifact:
    """An artifact around such a file. `changes` go into the metadata, `artifact_changes` into the
    description of them.
    """
    everything = (*parameters, *HIDDEN)
    kernel = metadata(name, everything, warps=warps, warp_size=warp_size, **changes)
    made = Artifact(
        target=Target("amd", arch),
        format="hsaco",
        entry=name,
        binary=elf([kernel], flags=flags, kernarg=kernarg),
        num_warps=warps,
        warp_size=warp_size,
        shared_bytes=shared,
        parameters=everything,
        global_scratch=scratch,
    )
    return replace(made, **dict(artifact_changes))
