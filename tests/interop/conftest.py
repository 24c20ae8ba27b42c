"""The device that foreign arrays are tried on: the first one there is (of `--vendor`).

And Triton on the CPU, for tests of its own launching.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core_calls import KINDS

import xtarget
from xtarget import NoDeviceError
from xtarget._launch import run as launching

sys.path.insert(0, str(Path(__file__).parent))  # for the kernels of these tests


EMULATED = ("emu:gfx942", "emu:gfx1100")


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> str:
    """Its name, as text."""
    wanted = pytestconfig.getoption("--vendor")
    found = [d for d in xtarget.devices() if not wanted or d.vendor in wanted]
    if not found:
        pytest.skip("; ".join(f"{r.vendor}: {r.reason}" for r in xtarget.probe() if r.reason))
    return found[0].name


@pytest.fixture
def place(device: str) -> str:
    """torch's name of the device that xtarget is tried on."""
    import torch

    vendor, _, ordinal = device.partition(":")
    kind = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu"}.get(vendor, "cpu")
    if kind != "cpu" and not getattr(torch, kind).is_available():
        kind = "cpu"
    return "cpu" if kind == "cpu" else f"{kind}:{ordinal}"


@pytest.fixture(autouse=True)
def _use_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, mark_ran_on: Any
) -> None:
    if "device" in request.fixturenames:
        name = request.getfixturevalue("device")
        if name.startswith("emu") and importlib.util.find_spec("tinygrad") is None:
            pytest.skip("tinygrad is not installed, which the emulator reads instructions with")
        monkeypatch.setenv("XTARGET_DEVICE", name)
        info = xtarget.device(name).info
        mark_ran_on(info.vendor, info.runs_on, info.product)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The short form runs every second test of `on` on an emulated device too, one case of each."""
    seed = os.environ.get("XTARGET_TEST_SEED", "0")
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if getattr(getattr(item, "callspec", None), "params", {}).get("on") == "emulated":
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, all_ in cases.items():
        number = zlib.crc32(f"{seed} {test.rpartition('::')[2]}".encode())
        short = [item for item in all_ if item.get_closest_marker("long") is None] or all_
        chosen = None if number % 2 else short[number // 2 % len(short)]
        for item in all_:
            if item is not chosen:
                item.add_marker(pytest.mark.long)


@pytest.fixture(params=["first", "emulated", pytest.param("other", marks=pytest.mark.long)])
def on(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, mark_ran_on: Any
) -> Iterator[str]:
    """The device of a call: the first one, or one of two emulated GPUs, always the same; the long
    tier takes the other one too."""
    if request.param == "first":
        name = request.getfixturevalue("device")
    else:
        if importlib.util.find_spec("tinygrad") is None:
            pytest.skip("tinygrad is not installed, which the emulator reads instructions with")
        if request.config.getoption("--vendor") not in ([], ["emu"]):
            pytest.skip("another vendor's devices are asked for")
        number = zlib.crc32(request.node.originalname.encode()) + (request.param == "other")
        name = EMULATED[number % 2]
        monkeypatch.setenv("XTARGET_DEVICE", name)
    info = xtarget.device(name).info
    mark_ran_on(info.vendor, info.runs_on, info.product)
    return name


@pytest.fixture(scope="module")
def triton_on_cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Triton's launching on our cpu driver, for a module, as TRITON_DEFAULT_BACKEND=spirv has it in
    a process where xtarget is installed.
    """
    import triton
    from triton.backends import Backend, backends

    try:
        xtarget.device("cpu:0")
    except NoDeviceError as error:
        pytest.skip(str(error))
    from xtarget_triton.compiler import SpirvBackend
    from xtarget_triton.driver import SpirvDriver

    config, known = triton.runtime.driver, dict(backends)
    backends["spirv"] = Backend(compiler=SpirvBackend, driver=SpirvDriver)
    before, config._active = config._active, SpirvDriver()
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield
    config._active = before
    backends.clear()
    backends.update(known)


@pytest.fixture
def ran_on_cpu(mark_ran_on: Any) -> None:
    info = xtarget.device("cpu:0").info
    mark_ran_on(info.vendor, info.runs_on, info.product)


@pytest.fixture
def launched() -> Iterator[list[str]]:
    """The kernels of all launches in the test, in order."""
    found: list[str] = []
    with xtarget.hooks.add(exit=lambda launch: found.append(launch.kernel)):
        yield found


@pytest.fixture
def core(device: str) -> Iterator[Any]:
    """The compiled core, which knows no call yet."""
    if launching._native is None:
        pytest.skip("the compiled core is not built, or XTARGET_CORE=python")
    launching.forget_calls()
    yield launching._native
    launching.forget_calls()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, device: str) -> str:
    """The library of a call's arrays, one after the other, of those that the core reads."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="torch is not installed here")
    if request.param == "NumPy" and not xtarget.device(device).info.host_memory:
        pytest.skip(f"{device} copies the host's arrays, which is Python's")
    return str(request.param)
