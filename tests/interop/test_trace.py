"""`XTARGET_TRACE`: a Chrome trace that is whole, whatever becomes of the process."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

import xtarget

BEGIN = """
import numpy as np, os, signal, sys, threading, xtarget
ones = lambda n=500: np.ones(n, np.float32)
"""


def traced(text: str, path: Path, device: str, **more: str) -> Any:
    return run_python("-c", BEGIN + text, XTARGET_TRACE=str(path), XTARGET_DEVICE=device, **more)


def events(path: Path) -> list[dict[str, Any]]:
    """All events of a file, which is one JSON array in Chrome's format."""
    found = json.loads(path.read_text(encoding="ascii"))
    assert isinstance(found, list)
    for event in found:
        assert event["ph"] in "XMsf", event
        assert isinstance(event["pid"], int), event
        assert isinstance(event["tid"], int), event
        assert event["name"], event
        if event["ph"] != "M":
            assert event["ts"] >= 0, event
        if event["ph"] == "X":
            assert event["dur"] >= 0, event
    return found


def slices(found: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    return [e for e in found if e["ph"] == "X" and e["cat"] == category]


def within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    begins = outer["ts"] - 0.01 <= inner["ts"]
    return bool(begins and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.01)


def test_a_trace_has_every_step(device: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")  # it compiles anew
    path = tmp_path / "t.json"
    text = f"""
out = ones()
for _ in range(3):
    xtarget.run("add", ones(), ones(), out=out)
xtarget.get("add").prepare(ones(), ones())()
x = xtarget.asarray(ones(), device={device!r})
for _ in range(3):
    xtarget.run("mul", x, 2.0)
"""
    done = traced(text, path, device, XTARGET_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    found = events(path)
    calls, launches = slices(found, "call"), slices(found, "launch")
    assert [call["name"] for call in calls] == ["add"] * 4 + ["mul"] * 3
    assert len(launches) == 7
    for launch in launches:
        assert sum(within(launch, call) for call in calls) == 1
        assert launch["args"]["device"] == device
        assert launch["args"]["grid"]
    for step in ("bind", "load"):
        assert slices(found, step), step
    (first, *_) = slices(found, "compile")
    stages = [e for e in found if e.get("cat", "").startswith("stage ") and within(e, first)]
    assert len(stages) >= 3
    assert any(within(first, bind) for bind in slices(found, "bind"))
    kernels = slices(found, "device")
    if kernels:  # where the device has events with times
        assert len(kernels) == 7
        names = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
        assert all(device in names[kernel["pid"]] for kernel in kernels)
        tracks: dict[Any, float] = {}
        for kernel in kernels:  # in order on each stream
            track = kernel["pid"], kernel["tid"]
            assert kernel["ts"] >= tracks.get(track, 0) - 0.01
            tracks[track] = kernel["ts"] + kernel["dur"]
        begins = {e["id"] for e in found if e["ph"] == "s"}
        assert begins == {e["id"] for e in found if e["ph"] == "f"}
        assert len(begins) == 7


def test_a_device_with_events_is_on_the_trace(device: str, tmp_path: Path) -> None:
    text = f"""
x = xtarget.asarray(ones(100_000), device={device!r})
with xtarget.profile() as p:
    for _ in range(200):
        xtarget.run("mul", x, 2.0)
assert p.rows[0].launches == 200
"""
    path = tmp_path / "t.json"
    done = traced(text, path, device)
    assert done.returncode == 0, done.stderr
    assert len(slices(events(path), "device")) == 200


def test_threads_have_tracks_of_their_own(device: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = """
def work():
    for _ in range(20):
        xtarget.run("add", ones(), ones())
threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(3)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    done = traced(text, path, device)
    assert done.returncode == 0, done.stderr
    found = events(path)
    calls = slices(found, "call")
    assert len(calls) == 60
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    workers = {names[call["tid"]] for call in calls}
    assert workers == {"worker 0", "worker 1", "worker 2"}


def test_a_killed_process_leaves_a_whole_file(device: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = """
for _ in range(20):
    xtarget.run("add", ones(), ones())
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = traced(text, path, device)
    assert done.returncode == -signal.SIGKILL
    assert len(slices(events(path), "call")) == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forks_child_writes_a_file_of_its_own(device: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = """
xtarget.run("add", ones(), ones())
child = os.fork()
if not child:
    try:
        xtarget.run("mul", ones(), 3.0)
    except xtarget.DriverError:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
xtarget.run("add", ones(), ones())
print(child)
"""
    done = traced(text, path, device)
    assert done.returncode == 0, done.stderr
    found = events(path)
    assert len(slices(found, "call")) == 2
    own = tmp_path / f"t-{done.stdout.split()[-1]}.json"
    of_child = events(own)
    assert any("error" in event.get("args", {}) for event in of_child)
    assert not {e["pid"] for e in found if e["ph"] == "X" and e["cat"] == "call"} & {
        e["pid"] for e in of_child
    }


def test_a_second_process_does_not_take_the_file(device: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = f"""
import subprocess
xtarget.run("add", ones(), ones())
code = "import xtarget, os; xtarget.run; print(os.getpid())"
print(subprocess.run([{sys.executable!r}, "-c", code], capture_output=True, text=True).stdout)
"""
    done = traced(text, path, device)
    assert done.returncode == 0, done.stderr
    assert len(slices(events(path), "call")) == 1
    assert events(tmp_path / f"t-{done.stdout.strip()}.json") == []
    again = traced("xtarget.run", path, device)  # nobody writes it now: it begins anew
    assert again.returncode == 0, again.stderr
    assert events(path) == []


def test_a_path_that_cannot_be_a_trace_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "important.py"
    other.write_text("print()")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, says in (
        (tmp_path / "no" / "t.json", "cannot be written: No such file"),
        (tmp_path, "cannot be written: Is a directory"),
        (other, "is a file that is not a trace"),
        (pipe, "is not a regular file"),
    ):
        done = traced("xtarget.run", path, "cpu")
        assert done.returncode == 1
        said = done.stderr.strip().splitlines()[-1]
        assert f"ArgumentError: XTARGET_TRACE={path} {says}" in said
        assert said.endswith(".")
    assert other.read_text() == "print()"


def test_without_it_nothing_of_it_is_imported() -> None:
    done = run_python(
        "-c",
        "import xtarget, sys; xtarget.run\n"
        "assert not {m for m in sys.modules if m.endswith(('.trace', '.trace_file', '.observe'))}",
        XTARGET_TRACE=None,
    )
    assert done.returncode == 0, done.stderr


def test_an_artifact_knows_the_time_of_its_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    layout = xtarget.spec.ArrayType("float32", (100,), (1,))
    (made,) = xtarget.compile("exp", layout, target="nvidia:sm_90")
    assert {"ttir", "ttgir", "llir", "ptx", "cubin"} <= set(made.stage_seconds)
    assert all(seconds >= 0 for seconds in made.stage_seconds.values())
    (found,) = xtarget.compile("exp", layout, target="nvidia:sm_90")
    assert set(found.stage_seconds) == set(made.stage_seconds)
    assert found == made  # they are not part of what it is
