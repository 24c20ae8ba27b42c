"""From machine code to `Instruction`s with one vocabulary for all archs.

The only module that knows tinygrad, whose wheel carries AMD's machine-readable encodings. That is
no stable API, so pyproject.toml pins the version.
Source: AMD, "RDNA3", "RDNA4" and "CDNA3" Instruction Set Architecture, chapter "Microcode Formats".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from xtarget._values.errors import NoDeviceError, UnsupportedInstruction

__all__ = ["GENERATIONS", "Dpp", "Instruction", "decode"]

#: Arch to tinygrad's name of its encodings.
GENERATIONS: Mapping[str, str] = {
    "gfx1100": "rdna3",
    "gfx1201": "rdna4",
    "gfx90a": "cdna",
    "gfx942": "cdna",
    "gfx950": "cdna",
}
_PIP = 'pip install "xtarget[emulate]"'
_LITERAL, _DPP16, _DPP8, _DPP8FI = 255, 250, 233, 234
_SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1", "srcx0", "srcy0")
_WITH_LITERAL = ("fmamk", "fmaak", "madmk", "madak", "s_setreg_imm32")
#: The format of a product with scales, and the upper half of its first word (v_mfma_ld_scale_b32).
_SCALED, _LOADS_SCALES = "VOP3PX2", bytes((0xAC, 0xD3))
_SUFFIXES = re.compile(r"(_SDST|_LIT|_DPP16|_DPP8|_MFMA)+$")
_FORMATS = {"vflat": "flat", "vglobal": "global", "vscratch": "scratch", "vbuffer": "mubuf"}
#: Fields whose names differ between the generations.
_FIELDS = {"vaddr": "addr", "vsrc": "data", "vdata": "data", "ioffset": "offset", "rsrc": "srsrc"}

#: Opcodes that gfx90a has and the tables (of CDNA3) do not have, or have for something else.
#: Source: LLVM, VOP2Instructions.td, VOP3Instructions.td, VOP3PInstructions.td.
_GFX90A: Mapping[tuple[str, int], str] = {
    ("MUBUF", 0x3E): "buffer_wbinvl1",
    ("MUBUF", 0x3F): "buffer_wbinvl1_vol",
    ("VOP2", 0x16): "v_mac_f32",
    ("VOP2", 0x17): "v_madmk_f32",
    ("VOP2", 0x18): "v_madak_f32",
    ("VOP3", 0x1C1): "v_mad_f32",
    ("VOP3P", 0x54): "v_mfma_i32_32x32x8_i8",
    ("VOP3P", 0x55): "v_mfma_i32_16x16x16_i8",
    ("VOP3P", 0x63): "v_mfma_f32_32x32x4_2b_bf16",
    ("VOP3P", 0x64): "v_mfma_f32_16x16x4_4b_bf16",
    ("VOP3P", 0x65): "v_mfma_f32_4x4x4_16b_bf16",
    ("VOP3P", 0x66): "v_mfma_f32_32x32x8_bf16",
    ("VOP3P", 0x67): "v_mfma_f32_16x16x16_bf16",
    ("VOP3P", 0x68): "v_mfma_f32_32x32x2_bf16",
    ("VOP3P", 0x69): "v_mfma_f32_16x16x2_bf16",
    ("VOP3P", 0x6B): "v_mfma_f32_4x4x2_bf16",
    ("VOP3P", 0x6C): "v_mfma_f32_32x32x4_bf16",
    ("VOP3P", 0x6D): "v_mfma_f32_16x16x8_bf16",
}

#: Accesses of less than a register.
_PARTS = tuple(
    (rf"^((?:global|flat|buffer|scratch)_{way})_{part}((?:_d16(?:_hi)?)?)$", rf"\1\2_{new}")
    for way, part, new in (
        ("load", "ubyte", "u8"),
        ("load", "sbyte", "i8"),
        ("load", "short", "b16"),
        ("store", "byte", "b8"),
        ("store", "short", "b16"),
    )
)
#: One name for each meaning: pattern to replacement, tried in this order.
_ALIASES = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"_e(32|64)$", ""),
        (r"^v_dual_", "v_"),
        (r"^(ds_)read2st64", r"\1load_2addr_stride64"),
        (r"^(ds_)write2st64", r"\1store_2addr_stride64"),
        (r"^(ds_)read2_", r"\1load_2addr_"),
        (r"^(ds_)write2_", r"\1store_2addr_"),
        (r"^(ds_)read_", r"\1load_"),
        (r"^(ds_)write_", r"\1store_"),
        (r"_dwordx2$", "_b64"),
        (r"_dwordx3$", "_b96"),
        (r"_dwordx4$", "_b128"),
        (r"_dwordx8$", "_b256"),
        (r"_dwordx16$", "_b512"),
        (r"_dword$", "_b32"),
        *_PARTS,
        (r"_ubyte$", "_u8"),
        (r"_sbyte$", "_i8"),
        (r"_ushort$", "_u16"),
        (r"_sshort$", "_i16"),
        (r"^v_(add|sub|subrev)_(u32|u16)$", r"v_\1_nc_\2"),
        (r"^v_(add|sub)_(i16|i32)$", r"v_\1_nc_\2"),
        (r"^v_addc_co_u32$", "v_add_co_ci_u32"),
        (r"^v_subb_co_u32$", "v_sub_co_ci_u32"),
        (r"^v_subbrev_co_u32$", "v_subrev_co_ci_u32"),
        (r"^v_(max|min|med|maxmin|minmax)(3?)_num_", r"v_\1\2_"),
        (r"^(ds|v_pk)_(min|max)_num_", r"\1_\2_"),
        (r"^v_mad_co_([ui]64)", r"v_mad_\1"),
        (r"^v_mad_mix", "v_fma_mix"),
        (r"^(s_and|s_or)n2_", r"\1_not1_"),
        (r"^s_(add|sub)_co_([ui]32)$", r"s_\1_\2"),
        (r"^s_add_co_ci_u32$", "s_addc_u32"),
        (r"^s_sub_co_ci_u32$", "s_subb_u32"),
        (r"^s_addk_co_i32$", "s_addk_i32"),
        (r"^v_cvt_rpi_", "v_cvt_nearest_"),
        (r"^(global|flat|buffer)_atomic_(add|sub|inc|dec)$", r"\1_atomic_\2_u32"),
        (r"^(global|flat|buffer)_atomic_(add|sub|inc|dec)_x2$", r"\1_atomic_\2_u64"),
        (r"^(global|flat|buffer)_atomic_([su])(min|max)$", r"\1_atomic_\3_\g<2>32"),
        (r"^(global|flat|buffer)_atomic_([su])(min|max)_x2$", r"\1_atomic_\3_\g<2>64"),
        (r"^(global|flat|buffer)_atomic_(swap|cmpswap|and|or|xor)$", r"\1_atomic_\2_b32"),
        (r"^(global|flat|buffer)_atomic_(swap|cmpswap|and|or|xor)_x2$", r"\1_atomic_\2_b64"),
        (r"^(.*_atomic_(?:min|max))_s(32|64)$", r"\1_i\2"),
        (r"^(.*_atomic_(?:min|max))_num_f32$", r"\1_f32"),
    )
)


@dataclass(frozen=True, slots=True)
class Dpp:
    """The way in which the first source's lanes are moved (data-parallel primitives).

    Attributes:
        control: dpp_ctrl; for DPP8, the eight 3-bit selectors.
        eight: this is DPP8.
        zero: a lane without a source reads 0 (bound_ctrl); else it is not written.
        inactive: inactive lanes can be read (fetch inactive).
    """

    register: int
    control: int
    eight: bool = False
    zero: bool = False
    inactive: bool = False
    bank_mask: int = 15
    row_mask: int = 15
    negate: int = 0
    absolute: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        address: byte offset in the code.
        mnemonic: lower case, of RDNA's vocabulary, without the suffix of the encoding.
        format: `vop1`, `vop2`, `vop3`, `vop3p`, `vop3sd`, `vopc`, `vopd`, `sop1`, `sop2`, `sopc`,
            `sopk`, `sopp`, `smem`, `ds`, `flat`, `global`, `scratch` or `mubuf`.
        fields: the encoding's fields as stored.
        literal: the 32-bit constant behind the instruction.
        second: the other half's mnemonic (`vopd`).
        saturates: what overflows half precision or less becomes the largest number (the mode
            FP16_OVFL, which a kernel sets while it runs).
        whole_words: a load of a word may reach beyond a buffer that ends within it, for an atomic
            operation on a part of the word.
        retried: a load of what a compare-and-swap at the same address changes only if it is still
            there.
    """

    address: int
    size: int
    mnemonic: str
    format: str
    arch: str
    fields: Mapping[str, int]
    literal: int | None = None
    dpp: Dpp | None = None
    sdwa: bool = False
    second: str = ""
    saturates: bool = False
    whole_words: bool = False
    retried: bool = False

    @property
    def cdna(self) -> bool:
        return GENERATIONS[self.arch] == "cdna"

    def __str__(self) -> str:
        name = f"{self.mnemonic} + {self.second}" if self.second else self.mnemonic
        return f"{name} at 0x{self.address:x}"


@cache
def _tables() -> Any:
    """tinygrad's formats by generation, with the buffer formats that its own list lacks."""
    try:
        from tinygrad.renderer import amd
        from tinygrad.runtime.autogen.amd.rdna3.ins import MUBUF
        from tinygrad.runtime.autogen.amd.rdna4.ins import VBUFFER
    except ImportError as error:
        raise NoDeviceError(
            f"the emulator needs the instruction tables of tinygrad 0.14.0 ({error}). "
            f"Install it with: {_PIP}"
        ) from error
    formats = amd._load_formats()
    return {
        "rdna3": [MUBUF, *formats["rdna3"]],
        "rdna4": [VBUFFER, *formats["rdna4"]],
        "cdna": formats["cdna"],
    }


def _match(generation: str, data: bytes) -> tuple[Any, str] | None:
    """The format of an instruction, and its name."""
    long = _long_forms(generation)
    if long:
        found = _search(long, data)
        # its second half is an instruction of its own, which may stand behind any other
        scales = found is None or found[0].__name__ != _SCALED or data[2:4] == _LOADS_SCALES
        if found is not None and scales:
            return found
    return _match_word(generation, data[:4])


@cache
def _long_forms(generation: str) -> tuple[Any, ...]:
    """The formats that cannot be told apart by their first word alone."""
    return tuple(
        form
        for form in _tables()[generation]
        if any(name in ("encoding", "op") and f.lo >= 32 for name, f in form._fields)
    )


@cache
def _match_word(generation: str, word: bytes) -> tuple[Any, str] | None:
    long = _long_forms(generation)
    forms = tuple(form for form in _tables()[generation] if form not in long)
    return _search(forms, word + bytes(12))


def _search(forms: tuple[Any, ...], head: bytes) -> tuple[Any, str] | None:
    from tinygrad.renderer.amd import _matches

    for form in forms:
        if _matches(head, form):
            raw = int.from_bytes(head, "little")
            found = object.__new__(form)
            found._raw = raw
            if not hasattr(form, "opx"):
                return form, found.op.name
            try:
                return form, f"{found.opx.name}+{found.opy.name}"
            except ValueError:  # a number that no operation has
                return None
    return None


@cache
def _name(name: str) -> str:
    name = name.lower()
    for pattern, new in _ALIASES:
        name = pattern.sub(new, name)
    return name


def decode(code: bytes, arch: str, first: int = 0) -> list[Instruction]:
    """All instructions of a kernel.

    Args:
        first: address of the first one.

    Raises:
        UnsupportedInstruction: bytes that are not an instruction of this arch.
        NoDeviceError: the tables are not installed.
    """
    found, position = [], 0
    padded = code + bytes(16)
    while position < len(code):
        instruction = _one(padded[position : position + 16], first + position, arch)
        found.append(instruction)
        position += instruction.size
    return found


def _one(data: bytes, address: int, arch: str) -> Instruction:
    word = int.from_bytes(data[:4], "little")
    override = _gfx90a(word) if arch == "gfx90a" else None
    matched = _match(GENERATIONS[arch], data)
    if matched is None and override is not None:
        matched = _donor(override[0]), override[1]
    if matched is None:
        raise UnsupportedInstruction(
            f"the word 0x{word:08x} at 0x{address:x} is not an instruction that the emulator of "
            f"{arch} knows. Compile the kernel again, or report it with the kernel's source."
        )
    form, name = matched
    if override is not None:
        name = override[1]
    first, _, second = name.partition("+")
    mnemonic = _name(first)
    raw = int.from_bytes(data, "little")
    kind = type(form).__name__ if not isinstance(form, type) else form.__name__
    sdwa = "SDWA" in kind
    base = _SUFFIXES.sub("", kind.replace("_SDWA_SDST", "").replace("_SDWA", "")).lower()
    base = _FORMATS.get(base, base)
    fields = {
        _FIELDS.get(key, key) if base in ("flat", "global", "scratch", "mubuf", "smem") else key: (
            raw >> field.lo
        )
        & field.mask
        for key, field in form._fields
        if key not in ("encoding", "seg")
    }
    if kind == _SCALED:
        base = "mfma"
    elif (kind.startswith("VOP3P_") and "_MFMA" in kind) or "mfma" in mnemonic:
        base = "mfma"
        fields.update(acc=raw >> 59 & 3, acc_cd=raw >> 15 & 1, cbsz=raw >> 8 & 7)
        fields.update(abid=raw >> 11 & 15, blgp=raw >> 61 & 7)
    if base in ("global", "scratch", "smem") or (base == "flat" and arch == "gfx1201"):
        field = dict(form._fields).get("offset") or dict(form._fields)["ioffset"]
        sign = (field.mask + 1) >> 1
        fields["offset"] = (fields["offset"] ^ sign) - sign
    size = 8 if base.startswith(("vop3", "vopd", "mfma")) else form._base_size
    if kind == _SCALED:
        size = 16
    if base in ("vop1", "vop2", "vopc", "sop1", "sop2", "sopc", "sopk", "sopp"):
        size = 4
    literal, dpp = None, None
    extra = int.from_bytes(data[size : size + 4], "little")
    sources = [fields[s] for s in _SOURCES if s in fields]
    # a transposed VOP2 form has the literal without a source that asks for it
    wants = any(part in mnemonic or part in second.lower() for part in _WITH_LITERAL)
    if sdwa:
        size = 8
    elif _LITERAL in sources or wants:
        literal, size = extra, size + 4
    elif base.startswith("vop") and base != "vopd" and fields.get("src0") == _DPP16:
        dpp, size = _dpp16(extra), size + 4
    elif (
        base.startswith("vop")
        and fields.get("src0") in (_DPP8, _DPP8FI)
        and "rdna" in form_of(arch)
    ):
        inactive = fields["src0"] == _DPP8FI
        dpp = Dpp(extra & 255, extra >> 8, eight=True, inactive=inactive)
        size += 4
    return Instruction(
        address,
        size,
        mnemonic,
        base,
        arch,
        fields,
        literal,
        dpp,
        sdwa,
        _name(second) if second else "",
    )


def form_of(arch: str) -> str:
    """tinygrad's name of the arch's generation."""
    return GENERATIONS[arch]


def _dpp16(word: int) -> Dpp:
    return Dpp(
        register=word & 255,
        control=word >> 8 & 0x1FF,
        zero=bool(word >> 19 & 1),
        inactive=bool(word >> 18 & 1),
        bank_mask=word >> 24 & 15,
        row_mask=word >> 28 & 15,
        negate=(word >> 20 & 1) | (word >> 21 & 2),
        absolute=(word >> 21 & 1) | (word >> 22 & 2),
    )


def _gfx90a(word: int) -> tuple[str, str] | None:
    """Format and name, where gfx90a differs from the tables."""
    if word >> 31 == 0:
        key = ("VOP2", word >> 25 & 0x3F)
    elif word >> 23 == 0b110100111:  # lies within VOP3's range
        key = ("VOP3P", word >> 16 & 0x7F)
    elif word >> 26 == 0b111000:
        key = ("MUBUF", word >> 18 & 0x7F)
    elif word >> 26 == 0b110100:
        key = ("VOP3", word >> 16 & 0x3FF)
    else:
        return None
    name = _GFX90A.get(key)
    return None if name is None else (key[0], name)


@cache
def _donor(kind: str) -> Any:
    """A format by its name."""
    return next(form for form in _tables()["cdna"] if form.__name__ == kind)
