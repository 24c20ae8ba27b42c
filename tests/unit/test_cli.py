"""The command line without a device and without Triton: listings, usage, errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from command_line import here
from processes import run_python

import xtarget
from xtarget._cli import run
from xtarget._devices import registry
from xtarget._values.types import DeviceInfo, ProbeReport, Target

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = click.Context(click.Command("run"))


def command(
    *words: str, before: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own; modules in `before` hide installed ones."""
    folders = [str(before)] if before else []
    path = os.pathsep.join([*folders, str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return run_python("-m", "xtarget", *words, path=path, seconds=600, **environment)


def device(name: str, product: str = "Acme One") -> DeviceInfo:
    return DeviceInfo(
        name=name,
        target=Target.parse("amd:gfx942"),
        product=product,
        memory_bytes=192 * 2**30,
        compute_units=304,
        driver_version="7.2",
        warp_size=64,
        max_threads_per_block=1024,
        max_shared_bytes=65536,
        details={"bus": "0000:01:00.0"},
    )


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [
        ProbeReport("nvidia", (), "the driver is older than CUDA 13. Update it."),
        ProbeReport("amd", (device("amd:0"), device("amd:1", "Acme Two"))),
    ]
    monkeypatch.setattr(registry, "probe_all", lambda wanted=None: reports)
    monkeypatch.delenv("XTARGET_DEVICE", raising=False)


@pytest.fixture(scope="module")
def without_bindings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that makes every vendor's binding look as if it were not installed."""
    folder = tmp_path_factory.mktemp("hidden")
    for name in ("pyopencl", "dpctl", "cuda", "hip"):
        text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        (folder / f"{name}.py").write_text(text)
    return folder


# ---------------------------------------------------------------------------------------- devices


@pytest.mark.usefixtures("two_devices")
def test_devices_lists_devices_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capsys, "devices")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].split()[:3] == ["*", "amd:0", "amd:gfx942"]
    assert "Acme Two" in lines[2]
    assert "192 GiB" in lines[2]
    assert not lines[2].startswith("*")
    assert lines[3] == "nvidia: the driver is older than CUDA 13. Update it."


@pytest.mark.usefixtures("two_devices")
def test_devices_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "devices", "--json")
    facts = json.loads(out)
    assert code == 0
    assert [(d["name"], d["default"]) for d in facts["devices"]] == [
        ("amd:0", True),
        ("amd:1", False),
    ]
    assert facts["devices"][0]["target"] == "amd:gfx942"
    assert facts["devices"][0]["details"] == {"bus": "0000:01:00.0"}
    assert [v["vendor"] for v in facts["unavailable"]] == ["nvidia"]


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("name", ["amd:1", "hip:1"])
def test_the_environment_chooses_the_default(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_DEVICE", name)
    code, out, err = here(capsys, "devices", "--json")
    assert (code, err) == (0, "")
    assert [d["name"] for d in json.loads(out)["devices"] if d["default"]] == ["amd:1"]


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("name", ["amd:7", "nvidia", "acme", "amd:x"])
def test_a_default_that_is_not_there_is_told(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_DEVICE", name)
    code, out, err = here(capsys, "devices")
    assert code == 0
    assert "amd:0" in out
    assert not any(line.startswith("*") for line in out.splitlines())
    assert err.startswith("warning: XTARGET_DEVICE")
    assert "amd:0, amd:1" in err


def test_no_device_at_all_gives_every_reason_and_exit_code_3(without_bindings: Path) -> None:
    done = command("devices", before=without_bindings)
    assert (done.returncode, done.stderr) == (3, "")
    assert "No device was found." in done.stdout
    for vendor in ("nvidia", "amd", "intel", "cpu"):
        (line,) = [x for x in done.stdout.splitlines() if x.startswith(f"{vendor}: ")]
        assert len(line) > 30, line
    assert 'pip install "xtarget[cpu]"' in done.stdout
    done = command("devices", "--json", before=without_bindings)
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["devices"], len(facts["unavailable"])) == (3, [], 4)


def test_run_without_a_device_is_exit_code_3(without_bindings: Path) -> None:
    done = command("run", "add", before=without_bindings)
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert "xtarget[cpu]" in done.stderr
    assert "Traceback" not in done.stderr


def test_listings_load_neither_triton_nor_numpy() -> None:
    code = (
        "import sys\n"
        "from xtarget._cli.main import main\n"
        "try: main({0})\n"
        "except SystemExit: pass\n"
        "heavy = {{'numpy', 'triton', 'torch', 'pyopencl', 'dpctl', 'cuda.bindings', 'hip'}}\n"
        "print('loaded', sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for words in (
        ["devices"],
        ["kernels"],
        ["info"],
        ["doctor"],
        ["cache", "path"],
        ["ci", "matrix"],
    ):
        done = run_python("-c", code.format(words), path=path, cwd=ROOT, seconds=600)
        assert done.stderr.splitlines()[-1] == "loaded []", (words, done.stderr)


# ------------------------------------------------------------------------------- other listings


def test_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "kernels")
    assert code == 0
    (line,) = [x for x in out.splitlines() if x.startswith("softmax ")]
    assert "normalization" in line
    assert "axis=-1" in line
    assert "floats" in line
    code, out, _ = here(capsys, "kernels", "--json")
    by_name = {entry["name"]: entry for entry in json.loads(out)}
    assert set(by_name) == set(xtarget.catalog())
    assert by_name["add"]["dtypes"] == list(xtarget.catalog()["add"].dtypes)
    assert by_name["layer_norm"]["required"] == 1


def test_cache_path(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", "/somewhere/else")
    assert here(capsys, "cache", "path") == (0, "/somewhere/else\n", "")
    assert json.loads(here(capsys, "cache", "path", "--json")[1]) == {"path": "/somewhere/else"}


def test_info(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_DEVICE", "cpu")
    facts = json.loads(here(capsys, "info", "--json")[1])
    assert facts["xtarget"] == xtarget.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["environment"]["XTARGET_DEVICE"] == "cpu"
    assert "numpy: " + np.__version__ in here(capsys, "info")[1]
    assert facts["core"].split()[0] in ("c", "python")
    monkeypatch.setenv("XTARGET_CORE", "python")
    assert "core: python (XTARGET_CORE=python)" in here(capsys, "info")[1]


def test_info_shows_no_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_REMOTE", "redis://me:hush@host:1/0")
    out = here(capsys, "info", "--json")[1]
    assert "hush" not in out
    assert json.loads(out)["environment"]["XTARGET_CACHE_REMOTE"] == "redis://...@host:1/0"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "--version")
    assert (code, out) == (0, f"xtarget, version {xtarget.__version__}\n")


# --------------------------------------------------------------------------- usage and errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["devises"], "No such command"),
        (["run"], "Missing argument"),
        *(
            (["run", "add", "--shape", shape], "is not a shape")
            for shape in ("4xx", "10x", "4,x", "4,,", "x10", "-4", "()x")
        ),
        (["run", "add", "--shape", "4", "--shape", "4", "--shape", "4"], "3 shapes for 2 arrays"),
        (["run", "add", "--dtype", "float8"], "is not a dtype"),
        (["run", "add", "--option", "axis"], "not of the form name=value"),
        (["run", "add", "--scalar", "z=1"], "has no input 'z'"),
        (["run", "add", "--scalar", "a=x"], "is not a number"),
        (["compile", "add", "-o", "x"], "--target"),
        (["compile", "add", "--target", "nvidia:sm_90"], "--output"),
        (["show", "add", "--target", "h200", "--stage", "sass"], "sass"),
        (["show", "add", "--target", "h200", "--target", "cpu"], "--target is given 2 times"),
        (["run", "add", "--dtype", "int8", "--dtype", "int8"], "--dtype is given 2 times"),
        (["run", "add", "--seed", "-1"], "-1 is not in the range"),
        (["run", "add", "--shape", "9" * 24], "is too large"),
        (["run", "add", "--shape", "9" * 5000], "is too large"),
        (["run", "add", "--shape", "0x4294967296x4294967296"], "is too large"),
        (["run", "add", "--shape", "x".join("1" * 65)], "is too large"),
        (["compile", "add", "--target", "h200", "-o", ""], "the name is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_usage_is_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = here(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "ad"], "or add or"),
        (["compile", "add", "--target", "h2000", "-o", "x"], "'h2000' is not a target"),
        (["show", "add", "--target", "acme:one"], "acme"),
        (["run", "add", "--device", "cpu:0", "--option", "axis=1"], "axis"),
        (["run", "add", "--shape", "99999999999999"], "Choose a smaller --shape"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_message_and_exit_code_1(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if words[:3] == ["run", "add", "--device"] and not registry.probe("cpu").devices:
        pytest.skip(f"no CPU device: {registry.probe('cpu').reason}")
    os.chdir(tmp_path)
    code, out, err = here(capsys, *words)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["--debug", "run", "ad"], ["run", "ad", "--debug"]])
def test_debug_shows_the_traceback(words: list[str]) -> None:
    done = command(*words)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "UnknownKernelError" in done.stderr


def test_a_folder_that_cannot_be_made_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    into = str(tmp_path / "file" / "out")
    code, out, err = here(capsys, "compile", "add", "--target", "h200", "-o", into)
    assert (code, out) == (1, "")
    reason = "Not a directory. Choose another with -o."
    assert err == f"error: the folder {into} cannot be made: {reason}\n"


def test_an_empty_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capsys, "run", "add", "--shape", "4", "--device", "")
    assert (code, out) == (3, "")
    assert err.startswith("error: '' is not a device.")


def test_memory_that_runs_out_is_one_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **__: object) -> bool:
        raise MemoryError

    monkeypatch.setattr(run, "run_kernel", no_memory)
    code, out, err = here(capsys, "run", "add")
    assert (code, out) == (1, "")
    assert err.startswith("error: this machine has not enough memory")
    assert "--shape" in err


def test_a_reader_that_leaves_is_no_traceback() -> None:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m xtarget kernels --json | head -n 1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_a_pipe_without_a_reader_is_told_as_shells_do() -> None:
    """141 is neither success nor an error of ours: a shell says it of any program."""
    reader, writer = os.pipe()
    os.close(reader)
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "xtarget", "kernels"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


# ------------------------------------------------------------------------- the NVIDIA part


def test_the_gpu_part_stops_without_a_gpu(without_bindings: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "ci" / "gpu.sh"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "PYTHONPATH": str(without_bindings),
            "OUT": str(tmp_path),
            "XTARGET_CACHE_DIR": str(tmp_path / "cache"),
        },
    )
    assert done.returncode == 1
    assert "there is no nvidia:0 here" in done.stderr
    assert "=== conformance" not in done.stdout
    assert done.stdout.splitlines()[-1].split()[:2] == ["devices", "FAILED"]


# ---------------------------------------------------------------------- input and comparison
