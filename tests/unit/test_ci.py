"""The CI matrix, the workflow and the scripts that both CI and people call."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from processes import run_in_checkout

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


#: As pytest writes it.
JUNIT = (
    '<testsuites><testsuite name="pytest"><testcase classname="tests.test_a" name="test_one" '
    'time="1.0"/></testsuite></testsuites>'
)


def command(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_in_checkout(*words, cwd=cwd, **{"PYTHON": sys.executable} | environment)


def matrix(*options: str) -> list[dict[str, Any]]:
    done = command(sys.executable, "-m", "xtarget", "ci", "matrix", *options)
    assert done.returncode == 0, done.stderr
    include: list[dict[str, Any]] = json.loads(done.stdout)["include"]
    return include


def workflow() -> dict[str, Any]:
    yaml = pytest.importorskip("ruamel.yaml", reason="comes with check-jsonschema").YAML(typ="safe")
    content: dict[str, Any] = yaml.load(WORKFLOW.read_text(encoding="utf-8"))
    return content


def dry_run(*arguments: str) -> list[str]:
    done = command("ci/test.sh", "-n", *arguments, XTARGET_TEST_JOBS="1", XTARGET_TEST_LONG="")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# ---------------------------------------------------------------------------------- the matrix


def test_every_vendor_has_a_job_and_one_job_needs_no_gpu() -> None:
    jobs = matrix()
    folders = (ROOT / "src" / "xtarget" / "targets").glob("[a-z]*/__init__.py")
    assert {job["vendor"] for job in jobs} == {f.parent.name for f in folders} | {"none", "emu"}
    hosted = {job["vendor"]: job["hosted"] for job in jobs}
    ours = dict.fromkeys(("nvidia", "amd", "intel"), False)
    assert hosted == {"none": True, "cpu": True, "emu": True, **ours}
    assert len({job["name"] for job in jobs}) == len(jobs)


def test_pull_requests_stay_away_from_our_machines() -> None:
    jobs = matrix("--hosted")
    assert jobs
    assert {job["vendor"] for job in jobs} == {"none", "cpu", "emu"}
    assert not any("self-hosted" in job["runner"] for job in jobs)
    assert all("self-hosted" in job["runner"] for job in matrix() if not job["hosted"])


def test_scheduled_jobs_come_in_when_they_are_asked_for() -> None:
    more = [job for job in matrix("--scheduled") if job not in matrix()]
    assert all(job["scheduled"] for job in more)
    scripts = {job["tiers"]: dry_run(job["tiers"], job["vendor"]) for job in more}
    assert scripts == {
        "hip": ["ci/hip_matrix.sh"],
        "tritons": ["ci/triton_matrix.sh"],
        "pocl": ["ci/pocl.sh"],
    }


def test_jobs_name_extras_and_pythons_that_there_are() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    for job in matrix():
        assert set(job["extras"].split(",")) <= set(extras), job["name"]
        assert tuple(map(int, job["python"].split("."))) >= tuple(map(int, oldest.split(".")))


def test_jobs_name_tiers_that_test_sh_has() -> None:
    for job in matrix():
        assert dry_run(job["tiers"], job["vendor"])


def test_every_target_of_the_tier_binaries_can_be_parsed() -> None:
    from xtarget._values.types import Target

    data = tomllib.loads((ROOT / "ci" / "matrix.toml").read_text(encoding="utf-8"))
    targets = data["binaries"]["targets"]
    assert [str(Target.parse(text)) for text in targets] == targets
    assert {Target.parse(text).vendor for text in targets} == {"nvidia", "amd", "intel", "cpu"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", "no [[job]]"),
        ("[[job]]\nname = 3\n", "should be text"),
        ('[[job]]\nname = "a"\n', "vendor is missing"),
        ("job = [", "cannot be read as TOML"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path: Path, change: str, message: str) -> None:
    file = tmp_path / "matrix.toml"
    file.write_text(change)
    done = command(sys.executable, "-m", "xtarget", "ci", "matrix", "--file", str(file))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "matrix.toml"
    text = (ROOT / "ci" / "matrix.toml").read_text(encoding="utf-8")
    file.write_text(text.replace("hosted = true", 'hosted = true\nflavour = "x"', 1))
    done = command(sys.executable, "-m", "xtarget", "ci", "matrix", "--file", str(file))
    assert (done.returncode, "flavour is not a field" in done.stderr) == (1, True)


# -------------------------------------------------------------------------------- the workflow


def test_the_workflow_fits_its_schema() -> None:
    pytest.importorskip("check_jsonschema", reason="part of the dev extra")
    schema = "--builtin-schema=vendor.github-workflows"
    done = command(sys.executable, "-m", "check_jsonschema", schema, str(WORKFLOW))
    assert done.returncode == 0, done.stdout


def test_the_schema_check_can_fail(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="part of the dev extra")
    broken = tmp_path / "ci.yml"
    broken.write_text(WORKFLOW.read_text(encoding="utf-8").replace("runs-on:", "run-on:"))
    schema = "--builtin-schema=vendor.github-workflows"
    assert command(sys.executable, "-m", "check_jsonschema", schema, str(broken)).returncode == 1


def test_the_workflow_uses_fields_that_the_matrix_has() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    used = set(re.findall(r"(?<![\w./])matrix\.(\w+)", text))  # not needs.matrix, ci/matrix.toml
    assert used
    for job in matrix():
        assert used <= set(job), job["name"]


def hosted_steps() -> list[str]:
    """Every `run:` of every job that a hosted machine runs, with the matrix filled in."""
    jobs = workflow()["jobs"]
    once = [*jobs["matrix"]["steps"], *jobs["report"]["steps"]]
    steps = [step["run"] for step in once if "run" in step]
    for entry in matrix("--hosted"):
        for step in jobs["test"]["steps"]:
            text = step.get("run", "")
            for name, value in entry.items():
                text = text.replace("${{ matrix." + name + " }}", str(value))
            steps += [text] if text else []
    assert not any("${{" in step for step in steps)
    return list(dict.fromkeys(steps))


def local_commands() -> str:
    """The commands behind CI's one command, as text: .ci/run, and what make would run."""
    listed = command("make", "-n", "test")
    assert listed.returncode == 0, listed.stderr
    return (ROOT / ".ci" / "run").read_text(encoding="utf-8") + listed.stdout


def extras_closure(names: set[str]) -> set[str]:
    """Requirements of extras, those that name further extras of ours followed."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    result: set[str] = set()
    for name in names:
        for requirement in extras[name]:
            inner = re.fullmatch(r"xtarget\[([\w,-]+)\]", requirement)
            result |= extras_closure(set(inner[1].split(","))) if inner else {requirement}
    return result


def covered_paths(commands: list[str]) -> set[str]:
    """Test files and checks of `ci/test.sh -n`, folders opened up."""
    covered = set()
    for text in commands:
        words = shlex.split(text)
        if "pytest" not in words:
            covered.add(text.split(" -o ")[0].split(" --report ")[0])
            continue
        for word in words:
            if word.startswith("tests"):
                place = ROOT / word
                files = place.rglob("test_*.py") if place.is_dir() else [place]
                covered |= {str(file) for file in files}
    return covered


def test_every_step_of_the_hosted_jobs_runs_here_too(tmp_path: Path) -> None:
    """A step that only the hosted machine runs is a step that breaks unseen."""
    local = local_commands()
    everything = covered_paths(dry_run("all"))
    for step in hosted_steps():
        words = shlex.split(step)
        if words[0] == "ci/system.sh":
            assert "ci/system.sh" in local
        elif words[0] == "ci/setup.sh":
            assert "ci/setup.sh dev" in local
            wanted = extras_closure(set(words[1].split(",")) if len(words) > 1 else set())
            assert wanted <= extras_closure({"dev"}), step
        elif words[0] == "ci/test.sh":
            assert "ci/test.sh all" in local
            assert covered_paths(dry_run(*words[1:])) <= everything, step
        elif words[0] == "ci/report.sh":
            (tmp_path / "reports" / "CPU").mkdir(parents=True)
            (tmp_path / "reports" / "CPU" / "tests-01.xml").write_text(JUNIT)
            places = [str(tmp_path / "reports"), str(tmp_path / "merged")]
            summary = tmp_path / "summary"
            done = command(*words[:1], *places, GITHUB_STEP_SUMMARY=str(summary))
            assert done.returncode == 0, done.stderr
            assert "| CPU | 1 | 0 | 0 | 0 | 1 |" in summary.read_text()
            assert {file.name for file in (tmp_path / "merged").iterdir()} == {
                "summary.md", "badge.svg", "badge.json"
            }  # fmt: skip
        else:  # the step that makes the matrix: run it
            output = tmp_path / "output"
            program = f"{shlex.quote(sys.executable)} -m xtarget"
            assert ".venv/bin/xtarget" in step
            text = step.replace(".venv/bin/xtarget", program)
            given = {"HOSTED": "--hosted", "SCHEDULED": ""}
            done = command("bash", "-euc", text, GITHUB_OUTPUT=str(output), **given)
            assert done.returncode == 0, done.stderr
            name, _, value = output.read_text().partition("=")
            assert name == "matrix"
            assert json.loads(value) == {"include": matrix("--hosted")}


# --------------------------------------------------------------------------------- the scripts


def test_test_sh_refuses_what_it_does_not_know() -> None:
    for words, message in (
        (["unti"], "not a tier"),
        (["unit", "nvida"], "not a vendor"),
        ([], "TIER"),
    ):
        done = command("ci/test.sh", "-n", *words)
        assert (done.returncode, message in done.stderr) == (2, True), words


def test_test_sh_restricts_to_a_vendor_and_leaves_long_tests_out() -> None:
    (line,) = dry_run("conformance", "cpu")
    assert shlex.split(line)[-3:] == ["--vendor", "cpu", "tests/conformance"]
    assert "not long" in shlex.split(line)
    done = command("ci/test.sh", "-n", "kernels", XTARGET_TEST_LONG="1")
    assert "not long" not in shlex.split(done.stdout)


@pytest.mark.parametrize("tier", ["interop", "all"])
def test_test_sh_runs_launches_in_python_too(tier: str) -> None:
    twin = [line for line in dry_run(tier) if "XTARGET_CORE=python" in line]
    assert len(twin) == 1
    files = [word for word in shlex.split(twin[0]) if word.startswith("tests/")]
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_setup_names_what_is_wrong_with_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\n[ \"$1\" = -V ] && echo 'Python 3.9.2' && exit 0\nexit 1\n")
    old.chmod(0o755)
    done = command("ci/setup.sh", "base", PYTHON=str(old))
    assert done.returncode == 1
    assert "3.11 or newer" in done.stderr
    for name in ("python3.11", "python3.12", "python3.13"):
        (tmp_path / name).symlink_to(old)
    done = command("ci/setup.sh", PYTHON="", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer; python3 here is Python 3.9.2" in done.stderr


def test_setup_says_what_to_install_where_venv_is_missing(tmp_path: Path) -> None:
    """As Debian's python3 without python3-venv does."""
    checkout = tmp_path / "checkout"
    (checkout / "ci").mkdir(parents=True)
    script = checkout / "ci" / "setup.sh"
    script.write_bytes((ROOT / "ci" / "setup.sh").read_bytes())
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -m ] && echo "ensurepip is not available" && exit 1\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    done = command("bash", str(script), PYTHON=str(python))
    assert done.returncode == 1
    version = "{}.{}".format(*sys.version_info)
    assert "ensurepip is not available" in done.stderr
    assert f"apt install python{version}-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_ci_leaves_nothing_running_when_a_step_fails(tmp_path: Path) -> None:
    """CI would wait for a file that a process of a step still holds open."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    steps = {
        "system": "",
        "rocm": "sh -c 'touch began; sleep 60; echo late'; echo late",
        "setup": "until [ -e began ]; do sleep 0.01; done; exit 3",
    }
    for name, text in steps.items():
        step = tmp_path / "ci" / f"{name}.sh"
        step.write_text(f"#!/usr/bin/env bash\n{text}\n")
        step.chmod(0o755)
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (3, ""), done.stderr


def test_the_last_line_says_what_happened(tmp_path: Path) -> None:
    """Of all runs of pytest together, with the names of what failed."""
    file = tmp_path / "summary"

    def line(status: int, step: str = "") -> str:
        words = ("all", str(status), "3723", str(file), step)
        return command(sys.executable, "ci/test_summary.py", *words).stdout

    assert line(1, "python -m mypy") == (
        "ci/test.sh all: FAILED in 62 min 3 s; it failed at: python -m mypy\n"
    )
    good = {"counts": {"passed": 20, "failed": 0, "skipped": 3}, "failures": []}
    bad = {
        "counts": {"passed": 5, "failed": 12},
        "failures": [f"t.py::test_{n}" for n in range(12)],
    }
    file.write_text(json.dumps(good) + "\n" + json.dumps(good) + "\n")
    assert line(0) == "ci/test.sh all: all is right: 40 passed, 6 skipped in 62 min 3 s\n"
    file.write_text(json.dumps(good | {"unsteady": ["t.py::test_3"]}) + "\n")
    assert line(0).endswith("62 min 3 s; failed at first and passed alone: t.py::test_3\n")
    file.write_text(json.dumps(good) + "\n" + json.dumps(good) + "\n")
    assert line(130) == "ci/test.sh all: interrupted after 62 min 3 s: 40 passed, 6 skipped\n"
    file.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    said = line(1, "pytest")
    assert said.startswith("ci/test.sh all: FAILED: 25 passed, 12 failed, 3 skipped in 62 min 3 s")
    assert "failing tests: t.py::test_0, t.py::test_1, " in said
    assert said.endswith("t.py::test_9 and 2 more\n")


def take_conftest(folder: Path) -> None:
    """The conftest of these tests and what it imports, for others."""
    for name in ("conftest.py", "samples.py"):
        (folder / name).write_text((ROOT / "tests" / name).read_text())


def test_what_fails_runs_again_alone_and_is_told(tmp_path: Path) -> None:
    """A few that fail: those that pass alone do not fail the run, those that do not, do."""
    take_conftest(tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "def test_busy(request): assert not hasattr(request.config, 'workerinput')\n"
        "def test_wrong(): assert os.environ.get('WRONG') != 'one'\n"
        "@pytest.mark.parametrize('n', range(9))\n"
        "def test_many(n): assert os.environ.get('WRONG') != 'many'\n"
    )
    file = tmp_path / "summary"

    def steady(wrong: str) -> tuple[int, str, Any]:
        file.unlink(missing_ok=True)
        done = command(
            *(sys.executable, str(ROOT / "ci/steady.py"), "pytest", "-q", "-n", "1"),
            cwd=tmp_path,
            XTARGET_TEST_SUMMARY=str(file),
            XTARGET_TEST_REPORTS=str(tmp_path / "reports"),
            WRONG=wrong,
        )
        return done.returncode, done.stdout, json.loads(file.read_text())

    status, said, record = steady("")
    again = ET.parse(tmp_path / "reports" / "tests-01-again.xml")
    assert [one.get("name") for one in again.iter("testcase")] == ["test_busy"]
    assert (tmp_path / "reports" / "tests-01.xml").is_file()
    assert "test_it.py::test_busy" in said
    assert (status, record["failures"]) == (0, []), said
    assert record["unsteady"] == ["test_it.py::test_busy"]
    status, said, record = steady("one")
    assert status == 1, said
    assert record["failures"] == ["test_it.py::test_wrong"]
    status, said, record = steady("many")
    assert status == 1, said
    assert len(record["failures"]) == 10
    assert "run again" not in said, "so many are no accident"


def test_skips_are_grouped_by_their_reason(tmp_path: Path) -> None:
    """194 lines of them hid what else there was to read."""
    for number in range(3):
        (tmp_path / f"test_{number}.py").write_text(
            "import pytest\n@pytest.mark.parametrize('n', range(5))\n"
            f"def test(n): pytest.skip('there is no GPU' if n else 'other {number}')\n"
        )
    take_conftest(tmp_path)
    file = tmp_path / "summary"
    for more in ([], ["-n", "2"]):
        done = command(
            *(sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), *more),
            *("--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)),
            XTARGET_TEST_SUMMARY=str(file),
        )
        assert "   12  there is no GPU\n" in done.stdout
        assert done.stdout.count("there is no GPU") == 1
        assert done.stdout.splitlines()[-1].startswith("15 skipped in ")
        assert json.loads(file.read_text())["counts"]["skipped"] == 15
        file.unlink()
