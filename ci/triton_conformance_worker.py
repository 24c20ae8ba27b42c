"""A pytest plugin: runs the cases that ci/triton_conformance.py asks for, one after the other.

It collects once and then waits for orders, so that importing torch and listing thousands of cases
is not paid for each of them. The fixtures are ours; Triton's conftest files are not loaded.

Pipes (file descriptors in XTARGET_CONFORMANCE): an order is a line with the id of a case; answers
are lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_orders, _answers = (int(number) for number in os.environ["XTARGET_CONFORMANCE"].split(","))
_TEXT = 600


def _answer(**fields: Any) -> None:
    data = json.dumps(fields).encode() + b"\n"
    while data:
        data = data[os.write(_answers, data) :]


# ---------------------------------------------------------------------------------------- fixtures


@pytest.fixture
def device() -> str:
    return "cpu"


@pytest.fixture
def fresh_triton_cache(tmp_path: Path) -> Iterator[str]:
    from triton import knobs

    with knobs.cache.scope(), knobs.runtime.scope():
        knobs.cache.dir = str(tmp_path)
        yield str(tmp_path)


@pytest.fixture
def fresh_triton_cache_scope() -> Any:
    """A context in which everything is compiled again."""
    from triton import knobs

    @contextlib.contextmanager
    def fresh() -> Iterator[None]:
        with knobs.compilation.scope(), knobs.runtime.scope():
            knobs.compilation.always_compile = True
            yield

    return fresh


def _fresh_knobs(skipped: set[str]) -> Iterator[Any]:
    from triton._internal_testing import _fresh_knobs_impl

    fresh, reset = _fresh_knobs_impl(skipped_attr=skipped)
    try:
        yield fresh()
    finally:
        reset()


@pytest.fixture
def fresh_knobs() -> Iterator[Any]:
    yield from _fresh_knobs({"build", "nvidia", "amd"})


@pytest.fixture
def fresh_knobs_including_libraries() -> Iterator[Any]:
    yield from _fresh_knobs(set())


@pytest.fixture
def fresh_compilation_knobs() -> Iterator[Any]:
    from triton import knobs

    with knobs.compilation.scope():
        yield knobs


@pytest.fixture
def with_allocator() -> Iterator[None]:
    import torch
    import triton
    from triton.runtime._allocation import NullAllocator

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    try:
        yield
    finally:
        triton.set_allocator(NullAllocator())


@pytest.fixture
def process_pool() -> None:
    """Triton's own keeps processes ready with torch.cuda; without it, each is a new one."""


# ----------------------------------------------------------------------------------------- running


def pytest_configure(config: pytest.Config) -> None:
    """Names that the tests of Intel's fork ask of their own Triton, and the stock wheel lacks."""
    import torch
    import triton._internal_testing as testing

    # a name in torch; the tests look it up in Triton's tables, where devices have numbers
    torch.cpu.current_device = lambda: 0
    if not hasattr(testing, "is_xpu_cri"):
        testing.is_xpu_cri = lambda: False
    config.pluginmanager.register(_Worker(), "xtarget-conformance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The conversions are tested with all 2^32 values, which takes two cores minutes; for Intel's
    simulator the tests have a shorter way.
    """
    for module in {item.getparent(pytest.Module) for item in items}:
        if module is not None and module.name.endswith("test_conversions.py"):
            module.obj.is_xpu_cri = lambda: True


class _Worker:
    """Takes the place of pytest's own loop."""

    def __init__(self) -> None:
        self._reports: list[pytest.TestReport] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            _answer(uncollected=str(report.longrepr)[-_TEXT:])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        _answer(collected=list(items))
        with os.fdopen(_orders, encoding="utf-8") as orders:
            for line in orders:
                name = line.rstrip("\n")
                self._reports.clear()
                item = items[name]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                outcome, cause = _summary(self._reports)
                _answer(done=name, outcome=outcome, cause=cause)
        return True


def _summary(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """Outcome and cause of a case from the reports of its phases."""
    bad = next((r for r in reports if r.failed), None)
    if bad is not None:
        return "failed", _cause(bad)
    skipped = next((r for r in reports if r.skipped), None)
    if skipped is not None:
        expected = hasattr(skipped, "wasxfail")
        cause = skipped.wasxfail if expected else _reason(skipped)
        return "xfailed" if expected else "skipped", cause
    return "passed", ""


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)[:_TEXT]


def _cause(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[-_TEXT:]
    return f"{crash.message[:_TEXT]} [{Path(crash.path).name}:{crash.lineno}]"
