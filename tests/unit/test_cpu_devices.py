"""The OpenCL CPUs that become cpu:0, cpu:1...: two run times, and those that cannot be used."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyopencl")

from xtarget import NoDeviceError
from xtarget.targets.cpu import discover as module
from xtarget.targets.cpu import pocl
from xtarget.targets.cpu.discover import discover
from xtarget.targets.cpu.driver import CpuDriver

SYSTEM = 4  # CL_DEVICE_SVM_FINE_GRAIN_SYSTEM


def _device(name: str, **more: Any) -> Any:
    return SimpleNamespace(
        **{
            "name": name,
            "available": True,
            "address_bits": 64,
            "endian_little": True,
            "il_version": "SPIR-V_1.0 SPIR-V_1.4",
            "svm_capabilities": SYSTEM | 1,
            "global_mem_size": 1 << 34,
            "max_compute_units": 8,
            "driver_version": "1",
            "max_work_group_size": 4096,
            "local_mem_size": 1 << 20,
            "double_fp_config": 63,
            **more,
        }
    )


def _platform(name: str, vendor: str, *devices: Any, version: str = "OpenCL 3.0") -> Any:
    platform = SimpleNamespace(
        name=name, vendor=vendor, version=version, get_devices=lambda kind: list(devices)
    )
    for device in devices:
        device.platform = platform
    return platform


def _pocl(version: str, name: str, **more: Any) -> Any:
    device = _device(name, il_version="SPIR-V_1.2 SPIR-V_1.1", extensions="cl_khr_fp64", **more)
    version = f"OpenCL 3.0 PoCL {version}"
    return _platform("Portable Computing Language", "The pocl project", device, version=version)


INTEL = _platform("Intel(R) OpenCL", "Intel(R) Corporation", _device("AMD EPYC"))
POCL = _pocl("6.0+debian  Linux, SPIR-V, LLVM 18.1.8, DISTRO", "cpu-skylake")
OLD_POCL = _platform(
    "Portable Computing Language", "The pocl project", _device("pthread-skylake", il_version="")
)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Any:
    def offer(*platforms: Any) -> None:
        monkeypatch.setattr(module.cl, "get_platforms", lambda: list(platforms))

    return offer


def test_two_run_times_are_both_listed_and_intels_is_the_default(offer: Any) -> None:
    offer(POCL, INTEL)
    found = [info for _, info in discover().devices]
    assert [(info.name, info.product) for info in found] == [
        ("cpu:0", "AMD EPYC"),
        ("cpu:1", "cpu-skylake"),
    ]
    assert found[1].details["platform"] == "Portable Computing Language"


def test_another_run_time_serves_where_intels_is_not(offer: Any) -> None:
    offer(POCL)
    assert [info.product for _, info in discover().devices] == ["cpu-skylake"]


def test_a_run_time_without_spirv_is_passed_over_and_told(offer: Any) -> None:
    offer(OLD_POCL, INTEL)
    ((_, info),) = discover().devices
    assert info.product == "AMD EPYC"
    assert info.details["not used"] == (
        "pthread-skylake of Portable Computing Language takes no SPIR-V (this build of the run "
        "time lacks it)"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"il_version": ""}, "takes no SPIR-V"),
        ({"il_version": "SPIR-V_1.2"}, r"takes SPIR-V 1\.2, needed is 1\.4"),
        ({"svm_capabilities": 0}, "has no shared virtual memory"),
        ({"address_bits": 32}, "is not a 64-bit"),
        ({"available": False}, "is not available"),
    ],
)
def test_why_the_only_one_is_not_used(offer: Any, change: dict[str, Any], says: str) -> None:
    offer(_platform("A platform", "somebody", _device("A CPU", **change)))
    with pytest.raises(
        NoDeviceError, match=rf"there is no cpu:0: .*A CPU of A platform {says}.*pip install"
    ):
        CpuDriver().open(0)


def test_an_ordinal_beyond_those_there_are(offer: Any) -> None:
    offer(INTEL, POCL)
    with pytest.raises(NoDeviceError, match="cpu has no number 2, only cpu:0, cpu:1"):
        CpuDriver().open(2)


def test_float64_is_told(offer: Any) -> None:
    offer(_platform("A platform", "somebody", _device("A CPU", double_fp_config=0)))
    ((_, info),) = discover().devices
    assert not info.fp64
    assert info.compile_options == {"fp64": False}


def test_operands_of_large_dots_take_no_more_shared_memory_than_there_is(offer: Any) -> None:
    offer(_platform("A platform", "somebody", _device("A CPU", local_mem_size=256 << 10)))
    ((_, info),) = discover().devices
    assert info.compile_options == {"dot_bytes": 192 << 10}


@pytest.mark.parametrize(
    ("version", "name", "size"),
    [
        ("6.0+debian  Linux, SPIR-V, DISTRO, POCL_DEBUG", "cpu-skylake-avx512-AMD EPYC", 64),
        ("6.0+debian  Linux, SPIR-V, DISTRO, POCL_DEBUG", "cpu-haswell-AMD EPYC", 32),
        ("6.0+debian  Linux, SPIR-V, DISTRO, POCL_DEBUG", "cpu-x86-64-AMD EPYC", 16),
        ("7.1  Linux, SPIR-V, LLVM 20", "cpu-znver4-AMD EPYC", 16),
        ("4.0  Linux, SPIR-V, LLVM 15", "cpu-skylake-avx512-AMD EPYC", 16),
    ],
)
def test_code_for_pocl_calls_only_what_it_has(
    offer: Any, version: str, name: str, size: int
) -> None:
    """Vectors as wide as its library's registers, where that is known."""
    offer(_pocl(version, name))
    ((_, info),) = discover().devices
    assert info.compile_options == {
        "half_math": False,
        "function_bytes": size,
        "kernel_clock": False,
    }
    assert info.details["spirv"] == "1.5", "it tells 1.2 and takes more"


def test_a_pocl_that_takes_no_newer_spirv_is_not_used(offer: Any) -> None:
    offer(_pocl("3.1", "pthread-skylake"))
    with pytest.raises(NoDeviceError, match=r"takes SPIR-V 1\.2, needed is 1\.4"):
        CpuDriver().open(0)


@pytest.mark.parametrize(("given", "after"), [(None, "0"), ("1", "1")])
def test_pocl_compiles_nothing_in_the_users_process_unless_told_to(
    monkeypatch: pytest.MonkeyPatch, given: str | None, after: str
) -> None:
    monkeypatch.delenv("POCL_WORK_GROUP_SPECIALIZATION", raising=False)
    if given is not None:
        monkeypatch.setenv("POCL_WORK_GROUP_SPECIALIZATION", given)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    pocl.use_machine_code()
    assert os.environ["POCL_WORK_GROUP_SPECIALIZATION"] == after
