"""Why there is no NVIDIA device: each reason told apart, with a stand-in driver library."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import run_python

pytest.importorskip("cuda.bindings", reason="cuda-python is not installed")

SOURCE = Path(__file__).parent.parent / "cuda_standin" / "cuda.c"
PROBE = (
    "import json, xtarget\n"
    "from xtarget._devices import registry as _registry\n"
    "report = _registry.probe('nvidia')\n"
    "print(json.dumps([len(report.devices), report.reason]))"
)


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a built stand-in library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in libcuda.so.1 with")
    folder = tmp_path_factory.mktemp("cuda")
    library = folder / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    subprocess.run([*command, str(SOURCE), "-ldl"], check=True)
    return folder


def reason(standin: Path, behaviour: str, seconds: str = "5", hide: str = "") -> str:
    """The answer of a probe in a fresh process."""
    hidden = f"import sys; sys.modules[{hide!r}] = None\n" if hide else ""
    done = run_python(
        "-c",
        hidden + PROBE,
        seconds=60,
        check=True,
        LD_LIBRARY_PATH=str(standin),
        STANDIN=behaviour,
        XTARGET_PROBE_SECONDS=seconds,
    )
    assert done.stderr == ""
    count, text = json.loads(done.stdout)
    assert count == 0
    return str(text)


@pytest.mark.parametrize(
    ("behaviour", "parts"),
    [
        ("old", ("CUDA 12.4", "cuda-bindings", "Update the driver")),
        ("no device", ("CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES", "nvidia-smi")),
        ("mismatch", ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "nvidia-smi")),
        ("nothing", ("sees no device", "CUDA_VISIBLE_DEVICES")),
        ("prints", ("sees no device",)),
        ("crashes", ("SIGABRT",)),
    ],
)
def test_each_reason_says_what_to_do(standin: Path, behaviour: str, parts: tuple[str, ...]) -> None:
    text = reason(standin, behaviour)
    for part in parts:
        assert part in text


@pytest.mark.parametrize("behaviour", ["blocks", "blocks when loaded"])
def test_a_driver_that_blocks_is_cut_off(standin: Path, behaviour: str) -> None:
    assert "did not answer in time (1 s" in reason(standin, behaviour, seconds="1")


def test_no_library_says_where_it_was_looked_for(tmp_path: Path) -> None:
    from xtarget.targets._host.machine import find_library_file

    if find_library_file("libcuda.so.1") is not None:
        pytest.skip("this machine has the CUDA driver")
    text = reason(tmp_path, "")
    assert "libcuda.so.1 was not found" in text
    assert "LD_LIBRARY_PATH" in text


def test_no_binding_says_how_to_install_it(standin: Path) -> None:
    assert 'pip install "xtarget[nvidia]"' in reason(standin, "", hide="cuda.bindings")


def test_a_library_is_found_without_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xtarget.targets._host.machine import find_library_file

    assert find_library_file("libxtarget-nowhere.so.1") is None
    (tmp_path / "libxtarget-nowhere.so.1").write_text("no library at all")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert find_library_file("libxtarget-nowhere.so.1") == f"{tmp_path}/libxtarget-nowhere.so.1"
    assert find_library_file("libc.so.6") is not None
