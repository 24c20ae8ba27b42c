"""The pytest plugin of an installed xtarget, for tests of kernels.

    def test_add(xtarget_device):
        result = xtarget.run("add", a, b, device=xtarget_device)
        xtarget.testing.assert_close(result, a + b)

`pytest --xtarget-device nvidia,cpu,emu:gfx942` runs such tests once on each: a device's name, or a
vendor's, which is its first device; without the option, on the default device. A device that is not
here skips its tests, with the reason; with `--xtarget-require` (for CI) they fail. The header names
the devices, and the summary counts the results by what they ran on: silicon, a CPU run time, or an
emulator.

A test with `xtarget_impl` runs with each implementation of the kernel that its marker names:
`pytest -k "cpu and by_columns"` chooses one. A device that it does not serve skips it.

    @pytest.mark.xtarget_kernel("square")
    def test_square(xtarget_device, xtarget_impl):
        result = xtarget.run("square", x, device=xtarget_device, impl=xtarget_impl)

Nothing of xtarget is imported before a test uses it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

__all__ = ["xtarget_device", "xtarget_impl", "xtarget_ran_on"]

_RAN_ON = "xtarget_ran_on"
_MISSING = "missing:"
_MARKER = "xtarget_vendors(*names, reason=''): run on devices of these vendors only"
_OF_KERNEL = "xtarget_kernel(name): xtarget_impl is each implementation of this kernel"
#: Results by what they ran on. Reports of xdist's workers come here too.
_counts: dict[str, Counter[str]] = defaultdict(Counter)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xtarget", "kernels on devices (xtarget)")
    group.addoption(
        "--xtarget-device",
        action="append",
        default=[],
        metavar="NAME[,NAME...]",
        help="devices for tests with xtarget_device: nvidia, cpu:0, emu:gfx942 (repeatable)",
    )
    group.addoption(
        "--xtarget-require",
        action="store_true",
        help="a device that is not here is a failure, not a skip",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _OF_KERNEL)


def _wanted(config: pytest.Config) -> list[str]:
    """The devices that were asked for, each once; empty: the default one."""
    given = [
        name.strip() for text in config.getoption("--xtarget-device") for name in text.split(",")
    ]
    return list(dict.fromkeys(name for name in given if name))


def _found(wanted: str) -> str:
    """The device's name, or `_MISSING` and why it is not here."""
    from ._devices import registry
    from ._values.errors import XTargetError

    try:
        name = registry.find_device(wanted)
        registry.open_device(name)
    except XTargetError as error:
        return f"{_MISSING}{wanted}: {error}"
    return name


def pytest_report_header(config: pytest.Config) -> str | None:
    wanted = _wanted(config)
    if not wanted:
        return None
    import xtarget

    told = []
    for found in dict.fromkeys(map(_found, wanted)):
        if found.startswith(_MISSING):
            told.append(f"{found.removeprefix(_MISSING).partition(':')[0]} (not here)")
        else:
            info = xtarget.device(found).info
            told.append(f"{found} ({info.product}, {info.runs_on})")
    return f"xtarget {xtarget.__version__}: {', '.join(told)}"


def pytest_generate_tests(metafunc: Any) -> None:
    if "xtarget_impl" in metafunc.fixturenames:
        ways = _implementations(metafunc.definition)
        metafunc.parametrize("_xtarget_impl", ways, ids=[impl for _, impl in ways])
    if "xtarget_device" not in metafunc.fixturenames:
        return
    from ._devices import choice
    from ._values.errors import XTargetError

    wanted = _wanted(metafunc.config)
    if wanted:
        names = list(dict.fromkeys(map(_found, wanted)))
    else:
        try:
            names = [choice.default_device()]
        except XTargetError as error:
            names = [f"{_MISSING}device: {error}"]
    ids = [name.partition(" ")[0] if name.startswith(_MISSING) else name for name in names]
    metafunc.parametrize("_xtarget_device", names, ids=ids, scope="session")


def _implementations(test: Any) -> list[tuple[str, str]]:
    """The kernel that a test names, with the word of each of its implementations."""
    from ._kernels import implementations
    from ._values.errors import XTargetError

    marker = test.get_closest_marker("xtarget_kernel")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(
            f"{test.nodeid}: xtarget_impl is of a kernel. Name it: "
            '@pytest.mark.xtarget_kernel("add").'
        )
    try:
        ways = implementations.listed(marker.args[0])
    except XTargetError as error:
        raise pytest.UsageError(f"{test.nodeid}: {error}") from error
    return [(marker.args[0], way.name) for way in ways if way.name and way.kernel]


@pytest.fixture
def _xtarget_impl(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def xtarget_impl(_xtarget_impl: tuple[str, str], xtarget_device: str) -> str:
    """The word of an implementation, for `xtarget.run(..., impl=)`."""
    import xtarget

    from ._kernels import implementations, libraries
    from ._values.errors import MissingFeatureError

    kernel, impl = _xtarget_impl
    target = xtarget.device(xtarget_device).info.target
    try:
        found = libraries.find(implementations.named(kernel, impl))
        implementations.serving(found, target.vendor, target.arch)
    except MissingFeatureError as error:
        pytest.skip(str(error))
    return impl


@pytest.fixture(scope="session")
def _xtarget_device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def xtarget_device(
    _xtarget_device: str, request: pytest.FixtureRequest, xtarget_ran_on: Any
) -> str:
    """The name of the device that the test runs on, for `xtarget.run(..., device=)`."""
    if _xtarget_device.startswith(_MISSING):
        reason = _xtarget_device.removeprefix(_MISSING)
        if request.config.getoption("--xtarget-require"):
            pytest.fail(f"--xtarget-require: {reason}", pytrace=False)
        pytest.skip(reason)
    vendor = _xtarget_device.partition(":")[0]
    for marker in request.node.iter_markers("xtarget_vendors"):
        if vendor not in marker.args:
            why = marker.kwargs.get("reason") or f"for {', '.join(marker.args)} only"
            pytest.skip(f"{vendor}: {why}")
    import xtarget

    info = xtarget.device(_xtarget_device).info
    xtarget_ran_on(info.vendor, info.runs_on, info.product)
    return _xtarget_device


@pytest.fixture
def xtarget_ran_on(request: pytest.FixtureRequest) -> Any:
    """Call with a vendor, what it runs on, and the product: the summary counts the test there.

    `xtarget_device` calls it; tests that find their devices by themselves call it too.
    """

    def mark(vendor: str, runs_on: str, what: str) -> None:
        request.node.user_properties.append((_RAN_ON, f"{vendor}: {runs_on} ({what})"))

    return mark


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    place = next((str(value) for name, value in report.user_properties if name == _RAN_ON), None)
    if place is None or (report.when != "call" and report.outcome == "passed"):
        return
    _counts[place][report.outcome if report.when == "call" else _setup_outcome(report)] += 1


def _setup_outcome(report: pytest.TestReport) -> str:
    return "skipped" if report.outcome == "skipped" else "error"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _counts:
        return
    terminalreporter.section("what the tests ran on")
    for place, results in sorted(_counts.items()):
        numbers = ", ".join(f"{count} {outcome}" for outcome, count in sorted(results.items()))
        terminalreporter.line(f"{place}: {numbers}")
