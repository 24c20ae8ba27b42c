"""A probe's answers: devices, or the reason for none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from scene import LIBRARY, reason, refused
from standin import StandIn, build, compiler

from xtarget._values import errors
from xtarget._values.types import Target
from xtarget.targets.amd import create_driver
from xtarget.targets.amd.driver import HipDriver


def no_binding():
    for name in [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm")]:
        del sys.modules[name]
    sys.path[:] = [p for p in sys.path if not (Path(p or ".") / "hip").exists()]
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    reason("not installed", 'pip install "xtarget[amd]"', "no module hip")


def broken_binding():
    folder = LIBRARY.parent / "broken" / "hip"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("from . import missing_part\n")
    sys.path.insert(0, str(folder.parent))
    reason("installed but cannot be imported", "missing_part", 'pip install "xtarget[amd]"')


def no_library():
    os.environ["ROCM_PATH"] = str(LIBRARY.parent / "nowhere")
    text = reason("libamdhip64.so was not found", "/nowhere/lib", "/opt/rocm/lib", "Install ROCm")
    assert "(failed to" in text or "(" in text


def library_without_its_own_libraries():
    folder = LIBRARY.parent / "alone" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    hsa, source = folder / "libhsa-runtime64.so.1", folder / "empty.c"
    source.write_text("")
    build = [compiler(), "-shared", "-o"]
    subprocess.run([*build, hsa, source, f"-Wl,-soname,{hsa.name}"], check=True)
    hip = folder / "libamdhip64.so"
    subprocess.run([*build, hip, source, "-Wl,--no-as-needed", hsa], check=True)
    hsa.unlink()
    os.environ["ROCM_PATH"] = str(folder.parent)
    reason(f"{hip} cannot be loaded", "libhsa-runtime64.so.1", "Install what it needs")


def library_too_old():
    StandIn(LIBRARY).version(50221153)
    reason("version 5.2.21153", "needs 6.0 or newer", "newer ROCm")


def library_lacks_a_function():
    # a library that calls itself new and lacks what ROCm 5 lacked
    StandIn(build(LIBRARY.parent / "old", old=True))
    report = create_driver().probe()
    assert not report.devices
    assert report.reason is not None
    assert "hipGetDeviceProperties" in report.reason
    assert "same ROCm version" in report.reason


def _dev(kfd=True, render=True) -> Path:
    dev = LIBRARY.parent / "dev"
    shutil.rmtree(dev, ignore_errors=True)
    (dev / "dri").mkdir(parents=True, exist_ok=True)
    for node, wanted in (("kfd", kfd), ("dri/renderD999", render)):
        if wanted is not None:
            (dev / node).write_bytes(b"")
            (dev / node).chmod(0o666 if wanted else 0)
    return dev


def no_kernel_driver():
    StandIn(LIBRARY).devices(0)
    text = reason("hipErrorNoDevice (100)", probe=HipDriver(_dev(kfd=None)))
    assert "There is no" in text
    assert "amdgpu is not loaded" in text


def no_device():
    standin = StandIn(LIBRARY)
    standin.devices(0)
    reason("hipErrorNoDevice (100)", "rocminfo", probe=HipDriver(_dev()))
    for _ in range(2):  # reason() asks twice: probe and open
        standin.fail("hipGetDeviceCount", 101)
        report = HipDriver(_dev()).probe()
        assert report.reason is not None
        assert "hipErrorInvalidDevice (101)" in report.reason


def devices_hidden():
    StandIn(LIBRARY).devices(0)
    os.environ["HIP_VISIBLE_DEVICES"] = ""
    reason("hides devices", "HIP_VISIBLE_DEVICES=", probe=HipDriver(_dev()))


def _as_a_user() -> None:
    create_driver().probe()  # hip-python is imported before we stop being root
    if os.getuid() == 0:
        os.setuid(65534)


def absence_is_told_without_loading_anything():
    os.environ.pop("ROCM_PATH", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    without = HipDriver(_dev(kfd=None)).absent() or ""
    assert "libamdhip64.so was not found" in without
    assert "/opt/rocm/lib" in without  # where it was looked for
    assert "There is no" in without  # and no device node either
    assert "There is no" not in (HipDriver(_dev()).absent() or "")
    # a library that is there has to be asked, device node or not
    os.environ["ROCM_PATH"] = str(LIBRARY.parent.parent)
    assert HipDriver(_dev(kfd=None)).absent() is None
    os.environ["LD_LIBRARY_PATH"] = str(LIBRARY.parent)
    del os.environ["ROCM_PATH"]
    assert HipDriver(_dev(kfd=None)).absent() is None
    sys.meta_path.clear()
    assert 'pip install "xtarget[amd]"' in (HipDriver(_dev()).absent() or "")
    assert not [m for m in sys.modules if m.partition(".")[0] in ("hip", "rocm")]


def no_permission_for_the_driver():
    StandIn(LIBRARY).devices(0)
    dev = _dev(kfd=False)
    _as_a_user()
    text = reason("no permission", f"{dev}/kfd", "usermod -aG render,video", probe=HipDriver(dev))
    assert "renderD999" not in text


def no_permission_for_the_device():
    StandIn(LIBRARY).devices(0)
    dev = _dev(render=False)
    _as_a_user()
    text = reason("no permission", f"{dev}/dri/renderD999", probe=HipDriver(dev))
    assert "kfd" not in text


def a_folder_that_may_not_be_read():
    StandIn(LIBRARY).devices(0)
    dev = _dev()
    dev.chmod(0)
    _as_a_user()
    reason("HIP sees no device", probe=HipDriver(dev))


def probe_survives_other_failures():
    standin = StandIn(LIBRARY)
    standin.fail("hipGetDeviceCount", 999)
    report = create_driver().probe()
    assert report.reason is not None
    assert "hipErrorUnknown (999)" in report.reason


def devices():
    standin = StandIn(LIBRARY)
    standin.devices(2, "gfx1201", 32)
    report = create_driver().probe()
    assert report.reason is None
    first, second = report.devices
    assert (first.name, second.name) == ("amd:0", "amd:1")
    assert first.target == Target("amd", "gfx1201")
    assert first.product == "stand-in, not a GPU"
    assert first.runs_on == "fake"
    assert (first.memory_bytes, first.compute_units, first.warp_size) == (1 << 28, 8, 32)
    assert (first.max_threads_per_block, first.max_shared_bytes) == (1024, 65536)
    assert first.driver_version == "HIP 7.2.53211"
    assert first.details == {"gcn_arch_name": "gfx1201", "peers": "amd:1"}
    assert create_driver().open(1).info == second
    refused(errors.NoDeviceError, lambda: create_driver().open(2), "no number 2", "amd:0, amd:1")
    refused(errors.NoDeviceError, lambda: create_driver().open(-1), "no number -1")


def peer_devices():
    standin = StandIn(LIBRARY)
    standin.devices(3)
    found = [info.details["peers"] for info in create_driver().probe().devices]
    assert found == ["amd:1 amd:2", "amd:0", "amd:0"]
    standin.fail("hipDeviceCanAccessPeer", 999)
    told = create_driver().probe().devices[0].details["peers"]
    assert told.startswith("unknown: asking which devices amd:0 can reach")
    assert "hipErrorUnknown (999)" in told
    standin.devices(1)
    (alone,) = create_driver().probe().devices
    assert "peers" not in alone.details
