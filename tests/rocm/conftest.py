"""AMD's own HIP on GPUs that a functional model stands in for: tests/rocm_rig, ci/rocm.sh."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "rocm_rig"))

from rig import Rig, RigMissing

_HERE = Path(__file__).parent
#: Variables of the caller that would change what HIP or xtarget does.
_FOREIGN = ("ROCM_", "HIP_", "HSA_", "ROCR_", "GPU_", "CUDA_", "XTARGET_")
_KEPT = ("XTARGET_ROCM_FOLDER",)

Scene = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def rig() -> Rig:
    for package in ("hip", "triton", "tinygrad"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    try:
        return Rig()
    except RigMissing as error:
        pytest.skip(f"{error}")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def scene(rig: Rig, cache: Path, tmp_path: Path, mark_ran_on: Any) -> Scene:
    """`scene("scenes_x.name", "gfx942", ..., hip="7", **environment)`: run a function of this
    folder, or several of one file one after the other, in a process with these GPUs; it has to end
    well unless `fails` is given. (The last name on the standard error is the one that did not.)"""

    def run(
        names: str | Sequence[str],
        *gpus: str,
        hip: str = "7",
        link: bool = True,
        fails: bool = False,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        kept = {n: v for n, v in os.environ.items() if n in _KEPT or not n.startswith(_FOREIGN)}
        names = [names] if isinstance(names, str) else names
        module = names[0].partition(".")[0]
        program = [f"import sys, {module}"]
        program += [f"print({name!r}, file=sys.stderr)\n{name}()" for name in names]
        mark_ran_on("amd", "emulator", f"HIP {hip} on a model of {', '.join(gpus)}")
        done = subprocess.run(
            [rig.python(hip, *gpus, link=link), "-c", "\n".join(program)],
            env={
                **kept,
                "PYTHONPATH": str(_HERE),
                "XTARGET_CACHE_DIR": str(cache),
                "XTARGET_TEST_RIG_KERNELS": str(tmp_path / "kernels"),
                **environment,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
