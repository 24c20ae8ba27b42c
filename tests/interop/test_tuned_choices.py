"""Choices of `xtarget tune` for the library's kernels: kept, near sizes, files, bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import here

pytest.importorskip("triton")

import xtarget
from xtarget._kernels import libraries, tunings
from xtarget._kernels.tuning_files import Entry, Result, merged, read_file, text_of
from xtarget._launch import planning, trials, tuning_search
from xtarget._values.choosing import bounds_of, octave_of
from xtarget._values.symbols import Tracer
from xtarget._values.types import Target
from xtarget.spec import ArrayType, contiguous_strides

TARGET, SIDE = "cpu:spirv64", 40
#: The configurations that are tried, of the many.
FEW = ("m=8, n=32, k=4", "m=4, n=64, k=4", "m=4, n=16, k=4")


@pytest.fixture(autouse=True)
def _own_cache(a_cpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    # whatever this processor has
    monkeypatch.setattr(planning, "register_bytes", lambda: 2048)
    monkeypatch.setattr(planning, "vectors", lambda: "avx512")
    monkeypatch.setattr(tuning_search, "_WIDEST", 1e9)  # whatever else this machine does
    monkeypatch.setattr(trials, "_SECONDS", 1e-4)
    monkeypatch.setattr(trials, "_MOST_SETS", 2)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves some of the configurations."""
    library = libraries.find("matmul").spec.plan.__globals__["tuned_matmul"]
    every = library._variants

    def leave(*texts: str) -> None:
        monkeypatch.setattr(
            library,
            "_variants",
            lambda wanted: [
                one
                for one in every(wanted)
                if f"m={one.m}, n={one.n}, k={one.k}" in texts and not one.parts
            ],
        )

    leave(*FEW)
    return leave


def served(m: int, n: int, k: int) -> tunings.Served:
    kernel = libraries.find("matmul")
    types = [ArrayType("float32", shape, (shape[1], 1)) for shape in ((m, k), (k, n))]
    with tunings.trying({}) as seen:
        planning.plan_of_layouts(kernel, types, {}, xtarget.device("cpu").info.target)
    return seen[0]


def product(side: int = SIDE) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((side, side)).astype(np.float32) for _ in "ab")


@pytest.mark.usefixtures("device", "few")
def test_every_result_is_kept_and_only_a_new_configuration_is_timed(few: Any) -> None:
    a, b = product()
    kernel = xtarget.get("matmul")
    few(*FEW[:2])
    first = kernel.tune(a, b)
    assert len(first.trials) == 2
    assert not any(trial.kept for trial in first.trials)
    few(*FEW)
    second = kernel.tune(a, b)
    assert len(second.trials) == 3
    assert [trial.text.startswith(FEW[2]) for trial in second.trials if not trial.kept] == [True]
    (entry,) = tunings.local_entries(TARGET, "matmul")
    assert set(entry.results) == {trial.text for trial in second.trials}
    assert entry.best == second.trials[0].text
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=2e-4, atol=1e-4)
    assert all(trial.kept for trial in kernel.tune(a, b).trials)


@pytest.mark.usefixtures("device")
def test_the_nearest_range_serves_a_call() -> None:
    words = dict(served(SIDE, SIDE, SIDE).asked.words())
    texts = {name: f"{name}, num_warps=1, num_stages=1, way=tiles, parts=0" for name in FEW}
    sizes = {"m": SIDE, "n": SIDE, "k": SIDE}
    large = {name: 16 * size for name, size in sizes.items()}
    here_ = Entry("matmul", TARGET, "a CPU", "measured", words, sizes, texts[FEW[1]])
    tunings.store([here_, replace(here_, sizes=large, best=texts[FEW[2]], how="derived")])
    near, between, beyond = served(45, 45, 45), served(90, 45, 45), served(10**6, 2, 2)
    assert (near.how, near.choice.n) == ("measured", 64)
    assert "m 23..45" in near.where or "m 23" in near.where
    assert between.choice.n == 64
    assert (served(700, 640, 600).how, served(700, 640, 600).choice.n) == ("derived", 16)
    assert beyond.how == "default"
    tunings.store([replace(here_, best="m=4, n=64")])  # of a version with other numbers
    tunings.forget()
    assert served(45, 45, 45).how in ("default", "derived")


def test_octaves_are_found_by_comparisons_that_guard_them() -> None:
    for size in (0, 1, 2, 3, 5, 6, 11, 12, 22, 23, 4096, 10**9):
        low, high = bounds_of(octave_of(size))
        assert low <= size <= high
        tracer = Tracer()
        assert octave_of(tracer.symbol("n", size)) == octave_of(size)
        program = tracer.compile(())
        assert tracer.failing([low]) in (None, [], ()) or not tracer.failing([low])
        assert not tracer.failing([high]) if high < 10**12 else program
        assert tracer.failing([high + 1])


@pytest.mark.usefixtures("device", "few")
def test_a_wrong_or_unbuildable_configuration_is_dropped_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from xtarget._values.errors import CompileError

    real = trials.Trials.check

    def check(self: Any, choice: Any) -> str:
        (one,) = choice.values()
        if one.n == 64:
            raise CompileError("it does not compile.")
        if one.n == 16:
            return trials._difference(
                ("float32", np.ones(4)), ("float32", np.array([1.0, 1.0, 1.0, 3.0]))
            )
        return real(self, choice)

    monkeypatch.setattr(trials.Trials, "check", check)
    found = xtarget.get("matmul").tune(*product())
    errors = {trial.config.n: trial.error for trial in found.dropped}
    assert errors == {
        64: "it does not compile.",
        16: "gives another result: 1 of 4 elements differ",
    }
    assert len(found.trials) == 3


@pytest.mark.usefixtures("few")
def test_a_spread_that_is_too_wide_is_said_and_not_stored(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_search, "_WIDEST", -1.0)
    words = ("tune", "matmul", "--shape", f"{SIDE}x{SIDE}x{SIDE}", "--device", device)
    code, out, _ = here(capsys, *words)
    assert code == 1
    assert "not kept: m=" in out
    assert "Something else uses" in out
    assert not tunings.local_entries(TARGET, "matmul")


@pytest.mark.usefixtures("few")
def test_times_beside_a_process_that_never_pauses_are_not_stored(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials.Trials, "lateness", lambda self, choice: 0.9)
    words = ("tune", "matmul", "--shape", f"{SIDE}x{SIDE}x{SIDE}", "--device", device)
    code, out, _ = here(capsys, *words)
    assert code == 1
    assert "late to 90% of events" in " ".join(out.split())
    assert "Something else uses" in out
    assert not tunings.local_entries(TARGET, "matmul")


@pytest.mark.usefixtures("few")
def test_ctrl_c_keeps_what_was_measured(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = trials.Trials.time, iter((1, 1))

    def time(self: Any, choice: Any, best: Any) -> Any:
        if next(times, None) is None:
            raise KeyboardInterrupt
        return real(self, choice, best)

    monkeypatch.setattr(trials.Trials, "time", time)
    words = ("tune", "matmul", "--shape", f"{SIDE}x{SIDE}x{SIDE}", "--device", device, "--json")
    code, out, _ = here(capsys, *words)
    assert code == 130
    assert json.loads(out)["interrupted"]
    assert len(json.loads(out)["trials"]) == 2
    (entry,) = tunings.local_entries(TARGET, "matmul")
    assert len(entry.results) == 2


@pytest.mark.usefixtures("few")
def test_files_go_out_and_in(
    device: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, other = tmp_path / "here.json", tmp_path / "other.json"
    code, _, err = here(capsys, "tune", "export", "-o", str(file))
    assert (code, "nothing was measured here" in err) == (1, True)
    xtarget.get("matmul").tune(*product())
    assert here(capsys, "tune", "export", "-o", str(file))[0] == 0
    entries = read_file(file)
    assert [entry.table for entry in entries] == ["matmul"]
    assert '"matmul"' in here(capsys, "tune", "list", "--json")[1]
    strange = [
        replace(entries[0], device="another CPU"),
        replace(entries[0], made={"xtarget": "99.0"}),
        replace(entries[0], table="nobody.knows", words={"kernel": "0", "key": "N=1"}),
        replace(entries[0], table="of nobody"),
        replace(entries[0], best="m=8, n=32"),
    ]
    other.write_text(text_of(strange), encoding="utf-8")
    code, out, err = here(capsys, "tune", "import", str(other), "--json")
    assert (code, json.loads(out)["imported"]) == (0, 0)
    assert len(err.splitlines()) == 5
    for reason in ("another CPU", "xtarget 99.0", "nobody.knows", "of nobody", "here, not m, n"):
        assert reason in err
    newer = tmp_path / "newer.json"
    newer.write_text('{"format": "xtarget tuning 99", "entries": []}')
    code, out, err = here(capsys, "tune", "import", str(newer), str(file), "--json")
    assert (code, json.loads(out)["imported"], len(err.splitlines())) == (0, 1, 1)
    assert "xtarget tuning 99" in err
    code, _, err = here(capsys, "tune", "merge", str(file), str(other), "-o", str(file))
    assert code == 0
    assert len(read_file(file)) == 4
    (tmp_path / "broken.json").write_text('{"format": "xtarget tuning 1", "entries": [{}]}')
    code, _, err = here(capsys, "tune", "import", str(tmp_path / "broken.json"))
    assert (code, "is damaged" in err) == (1, True)
    for path, why in (("none.json", "No such file or directory"), ("", "not a regular file")):
        code, _, err = here(capsys, "tune", "import", str(tmp_path / path))
        assert (code, err) == (1, f"error: {tmp_path / path} cannot be read: {why}.\n")


def test_a_choice_that_cannot_be_read_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    words = ("m", "n", "k", "num_warps", "num_stages", "way", "parts")
    assert tunings.fields("matmul") == words
    matrix = ArrayType("float32", (SIDE, SIDE), (SIDE, 1))
    call = planning.call_of(
        libraries.find("matmul"), (matrix, matrix), {}, Target.parse(TARGET), 2, aligned=(True,) * 2
    )
    with tunings.trying({}) as seen:
        planning.make_plan(libraries.find("matmul"), call)
    (one,) = seen
    usual = one.asked.text(one.choice)
    assert tuple(part.partition("=")[0] for part in usual.split(", ")) == words
    entry = Entry(
        "matmul", TARGET, "a CPU", "measured", dict(one.asked.words()), one.sizes, "m=x, n=32"
    )
    tunings.store([entry])
    for _ in range(2):
        assert planning.make_plan(libraries.find("matmul"), call).launches
    (record,) = caplog.records
    assert "its choice is m=x, n=32, where this version" in record.getMessage()


#: Calls whose plans ask most tables.
_CALLS: dict[str, list[tuple[int, ...]]] = {
    "add": [(512, 512)] * 2,
    "attention": [(1, 2, 512, 64)] * 3,
    "conv2d": [(1, 32, 32, 32), (32, 32, 3, 3)],
    "cumsum": [(512, 512)],
    "matmul": [(512, 512)] * 2,
    "softmax": [(512, 512)],
    "sort": [(512, 512)],
    "sum": [(512, 512)],
}


def test_tables_have_the_fields_that_files_are_compared_with() -> None:
    """Each table that a plan asks is in the list, and those that we ship say the same."""
    plans = libraries.own_folder() / "plans"
    asked = re.findall(
        r"(?:chosen|_varied)\(\s*call,\s+\"([^\"]+)\"",
        "".join(path.read_text("utf-8") for path in plans.glob("tuned*.py")),
    )
    assert len(asked) == 10
    assert [table for table in asked if tunings.fields(table) is None] == []
    made: dict[str, tuple[str, ...]] = {}
    for target in map(Target.parse, (TARGET, "nvidia:sm_80", "nvidia:sm_90")):
        for name, shapes in _CALLS.items():
            layouts = [ArrayType("float16", s, contiguous_strides(s)) for s in shapes]
            with tunings.trying({}) as seen:
                planning.plan_of_layouts(libraries.find(name), layouts, {}, target)
            made |= {one.asked.table: one.asked.default._fields for one in seen}
    assert made == {table: tunings.fields(table) for table in made}
    assert len(made) >= len(asked)
    for target in ("cpu:spirv64", "nvidia:sm_80", "nvidia:sm_90"):
        for entry in tunings.shipped_entries(target):
            names = tuple(part.partition("=")[0] for part in entry.best.split(", "))
            assert names in (("default",), tunings.fields(entry.table))


def test_of_two_files_the_fastest_result_is_the_choice() -> None:
    one = Entry("t", TARGET, "d", "measured", {}, {"n": 1}, "a", {"a": Result(2.0)})
    two = replace(one, best="b", results={"b": Result(1.0), "c": Result(error="x")})
    (both,) = merged([two], [one])
    assert both.best == "b"
    assert set(both.results) == {"a", "b", "c"}


def test_explain_shows_what_served(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explain", "matmul", "--shape", "1024x1024", "--dtype", "bfloat16", "--target")
    for target, how, by in (
        ("nvidia:sm_90", "measured", "kernels/choices/nvidia-sm_90.json"),
        ("nvidia:sm_80", "derived", "the model"),
        ("amd:gfx942", "default", "kernels/plans/tuning_matmul.py"),
    ):
        code, out, err = here(capsys, *words, target, "--json")
        assert code == 0, err
        (choice,) = json.loads(out)[0]["choices"]
        assert choice["how"] == how
        assert by in choice["by"]


def test_a_shape_that_does_not_fit_the_memory_is_refused(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("tune", "matmul", "--shape", "9999999x9999999x16", "--device", device)
    code, _, err = here(capsys, *words)
    assert code == 1
    assert "Choose a smaller --shape" in err
