"""libxtarget as a package: by CMake and pkg-config, from an installation and as wheels have it; the
C++ example, built by both, runs on the CPU."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from libxtarget import ROOT, SOURCES, environment

EXAMPLE = ROOT / "examples" / "kernels_in_cpp.cpp"
KERNELS = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C CXX)
find_package(xtarget REQUIRED)
xtarget_add_kernels(own TARGETS cpu LIBRARIES {library} DTYPES float32 float16)
xtarget_add_kernels(gpu TARGETS nvidia:sm_80 KERNELS relu C_FUNCTIONS cuda)
get_target_property(bundle own XTARGET_BUNDLE)
add_executable(user user.cpp)
target_compile_features(user PRIVATE cxx_std_17)
target_compile_definitions(user PRIVATE BUNDLE="${{bundle}}")
target_link_libraries(user PRIVATE xtarget::xtarget gpu)
"""
USER = """
#include <cstdio>
#include <xtarget.hpp>
#include "xtarget_kernels.h"
struct Strange {  // a DLTensor of complex numbers
  void *data;
  int device[2], ndim;
  unsigned char code, bits;
  unsigned short lanes;
  long *shape, *strides;
  unsigned long byte_offset;
};
int main() {
  xt::Device device{xt::opencl};
  auto scaled = xt::Bundle{BUNDLE}.kernel(device, "own_scaled", xt::f32);
  float x[] = {-2, 0, 3}, out[3];
  void *stream = device.stream();
  scaled(stream, xt::Tensor{x, {3}}, xt::Tensor{out, {3}});
  device.synchronize(stream);
  Strange strange{x, {1, 0}, 0, 5, 64, 1, nullptr, nullptr, 0};
  int status = scaled.try_call(stream, &strange, xt::Tensor{out, {}});
  std::printf("%g %g %g %d %d\\n", out[0], out[1], out[2], xt_load() == XT_NO_DRIVER, status);
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES CXX)
find_package(xtarget 0.1 REQUIRED)
find_package(xtarget 9 QUIET)
if(xtarget_FOUND)
  message(FATAL_ERROR "a version that is not there was found")
endif()
find_package(xtarget REQUIRED)
add_executable(user {source})
target_compile_features(user PRIVATE cxx_std_17)
target_compile_options(user PRIVATE -Wall -Wextra -Werror)
target_link_libraries(user PRIVATE xtarget::xtarget)
"""

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "g++", "cmake", "pkg-config"))) or not environment(),
    reason="gcc, CMake or pkg-config is missing, or an OpenCL run time for CPUs",
)


def run(*words: object, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_a_wheel(prefix: Path, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build_c", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.build_c(prefix) == ""


def installed(prefix: Path, folder: Path) -> None:
    run("cmake", "-S", SOURCES, "-B", folder / "build")
    run("cmake", "--build", folder / "build")
    run("cmake", "--install", folder / "build", "--prefix", prefix)


@pytest.mark.parametrize("put", [in_a_wheel, installed])
def test_programs_find_it(put: object, path: Path, tmp_path: Path) -> None:
    assert callable(put)
    first, prefix = tmp_path / "first", tmp_path / "moved"
    put(first, tmp_path)
    first.rename(prefix)
    flags = run(
        "pkg-config", "--cflags", "--libs", "xtarget", PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig"
    )
    by_flags, user = tmp_path / "by_flags", tmp_path / "user"
    run("g++", "-std=c++17", EXAMPLE, "-o", by_flags, *flags.split(), f"-Wl,-rpath,{prefix}/lib")
    user.mkdir()
    (user / "CMakeLists.txt").write_text(PROJECT.format(source=EXAMPLE))
    run("cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", user / "build")
    for program in (by_flags, user / "build" / "user"):
        said = run(program, path, **environment())
        assert "(cpu:spirv64): right" in said
        assert "refused: output 1 of softmax is float32(1000, 8)" in said
    # the manual's programs
    text = (ROOT / "docs" / "how-to" / "cpp.md").read_text(encoding="utf-8")
    shutil.copyfile(path, tmp_path / "kernels.xtb")
    for language, compiler in (("c", ["gcc"]), ("cpp", ["g++", "-std=c++17"])):
        (code,) = re.findall(rf"```{language}\n(.+?)```", text, re.DOTALL)
        source, program = tmp_path / f"code.{language}", tmp_path / f"by_{language}"
        source.write_text(code)
        run(*compiler, source, "-o", program, *flags.split(), f"-Wl,-rpath,{prefix}/lib")
        assert run(program, cwd=tmp_path, **environment()) == "0 0 3\n"


def test_a_project_builds_kernels_of_its_own(tmp_path: Path) -> None:
    """A bundle for the CPU of a library in the project, and C functions for CUDA."""
    prefix, user = tmp_path / "prefix", tmp_path / "user"
    in_a_wheel(prefix, tmp_path)
    run(sys.executable, "-m", "xtarget", "new-kernels", tmp_path / "own")
    user.mkdir()
    library = tmp_path / "own" / "src" / "own"
    (user / "CMakeLists.txt").write_text(KERNELS.format(library=library))
    (user / "user.cpp").write_text(USER)
    command = Path(sys.executable).parent / "xtarget"
    configure = ("cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(*configure, f"-DXTARGET_EXECUTABLE={command}")
    build = ("cmake", "--build", user / "build")
    assert "Compiling kernels into own.xtb" in run(*build)
    nowhere = {"XT_CUDA_LIBRARY": "/nowhere/libcuda.so.1"}
    assert run(user / "build" / "user", **environment(), **nowhere) == "-4 0 6 1 1\n"
    assert "Compiling" not in run(*build)
    (library / "scaled.py").touch()
    assert "Compiling kernels into own.xtb" in run(*build)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("KERNELS relu", "needs TARGETS"),
        ("TARGETS cpu C_FUNCTIONS opencl", "there are functions for cuda and hip"),
        ("x TARGETS cpu", "what is x?"),
    ],
)
def test_what_a_project_asks_wrongly_is_said(arguments: str, words: str, tmp_path: Path) -> None:
    file = SOURCES / "cmake" / "xtargetKernels.cmake"
    script = tmp_path / "script.cmake"
    script.write_text(f'include("{file}")\nxtarget_add_kernels(mine {arguments})\n')
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert words in " ".join(done.stderr.split()), done.stderr


def test_the_header_is_plain_c_and_the_numbers_are_the_packages(tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(
        '#include "xtarget.h"\nint main(void) { return xtarget_abi_version() - 1; }\n'
    )
    for words in (("gcc", "-std=c99"), ("g++", "-std=c++17", "-x", "c++")):
        strict = ("-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{SOURCES / 'include'}")
        run(*words, *strict, "-fsyntax-only", source)
