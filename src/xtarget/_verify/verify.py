"""Run a kernel's cases on a device and compare them with its reference in float64."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import xtarget

from .._devices import registry
from .._kernels import libraries
from .._kernels.implementations import of_target
from .._kernels.interfaces import INPUT_DTYPES
from .._kernels.references import answers
from .._kernels.variants import OWN
from .._values.errors import ArgumentError, XTargetError
from .._values.types import DTYPES, Target
from ..spec import KernelSpec
from .cases import Case, cases, meaningful, values
from .comparison import compare

__all__ = ["NoAnswerError", "Row", "input_shapes", "is_floating", "served_by", "verify"]


class NoAnswerError(Exception):
    """The reference fails for a case, or what it needs is not installed."""


@dataclass(slots=True)
class Row:
    """The results of the cases of one kernel and dtype on one device.

    Attributes:
        status: `right`, `wrong`, `refused` (all cases, with one reason), `failed` (an error that
            is not a refusal of the arguments), or `compiled` (and not launched).
        cases: calls that were compared.
        refused: cases that the kernel does not take, or of which the reference says nothing.
        wrong: texts of the cases that are wrong or failed, with what is wrong.
        max_ulp: largest error in units in the last place of the result's dtype, of all cases.
        of_tolerance: largest error relative to what is allowed.
        worst_at: with every value as input: where the largest error in units is.
        reason: of the refusal or the failure.
        impl: the word for the implementation that served the target (`xtarget kernels NAME`).
        where: the machine and the device, of an executor's worker.
    """

    kernel: str
    dtype: str
    status: str = "right"
    cases: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    max_ulp: float = 0.0
    of_tolerance: float = 0.0
    worst_at: str = ""
    reason: str = ""
    seconds: float = 0.0
    impl: str = OWN
    where: str = ""

    def refuse(self, error: ArgumentError | NoAnswerError) -> None:
        """The kernel does not take the case, or the reference says nothing of it."""
        self.refused += 1
        self.reason = str(error)

    def fail(self, case: str, error: XTargetError) -> None:
        """The case fails with an error that is not a refusal of its arguments."""
        self.status, self.reason = "failed", f"{type(error).__name__}: {error}"
        self.wrong.append(f"{case}: {self.reason}")

    def finish(self, passed: str, start: float) -> None:
        """All cases were tried, from `start` on (`time.perf_counter`).

        Args:
            passed: the status, if there was a case and nothing failed.
        """
        self.seconds = time.perf_counter() - start
        if self.status != "failed":
            self.status = passed if self.cases or self.wrong else "refused"
            if self.cases:
                self.reason = ""

    def facts(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        return {k: None if v == np.inf else v for k, v in asdict(self).items()}


def is_floating(results: Sequence[Any]) -> bool:
    """Whether the first of a kernel's results is."""
    return DTYPES[results[0].dtype.name].kind == "f"


def verify(
    specs: Sequence[KernelSpec],
    dtypes: Sequence[str],
    device: str,
    *,
    extent: str = "usual",
    known: Container[tuple[str, str]] = (),
) -> Iterator[Row]:
    """A row for each kernel and each of the dtypes that it takes.

    Args:
        specs: kernels that have a reference and example shapes.
        extent: one of `cases.EXTENTS`.
        known: names and dtypes that are left out.
    """
    for spec in specs:
        for dtype in dtypes:
            if dtype in spec.dtypes and (spec.name, dtype) not in known:
                yield _verified(spec, dtype, device, extent)


def _verified(spec: KernelSpec, dtype: str, device: str, extent: str) -> Row:
    row = Row(spec.name, dtype, impl=served_by(spec, registry.open_device(device).info.target))
    start = time.perf_counter()
    for case in cases(dtype, extent):
        try:
            _run(spec, case, device, row)
        except (ArgumentError, NoAnswerError) as error:
            row.refuse(error)
        except XTargetError as error:
            row.fail(str(case), error)
            break  # what does not compile or load for one shape does not for the next
    row.finish("wrong" if row.wrong else "right", start)
    return row


def served_by(spec: KernelSpec, target: Target) -> str:
    """The word for the implementation that serves a target."""
    return of_target(libraries.find(spec.name), target.vendor, target.arch)[0]


def input_shapes(
    spec: KernelSpec, dtype: str, shape: tuple[int, ...]
) -> list[tuple[str, str, tuple[int, ...] | None]]:
    """(name, dtype, shape) of each input of a call; shape None: the example leaves it out.

    Raises:
        NoAnswerError: the kernel has no example of this shape.
    """
    assert spec.examples is not None
    try:
        shapes = spec.examples(shape)
    except Exception as error:  # its own function, which need not know every shape
        raise NoAnswerError(f"there is no example of shape {shape}: {error}") from error
    names = [name.rstrip("?") for name in spec.inputs]
    return [
        (name, INPUT_DTYPES.get(name, dtype), None if own is None else tuple(own))
        for name, own in zip(names, shapes, strict=False)
    ]


def _run(spec: KernelSpec, case: Case, device: str, row: Row) -> None:
    args = [
        None
        if shape is None
        else meaningful(name, values(case, shape, dtype, seed), min(case.shape, default=1))
        for seed, (name, dtype, shape) in enumerate(input_shapes(spec, case.dtype, case.shape))
    ]
    result = xtarget.run(spec.name, *args, device=device)
    results = [np.asarray(one) for one in (result if isinstance(result, tuple) else (result,))]
    try:
        right = answers(spec, args, {}, floating=is_floating(results))
    except Exception as error:  # what a reference does where it is not defined is its own
        raise NoAnswerError(
            f"the reference gives no answer: {type(error).__name__}: {error}"
        ) from error
    row.cases += 1
    for got, want in zip(results, right, strict=True):
        found = compare(got, want, spec.tolerance)
        row.max_ulp = max(row.max_ulp, found.max_ulp)
        row.of_tolerance = max(row.of_tolerance, found.of_tolerance)
        if not found.ok:
            row.wrong.append(f"{case}: {found.wrong} of {found.size} elements")
