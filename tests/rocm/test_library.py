"""The copy of HIP that the driver uses: torch's wheels, distributions and users bring several."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("hip", ["6", "7"])
def test_a_library_without_the_bare_name(scene: Any, rig: Any, hip: str) -> None:
    folder = rig.python(hip, "gfx1100", link=False).parents[1] / "lib"
    scene(
        "scenes_library.without_the_bare_name",
        "gfx1100",
        hip=hip,
        link=False,
        XTARGET_TEST_FOLDER=str(folder),
    )


@pytest.mark.parametrize(
    "name",
    [
        "torch_was_imported_before",
        "torch_is_imported_afterwards",
        "another_copy_comes_afterwards",
        "memory_of_nobody",
    ],
)
def test_a_second_copy(scene: Any, name: str) -> None:
    scene(f"scenes_library.{name}", "gfx1100")
