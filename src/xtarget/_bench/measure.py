"""Measuring: each workload by xtarget and by the peers, and what the device can do at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import xtarget

from .._devices import registry
from .._kernels import libraries
from .._launch.samples import Clock, DeviceClock, HostClock, Summary, take
from .._values.errors import XTargetError
from .._values.types import DTYPES, DeviceInfo
from .._values.value_classes import value_class
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device
from .peers import NoPeerError, Peer
from .workloads import TURNING_BYTES, Work, Workload, inputs, room, work_of

__all__ = ["OWN", "Measured", "Measurement", "limits_of"]

#: The name of our own way in reports.
OWN = "xtarget"
#: Of the copy that tells a device's bandwidth, and of the sides of the product of matrices.
_COPY_BYTES, _SIDE_CPU, _SIDE_GPU = 64 << 20, 1024, 4096
#: A peer's result differs from ours by no more than this of the largest value, or it computes
#: something else: a check of what is measured, not of accuracy (that is `xtarget verify`).
_SAME = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 1e-3, "float64": 1e-3}


@value_class(frozen=True, slots=True)
class Measured:
    """One way of one workload on one device.

    Attributes:
        way: `xtarget`, or the peer's name.
        sets: how many sets of inputs took turns.
    """

    device: str
    kernel: str
    dtype: str
    size: str
    way: str
    clock: str
    sets: int
    summary: Summary
    work: Work

    def facts(self) -> dict[str, Any]:
        """For JSON: seconds, bytes, operations, and the speed in GB/s or TFLOP/s."""
        work, summary = self.work, self.summary
        amount = work.flops if work.in_flops and work.flops is not None else work.bytes
        scale, unit = (1e12, "TFLOP/s") if work.in_flops else (1e9, "GB/s")
        return {
            "device": self.device,
            "kernel": self.kernel,
            "dtype": self.dtype,
            "size": self.size,
            "way": self.way,
            "clock": self.clock,
            "sets": self.sets,
            **asdict(summary),
            "bytes": work.bytes,
            "flops": work.flops,
            "speed": amount / max(summary.median, 1e-12) / scale,
            "unit": unit,
        }


class Measurement:
    """Workloads of one device, and the peers on it.

    Attributes:
        notes: what was left out, in sentences.
    """

    def __init__(
        self, name: str, peers: Sequence[str], seconds: float, find: Callable[..., Peer]
    ) -> None:
        self.device: Device = registry.open_device(name)
        self.info: DeviceInfo = self.device.info
        self.notes: list[str] = []
        self._seconds = seconds
        self._peers: list[Peer] = []
        for wanted in peers:
            try:
                self._peers.append(find(wanted, self.info))
            except NoPeerError as error:
                self.notes.append(f"{wanted} is left out on {name}: {error}")
        self._is_gpu = self.info.vendor != "cpu" and self.info.runs_on == "silicon"
        self._clock: Clock = (
            DeviceClock(self.device.default_stream)
            if self._is_gpu
            else HostClock(self.device.synchronize)
        )
        if not self._is_gpu and self.info.runs_on not in ("silicon", "CPU runtime"):
            self.notes.append(
                f"{name} runs on: {self.info.runs_on}. Its times say nothing of a GPU."
            )

    @property
    def ways(self) -> dict[str, str]:
        """The libraries that are measured, with their versions."""
        return {one.name: one.version for one in self._peers}

    def measure(self, load: Workload, *, compiled: bool = True) -> Iterator[Measured]:
        """Our time, then the peers'.

        Args:
            compiled: also of the peers that compile first.
        """
        if 0 in load.shape:
            self._leave_out(load, "it has no elements, so that there is nothing to measure")
            return
        try:
            work = work_of(load, self.info)
        except XTargetError as error:
            self._leave_out(load, str(error))
            return
        space = room(self.info)
        # two sets of inputs, a result of ours and one of a peer's, and as much again that it needs
        needed = 2 * work.input_bytes + 4 * work.output_bytes
        if needed > space:
            self._leave_out(
                load,
                f"it needs {needed / 2**30:,.1f} GiB, and {space / 2**30:,.1f} GiB are free here",
            )
            return
        sets = inputs(load, work, space)
        placed = [tuple(map(self._placed, args)) for args in sets]
        named = {**load.options, "device": self.info.name}
        calls = [_bound(xtarget.run, load.spec.name, *args, **named) for args in placed]
        try:
            ours = _first(calls[0]())
            yield self._row(load, OWN, self._clock, len(sets), calls, work)
        except XTargetError as error:
            self._leave_out(load, str(error))
            return
        for one in self._peers:
            if one.compiles and not compiled:
                continue
            try:
                function = one.function(load.spec)
                given = [tuple(map(one.take, args)) for args in sets]
                theirs = [_bound(function, *args) for args in given]
                result = _first(theirs[0]())
                if _address(result) in map(_address, given[0]):
                    raise NoPeerError("its function gives the argument back, without a copy")
                _check_same(ours, np.asarray(one.give(result)))
            except NoPeerError as error:
                self._leave_out(load, str(error), one.name)
                continue
            except Exception as error:  # another library's, of any kind: what it says is passed on
                text = str(error).strip().partition("\n")[0]
                self._leave_out(load, f"{type(error).__name__}: {text}", one.name)
                continue
            yield self._row(load, one.name, one.clock, len(sets), theirs, work)

    def _row(
        self,
        load: Workload,
        way: str,
        clock: Clock,
        sets: int,
        calls: list[Callable[[], Any]],
        work: Work,
    ) -> Measured:
        summary = take(calls, clock, self._seconds)
        return Measured(
            self.info.name, load.spec.name, load.dtype, load.size, way, clock.name, sets, summary,
            work,
        )  # fmt: skip

    def _leave_out(self, load: Workload, reason: str, way: str = "") -> None:
        what = f"{load.spec.name} {load.dtype}[{load.size}] on {self.info.name}"
        by = f" by {way}" if way else ""
        self.notes.append(f"{what}{by} is left out: {reason.rstrip('.')}.")

    def _placed(self, value: Any) -> Any:
        """On the device, for GPUs; a CPU's devices take the host's arrays in place."""
        if isinstance(value, np.ndarray) and self._is_gpu:
            return xtarget.asarray(value, device=self.info.name)
        return value

    def limits(self) -> list[Workload]:
        """A copy and a product of matrices in float32, by which the others are judged: none on
        an emulator."""
        if self.info.runs_on not in ("silicon", "CPU runtime"):
            return []
        catalog = xtarget.catalog()
        side = _SIDE_GPU if self._is_gpu else _SIDE_CPU
        found = []
        for name, shape in (("positive", (_COPY_BYTES // 4,)), ("matmul", (side, side))):
            spec = catalog[name]
            args = (ArrayType("float32", shape, contiguous_strides(shape)),) * len(spec.inputs)
            found.append(Workload(spec, args, "float32", shape))
        return found


def limits_of(rows: Sequence[Measured], more: Sequence[Measured] = ()) -> dict[str, dict[str, Any]]:
    """The fastest way of each limit: a device is as fast as the fastest that was seen on it.

    Args:
        rows: copies and products that were measured for it.
        more: what else was measured on the device: on a busy machine it may have been faster.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in (*rows, *(row for row in more if _shows_a_limit(row))):
        facts = row.facts()
        kind = "matmul" if row.work.in_flops else "copy"
        if kind not in found or facts["speed"] > found[kind]["speed"]:
            found[kind] = {
                name: facts[name]
                for name in ("speed", "unit", "kernel", "way", "dtype", "size", "median")
            }
    return found


def _shows_a_limit(row: Measured) -> bool:
    """A product in float32, or a kernel that moves each byte once, more than caches hold."""
    if row.work.in_flops:
        return row.dtype == "float32"
    spec = libraries.find(row.kernel).spec
    moves = spec.elementwise or spec.category in ("reduction", "normalization")
    return moves and row.sets * row.work.input_bytes >= TURNING_BYTES


def _bound(function: Callable[..., Any], *args: Any, **named: Any) -> Callable[[], Any]:
    return lambda: function(*args, **named)


def _address(array: Any) -> object:
    """Where an array begins; itself, where that cannot be asked."""
    if hasattr(array, "data_ptr"):
        return array.data_ptr()
    place = getattr(array, "__array_interface__", None) or getattr(
        array, "__cuda_array_interface__", None
    )
    return place["data"][0] if place else id(array)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _check_same(ours: Any, theirs: Any) -> None:
    """Refuse a peer that computes something else.

    Raises:
        NoPeerError: with what differs.
    """
    mine = np.asarray(ours)
    if mine.shape != theirs.shape:
        raise NoPeerError(f"its result has shape {theirs.shape}, and not {mine.shape}")
    if DTYPES[mine.dtype.name].kind != "f":
        same = bool(np.array_equal(mine, theirs))
    else:
        a, b = mine.astype(np.float64), np.asarray(theirs).astype(np.float64)
        both = np.isfinite(a) & np.isfinite(b)
        largest = float(np.abs(a[both]).max(initial=0.0))
        same = bool(np.allclose(a, b, 0, _SAME[mine.dtype.name] * largest, equal_nan=True))
    if not same:
        raise NoPeerError("its results are others: its function of this name is not the same")
