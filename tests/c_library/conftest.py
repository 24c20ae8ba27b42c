"""A bundle for CPUs, small enough to be built in seconds, and libxtarget as a shared library."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundles import only_examples

from libxtarget import Library, compiled, use_wheels
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget.spec import Example

EXAMPLES: dict[str, list[Example]] = {
    "relu": [Example(((n,),)) for n in (4096, 4095)],
    "add": [Example(shapes) for shapes in (((64, 48),) * 2, ((64, 48), None), (None, (64, 48)))],
    "softmax": [Example(((64, 1000),))],
    "sum": [Example(((64, 1000),), {"axis": 1})],
}


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle."""
    folder = tmp_path_factory.mktemp("c_bundle")
    with only_examples(EXAMPLES, folder / "cache"):
        order = Order((*EXAMPLES, "relu"), ("float32",), (Target("cpu", "spirv64"),))
        report = build(order, folder / "kernels.xtb", workers=2, seconds=100)
        assert not report.errors
    return folder / "kernels.xtb"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libxtarget.so."""
    return compiled(
        tmp_path_factory.mktemp("libxtarget") / "libxtarget.so",
        flags=("-O1", "-shared", "-fPIC", "-fvisibility=hidden"),
    )


@pytest.fixture
def library(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    use_wheels(monkeypatch)
    monkeypatch.delenv("XTARGET_TRUST", raising=False)
    return Library(shared)
