"""Calls of several launches, started by a driver's own entries in one go: grids, sizes, memory
between the launches. The CPU's functions stand for the driver's."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import cpu_entries
from core_calls import TWIN, made
from cpu_entries import Entries

import xtarget
from xtarget._launch import run as launching
from xtarget._launch.call import BoundCall

KINDS = ("torch", "xtarget")


@pytest.fixture
def entries(core: Any, monkeypatch: pytest.MonkeyPatch) -> Entries:
    return cpu_entries.in_place(monkeypatch)


def of_kind(kind: str, values: np.ndarray[Any, Any]) -> Any:
    if kind == "torch":
        return pytest.importorskip("torch").from_numpy(values.copy())
    return xtarget.asarray(values, device="cpu")


#: On CPUs, sums of so many elements are one launch, and longer ones two.
LONG = 1 << 20


def calls(rng: Any) -> tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]:
    """A random call that takes several launches: name, arrays, options, shape of the result."""
    n = int(rng.integers(20_000, 300_000))
    long = LONG + n  # of which one block does not make the sum
    rows = int(rng.integers(40, 300))
    name = ("sum", "std", "cumsum", "matmul")[rng.integers(4)]
    if name == "matmul":
        return name, ((rows, 48), (48, 48)), {}, (rows, 48)
    if name == "cumsum":
        return name, ((n,),), {}, (n,)
    return name, ((long,),), {}, ()


@pytest.mark.parametrize("kind", KINDS)
def test_random_calls_are_what_python_makes_of_them(
    core: Any, entries: Entries, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    rng = np.random.default_rng(17)
    if kind == "torch":
        cpu_entries.for_torch(monkeypatch)
    started = several = 0
    for _ in range(24):
        name, shapes, options, result = calls(rng)
        values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        arrays = [of_kind(kind, value) for value in values]
        out = of_kind(kind, np.full(result, 7, np.float32))
        again = of_kind(kind, np.full(result, 7, np.float32))
        before, count = made(core), len(entries.grids)
        assert xtarget.run(name, *arrays, out=out, **options) is out
        started += made(core) - before
        several += len(entries.grids) - count > 1
        expected = TWIN(name, *arrays, **options)
        xtarget.run(name, *arrays, out=again, **options)
        entries.device.synchronize()
        np.testing.assert_array_equal(np.asarray(out), np.asarray(expected))
        np.testing.assert_array_equal(np.asarray(again), np.asarray(expected))
        if kind == "torch":
            np.testing.assert_array_equal(xtarget.run(name, *arrays, **options), expected)
    assert started > 12, "of the first calls of these sizes"
    assert several > 12


def test_memory_of_torchs_calls_is_torchs(
    core: Any, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python is not asked for it, and it is given back."""
    torch = pytest.importorskip("torch")
    cpu_entries.for_torch(monkeypatch)
    asked = []
    memory = BoundCall.memory

    def noted(call: BoundCall, nbytes: int, stream: Any) -> Any:
        asked.append(nbytes)
        return memory(call, nbytes, stream)

    monkeypatch.setattr(BoundCall, "memory", noted)
    x = torch.ones(LONG + 300_000)
    out = torch.empty(())
    for n in (LONG + 250_000, LONG + 250_016, LONG + 250_001):  # each class once by Python
        xtarget.run("sum", x[:n], out=out)
    del asked[:]
    with torch.profiler.profile(profile_memory=True) as profiled:
        for n in range(LONG + 260_000, LONG + 260_040):
            assert xtarget.run("sum", x[:n], out=out) == n
    assert not asked
    taken = [
        one.nbytes()
        for one in profiled.profiler.kineto_results.events()
        if one.name() == "[memory]"
    ]
    assert taken.count(256) == taken.count(-256) == 40
    assert sum(taken) == 0


@pytest.mark.parametrize("failing", [1, 2])
def test_a_launch_that_fails_leaves_the_call_to_python(
    core: Any, entries: Entries, failing: int
) -> None:
    x = xtarget.asarray(np.ones(LONG + 300_000, np.float32), device="cpu")
    out = xtarget.asarray(np.zeros((), np.float32), device="cpu")
    for n in (LONG + 250_000, LONG + 250_016, LONG + 250_001):
        xtarget.run("sum", x[:n], out=out)
    count = 0

    def fails(given: list[int]) -> int:
        nonlocal count
        count += 1
        return 2 if count == failing else 0  # CUDA_ERROR_OUT_OF_MEMORY

    entries.before = fails
    before = made(core)
    for n in (LONG + 260_001, LONG + 260_003):
        xtarget.run("sum", x[:n], out=out)
        entries.device.synchronize()
        assert np.asarray(out) == n
    assert made(core) - before == 2
    assert count == failing + 2, "Python starts the first one, and the core the second"


CATALOG = """
    from xtarget.spec import (
        ArrayType, Input, KernelSpec, Launch, Output, Plan, Temporary, cdiv, contiguous_strides)

    def plan(call):
        x = call.args[0]
        n = x.size
        kept = ArrayType("int32", (n,), contiguous_strides((n,)))
        grid = (cdiv(n, 256), 1, 1)
        args = {"x": Input(0), "kept": Temporary(0), "n": n}
        last = {"x": Temporary(0), "kept": Output(0), "n": n}
        return Plan(
            (call.output(x.shape, x.dtype),),
            (Launch(source="mine:half", args=args, constants={"BLOCK": 256}, grid=grid),
             Launch(source="mine:whole", args=last, constants={"BLOCK": 256}, grid=grid)),
            (kept,), (), (VALUE,))

    KERNELS = [KernelSpec(name="test.entries.VALUE", inputs=("x",), plan=plan)]
"""
KERNELS = """
    import triton
    import triton.language as tl

    @triton.jit
    def half(x, kept, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(kept + i, tl.load(x + i, mask=i < n // 2), mask=i < n // 2)

    @triton.jit
    def whole(x, kept, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(kept + i, tl.load(x + i, mask=i < n), mask=i < n)
"""


@pytest.mark.parametrize(
    ("value", "dtype", "natively"),
    [(0, "int32", True), (-1, "int64", True), (258, "int32", True), (258, "int64", False)],
)
def test_memory_that_a_plan_wants_filled_is(
    core: Any, entries: Entries, tmp_path: Path, value: int, dtype: str, natively: bool
) -> None:
    catalog = textwrap.dedent(CATALOG).replace("test.entries.VALUE", f"test.entries.{value}{dtype}")
    catalog = catalog.replace("VALUE", str(value)).replace("int32", dtype)
    (tmp_path / "catalog.py").write_text(catalog)
    (tmp_path / "mine.py").write_text(textwrap.dedent(KERNELS))
    xtarget.load_library(tmp_path)
    name = f"test.entries.{value}{dtype}"
    x = xtarget.asarray(np.arange(1, 9001, dtype=dtype), device="cpu")
    for n in (*range(7000, 7020), *[8000] * 12):
        out = xtarget.asarray(np.zeros(n, dtype), device="cpu")
        xtarget.run(name, x[:n], out=out)
        entries.device.synchronize()
        expected = np.where(np.arange(n) < n // 2, np.arange(1, n + 1), value)
        np.testing.assert_array_equal(np.asarray(out), expected)
    assert (len(entries.filled) > 20) is natively
    assert set(entries.filled) <= {x.dtype.itemsize * n for n in range(7000, 8001)}


def test_a_prepared_launch_of_several_is_started_so(
    core: Any, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    cpu_entries.for_torch(monkeypatch)
    x, other = torch.ones(2 * LONG), torch.full((2 * LONG,), 2.0)
    launch = xtarget.get("sum").prepare(x, out=torch.empty(()))
    before = made(core)
    for factor in (1, 3):
        x.fill_(factor)
        assert launch() == 2 * LONG * factor
    assert launch.update(x=other)() == 4 * LONG
    assert made(core) - before == 3
    assert len(entries.grids) == 6


def test_a_launch_of_a_closed_module_is_not_started(core: Any, entries: Entries) -> None:
    a, b, o = (of_kind("xtarget", np.ones(48)) for _ in range(3))
    launches = [xtarget.get(name).prepare(a, b, out=o) for name in ("hypot", "copysign")]
    modules = [one._held.found.call._launches[0].function._module for one in launches]
    for launch in launches:
        launch()
    before = made(core)
    modules[0].close()
    launches[1]()
    assert made(core) == before + 1  # another module's end is nothing to it
    with pytest.raises(xtarget.DriverError, match="is closed"):
        launches[0]()
    assert made(core) == before + 1
    launching.forget_calls()
