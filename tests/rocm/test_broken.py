"""Machines where something is missing, or goes away: a sentence, and no hang."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("hip", ["6", "7"])
def test_a_library_without_its_hsa(scene: Any, hip: str) -> None:
    scene("scenes_broken.without_its_hsa", "gfx1100", hip=hip)


def test_two_versions_on_the_path(scene: Any, rig: Any) -> None:
    folders = [str(rig.python(hip, "gfx1100", link=False).parents[1] / "lib") for hip in "67"]
    path = os.pathsep.join(folders)
    scene(
        "scenes_broken.two_versions_on_the_path", "gfx1100", link=False, XTARGET_TEST_FOLDERS=path
    )


def test_an_arch_that_is_not_known(scene: Any) -> None:
    scene("scenes_broken.an_arch_that_is_not_known", "gfx1036")


def test_a_device_that_vanishes(scene: Any) -> None:
    done = scene(
        "scenes_broken.a_device_that_vanishes",
        "gfx1100",
        fails=True,
        XTARGET_TEST_RIG_FAULT="lost",
    )
    assert done.stdout == "before\n"
    assert "the device is gone" in done.stderr


def test_a_device_that_does_not_answer(scene: Any) -> None:
    """Looking at it does not wait for its work."""
    scene("scenes_broken.a_device_that_does_not_answer", "gfx1100", XTARGET_TEST_RIG_FAULT="silent")


@pytest.mark.parametrize("hip", ["7", pytest.param("6", marks=pytest.mark.long)])
def test_opening_a_device_that_does_not_answer(scene: Any, hip: str) -> None:
    name = "scenes_broken.opening_a_device_that_does_not_answer"
    assert "told" in scene(name, "gfx1100", hip=hip, XTARGET_TEST_RIG_FAULT="silent").stdout


@pytest.mark.parametrize("fault", ["silent", "hung"])
def test_a_command_on_a_device_that_does_not_answer(scene: Any, fault: str) -> None:
    """Its process ends, which HIP's finalizers would not let it."""
    name = "scenes_broken.a_command_on_a_device_that_does_not_answer"
    scene(name, "gfx1100", XTARGET_TEST_RIG_FAULT=fault)


@pytest.mark.parametrize("hip", ["7", pytest.param("6", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["a_kernel_that_does_not_end", "a_call_that_does_not_end"])
def test_work_that_does_not_end(scene: Any, name: str, hip: str) -> None:
    """A kernel may take any time; the wait for it can be limited and interrupted."""
    done = scene(f"scenes_broken.{name}", "gfx1100", hip=hip, XTARGET_TEST_RIG_FAULT="hung")
    assert "told" in done.stdout


def test_a_copy_that_does_not_end(scene: Any) -> None:
    name = "scenes_broken.a_copy_that_does_not_end"
    assert "told" in scene(name, "gfx1100", XTARGET_TEST_RIG_FAULT="stuck").stdout


def test_a_kernel_that_is_late(scene: Any, tmp_path: Path) -> None:
    faults = {"XTARGET_TEST_RIG_FAULT": "late", "XTARGET_TEST_RIG_GATE": str(tmp_path / "gate")}
    scene("scenes_broken.a_kernel_that_is_late", "gfx1100", **faults)
