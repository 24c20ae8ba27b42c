"""The SYCL devices that become intel:0, intel:1...: filters, and one GPU of two run times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("dpctl")

from xtarget.targets.intel import discover as module
from xtarget.targets.intel.discover import discover


def _device(backend: str, kind: str, number: int, name: str, **more: Any) -> Any:
    return SimpleNamespace(
        backend=SimpleNamespace(name=backend),
        device_type=SimpleNamespace(name=kind),
        filter_string=f"{backend}:{kind}:{number}",
        name=name,
        global_mem_size=1 << 30,
        max_compute_units=160,
        driver_version="1.6",
        max_work_group_size=1024,
        local_mem_size=65536,
        **{
            "sub_group_sizes": (16, 32),
            "has_aspect_fp16": True,
            "has_aspect_fp64": True,
            "has_aspect_atomic64": True,
            **more,
        },
    )


ARC, MAX = "Intel(R) Arc(TM) B580", "Intel(R) Data Center GPU Max 1550"
DEVICES = [
    _device("opencl", "cpu", 0, "A CPU", sub_group_sizes=(4, 8, 16)),
    _device("opencl", "gpu", 0, ARC),
    _device("opencl", "gpu", 1, MAX),
    _device("opencl", "gpu", 2, MAX),
    _device("level_zero", "gpu", 0, MAX),
    _device("level_zero", "gpu", 1, MAX),
    _device("opencl", "accelerator", 0, "FPGA Emulator", sub_group_sizes=(4, 8)),
]


@pytest.fixture(autouse=True)
def _offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.dpctl, "get_devices", lambda: DEVICES)


def _found(wanted: str | None = None) -> list[tuple[str, str, str | None]]:
    return [
        (info.name, device.filter_string, info.details.get("also"))
        for device, info in discover(wanted)
    ]


def test_gpus_once_each_level_zero_first() -> None:
    assert _found() == [
        ("intel:0", "level_zero:gpu:0", "opencl:gpu:1"),
        ("intel:1", "level_zero:gpu:1", "opencl:gpu:2"),
        ("intel:2", "opencl:gpu:0", None),
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("opencl:cpu", ["opencl:cpu:0"]),
        ("opencl:gpu:1", ["opencl:gpu:1"]),
        ("level_zero", ["level_zero:gpu:0", "level_zero:gpu:1"]),
        ("*:cpu, level_zero:gpu:1", ["level_zero:gpu:1", "opencl:cpu:0"]),
    ],
)
def test_filter_replaces_the_choice_of_gpus(wanted: str, expected: list[str]) -> None:
    assert [filter_string for _, filter_string, _ in _found(wanted)] == expected


def test_what_it_runs_on_is_not_glossed_over() -> None:
    kinds = {device.filter_string: info.runs_on for device, info in discover("opencl")}
    assert kinds == {
        "opencl:cpu:0": "CPU runtime",
        "opencl:gpu:0": "silicon",
        "opencl:gpu:1": "silicon",
        "opencl:gpu:2": "silicon",
        "opencl:accelerator:0": "emulator",
    }


def test_warp_is_one_that_the_device_has() -> None:
    assert [info.warp_size for _, info in discover("opencl:cpu")] == [16]
    assert [info.warp_size for _, info in discover("opencl:gpu:0")] == [32]


def test_code_is_compiled_for_what_the_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    small = _device("level_zero", "gpu", 0, ARC, has_aspect_fp64=False, has_aspect_atomic64=False)
    monkeypatch.setattr(module.dpctl, "get_devices", lambda: [small, DEVICES[4]])
    without, full = (info for _, info in discover())
    assert (without.fp64, full.fp64) == (False, True)
    assert without.compile_options == {"fp64": False, "int64_atomics": False}
    assert full.compile_options == {}
