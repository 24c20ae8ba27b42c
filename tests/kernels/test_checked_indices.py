"""The option `check`: an index outside of its array is an error that names it and its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import operators
import pytest
from processes import run_python
from refusals import refused

import xtarget
from xtarget import ArgumentError, run

X = np.arange(12.0).reshape(3, 4)
ONES = np.ones((2, 4))
I = np.array  # noqa: E741

test_what_is_outside_is_named = refused(
    (name, args, {**options, "check": True}, said)
    for name, args, options, said in [
        (
            "take",
            [X, I([[0, 1], [2, 5]])],
            {"axis": 0},
            r"index\[1, 1\] is 5, for an axis of length 3. An "
            "index has to be from -3 to 2",
        ),
        ("take", [X, I([0, -5])], {"axis": 1}, r"index\[1\] is -5"),
        ("take", [X, I(8, np.uint8)], {"axis": 0}, "index is 8, .* from 0 to 2"),
        ("take", [X, I([12, 0])], {}, r"index\[0\] is 12, for an axis of length 12"),
        ("take", [X, I([2**63], np.uint64)], {}, rf"index\[0\] is {2**63}"),
        ("embedding", [I([3]), X], {}, r"index\[0\] is 3"),
        ("embedding_bag", [I([[0, 3]]), X], {}, r"index\[0, 1\] is 3"),
        ("gather", [X, I([[0, 4]])], {"axis": 1}, r"index\[0, 1\] is 4, for an axis of length 4"),
        ("gather_nd", [X, I([[0, 3], [2, 4]])], {}, r"index\[1, 1\] is 4, for an axis of length 4"),
        ("scatter_add", [X, I([[0, 1, 3, 0]]), ONES[:1]], {}, r"index\[0, 2\] is 3"),
        ("index_add", [X, I([0, 3]), ONES], {}, r"index\[1\] is 3"),
        ("scatter_nd_update", [X, I([[0], [3]]), ONES], {}, r"index\[1, 0\] is 3"),
        ("scatter_nd", [I([[0], [7]]), I([1.0, 2.0])], {"shape": (5,)}, r"index\[1, 0\] is 7"),
    ]
)


def test_the_variable_may_be_set_and_unset_at_any_time(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, out = I([2, 3]), np.zeros((2, 4))
    kernel = xtarget.get("take")

    def calls(rows: int) -> list[Any]:
        x = np.arange(4.0 * rows).reshape(rows, 4)
        return [
            lambda: run("take", x, index, axis=0, device=device),
            lambda: run("take", x, index, axis=0, out=out, device=device),
            lambda: kernel(x, index, axis=0, device=device),
        ]

    for _ in range(4):  # the compiled core makes the last ones
        for rows in (3, 2, 1):
            for call in calls(rows):
                call()
    for _ in range(2):
        monkeypatch.setenv("XTARGET_CHECK", "1")
        for rows in (3, 1, 2):
            for call in calls(rows):
                with pytest.raises(ArgumentError, match=r"index\[[01]\] is [23], for an axis of"):
                    call()
        np.testing.assert_array_equal(calls(4)[0](), np.arange(16.0).reshape(4, 4)[[2, 3]])
        monkeypatch.delenv("XTARGET_CHECK")
        for rows in (1, 2, 3):
            for call in calls(rows):
                call()


def test_what_the_variable_does_not_change(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = I([3])
    launch = xtarget.get("take").prepare(X, index, axis=0, device=device)
    launch()
    monkeypatch.setenv("XTARGET_CHECK", "1")
    launch()  # as it was prepared
    with pytest.raises(ArgumentError, match=r"index\[0\] is 3"):
        run("take", X, index, axis=0, check=True, device=device)
    run("add", X, X, device=device)


def test_what_is_inside_is_taken_and_every_call_is_checked_again(device: str) -> None:
    index: Any = np.array([2, -3])
    launch = xtarget.get("take").prepare(X, index, axis=0, check=True, device=device)
    np.testing.assert_array_equal(launch(), X[[2, 0]])
    index[0] = 3
    for call in (launch, lambda: run("take", X, index, axis=0, check=True, device=device)):
        with pytest.raises(ArgumentError, match=r"index\[0\] is 3"):
            call()
    for options in ({"mode": "wrap", "check": True}, {"check": False}):
        run(
            "take", X, index, axis=0, device=device, **options
        )  # there it means something, or is clipped
    assert run("take", X, index[:0], axis=0, check=True, device=device).shape == (0, 4)


def test_tensors_of_torch_and_a_graph_that_is_captured(device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if device.startswith("cpu"):
        with pytest.raises(ArgumentError, match=r"index\[0, 1\] is 7"):
            run("take", torch.tensor(X), torch.tensor([[0, 7]]), axis=0, check=True)
    x, index = (xtarget.asarray(a, device=device) for a in (X, np.array([1, 2])))
    out = run("take", x, index, axis=0, check=True)
    with xtarget.capture(device) as graph:  # of which no value is known yet
        run("take", x, index, axis=0, check=True, out=out)
    graph.replay()
    np.testing.assert_array_equal(out.numpy(), X[[1, 2]])


def test_the_environment_asks_for_all_calls() -> None:
    code = "import numpy as np, xtarget; xtarget.run('take', np.ones(3), np.array([4]))"
    done = run_python("-c", code, XTARGET_CHECK="1")
    assert "take: index[0] is 4, for an axis of length 3" in done.stderr
    assert run_python("-c", code).returncode == 0


def test_rows_that_check_take_indices() -> None:
    rows = {name for name, spec in operators.own().items() if spec.bounds is not None}
    assert rows == {name for name, spec in operators.own().items() if "check" in spec.options}
    assert {"gather", "index", "embedding", "scatter_nd"} <= rows
