"""The default device is one that Triton compiles for: many machines have an old GPU inside."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("gpus", "wanted"),
    [(("gfx1036", "gfx1100"), "amd:1"), (("gfx1030",), "cpu:0")],
)
def test_a_gpu_that_triton_does_not_compile_for(scene: Any, gpus: Any, wanted: str) -> None:
    pytest.importorskip("pyopencl", reason="the CPU is what such a machine falls back to")
    scene("scenes_default.the_one_that_there_are_kernels_for", *gpus, XTARGET_TEST_WANTED=wanted)
