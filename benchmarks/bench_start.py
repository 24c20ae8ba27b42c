"""Start times: import, `xtarget devices`, and a second process with a warm cache.

    python benchmarks/bench_start.py [--runs 11] [--only "second process|bare"] [--json FILE]

Seconds, the median of some runs that take turns, with Python's bytecode on disk. On an NVIDIA GPU
the second process is compared with a bare one that makes a context with cuda.core, loads the same
cubin, copies, launches and copies back; and with torch + Triton.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import xtarget

RUN = """
import numpy as np, xtarget
a = np.arange(4096, dtype=np.float32)
assert (xtarget.run("add", a, a) == a + a).all()
"""

BARE = """
import sys, ctypes, numpy as np, cuda.core as core
from cuda.bindings import driver
n = 4096
a = np.arange(n, dtype=np.float32)
device = core.Device(0)
device.set_current()
kernel = core.ObjectCode.from_cubin(open(sys.argv[1], "rb").read()).get_kernel("add")
stream = core.LEGACY_DEFAULT_STREAM
size = a.nbytes
x, y, o = (int(driver.cuMemAlloc(size)[1]) for _ in range(3))
driver.cuMemcpyHtoD(x, a.ctypes.data, size)
driver.cuMemcpyHtoD(y, a.ctypes.data, size)
config = core.LaunchConfig(
    grid=int(sys.argv[2]), block=int(sys.argv[3]), shmem_size=int(sys.argv[4])
)
core.launch(stream, config, kernel, x, y, o, ctypes.c_int32(n), 0, 0)
out = np.empty_like(a)
driver.cuMemcpyDtoH(out.ctypes.data, o, size)
assert (out == a + a).all()
"""

TORCH = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from triton_add import add
n = 4096
a = torch.arange(n, dtype=torch.float32, device="cuda")
o = torch.empty_like(a)
add[(4,)](a, a, o, n, BLOCK=1024)
assert torch.equal(o.cpu(), (a + a).cpu())
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def bare_arguments(cache: Path) -> list[str]:
    """The cubin that `run` left in the cache, and its launch."""
    layout = xtarget.spec.ArrayType("float32", (4096,), (1,))
    os.environ["XTARGET_CACHE_DIR"] = str(cache)
    target = xtarget.default_device().target
    (artifact,) = xtarget.compile("add", layout, layout, target=target)
    from xtarget._kernels import libraries
    from xtarget._launch import planning

    kernel = libraries.find("add")
    call = planning.call_of(kernel, [layout, layout], {}, target, 132)
    plan = planning.make_plan(kernel, call)
    path = cache / "add.cubin"
    path.write_bytes(artifact.binary)
    grid = plan.launches[0].grid[0]
    return [str(path), str(grid), str(artifact.block[0]), str(artifact.shared_bytes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", metavar="PATTERN", default="", help="ways whose names match")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    python = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        environment = {**os.environ, "XTARGET_CACHE_DIR": folder}
        if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
            environment["PYTHONPYCACHEPREFIX"] = str(cache / "bytecode")
        ways = {
            "python -c pass": [python, "-c", "pass"],
            "import xtarget": [python, "-c", "import xtarget"],
            "import numpy": [python, "-c", "import numpy"],
            "xtarget devices": [python, "-m", "xtarget", "devices"],
            "second process, run(add)": [python, "-c", RUN],
        }
        info = xtarget.default_device()
        if info.vendor == "nvidia":
            ways["bare cuda.core process"] = [python, "-c", BARE, *bare_arguments(cache)]
            try:
                import torch
                import triton
            except ImportError:
                print("torch or Triton is not installed: left out")
            else:
                del torch, triton
                here = str(Path(__file__).parent)
                ways["torch + Triton"] = [python, "-c", TORCH, here]
        ways = {name: way for name, way in ways.items() if re.search(options.only, name)}
        for command in ways.values():  # fill caches, ours and the disk's
            seconds(command, environment)
        figures: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.runs):
            for name, command in ways.items():
                figures[name].append(seconds(command, environment))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    print(f"seconds, {info.product} ({info.runs_on}), Python {sys.version.split()[0]}")
    for name, value in medians.items():
        print(f"  {name:26} {value:7.3f}")
    if {"python -c pass", "import xtarget"} <= medians.keys():
        limit = 1.3 * medians["python -c pass"] + 0.015
        print(f"  import xtarget: {medians['import xtarget']:.3f}, wanted at most {limit:.3f}")
    if {"bare cuda.core process", "second process, run(add)"} <= medians.keys():
        extra = medians["second process, run(add)"] - medians["bare cuda.core process"]
        print(f"  second process over the bare one: {extra * 1e3:+.0f} ms, wanted at most +50")
    if options.json:
        options.json.write_text(json.dumps({"device": info.product, "s": medians}, indent=1))


if __name__ == "__main__":
    main()
