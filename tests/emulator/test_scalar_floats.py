"""Floats on gfx12's scalar unit: what comparisons say of NaN, and halves in a whole register."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xtarget_emulator.scalar_floats import RELATIONS, RULES

NAN = np.float32("nan")


def column(*values: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype).reshape(-1, 1)


@pytest.mark.parametrize("name", ["eq", "lg", "gt", "ge", "lt", "le"])
def test_with_a_nan_a_relation_is_false_and_its_negation_true(name: str) -> None:
    a, b = column(NAN, 1, NAN, 1, 1, 2), column(1, NAN, NAN, 1, 2, 1)
    relation, negation = RELATIONS[name](a, b), RELATIONS[f"n{name}"](a, b)
    assert (relation == ~negation).all()
    assert not relation[:3].any()


def test_ordered_and_unordered() -> None:
    a, b = column(NAN, 1, 1), column(1, NAN, 2)
    assert RELATIONS["u"](a, b).ravel().tolist() == [True, True, False]
    assert RELATIONS["o"](a, b).ravel().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("name", "operands", "bits"),
    [
        ("s_cvt_f16_f32", [column(-1.0)], 0xBC00),
        ("s_add_f16", [column(1, dtype=np.float16), column(2, dtype=np.float16)], 0x4200),
        ("s_fmac_f16", [column(v, dtype=np.float16) for v in (2, 3, -6)], 0),
        ("s_cvt_pk_rtz_f16_f32", [column(1.0), column(-2.0)], 0xC0003C00),
        ("s_cvt_hi_f32_f16", [column(0x3C00FFFF, dtype=np.uint32)], 0x3F800000),
        ("s_fmac_f32", [column(2), column(3), column(1)], 0x40E00000),
        ("s_min_num_f32", [column(NAN), column(3)], 0x40400000),
        ("s_maximum_f32", [column(4), column(3)], 0x40800000),
        ("s_rndne_f32", [column(2.5)], 0x40000000),
        ("s_cvt_i32_f32", [column(-1e30)], 0x80000000),
    ],
)
def test_results(name: str, operands: list[np.ndarray[Any, Any]], bits: int) -> None:
    value = np.ascontiguousarray(RULES[name][2](*operands))
    assert int(value.view(np.uint32)[0, 0]) == bits
