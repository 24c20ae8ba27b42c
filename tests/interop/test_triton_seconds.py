"""`XTARGET_COMPILE_SECONDS` and Triton's own launching: whatever is launched obeys the limit, and
what is compiled under it is the same to the byte.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget import CompileError
from xtarget._compile import limited as _compile_child

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton.language as tl
import triton_slow_kernels as kernels
from triton_program_kernels import scaled

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")

X = np.arange(64, dtype=np.float32)


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "60")
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path / "triton")
        yield
    _compile_child.end_idle()
    gc.collect()  # Triton asks its driver when a kernel goes


def fresh(kernel: Any) -> Any:
    """The kernel as if nothing of it had been compiled."""
    return triton.jit(kernel.fn)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that children were asked to compile."""
    found: list[str] = []
    ask = _compile_child.ask_child

    def note(what: str, *args: Any) -> Any:
        found.append(what)
        return ask(what, *args)

    from xtarget._triton_backend import limited

    monkeypatch.setattr(limited, "ask_child", note)
    return found


def test_every_stage_is_the_same_in_the_child(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out, options = np.zeros_like(X), {"by": 3.0, "N": 64, "num_warps": 2}
    limited = fresh(scaled)[(1,)](X, out, **options)
    np.testing.assert_array_equal(out, 3 * X)
    assert asked == ["kernel scaled for spirv"]
    monkeypatch.delenv("XTARGET_COMPILE_SECONDS")
    triton.knobs.cache.dir = str(tmp_path / "another")
    here = fresh(scaled)[(1,)](X, out, **options)
    assert asked == ["kernel scaled for spirv"]
    assert dict(here.asm) == dict(limited.asm)
    assert here.metadata._asdict() == limited.metadata._asdict()
    assert here.hash == limited.hash


def test_a_kernel_that_no_other_process_could_import(asked: list[str]) -> None:
    """The child gets what Triton's front end made of it."""
    factor = tl.constexpr(5)

    @triton.jit
    def inner(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.load(x + i) * factor)

    out = np.zeros_like(X)
    inner[(1,)](X, out, N=64)
    np.testing.assert_array_equal(out, 5 * X)
    assert asked == ["kernel inner for spirv"]


def test_a_hit_asks_no_child(asked: list[str]) -> None:
    out = np.zeros_like(X)
    for _ in range(2):
        fresh(scaled)[(1,)](X, out, 2.0, N=64)
    assert len(asked) == 1


def limited_error(launch: Callable[[], Any]) -> str:
    began = time.thread_time()
    with pytest.raises(CompileError, match=r"kernel \w+ for spirv was given up: ") as raised:
        launch()
    assert time.thread_time() - began < 30
    assert "XTARGET_COMPILE_SECONDS" in str(raised.value)
    return str(raised.value)


def test_passes_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,500 steps: 1 to 2 s in the front end, and more than 20 after it."""
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "8")
    big = np.zeros(1 << 12, np.float32)
    said = limited_error(
        lambda: fresh(kernels.unrolled)[(1,)](big, big, STEPS=2500, N=1 << 12, num_warps=1)
    )
    assert "more than 8 s of processor time" in said
    assert "after its stage" in said
    assert not _compile_child._idle  # it was ended


def test_a_front_end_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "0.5")
    out = np.zeros(1, np.float32)
    said = limited_error(lambda: fresh(kernels.endless)[(1,)](X, out))
    assert "more than 0.5 s of processor time; it was in what Triton does before its first" in said
    # and the next one has its own time
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "60")
    out = np.zeros_like(X)
    fresh(scaled)[(1,)](X, out, 2.0, N=64)
    np.testing.assert_array_equal(out, 2 * X)


def test_the_autotuner_leaves_out_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [triton.Config({"STEPS": steps}) for steps in (1 << 30, 1)]
    tuned = triton.autotune(configs, key=[])(fresh(kernels.unrolled))
    out = np.zeros_like(X)
    # the front end of the first obeys the limit alone
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "6")
    tuned[(1,)](X, out, N=64)
    np.testing.assert_array_equal(out, np.where(X > 0, X * np.float32(1.5), X))
    assert tuned.best_config.kwargs == {"STEPS": 1}


def test_what_does_not_compile_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for _ in range(2):
        with pytest.raises(CompileError) as raised:
            fresh(kernels.no_dot)[(1,)](X, np.zeros_like(X), N=64)
        said.append(str(raised.value))
        monkeypatch.delenv("XTARGET_COMPILE_SECONDS", raising=False)
    assert said[0] == said[1]
    assert "triton_slow_kernels.py" in said[0]


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir"])
def test_a_stage_that_the_user_has_replaced(tmp_path: Path, stage: str) -> None:
    """The next stages are made of its replacement."""
    out = np.zeros_like(X)
    made = fresh(scaled)[(1,)](X, out, 3.0, N=64)
    file = tmp_path / f"scaled.{stage}"
    changed = made.asm[stage].replace("arith.mulf", "arith.addf").replace("fmul", "fadd")
    assert changed != made.asm[stage]
    file.write_text(changed)
    own = triton.Config({"N": 64, "ir_override": str(file)})
    triton.autotune([own], key=[])(fresh(scaled))[(1,)](X, out, 3.0)
    np.testing.assert_array_equal(out, X + 3)


def test_settings_that_a_child_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs = triton.knobs.runtime
    monkeypatch.setattr(knobs, "add_stages_inspection_hook", lambda *_: ("key", "hash"))
    with pytest.raises(CompileError, match="settings of Triton or of its tools"):
        fresh(scaled)[(1,)](X, np.zeros_like(X), 3.0, N=64)
