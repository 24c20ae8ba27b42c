"""A bound call: what `run` replays. The launch path is this file and `_run`.

No disk, no Triton, no logging; what can be made once was made when the call was bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _env
from ._arrays import Kind, View, kind_of
from ._arrays.host import KIND as HOST
from ._device_array import host_view
from ._errors import ArgumentError
from .spec import ArrayType, Plan, ScalarType
from .targets.base import Buffer, Capturable, Device, PreparedLaunch, Stream, Value

__all__ = ["BoundCall", "BoundLaunch", "Staging"]


@dataclass(frozen=True, slots=True)
class BoundLaunch:
    """One prepared launch.

    Attributes:
        prepared: takes the dynamic values in the entry's order.
        order: for each dynamic value, its place in the call's values; -1, -2... are scratch.
        scratch: sizes of the global memory that the entry wants from us, bytes.
    """

    prepared: PreparedLaunch
    order: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Staging:
    """Which arguments are copied from the host to the device, and whether the result is copied
    back to the host."""

    inputs: tuple[bool, ...]
    output: bool


class BoundCall:
    """A call that only lacks addresses, the values of scalars, and a stream.

    Attributes:
        direct: the prepared launch, for calls that are nothing but one launch whose values are
            the arguments and `out` in their order; else None.
        current_stream: how to ask for the caller's stream when all arrays are of one library.
        synchronous: all arrays are the host's, so the result must be there when `run` returns.
        chosen_by: what `XTARGET_DEVICE` was when the device was chosen.
    """

    __slots__ = (
        "_arrays",
        "_checks",
        "_launches",
        "_out_span",
        "chosen_by",
        "current_stream",
        "device",
        "direct",
        "kind",
        "like",
        "name",
        "plan",
        "staging",
        "synchronous",
    )

    def __init__(
        self,
        *,
        name: str,
        device: Device,
        plan: Plan,
        launches: tuple[BoundLaunch, ...],
        views: Sequence[View | None],
        out_type: ArrayType | None,
        types: Sequence[ArrayType | ScalarType],
        staging: Staging | None,
    ) -> None:
        self.name, self.device, self.plan, self.staging = name, device, plan, staging
        self._launches = launches
        self.chosen_by = _env.default_device()
        self._arrays = tuple(index for index, view in enumerate(views) if view is not None)
        kinds: set[Kind] = {view.kind for view in views if view is not None}
        # results are of the first array's library and lie where it lies; with arrays on the device
        # and on the host, the first on the device
        first = [i for i in self._arrays if views[i].place is not None] or list(self._arrays)  # type: ignore[union-attr]
        self.like = first[0] if first else None
        self.kind: Kind = HOST if self.like is None else views[self.like].kind  # type: ignore[union-attr]
        self.synchronous = all(view is None or view.place is None for view in views)
        self.current_stream: Callable[[], Stream | None] | None = None
        if len(kinds) == 1:
            self.current_stream = next(iter(kinds)).stream_source(device)
        # bytes around the first element, to see overlaps by address alone
        self._out_span = None if out_type is None else _byte_span(out_type)
        self._checks = tuple(
            (index, *_byte_span(type_))
            for index, type_ in enumerate(types)
            if isinstance(type_, ArrayType)
            and type_.size
            and out_type is not None
            and out_type.size
        )
        self.direct: PreparedLaunch | None = None
        if (
            len(launches) == len(plan.outputs) == 1
            and not (plan.temporaries or launches[0].scratch or staging)
            and launches[0].order == tuple(range(len(types) + 1))
        ):
            self.direct = launches[0].prepared

    def check_overlap(self, values: Sequence[Any]) -> None:
        """Refuse an `out`, whose address is the last of `values`, that shares memory with an input.

        Raises:
            ArgumentError: it does.
        """
        below, above = self._out_span  # type: ignore[misc]
        out = values[-1]
        low, high = out + below, out + above
        for index, below, above in self._checks:
            address = values[index]
            if low < address + above and address + below < high:
                raise ArgumentError(
                    f"{self.name}: out overlaps argument {index + 1} in memory, so elements could "
                    "be overwritten before they are read. Give an out of its own."
                )

    def run(self, args: Sequence[Any], values: list[Value], out: Any, stream: Stream | None) -> Any:
        """Replay the call.

        Args:
            args: the caller's arguments.
            values: their addresses (of scalars: their values), and that of `out` when given.
            out: the caller's `out`, or None.
            stream: where to launch; None is where the caller's own work goes.
        """
        if out is not None:
            self.check_overlap(values)
        order = _Order(self, args, stream)
        if self.staging is not None:
            outputs = self._run_staged(args, values, out, order, self.staging)
        else:
            outputs = [out] if out is not None else self._new_outputs(args)
            order.allocated(outputs)
            if out is None:
                values += [kind_of(array).describe(array)[0] for array in outputs]
            self._launch(values, order.launch)
        order.finish(outputs if out is None else ())
        finish = getattr(self.kind, "finish", None)  # kinds that can only take arrays in
        if out is None and finish is not None and self.like is not None:
            outputs = [finish(array, args[self.like]) for array in outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    # ------------------------------------------------------------------------------- launching

    def _launch(self, values: list[Value], stream: Stream) -> None:
        buffers: list[Buffer] = []
        try:
            for temporary in self.plan.temporaries:
                buffers.append(self._alloc(temporary, stream))
                values.append(buffers[-1].address)
            for launch in self._launches:
                scratch = [self.device.alloc(nbytes, stream) for nbytes in launch.scratch]
                buffers += scratch
                dynamic = [values[i] if i >= 0 else scratch[-1 - i].address for i in launch.order]
                launch.prepared(dynamic, stream)
        finally:
            for buffer in buffers:
                buffer.close()

    def _alloc(self, type_: ArrayType, stream: Stream) -> Buffer:
        return self.device.alloc(type_.size * type_.itemsize, stream)

    def _run_staged(
        self, args: Sequence[Any], values: list[Value], out: Any, order: _Order, staging: Staging
    ) -> list[Any]:
        """Host data on a device that cannot use it in place: copy there, launch, copy back."""
        stream = order.launch
        buffers: list[Buffer] = []
        try:
            for index, staged in enumerate(staging.inputs):
                if staged:
                    packed = _packed(kind_of(args[index]).view(args[index]))
                    buffers.append(self.device.alloc(packed.nbytes, stream))
                    if packed.nbytes:
                        buffers[-1].write(packed.reshape(-1).view(np.uint8).data, stream)
                    values[index] = buffers[-1].address
            outputs = [out] if out is not None else self._new_outputs(args)
            if not staging.output:
                order.allocated(outputs)
                if out is None:
                    values += [kind_of(array).describe(array)[0] for array in outputs]
                self._launch(values, stream)
                return outputs
            results = [self._alloc(type_, stream) for type_ in self.plan.outputs]
            buffers += results
            del values[len(args) :]
            values += [buffer.address for buffer in results]
            self._launch(values, stream)
            for buffer, array, type_ in zip(results, outputs, self.plan.outputs, strict=True):
                _read_back(buffer, array, type_, stream)
            return outputs
        finally:
            for buffer in buffers:
                buffer.close()

    # --------------------------------------------------------------------------------- results

    def new_output(self, type_: ArrayType, args: Sequence[Any]) -> Any:
        """An array for a result, of the library and at the place of the arguments."""
        return self.kind.empty(type_, self.device, None if self.like is None else args[self.like])

    def _new_outputs(self, args: Sequence[Any]) -> list[Any]:
        return [self.new_output(type_, args) for type_ in self.plan.outputs]


class _Order:
    """Order a launch after the caller's work, and the caller's later work after the launch."""

    __slots__ = ("_captured", "call", "explicit", "launch", "others")

    def __init__(self, call: BoundCall, args: Sequence[Any], stream: Stream | None) -> None:
        self.call, self.explicit = call, stream is not None
        self.others: list[Stream] = []
        self._captured: bool | None = None
        current = self._streams([args[index] for index in call._arrays])
        if stream is not None:
            self.launch = stream
        else:
            self.launch = current[0] if current else call.device.default_stream
        self._wait_for(current)

    def _streams(self, arrays: Sequence[Any]) -> list[Stream]:
        """The streams that work on these arrays goes to. Where the caller chose a stream, only
        those of kinds that know theirs: with other libraries the caller keeps the order."""
        found: list[Stream] = []
        for array in arrays:
            kind = kind_of(array)
            if not self.explicit or kind.tracks_streams:
                theirs = kind.current_stream(self.call.device, array)
                if theirs is not None and theirs not in found:
                    found.append(theirs)
        return found

    def _wait_for(self, streams: Sequence[Stream]) -> None:
        for other in streams:
            if other is not self.launch and other not in self.others and not self._in_capture():
                self.launch.wait(other.record())
                self.others.append(other)

    def _in_capture(self) -> bool:
        """The launch becomes part of a graph, which no stream outside of it can be in order with:
        when the graph runs is the caller's to decide."""
        if self._captured is None:
            self._captured = isinstance(self.launch, Capturable) and self.launch.capturing()
        return self._captured

    def allocated(self, outputs: Sequence[Any]) -> None:
        """The launch writes these; their memory is ready where their kind allocated it."""
        if not self.call.synchronous:
            self._wait_for(self._streams(outputs))

    def finish(self, outputs: Sequence[Any]) -> None:
        if self.call.synchronous:
            self.launch.synchronize()
            return
        for array in outputs if self.explicit else ():
            keep = getattr(kind_of(array), "keep", None)
            if keep is not None:
                keep(array, self.launch)
        for other in self.others:
            other.wait(self.launch.record())


def _byte_span(type_: ArrayType) -> tuple[int, int]:
    low, high = type_.span
    return low * type_.itemsize, high * type_.itemsize


def _packed(view: View) -> np.ndarray[Any, Any]:
    """A host array without its broadcast dimensions, C-contiguous."""
    values = host_view(view.address, view.type, view.owner)
    part = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in view.type.strides)]
    return np.ascontiguousarray(part).reshape(part.shape)


def _read_back(buffer: Buffer, array: Any, type_: ArrayType, stream: Stream) -> None:
    """Copy a result from the device into a host array of any layout."""
    if not type_.size:
        return
    view = kind_of(array).view(array)
    target = host_view(view.address, view.type, view.owner)
    direct = view.type.contiguous
    packed = target if direct else np.empty(type_.shape, target.dtype)
    buffer.read(packed.reshape(-1).view(np.uint8).data, stream)
    if not direct:
        target[...] = packed
