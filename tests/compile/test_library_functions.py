"""The catalog calls no function of a device library that a vendor's lacks in this Triton."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from triton.language.extra.cuda import libdevice as of_nvidia
from triton.language.extra.hip import libdevice as of_amd

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


@pytest.mark.parametrize("library", [of_nvidia, of_amd], ids=["nvidia", "amd"])
def test_device_functions_of_the_catalog_are_in_the_library(library: object) -> None:
    texts = [path.read_text(encoding="utf-8") for path in KERNELS.rglob("*.py")]
    called = {name for text in texts for name in re.findall(r"libdevice\.([a-z]\w*)\(", text)}
    assert "nearbyint" in called
    assert not [name for name in sorted(called) if not hasattr(library, name)]
