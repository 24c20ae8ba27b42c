"""Results of instructions of which some operands were never written."""

from __future__ import annotations

import numpy as np
import pytest
from listing import LISTING

from xtarget_emulator.decode import decode
from xtarget_emulator.group import Group
from xtarget_emulator.memory import Arena
from xtarget_emulator.program import Program
from xtarget_emulator.waves import SCC, SGPR, VCC, Waves

#: For each: an instruction, registers that hold nothing before (all others do), and after.
_CASES = [
    ("v_mad_co_u64_u32", "v17", "v5 v17"),
    ("v_mad_co_u64_u32", "v16", "v4 v5 v16"),
    ("v_mad_co_u64_u32", "v18", "v4 v5 v18"),
    ("v_lshl_add_u64", "v7", "v5 v7"),
    ("v_lshl_add_u64", "v8", "v4 v5 v8"),
    ("v_lshlrev_b64", "v5", "v6"),
    ("v_lshrrev_b64", "v4", "v4"),
    ("v_lshrrev_b64", "v5", "v4 v5"),
    ("v_pk_add_f32", "v9", "v5 v9"),
    ("v_pk_mov_b32", "v7", "v4 v7"),
    ("v_mov_b64", "v6", "v4 v6"),
    ("s_lshl_b64", "s7", "s5 s7 scc"),
    ("s_and_b64", "s8", "s4 s8"),
    ("s_mul_u64", "s9", "s5 s9"),
    ("s_mul_u64", "s6", "s4 s5 s6"),
    ("v_add_f64", "v6", "v4 v5 v6"),
    ("v_s_exp_f32", "s6", "s4 s6"),
]


def _number(name: str) -> int:
    return int(name[1:]) + (SGPR if name[0] == "s" else 0)


def _run(arch: str, code: str, blank: str, mask: int = -1, vcc: int = 0) -> dict[str, str]:
    """Names of undefined registers to those of the first four lanes that hold nothing, as bits."""
    data = bytes.fromhex(code)
    lanes = 32 if arch.startswith("gfx1") else 64
    group = Group(Arena(1 << 16), np.zeros((1, 3), int), 1, 0, np.zeros((1, lanes, 0), np.uint8))
    waves = Waves.fresh(group, np.zeros(1, int), 24, 0, lanes)
    nothing = waves.undefined
    waves.undefined = {_number(name): nothing[_number(name)] for name in blank.split()}
    waves.s[126:128], waves.s[VCC] = mask & 0xFFFFFFFF, vcc
    waves.set_exec()
    program = Program("kernel", arch, decode(data, arch))
    with np.errstate(all="ignore"):
        program._block(waves, program.blocks[0])
    return {
        ("scc" if r == SCC else f"s{r - SGPR}" if r >= SGPR else f"v{r}"): "".join(
            "01"[int(b)] for b in bits[0, :4]
        )
        for r, bits in waves.undefined.items()
    }


@pytest.mark.parametrize(("name", "blank", "expected"), _CASES)
def test_a_half_is_undefined_if_it_depends_on_what_is(name: str, blank: str, expected: str) -> None:
    (found,) = (listed for listed in LISTING if listed.text.startswith(name))
    assert set(_run(found.arch, found.code, blank)) == set(expected.split()), found.text


@pytest.mark.parametrize(
    ("blank", "expected"),
    [("v6", "1100"), ("v8", "0011"), ("v6 v8", "1111"), ("v9", None)],
)
def test_a_choice_is_undefined_where_the_chosen_value_is(blank: str, expected: str | None) -> None:
    # v_dual_cndmask_b32 v4, v6, v8 :: v_dual_mov_b32 v5, v9; VCC has lanes 2 and 3 set
    undefined = _run("gfx1100", "061150ca09010404", blank, vcc=0b1100)
    assert undefined.get("v4") == expected
    assert undefined.get("v5") == ("1111" if blank == "v9" else None)


def test_an_inactive_lane_keeps_what_it_has() -> None:
    # v_mov_b64 v[4:5], v[6:7], with lanes 0 and 1 active
    before = _run("gfx942", "0671087e", "v4 v7", mask=0b0011)
    assert before == {"v4": "0011", "v5": "1100", "v7": "1111"}


def test_a_scalar_result_does_not_depend_on_the_active_lanes() -> None:
    # v_s_exp_f32 s4, s6, with one lane active
    assert _run("gfx1201", "040080d606000000", "s4", mask=0b0001) == {}
