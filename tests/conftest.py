"""Options and the report that all tests share.

`--vendor NAME` (again for more) restricts the tests that need a device to these vendors; `none` to
no device at all. A test that ran on a device says so with `mark_ran_on`; xtarget's own pytest
plugin counts its results in the summary by what they ran on, and calls no CPU run time silicon.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

# the fake vendor enters as an installed package does: a folder on the path with its entry points
sys.path.insert(0, str(Path(__file__).parent / "fake_vendor"))
os.environ.pop("COLUMNS", None)  # which tables of the command line obey
sys.path.insert(0, str(Path(__file__).parent))  # for what several suites share
from samples import mark_those_left_out

# what was tuned for this machine's user would choose other kernels than tests expect
os.environ.setdefault(
    "XTARGET_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "xtarget")
)

# where PYTHONDONTWRITEBYTECODE is set, each of a run's pytest processes would rewrite the asserts
# of hypothesis and of all tests anew; from the end of the collection on it holds again
_dont_write_bytecode = sys.dont_write_bytecode
sys.dont_write_bytecode = False

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    # an example that compiles, or a busy machine, takes longer than hypothesis allows by default
    settings.register_profile("xtarget", deadline=None)
    settings.load_profile("xtarget")

#: Characters of a reason: the first words tell them apart.
_MOST_OF_A_REASON = 150
#: As an installed package's plugin has it; in a bare checkout nothing else loads it.
pytest_plugins = ["xtarget.pytest_plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vendor",
        action="append",
        default=[],
        metavar="NAME",
        choices=("nvidia", "amd", "intel", "cpu", "emu", "fake", "none"),
        help="only this vendor's devices (repeatable); none: no device at all",
    )


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    """Make no items of parameters that `-m "not long"` would leave out again: they are nine of
    ten, and each process of pytest-xdist makes every item."""
    given = yield
    mark_those_left_out(metafunc)
    if metafunc.config.option.markexpr.startswith("not long"):
        calls = metafunc._calls
        short = [one for one in calls if all(mark.name != "long" for mark in one.marks)]
        metafunc._calls = short or calls[:1]  # none at all would be a test without parameters
    return given


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = _dont_write_bytecode


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """cuda-python's calls are a `FakeCuda`'s."""
    pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    import fake_cuda

    with fake_cuda.in_place(monkeypatch) as fake:
        yield fake


_modules = itertools.count(1)


@pytest.fixture(autouse=True, scope="module")
def _garbage_is_looked_for_in_this_module() -> Iterator[None]:
    """A process that has run many modules holds millions of objects, and a collection that walks
    all of them takes a second: tests that collect took a minute and a half of CI."""
    if next(_modules) % 20 == 0:
        gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _environment_is_restored() -> Iterator[None]:
    """Setting one of Triton's knobs in Python sets its environment variable too, for good."""
    before = dict(os.environ)
    yield
    # pytest's own, and what pyopencl sets when it is imported and its loader cannot do without
    current = {"PYTEST_CURRENT_TEST", "PYOPENCL_HOME"}
    for name in os.environ.keys() - before.keys() - current:
        del os.environ[name]
    for name, value in before.items():
        if name not in current and os.environ.get(name) != value:
            os.environ[name] = value


_HAS_TORCH = importlib.util.find_spec("torch") is not None


def _skipped_without_torch() -> Generator[None, Any, Any]:
    """Skip what fails for torch alone, where it is not installed: some references and arrays are
    made of it. The tools that `make test` installs have none; CI installs it."""
    try:
        return (yield)
    except Exception as error:
        named = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        if _HAS_TORCH or not (named or "torch is not installed" in str(error)):
            raise
        pytest.skip("torch is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    return (yield from _skipped_without_torch())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    return (yield from _skipped_without_torch())


@pytest.fixture
def a_cpu() -> None:
    """Skips a test of the CPU's own on a machine without its run time."""
    import xtarget

    try:
        xtarget.device("cpu:0")
    except xtarget.NoDeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def mark_ran_on(xtarget_ran_on: Any) -> Any:
    """Call with a vendor's id, what it runs on, and the product (or the reason for no device)."""
    return xtarget_ran_on


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats = terminalreporter.stats
    if not hasattr(terminalreporter.config, "workerinput"):  # xdist's workers have it
        _keep_for_the_last_line(stats)
    skipped = Counter(_reason(report) for report in stats.get("skipped", []))
    if skipped:
        terminalreporter.section("skipped, by reason")
        for reason, count in sorted(skipped.items(), key=lambda pair: (-pair[1], pair[0])):
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report: Any) -> str:
    """Why a test was skipped, in one short line."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    text = " ".join(why.removeprefix("Skipped: ").split())
    return text if len(text) <= _MOST_OF_A_REASON else text[: _MOST_OF_A_REASON - 3] + "..."


def _keep_for_the_last_line(stats: dict[str, Any]) -> None:
    """Keep the counts that `ci/test.sh` prints at its end, of all its runs of pytest."""
    file = os.environ.get("XTARGET_TEST_SUMMARY")
    if not file:
        return
    kinds = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
    counts = {kind: len(stats.get(kind, [])) for kind in kinds}
    failures = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])]
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps({"counts": counts, "failures": failures}) + "\n")
