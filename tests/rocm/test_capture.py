"""Captures, which HIP 6.4.3 and 7.2.4 answer some calls in with a null pointer's end."""

from __future__ import annotations

from typing import Any

import pytest

SCENES = (
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
)


def test_captures_of_one_process(scene: Any) -> None:
    scene([f"scenes_capture.{name}" for name in SCENES], "gfx1100")


@pytest.mark.long
@pytest.mark.parametrize("hip", ["7", "6"])
@pytest.mark.parametrize("name", SCENES)
def test_a_capture(scene: Any, name: str, hip: str) -> None:
    scene(f"scenes_capture.{name}", "gfx1100", hip=hip)


def test_a_capture_of_a_pipelined_kernel(scene: Any) -> None:
    scene("scenes_capture.a_pipelined_kernel", "gfx950")
