"""Configurations: chosen by number, by measurement, or the first; `@triton.autotune` as it is."""
# ruff: noqa: F821 - the words in annotations are lengths

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import here

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget._devices import registry
from xtarget._kernels import libraries, tunings
from xtarget._launch import planning, tuning_search
from xtarget._launch.arguments import placed
from xtarget._launch.known import forget_calls
from xtarget.spec import Config, In, InOut, Out, next_power_of_2


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning_search, "_WIDEST", 1e9)  # whatever else this machine does


def registered(name: str = "test.tuned", **changes: Any) -> Any:
    @triton.jit
    def sums(x: In[float32, ROWS, N], out: Out[float32, ROWS], N, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, N, BLOCK):
            i = start + tl.arange(0, BLOCK)
            total += tl.load(x + row * N + i, i < N, 0.0)
        tl.store(out + row, tl.sum(total, 0))

    given: dict[str, Any] = {
        "configs": [Config({"BLOCK": 16}, 1), Config({"BLOCK": 128}, 4), Config({"BLOCK": 32})],
        "key": ("N",),
        "grid": "ROWS",
        **changes,
    }
    xtarget.kernel(name=name, **given)(sums)
    return xtarget.get(name)


def block_of(kernel: Any, x: Any, **options: Any) -> int:
    target = xtarget.device().info.target
    registered = libraries.find(kernel.name)
    args, options = placed(kernel.name, (x,), options)
    (request,) = planning.compile_requests(registered, args, options, target)
    return dict(request.constants)["BLOCK"]  # type: ignore[return-value]


def test_the_fastest_configuration_of_a_key_is_kept(device: str) -> None:
    kernel = registered()
    x = np.ones((8, 500), np.float32)
    assert block_of(kernel, x) == 16  # nothing was measured: the first
    np.testing.assert_array_equal(kernel(x), 500)
    found = kernel.tune(x)
    assert {trial.number for trial in found.trials} == {0, 1, 2}
    assert "config=1 (BLOCK=128, num_warps=4)" in str(found)
    best = dict(found.best.constants)["BLOCK"]
    assert block_of(kernel, x) == best
    np.testing.assert_array_equal(kernel(x), 500)
    assert block_of(kernel, np.ones((8, 400), np.float32)) == 16  # another key
    registered()  # in this process nothing is known of it now
    assert not [one for one in tunings._local if one[2] == kernel.name]
    assert block_of(kernel, x) == best  # from the disk


def test_another_text_of_the_kernel_is_measured_anew(device: str) -> None:
    kernel, x = registered(), np.ones((8, 500), np.float32)
    kernel.tune(x)
    (entry,) = tunings.local_entries(str(xtarget.device().info.target), kernel.name)
    tunings.store([replace(entry, best="BLOCK=32", results={})])
    tunings.forget()
    assert block_of(registered(), x) == 32
    assert block_of(registered(configs=[Config({"BLOCK": 64}), Config({"BLOCK": 8})]), x) == 64


def test_the_command_line_tunes(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = registered()
    words = ["tune", kernel.name, "--shape", "8x500", "--device", device]
    code, out, err = here(capsys, *words, "--json")
    assert code == 0, err
    trials = json.loads(out)["trials"]
    assert {trial["config"] for trial in trials} == {0, 1, 2}
    assert trials[0]["is"] == str(kernel.spec.configs[trials[0]["config"]])
    found = block_of(kernel, np.ones((8, 500), np.float32))
    assert f"BLOCK={found}" in trials[0]["is"]
    code, _, err = here(capsys, "tune", "transpose")
    assert code == 1
    assert "transpose has no configurations to choose from" in err
    code, _, err = here(capsys, "tune", kernel.name, "--shape", "0x500", "--device", device)
    assert code == 1
    assert "cannot be tuned for arrays of no elements" in err


def test_a_caller_may_choose(device: str) -> None:
    kernel, x = registered(), np.ones((8, 500), np.float32)
    for number in range(3):
        np.testing.assert_array_equal(kernel(x, config=number), 500)
    named = [{"BLOCK": config.constants["BLOCK"]} for config in kernel.spec.configs]
    assert [block_of(kernel, x, config=one) for one in named] == [one["BLOCK"] for one in named]
    for wrong in (3, {"BLOCK": 3}, "BLOCK"):
        with pytest.raises(xtarget.ArgumentError, match="configurations 0 to 2, of which"):
            kernel(x, config=wrong)


def test_what_is_pruned_is_not_tried(device: str) -> None:
    kernel = registered(
        prune=lambda configs, c: [one for one in configs if one.constants["BLOCK"] >= c.N]
    )
    x = np.ones((8, 20), np.float32)
    assert block_of(kernel, x) == 128
    assert {trial.number for trial in kernel.tune(x).trials} == {1, 2}
    with pytest.raises(xtarget.ArgumentError, match="prune leaves no configuration"):
        kernel(np.ones((8, 500), np.float32))


def test_a_configuration_that_changes_the_result_is_refused(device: str) -> None:
    @xtarget.kernel(
        name="test.changes_shape",
        inputs=("x",),
        outputs={"out": lambda c: ((c.x.size // c.BLOCK,), "float32")},
        grid=lambda c: c.x.size // c.BLOCK,
        configs=[Config({"BLOCK": 16}), Config({"BLOCK": 32})],
    )
    @triton.jit
    def sums(x, out, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i), 0))

    kernel, x = xtarget.get("test.changes_shape"), np.ones(64, np.float32)
    for call in (kernel, kernel.tune, kernel.prepare):
        with pytest.raises(xtarget.ArgumentError) as caught:
            call(x)
        assert "config=1 (BLOCK=32) gives float32 (2,) where config=0" in str(caught.value)


def test_nothing_is_tuned_where_nothing_may_be_compiled(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = registered()
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(xtarget.FrozenError, match="cannot be tuned"):
        kernel.tune(np.ones((8, 500), np.float32))


def test_arrays_that_are_updated_are_as_before(device: str) -> None:
    @xtarget.kernel(
        name="test.tuned_in_place",
        grid="cdiv(N, BLOCK)",
        configs=[Config({"BLOCK": 16}), Config({"BLOCK": 32})],
    )
    @triton.jit
    def add_one(x: InOut[float32, N], N, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < N) + 1, i < N)

    kernel, x = xtarget.get(add_one), np.zeros(50, np.float32)
    kernel.tune(x)
    assert not x.any()
    kernel(x)
    assert (x == 1).all()
    assert kernel.bench(x.copy()) > 0


def test_a_kernel_without_configurations_says_so(device: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match="no configurations"):
        xtarget.get("transpose").tune(np.ones((4, 4)))


@xtarget.kernel(
    name="test.autotuned",
    inputs=("x", "y"),
    outputs={"out": lambda c: (c.x.shape, c.x.dtype)},
    sizes={"n": lambda c: c.x.size},
    grid=lambda c: xtarget.spec.cdiv(c.n, c.BLOCK),
)
@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64}, num_warps=2)],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, args, **_: configs[args["n"] > 40 :]},
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def autotuned(x, y, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) * tl.load(y + i))
    else:
        tl.store(out + i, tl.load(x + i, i < n) * tl.load(y + i, i < n), i < n)


@pytest.mark.parametrize("n", [32, 40, 64, 100])
def test_tritons_own_decorators_say_what_they_say_there(device: str, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(xtarget.run("test.autotuned", x, x), x * x)
    block = 64 if n > 40 else 32
    target = xtarget.device().info.target
    (request,) = planning.compile_requests(libraries.find("test.autotuned"), [x, x], {}, target)
    assert dict(request.constants) == {"BLOCK": block, "EVEN": n % block == 0}
    assert request.num_warps == block // 32
    assert len(xtarget.get(autotuned).tune(x, x).trials) == (1 if n > 40 else 2)


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def named_by_its_function(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


def test_a_kernel_below_triton_s_decorators_goes_by_its_function_s_name() -> None:
    """Triton's own objects have no name where one is over the other."""
    xtarget.kernel(
        inputs=("x",), outputs={"out": "x"}, sizes={"n": "x.size"}, grid="cdiv(n, BLOCK)"
    )(named_by_its_function)
    assert xtarget.get(named_by_its_function).name == "named_by_its_function"


TENSOR_RULES = {
    "APART": lambda args: args["x"].stride(0) != 1 or not args["y"].is_contiguous(),
    "BYTES": lambda args: args["x"].element_size() * args["x"].numel(),
    "SINGLE": lambda args: args["x"].dtype == np.float32 and args["x"].dtype in ("float32",),
}


def test_heuristics_ask_layouts_as_they_ask_tensors(device: str) -> None:
    @triton.heuristics(TENSOR_RULES)
    @triton.jit
    def asked(x, y, out, n, APART: tl.constexpr, BYTES: tl.constexpr, SINGLE: tl.constexpr):
        i = tl.arange(0, 64)
        v = tl.load(x + i, i < n, 0) + tl.load(y + i, i < n, 0)
        tl.store(out + i, v + BYTES + (1000 if SINGLE else 0) + (5000 if APART else 0), i < n)

    given = {"outputs": {"out": "x"}, "sizes": {"n": "x.size"}, "grid": "1"}
    xtarget.kernel(name="test.asked", inputs=("x", "y"), **given)(asked)
    x = np.ones(40, np.float32)
    assert (xtarget.run("test.asked", x, x) == 2 + 160 + 1000).all()
    assert (xtarget.run("test.asked", x.astype(np.float64), x.astype(np.float64)) == 322).all()


def test_a_model_leaves_the_configurations_that_it_thinks_fastest(device: str) -> None:
    tuner = triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=1) for block in (32, 64, 128, 256)],
        key=["n"],
        prune_configs_by={"perf_model": lambda n, BLOCK, **_: abs(BLOCK - n), "top_k": 0.5},
    )

    @triton.jit
    def modelled(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) + BLOCK, i < n)

    given = {"outputs": {"out": "x"}, "sizes": {"n": "x.size"}, "grid": "cdiv(n, BLOCK)"}
    xtarget.kernel(name="test.modelled", inputs=("x",), **given)(tuner(modelled))
    for n, block in ((120, 128), (30, 32), (300, 256)):
        assert (xtarget.run("test.modelled", np.zeros(n, np.float32)) == block).all()
    trials = xtarget.get("test.modelled").tune(np.zeros(120, np.float32)).trials
    assert {trial.number for trial in trials} == {1, 2}


def test_the_first_call_of_a_key_is_tuned_where_that_is_wanted(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @xtarget.kernel(
        name="test.first", grid="cdiv(N, BLOCK)", key=("N",),
        configs=[Config({"BLOCK": 32}, 1), Config({"BLOCK": 64}, 1)],
    )  # fmt: skip
    @triton.jit
    def first(
        x: In[float32, N], seen: InOut[float32, N], out: Out[float32, 1], N, BLOCK: tl.constexpr
    ):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, i < N, 0)
        tl.store(seen + i, tl.load(seen + i, i < N) + v, i < N)
        tl.atomic_add(out, tl.sum(v, 0))

    def called(n: int) -> int:
        x, seen, out = np.ones(n, np.float32), np.zeros(n, np.float32), np.full(1, 7, np.float32)
        xtarget.run("test.first", x, seen, out=out)
        assert (seen == 1).all(), "what is updated was written by the call alone"
        assert out[0] == n + 7
        target = str(xtarget.device().info.target)
        return len(tunings.local_entries(target, "test.first"))

    monkeypatch.setenv("XTARGET_TUNE", "1")
    assert called(101) == 1
    assert [called(n) for n in (101, 200, 333, 101, 200)] == [1, 2, 3, 3, 3]
    xtarget.run("test.first", x := np.ones(9, np.float32), x.copy(), config=1)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    assert called(200) == 3


@pytest.mark.parametrize("way", ["run", "prepare"])
def test_a_call_on_a_stream_that_is_captured_is_not_tuned_first(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    from fake_cuda import INFO

    from xtarget.targets.nvidia.device import CudaDevice

    device = CudaDevice(INFO, alone=True)
    monkeypatch.setitem(registry._devices, INFO.name, device)
    kernel, free, captured = registered(f"test.captured_{way}"), 102, 104
    x, out = (xtarget.asarray(np.zeros(s, np.float32), device=device) for s in ((4, 8), 4))
    monkeypatch.setenv("XTARGET_TUNE", "1")
    cuda.captured.add(captured)
    streams = []
    for stream in (captured, free):
        cuda.launches.clear()
        if way == "run":
            kernel(x, out=out, stream=stream)
        else:
            kernel.prepare(x, out=out, stream=stream)()
        streams.append([where for where, _ in cuda.launches])
        forget_calls()
    assert streams[0] == [captured]
    assert len(streams[1]) > 4, "every configuration"
    assert streams[1][-1] == free, "then the call"


def test_text_of_stages(device: str) -> None:
    x = xtarget.spec.ArrayType("float32", (8, 500), (500, 1))
    kernel = registered()
    assert "tt.func" in kernel.show("ttir", x, target="nvidia:sm_90")
    assert "tt.func" in kernel.show("ttir", x)  # for the default device
    with pytest.raises(xtarget.ArgumentError, match=r"no stage .foo. for .*; there are .*ttir"):
        kernel.show("foo", x, target="nvidia:sm_90")
    assert next_power_of_2(5) == 8


@xtarget.kernel(name="test.unquoted", grid="cdiv(ROWS * N, 64)")
@triton.jit
def unquoted(
    x: In[float32, ROWS, 2 * N], y: In[float32, ROWS, N] | None, out: Out[x].filled(3), N, ROWS
):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    v = tl.load(x + i, i < ROWS * N)
    if y is not None:
        v += tl.load(y + i, i < ROWS * N)
    tl.store(out + i, v, i < ROWS * N)


def test_lengths_stand_without_quotes_where_python_does_not_evaluate_them(device: str) -> None:
    x, y = np.ones((3, 20), np.float32), np.ones((3, 10), np.float32)
    out = xtarget.run("test.unquoted", x, y)
    np.testing.assert_array_equal(out.ravel(), [2] * 30 + [3] * 30)
