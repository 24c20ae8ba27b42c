"""Calls on host arrays, on a device that cannot use them in place: what is copied there and back.

Where the device pins memory of the host, all arrays of a call go through one block of it, in one
copy to the device and one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from .._arrays import view_of
from .._values.errors import XTargetError
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets.base import Buffer, Device, Stream, Value
from ..targets.optional import PinnedBlock, PinsMemory
from .filling import Filling
from .staging import Staging, copy_in, copy_out, packed_bytes, read_back, side_by_side, write

__all__ = ["Pieces", "StagedRun", "overlapping"]

#: Bytes of a call's arrays, at most, that go through pinned memory: the run time's own copies of
#: more are faster for a thread alone. Where other threads copy at the same time, they are not.
_MOST_PINNED = 4 << 20
#: Whether the calls of this thread overlap with those of other threads that share their work.
overlapping: ContextVar[bool] = ContextVar("overlapping", default=False)


class StagedCall(Protocol):
    """The part of a bound call (`_launch.call.BoundCall`) that is needed here."""

    device: Device
    outputs: tuple[ArrayType, ...]
    pieces: Pieces | None
    filling: Filling

    def _outputs_of(self, out: Any, args: Sequence[Any]) -> list[Any]: ...

    def _add_outputs(
        self, values: list[Value], outputs: Sequence[Any], out: Any, order: Any
    ) -> None: ...

    def fill(self, addresses: Sequence[Any], stream: Stream) -> None: ...

    def _launch(self, values: list[Value], stream: Stream) -> None: ...


class StagedOrder(Protocol):
    """The same of the order that it is made in."""

    launch: Stream

    def hold(self, args: Sequence[Any], outputs: Sequence[Any]) -> None: ...

    def wait(self) -> None: ...


@value_class(frozen=True, slots=True)
class Pieces:
    """Where the arrays of a call lie in a block of pinned memory, and in one of the device.

    Attributes:
        inputs: index of the argument, where it begins, its bytes, and whether it is contiguous.
        outputs: where each result begins, and its bytes.
        sent: bytes that are copied to the device, from the first on.
        back: where what is copied back begins; `total`: nothing is.
    """

    inputs: tuple[tuple[int, int, int, bool], ...]
    outputs: tuple[tuple[int, int], ...]
    sent: int
    back: int
    total: int


class StagedRun(NamedTuple):
    """One call, with what it was given.

    Attributes:
        values: addresses of the arguments, and of what is given for the results.
    """

    call: StagedCall
    args: Sequence[Any]
    values: list[Value]
    out: Any
    order: StagedOrder
    staging: Staging

    def run(self) -> list[Any]:
        """Make the call; returns its results."""
        outputs = self._pinned()
        return self._apart() if outputs is None else outputs

    def _apart(self) -> list[Any]:
        """With a buffer and a copy for each array."""
        call, args, values, out, order, staging = self
        stream = order.launch
        buffers: list[Buffer] = []

        def alloc(nbytes: int) -> Buffer:
            return call.device.alloc(nbytes, stream)

        try:
            staged = [index for index, copied in enumerate(staging.inputs) if copied]
            for index in staged:
                view = view_of(args[index])
                buffers.append(alloc(packed_bytes(view)))
                write(buffers[-1], view, stream)
                values[index] = buffers[-1].address
            outputs = call._outputs_of(out, args)
            order.hold(args, () if staging.output else outputs)
            results: list[Buffer] = []
            if not staging.output:
                call._add_outputs(values, outputs, out, order)
            else:
                results = [alloc(type_.size * type_.itemsize) for type_ in call.outputs]
                del values[len(args) :]
                values += [buffer.address for buffer in results]
                for number, array in enumerate(outputs if staging.out_in else ()):
                    if not call.filling or call.filling.patterns[number] is None:
                        write(results[number], view_of(array), stream)
            call.fill(values[len(args) :], stream)
            call._launch(values, stream)
            for index, buffer in zip(staged, buffers, strict=True):
                if index in staging.updates:
                    read_back(buffer, args[index], stream)
            buffers += results
            for buffer, array in zip(results, outputs, strict=False):
                read_back(buffer, array, stream)
            return outputs
        finally:
            for buffer in buffers:
                buffer.close()

    def _pinned(self) -> list[Any] | None:
        """Copy, launch, copy back; None: it has to be done otherwise, and nothing was done."""
        device, stream = self.call.device, self.order.launch
        if not isinstance(device, PinsMemory):
            return None
        pieces = self.call.pieces
        if pieces is None:
            pieces = self.call.pieces = _pieces_of(self.call, self.args, self.staging)
        if pieces.total > _MOST_PINNED and not overlapping.get():
            return None
        block = device.pinned(pieces.total, stream)
        if block is None:
            return None
        try:
            outputs = self._through(pieces, block)
        except BaseException:
            with suppress(XTargetError):  # a lost device: nobody uses the block again
                stream.synchronize()
                block.close()
            raise
        block.close()
        return outputs

    def _through(self, pieces: Pieces, block: PinnedBlock) -> list[Any]:
        call, args, values, out, order, staging = self
        stream, count, pinned = order.launch, len(args), block.address
        given = values[count:]
        room = call.device.alloc(pieces.total, stream)
        try:
            first = room.address
            for index, at, nbytes, contiguous in pieces.inputs:
                copy_in(pinned + at, int(values[index]), nbytes, args[index], contiguous=contiguous)
                values[index] = first + at
            outputs = call._outputs_of(out, args)
            order.hold(args, () if staging.output else outputs)
            if staging.out_in:
                for array, (at, nbytes), address in zip(
                    outputs, pieces.outputs, given, strict=True
                ):
                    contiguous = view_of(array).type.contiguous
                    copy_in(pinned + at, int(address), nbytes, array, contiguous=contiguous)
            if pieces.sent:
                block.send(first, pieces.sent, stream)
            if staging.output:
                values[count:] = [first + at for at, _ in pieces.outputs]
            else:
                call._add_outputs(values, outputs, out, order)
            if pieces.back == pieces.total:  # nobody waits for the launch, only for the block
                stream.synchronize()
            call.fill(values[count:], stream)
            call._launch(values, stream)
            if pieces.back < pieces.total:
                block.receive(pieces.back, first + pieces.back, pieces.total - pieces.back, stream)
                order.wait()
                for index, at, nbytes, _ in pieces.inputs:
                    if index in staging.updates:
                        copy_out(pinned + at, nbytes, args[index])
                for array, (at, nbytes) in zip(outputs, pieces.outputs, strict=False):
                    copy_out(pinned + at, nbytes, array)
            return outputs
        finally:
            room.close()


def _pieces_of(call: StagedCall, args: Sequence[Any], staging: Staging) -> Pieces:
    staged = [index for index, copied in enumerate(staging.inputs) if copied]
    staged.sort(key=lambda index: index in staging.updates)  # those that come back are the last
    views = [view_of(args[index]) for index in staged]
    sizes = [packed_bytes(view) for view in views]
    results = [type_.size * type_.itemsize for type_ in call.outputs] if staging.output else []
    total, places = side_by_side([*sizes, *results])
    count = len(staged)
    inputs = tuple(
        (index, at, nbytes, view.type.contiguous)
        for index, at, nbytes, view in zip(staged, places, sizes, views, strict=False)
    )
    first_result = places[count] if results else total
    back = min([at for index, at, *_ in inputs if index in staging.updates], default=first_result)
    sent = total if staging.out_in else first_result
    outputs = tuple(zip(places[count:], results, strict=True))
    return Pieces(inputs, outputs, sent, back, total)
