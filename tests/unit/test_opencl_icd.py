"""The wiring of Intel's CPU run time, and the reasons of the cpu and intel probes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

from xtarget.targets._host import opencl_icd
from xtarget.targets._host.machine import cpu_identity
from xtarget.targets._host.opencl_icd import (
    IntelRuntime,
    icd_file_names,
    icd_vendors,
    intel_runtime,
)
from xtarget.targets.cpu.driver import CpuDriver
from xtarget.targets.intel import driver as intel_driver
from xtarget.targets.intel.driver import IntelDriver


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "XTARGET_INTEL_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A run time at a made-up place."""
    icd = tmp_path / "lib" / "libintelocl.so"
    monkeypatch.setattr(opencl_icd, "intel_runtime", lambda: IntelRuntime(icd, None))
    return icd


def test_vendors_folder_has_the_wheel_and_the_system(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "vendors"
    system.mkdir()
    (system / "pocl.icd").write_text("libpocl.so\n")
    monkeypatch.setattr(opencl_icd, "SYSTEM_VENDORS", system)
    with icd_vendors():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        names = sorted(file.read_text().strip() for file in folder.iterdir())
    assert names == sorted([str(wheel), "libpocl.so"])
    assert not folder.exists(), "left behind"
    assert "OCL_ICD_VENDORS" not in os.environ, "child processes would look into a lost folder"


@pytest.mark.parametrize("users", [None, "512KB"])
@pytest.mark.parametrize("around", [icd_vendors, icd_file_names])
def test_blocks_get_shared_memory_for_large_dots_unless_told_otherwise(
    users: str | None, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE"
    monkeypatch.delenv(name, raising=False)
    if users:
        monkeypatch.setenv(name, users)
    with around():
        assert os.environ[name] == (users or "1MB")
    assert os.environ.get(name) == users


def test_the_users_own_setting_stays(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "/mine.so")
    with icd_vendors(), icd_file_names():
        assert (os.environ["OCL_ICD_VENDORS"], os.environ["OCL_ICD_FILENAMES"]) == (
            "/mine",
            "/mine.so",
        )
    assert os.environ["OCL_ICD_VENDORS"] == "/mine"


def test_file_names_for_the_sycl_loader(wheel: Path) -> None:
    with icd_file_names():
        assert os.environ["OCL_ICD_FILENAMES"] == str(wheel)
    assert "OCL_ICD_FILENAMES" not in os.environ


def test_no_wheel_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_icd, "intel_runtime", lambda: IntelRuntime(None, None))
    with icd_vendors(), icd_file_names():
        assert not {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"} & set(os.environ)


def _distribution(monkeypatch: pytest.MonkeyPatch, folder: Path, wheels: dict[str, str]) -> None:
    """Installed wheels that list one library each, below `folder`."""

    class Distribution:
        def __init__(self, library: str) -> None:
            self.files = [importlib.metadata.PackagePath(library)]

        def locate_file(self, file: Any) -> Path:
            return folder / file

    def distribution(name: str) -> Distribution:
        if name not in wheels:
            raise importlib.metadata.PackageNotFoundError(name)
        return Distribution(wheels[name])

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)


def _problem() -> str:
    found = intel_runtime.__wrapped__()
    assert found.icd is None
    return str(found.problem)


def test_a_wheel_whose_library_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _distribution(monkeypatch, tmp_path, {"intel-opencl-rt": "lib/libintelocl.so"})
    problem = _problem()
    assert "libintelocl.so" in problem
    assert "pip install" in problem


def test_a_missing_dependency_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libintelocl.so").touch()
    (tmp_path / "libintlc.so.5").write_text("no library")
    _distribution(monkeypatch, tmp_path, {"intel-opencl-rt": "libintelocl.so"})
    problem = _problem()
    assert "libintlc.so.5" in problem
    assert "pip install intel-cmplr-lib-rt" in problem


def test_no_wheel_is_no_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _distribution(monkeypatch, tmp_path, {})
    found = intel_runtime.__wrapped__()
    assert (found.icd, found.problem) == (None, None)


def _no_module(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )


def test_cpu_without_its_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_module(monkeypatch, "pyopencl")
    assert 'pip install "xtarget[cpu]"' in str(CpuDriver().absent())


def test_cpu_without_a_run_time(tmp_path: Path) -> None:
    """In a process of its own: a loader reads its folder once."""
    pytest.importorskip("pyopencl")
    code = "from xtarget.targets.cpu.driver import CpuDriver; print(CpuDriver().probe().reason)"
    result = run_python("-c", code, check=True, OCL_ICD_VENDORS=str(tmp_path))
    assert "no OpenCL run time is installed" in result.stdout
    assert "pip install intel-opencl-rt" in result.stdout
    assert result.stderr == ""


def test_an_environment_that_was_put_back_after_pyopencl_was_imported() -> None:
    """Its loader crashed on the name that the import had set."""
    pytest.importorskip("pyopencl")
    code = (
        "import os\nfrom unittest import mock\n"
        "with mock.patch.dict(os.environ): import pyopencl\n"
        "from xtarget.targets.cpu.driver import CpuDriver; CpuDriver().probe(); print('alive')"
    )
    assert run_python("-c", code, check=True).stdout == "alive\n"


# -------------------------------------------------------------------------- an Intel GPU's reasons


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Linux machine without a GPU: /sys/class/drm, /dev/dri below a temporary folder."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(intel_driver, "_DRM", tmp_path / "drm")
    monkeypatch.setattr(intel_driver, "_DRI", tmp_path / "dri")
    monkeypatch.setattr(intel_driver, "_WSL", tmp_path / "dxg")
    return tmp_path


def _gpu(machine: Path, vendor: str, node: bool = True) -> Path:
    device = machine / "drm" / "renderD128" / "device"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (machine / "dri").mkdir()
    render = machine / "dri" / "renderD128"
    if node:
        render.touch()
    return render


def test_no_intel_gpu(machine: Path) -> None:
    _gpu(machine, "0x10de")
    report = IntelDriver().probe()
    assert "no Intel GPU was found" in str(report.reason)
    assert report.devices == ()


def test_gpu_outside_the_container(machine: Path) -> None:
    _gpu(machine, "0x8086", node=False)
    assert "--device" in str(IntelDriver().probe().reason)


def test_no_permission(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    render = _gpu(machine, "0x8086")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root
    reason = str(IntelDriver().probe().reason)
    assert "no permission" in reason
    assert str(render) in reason
    assert "usermod" in reason


def test_gpu_without_the_binding(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _gpu(machine, "0x8086")
    _no_module(monkeypatch, "dpctl")
    assert 'pip install "xtarget[intel]"' in str(IntelDriver().probe().reason)


def test_gpu_without_a_driver(machine: Path) -> None:
    """A GPU that SYCL does not see; this machine has none that it could."""
    pytest.importorskip("dpctl")
    from xtarget.targets.intel.discover import discover

    if discover():
        pytest.skip("this machine has an Intel GPU with a driver")
    _gpu(machine, "0x8086")
    assert "apt install" in str(IntelDriver().probe().reason)


def test_own_choice_of_devices_that_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dpctl")
    monkeypatch.setenv("XTARGET_INTEL_DEVICES", "level_zero:npu")
    reason = str(IntelDriver().probe().reason)
    assert "XTARGET_INTEL_DEVICES=level_zero:npu names no device" in reason


def test_a_wrong_sycl_object_does_not_hide_the_cpu() -> None:
    """SYCL looks for its run times at its first call, whatever that is."""
    pytest.importorskip("dpctl")
    if intel_runtime().icd is None:
        pytest.skip("Intel's CPU run time is not installed as a wheel")
    code = (
        "from xtarget.targets.intel import discover, driver\n"
        "try: discover.sycl_device('nonsense')\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print(len(driver.IntelDriver().probe().devices))"
    )
    done = run_python("-c", code, check=True, XTARGET_INTEL_DEVICES="opencl:cpu")
    assert done.stdout.split()[-1] == "1", done.stdout


def test_another_compiler_of_the_same_version_is_another_one(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine code is kept by version, device and this."""
    system, library = tmp_path / "vendors", tmp_path / "libother.so"
    system.mkdir()
    library.write_bytes(b"12")
    (system / "other.icd").write_text(f"{library}\n")
    (system / "gone.icd").write_text("/nowhere/libgone.so\n")
    monkeypatch.setattr(opencl_icd, "SYSTEM_VENDORS", system)
    wheel.parent.mkdir(parents=True, exist_ok=True)
    built_in = wheel.parent / "clbltfnl9.rtl"
    seen = []
    for file in (wheel, built_in, library):
        for content in (b"1", b"123"):
            file.write_bytes(content)
            seen.append(cpu_identity((), compilers=opencl_icd.compilers()))
    assert len(set(seen)) == 6
    (wheel.parent / "notes.txt").write_text("not a compiler")
    assert cpu_identity((), compilers=opencl_icd.compilers()) == seen[-1]
