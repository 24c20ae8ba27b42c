"""Trying the choices of a plan: each is built, compared with the default's result, and timed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from .._arrays import is_scalar, view_of
from .._compile import functions
from .._kernels import libraries, tunings
from .._values.errors import ArgumentError
from .._values.types import DTYPES, Artifact, CompileRequest, DeviceInfo
from ..targets.base import Device
from .lateness import lateness
from .prepared import Prepared
from .samples import Clock, DeviceClock, HostClock, ProcessorClock, Summary, summarize, take

__all__ = ["Trials", "artifacts_of", "copied", "excess", "seconds_of"]

#: Inputs take turns until they are so many bytes in all, which no cache holds, in at most so many
#: sets and this part of a device's memory.
_TURNING_BYTES: Final = 160 << 20
_MOST_SETS: Final = 64
_PART_OF_MEMORY: Final = 0.4
#: Seconds of samples of a choice, and of one that takes so many times as long as the best.
_SECONDS: Final = 0.03
_HOPELESS: Final = 2.5
#: Rounds in which the best are compared, one after the other; and where the host's clock times
#: them, as what else the host does lasts longer than a call.
_ROUNDS: Final = 7
_HOST_ROUNDS: Final = 21
#: Elements of a result that are compared, and by how much they may differ, of the largest one.
_COMPARED: Final = 1 << 20
_SAME: Final = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4, "float64": 1e-9}


def copied(array: Any) -> Any:
    """An array of its own with the same elements, by columns if the other is."""
    type_ = view_of(array).type
    if type_.ndim == 2 and type_.strides[0] == 1 and not type_.contiguous and hasattr(array, "T"):
        return copied(array.T).T
    copy = getattr(array, "clone", None) or getattr(array, "copy", None)
    if copy is None:
        raise ArgumentError(
            f"a {type(array).__name__} has neither clone() nor copy(), so what the kernel updates "
            "in place cannot be kept while it is tuned. Give an array that has one."
        )
    return copy()


class Trials:
    """Calls of a kernel on some sets of arguments, with one choice after the other.

    Args:
        updated: places of arguments that the kernel writes to.
        taken: what plans take, by table, beside what is tried.
    """

    def __init__(
        self,
        name: str,
        args: Sequence[Any],
        out: Any,
        device: Device,
        options: Mapping[str, Any],
        updated: Sequence[int],
        taken: Mapping[str, Any],
    ) -> None:
        self._name, self._device, self._options = name, device, dict(options)
        self._updated, self._taken = set(updated), dict(taken)
        self._args, self._out = tuple(args), out
        self._sets = [self._own(args, 0)]
        for index in range(1, self._count(device.info)):
            more = self._own(args, index)
            if _layouts(more) != _layouts(args):
                break  # views that a copy does not look like
            self._sets.append(more)
        self._outs = [out, *(self._more(out) for _ in self._sets[1:])]
        self._right: list[Any] | None = None

    def _own(self, args: Sequence[Any], index: int) -> tuple[Any, ...]:
        """A set of arguments: the caller's arrays, but for those that are written, or copies."""
        return tuple(
            copied(arg) if _is_array(arg) and (index or place in self._updated) else arg
            for place, arg in enumerate(args)
        )

    @staticmethod
    def _more(out: Any) -> Any:
        """Another array like the caller's for the result, or several."""
        if isinstance(out, tuple | list):
            return type(out)(map(copied, out))
        return None if out is None else copied(out)

    def _count(self, info: DeviceInfo) -> int:
        arrays = [arg for arg in self._args if _is_array(arg)]
        if not all(hasattr(one, "clone") or hasattr(one, "copy") for one in arrays):
            return 1
        nbytes = sum(t.size * t.itemsize for t in (view_of(one).type for one in arrays))
        room = info.memory_bytes * _PART_OF_MEMORY if info.memory_bytes else _TURNING_BYTES
        wanted = math.ceil(_TURNING_BYTES / max(nbytes, 1))
        return max(1, min(wanted, _MOST_SETS, int(room / max(2 * nbytes, 1))))

    def _prepared(self, args: Sequence[Any], choice: Mapping[str, Any], out: Any) -> Prepared:
        with tunings.trying({**self._taken, **choice}):
            return Prepared(self._name, tuple(args), out, self._device.info.name, None,
                            self._options)  # fmt: skip

    def forget(self) -> None:
        """Calls are planned anew."""
        for changed in libraries.on_change:
            changed(self._name)

    def check(self, choice: Mapping[str, Any]) -> str:
        """Call with a choice, and compare the result with that of the first choice.

        Returns:
            what differs; nothing if nothing does.

        Raises:
            XTargetError: it cannot be built or launched.
        """
        self.forget()
        args = self._own(self._args, 0)
        launch = self._prepared(args, choice, self._out)
        given = launch()
        launch.waits()[0]()
        results = [*(given if isinstance(given, tuple) else () if given is None else (given,))]
        results += [args[place] for place in sorted(self._updated)]
        found = [_sample(one) for one in results]
        if self._right is None:
            self._right = found
            return ""
        for mine, right in zip(found, self._right, strict=True):
            difference = _difference(mine, right)
            if difference:
                return difference
        return ""

    def calls(self, choice: Mapping[str, Any]) -> tuple[list[Prepared], Clock]:
        """Launches with a choice that take turns, and the clock for them."""
        self.forget()
        found = [
            self._prepared(args, choice, out)
            for args, out in zip(self._sets, self._outs, strict=True)
        ]
        wait, stream = found[0].waits()
        if stream is not None:
            return found, DeviceClock(stream)
        alone = self._device.info.host_memory and len(os.sched_getaffinity(0)) == 1
        return found, ProcessorClock(wait) if alone else HostClock(wait)

    def lateness(self, choice: Mapping[str, Any]) -> float:
        """`lateness` of the device, where events time calls."""
        _, stream = self._prepared(self._sets[0], choice, self._outs[0]).waits()
        return 0.0 if stream is None else lateness(stream)

    def time(self, choice: Mapping[str, Any], best: float | None) -> Summary:
        """Seconds of a call; of one sample where that is hopeless.

        Args:
            best: seconds of the fastest so far.
        """
        calls, clock = self.calls(choice)
        clock.time(calls[:1])
        once = min(clock.time(calls[:1]) for _ in range(2))
        if best is not None and once > _HOPELESS * best:
            once = clock.time(calls) / len(calls)
            if once > _HOPELESS * best:
                return summarize([once])
        clock.time(calls)  # the first touch of a set's result and temporaries takes its own time
        return take(calls, clock, _SECONDS)

    def compare(self, choices: Sequence[Mapping[str, Any]]) -> list[Summary]:
        """Seconds of some choices, in turn: a clock that drifts is the same for all."""
        ready = [self.calls(choice) for choice in choices]
        counts = []
        events = all(isinstance(clock, DeviceClock) for _, clock in ready)
        rounds = _ROUNDS if events else _HOST_ROUNDS
        for calls, clock in ready:
            clock.time(calls)
            once = max(min(clock.time(calls[:1]) for _ in range(2)), 1e-7)
            counts.append(max(1, min(500, round(_SECONDS / rounds / once))))
        found: list[list[float]] = [[] for _ in choices]
        for turn in range(rounds):
            for (calls, clock), count, samples in zip(ready, counts, found, strict=True):
                chosen = [calls[(turn * count + one) % len(calls)] for one in range(count)]
                samples.append(clock.time(chosen) / count)
        return [summarize(samples) for samples in found]


def seconds_of(launch: Prepared) -> float:
    """Seconds of a launch: the median of some samples."""
    wait, stream = launch.waits()
    clock: Clock = HostClock(wait) if stream is None else DeviceClock(stream)
    return take([launch], clock, _SECONDS).median


def excess(artifacts: Sequence[Artifact], info: DeviceInfo, usual: Sequence[Artifact] = ()) -> str:
    """Why the compiler's report says that binaries are not worth a trial; nothing if it does not.

    Args:
        usual: those of the default, which may spill too.
    """
    spills = max((_spilled(one) for one in usual), default=0)
    for one in artifacts:
        if one.block[0] > info.max_threads_per_block:
            return f"a block has {one.block[0]} threads, the device {info.max_threads_per_block}"
        shared = one.shared_bytes + (one.resources.static_shared_bytes or 0)
        if 0 < info.max_shared_bytes < shared:
            return (
                f"a block needs {shared / 1024:.0f} KiB of shared memory, and there are "
                f"{info.max_shared_bytes / 1024:.0f}"
            )
        if _spilled(one) > spills:
            return f"spills {_spilled(one)} bytes or registers of a thread"
    return ""


def _spilled(one: Artifact) -> int:
    return max(one.resources.spilled_registers or 0, one.resources.local_bytes or 0)


def artifacts_of(requests: Sequence[CompileRequest], device: Device) -> list[Artifact]:
    """The binaries of a plan, compiled where they are not in the cache.

    Raises:
        XTargetError: one cannot be made.
    """
    info = device.info
    return [
        functions.artifact(
            one, info.target, bundled=True, options=info.compile_options, device=device
        )
        for one in requests
    ]


def _is_array(value: Any) -> bool:
    return value is not None and not is_scalar(value)


def _layouts(args: Sequence[Any]) -> list[Any]:
    return [view_of(one).type if _is_array(one) else None for one in args]


def _sample(array: Any) -> tuple[str, np.ndarray[Any, Any]]:
    """Some elements of a result, on the host, as numbers that NumPy compares, and their dtype."""
    dtype = view_of(array).type.dtype
    floating = DTYPES[dtype].kind == "f"
    if hasattr(array, "detach"):  # torch's; NumPy has no bfloat16
        array = array.detach().cpu()
        array = array.double() if floating else array
    values = np.asarray(array).ravel()
    values = values[:: max(1, -(-values.size // _COMPARED))]
    return dtype, values.astype(np.float64 if floating else values.dtype)


def _difference(mine: Any, right: Any) -> str:
    """The difference of two samples; empty if they are the same but for the order of sums."""
    (dtype, a), (_, b) = mine, right
    if a.shape != b.shape:
        return f"gives {a.size} elements where the default gives {b.size}"
    if a.dtype != np.float64:
        wrong = int((a != b).sum())
        return f"gives another result: {wrong} of {a.size} elements differ" if wrong else ""
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    same = np.isclose(a, b, 0, _SAME.get(dtype, 0.1) * largest, equal_nan=True)
    wrong = int((~same).sum())
    return f"gives another result: {wrong} of {a.size} elements differ" if wrong else ""
