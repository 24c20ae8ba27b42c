"""`xtarget compile` and `xtarget show`, and the check of what they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from command_line import exit_code
from loading import load_file
from processes import run_python

from xtarget import probe

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("nvidia:sm_90", "amd:gfx942", "intel:spirv64", "cpu:spirv64")


def xtarget(*words: str) -> int:
    return exit_code(*words)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`add` for a target of each vendor."""
    folder = tmp_path_factory.mktemp("binaries")
    options = [word for target in TARGETS for word in ("--target", target)]
    assert xtarget("compile", "add", *options, "--shape", "1000", "-o", str(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    return load_file(ROOT / "ci" / "check_binaries.py")


def test_compile_writes_a_binary_and_a_manifest_for_each_target(written: Path) -> None:
    assert {path.name for path in written.iterdir()} == {
        "add-sm_90.cubin",
        "add-sm_90.ptx",
        "add-sm_90.json",
        "add-gfx942.hsaco",
        "add-gfx942.json",
        "add-intel-spirv64.spv",
        "add-intel-spirv64.json",
        "add-cpu-spirv64.spv",
        "add-cpu-spirv64.json",
    }
    facts = json.loads((written / "add-gfx942.json").read_text())
    assert facts["target"] == "amd:gfx942"
    assert facts["entry"] == "add"
    assert facts["block"] == [facts["num_warps"] * 64, 1, 1]
    assert [p["name"] for p in facts["parameters"]][:3] == ["a", "b", "out"]
    assert ".target sm_90" in (written / "add-sm_90.ptx").read_text()


def test_the_same_request_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    """Also from another folder, in another process."""
    done = subprocess.run(
        [sys.executable, "-m", "xtarget", "compile", "add", "--shape", "1000", "-o", "."]
        + [word for target in TARGETS for word in ("--target", target)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            **__import__("os").environ,
            "PYTHONPATH": str(ROOT / "src"),
            "XTARGET_CACHE_DIR": str(tmp_path / "cache"),
        },
    )
    assert done.returncode == 0, done.stderr
    for path in written.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_what_is_written_passes_the_check(written: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "ci" / "check_binaries.py"), str(written)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "4 binaries right, 0 wrong" in done.stdout


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("add-sm_90", 18, 62, "ELF machine 62"),
        ("add-gfx942", 18, 190, "ELF machine 190"),
        ("add-gfx942", 48, 0x41, "is not gfx942"),
        ("add-intel-spirv64", 0, 4, "magic number"),
        ("add-intel-spirv64", 23, 255, "ends inside the instruction"),
    ],
)
def test_the_check_sees_damage(
    name: str, at: int, value: int, message: str, written: Path, tmp_path: Path, checker: ModuleType
) -> None:
    import hashlib

    facts = json.loads((written / f"{name}.json").read_text())
    data = bytearray((written / facts["file"]).read_bytes())
    data[at] = value
    facts["sha256"] = hashlib.sha256(data).hexdigest()  # damage that the digest does not show
    (tmp_path / facts["file"]).write_bytes(data)
    manifest = tmp_path / f"{name}.json"
    manifest.write_text(json.dumps(facts))
    with pytest.raises(checker.BadBinary, match=message):
        checker.check(manifest, None)


def test_the_check_sees_a_wrong_digest_and_a_missing_entry(
    written: Path, tmp_path: Path, checker: ModuleType
) -> None:
    for path in written.glob("add-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for manifest in sorted(tmp_path.glob("*.json")):
        facts = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**facts, "entry": "other"}))
        with pytest.raises(checker.BadBinary, match="other"):
            checker.check(manifest, None)
        manifest.write_text(json.dumps({**facts, "sha256": "0" * 64}))
        with pytest.raises(checker.BadBinary, match="digest"):
            checker.check(manifest, None)


#: Of targets, what stands in the text of each stage.
_STAGES = {
    "nvidia:sm_90": {
        "ttir": "tt.func public @add",
        "ttgir": "ttg.num-warps",
        "llir": "define",
        "asm": ".visible .entry add",
    },
    "amd:gfx942": {"asm": "s_endpgm", "llir": "amdgpu_kernel"},
    "cpu:spirv64": {"ttir": "tt.func public @add"},
    "intel:spirv64": {"llir": "define"},
}


@pytest.mark.parametrize(
    ("target", "stage"), [(target, stage) for target in _STAGES for stage in _STAGES[target]]
)
def test_show_a_stage(target: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert xtarget("show", "add", "--target", target, "--stage", stage) == 0
    assert _STAGES[target][stage] in capsys.readouterr().out


def test_show_resources(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("show", "add", "--target", "amd:gfx942", "--stage", "resources")
    assert xtarget(*words) == 0
    assert "registers" in capsys.readouterr().out
    assert xtarget(*words, "--json") == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["registers"] > 0
    assert facts["format"] == "hsaco"


def test_a_target_that_fails_keeps_no_other_from_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ("--target", "amd:gfx1", "--target", "nvidia:sm_90", "--target", "amd:gfx2")
    assert xtarget("compile", "add", *targets, "-o", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert "add-sm_90.cubin" in captured.out
    assert captured.err.startswith("error: 2 of 3 targets failed:")
    assert "gfx1" in captured.err
    assert "gfx2" in captured.err


@pytest.mark.parametrize("targets", [("cpu", "nvidia:sm_1"), ("nvidia:sm_1",)])
def test_json_is_one_document_where_a_target_fails(
    targets: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for target in targets for word in ("--target", target)]
    assert xtarget("compile", "add", *words, "-o", str(tmp_path), "--json") == 1
    out = json.loads(capsys.readouterr().out)
    assert list(out) == ["error"]
    assert "sm_1" in out["error"]
    assert all(str(file) in out["error"] for file in tmp_path.glob("*.spv"))
    assert len(list(tmp_path.glob("*.spv"))) == len(targets) - 1


def test_a_file_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "add-sm_90.cubin").mkdir()  # where the binary has to go
    words = ("compile", "add", "--shape", "1000", "--target", "nvidia:sm_90")
    assert xtarget(*words, "-o", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {tmp_path / 'add-sm_90.cubin'} cannot be written: ")
    assert captured.err.endswith("Choose another path.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["add-sm_90.cubin"]  # no rest of a write


def test_several_launches_are_numbered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sum of all elements of a large array takes two launches."""
    words = ("compile", "sum", "--shape", "16777216", "--target", "nvidia:sm_90")
    assert xtarget(*words, "-o", str(tmp_path), "--json") == 0
    files = [facts["file"] for facts in json.loads(capsys.readouterr().out)]
    assert files == ["sum-sm_90.1.cubin", "sum-sm_90.2.cubin"]
    assert all((tmp_path / file).is_file() for file in files)


def check_interpreter_is_refused(folder: Path, *words: str) -> None:
    done = run_python(
        *("-m", "xtarget", *words),
        path=ROOT / "src",
        cwd=folder,
        TRITON_INTERPRET="1",
        XTARGET_CACHE_DIR=str(folder),
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "TRITON_INTERPRET is set" in done.stderr


def test_tritons_interpreter_is_a_sentence(tmp_path: Path) -> None:
    words = ("compile", "add", "--target", "nvidia:sm_90", "-o", "out")
    check_interpreter_is_refused(tmp_path, *words)


def test_running_under_tritons_interpreter_is_one_sentence_too(tmp_path: Path) -> None:
    report = next(r for r in probe() if r.vendor == "cpu")
    if not report.devices:
        pytest.skip(f"no CPU device: {report.reason}")
    check_interpreter_is_refused(tmp_path, "run", "exp", "--device", report.devices[0].name)
