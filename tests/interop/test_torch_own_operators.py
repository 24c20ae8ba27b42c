"""torch operators of kernels of one's own: their schemas, and kernels that take a name later."""
# ruff: noqa: F821 - the words in annotations are lengths

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
import triton.language as tl

import xtarget
import xtarget.torch as xt
from xtarget import ArgumentError
from xtarget._kernels import libraries
from xtarget.spec import In, InOut, Out, Stride, next_power_of_2, step

OPS = torch.ops.xtarget


@xtarget.kernel(name="own_gated", grid="cdiv(N, BLOCK)", constants={"BLOCK": 64}, complete=True)
@triton.jit
def gated(x: In["T", "N"], gate: In["T", "N"] | None, y: In["T", "N"], out: Out["KIND", "N"],
          sums: Out["float32", 1].filled(0), scale: float, N, BLOCK: tl.constexpr,
          KIND: tl.constexpr = tl.float32):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < N, 0).to(tl.float32) * scale + tl.load(y + i, i < N, 0).to(tl.float32)
    if gate is not None:
        v *= tl.load(gate + i, i < N, 0).to(tl.float32)
    tl.store(out + i, v.to(KIND), i < N)
    tl.atomic_add(sums, tl.sum(v, 0))


@xtarget.kernel(name="own_normalised", grid="ROWS",
                constants={"BLOCK": lambda c: next_power_of_2(c.N)})  # fmt: skip
@triton.jit
def normalised(x: InOut["floating", "ROWS", "N"], row: Stride["x", 0], peaks: Out["x", "ROWS"], N,
               BLOCK: tl.constexpr):  # fmt: skip
    i = tl.arange(0, BLOCK)
    at = x + tl.program_id(0) * row + i
    v = tl.load(at, i < N, -float("inf"))
    top = tl.max(v, 0)
    tl.store(at, v / top, i < N)
    tl.store(peaks + tl.program_id(0), top)


@xtarget.kernel(name="own_repeated", grid="N, TIMES", complete=True)
@triton.jit
def repeated(x: In["T", "N"], out: Out["T", "N", "TIMES"], TIMES: tl.constexpr):
    n = tl.program_id(0)
    tl.store(out + n * TIMES + tl.program_id(1), tl.load(x + n))


@pytest.fixture(scope="module", autouse=True)
def _operators() -> None:
    for function in (gated, normalised, blocks, repeated):
        xt.register(function)


def test_an_optional_tensor_may_stand_among_others(place: str) -> None:
    x, y, gate = (torch.arange(100.0, device=place) + n for n in range(3))
    out, sums = OPS.own_gated(x, None, y, 2)
    torch.testing.assert_close(out, 2 * x + y)
    torch.testing.assert_close(sums[0], out.sum())
    torch.testing.assert_close(OPS.own_gated(x, gate, y, 0.5)[0], (x / 2 + y) * gate)


def test_none_for_a_tensor_that_is_not_optional_is_said(place: str) -> None:
    x = torch.ones(3, device=place)
    with pytest.raises(ArgumentError, match="own_blocks: x is None"):
        OPS.own_blocks(None)
    with pytest.raises(ArgumentError, match="own_gated: y is None"):
        OPS.own_gated(x, x, None, 1.0)


def test_a_flag_that_is_a_dtype_is_torchs(place: str) -> None:
    x = torch.arange(100.0, device=place)
    out, _ = OPS.own_gated(x, None, x, 1.0, KIND=torch.bfloat16)
    torch.testing.assert_close(out, (2 * x).to(torch.bfloat16))


def test_a_flag_without_a_default_is_a_whole_number(place: str) -> None:
    x = torch.arange(5.0, device=place)
    call = torch.compile(
        lambda x: OPS.own_repeated(x, TIMES=3), fullgraph=True, backend="aot_eager"
    )
    for found in (OPS.own_repeated(x, TIMES=3), call(x)):
        torch.testing.assert_close(found, x[:, None].expand(5, 3))
    with pytest.raises(RuntimeError, match="missing value for argument 'TIMES'"):
        OPS.own_repeated(x)


def _calls(place: str) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    x = torch.rand(70, device=place)
    yield OPS.own_gated, (x, None, x, 2.0), {}
    yield OPS.own_gated, (x, x + 1, x, 1), {"KIND": torch.float16}
    yield OPS.own_normalised, (torch.rand(5, 12, device=place)[:, :7],), {}


@pytest.mark.parametrize("number", range(3))
def test_torchs_own_check(number: int, place: str) -> None:
    operator, args, options = list(_calls(place))[number]
    torch.library.opcheck(operator.default, args, options)


def test_in_a_compiled_program(place: str) -> None:
    def program(x: Any, y: Any) -> Any:
        out, sums = OPS.own_gated(x, None, y, 2.0)
        return OPS.own_normalised((out + sums).reshape(-1, 4)), out

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    for n in (40, 80):
        x = torch.rand(n, device=place)
        for got, want in zip(compiled(x, x), program(x, x), strict=True):
            torch.testing.assert_close(got, want)


@xtarget.kernel(name="own_blocks", grid="cdiv(N, BLOCK)", constants={"BLOCK": 16}, complete=True)
@triton.jit
def blocks(x: In["T", "N"], sums: Out["T", "cdiv(N, BLOCK)"], twice: Out["T", "2 * N"], N,
           BLOCK: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < N, 0)
    tl.store(sums + tl.program_id(0), tl.sum(v, 0))
    tl.store(twice + i, v, i < N)
    tl.store(twice + N + i, v, i < N)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: OPS.own_gated(x, None, x, 2.0),
        lambda x: OPS.own_gated(x, x + 1, x, 2.0),
        lambda x: OPS.own_normalised(x.reshape(-1, 4).clone()),
        lambda x: OPS.own_blocks(x),
    ],
)
def test_a_compiled_program_serves_all_lengths(call: Any, place: str) -> None:
    programs = []

    def backend(graph: Any, _: Any) -> Any:
        programs.append(graph)
        return graph.forward

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=backend)
    for n in (40, 80, 120, 8):
        x = torch.rand(n, device=place)
        torch.testing.assert_close(compiled(x), call(x))
    assert len(programs) == 1


def test_an_exported_program_has_dynamic_lengths(place: str) -> None:
    class Program(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return OPS.own_gated(x, None, x, 2.0)

    sizes = {0: torch.export.Dim("n", min=2, max=1000)}
    exported = torch.export.export(
        Program(), (torch.rand(40, device=place),), dynamic_shapes=(sizes,)
    )
    x = torch.rand(77, device=place)
    torch.testing.assert_close(exported.module()(x), Program()(x))


# ------------------------------------------------------------------------------ names taken twice


def _named(name: str, value: float, like: Any = "x", **flags: Any) -> Any:
    @triton.jit
    def function(x, out, VALUE: tl.constexpr, ASKED: tl.constexpr = 1):
        tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0)) * ASKED + VALUE)

    return xtarget.kernel(name=name, grid=lambda c: c.x.size, inputs=("x",), outputs={"out": like},
                          constants={"VALUE": value}, **flags)(function)  # fmt: skip


def test_a_kernel_that_is_defined_again_takes_its_operator(place: str) -> None:
    x = torch.ones(3, device=place)
    first = xt.register(_named("own_again", 1.0))
    assert first(x).tolist() == [2] * 3
    again = _named("own_again", 2.0)
    for operator in (first, OPS.own_again, xt.register(again)):
        assert operator(x).tolist() == [3] * 3
        assert operator(x, ASKED=4).tolist() == [6] * 3


def test_a_compiled_program_has_the_shapes_of_the_kernel_that_is_there_now(place: str) -> None:
    def program(x: Any) -> Any:
        made = OPS.own_longer(x)
        return made, made.shape[0], torch.zeros(made.shape)

    x = torch.ones(3, device=place)
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    xt.register(_named("own_longer", 1.0))
    assert [compiled(x)[1], len(compiled(x)[2])] == [3, 3]
    _named("own_longer", 2.0, lambda c: ((2 * c.x.size,), c.x.dtype))
    made, length, zeros = compiled(x)
    assert made[:3].tolist() == [3] * 3
    assert [len(made), length, len(zeros)] == [6, 6, 6]


def test_the_gradient_of_a_catalogs_operator_leaves_with_it(place: str) -> None:
    """`sigmoid` here: its formula would be a wrong gradient of another kernel."""
    x = torch.zeros(3, device=place, requires_grad=True)
    held = OPS.sigmoid
    ours = libraries.find("sigmoid")
    torch.testing.assert_close(torch.autograd.grad(held(x).sum(), x)[0].tolist(), [0.25] * 3)
    try:
        _named("sigmoid", 5.0)
        for operator in (held, OPS.sigmoid):
            assert operator(x).tolist() == [5] * 3
            with pytest.raises(NotImplementedError, match="sigmoid of xtarget has no gradient"):
                operator(x).sum().backward()
    finally:
        libraries.register(ours.spec, ours.source, ours.origin)
    torch.testing.assert_close(torch.autograd.grad(held(x).sum(), x)[0].tolist(), [0.25] * 3)


def test_a_kernel_that_torch_cannot_express_leaves_no_operator_of_the_one_before() -> None:
    xt.register(_named("own_lost", 1.0))
    _named("own_lost", 1.0, flags={"ASKED": (0.5, 1.5)})
    with pytest.raises(AttributeError, match="own_lost"):
        _ = OPS.own_lost
    assert "ASKED" in xt.operators()["own_lost"]


def test_an_operator_of_somebody_else_is_left_alone() -> None:
    @torch.library.custom_op("xtarget::own_taken", mutates_args=())
    def taken(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    function = _named("own_taken", 7.0)
    with pytest.raises(
        ArgumentError, match=r"own_taken is an operator that somebody else has made"
    ):
        xt.register(function)
    assert OPS.own_taken(torch.ones(1)).tolist() == [2]
    assert xtarget.run("own_taken", torch.ones(1)).tolist() == [8]


@triton.jit
def _plus(x, y, VALUE):
    tl.store(y + tl.program_id(0), tl.load(x + tl.program_id(0)) + VALUE)


def test_launches_of_several_steps_in_place_are_an_operator(place: str) -> None:
    @xtarget.kernel(name="own_steps", inputs={"x": InOut["float32", "N"]}, scalars={"VALUE": 1.0})
    def steps(c: Any) -> Any:
        yield step(_plus, c.N, y=c.x)
        yield step(_plus, c.N, y=c.x)

    x = torch.zeros(3, device=place)
    assert xt.register(steps)(x, 2.0) is None
    assert x.tolist() == [4] * 3


@triton.jit
def _stores_to_its_input(x, y):
    tl.store(y, 1.0)
    tl.store(x, 2.0)


def test_an_operator_of_a_kernel_that_writes_more_than_it_says_is_refused(place: str) -> None:
    """torch.compile has moved other reads of `x` by its schema."""
    declare = xtarget.kernel(inputs=("x",), outputs={"y": "x"}, grid=lambda c: (1,), name="own_w")
    operator = xt.register(declare(_stores_to_its_input))
    x = torch.zeros(1, device=place)
    with pytest.raises(xtarget.CompileError, match=r"stores to x .*updates=\(\"x\",\)"):
        operator(x)
    assert x.tolist() == [0]
