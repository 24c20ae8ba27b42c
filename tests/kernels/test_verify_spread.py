"""`xtarget verify --executor`: workers verify; some are lost, others lie or have other kernels."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from command_line import here
from dask_clusters import cluster, one_killed

import xtarget
from xtarget import XTargetError
from xtarget._children.child import ChildLostError
from xtarget._children.frames import pack
from xtarget._cli.verify_spread import verify_on_workers
from xtarget._executors import asking
from xtarget._executors.processes import Processes
from xtarget._verify import report
from xtarget._verify import spread as module
from xtarget._verify.spread import Spread, spread
from xtarget._verify.verify import Row, verify

pytest.importorskip("triton")

NAMES = ("relu", "neg", "abs")
QUICK = Spread(("float32", "int32"), "quick", "cpu")
Change = Callable[[dict[str, Any], list[bytes]], bytes]


@pytest.fixture(autouse=True)
def _a_cpu() -> None:
    cpu = next(one for one in xtarget.probe() if one.vendor == "cpu")
    if not cpu.devices:
        pytest.skip(f"no CPU device: {cpu.reason}")


def specs_of(*names: str) -> list[xtarget.spec.KernelSpec]:
    return [xtarget.catalog()[name] for name in names]


def rows_by(executor: Executor, *names: str, wanted: Spread = QUICK) -> list[Row]:
    return [row for _, rows in spread(executor, specs_of(*names), wanted) for row in rows]


def told(rows: list[Row]) -> dict[tuple[str, str], dict[str, Any]]:
    """All but what another run has otherwise."""
    return {(row.kernel, row.dtype): {**asdict(row), "seconds": 0.0, "where": ""} for row in rows}


class Altered(ThreadPoolExecutor):
    """A worker whose answers are changed on their way."""

    def __init__(self, change: Change) -> None:
        super().__init__(1)
        self.change = change

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(lambda: self.change(*asking.whole(function(*args, **kwargs))))


def test_workers_find_what_this_process_finds() -> None:
    with ThreadPoolExecutor(2) as executor:
        there = rows_by(executor, *NAMES)
    assert told(there) == told(
        list(verify(specs_of(*NAMES), QUICK.dtypes, "cpu:0", extent="quick"))
    )
    assert {row.where.split(" ")[1] for row in there} == {"cpu:0"}


def test_a_worker_that_is_lost_costs_its_kernel_only() -> None:
    class Losing(ThreadPoolExecutor):
        asked = 0

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            def work() -> Any:
                if asking.whole(args[0])[0]["kernel"] == "neg":
                    self.asked += 1
                    raise ConnectionError("the worker went away")
                return function(*args, **kw)

            return super().submit(work)

    with Losing(1) as executor:
        rows = {(row.kernel, row.dtype): row for row in rows_by(executor, *NAMES)}
        assert executor.asked == 2
    assert {name for (name, _), row in rows.items() if row.status == "right"} == {"relu", "abs"}
    assert {row.status for (name, _), row in rows.items() if name == "neg"} == {"failed"}
    assert "the worker went away" in rows["neg", "int32"].reason


def test_a_worker_with_other_kernels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = module._digest(xtarget._kernels.libraries.find("relu").origin)
    found = iter([asked, "another"])
    monkeypatch.setattr(module, "_digest", lambda origin: next(found))
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(XTargetError, match=r"has other files in .* than who asks"),
    ):
        rows_by(executor, "relu")


def test_rows_of_another_kernel_are_not_believed() -> None:
    def change(header: dict[str, Any], parts: list[bytes]) -> bytes:
        header["rows"] = [{**row, "kernel": "neg"} for row in header["rows"]]
        return pack(header, parts)

    with Altered(change) as executor:
        rows = rows_by(executor, "relu")
    assert {(row.kernel, row.status) for row in rows} == {("relu", "failed")}
    assert "they are of another kernel" in rows[0].reason


def test_workers_without_the_device_say_so(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(XTargetError, match=r"no worker has verified a kernel: .*quux"),
    ):
        verify_on_workers(
            ("relu",), Spread((), "quick", "quux"), executor,
            file=str(tmp_path / "a.json"), html_file=None, as_json=False,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_each_kind_of_device_has_a_report_and_merge_joins_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def change(header: dict[str, Any], parts: list[bytes]) -> bytes:
        seen.append(header["rows"][0]["kernel"])
        if len(seen) == 2:  # as if the second worker had another device
            header["place"]["target"] = "nvidia:sm_90"
        return pack(header, parts)

    file = tmp_path / "a.json"
    with Altered(change) as executor:
        good, interrupted = verify_on_workers(
            NAMES, QUICK, executor, file=str(file), html_file=None, as_json=False
        )
    assert (good, interrupted) == (True, False)
    one, two = (report.read(tmp_path / f"a.{number}.json") for number in (1, 2))
    assert [document["device"]["target"] for document in (one, two)] == [
        "cpu:spirv64",
        "nvidia:sm_90",
    ]
    assert {row["kernel"] for row in two["rows"]} == {seen[1]}
    assert len(one["rows"]) + len(two["rows"]) == 6
    assert all(row["where"].endswith(" cpu:0") for row in one["rows"])
    assert not file.exists()
    capsys.readouterr()
    code, out, _ = here(capsys, "verify", "--merge", *map(str, sorted(tmp_path.iterdir())))
    assert code == 0
    assert "nvidia:sm_90, CPU runtime" in out
    assert "cpu:spirv64, CPU runtime" in out


def test_workers_compile_for_a_target_that_is_not_here() -> None:
    wanted = Spread(("float32",), "usual", None, "nvidia:sm_90")
    with ThreadPoolExecutor(1) as executor:
        (row,) = rows_by(executor, "relu", wanted=wanted)
    assert (row.status, row.cases) == ("compiled", 1)


def test_a_process_that_is_killed_costs_what_it_works_on_only() -> None:
    with Processes(1) as executor:
        assert executor.submit(zlib.compress, b"first").result() == zlib.compress(b"first")
        (child,) = executor._children
        before = child.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        with pytest.raises(ChildLostError):
            executor.submit(zlib.compress, b"second").result()
        assert executor.submit(zlib.compress, b"third").result() == zlib.compress(b"third")
        assert child.pid not in (None, before)


# ------------------------------------------------------------------- real processes and clusters


def killed_while_it_works(executor: Processes, stop: threading.Event) -> None:
    while not stop.is_set():
        for child in executor._children:
            if child.busy and child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
                return
        time.sleep(0.05)


@pytest.mark.long
def test_processes_verify_though_one_is_killed() -> None:
    """Long: two processes, each with its first compilation."""
    stop = threading.Event()
    with Processes(2) as executor:
        thread = threading.Thread(target=killed_while_it_works, args=(executor, stop))
        thread.start()
        rows = rows_by(executor, *NAMES)
        stop.set()
        thread.join()
    assert told(rows) == told(list(verify(specs_of(*NAMES), QUICK.dtypes, "cpu:0", extent="quick")))


@pytest.mark.long
def test_dask_verifies_though_a_worker_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long: a cluster of two processes."""
    pytest.importorskip("distributed")
    file = tmp_path / "a.json"
    with cluster() as client, one_killed(client) as killed:
        name = f"dask:{client.scheduler.address}"
        words = ("verify", *NAMES, "--dtype", "float32", "--quick", "--device", "cpu")
        code, out, err = here(capsys, *words, "--executor", name, "--report", str(file), "--json")
    assert killed
    assert code == 0, err
    (document,) = json.loads(out)["reports"]
    assert {row["kernel"]: row["status"] for row in document["rows"]} == dict.fromkeys(
        NAMES, "right"
    )
    assert [row["where"] for row in report.read(file)["rows"]] == [
        row["where"] for row in document["rows"]
    ]


def test_a_name_that_is_no_executor_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("verify", "relu"), ("tune", "relu", "--shape", "8")):
        code, _, error = here(capsys, *words, "--executor", "dask")
        assert code == 2
        assert "names no address" in error
