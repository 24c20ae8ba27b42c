"""A C++ program that calls a bundle's kernels on this machine's CPU, without Python in it.

Builds the bundle, libxtarget (with CMake) and kernels_in_cpp.cpp, and runs the program.
Run it with: python examples/kernels_in_cpp.py [FOLDER]     (needs CMake and a C++ compiler)
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "kernels_in_cpp").resolve()
bundle, prefix, program = folder / "kernels.xtb", folder / "prefix", folder / "kernels_in_cpp"
folder.mkdir(exist_ok=True)


def run(*words, **more):
    subprocess.run([*map(str, words)], check=True, **more)


kernels = ["--kernel", "softmax", "--kernel", "add"]
run(sys.executable, "-m", "xtarget", "bundle", "build", "-o", bundle, *kernels, "--target", "cpu")
run("cmake", "-S", HERE.parent / "src/libxtarget", "-B", folder / "build")
run("cmake", "--build", folder / "build")
run("cmake", "--install", folder / "build", "--prefix", prefix)
paths = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib"]
run("g++", "-std=c++17", "-Wall", HERE / "kernels_in_cpp.cpp", *paths, "-lxtarget", "-o", program)

# the OpenCL run time of `pip install intel-opencl-rt`; a system's own needs no variables
wheels = Path(sysconfig.get_path("data"), "lib")
found = {}
if (wheels / "libintelocl.so").exists():
    found["XT_OPENCL_LIBRARY"] = str(wheels / "libOpenCL.so.1")
    found["OCL_ICD_FILENAMES"] = str(wheels / "libintelocl.so")
    found["LD_LIBRARY_PATH"] = str(wheels)
run(program, bundle, env={**os.environ, **found})
