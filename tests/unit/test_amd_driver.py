"""The AMD driver through the real hip-python on a stand-in library (no GPU: nothing is silicon).

AMD's own HIP runs in tests/rocm, without a GPU as well, and what it shows is not tested here:
results, captures into graphs, which library is taken, memory that runs out, several devices at
work. The stand-in is for what that one cannot be made to do: each status of HIP at each call,
damaged properties, missing functions and permissions, old versions, devices without pools, peers
or cooperative launches; and for what can be counted only by who is called: calls of a launch,
argument bytes of every type, what is given back and in which order.

Each scene of tests/hip_standin/scenes_*.py runs in a process of its own: the library stays loaded
until a process ends, and no other test may meet it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "hip_standin"
SCENES = [
    f"{path.stem}.{node.name}"
    for path in sorted(FOLDER.glob("scenes_*.py"))
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]
#: What a scene needs besides a C compiler and hip-python.
NEEDS = {}
WITHOUT_BINDING = {
    "scenes_probe.no_binding",
    "scenes_probe.broken_binding",
    "scenes_refuse.no_gpu_library_for_the_compiler",
}


@pytest.fixture(scope="session")
def library():
    sys.path.insert(0, str(FOLDER))
    try:
        import standin
    finally:
        sys.path.remove(str(FOLDER))
    if standin.compiler() is None:
        pytest.skip("there is no C compiler (cc) to build the stand-in libamdhip64.so with")
    # not pytest's own folder: scenes that stop being root have to reach it
    with tempfile.TemporaryDirectory(prefix="xtarget-hip-") as folder:
        os.chmod(folder, 0o755)
        yield standin.build(Path(folder))


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene, library):
    if scene not in WITHOUT_BINDING and importlib.util.find_spec("hip") is None:
        pytest.skip("hip-python is not installed, and there is no stand-in for it")
    needed = NEEDS.get(scene)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROCM_", "HIP_", "ROCR_", "XTARGET_"))
    }
    source = Path(__file__).parents[2] / "src"
    paths = [str(source), str(FOLDER), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["XTARGET_TEST_STANDIN"] = str(library)
    module = scene.partition(".")[0]
    result = subprocess.run(
        [sys.executable, "-c", f"import {module}; {scene}(); print('done')"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"
    assert result.stderr == "", "a probe or a launch wrote to stderr"
