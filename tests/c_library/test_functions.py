"""Triton functions of a bundle's kernels, launched from C and C++ with a grid, warps, stages and
arguments of the caller's, and what a program can read of their static signatures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from small_bundles import built_of

from libxtarget import (
    SANITIZERS,
    SOURCES,
    compiled,
    environment,
    needs_compiler_and_opencl,
    sanitized,
)
from xtarget.spec import Example

HERE = Path(__file__).parent
pytestmark = needs_compiler_and_opencl

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def part(x, out, n, by, BLOCK: tl.constexpr, T: tl.constexpr, HOW: tl.constexpr):
    tl.static_assert(HOW == "plus")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, (tl.load(x + i, i < n) + by[0]).to(T), i < n)
"""
CATALOG = """
from xtarget.spec import DtypeConstant, Input, KernelSpec, Launch, Output, Plan, cdiv


def plan(call):
    x = call.array(0)
    block, warps, stages = (64, 1, 2) if x.size <= 1000 else (256, 2, 3)
    args = {"x": Input(0), "out": Output(), "n": x.size, "by": (1,)}
    constants = {"BLOCK": block, "T": DtypeConstant(x.dtype), "HOW": "plus"}
    launch = Launch(
        "kernels:part", args, constants, (cdiv(x.size, block), 1, 1), num_warps=warps,
        num_stages=stages,
    )
    return Plan((call.output(x.shape, x.dtype),), (launch,))


KERNELS = (KernelSpec("part", ("x",), plan),)
"""
CALLER = r"""
#include <cstdio>
#include <xtarget.hpp>
int main(int, char **words) {
  xt::Device device{xt::opencl};
  auto part = xt::Bundle{words[1]}.kernel(device, "part", xt::f32);
  float x[600], out[600] = {};
  for (int i = 0; i < 600; i++) x[i] = float(i);
  void *stream = device.stream();
  auto launch = part.launcher();
  launch(stream, 3, 1, 1, 1, 2, x, out, 600, 10, 64, "fp32", "\"plus\"");
  device.synchronize(stream);
  std::printf("%g %g %g\n", out[0], out[191], out[192]);
  auto wide = part.function("*fp32,*fp32,i32,(i32),256,fp32,\"plus\"", 2, 3);
  wide(stream, {1, 1, 1}, x, xt::Tensor{out, {600}}, 600u, 20);
  device.synchronize(stream);
  std::printf("%g %g %g\n", out[0], out[255], out[256]);
  for (auto &one : wide.parameters()) std::printf("%s: %s, ", one.name, one.type);
  std::printf("%zu\n", part.functions().size());
  xt::Array made = part.run(device, stream, xt::Tensor{x, {600}});
  xt::Array again = part.run(device, stream, made);
  device.synchronize(stream);
  again.read(out);
  std::printf("%s %zu %g\n", made.dtype().name, made.size(), out[599]);
  try {
    launch(stream, 3, 1, 1, 4, 2, x, out, 600, 10, 64, "fp32", "\"plus\"");
  } catch (const xt::Error &error) {
    std::printf("%d\n", error.status() == XTARGET_NOT_IN_BUNDLE);
  }
}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    built_of(folder, KERNELS, CATALOG, {"part": [Example(((n,),)) for n in (1000, 5000)]})
    return folder / "a.xtb"


def test_raw_and_typed_launches_under_the_sanitizers(own: Path, tmp_path: Path) -> None:
    flags = SANITIZERS["address,undefined"]
    program = compiled(tmp_path / "functions", HERE / "functions.c", flags=flags)
    assert sanitized(tmp_path, program, own) == "all right\n"


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_cpp_calls_with_grid_warps_and_stages(own: Path, shared: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "caller.cpp", tmp_path / "caller"
    source.write_text(CALLER)
    words = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(source), str(shared)]
    words += [f"-I{SOURCES / 'include'}", f"-Wl,-rpath,{shared.parent}", "-o", str(program)]
    subprocess.run(words, check=True, timeout=100)
    done = subprocess.run(
        [str(program), str(own)], capture_output=True, text=True, timeout=60, env=environment()
    )
    first, second, parameters, run, refused = done.stdout.splitlines()
    assert (first, second, refused) == ("10 201 0", "20 275 0", "1"), done
    assert run == "float32 2400 601"
    assert parameters.startswith("x: *fp32, out: *fp32, n: i32, by.0: i32, BLOCK: constexpr, ")
