"""The route `hip`: the C++ that NVRTC takes, compiled by clang for AMD's GPUs without Triton, and
executed by the emulator."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from c_route_programs import BLOCKS, CATALOG, LIBRARY, ROWS, SCRIPT, WRITTEN
from operators import request_of
from processes import run_python

from xtarget._compile import functions
from xtarget._values.errors import CompileError, NoCompilerError, UnknownTargetError
from xtarget._values.types import Target
from xtarget.targets.amd import clang, hip_cpp, hiprtc
from xtarget.targets.amd.code_object import CodeObject

GFX942 = Target("amd", "gfx942")
needs_clang = pytest.mark.skipif(clang.find() is None, reason="no clang with AMD's target")
#: ocml of Triton's wheel, which these programs do not import.
TRITON = importlib.util.find_spec("triton")
FUNCTIONS = f"{Path(TRITON.origin or '').parent}/backends/amd/lib" if TRITON else ""
#: No other compiler than clang's, and no other kernels.
ENVIRONMENT = {"XTARGET_ROUTES": "strict,hip", "HIP_DEVICE_LIB_PATH": FUNCTIONS}


request = partial(request_of, target=GFX942)


@pytest.mark.sample(3)
@needs_clang
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_rows_are_right_without_triton(arch: str, tmp_path: Path) -> None:
    words = ("-W", "ignore", "-c", SCRIPT, f"emu:{arch}", *ROWS.split())
    environment = {**ENVIRONMENT, "XTARGET_ROUTES": "", "XTARGET_CACHE_DIR": str(tmp_path)}
    done = run_python(*words, **environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"hip cannot serve it: .*searching\.py:\d+: the name atomic_add", done.stdout)
    made = {path.suffix for path in tmp_path.rglob("*/*/*/*") if path.suffix != ".json"}
    assert made == {".hsaco"}


@needs_clang
@pytest.mark.parametrize("arch", [pytest.param("gfx942", marks=pytest.mark.long), "gfx1100"])
def test_blocks_of_several_axes_are_right_without_triton(arch: str, tmp_path: Path) -> None:
    words = ("-W", "ignore", "-c", BLOCKS, f"emu:{arch}", "several")
    done = run_python(*words, XTARGET_CACHE_DIR=str(tmp_path), **ENVIRONMENT)
    assert done.returncode == 0, done.stderr


CALL = "import numpy as np, xtarget\nprint(*xtarget.run('looped', np.arange(3.0)))"
#: CUDA's own words, as a user's kernel for NVIDIA has them.
OF_CUDA = """
extern "C" __global__ __launch_bounds__(THREADS)
void kernel_(const TYPE_a* a, TYPE_out* out, int n, int times) {
  __shared__ TYPE_a block[BLOCK];
  for (unsigned lane = threadIdx.x; lane < BLOCK; lane += blockDim.x) {
    const int i = blockIdx.x * BLOCK + lane;
    block[lane] = i < n ? fma(a[i], (double)times, (double)(gridDim.x + WARP_SIZE)) : 0;
  }
  __syncthreads();
  for (unsigned lane = threadIdx.x; lane < BLOCK; lane += blockDim.x) {
    const int i = blockIdx.x * BLOCK + lane;
    if (i < n) out[i] = block[BLOCK - 1 - (BLOCK - 1 - lane)];
  }
}
"""


@needs_clang
def test_one_cuda_source_of_a_user_serves_amd(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LIBRARY)
    (tmp_path / "catalog.py").write_text(CATALOG)
    source = tmp_path / "own.kernel_.cu"

    def said(device: str) -> str:
        places = {"XTARGET_KERNELS": str(tmp_path), "XTARGET_CACHE_DIR": str(tmp_path / "cache")}
        done = run_python("-c", CALL, XTARGET_DEVICE=device, **places, **ENVIRONMENT)
        return done.stdout.strip() or done.stderr

    source.write_text(OF_CUDA)
    assert said("emu:gfx942") == "65.0 68.0 71.0"
    assert said("emu:gfx1100") == "33.0 36.0 39.0"
    source.write_text(OF_CUDA.replace("(double)times", "(double)tines"))
    assert re.search(rf"{source.name}:7:\d+: error: .*tines", said("emu:gfx942"))
    source.with_suffix(".hip").write_text(WRITTEN)  # AMD's own stands before it
    assert said("emu:gfx942") == "1.0 4.0 7.0"


@needs_clang
def test_a_code_object_says_what_it_is() -> None:
    made = hip_cpp.HipRoute().compile(request("add", "bfloat16"), GFX942, keep_stages=True)
    code = CodeObject.parse(made.binary)
    assert (made.route, made.format, code.arch) == ("hip", "hsaco", "gfx942")
    kernel = code.kernels[made.entry]
    assert (kernel.max_threads, kernel.wavefront_size) == (made.block[0], 64)
    assert made.resources.registers
    assert "KERNEL(256) void xt_add" in made.texts["hip"]
    again = hip_cpp.HipRoute().compile(request("add", "bfloat16"), GFX942)
    assert again.binary == made.binary
    with pytest.raises(UnknownTargetError, match="gfx1"):
        hip_cpp.HipRoute().compile(request("add", "float32"), Target("amd", "gfx1"))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", "hip")
    monkeypatch.setattr(hiprtc, "find", lambda: None)
    if clang.find() is not None:
        monkeypatch.setattr(clang, "device_library", lambda: None)
        with pytest.raises(
            NoCompilerError, match=r"it calls exp, and AMD's library .*ROCm.*triton"
        ):
            functions.artifact(request("exp", "float32"), GFX942)
    monkeypatch.setattr(clang, "find", lambda: None)
    with pytest.raises(NoCompilerError, match=r"neither hipRTC nor a clang.*pip install .*\[hip\]"):
        functions.artifact(request("add", "float64"), GFX942)


@needs_clang
def test_too_many_threads_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", "strict,hip")
    with pytest.raises(CompileError, match=r"num_warps=32 gives blocks of 2048 threads"):
        functions.artifact(replace(request("add", "float32"), num_warps=32), GFX942)
