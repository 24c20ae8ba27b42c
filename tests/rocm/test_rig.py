"""The rig itself: AMD's HIP reaches the emulator with what was launched, and sees its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")


#: Debian's HIP 6.4.3 knows no gfx950.
KNOWN = {"6": tuple(arch for arch in ARCHS if arch != "gfx950"), "7": ARCHS}
CASES = [("7", "gfx942"), *((hip, arch) for hip in KNOWN for arch in KNOWN[hip])]


@pytest.mark.parametrize(
    ("hip", "arch"), [CASES[0], *(pytest.param(*c, marks=pytest.mark.long) for c in CASES[1:])]
)
def test_arguments_arrive_as_they_were_launched(scene: Any, hip: str, arch: str) -> None:
    scene("scenes_rig.arguments_arrive", arch, hip=hip)


@pytest.mark.parametrize("hip", ["6", "7"])
def test_all_gpus_are_seen_and_none_is_called_silicon(scene: Any, hip: str) -> None:
    lines = scene("scenes_rig.devices", *KNOWN[hip], hip=hip).stdout.splitlines()
    assert [line for line in lines if line.startswith("amd:")] == [
        f"amd:{i} amd:{arch} emulator AMD GPU {arch}" for i, arch in enumerate(KNOWN[hip])
    ]


def test_several_gpus_of_different_kinds(scene: Any) -> None:
    scene("scenes_rig.several_gpus", "gfx942", "gfx1100", "gfx1201")


def test_code_in_the_place_of_other_code(scene: Any) -> None:
    scene("scenes_rig.code_in_the_place_of_other_code", "gfx1100", XTARGET_MODULES="1")


def test_a_fork_beside_the_device(scene: Any) -> None:
    scene("scenes_rig.a_fork_beside_the_device", "gfx1100")


def test_a_kernel_that_leaves_its_memory_ends_the_process(scene: Any) -> None:
    done = scene("scenes_rig.beyond_the_memory", "gfx1100", fails=True)
    assert done.stdout == "before\n"
    assert "reads 4 bytes at 0x2000000000" in done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("hip", ["6", "7"])
def test_large_copies_and_too_much_memory(scene: Any, hip: str) -> None:
    scene(["scenes_rig.large_copies", "scenes_rig.too_much_memory"], "gfx1100", hip=hip)
