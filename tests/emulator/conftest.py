"""The emulator's own tests need its tables and Triton."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [m for m in ("tinygrad", "triton") if importlib.util.find_spec(m) is None]
    if not missing:
        return
    here = str(Path(__file__).parent)
    reason = f"not installed: {', '.join(missing)} (xtarget[emulate,compile])"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def look_for_races(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let every emulated device look for races, up to a number of instructions a launch."""
    from harness import ARCHS, device

    from xtarget_emulator.launch import Limits

    def look(instructions: int) -> None:
        for arch in ARCHS:
            hip = device(arch).hip
            monkeypatch.setattr(hip, "limits", Limits(instructions, True))

    return look
