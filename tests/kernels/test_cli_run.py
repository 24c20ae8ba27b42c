"""`xtarget run` on a real device: output, --check, --json, exit codes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from command_line import here

from xtarget._cli import run as _cli_run
from xtarget._kernels import libraries


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return here(capsys, "run", *words)


def test_a_right_result(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "add", "--shape", "1025", "--device", device, "--check")
    assert (code, err) == (0, "")
    assert out.startswith(f"add(float32[1025], float32[1025]) on {device} (")
    assert "check       right: max error" in out
    assert "warm run" in out


def test_json(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("softmax", "--shape", "7x33", "--option", "axis=0", "--dtype", "float16")
    code, out, _ = run(capsys, *words, "--device", device, "--check", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["ok"] is True
    assert facts["device"] == device
    assert facts["results"] == [{"dtype": "float16", "shape": [7, 33]}]
    assert facts["check"][0]["wrong"] == 0
    assert 0 < facts["warm_run_s"] < facts["first_run_s"] + 1


def test_scalars_and_shapes_of_each_input(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("mul", "--shape", "4x5", "--scalar", "b=2.5", "--device", device, "--check")
    code, out, _ = run(capsys, *words)
    assert (code, "float32[4, 5], 2.5" in out) == (0, True)
    words = ("add", "--shape", "4x1", "--shape", "5", "--device", device, "--check")
    code, out, _ = run(capsys, *words)
    assert (code, "result      float32[4, 5]" in out) == (0, True)


@pytest.mark.parametrize(
    ("kernel", "option"),
    [("sum", "axis=[0,1]"), ("layer_norm", "eps=nan"), ("layer_norm", "eps=inf")],
)
def test_options_reach_the_reference_as_they_reach_the_kernel(
    kernel: str, option: str, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (kernel, "--shape", "4x5", "--option", option, "--device", device, "--check")
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert "check       right" in out


def test_the_mean_of_nothing_is_no_warning(
    device: str, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    words = ("layer_norm", "--shape", "3x0", "--device", device, "--check")
    code, _, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert [str(w.message) for w in recwarn if w.category is RuntimeWarning] == []


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (lambda a, b: a + nothing, "NameError: name 'nothing'"),  # type: ignore[name-defined]  # noqa: F821
        (lambda a, b: (a, b), "it gives 2 results, the kernel 1"),
        (lambda a, b: a[:5], "shape"),
        (lambda a, b: "text", "shape"),
    ],
)
def test_a_reference_that_fails_is_named(
    reference: Any, reason: str, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with another_reference(reference):
        words = ("add", "--shape", "100", "--device", device, "--check")
        code, _, err = run(capsys, *words)
    assert code == 1
    assert err.startswith("error: the result of add cannot be checked with its reference: ")
    assert reason in err
    assert err.count("\n") == 1


@contextlib.contextmanager
def another_reference(reference: Any) -> Iterator[None]:
    honest = libraries.find("add")
    libraries.register(replace(honest.spec, reference=reference), honest.source, honest.origin)
    yield
    libraries.register(honest.spec, honest.source, honest.origin)


@pytest.fixture
def wrong_reference() -> Iterator[None]:
    """`add` with a reference that says otherwise: --check has to see it."""
    with another_reference(lambda a, b: np.add(a, b) + 1):
        yield


@pytest.mark.usefixtures("wrong_reference")
def test_a_wrong_result_is_exit_code_1(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("add", "--shape", "100", "--device", device, "--check")
    code, out, _ = run(capsys, *words)
    assert (code, "WRONG: 100 of 100 elements" in out) == (1, True)
    code, out, _ = run(capsys, *words, "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "add", "--device", "nvidia:99")
    assert code == 3
    assert err.startswith("error: ")
    assert "nvidia:99" in err


def test_what_cannot_fit_the_device_is_said_before_input_is_made(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(*_: object) -> None:
        pytest.fail("input was made")

    monkeypatch.setattr(_cli_run, "random_array", filled)
    code, _, err = run(capsys, "matmul", "--shape", "1000000000x1", "--device", device)
    assert code == 1
    assert err.startswith("error: matmul needs 3,725,290,3")
    assert f"{device} has" in err
    code, _, err = run(
        capsys, "matmul", "--shape", "100x100", "--shape", "99x10", "--device", device
    )
    assert code == 1
    assert "do not fit" in err
