"""Several implementations of one operator: asked for by name, chosen by target, and told."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import here
from processes import run_python

import xtarget
from xtarget._kernels import implementations, libraries
from xtarget._verify.report import document, read, written
from xtarget._verify.verify import verify

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def _add_more(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(a + i, mask) + tl.load(b + i, mask) + 100, mask)


@pytest.fixture
def more() -> str:
    """An implementation of `add` that one can tell from ours, for CPUs alone."""
    xtarget.kernel(
        name="add",
        impl="more",
        inputs=("a", "b"),
        outputs={"out": "a"},
        sizes={"n": lambda c: c.a.size},
        constants={"BLOCK": 64},
        grid=lambda c: (-(-c.n // 64),),
        targets=("cpu",),
        why="adds a hundred",
    )(_add_more)
    return "more"


A = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.usefixtures("a_cpu")
def test_an_implementation_is_asked_for_and_replaces_nothing(more: str) -> None:
    assert np.array_equal(xtarget.run("add", A, A, impl=more), 2 * A + 100)
    assert np.array_equal(xtarget.run("Add", A, A, impl=more), 2 * A + 100)
    assert np.array_equal(xtarget.run("add", A, A), 2 * A)
    add = xtarget.get("add")
    assert np.array_equal(add(A, A, impl=more), 2 * A + 100)
    assert np.array_equal(add.prepare(A, A, impl=more)(), 2 * A + 100)
    out = np.empty_like(A)
    assert xtarget.run("add", A, A, impl="host", out=out) is out
    assert np.array_equal(out, 2 * A)
    assert "add@more" not in xtarget.catalog()


def test_what_is_not_there_is_said(more: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match="Did you mean 'more'"):
        xtarget.run("add", A, A, impl="mor")
    with pytest.raises(xtarget.ArgumentError, match="serves cpu, not nvidia:sm_90"):
        xtarget.compile("add", A, A, impl=more, target="nvidia:sm_90")
    with pytest.raises(xtarget.ArgumentError, match=r"has no implementation 3\."):
        xtarget.run("add", A, A, impl=3)
    with pytest.raises(xtarget.ArgumentError, match="is not a kernel"):
        xtarget.get("add").prepare(A, A, impl="host")
    with pytest.raises(xtarget.ArgumentError, match='fallback="host"'):
        xtarget.run("add", A, A, fallback="cpu")
    with pytest.raises(xtarget.XTargetError, match="its impl is 'host'"):
        xtarget.kernel(name="add", impl="host", inputs=("a", "b"), outputs={"out": "a"},
                       grid=lambda c: (1,), sizes={"n": lambda c: 1}, constants={"BLOCK": 64})(
            _add_more
        )  # fmt: skip


def test_the_data_chooses_by_target() -> None:
    found = libraries.find("bincount")
    assert implementations.of_target(found, "cpu", "spirv64")[0] == "in_order"
    assert implementations.of_target(found, "nvidia", "sm_90")[0] == "xtarget"
    index = np.array([3, -1, 0, 3, 9, 7])
    weights = np.arange(1, 7).astype(np.float16)
    want = np.array([3, 0, 0, 5, 0, 0, 0, 6], np.float16)
    here = xtarget.device(xtarget.default_device()).info.vendor
    for impl in ("xtarget", "host", *(["in_order"] if here == "cpu" else [])):
        got = xtarget.run("bincount", index, weights, length=8, impl=impl)
        assert np.array_equal(got, want), impl
        assert got.dtype == np.float16


def test_the_sums_of_a_bincount_of_views() -> None:
    rng = np.random.default_rng(3)
    index = rng.integers(-3, 40, (31, 50)).T[::-1]
    weights = rng.random((50, 62)).astype(np.float32)[:, ::2]
    got = xtarget.run("bincount", index, weights, length=33)
    ours = xtarget.run("bincount", index, weights, length=33, impl="xtarget")
    assert np.array_equal(got, ours)  # both add in the order of the elements


@pytest.mark.parametrize("kind", ["NumPy", "torch"])
def test_the_host_serves_what_a_device_lacks(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    a = A if kind == "NumPy" else pytest.importorskip("torch").from_numpy(A)
    here = {info.name for info in xtarget.devices()}
    absent = next(f"nvidia:{n}" for n in range(99) if f"nvidia:{n}" not in here)
    with pytest.raises(xtarget.NoDeviceError):
        xtarget.run("subtract", a, 1, device=absent)
    from xtarget._launch import chosen

    chosen._told.clear()
    with caplog.at_level(logging.WARNING, "xtarget"):
        for _ in range(2):
            got = xtarget.run("subtract", a, 1, device=absent, fallback="host")
            assert type(got) is type(a)
            assert np.array_equal(np.asarray(got), A - 1)
    assert len([r for r in caplog.records if "serves it on the host" in r.getMessage()]) == 1
    with pytest.raises(xtarget.ArgumentError):  # a mistake stays one
        xtarget.run("subtract", a, device=absent, fallback="host")
    # NumPy takes no list as an axis, run does
    summed = xtarget.run("sum", a, axis=[0], device=absent, fallback="host")
    assert np.allclose(np.asarray(summed), A.sum(0))


def test_torch_computes_the_same_where_it_is_asked() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.random((5, 7)).astype(np.float32), rng.random((3, 7)).astype(np.float32)
    image, kernel = rng.random((1, 2, 6, 6)), rng.random((4, 2, 3, 3))
    calls = [
        ("matmul", (x, w.T), {}), ("linear", (x, w), {"activation": "relu"}),
        ("softmax", (x,), {"axis": 0}), ("log_softmax", (x,), {}), ("sort", (x,), {"axis": 0}),
        ("argsort", (x,), {"descending": True}), ("topk", (x,), {"k": 3}), ("outer", (x[0], w), {}),
        ("cumsum", (x,), {}), ("cumprod", (x,), {"axis": 0}), ("layer_norm", (x, w[0]), {}),
        ("rms_norm", (x, w[0]), {}), ("conv2d", (image, kernel), {"padding": 1}),
        ("einsum", (x, w), {"subscripts": "ij,kj->ki"}), ("tensordot", (x, w.T), {"axes": 1}),
        ("addmm", (np.ones((5, 3), np.float32), x, w.T), {"beta": 0.5}),
        ("baddbmm", (np.ones((1, 5, 3), np.float32), x[None], w.T[None]), {"alpha": 2}),
        ("attention", (x[None, None], x[None, None], x[None, None]), {"causal": True}),
        ("conv1d", (image[0], rng.random((4, 6, 3))), {}), ("conv", (image, kernel), {"stride": 2}),
        ("conv3d", (image[None], rng.random((4, 1, 2, 3, 3))), {}),
    ]  # fmt: skip
    names = {name for name, _, _ in calls}
    package = libraries._libraries[libraries.own_folder()].package
    assert names == set(sys.modules[f"{package}.torch_calls"].CALLS)
    for name, args, options in calls:
        ours = xtarget.run(name, *args, impl="host", **options)
        theirs = xtarget.run(name, *args, impl="torch", **options)
        several = (ours, theirs) if isinstance(ours, tuple) else ((ours,), (theirs,))
        for one, other in zip(*several, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5, err_msg=name)
    tensor = xtarget.run("matmul", torch.ones(2, 3), torch.ones(3, 2), impl="torch")
    assert isinstance(tensor, torch.Tensor)
    with pytest.raises(xtarget.ArgumentError, match="no exclusive=True"):
        xtarget.run("cumsum", x, exclusive=True, impl="torch")


@pytest.mark.usefixtures("a_cpu")
def test_reports_record_what_has_served(tmp_path: pytest.TempPathFactory) -> None:
    spec = xtarget.get("bincount").spec
    (row,) = verify([spec], ["int32"], "cpu:0", extent="quick")
    assert (row.status, row.impl) == ("right", "in_order")
    path = tmp_path / "report.json"  # type: ignore[operator]
    path.write_bytes(written(document([row], xtarget.device("cpu:0").info)))
    assert read(path)["rows"][0]["impl"] == "in_order"


def test_the_command_line_shows_them() -> None:
    command = [sys.executable, "-m", "xtarget"]
    shown = subprocess.run([*command, "kernels", "bincount", "--json"], capture_output=True,
                           text=True, check=True)  # fmt: skip
    (entry,) = json.loads(shown.stdout)
    assert {way["name"] for way in entry["implementations"]} == {"xtarget", "in_order", "host"}
    served = {row["target"]: row["impl"] for row in entry["served_by"]}
    assert (served["cpu:spirv64"], served["nvidia:sm_90"]) == ("in_order", "xtarget")


@pytest.mark.parametrize(
    ("words", "serves"),
    [
        ("attention --target nvidia:sm_90 --shape 2x8x512x64 --dtype float16", "hopper ("),
        (
            "attention --target nvidia:sm_90 --shape 2x8x512x64",
            "xtarget (the operator's own row; hopper leaves this call to it)",
        ),
        (
            "bincount --target cpu --shape 64 --dtype int32",
            "xtarget (the operator's own row; in_order leaves this call to it)",
        ),
    ],
)
def test_explain_names_what_serves_the_call(
    words: str, serves: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, told, _ = here(capsys, "explain", *words.split())
    assert told.startswith(f"implementation: {serves}")


def test_a_kernel_that_takes_a_name_of_ours_is_told_and_ours_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = libraries.find("fmod")
    try:
        with caplog.at_level(logging.WARNING, "xtarget"):
            xtarget.kernel(
                name="fmod", inputs=("a", "b"), outputs={"out": "a"}, grid=lambda c: (1,),
                sizes={"n": lambda c: c.a.size}, constants={"BLOCK": 64},
            )(_add_more)  # fmt: skip
        assert any("stands in the place of" in r.getMessage() for r in caplog.records)
        assert xtarget.run("fmod", A, A)[0, 0] == 100
        assert xtarget.run("fmod", A, A + 1, impl="xtarget")[0, 1] == 1
    finally:
        libraries._kernels["fmod"] = before
        libraries._tell("fmod", before.spec.aliases, ["fmod"])


_ROUTES = """
import os, numpy as np, xtarget
x = np.linspace(-3, 3, 1234).astype(np.float32).reshape(2, 617)
weights = np.exp(x) / np.exp(x).sum(1, keepdims=True)

def refused(call, *kinds):
    try:
        call()
    except kinds as error:
        return str(error)
    raise AssertionError("it was not refused")

os.environ["XTARGET_ROUTES"] = "template"  # which has none for rows
run = lambda: xtarget.run("softmax", x)
assert "The route template cannot serve it" in refused(run, xtarget.CompileError)
os.environ["XTARGET_ROUTES"] = "template,host"
for _ in range(2):
    np.testing.assert_allclose(xtarget.run("softmax", x), weights, rtol=1e-5)
refused(lambda: xtarget.run("softmax", x, x), xtarget.ArgumentError)  # a mistake stays one
refused(lambda: xtarget.get("softmax").prepare(x), xtarget.CompileError)  # no kernel
os.environ["XTARGET_ROUTES"] = "host"
out = np.empty((617,), np.float32)
assert xtarget.run("sum", x, axis=0, out=out) is out
np.testing.assert_allclose(out, x.sum(axis=0), atol=1e-6)
"""


def test_the_host_is_the_last_route_only_where_it_is_named(device: str, tmp_path: Path) -> None:
    told = run_python("-c", _ROUTES, XTARGET_CACHE_DIR=str(tmp_path), XTARGET_DEVICE=device)
    assert told.returncode == 0, told.stderr
    lines = [line for line in told.stderr.splitlines() if "serves it on the host" in line]
    said, _ = lines  # of softmax once, and of sum
    assert "the route host of XTARGET_ROUTES" in said
    assert "there is no template for" in said


def test_explain_says_that_the_host_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XTARGET_ROUTES", "template,host")
    words = ("--shape", "4321", "--target", "cpu:spirv64")
    _, served, _ = here(capsys, "explain", "mul", *words)
    assert "taken from: the compiler (route template)" in served
    _, served, _ = here(capsys, "explain", "cumsum", *words)
    assert "taken from: NumPy's reference on the host (route host)" in served
