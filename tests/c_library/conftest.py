"""A bundle for CPUs, small enough to be built in seconds, and libxtarget as a shared library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_bundles import only_examples

from libxtarget import Library, compiled, use_wheels
from xtarget import Target
from xtarget._bundle.builder.build import Order, build
from xtarget.spec import Example

EXAMPLES: dict[str, list[Example]] = {
    "relu": [
        *(Example(((n,),)) for n in (4096, 4095)),
        Example(((4096,),), {"config": {"block": 64}}),
    ],
    "add": [Example(shapes) for shapes in (((64, 48),) * 2, ((64, 48), None), (None, (64, 48)))],
    "softmax": [Example(((64, 1000),))],
    "sum": [Example(((64, 1000),), {"axis": 1})],
}


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle."""
    folder = tmp_path_factory.mktemp("c_bundle")
    return _built(folder / "kernels.xtb", folder / "cache")


@pytest.fixture(scope="session")
def by_zstd(path: Path) -> Path:
    """The same kernels, packed by zstd."""
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    pytest.importorskip(module)
    return _built(path.with_name("zstd.xtb"), path.with_name("cache"), compression="zstd")


def _built(path: Path, cache: Path, **options: str) -> Path:
    with only_examples(EXAMPLES, cache):
        order = Order((*EXAMPLES, "relu"), ("float32",), (Target("cpu", "spirv64"),))
        report = build(order, path, workers=2, seconds=100, **options)  # type: ignore[arg-type]
        assert not report.errors
    return path


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
