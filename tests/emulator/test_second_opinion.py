"""The emulator reads machine code as LLVM's disassembler does; where it would not, that shows."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import ARCHS, compiled
from listing import LISTING, Listed

from xtarget_emulator.decode import Instruction, _name, decode

sys.path.insert(0, str(Path(__file__).parents[2] / "ci"))
import second_opinion
from amd_operands import conflict, expected
from amd_text import Text

#: Instructions of the listing with one mistake each, and what is said of it.
_MISREAD = [
    ("gfx942", "0671087e", "v_mov_b64_e32 v[4:5], v[8:9]", "operands"),
    ("gfx942", "0671087e", "v_mov_b32_e32 v4, v6", "v_mov_b32 for"),
    ("gfx942", "040008d206052104", "v_lshl_add_u64 v[4:5], v[6:7], 3, v[8:9]", "operands"),
    ("gfx942", "040008d206052104", "v_lshl_add_u64 v[4:5], v[6:7], -2, v[8:9]", "operands"),
    ("gfx90a", "0440b2d306110218", "v_pk_add_f32 v[4:5], v[6:7], v[8:9] neg_lo:[1,0]", "neg_lo"),
    ("gfx1100", "06828484", "s_lshl_b64 s[4:5], s[6:7], s2", "operands"),
    ("gfx1100", "061150ca09010404",
     "v_dual_cndmask_b32 v4, v6, v8 :: v_dual_mov_b32 v7, v9", "operands"),
    ("gfx1201", "047cfed6120d4004",
     "v_mad_co_u64_u32 v[4:5], s0, v18, s6, v[16:17]", "operands"),
]  # fmt: skip


#: Fields that every instruction of a format has a use for.
_ALU = ("src0", "vsrc1", "ssrc0", "ssrc1")
_USED: dict[str, tuple[str, ...]] = {
    "ds": ("addr",), "global": ("addr",), "mubuf": ("data", "srsrc"), "smem": ("sdata", "sbase"),
    "scratch": (), "vopd": ("vdstx", "vdsty", "srcx0", "srcy0"), "sopp": (), "sopk": (),
}  # fmt: skip


def _one(arch: str, code: str) -> Instruction:
    (instruction,) = decode(bytes.fromhex(code), arch)
    return instruction


@pytest.mark.parametrize("listed", LISTING, ids=lambda listed: listed.text)
def test_what_is_read_right_is_no_conflict(listed: Listed) -> None:
    ins = _one(listed.arch, listed.code)
    assert conflict(ins, ins.size, listed.text, _name) == ""
    assert conflict(ins, ins.size + 4, listed.text, _name).startswith(f"{ins.size + 4} b")


@pytest.mark.parametrize(("arch", "code", "text", "said"), _MISREAD)
def test_what_is_read_wrong_is_a_conflict(arch: str, code: str, text: str, said: str) -> None:
    ins = _one(arch, code)
    assert said in conflict(ins, ins.size, text, _name)


def _binaries() -> list[tuple[str, bytes]]:
    block = (("block", 256),)
    return [
        (f"{name}-{arch}", compiled(name, signature, arch, constants=block).binary)
        for arch in ARCHS
        for name, signature in (("total", "x:*fp32 o:*fp32"), ("sort", "x:*fp32 o:*fp32"))
    ]


def test_llvm_reads_the_same(capsys: Any) -> None:
    llvm = second_opinion.Llvm()
    if llvm.missing:
        pytest.skip(llvm.missing)
    count, wrong = second_opinion.compare(_binaries(), llvm)
    assert not wrong, "\n".join(wrong[:20])
    assert set(count) == set(ARCHS)
    assert min(count.values()) > 100


def test_a_field_that_is_read_wrong_shows() -> None:
    """Of instructions with one operand changed, as a decoder with a mistake would have it."""
    llvm = second_opinion.Llvm()
    if llvm.missing:
        pytest.skip(llvm.missing)
    rng, tried, found = random.Random(3), 0, 0
    codes: list[tuple[str, bytes]] = []
    for _, data in _binaries():
        arch, functions = second_opinion.kernels(data)
        codes += [(arch, code) for code in functions]
    for (arch, code), texts in zip(codes, llvm.read(codes), strict=True):
        for ins, (size, text) in zip(decode(code, arch), texts, strict=True):
            used = _USED.get(ins.format, _ALU) if ins.dpp is None and not ins.sdwa else ()
            slots = [slot for slot in used if slot in ins.fields]
            if not slots or not expected(ins, Text(text, ins.cdna)):
                continue  # operands that are not looked at
            slot = rng.choice(slots)
            wrong = replace(ins, fields={**ins.fields, slot: ins.fields[slot] ^ 1})
            tried += 1
            found += bool(conflict(wrong, size, text, _name))
    print(f"{found} of {tried} instructions with one operand misread show")
    assert tried > 1000
    assert found == tried


def test_a_library_that_is_none_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_LIBLLVM", str(tmp_path / "libLLVM.so"))
    assert second_opinion.report([])
    assert "AMD's instructions have no second opinion: " in capsys.readouterr().out
