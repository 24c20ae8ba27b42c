"""The real way to an emulated device: hip-python, a libamdhip64.so, and the emulator behind it.

Each test has a process of its own: the library stays loaded until a process ends.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

needs_hip = pytest.mark.skipif(
    importlib.util.find_spec("hip") is None, reason="hip-python is not installed"
)
needs_cc = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler"
)


def through_hip(test: Callable[..., None]) -> Callable[..., None]:
    """Needs hip-python, and a C compiler for the library behind it."""
    return needs_hip(needs_cc(test))


def _python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {k: v for k, v in os.environ.items() if not k.startswith(("ROCM_", "HIP_"))}
    here = Path(__file__).parent
    paths = [str(here.parents[1] / "src"), str(here.parent), str(here)]
    given["PYTHONPATH"] = os.pathsep.join([*paths, given.get("PYTHONPATH", "")])
    given |= {"XTARGET_EMULATOR_HIP": "library", "XTARGET_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=given, check=False
    )


def _right(code: str, folder: Path, **environment: str) -> str:
    done = _python(code, folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@through_hip
def test_several_archs_of_one_process_through_hip_python(tmp_path: Path) -> None:
    out = _right(
        """
        import sys
        import numpy as np
        import xtarget
        from xtarget._devices import registry as _registry
        x = np.arange(1000, dtype=np.float32)
        for arch in ("gfx942", "gfx1100", "gfx942"):
            assert (xtarget.run("add", x, x, device=f"emu:{arch}") == 2 * x).all()
        library = _registry.open_device("emu:gfx942").hip
        asked = library.answers.asked
        a = xtarget.asarray(x, device="emu:gfx1100")
        there = library.answers._devices[0].executed
        assert (xtarget.run("mul", a, a).numpy() == x * x).all()
        assert library.answers._devices[0].executed > there
        print(library.answers.asked > asked, "hip" in sys.modules)
        """,
        tmp_path,
    )
    assert out == "True True\n"


@through_hip
def test_a_kernels_fault_comes_out_of_the_call_and_the_device_stays_lost(tmp_path: Path) -> None:
    out = _right(
        """
        import numpy as np
        from harness import compiled, device, put
        from xtarget import DeviceLostError, KernelFault
        from xtarget._values.types import LaunchConfig
        code = compiled("beyond", "x:*fp32 o:*fp32 n:i32", "gfx942", constants=(("block", 256),))
        there = device("gfx942")
        x, o = put(there, np.zeros(1024, np.float32)), there.alloc(2048)
        start = there.load(code).function().launch
        start(LaunchConfig((3, 1, 1)), [x.address, o.address, 512, 0, 0], there.default_stream)
        try:
            there.synchronize()
        except KernelFault as fault:
            print(str(fault).partition(": ")[0])
        try:
            there.alloc(16)
        except DeviceLostError as error:
            print("a kernel failed before: beyond on gfx942" in str(error))
        x.close()
        """,
        tmp_path,
    )
    assert out == "beyond on gfx942, block (2, 0, 0), warp 0, lane 0\nTrue\n"


@through_hip
def test_blocks_of_a_cooperative_launch_wait_for_each_other(tmp_path: Path) -> None:
    out = _right(
        """
        from test_cooperative import _all_sums, _sums
        from xtarget import OutOfResourcesError; from xtarget._devices import registry as _registry
        print(_sums(_all_sums("gfx942", 32), 32)[0])
        try:
            _sums(_all_sums("gfx942", 512), 512)
        except OutOfResourcesError as error:
            print("holds 256" in str(error))
        """,
        tmp_path,
    )
    assert out.split() == [str(float((np.arange(32 * 256) % 7).sum())), "True"]


@through_hip
def test_the_library_is_no_amd_gpu_of_this_process(tmp_path: Path) -> None:
    out = _right(
        """
        from xtarget._devices import registry as _registry
        from xtarget.targets.amd import create_driver
        _registry.open_device("emu:gfx942")
        print(create_driver().probe().reason)
        """,
        tmp_path,
    )
    assert out == (
        "The HIP library of this process is the emulator's, so AMD GPUs cannot be seen here.\n"
    )


_OPEN = """
    import os
    from xtarget import NoDeviceError, XTargetError
    from xtarget._devices import registry as _registry
    there = os.path.exists
    os.path.exists = lambda path: path == os.environ.get("NODE") or there(path)
    try:
        _registry.open_device("emu:gfx942")
    except NoDeviceError as error:
        print(error)
    """


@needs_hip
def test_a_machine_with_a_real_device_is_refused(tmp_path: Path) -> None:
    out = _right(_OPEN, tmp_path, NODE="/dev/kfd")
    assert "there is /dev/kfd, so this machine may have a real AMD GPU" in out
    assert "Unset XTARGET_EMULATOR_HIP." in out


@needs_hip
def test_a_machine_without_a_c_compiler_is_told_so(tmp_path: Path) -> None:
    out = _right(_OPEN, tmp_path, CC="no-such-compiler")
    assert "there is no C compiler (cc, or what CC names)" in out


@needs_hip
def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n")
    compiler.chmod(0o755)
    out = _right(_OPEN, tmp_path, CC=str(compiler))
    assert f"the C compiler {compiler} failed to build" in out
    assert "no space left" in out


def test_a_way_that_there_is_not_is_refused(tmp_path: Path) -> None:
    done = _python("import xtarget\nxtarget.run('exp', 1.0, device='emu:gfx942')", tmp_path,
                   XTARGET_EMULATOR_HIP="libary")  # fmt: skip
    assert "XTARGET_EMULATOR_HIP=libary means nothing. Write object or library." in done.stderr


_PLANT = """
    #include <stdio.h>
    __attribute__((constructor)) static void run(void) { puts("PLANTED"); fflush(stdout); }
    """


@needs_cc
@pytest.mark.parametrize(
    "how", ["a folder that others may write", "a file that others may write", "shared", "trust"]
)
def test_a_library_that_others_could_have_put_there_is_never_opened(
    how: str, tmp_path: Path
) -> None:
    code = """
    from xtarget_emulator import library
    import ctypes
    path = library._build()
    ctypes.CDLL(str(path))
    print(path)
    """
    folder = tmp_path / "cache"
    kept = Path(_right(code, folder).strip())
    assert kept.is_relative_to(folder)
    assert _right(code, folder).strip() == str(kept), "built once"
    (tmp_path / "plant.c").write_text(_PLANT)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", kept, tmp_path / "plant.c"], check=True)
    assert "PLANTED" in _right(code, folder), "as the user's own it is believed"
    environment = {}
    if how == "a folder that others may write":
        kept.parent.chmod(0o777)
    elif how == "a file that others may write":
        kept.chmod(0o777)
    elif how == "shared":
        environment["XTARGET_CACHE_SHARED"] = "1"
    else:
        (tmp_path / "keys").write_text("00" * 32)
        environment["XTARGET_TRUST"] = str(tmp_path / "keys")
    assert "PLANTED" not in _right(code, folder, **environment)
