"""The memory pool of a device, by the reports that ROCm has open on its own."""

from __future__ import annotations

from typing import Any

import pytest

SCENES = (
    "what_is_freed_is_kept",
    "others_may_want_more_kept",
    "the_pool_is_not_asked_for_what_does_not_fit",
)


def test_the_pool_of_one_process(scene: Any) -> None:
    scene([f"scenes_memory.{name}" for name in SCENES], "gfx1100")


@pytest.mark.long
@pytest.mark.parametrize("hip", ["7", "6"])
@pytest.mark.parametrize("name", SCENES)
def test_the_pool(scene: Any, name: str, hip: str) -> None:
    scene(f"scenes_memory.{name}", "gfx1100", hip=hip)
