"""The vendors of the conformance suite, and what compiles its kernels once per session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import emulated_devices, only_emulated
from loading import load_file

from xtarget._devices import registry
from xtarget._values.types import Artifact, CompileRequest, KernelSource, ProbeReport
from xtarget.targets.base import Buffer, Device, Driver, Function, Stream

_KERNELS = Path(__file__).with_name("conformance_kernels.py")
BLOCK = 1024
#: Name in the test's id, vendor, environment of the driver. `intel[opencl:cpu]` is the driver for
#: Intel GPUs on a CPU run time: it proves the driver's code, not a GPU. Emulated devices come
#: in when they are asked for: tests/emulated.py.
_CASES = (
    ("fake", "fake", {}),
    ("cpu", "cpu", {}),
    ("intel[opencl:cpu]", "intel", {"XTARGET_INTEL_DEVICES": "opencl:cpu"}),
    ("intel", "intel", {}),
    ("nvidia", "nvidia", {}),
    ("amd", "amd", {}),
)


@dataclass
class Vendor:
    """One vendor under test."""

    id: str
    name: str
    environment: Mapping[str, str]
    device: Device
    report: ProbeReport
    ordinal: int = 0
    artifacts: dict[tuple[Any, ...], Artifact] = field(default_factory=dict)

    @property
    def driver(self) -> Driver:
        return registry.driver(self.name)

    @property
    def rounds(self) -> int:
        """Steps of a launch so long that work which did not wait for it would be seen. An emulated
        device does nothing before something waits for it, so there any length will do."""
        return 200 if self.device.info.runs_on == "emulator" else 3_000_000

    def open(self, ordinal: int | None = None) -> Device:
        """Another handle on a device (the one under test), the suite's own: tests may close it."""
        with _environment(self.environment):
            return self.driver.open(self.ordinal if ordinal is None else ordinal)

    def artifact(
        self,
        kernel: str,
        signature: str,
        *,
        num_warps: int = 4,
        aligned: Sequence[str] = (),
        **constants: int,
    ) -> Artifact:
        """A compiled kernel; `signature` is `name:type` for each parameter but constants."""
        key = (kernel, signature, num_warps, tuple(aligned), tuple(constants.items()))
        if key not in self.artifacts:
            pairs = [pair.split(":") for pair in signature.split()]
            request = CompileRequest(
                source=KernelSource(
                    name=kernel,
                    digest=hashlib.sha256(_KERNELS.read_bytes()).hexdigest(),
                    path=str(_KERNELS),
                    load=lambda: getattr(_kernels(), kernel),
                ),
                signature=(
                    *((name, type_) for name, type_ in pairs),
                    *((name, "constexpr") for name in constants),
                ),
                constants=tuple(constants.items()),
                aligned=tuple(aligned),
                num_warps=num_warps,
            )
            compiler = registry.compiler(self.name)
            self.artifacts[key] = compiler.compile(request, self.device.info.target)
        return self.artifacts[key]

    def vector_add(self, **options: Any) -> Artifact:
        return self.artifact(
            "vector_add", "a:*fp32 b:*fp32 out:*fp32 n:i32", BLOCK=BLOCK, **options
        )


@cache
def _kernels() -> Any:
    """The kernels' module; imports Triton."""
    return load_file(_KERNELS, register=True)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


_opened: dict[str, Vendor | str] = {}


def _open(id_: str, name: str, environment: Mapping[str, str]) -> Vendor | str:
    """The vendor, or the reason why it is not here; looked for once per session."""
    if id_ not in _opened:
        with _environment(environment):
            # a vendor whose library may block is asked in a child process first
            report = registry.driver(name).probe() if environment else registry.probe(name)
            if report.devices:
                names = [info.name for info in report.devices]
                ordinal = names.index(id_) if id_ in names else 0
                device = registry.driver(name).open(ordinal)
                _opened[id_] = Vendor(id_, name, environment, device, report, ordinal)
            else:
                _opened[id_] = str(report.reason)
    return _opened[id_]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only_vendor(name, ...): about these vendors' own objects")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the vendors that `--vendor` did not name, and those a test is not about."""
    given = set(config.getoption("--vendor"))
    if not given and only_emulated():
        given = {"emu"}
    wanted = given | ({"fake"} if "none" in given else set())  # in memory, so on no device

    def unwanted(item: pytest.Item) -> bool:
        case = getattr(getattr(item, "callspec", None), "params", {}).get("vendor")
        if case is None:
            return False
        only = item.get_closest_marker("only_vendor")
        return bool(given and case[1] not in wanted) or bool(only and case[1] not in only.args)

    config.hook.pytest_deselected(items=[item for item in items if unwanted(item)])
    items[:] = [item for item in items if not unwanted(item)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vendor" not in metafunc.fixturenames:
        return
    cases = [pytest.param(case, id=case[0]) for case in _CASES]
    for name, long in emulated_devices(metafunc.config):
        marks = (pytest.mark.long,) if long else ()
        cases.append(pytest.param((name, "emu", {}), id=name, marks=marks))
    metafunc.parametrize("vendor", cases, indirect=True)


@pytest.fixture
def vendor(request: pytest.FixtureRequest, mark_ran_on: Callable[[str, str, str], None]) -> Vendor:
    id_, name, environment = request.param
    found = _open(id_, name, environment)
    if isinstance(found, str):
        mark_ran_on(id_, "no device", found)
        pytest.skip(found)
    info = found.device.info
    mark_ran_on(id_, info.runs_on, f"{info.product}, driver {info.driver_version}")
    return found


@pytest.fixture
def device(vendor: Vendor) -> Device:
    """The vendor's device, one for the whole session."""
    return vendor.device


@pytest.fixture
def stream(device: Device) -> Stream:
    return device.default_stream


@dataclass
class Memory:
    """NumPy arrays to device buffers and back, on one stream."""

    device: Device
    stream: Stream
    buffers: list[Buffer] = field(default_factory=list)

    def put(self, array: np.ndarray[Any, Any]) -> Buffer:
        buffer = self.device.alloc(array.nbytes)
        buffer.write(
            memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)), self.stream
        )
        self.buffers.append(buffer)
        return buffer

    def empty(self, count: int, dtype: Any = np.float32) -> Buffer:
        """Filled with bytes that no result has by chance."""
        return self.put(np.full(count * np.dtype(dtype).itemsize, 0xA5, np.uint8).view(dtype))

    def get(self, buffer: Buffer, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
        result = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
        buffer.read(memoryview(result.view(np.uint8)), self.stream)
        return result


@pytest.fixture
def memory(device: Device, stream: Stream) -> Iterator[Memory]:
    held = Memory(device, stream)
    yield held
    for buffer in held.buffers:
        buffer.close()


def hidden(function: Function) -> list[int]:
    """Null for the hidden parameters: the suite's kernels use no scratch memory."""
    assert function.artifact.global_scratch.nbytes == 0
    return [0 for parameter in function.artifact.parameters if parameter.hidden]


@pytest.fixture(name="hidden")
def _hidden() -> Callable[[Function], list[int]]:
    return hidden


@pytest.fixture(scope="session", autouse=True)
def _close_devices() -> Iterator[None]:
    yield
    for found in _opened.values():
        if isinstance(found, Vendor):
            found.device.close()
