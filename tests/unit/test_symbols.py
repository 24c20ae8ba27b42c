"""Symbolic integers: what a traced computation gives is what the computation gives for any values
that pass its guards."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import drawn

from xtarget._values.symbols import SymInt, Tracer, peek
from xtarget.spec import broadcast_shapes, cdiv, contiguous_strides, next_power_of_2

Computation = Callable[[Any, Any, Any], Any]


def blocks(n: Any, m: Any, s: Any) -> Any:
    block = min(next_power_of_2(n), 4096)
    return cdiv(n * m, int(block)), block, n % 16 == 0


def branches(n: Any, m: Any, s: Any) -> Any:
    if s < 0:
        return abs(s) * n, "down"
    if n > m:
        return n - m, "over"
    return (m - n) // 3 if m % 2 else -(-m // 7), "under"


def numbers(n: Any, m: Any, s: Any) -> Any:
    return sum(range(n % 5)), {0: "none", 1: "one"}.get(m, "many"), f"{s:+d}"


def shapes(n: Any, m: Any, s: Any) -> Any:
    shape = broadcast_shapes((n, 1), (1, m), (n, m))
    return contiguous_strides(shape), math.prod(shape), max(shape), sorted(shape)


def bits(n: Any, m: Any, s: Any) -> Any:
    return n & 7, m | 1, n ^ m, n << 2, m >> 1, (n + 1).bit_length(), 1 << (m % 9), ~s, divmod(s, 5)


def ends(n: Any, m: Any, s: Any) -> Any:
    low = min(0, s * (n - 1))
    high = max(0, s * (n - 1)) + 1
    return low, high, "wide" if not -50 <= high - low <= 50 else "near", math.ceil(n / 4), n**2


def edges(n: Any, m: Any, s: Any) -> Any:
    parts = cdiv(n, 64)
    return (
        parts if parts != 1 else "one",
        n - 3 if n - 3 >= 0 else "few",
        "even" if m * 4 == 16 else m * 4,
        "big" if (1 << n.bit_length()) > 64 else "small",
        5 - s if 5 - s < 9 else s,
    )


COMPUTATIONS = (blocks, branches, numbers, shapes, bits, ends, edges)
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 63, 64, 65, 100, 1000, 4096, 9999]))


def settled(result: Any) -> Any:
    """The values at hand."""
    if isinstance(result, tuple | list):
        return tuple(map(settled, result))
    return peek(result)


def tupled(result: Any) -> Any:
    return tuple(map(tupled, result)) if isinstance(result, tuple | list) else result


@pytest.mark.parametrize("compute", COMPUTATIONS, ids=lambda f: f.__name__)
@settings(deadline=None, max_examples=drawn(150))
@given(data=st.data())
def test_values_that_pass_the_guards_give_what_the_computation_gives(
    compute: Computation, data: st.DataObject
) -> None:
    seen = data.draw(st.tuples(SIZES, SIZES, st.integers(-70, 70)))
    tracer = Tracer()
    n, m = (tracer.symbol(name, v, least=0) for name, v in zip("nm", seen[:2], strict=True))
    traced = compute(n, m, tracer.symbol("s", seen[2]))
    assert settled(traced) == tupled(compute(*seen))
    program = tracer.compile(tupled(traced))
    assert program(seen) == tupled(compute(*seen)), tracer.guards()
    for _ in range(20):
        other = data.draw(st.tuples(SIZES, SIZES, st.integers(-70, 70)))
        found = program(other)
        assert found is None or found == tupled(compute(*other)), (other, tracer.guards())


def traced(value: int, compute: Callable[[Any], Any], *, least: int | None = 0) -> list[str]:
    tracer = Tracer()
    compute(tracer.symbol("n", value, least=least))
    return tracer.guards()


@pytest.mark.parametrize(
    ("compute", "guards"),
    [
        (lambda n: int(next_power_of_2(n)), ["513 <= n <= 1024"]),
        (lambda n: cdiv(n, 100) > 5, ["n >= 501"]),
        (lambda n: cdiv(n, 100) == 10, ["901 <= n <= 1000"]),
        (lambda n: n % 16 == 0, ["n % 16 >= 1"]),
        (lambda n: (n >= 0, n > -5, n != -1), []),
        (lambda n: (n > 10, n > 20, n > 15), ["n >= 21"]),
        (lambda n: 2 * n + 1 < 5000, ["n <= 2499"]),
        (lambda n: range(n), ["n == 1000"]),
        (lambda n: {n: 1}, ["n == 1000"]),
        (lambda n: f"{n}", ["n == 1000"]),
        (lambda n: (n + 5 - 5) * 1, []),
        (lambda n: n == n, []),
        (lambda n: bool(n), ["n >= 1"]),
        (lambda n: n != 7, ["n != 7"]),
        (lambda n: n.bit_length() < 1 << 40, ["(n).bit_length() <= 1099511627775"]),
    ],
)
def test_guards_are_ranges_that_people_can_read(compute: Any, guards: list[str]) -> None:
    assert traced(1000, compute) == guards


def test_a_symbol_passes_as_an_integer() -> None:
    tracer = Tracer()
    n = tracer.symbol("n", 12)
    assert isinstance(n, int)
    assert not isinstance(n, bool | float | str)
    assert operator.index(n) == 12
    assert type(n + 1) is SymInt
    assert type(n * 0) is int
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ValueError, match="negative shift"):
        n << -1


def test_parts_that_expressions_share_cost_once() -> None:
    """Sorts double their sizes a hundred times over: written out, no memory holds that."""

    def doubled(n: Any) -> Any:
        for step in range(200):
            n = (n + step) * 3 + n // 2 - n
            n = n % 100_003 if n > 50_000 else n
        return n

    tracer = Tracer()
    result = doubled(tracer.symbol("n", 17, least=0))
    program = tracer.compile((result,))
    assert program([17]) == (doubled(17),)
    assert len(tracer.failing([10**9])) > 0
    assert max(map(len, tracer.guards())) < 3000
    served = [n for n in range(200) if program([n]) is not None]
    assert 17 in served
    for n in served:
        assert program([n]) == (doubled(n),)
