"""The compiled core with torch's tensors."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
from core_calls import host, hot

import xtarget
from xtarget import ArgumentError
from xtarget._arrays import native as arrays_native
from xtarget._arrays import torch_in_c


def test_torchs_own_conditions_hold_for_calls_that_are_known(core: Any, place: str) -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones(64, device=place)
    out = torch.empty_like(a)
    assert hot(core, "add", a, a, out=out) == 2
    version = out._version
    xtarget.run("add", a, a, out=out)
    assert out._version == version + 1
    graded = torch.ones(64, device=place, requires_grad=True)
    with pytest.raises(ArgumentError, match="requires grad"):
        xtarget.run("add", graded, a, out=out)
    with torch.no_grad():
        xtarget.run("add", graded, a, out=out)
    with pytest.raises(ArgumentError, match="lazily negated"):
        xtarget.run("add", torch._neg_view(a), a, out=out)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, a)
        with pytest.raises(ArgumentError, match="tangent"):
            xtarget.run("add", dual, a, out=out)
    with pytest.raises(ArgumentError, match=r"torch\.jit\.trace"):
        torch.jit.trace(lambda y: xtarget.run("add", y, a, out=out), (a,), check_trace=False)
    with torch.inference_mode():
        kept = torch.empty(64, device=place)
        for _ in range(4):
            assert xtarget.run("add", a, a, out=kept) is kept


def test_torchs_tensors_are_read_without_giving_the_interpreter_away(core: Any) -> None:
    """Eight threads that hand it on for each tensor launch a quarter of what one does."""
    torch = pytest.importorskip("torch")
    a, out = torch.ones(64), torch.empty(64)
    ran, ended = 0, False

    def run_if_possible() -> None:
        nonlocal ran
        while not ended:
            ran += 1
            time.sleep(0)

    for _ in range(3):
        assert core.words("add", a, a, out=out)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # only who gives it away loses it
    other = threading.Thread(target=run_if_possible)
    try:
        other.start()
        start = ran
        for _ in range(20_000):
            core.words("add", a, a, out=out)
        assert ran == start
    finally:
        ended = True
        sys.setswitchinterval(before)
        other.join()


def test_what_answers_for_tensors_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    place, entries = arrays_native.torch_tensors(torch)
    assert place >= object.__basicsize__
    assert all(entries)
    found = arrays_native.entry
    wrong = found(torch, "libtorch_cpu.so", "_ZN2at6native6is_negERKNS_6TensorE")
    monkeypatch.setattr(arrays_native, "entry", lambda *asked: wrong)
    assert arrays_native.torch_tensors(torch) == (place, (wrong, 0, 0, 0))
    monkeypatch.setattr(arrays_native, "entry", lambda *asked: 0)
    assert arrays_native.torch_tensors(torch) == (place, (0, 0, 0, 0))
    monkeypatch.setattr(arrays_native, "_place", lambda *asked: 0)
    assert arrays_native.torch_tensors(torch) == (0, (0, 0, 0, 0))


def test_results_are_tensors_as_torch_makes_them(core: Any, place: str) -> None:
    torch = pytest.importorskip("torch")
    assert all(torch_in_c.allocator(torch)), "this torch is not known"
    dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.float64)
    for dtype in dtypes:
        for shape in ((), (7,), (3, 1, 5)):
            a = torch.ones(shape, dtype=dtype, device=place)
            made = [xtarget.run("add", a, a) for _ in range(4)]
            plain = torch.empty_like(a)
            for one in made:
                assert type(one) is torch.Tensor
                assert (one.shape, one.stride(), one.dtype, one.device) == (
                    plain.shape, plain.stride(), plain.dtype, plain.device
                )  # fmt: skip
                assert one.untyped_storage().nbytes() == plain.untyped_storage().nbytes()
                assert (one == 2).all()
            assert len({one.data_ptr() for one in made}) == 4
    a = torch.ones(64, device=place)
    with torch.inference_mode():
        assert all(xtarget.run("add", a, a).is_inference() for _ in range(4))
    result = xtarget.run("add", a, a)
    assert not result.is_inference()
    result.requires_grad_(True).sum().backward()  # it takes part in differentiation from here on
    assert (result.grad == 1).all()
    weak = weakref.ref(result)
    del result
    assert weak() is None


def test_an_allocator_that_is_not_torchs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    empty, address_of, drop, wrap = torch_in_c.allocator(torch)
    assert torch_in_c._is_right(torch, empty, address_of, drop, wrap)
    other = torch_in_c.entry(torch, "libtorch_cpu.so", "aoti_torch_get_storage_size")
    assert other
    assert not torch_in_c._is_right(torch, empty, other, drop, wrap), "it gives no address"
    monkeypatch.setattr(torch_in_c, "_WRAPS", ("no such symbol",))
    assert torch_in_c.allocator(torch) == (0, 0, 0, 0)
    monkeypatch.setattr(torch_in_c, "entry", lambda *asked: 0)
    assert torch_in_c.allocator(torch) == (0, 0, 0, 0)


def test_tensors_of_inference_are_written_in_and_out_of_inference(core: Any, place: str) -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones(64, device=place)
    with torch.inference_mode():
        kept = torch.empty(64, device=place)
        assert hot(core, "add", a, a, out=kept) == 2
    assert hot(core, "add", a, 3, out=kept) == 2
    np.testing.assert_array_equal(host(kept), 4)


def test_what_tells_how_tensors_lie_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    place, _ = arrays_native.torch_tensors(torch)
    found = torch_in_c.looks(torch, place)
    assert all(found), "this torch is not known"
    has_storage, count, shape, strides, *rest = found
    assert torch_in_c._tell_right(torch, place, *found)
    assert not torch_in_c._tell_right(torch, place, has_storage, count, strides, shape, *rest)
    assert torch_in_c.looks(torch, 0) == (0,) * len(found)
    monkeypatch.setattr(torch_in_c, "_HAS_STORAGE", "no such symbol")
    assert torch_in_c.looks(torch, place) == (0,) * len(found)


def test_tensors_without_memory_of_their_own_are_left_to_python_in_silence(
    core: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("pyopencl", reason="the tensors are on the CPU")
    xtarget.run("exp", torch.ones(4), device="cpu")
    assert core.words("", torch.ones(4)) is not None
    read = [core.words("", torch.eye(3).to_sparse()), core.words("", torch.empty(3, device="meta"))]

    def seen(row: Any) -> Any:
        read.append(core.words("", row))
        return row

    torch.vmap(seen)(torch.ones(3, 4))
    assert read == [None] * 3
    assert capfd.readouterr() == ("", "")
