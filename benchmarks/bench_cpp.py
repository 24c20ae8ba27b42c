#!/usr/bin/env python3
"""The cost of a call from C++ (libxtarget) beside the driver's own launch of the same binary.

    python benchmarks/bench_cpp.py [--driver cuda|cuda-own|opencl] [--built FOLDER]

Builds a bundle of relu, add and softmax for the device, libxtarget and bench_cpp.cpp; `--built`
names a folder where the last two are already (libxtarget.so, bench_cpp), for machines without
OpenSSL's headers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import xtarget
from libxtarget import SOURCES, compiled, environment

HERE = Path(__file__).resolve().parent


def built(folder: Path) -> None:
    """libxtarget.so and bench_cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-flto", "-fno-plt")  # as in wheels
    compiled(folder / "libxtarget.so", flags=flags)
    words = ["-std=c++17", "-O2", "-Wall", HERE / "bench_cpp.cpp", f"-I{SOURCES / 'include'}"]
    words += [f"-L{folder}", "-lxtarget", "-ldl", "-lpthread", "-o", folder / "bench_cpp"]
    subprocess.run(["g++", *map(str, words)], check=True)


def command(*words: object) -> None:
    """Run `xtarget`."""
    subprocess.run([sys.executable, "-m", "xtarget", *map(str, words)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", choices=["cuda", "cuda-own", "opencl"], default="opencl")
    parser.add_argument("--built", type=Path)
    given = parser.parse_args()
    folder = given.built or Path(tempfile.mkdtemp(prefix="xtarget-cpp-"))
    if given.built is None:
        built(folder)
    scratch = Path(tempfile.mkdtemp(prefix="xtarget-cpp-"))
    bundle, words = scratch / "kernels.xtb", []
    target = "cpu"
    if given.driver != "opencl":
        target = str(next(d.target for d in xtarget.devices() if d.target.vendor == "nvidia"))
        command("compile", "relu", "--target", target, "--shape", "4096", "-o", scratch)
        (cubin,), (facts,) = scratch.glob("*.cubin"), scratch.glob("*.json")
        said = json.loads(facts.read_text())
        words = [cubin, said["entry"], said["block"][0], len(said["parameters"])]
    command("bundle", "build", "-o", bundle, "--target", target, "--kernel", "relu,add,softmax")
    found = {**os.environ, **environment()}
    found["LD_LIBRARY_PATH"] = f"{folder.resolve()}:{found.get('LD_LIBRARY_PATH', '')}"
    words = [folder.resolve() / "bench_cpp", bundle, given.driver, *words]
    subprocess.run([*map(str, words)], check=True, env=found)


if __name__ == "__main__":
    main()
