"""Reports that `xtarget bench` makes of times: figures, comparisons, pages; without measuring."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artifacts import SAMPLE_DEVICE
from command_line import here

import xtarget
from xtarget import XTargetError
from xtarget._bench import page, peers, report
from xtarget._bench.measure import Measured, limits_of
from xtarget._bench.workloads import TURNING_BYTES, Work, Workload, inputs, work_of
from xtarget._launch import samples
from xtarget.spec import ArrayType, contiguous_strides

# ---------------------------------------------------------------------------------------- samples


def test_the_figures_of_samples_are_quartiles_and_an_interval_of_the_median() -> None:
    found = samples.summarize([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.lower, found.median, found.upper) == (2.0, 3.0, 4.0)
    assert 1.0 <= found.low <= 3.0 <= found.high <= 100.0
    assert found == samples.summarize([1.0, 2.0, 3.0, 4.0, 100.0])


def test_the_interval_narrows_with_more_samples() -> None:
    rng = np.random.default_rng(0)
    few, many = (samples.summarize(rng.normal(1, 0.1, n).tolist()) for n in (10, 1000))
    assert many.high - many.low < few.high - few.low


def test_inputs_take_turns() -> None:
    made: list[int] = []
    calls = [lambda i=i: made.append(i) for i in range(3)]
    samples.take(calls, samples.HostClock(), 0.01)
    assert abs(made.count(0) - made.count(2)) <= 2 + len(made) // 20
    tail = made[-9:]
    assert all(b == (a + 1) % 3 for a, b in pairwise(tail))


# --------------------------------------------------------------------------------------- workloads


def workload(kernel: str, *shapes: tuple[int, ...], dtype: str = "float32") -> Workload:
    args = tuple(ArrayType(dtype, shape, contiguous_strides(shape)) for shape in shapes)
    return Workload(xtarget.catalog()[kernel], args, dtype, shapes[0])


def test_the_work_of_a_call() -> None:
    add = work_of(workload("add", (8, 16), (8, 16)), SAMPLE_DEVICE)
    assert (add.bytes, add.flops, add.in_flops) == (3 * 8 * 16 * 4, 128, False)
    matmul = work_of(workload("matmul", (4, 8), (8, 16)), SAMPLE_DEVICE)
    assert (matmul.flops, matmul.in_flops) == (2 * 4 * 8 * 16, True)
    assert work_of(workload("exp", (5,)), SAMPLE_DEVICE).flops is None


def test_sets_of_inputs_are_equal_and_elsewhere() -> None:
    load = workload("add", (1000,), (1000,), dtype="bfloat16")
    sets = inputs(load, work_of(load, SAMPLE_DEVICE), 1e6)
    assert len(sets) >= 2
    for one, two in zip(*sets[:2], strict=True):
        assert one.tobytes() == two.tobytes()
        assert not np.shares_memory(one, two)


# ------------------------------------------------------------------------------------------- peers


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(peers.importlib, "import_module", absent)
    with pytest.raises(peers.NoPeerError, match="torch is not installed"):
        peers.peer("torch", SAMPLE_DEVICE)


def test_cupy_has_no_arrays_on_a_cpu() -> None:
    with pytest.raises(peers.NoPeerError, match="no arrays on"):
        peers.peer("cupy", SAMPLE_DEVICE)


# ----------------------------------------------------------------------------------------- reports


def row(kernel: str, median: float, way: str = "xtarget", size: str = "64x64") -> Measured:
    summary = samples.Summary(median, median * 0.99, median * 1.01, median * 0.98, median * 1.02,
                              9, 1, 1.0)  # fmt: skip
    work = Work(1 << 20, 1 << 20, 1 << 24, kernel == "matmul")
    return Measured("cpu:0", kernel, "float32", size, way, "host clock", 2, summary, work)


def made(*rows: Measured, **changes: Any) -> dict[str, Any]:
    limits = {
        "copy": {"speed": 20.0, "unit": "GB/s", "way": "numpy", "dtype": "float32"},
        "matmul": {"speed": 0.1, "unit": "TFLOP/s", "way": "numpy", "dtype": "float32"},
    }
    device = {"name": "cpu:0", "target": "cpu:spirv64", "product": "Acme <One>", "driver": "1",
              "runs_on": "CPU runtime", "peers": {"numpy": "2"}, "limits": limits}  # fmt: skip
    return {**report.document([device], rows, ["a <note>"], interrupted=False), **changes}


def test_nothing_is_faster_than_the_limits_but_what_lies_in_caches() -> None:
    """On a busy machine the copy may have been slower than what was measured after it."""
    turning = Work(TURNING_BYTES, TURNING_BYTES, None, False)
    big = replace(row("add", 1e-2), work=turning)
    far = replace(row("take", 1e-3), work=turning)  # its bytes are more than what it reads
    small, product = row("add", 1e-6), row("matmul", 1e-3)
    found = limits_of([row("positive", 1.0), row("matmul", 2e-3)], [small, big, far, product])
    assert {kind: limit["kernel"] for kind, limit in found.items()} == {
        "copy": "add", "matmul": "matmul",
    }  # fmt: skip
    rows = [big, small, product, replace(product, dtype="float16")]
    told = [page.share_text(one.facts(), found) for one in rows]
    assert told == ["100%", "in cache", "100%", ""]


def test_what_is_slower_than_before_is_told() -> None:
    old = made(row("add", 1e-3), row("exp", 1e-3), row("sum", 1e-3), row("sum", 1e-3, "numpy"))
    new = made(row("add", 1.05e-3), row("exp", 1.5e-3), row("sum", 0.5e-3), row("sum", 9, "numpy"))
    found = report.compare(old, new, 0.1)
    assert [change.name for change in found.slower] == ["exp float32[64x64] on cpu:0"]
    assert [change.faster for change in found.changes] == [False, False, True]
    assert found.notes == ()


def test_times_whose_intervals_meet_are_not_slower() -> None:
    wide = samples.Summary(1.3e-3, 1e-3, 2e-3, 0.9e-3, 2e-3, 9, 1, 1.0)
    noisy = Measured("cpu:0", "add", "float32", "64x64", "xtarget", "host clock", 2, wide,
                     Work(1, 1, None, False))  # fmt: skip
    assert report.compare(made(row("add", 1e-3)), made(noisy), 0.1).slower == []


def test_reports_of_other_versions_devices_and_cases() -> None:
    old = made(row("add", 1e-3), row("exp", 1e-3), xtarget="0.0.9")
    told = report.compare(old, made(row("add", 1e-3)), 0.1).notes
    assert "older report is of xtarget 0.0.9" in told[0]
    assert "1 cases of the older report were not measured now" in told[1]
    with pytest.raises(XTargetError, match="no case in common"):
        report.compare(old, made(row("mul", 1e-3)), 0.1)
    old["devices"][0]["product"] = "Acme Two"
    with pytest.raises(XTargetError, match="another device: its cpu:0 is Acme Two"):
        report.compare(old, made(row("add", 1e-3)), 0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a report"),
        ("[]", "is not a report"),
        ('{"kind": "xtarget verify"}', "is not a report"),
        ('{"kind": "xtarget bench", "schema": 7}', "is a report of schema 7"),
        ('{"kind": "xtarget bench", "schema": 1, "devices": [{}], "rows": []}', "is not a report"),
        ('{"kind": "xtarget bench", "schema": 1, "devices": [], "rows": [{}]}', "is not a report"),
    ],
)
def test_a_file_that_is_no_report(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(XTargetError, match=said):
        report.read(tmp_path / "report.json")


def test_a_report_comes_back_as_it_was_written(tmp_path: Path) -> None:
    found = made(row("add", 1e-3), row("matmul", 2e-3))
    (tmp_path / "report.json").write_text(json.dumps(found))
    assert report.read(tmp_path / "report.json") == found


# ------------------------------------------------------------------------------------------- pages


def test_the_page_is_one_small_file_that_asks_the_network_for_nothing() -> None:
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    rows = [
        row(kernel, 1e-3 * n, way, f"{64 * n}x64")
        for kernel in ("add", "matmul")
        for way in ("xtarget", "numpy", "torch")
        for n in (1, 2, 4, 8)
    ]
    text = page.html(made(*rows)).decode()
    assert text.count("<svg") == 2 * 2 + 1
    assert len(text.encode()) / 5 < 60_000  # 13 plots of the six kernels as of no name: < 1 MB
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"|url\((?!#)', text) == []
    assert "Acme &lt;One&gt;" in text
    assert "a &lt;note&gt;" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)"]+)\)', text)) <= {
        pair for one in ids for pair in ((one, ""), ("", one))
    }


# ----------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["softmx"], 1, "Did you mean softmax"),
        (["add", "--against", "numby"], 2, "there are numpy, torch"),
        (["add", "--sizes", "2^70"], 2, "is too large"),
        (["add", "--sizes", "12y3"], 2, "is not a shape"),
        (["add", "--dtype", "float31"], 2, "is not a dtype"),
        (["add", "--compare", "/nowhere/a.json"], 1, "cannot be read"),
        (["add", "--report", "/proc/none/a.json"], 1, "cannot be written"),
        (["add", "--device", "nvdia:0"], 3, "nvdia"),
    ],
)
def test_wrong_words(words: list[str], code: int, said: str, capsys: Any) -> None:
    found, _, err = here(capsys, "bench", *words)
    assert found == code
    assert said in err
