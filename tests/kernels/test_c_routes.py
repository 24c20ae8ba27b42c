"""C that is made from the kernels' Triton text: where Triton is missing, the CPU's own run time
compiles it, and NVRTC for NVIDIA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import run_python

from xtarget.targets.nvidia import nvrtc

#: Half types, division, integers that wrap, shifts, two results, options, bool.
ROWS = "add-bfloat16 gelu-float16 divmod-int8 pow-uint32 left_shift-int16 frexp-float32 clip-int64 "
ROWS += "logical_xor-bool nextafter-float64 fmod-float32 bit_count-int32 addcmul-float16"
ROUTES = {"cpu": "opencl", "nvidia": "nvrtc"}

SCRIPT = """
import sys

sys.modules["triton"] = None  # an import of it fails
import numpy as np

device, *rows = sys.argv[1:]
from operator_values import arguments
from operators import own
from oracle import check

import xtarget

with np.errstate(all="ignore"):
    for row in rows:
        name, dtype = row.split("-")
        check(name, *arguments(own()[name], dtype), device=device)
x = np.arange(60000, dtype=np.float32).reshape(3, 100, 200)
y = x.transpose(0, 2, 1)[:, ::2, ::-1]
np.testing.assert_array_equal(xtarget.run("mul", y, 2.5, device=device), y * np.float32(2.5))
long = np.array([2**53 + 1, -(2**62) - 2**53 - 1, 2**61 + 2**52 + 1])
near = xtarget.run("cast", long, dtype="bfloat16", device=device)
assert near.astype(np.float64).tolist() == [2.0**53, -(2.0**62), 2.0**61], near  # rounded once
near = xtarget.run("cast", np.array([2049 + 2**-30, 1e-7]), dtype="float16", device=device)
assert near.tolist() == [2050.0, 1.1920928955078125e-07], near
try:
    xtarget.run("gcd", np.array([4, 6]), 2, device=device)
except xtarget.NoCompilerError as error:
    print(error)
assert not any(name.startswith("triton.") for name in sys.modules)
"""

LIBRARY = '''
import triton
import triton.language as tl

SCALES = tl.constexpr((1.5, -2.0))


@triton.jit
def scaled(x, times, WHICH: tl.constexpr):
    """A number that is carried through a loop whose length is known at run time."""
    total = x * 0
    for step in range(times):
        total += x * SCALES[WHICH] + step
    return total


@triton.jit
def kernel_(a, out, n, times, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, scaled(tl.load(a + i, mask=i < n, other=7), times, WHICH), mask=i < n)
'''
CATALOG = """
from xtarget.spec import Input, KernelSpec, Launch, Output, Plan, cdiv


def plan(call):
    (a,) = call.args
    out = call.output(a.shape, a.dtype)
    arguments = {"a": Input(0), "out": Output(0), "n": a.size, "times": 3}
    launch = Launch("own:kernel_", arguments, {"WHICH": 1, "BLOCK": 64}, (cdiv(a.size, 64), 1, 1))
    return Plan((out,), (launch,))


KERNELS = (KernelSpec("looped", ("a",), plan),)
"""


#: For both languages: the prelude has the words that differ.
WRITTEN = """
KERNEL(THREADS) void kernel_(GLOBAL const TYPE_a* a, GLOBAL TYPE_out* out, int n, int times) {
  for (int lane = xt_thread; lane < BLOCK; lane += THREADS) {
    const int i = xt_block(0) * BLOCK + lane;
    if (i < n) out[i] = a[i] * times + WHICH;
  }
}
"""


@pytest.fixture
def route(device: str) -> str:
    """The route of the device that needs no Triton."""
    found = ROUTES.get(device.partition(":")[0])
    if found is None:
        pytest.skip(f"{device} has no route without Triton")
    if found == "nvrtc" and not nvrtc.installed():
        pytest.skip("NVRTC is not installed")
    return found


def test_rows_are_right_without_triton(device: str, route: str, tmp_path: Path) -> None:
    words = ("-W", "ignore", "-c", SCRIPT, device, *ROWS.split())
    done = run_python(*words, XTARGET_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = rf"{route} cannot serve it: .*integers\.py:\d+: the statement"
    assert re.search(said, done.stdout), done.stdout
    made = {path.suffix for path in tmp_path.rglob("*/*/*/*") if path.suffix != ".json"}
    # on the CPU the text, and the machine code that the run time makes of it
    assert made == ({".cl", ".bin"} if route == "opencl" else {".cubin"})


@pytest.fixture
def looped(device: str, route: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of a user, and the routes without Triton."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "own.py").write_text(LIBRARY)
    (folder / "catalog.py").write_text(CATALOG)
    monkeypatch.setenv("XTARGET_KERNELS", str(folder))
    monkeypatch.setenv("XTARGET_ROUTES", f"strict,{route}")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XTARGET_DEVICE", device)
    return folder


CALL = "import numpy as np, xtarget\nprint(*xtarget.run('looped', np.arange(3.0)))"


def test_a_users_kernel_and_what_explain_says_of_it(looped: Path, route: str) -> None:
    done = run_python("-c", CALL)
    assert done.stdout.split() == ["3.0", "-3.0", "-9.0"], done.stderr
    explain = ("-m", "xtarget", "explain", "looped", "--shape", "3", "--dtype", "float64")
    done = run_python(*explain)
    assert f"taken from: the cache (route {route})" in done.stdout, done.stdout + done.stderr


def test_a_written_source_stands_before_what_is_translated(looped: Path, route: str) -> None:
    path = looped / f"own.kernel_.{'cl' if route == 'opencl' else 'cu'}"
    path.write_text(WRITTEN)
    done = run_python("-c", CALL)
    assert done.stdout.split() == ["1.0", "4.0", "7.0"], done.stderr
    path.write_text(WRITTEN.replace("+ WHICH", "- WHICH"))
    assert run_python("-c", CALL).stdout.split() == ["-1.0", "2.0", "5.0"]
    path.write_text(WRITTEN.replace("* times", "* tines"))
    errors = run_python("-c", CALL).stderr
    assert "CompileError" in errors
    assert re.search(rf"{path.name}[:(]5\b.*error.*tines", errors), errors
    path.write_text(WRITTEN.replace("kernel_(", "other("))
    assert f"{path.name}: there is no kernel kernel_ in it." in run_python("-c", CALL).stderr


#: Blocks of several axes: reductions, and what walks rows.
BLOCKS = """
import sys

sys.modules["triton"] = None
import numpy as np
from dataclasses import replace

device, threads = sys.argv[1:]
if threads == "several":  # the OpenCL of a processor takes one thread for a block
    from xtarget.targets._c import dialects

    dialects.DIALECTS["OpenCL C"] = replace(dialects.OPENCL, one_thread=False)
from operators import sample
from oracle import check

check("sum", sample("int8", 40, 300), device=device, axis=0)
check("argmin", sample("float16", 7, 130), device=device, axis=1)
# a block of CUDA's has 48 KiB of shared memory, for 16 bytes of each element
length = 40000 if device.startswith("cpu") else 1000
check("softmax", sample("float32", 2, length), device=device)
if threads == "one":
    check("var", sample("bfloat16", 5, 9), device=device)
    check("rms_norm", sample("float64", 3, 50), np.ones(50), device=device)
nan = np.array([[1.0, np.nan], [-np.inf, np.inf]], np.float32)
check("max", nan, device=device, axis=1)
"""


@pytest.mark.parametrize("threads", ["one", "several"])
def test_blocks_of_several_axes_are_right_without_triton(
    threads: str, device: str, route: str, tmp_path: Path
) -> None:
    if threads == "several" and route != "opencl":
        pytest.skip("other routes have several threads anyway")
    words = ("-W", "ignore", "-c", BLOCKS, device, threads)
    done = run_python(*words, XTARGET_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in tmp_path.rglob("*.cl")]
    assert all(("xt_barrier();" in text) == (threads == "several") for text in texts)
