"""The AMD driver through the real hip-python on a stand-in library (no GPU: nothing is silicon).

Each scenario of tests/hip_standin/scenarios.py runs in a process of its own: the library stays
loaded until a process ends, and no other test may meet it.
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
SCENARIOS = [
    node.name
    for node in ast.parse((FOLDER / "scenarios.py").read_text()).body
    if isinstance(node, ast.FunctionDef)
    and not node.name.startswith("_")
    and not node.args.args
    and not node.args.vararg
    and not node.args.kwarg
]
#: What a scenario needs besides a C compiler and hip-python.
NEEDS = {"a_real_hsaco_of_triton": "triton"}
WITHOUT_BINDING = {"no_binding", "broken_binding", "no_gpu_library_for_the_compiler"}


@pytest.fixture(scope="session")
def library_folder():
    sys.path.insert(0, str(FOLDER))
    try:
        import standin
    finally:
        sys.path.remove(str(FOLDER))
    if standin.compiler() is None:
        pytest.skip("there is no C compiler (cc) to build the stand-in libamdhip64.so with")
    # not pytest's own folder: scenarios that stop being root have to reach it
    with tempfile.TemporaryDirectory(prefix="xtarget-hip-") as folder:
        os.chmod(folder, 0o755)
        standin.build(Path(folder))
        yield Path(folder)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario, library_folder):
    if scenario not in WITHOUT_BINDING and importlib.util.find_spec("hip") is None:
        pytest.skip("hip-python is not installed, and there is no stand-in for it")
    needed = NEEDS.get(scenario)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROCM_", "HIP_", "ROCR_"))
    }
    source = str(Path(__file__).parents[2] / "src")
    environment["PYTHONPATH"] = os.pathsep.join([source, environment.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(FOLDER / "scenarios.py"), scenario, str(library_folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"ok: {scenario}\n"
    assert result.stderr == "", "a probe or a launch wrote to stderr"
