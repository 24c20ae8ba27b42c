"""`xtarget bench` on a device: what it measures, leaves out, and keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command_line import here

from xtarget._bench import measure
from xtarget._bench.measure import Measurement


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_COPY_BYTES", 1 << 16)
    monkeypatch.setattr(measure, "_SIDE_CPU", 64)
    monkeypatch.setattr(measure, "_SIDE_GPU", 64)


def bench(capsys: Any, device: str, *words: str) -> tuple[int, str, str]:
    return here(capsys, "bench", *words, "--device", device, "--seconds", "0.001")


def test_a_run_is_reported_and_compared(device: str, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "report.json"
    words = ["add", "--sizes", "2^6,16x16,2^50", "--against", "numpy,cupy", "--report", str(file)]
    code, out, _ = bench(capsys, device, *words)
    assert code == 0
    found = json.loads(file.read_text())
    ways = ["xtarget", "numpy", *(["cupy"] if "cupy is left out" not in out else [])]
    assert [(row["size"], row["way"]) for row in found["rows"]] == [
        (size, way) for size in ("64", "16x16") for way in ways
    ]
    assert all(0 < row["low"] <= row["median"] <= row["high"] for row in found["rows"])
    assert [row["bytes"] for row in found["rows"]] == [12 * n for n in (64, 256) for _ in ways]
    assert "[1125899906842624] on " in out  # beyond any memory: left out, and said
    assert find_spec("cupy") or "cupy is left out" in out
    # an older report that was much faster, and one that was much slower
    for factor, expected in ((1e-6, 1), (1e6, 0)):
        for row in found["rows"]:
            for name in ("median", "lower", "upper", "low", "high"):
                row[name] *= factor
        old = tmp_path / "old.json"
        old.write_text(json.dumps(found))
        code, out, _ = bench(capsys, device, "add", "--sizes", "2^6,16x16", "--compare", str(old))
        assert code == expected, out
        for row in found["rows"]:
            for name in ("median", "lower", "upper", "low", "high"):
                row[name] /= factor


def test_sizes_without_elements_are_left_out_and_shapes_may_be_options(
    device: str, capsys: Any
) -> None:
    code, out, _ = bench(capsys, device, "add", "--sizes", "0,16x0", "--json")
    found = json.loads(out)
    assert (code, found["rows"]) == (0, [])
    assert sum("it has no elements" in note for note in found["notes"]) == 2
    code, out, _ = bench(capsys, device, "uniform", "--sizes", "32", "--json")
    assert [row["bytes"] for row in json.loads(out)["rows"]] == [4 * 32]


def test_what_was_measured_before_an_interruption_is_kept(
    device: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Measurement.measure

    def interrupted(self: Measurement, load: Any, **given: Any) -> Iterator[Any]:
        if load.spec.name == "mul":
            raise KeyboardInterrupt
        return real(self, load, **given)

    monkeypatch.setattr(Measurement, "measure", interrupted)
    file = tmp_path / "report.json"
    code, out, _ = bench(capsys, device, "add", "mul", "--sizes", "64", "--report", str(file))
    assert code == 130
    assert "interrupted: the 1 results that were measured are kept" in out
    found = json.loads(file.read_text())
    assert found["interrupted"] is True
    assert [row["kernel"] for row in found["rows"]] == ["add"]


def test_a_peer_that_computes_something_else_is_left_out(device: str, capsys: Any) -> None:
    if not device.startswith("cpu"):
        pytest.skip("the other library is NumPy with a wrong function, on the host")
    import dataclasses

    import xtarget
    from xtarget._bench.peers import peer
    from xtarget._bench.workloads import Workload
    from xtarget.spec import ArrayType

    spec = dataclasses.replace(xtarget.catalog()["exp"], reference=lambda x: x)
    measurement = Measurement(device, ["numpy"], 0.001, peer)
    load = Workload(spec, (ArrayType("float32", (64,), (1,)),), "float32", (64,))
    assert [row.way for row in measurement.measure(load)] == ["xtarget"]
    assert "gives the argument back" in measurement.notes[-1]
    other = dataclasses.replace(load, spec=dataclasses.replace(spec, reference=lambda x: x + 1))
    assert [row.way for row in measurement.measure(other)] == ["xtarget"]
    assert "its results are others" in measurement.notes[-1]
