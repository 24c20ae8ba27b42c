"""Instructions as LLVM 22 assembles and prints them, by their arch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LISTING", "Listed"]


class Listed(NamedTuple):
    """An instruction: its arch, its bytes in hexadecimal digits, and its text."""

    arch: str
    code: str
    text: str


_LINES = """
gfx90a   0440b2d306110218  v_pk_add_f32 v[4:5], v[6:7], v[8:9]
gfx942   0671087e          v_mov_b64_e32 v[4:5], v[6:7]
gfx942   040008d206052104  v_lshl_add_u64 v[4:5], v[6:7], 2, v[8:9]
gfx942   0448b3d306110218  v_pk_mov_b32 v[4:5], v[6:7], v[8:9] op_sel:[1,0]
gfx1100  05003cd782080200  v_lshlrev_b64 v[5:6], 2, v[4:5]
gfx1100  04003dd782080200  v_lshrrev_b64 v[4:5], 2, v[4:5]
gfx1100  040027d706110200  v_add_f64 v[4:5], v[6:7], v[8:9]
gfx1100  06828484          s_lshl_b64 s[4:5], s[6:7], 2
gfx1100  0608848b          s_and_b64 s[4:5], s[6:7], s[8:9]
gfx1100  061150ca09010404  v_dual_cndmask_b32 v4, v6, v8 :: v_dual_mov_b32 v5, v9
gfx1201  047cfed6120d4004  v_mad_co_u64_u32 v[4:5], null, v18, s6, v[16:17]
gfx1201  060884aa          s_mul_u64 s[4:5], s[6:7], s[8:9]
gfx1201  040080d606000000  v_s_exp_f32 s4, s6
"""
LISTING = [Listed(*line.split(maxsplit=2)) for line in _LINES.strip().splitlines()]
