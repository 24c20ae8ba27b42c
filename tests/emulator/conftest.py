"""The emulator's own tests need its tables and Triton."""

from __future__ import annotations

import importlib.util
import sys
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
