"""One bundle for two vendors, and a C program for each that calls its kernels.

Compiles kernels for NVIDIA and AMD without a GPU, emits C from the bundle, builds bundle_in_c.c
with it, and runs both programs: on a machine without such a GPU they say what lacks.
Run it with: python examples/bundle_in_c.py [FOLDER]     (needs a C compiler)
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "bundle_in_c")
bundle = folder / "kernels.xtb"
TARGETS = {"cuda": "nvidia:sm_90", "hip": "amd:gfx942"}


def xtarget(*words):
    subprocess.run([sys.executable, "-m", "xtarget", *map(str, words)], check=True)


folder.mkdir(exist_ok=True)
xtarget("bundle", "build", "-o", bundle, "--kernel", "relu", "--target", ",".join(TARGETS.values()))
for driver, target in TARGETS.items():
    code, program = folder / driver, folder / f"relu_{driver}"
    xtarget("bundle", "emit-c", bundle, "-o", code, "--driver", driver)
    files = [HERE / "bundle_in_c.c", code / "xtarget_kernels.c"]
    flags = ["-std=c11", "-O1", "-Wall", f"-I{code}", *(["-DHIP"] if driver == "hip" else [])]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *flags, *files, "-o", program, "-ldl"], check=True)
    done = subprocess.run([program.resolve()], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):  # 3: the driver is not here
        sys.exit(f"{program}: {done.stdout}{done.stderr}")
    print(f"{program}, for {target}: {done.stdout.strip()}")
