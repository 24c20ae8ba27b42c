"""Scenes of one process each, or of one process for those of a file: captures, which HIP 6.4.3 and
7.2.4 answer some calls in with a null pointer's end, and the memory pool of a device, by the
reports that ROCm has open on its own."""

from __future__ import annotations

from typing import Any

import pytest

SCENES = {
    "capture": (
        "arrays_are_dropped",
        "memory_comes_back",
        "results_are_allocated",
        "modules_are_dropped",
        "a_graph_of_launches",
        "a_graph_of_ours",
        "nothing_disturbs_the_making_of_a_graph",
        "a_graph_of_calls",
        "memory_and_events_of_the_graph",
        "waiting_is_refused",
        "copies_are_refused",
        "an_error_leaves_nothing_behind",
        "a_graph_outlives_its_function",  # last, as it bounds how many modules stay
    ),
    "memory": (
        "what_is_freed_is_kept",
        "others_may_want_more_kept",
        "the_pool_is_not_asked_for_what_does_not_fit",
    ),
}


@pytest.mark.parametrize("file", SCENES)
def test_the_scenes_of_one_process(scene: Any, file: str) -> None:
    scene([f"scenes_{file}.{name}" for name in SCENES[file]], "gfx1100")


@pytest.mark.long
@pytest.mark.parametrize("hip", ["7", "6"])
@pytest.mark.parametrize("name", [f"{file}.{name}" for file in SCENES for name in SCENES[file]])
def test_a_scene(scene: Any, name: str, hip: str) -> None:
    scene(f"scenes_{name}", "gfx1100", hip=hip)


def test_a_capture_of_a_pipelined_kernel(scene: Any) -> None:
    scene("scenes_capture.a_pipelined_kernel", "gfx950")
