"""Texts that users may write for a target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xtarget
from xtarget import Target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("nvidia:sm_90", "nvidia:sm_90"),
        ("cuda:90", "nvidia:sm_90"),
        ("cuda:sm_90", "nvidia:sm_90"),
        ("CUDA:9.0", "nvidia:sm_90"),
        ("nvidia:sm_100", "nvidia:sm_100"),
        ("hip:gfx942", "amd:gfx942"),
        ("rocm:gfx1100", "amd:gfx1100"),
        ("amd:gfx942:sramecc+:xnack-", "amd:gfx942"),
        ("xpu", "intel:spirv64"),
        ("intel", "intel:spirv64"),
        ("cpu", "cpu:spirv64"),
        (" cpu:spirv64 ", "cpu:spirv64"),
        ("h200", "nvidia:sm_90"),
        ("H200", "nvidia:sm_90"),
        ("mi300x", "amd:gfx942"),
        ("Strix Halo", "amd:gfx1151"),
        ("RX 7800 XT", "amd:gfx1101"),
        ("RX 7600", "amd:gfx1102"),
        ("W7900", "amd:gfx1100"),
        ("RX 9060 XT", "amd:gfx1200"),
        ("MI-300X", "amd:gfx942"),
        ("RX 7900 XTX", "amd:gfx1100"),
        ("bmg", "intel:spirv64"),
        ("acme:thing_2", "acme:thing_2"),
    ],
)
def test_a_target_can_be_written_in_many_ways(text: str, target: str) -> None:
    assert str(Target.parse(text)) == target
    assert Target.parse(Target.parse(text)) == Target.parse(text)


@pytest.mark.parametrize(
    "text", ["", ":", "nvidia", "nvidia:", "nvidia:hopper", "amd:942", "a b:c"]
)
def test_what_is_no_target_is_refused_with_examples(text: str) -> None:
    with pytest.raises(xtarget.UnknownTargetError, match=r"nvidia:sm_90.*amd:gfx942"):
        Target.parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_a_clear_error(text: str) -> None:
    try:
        target = Target.parse(text)
    except xtarget.UnknownTargetError:
        return
    # the parts become folder names of the cache
    for part in (target.vendor, target.arch):
        assert part
        assert "/" not in part
        assert part not in (".", "..")


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel", "cpu"])
def test_a_target_the_compiler_does_not_know_lists_those_it_knows(vendor: str) -> None:
    layout = xtarget.spec.ArrayType("float32", (64,), (1,))
    arch = {"nvidia": "sm_42", "amd": "gfx000"}.get(vendor, "spirv16")
    with pytest.raises(xtarget.UnknownTargetError, match=vendor):
        xtarget.compile("add", layout, layout, target=f"{vendor}:{arch}")


def test_a_vendor_nobody_knows_is_refused() -> None:
    layout = xtarget.spec.ArrayType("float32", (64,), (1,))
    with pytest.raises(xtarget.UnknownTargetError, match="nvidia, amd, intel, cpu"):
        xtarget.compile("add", layout, layout, target="acme:thing")
