"""A bundle for CPUs, small enough to be built in seconds, and libxtarget as a shared library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from libxtarget import Library, compiled, use_wheels
from xtarget import Target
from xtarget._bundle.builder import classes
from xtarget._bundle.builder.build import Order, build
from xtarget._kernels import libraries
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
    before = {name: libraries.find(name) for name in EXAMPLES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XTARGET_CACHE_DIR", str(folder / "cache"))
        patch.setattr(classes, "COMPUTE_UNITS", (64,))
        for name, examples in EXAMPLES.items():
            kernel = before[name]
            spec = replace(kernel.spec, ahead=lambda full, examples=examples: examples)
            libraries._kernels[name] = replace(kernel, spec=spec)
        try:
            order = Order((*EXAMPLES, "relu"), ("float32",), (Target("cpu", "spirv64"),))
            report = build(order, folder / "kernels.xtb", workers=2, seconds=100)
            assert not report.errors
        finally:
            libraries._kernels.update(before)
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
