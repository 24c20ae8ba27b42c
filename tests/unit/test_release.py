"""The release workflow, and its steps as far as they run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
SCRIPT = ROOT / "ci" / "release.sh"


def release(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "RELEASE_KEY"}
    return subprocess.run(
        [str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "PYTHON": sys.executable, **variables},
    )


def test_the_workflow_fits_its_schema() -> None:
    pytest.importorskip("check_jsonschema", reason="part of the dev extra")
    words = ["-m", "check_jsonschema", "--builtin-schema=vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


def test_the_workflow_runs_steps_that_the_script_has() -> None:
    steps = set(re.findall(r"ci/release\.sh (\w+)", WORKFLOW.read_text(encoding="utf-8")))
    has = set(re.findall(r"(?m)^(\w+)\)$", SCRIPT.read_text(encoding="utf-8")))
    assert {"wheels", "sdist", "check", "bundle"} <= steps <= has


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    done = release("nonsense", str(tmp_path))
    assert (done.returncode, "no step 'nonsense'" in done.stderr) == (2, True)
    done = release("sdist")
    assert (done.returncode, "ci/release.sh sdist DIR" in done.stderr) == (2, True)
    done = release("bundle", str(tmp_path / "x.xtb"))
    assert done.returncode != 0
    assert "RELEASE_KEY" in done.stderr
    assert not (tmp_path / "x.xtb").exists()
    words = ["ci/chroot.sh", str(tmp_path / "root"), "trixie", "amd64"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, "ci/chroot.sh ROOT SUITE ARCH COMMAND" in done.stderr) == (2, True)
    assert not (tmp_path / "root").exists()


@pytest.mark.long
def test_the_source_makes_a_wheel_that_works_alone(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="part of the dev extra")
    for words in (("sdist", str(tmp_path)), ("wheel", str(tmp_path))):
        done = release(*words)
        assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-abi3-" in wheel.name
    done = release("check", str(wheel))
    assert done.returncode == 0, done.stderr
    assert f"checked: {wheel.name}" in done.stdout


@pytest.mark.long
def test_a_bundle_is_signed(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="compiles")
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as to

    key = tmp_path / "key.pem"
    made = ed25519.Ed25519PrivateKey.generate()
    key.write_bytes(made.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()))
    key.chmod(0o600)
    bundle = str(tmp_path / "x.xtb")
    words = ("--kernel", "add", "--dtype", "float32")
    done = release("bundle", bundle, *words, RELEASE_KEY=str(key))
    assert done.returncode == 0, done.stderr
    assert "signed by" in done.stdout
