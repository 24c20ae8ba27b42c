"""One instruction as LLVM prints it, and as the emulator reads it: where do they differ?"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from amd_text import ACC, FIXED_MOVES, Number, Text, V

#: The formats whose operands the emulator does not look at: waits, hints, barriers, modes.
_OPAQUE = re.compile(
    r"^s_(nop|wait|clause|delay_alu|sleep|sendmsg|set|endpgm|barrier|code_end|trap|getreg|icache|"
    r"inst_prefetch|dcache|version|gl1_inv)|^(buffer|global)_(inv|wb|gl\d)|^v_nop|^ds_nop"
)
_SELECTIONS = {f"BYTE_{i}": i for i in range(4)} | {"WORD_0": 4, "WORD_1": 5, "DWORD": 6}
_UNUSED = {"UNUSED_PAD": 0, "UNUSED_SEXT": 1, "UNUSED_PRESERVE": 2}
_MOVES = {"row_shl": 0x100, "row_shr": 0x110, "row_ror": 0x120, "row_share": 0x150,
          "row_newbcast": 0x150, "row_xmask": 0x160}  # fmt: skip


# ----------------------------------------------------------------------------- what we have read


class Reading:
    """One instruction as the emulator reads it: its operands in LLVM's order."""

    def __init__(self, ins: Any) -> None:
        self.ins, self.fields = ins, ins.fields
        self.cdna: bool = ins.cdna

    def source(self, slot: str) -> Any:
        """A source operand; DPP and SDWA have the first one elsewhere."""
        ins, code = self.ins, self.fields[slot]
        if slot.startswith("vsrc"):
            code += V
        if slot == "src0" and ins.dpp is not None:
            return V + ins.dpp.register
        if ins.sdwa and slot == "src0":
            return self.fields["vsrc0"] + (0 if self.fields["s0"] else V)
        if ins.sdwa and slot == "vsrc1":
            return code - (V if self.fields["s1"] else 0)
        if ins.format == "mfma":
            number = {"src0": 0, "src1": 1}.get(slot)
            acc = self.fields["acc_cd"] if number is None else self.fields["acc"] >> number & 1
            return code + (ACC - V if acc and code >= V else 0)
        if code == 255:
            return (255, ins.literal)
        return code

    def data(self, slot: str) -> int:
        return int(self.fields[slot]) + (ACC if self.fields.get("acc") else V)


def expected(ins: Any, text: Text) -> list[Any] | None:
    """The operands in the order in which LLVM prints them; None where they are not looked at."""
    r = Reading(ins)
    f, form, name = ins.fields, ins.format, ins.mnemonic
    if _OPAQUE.match(name):
        return None
    if form == "sopp":
        return [f["simm16"]]
    if form == "sopk":
        return [f["sdst"], f["simm16"]]
    if form == "sop1":
        first = [] if name in ("s_setpc_b64", "s_barrier_signal", "s_rfe_b64") else [f["sdst"]]
        return first + ([] if name == "s_getpc_b64" else [r.source("ssrc0")])
    if form in ("sop2", "sopc"):
        sources = [r.source("ssrc0"), r.source("ssrc1")]
        if "fmaak" in name or "fmamk" in name:
            sources.insert(1 if "fmamk" in name else 2, (255, ins.literal))
        return ([f["sdst"]] if form == "sop2" else []) + sources
    if form == "smem":
        return _scalar_load(r)
    if form in ("vop1", "vop2", "vopc"):
        return _short(r)
    if form == "vopd":
        return _dual(r)
    if form in ("vop3", "vop3sd", "vop3p", "mfma"):
        return _long(r, text)
    if form == "ds":
        return _shared(r, text)
    return _global(r)


def _scalar_load(r: Reading) -> list[Any]:
    f = r.fields
    found: list[Any] = [f["sdata"], f["sbase"] * 2]
    if r.cdna:
        found += [f["soffset"]] if f["soffset_en"] else []
        return found + ([f["offset"]] if not f["soffset_en"] and f["imm"] else [])
    null = r.ins.arch == "gfx1100" and not f["offset"]  # LLVM has a way of its own for each
    return [*found, f["soffset"] if f["soffset"] != 124 or null else f["offset"]]


def _short(r: Reading) -> list[Any]:
    f, name, form = r.fields, r.ins.mnemonic, r.ins.format
    if form == "vop1":
        return [_scalar_or_vector(r), r.source("src0")] if "src0" in f else []
    if form == "vopc":
        first = [] if name.startswith("v_cmpx") and not r.cdna else [106]
        if r.ins.sdwa and f.get("sd"):
            first = [f["sdst"]]
        return [*first, r.source("src0"), r.source("vsrc1")]
    found = [V + f["vdst"]]
    found += [106] if "_co_" in name else []
    found.append(r.source("src0"))
    if "mk_" in name or "ak_" in name:
        literal = (255, r.ins.literal)
        return [*found, literal, r.source("vsrc1")] if "mk_" in name else [
            *found, r.source("vsrc1"), literal]  # fmt: skip
    found.append(r.source("vsrc1"))
    return [*found, 106] if "_ci_" in name or "cndmask" in name else found


def _scalar_or_vector(r: Reading) -> int:
    name, register = r.ins.mnemonic, int(r.fields["vdst"])
    if name in ("v_readfirstlane_b32", "v_readlane_b32") or name.startswith(("v_s_", "v_cmp")):
        return register
    return register + (ACC if name in ("v_accvgpr_write_b32", "v_accvgpr_mov_b32") else V)


def _dual(r: Reading) -> list[Any]:
    f, found = r.fields, []
    for half, name in (("x", r.ins.mnemonic), ("y", r.ins.second)):
        register = f["vdst" + half]
        if half == "y":
            register = register << 1 | (f["vdstx"] & 1 ^ 1)
        found.append(V + register)
        found.append(r.source(f"src{half}0"))
        if "_mov_" not in name:
            literal = (255, r.ins.literal)
            found += [literal] if "fmamk" in name else []
            found.append(V + f[f"vsrc{half}1"])
            found += [literal] if "fmaak" in name else []
    return found


def _long(r: Reading, text: Text) -> list[Any]:
    """As many sources as LLVM prints; an encoding has three."""
    f, name = r.fields, r.ins.mnemonic
    first: list[Any] = [_scalar_or_vector(r)]
    if r.ins.format == "mfma":
        first = [f["vdst"] + (ACC if f["acc_cd"] else V)]
    if name in ("v_accvgpr_write", "v_accvgpr_write_b32"):
        first = [f["vdst"] + ACC]
    if name.startswith("v_cmpx") and not r.cdna:
        first = []
    if r.ins.format == "vop3sd":
        first.append(f["sdst"])
    found = [*first, *(r.source(slot) for slot in ("src0", "src1", "src2") if slot in f)]
    if name in ("v_accvgpr_read", "v_accvgpr_read_b32"):
        found[1] = f["src0"] + ACC - V
    if "scale_src0" in f:
        return [*found, f["scale_src0"], f["scale_src1"]]
    return found[: max(len(text.operands), len(first) + 1)]


def _shared(r: Reading, text: Text) -> list[Any]:
    f, name = r.fields, r.ins.mnemonic
    answers = "load" in name or "_rtn" in name or "permute" in name or "swizzle" in name
    answers = answers or "wrxchg" in name
    found = [r.data("vdst")] if answers else []
    found.append(V + f["addr"])
    if "load" not in name and "swizzle" not in name:
        found += [r.data("data0"), r.data("data1")]
    return found[: max(len(text.operands), 1)]


def _global(r: Reading) -> list[Any]:
    f, form, name = r.fields, r.ins.format, r.ins.mnemonic
    none = 127 if r.cdna else 124
    to_lds = "_lds_" in name or bool(f.get("lds"))
    if form == "mubuf":
        first = [f["srsrc"] * (1 if r.ins.arch == "gfx1201" else 4)]
        address: Any = V + f["addr"] if f["offen"] or f["idxen"] else "off"
        data = [] if to_lds else [r.data("data")]
        return [*data, address, *first, f["soffset"]]
    answers = "_atomic_" in name and (f.get("glc") or f.get("sc0") or f.get("th", 0) & 1)
    if form == "flat":
        scalar: list[Any] = []
    else:
        scalar = ["off" if f["saddr"] == none else f["saddr"]]
    address = V + f["addr"]
    if form == "scratch" and not f.get("sve"):
        address = "off"
    if "_load_" in name:
        return [*([] if to_lds else [r.data("vdst")]), address, *scalar]
    return [*([r.data("vdst")] if answers else []), address, r.data("data"), *scalar]


# ------------------------------------------------------------------------------------- comparing


def conflict(ins: Any, size: int, text: str, named: Callable[[str], str]) -> str:
    """The operands that the two disagree on; empty if they agree.

    Args:
        named: one name for all that mean the same.
    """
    if size != ins.size:
        return f"{size} bytes for {ins.size}, {ins}"
    parts = [part.strip() for part in text.split("::")]
    read = [Text(part, ins.cdna) for part in parts]
    names = [_plain(named(_plain(t.name))) for t in read]
    ours = [ins.mnemonic, ins.second] if ins.second else [ins.mnemonic]
    if names != [_plain(name) for name in ours]:
        return f"{' + '.join(names)} for {ins}"
    first = read[0]
    for other in read[1:]:
        first.operands += other.operands
    wanted = expected(ins, first)
    if wanted is None:
        return ""
    got = [_same(ins, a, b) for a, b in zip(first.operands, wanted, strict=False)]
    if len(first.operands) != len(wanted) or not all(got):
        return f"operands {first.operands} for {wanted}"
    return _options(ins, first)


def _plain(name: str) -> str:
    """Without the encoding; matrix products of CDNA2 as those of CDNA3 are called."""
    name = re.sub(r"(_e32|_e64|_dpp|_sdwa|_e64_dpp)+$", "", name)
    if name.startswith("v_mfma"):
        name = re.sub(r"(?<=\d)(bf16|f16|f32|f64|i8|xf32)(_1k)?$", r"_\1", name)
    return name


def _same(ins: Any, theirs: Any, ours: Any) -> bool:
    if isinstance(ours, tuple):
        return _literal(theirs, int(ours[1]))
    if isinstance(theirs, Number):
        if ours == int(theirs):  # an offset
            return True
        number = int(theirs)
        number -= (number >> 63 & 1) << 64 if number >= 0 else 0
        return bool(ours == (128 + number if number >= 0 else 192 - number))
    short = ins.format in ("vop1", "vop2", "vopc") and not ins.cdna
    if isinstance(theirs, int) and isinstance(ours, int) and short and ours - theirs == 128:
        return True  # a half: bit 7 is the upper one
    return bool(theirs == ours)


def _literal(theirs: Any, ours: int) -> bool:
    if isinstance(theirs, Number):
        return (int(theirs) - ours) % (1 << 32) == 0 or int(theirs) >> 32 == ours
    return isinstance(theirs, str) and theirs.startswith("lit")


def _options(ins: Any, text: Text) -> str:
    f, options = ins.fields, text.options
    checks: list[tuple[str, Any, Any]] = []
    if ins.format == "ds" and "2addr" in ins.mnemonic:
        checks += [(f"offset{i}", int(options.get(f"offset{i}", "0")), f[f"offset{i}"])
                   for i in (0, 1)]  # fmt: skip
    elif ins.format == "ds" and "swizzle" not in ins.mnemonic:
        checks.append(
            ("offset", int(options.get("offset", "0"), 0), f["offset1"] << 8 | f["offset0"])
        )
    elif ins.format in ("global", "flat", "scratch", "mubuf") or (
        ins.format == "smem" and not ins.cdna and f["soffset"] != 124
    ):
        checks.append(("offset", int(options.get("offset", "0"), 0), f["offset"]))
    if ins.dpp is not None:
        checks += _moved(ins.dpp, options)
    elif ins.sdwa:
        checks += [
            (key, _SELECTIONS[value], f[key])
            for key, value in options.items()
            if key[-4:] == "_sel"
        ]
        if "dst_unused" in options:
            checks.append(("dst_unused", _UNUSED[options["dst_unused"]], f["dst_unused"]))
    elif ins.format in ("vop3", "vop3sd"):
        checks += _signs(ins, text)
        bits = [int(b) for b in options.get("op_sel", "[]")[1:-1].split(",") if b]
        halves = text.halves
        if bits:
            # the destination's bit is the last one
            value = sum(b << (3 if i == len(bits) - 1 else i) for i, b in enumerate(bits))
            checks.append(("op_sel", value & 7, f["opsel"] & 7 & (1 << len(bits) - 1) - 1))
        elif not halves and "opsel" in f and "bitop3" not in ins.mnemonic:
            checks.append(("op_sel", 0, f["opsel"]))
    elif ins.format == "vop3p" and "opsel" in f:
        checks += _packed(ins, text)
    for what, theirs, ours in checks:
        if theirs != ours:
            return f"{what} {theirs} for {ours}"
    return ""


def _signs(ins: Any, text: Text) -> list[tuple[str, Any, Any]]:
    outputs = 2 if ins.format == "vop3sd" else 0 if (
        ins.mnemonic.startswith("v_cmpx") and not ins.cdna) else 1  # fmt: skip
    if "bitop3" in ins.mnemonic:
        table = ins.fields["neg"] | ins.fields["abs"] << 3 | ins.fields["omod"] << 6
        return [("bitop3", int(text.options.get("bitop3", "0"), 0), table)]
    negated = sum(1 << i - outputs for i, s in text.signs.items() if "-" in s)
    absolute = sum(1 << i - outputs for i, s in text.signs.items() if "|" in s)
    found = [("neg", negated, ins.fields.get("neg", 0))]
    return [*found, ("abs", absolute, ins.fields.get("abs", 0))]


def _packed(ins: Any, text: Text) -> list[tuple[str, Any, Any]]:
    f = ins.fields
    high = f["opsel_hi"] | f.get("opsel_hi2", 0) << 2
    found = []
    mixed = "_mix" in ins.mnemonic
    for option, ours in (("op_sel", f["opsel"]), ("op_sel_hi", high), ("neg_lo", f["neg"]),
                         ("neg_hi", f["neg_hi"])):  # fmt: skip
        if option not in text.options or mixed:
            continue
        bits = [int(b) for b in text.options[option][1:-1].split(",")]
        value = sum(bit << i for i, bit in enumerate(bits))
        found.append((option, value, ours & (1 << len(bits)) - 1))
    return found


def _moved(dpp: Any, options: dict[str, str]) -> list[tuple[str, Any, Any]]:
    if dpp.eight:
        lanes = [int(n) for n in options["dpp8"][1:-1].split(",")]
        return [("dpp8", sum(n << 3 * i for i, n in enumerate(lanes)), dpp.control)]
    control = None
    for key, value in options.items():
        if key == "quad_perm":
            control = sum(int(n) << 2 * i for i, n in enumerate(value[1:-1].split(",")))
        elif key in FIXED_MOVES:
            control = FIXED_MOVES[key]
        elif key in _MOVES:
            control = _MOVES[key] + int(value)
        elif key == "row_bcast":
            control = 0x142 if value == "15" else 0x143
    zero = "bound_ctrl" in options
    return [
        ("dpp", control, dpp.control),
        ("row_mask", int(options.get("row_mask", "0xf"), 0), dpp.row_mask),
        ("bank_mask", int(options.get("bank_mask", "0xf"), 0), dpp.bank_mask),
        ("bound_ctrl", zero, dpp.zero),
    ]
