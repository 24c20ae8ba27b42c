"""An operator of torch written in C++ (TORCH_LIBRARY) whose kernel comes from a bundle.

Builds a bundle for the CPU (and the GPU, where torch has CUDA), libxtarget (with CMake) and
torch_operator.cpp, loads the library into torch, and compares with torch's own softmax.
Run it with: python examples/torch_operator.py [FOLDER]     (needs CMake, a C++ compiler and torch)
"""

import ctypes
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch
from torch.utils import cpp_extension

HERE = Path(__file__).resolve().parent
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "torch_operator").resolve()
bundle, prefix, library = folder / "rows.xtb", folder / "prefix", folder / "librows.so"
folder.mkdir(exist_ok=True)
cuda = torch.cuda.is_available()


def run(*words):
    subprocess.run([*map(str, words)], check=True)


targets = ["cpu", *(["nvidia:sm_{}{}".format(*torch.cuda.get_device_capability())] if cuda else [])]
wanted = ["--kernel", "softmax", "--target", ",".join(targets)]
run(sys.executable, "-m", "xtarget", "bundle", "build", "-o", bundle, *wanted)
run("cmake", "-S", HERE.parent / "src/libxtarget", "-B", folder / "build")
run("cmake", "--build", folder / "build")
run("cmake", "--install", folder / "build", "--prefix", prefix)
torch_paths = [f"-isystem{path}" for path in cpp_extension.include_paths("cuda" if cuda else "cpu")]
torch_libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
flags = ["-std=c++17", "-O1", "-shared", "-fPIC", *(["-DWITH_CUDA", "-lc10_cuda"] if cuda else [])]
links = [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lxtarget", "-ltorch_cpu", "-lc10"]
abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
source = [HERE / "torch_operator.cpp", f"-I{prefix}/include", *torch_paths, abi]
run(os.environ.get("CXX", "g++"), *source, *flags, *torch_libraries, *links, "-o", library)

# the OpenCL run time of `pip install intel-opencl-rt`; a system's own needs no variables
wheels = Path(sysconfig.get_path("data"), "lib")
if (wheels / "libintelocl.so").exists():
    os.environ["XT_OPENCL_LIBRARY"] = str(wheels / "libOpenCL.so.1")
    os.environ["OCL_ICD_FILENAMES"] = str(wheels / "libintelocl.so")
    for needed in ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so"):
        ctypes.CDLL(str(wheels / needed))
os.environ["ROWS_BUNDLE"] = str(bundle)
torch.ops.load_library(library)
for device in ["cpu", *(["cuda"] if cuda else [])]:
    x = torch.randn(64, 1000, device=device)
    worst = (torch.ops.rows.softmax(x) - x.softmax(-1)).abs().max().item()
    if worst > 1e-6:
        sys.exit(f"rows::softmax on {device} is wrong by {worst:.1g}")
    print(f"rows::softmax on {device}: right ({worst:.1g})")
