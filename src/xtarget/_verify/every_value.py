"""Elementwise kernels with every value of a half type as input, and a sample of wider ones."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from typing import Any, Final

import numpy as np

import xtarget

from .._arrays.dtypes import numpy_dtype
from .._devices import registry
from .._kernels.references import answers
from .._values.errors import ArgumentError, XTargetError
from .._values.types import DTYPES
from ..spec import KernelSpec
from .cases import Case, meaningful, values
from .comparison import compare, errors_in_ulp
from .verify import NoAnswerError, Row, input_shapes, is_floating, served_by

__all__ = ["EXTENT", "VALUED", "every_value", "takes_every_value"]

#: Of the report.
EXTENT: Final = "every value"
#: Dtypes of which there is a row.
VALUED: Final = ("float16", "bfloat16", "float32")
#: All bit patterns of a half type; so many of wider types, and of pairs of numbers.
_ALL: Final = 1 << 16
_SAMPLE: Final = 1 << 18


def takes_every_value(spec: KernelSpec) -> bool:
    """Is it an elementwise kernel of floating numbers, whose inputs all have one shape?"""
    if not spec.elementwise or not set(VALUED) & set(spec.dtypes):
        return False
    if spec.reference is None or spec.examples is None:
        return False
    return all(shape == (8,) for _, _, shape in input_shapes(spec, "float32", (8,)))


def every_value(
    specs: Sequence[KernelSpec],
    dtypes: Sequence[str],
    device: str,
    *,
    known: Container[tuple[str, str]] = (),
) -> Iterator[Row]:
    """A row for each kernel and floating dtype of at most 32 bits.

    Raises:
        ArgumentError: a kernel is not elementwise.
    """
    for spec in specs:
        if not takes_every_value(spec):
            raise ArgumentError(
                f"{spec.name} is not an elementwise kernel of floating numbers: --every-value has "
                "no values for it. Leave it out."
            )
        for dtype in VALUED:
            if dtype in dtypes and dtype in spec.dtypes and (spec.name, dtype) not in known:
                yield _row(spec, dtype, device)


def _row(spec: KernelSpec, dtype: str, device: str) -> Row:
    row = Row(spec.name, dtype, impl=served_by(spec, registry.open_device(device).info.target))
    start = time.perf_counter()
    try:
        _compare(spec, dtype, device, row)
    except (ArgumentError, NoAnswerError) as error:
        row.refuse(error)
    except XTargetError as error:
        row.fail(f"{dtype} every value", error)
    row.finish("wrong" if row.wrong else "right", start)
    return row


def _compare(spec: KernelSpec, dtype: str, device: str, row: Row) -> None:
    count = _ALL if len(spec.inputs) == 1 and numpy_dtype(dtype).itemsize == 2 else _SAMPLE
    args = [
        meaningful(name, _numbers(own, count, seed), count)
        for seed, (name, own, _) in enumerate(input_shapes(spec, dtype, (count,)))
    ]
    result = xtarget.run(spec.name, *args, device=device)
    try:
        right = answers(spec, args, {}, floating=is_floating((result,)))[0]
    except Exception as error:  # what a reference does where it is not defined is its own
        raise NoAnswerError(
            f"the reference gives no answer: {type(error).__name__}: {error}"
        ) from error
    found = compare(result, right, spec.tolerance)
    row.cases, row.max_ulp, row.of_tolerance = 1, found.max_ulp, found.of_tolerance
    if DTYPES[result.dtype.name].kind == "f":
        row.worst_at = _worst(args, result, right)
    if not found.ok:
        row.wrong.append(f"{dtype}[{count}] every value: {found.wrong} of {found.size} elements")


def _worst(args: Sequence[Any], result: Any, right: Any) -> str:
    """The numbers of which the result is the farthest from the right one."""
    with np.errstate(all="ignore"):
        got, want = result.astype(np.float64), np.asarray(right, np.float64)
        ulp = errors_in_ulp(got, want, result.dtype.name)
        finite = np.isfinite(got) & np.isfinite(np.asarray(right).astype(result.dtype))
        place = int(np.argmax(np.where(finite, ulp, 0)))
    return ", ".join(f"{float(arg[place]):.9g}" for arg in args)


def _numbers(dtype: str, count: int, seed: int) -> Any:
    """Bit patterns: all of a half type, in another order for each input; else some at random, half
    of them of any exponent and half of numbers from 2^-10 to 2^8."""
    type_ = numpy_dtype(dtype)
    if DTYPES[dtype].kind != "f":
        return values(Case(dtype, (count,), "normal", "contiguous"), (count,), dtype, seed)
    rng = np.random.default_rng([seed, 17])
    if type_.itemsize == 2:
        order = np.arange(_ALL, dtype=np.uint16)
        turns = [rng.permutation(order) if seed else order for _ in range(count // _ALL)]
        return np.concatenate(turns).view(type_)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    usual = rng.integers(127 - 10, 127 + 8, count // 2, dtype=np.uint32)
    bits[::2] = bits[::2] & np.uint32(0x807FFFFF) | usual << np.uint32(23)
    return bits.view(type_)
