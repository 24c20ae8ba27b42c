"""Verifying by an executor's workers, each on a device of its own machine.

A unit is a kernel and its dtypes. The answer is its rows, and what device they are of. A unit whose
worker is lost twice is of rows that have failed.
"""

from __future__ import annotations

import socket
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._children.frames import Frame
from .._devices import choice, registry
from .._executors.asking import Lost, answer, answers, asked
from .._executors.carried import digest_of
from .._kernels import libraries
from .._system import files
from .._values.errors import XTargetError
from .._values.types import DeviceInfo, Target
from .._values.value_classes import value_class
from ..spec import KernelSpec
from .compiled import compiled
from .every_value import EXTENT, every_value
from .report import place_of
from .verify import Row, verify

__all__ = ["Spread", "made", "rows_of", "spread", "verify_unit"]

#: Of a file of a kernel library.
_MOST_BYTES = 64 << 20


@value_class(frozen=True, slots=True)
class Spread:
    """The kernels that are verified, and the places.

    Attributes:
        dtypes: those that a kernel does not take are left out.
        extent: one of `cases.EXTENTS`, or `every_value.EXTENT`.
        device: a vendor, or a device's name, on the worker's machine; None: its default.
        target: compile for it, and call nothing.
    """

    dtypes: Sequence[str]
    extent: str
    device: str | None = None
    target: str | None = None


def made(
    specs: Sequence[KernelSpec],
    wanted: Spread,
    where: DeviceInfo | Target,
    known: Container[tuple[str, str]] = (),
) -> Iterator[Row]:
    """A row for each kernel and dtype, on a device of this machine or compiled for a target."""
    if isinstance(where, Target):
        return compiled(specs, wanted.dtypes, str(where), known=known)
    if wanted.extent == EXTENT:
        return every_value(specs, wanted.dtypes, where.name, known=known)
    return verify(specs, wanted.dtypes, where.name, extent=wanted.extent, known=known)


# ------------------------------------------------------------------------------ the side that asks


def spread(
    executor: Executor, specs: Sequence[KernelSpec], wanted: Spread
) -> Iterator[tuple[dict[str, Any] | None, list[Row]]]:
    """The rows of a kernel, and the device that they are of as `report.place_of` says it, in the
    order of their ends; None for a kernel that no worker has verified: its rows say why.

    Raises:
        XTargetError: a worker has another version of xtarget, of Python or of the kernel.
    """

    def unit(index: int) -> bytes:
        spec = specs[index]
        header = {
            "kernel": spec.name,
            "library": _digest(libraries.find(spec.name).origin),
            "dtypes": [dtype for _, dtype in _pairs(spec, wanted)],
            "extent": wanted.extent,
            "device": wanted.device,
            "target": wanted.target,
        }
        return asked(header, [])

    for index, frame in answers(executor, verify_unit, len(specs), unit):
        why = f"its worker was lost: {frame.why}" if isinstance(frame, Lost) else ""
        if not isinstance(frame, Lost):
            header, _ = frame
            try:
                if "error" not in header:
                    rows = [Row(**row) for row in header["rows"]]
                    if [(row.kernel, row.dtype) for row in rows] != _pairs(specs[index], wanted):
                        raise ValueError("they are of another kernel")
                    yield dict(header["place"]), rows
                    continue
                why = f"{header['machine']}: {header['error']}"
            except (KeyError, TypeError, ValueError) as error:
                why = f"a worker sent no rows ({error!r})"
        yield (
            None,
            [
                Row(kernel, dtype, "failed", wrong=[f"{dtype}: {why}"], reason=why)
                for kernel, dtype in _pairs(specs[index], wanted)
            ],
        )


def _pairs(spec: KernelSpec, wanted: Spread) -> list[tuple[str, str]]:
    """The kernel and dtype of each row."""
    return [(spec.name, dtype) for dtype in wanted.dtypes if dtype in spec.dtypes]


@lru_cache(maxsize=32)
def _digest(origin: str) -> str:
    """sha256 of the Python files of a kernel library, or of the file of a program's kernels."""
    place = Path(origin)
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    try:
        found = {
            str(path.relative_to(place)): files.read_regular(path, _MOST_BYTES) for path in paths
        }
    except OSError as error:
        raise XTargetError(
            f"{origin} cannot be read ({error}), so no worker can be asked for what it has. Give "
            "kernels of a folder with a catalog.py (XTARGET_KERNELS)."
        ) from error
    return digest_of(found)


# ------------------------------------------------------------------------------ the side that works


def verify_unit(data: bytes) -> bytes:
    """On a worker: verify a kernel."""
    return answer(data, rows_of)


def rows_of(header: dict[str, Any], _: list[bytes]) -> Frame:
    """The rows of a unit, and what device they are of."""
    kernel, machine = libraries.find(header["kernel"]), socket.gethostname()
    if _digest(kernel.origin) != header["library"]:
        return {
            "refused": f"the worker on {machine} has other files in {kernel.origin} than who asks. "
            "Install the same kernels on both."
        }, []
    where: DeviceInfo | Target
    if header["target"] is not None:
        where, told = Target.parse(header["target"]), machine
    else:
        where = registry.open_device(_device(header["device"])).info
        told = f"{machine} {where.name}"
    wanted = Spread(header["dtypes"], header["extent"])
    rows = list(made([kernel.spec], wanted, where))
    for row in rows:
        row.where = told
    return {"place": place_of(where), "rows": [asdict(row) for row in rows]}, []


def _device(wanted: str | None) -> str:
    """The worker's own default, if it is of the vendor; else what is named."""
    if wanted is None:
        return choice.default_device()
    named = registry.find_device(wanted)
    if ":" not in wanted:
        usual = choice.default_device()
        if usual.partition(":")[0] == named.partition(":")[0]:
            return usual
    return named
