"""`XTARGET_RECORD`, `xtarget.warmup`, and calls that compile apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import loaded_kernels
import numpy as np
import pytest
from command_line import here

import xtarget
from xtarget import ArgumentError, FrozenError
from xtarget._launch import call_plans

pytest.importorskip("triton")

PROGRAM = """
import numpy as np, xtarget
a = np.ones((30, 100), np.float32)
xtarget.run("softmax", a)
xtarget.run("add", a, 2.5)
xtarget.run("sum", a, axis=0, out=np.zeros(100, np.float32))
for n in (64, 4096, 999):
    xtarget.run("relu", np.ones(n, np.float32))
"""


def python(code: str, cache: Path, device: str, fails: str = "", **more: str) -> str:
    """The output of a program with a cache of its own."""
    given = {**os.environ, "XTARGET_CACHE_DIR": str(cache), "XTARGET_DEVICE": device, **more}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=given,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if fails:
        assert fails in done.stderr
    else:
        assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a process that has made no call."""
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    loaded_kernels.forget_all()


@pytest.fixture(scope="session")
def recorded(device: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of a program, recorded by two processes."""
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "profile.json"
    for _ in range(2):
        python(PROGRAM, folder / "cache", device, XTARGET_RECORD=str(path))
    return path


def test_a_profile_lists_each_class_once(recorded: Path) -> None:
    classes = json.loads(recorded.read_text())["classes"]
    names = [one["kernel"] for one in classes]
    assert {name: names.count(name) for name in ("softmax", "add", "sum")} == {
        "softmax": 1,
        "add": 1,
        "sum": 1,
    }
    assert 1 <= names.count("relu") <= 3
    assert len({json.dumps(one, sort_keys=True) for one in classes}) == len(classes)


def test_after_a_warm_up_nothing_is_compiled(recorded: Path, device: str, tmp_path: Path) -> None:
    told = python(
        f"""
        import os, xtarget
        done = xtarget.warmup({str(recorded)!r}, workers=2)
        assert not done.errors, done.errors
        assert done.compiled == done.binaries > 3, done
        assert done.loaded == done.binaries, done
        again = xtarget.warmup({str(recorded)!r})
        assert again.compiled == 0, again
        os.environ["XTARGET_COMPILE"] = "error"
        {PROGRAM.replace(chr(10), chr(10) + " " * 8)}
        try:
            xtarget.run("add", np.ones(64, np.float16), 2.5)
        except xtarget.FrozenError as error:
            print(error)
        """,
        tmp_path,
        device,
    )
    assert told.startswith("add(float16 1d, float) of shapes (64,): no call of this class was")
    assert "XTARGET_COMPILE=error forbids" in told


@pytest.mark.usefixtures("nothing_known")
def test_the_first_call_after_a_warm_up_does_not_plan(
    recorded: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_plan, planned = call_plans.make_plan, Mock(side_effect=call_plans.make_plan)
    monkeypatch.setattr(call_plans, "make_plan", planned)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(recorded.parent / "cache"))
    monkeypatch.setenv("XTARGET_DEVICE", device)
    assert not xtarget.warmup(recorded).errors
    assert planned.call_count == len(json.loads(recorded.read_text())["classes"])
    planned.side_effect = AssertionError("it was planned before")
    a = np.arange(25 * 110, dtype=np.float32).reshape(25, 110) / 2750
    exponents = np.exp(a)
    expected = exponents / exponents.sum(1, keepdims=True)
    np.testing.assert_allclose(xtarget.run("softmax", a), expected, rtol=1e-5)
    np.testing.assert_array_equal(xtarget.run("add", a, 2.5), a + np.float32(2.5))
    out = np.zeros(110, np.float32)
    np.testing.assert_allclose(xtarget.run("sum", a, axis=0, out=out), a.sum(0), rtol=1e-5)
    planned.side_effect = make_plan
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(FrozenError, match=r"x\.shape\[1\].* does not hold"):
        xtarget.run("softmax", np.ones((8, 5000), np.float32))


@pytest.mark.usefixtures("nothing_known")
def test_the_guard_that_failed_is_told(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    xtarget.run("softmax", np.ones((8, 64), np.float32), device=device)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    words = r"softmax\(float32 2d\) of shapes \(8, 1000\): what is loaded .* serve it: "
    with pytest.raises(FrozenError, match=words + r".*x\.shape\[1\].* does not hold"):
        xtarget.run("softmax", np.ones((8, 1000), np.float32), device=device)


def test_the_command_fills_the_cache(
    recorded: Path, device: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    loaded_kernels.forget_all()
    code, out, err = here(capsys, "warmup", str(recorded), "--jobs", "2")
    assert code == 0, err
    assert "0 were there" in out
    python(PROGRAM, tmp_path, device, XTARGET_COMPILE="error")


def test_a_profile_of_another_machine_is_compiled_for_the_cache(
    recorded: Path, tmp_path: Path
) -> None:
    content = json.loads(recorded.read_text())
    content["classes"] = [one for one in content["classes"] if one["kernel"] == "add"]
    content["classes"][0]["device"].update(
        {"name": "nvidia:0", "target": "nvidia:sm_90", "host_memory": False, "compile_options": {}}
    )
    path = tmp_path / "other.json"
    path.write_text(json.dumps(content))
    done = xtarget.warmup(path)
    assert not done.errors
    assert done.binaries == 1
    assert done.loaded <= 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory. Record one"),
        ("", None),
        ("[1, 2]", "is not a profile of this version"),
        ("{", "is not a profile of this version"),
        ('{"format": "xtarget profile 1"}', "is not a profile of this version"),
        ('{"format": "xtarget profile 1", "classes": [7]}', "its entry 1 is damaged"),
    ],
)
def test_what_is_no_profile(tmp_path: Path, content: str | None, words: str | None) -> None:
    path = tmp_path / "profile.json"
    if content is not None:
        path.write_text(content)
    if words is None:
        assert xtarget.warmup(path).classes == 0
        return
    with pytest.raises(ArgumentError, match=words):
        xtarget.warmup(path)


@pytest.mark.parametrize(("fact", "value"), [("fp64", []), ("compute_units", -1), ("name", None)])
def test_a_device_that_is_none(recorded: Path, tmp_path: Path, fact: str, value: Any) -> None:
    content = json.loads(recorded.read_text())
    content["classes"][0]["device"][fact] = value
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ArgumentError, match=f"entry 1 is damaged .*{fact} of its device is"):
        xtarget.warmup(path)


def test_what_cannot_be_made_ready_is_told_and_the_rest_is_done(
    recorded: Path, tmp_path: Path
) -> None:
    content = json.loads(recorded.read_text())
    one = next(one for one in content["classes"] if one["kernel"] == "add")
    content["classes"] = [{**one, "kernel": "mine.gone", "origin": "/srv/kernels"}, one]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    done = xtarget.warmup(path)
    (error,) = done.errors
    assert error.startswith("mine.gone is not registered here; it was in /srv/kernels.")
    assert done.binaries == 1


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "2", True])
def test_a_wrong_number_of_workers(recorded: Path, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="is not a number of processes"):
        xtarget.warmup(recorded, workers=wrong)


def test_a_file_that_is_something_else_is_left_alone(device: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"my": "data"}')
    python(PROGRAM, tmp_path, device, "is not a profile of this version", XTARGET_RECORD=str(path))
    assert path.read_text() == '{"my": "data"}'
    nowhere = str(tmp_path / "nowhere" / "p.json")
    python(PROGRAM, tmp_path, device, "cannot be written", XTARGET_RECORD=nowhere)


# ------------------------------------------------------------------------------ compile="async"


@pytest.mark.usefixtures("nothing_known")
def test_a_call_that_compiles_apart_gives_its_result(device: str) -> None:
    a = np.arange(3000, dtype=np.float32)
    for _ in range(2):
        got = xtarget.run("mul", a, 3.0, device=device, compile="async")
        np.testing.assert_array_equal(got, a * 3)
    long = np.ones(1 << 18, np.float32)
    assert xtarget.run("sum", long, device=device, compile="async") == 1 << 18
    assert xtarget.cache_stats().compiles


@pytest.mark.usefixtures("nothing_known")
def test_it_does_not_wait_for_what_others_compile(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xtarget._cache import cache as cached

    real, before = cached.Cache.flight, xtarget.cache_stats().compiles
    early: list[str] = []

    def flight(self: Any, target: Any, kernel: str, key: str) -> Any:
        if xtarget.cache_stats().compiles == before:
            early.append(kernel)  # it would wait for a process that compiles the same
        return real(self, target, kernel, key)

    monkeypatch.setattr(cached.Cache, "flight", flight)
    a = np.ones(100, np.float32)
    np.testing.assert_allclose(xtarget.run("exp", a, device=device, compile="async"), np.e)
    assert not early


@pytest.mark.parametrize("wrong", ["sync", True, None, 3])
def test_another_way_to_compile_is_refused(device: str, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match='compile="async" compiles in a process of its own'):
        xtarget.run("add", np.ones(3), 1.0, compile=wrong)
