"""Calls as the steps of a graph: launches, their memory, and what a replay has to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._arrays import FinishesOutputs, Movable, TracksWrites, adopt, kind_of
from .._arrays.device_array import Array
from .._values.errors import ArgumentError
from ..spec import ArrayType, contiguous_strides
from ..targets.base import Device, Stream
from ..targets.optional import Capturable
from .call import BoundCall
from .checked_indices import IndexCheck
from .filling import Filling
from .graph_memory import GraphMemory, Piece
from .lookup import Found, kind_if_array
from .outs import counts_later
from .staging import fill

__all__ = ["Recording"]

_Step = Callable[[Stream], None]


class Recording:
    """The calls of a graph.

    Attributes:
        steps: what starts them, in their order.
        launches: how many kernels these are.
        memory: of results and temporaries.
        arrays: arguments and results, by `id`; each with its call and its name there.
        written: tells the arrays' libraries that a replay writes to them.
        consents: what the arrays' libraries have to say before a replay.
        synchronous: a replay is complete when it returns: host arrays are used in place.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.steps: list[_Step] = []
        self.launches = 0
        self.memory = GraphMemory(device)
        self.arrays: dict[int, tuple[Any, str]] = {}
        self.written: dict[int, Callable[[], None]] = {}
        self.consents: dict[Callable[..., None], None] = {}
        self.synchronous = False
        self._made = False

    def add(self, kernel: str, found: Found) -> Any:
        """Record a call.

        Returns:
            what the call returns; results are computed by each replay.

        Raises:
            ArgumentError: it cannot be part of this graph.
            OutOfMemoryError: there is no memory for its results.
        """
        call = found.call
        self._check(kernel, call)
        for update in call._updates:
            update.prepare(kernel, found.arrays, found.all_values)
        values, made = list(found.all_values), []
        if found.out is None:
            made = [self._result(call, type_, found.args) for type_ in call.outputs]
            adopted = [adopt(array) for array in made]
            values += [kind_of(array).describe(array)[0] for array in adopted]
        else:
            adopted = list(found.arrays[len(found.args) :])
        self._note(kernel, found, adopted)
        self._fill(call.outputs, values[len(found.args) :], call.filling)
        self._launch(call, values)
        kind = call.kind
        if isinstance(kind, FinishesOutputs) and call.like is not None:
            made = [kind.finish(array, found.args[call.like]) for array in made]
        if found.out is not None:
            return found.out
        return made[0] if len(made) == 1 else tuple(made) or None

    def _check(self, kernel: str, call: BoundCall) -> None:
        here, name = self.device.info.name, call.device.info.name
        if call.device is not self.device:
            raise ArgumentError(
                f"{kernel} would run on {name}, and what is captured is a graph of {here}. Give it "
                f"arrays on {here}, or call it outside of xtarget.capture."
            )
        if call._counts:
            raise counts_later(kernel)
        if call.staging is not None:
            raise ArgumentError(
                f"{kernel}: host arrays cannot be part of a graph of {here}, which would have to "
                "copy them at each replay. Put them there before: "
                f'xtarget.asarray(a, device="{here}").'
            )

    def _result(self, call: BoundCall, type_: ArrayType, args: tuple[Any, ...]) -> Any:
        like = None if call.like is None else args[call.like]
        if not isinstance(like, Array):
            return call.new_output(type_, args)
        type_ = ArrayType(type_.dtype, type_.shape, contiguous_strides(type_.shape))
        piece = self.memory.piece(type_.size * type_.itemsize)
        self._made = True
        return Array(piece, self.device, type_, piece.address, self.device.default_stream)

    def _note(self, kernel: str, found: Found, outputs: list[Any]) -> None:
        call = found.call
        self.synchronous |= call.synchronous
        consents = [one for one in call.consents if type(one) is not IndexCheck]
        self.consents.update(dict.fromkeys(consents))
        for number, value in enumerate(found.args, 1):
            if kind_if_array(value) is not None:
                self._keep(value, f"argument {number} of {kernel}")
        for array in outputs:
            kind = kind_of(array)
            self._keep(array, f"the result of {kernel}")
            if isinstance(kind, TracksWrites) and not self._made_here(array):
                self.written[id(array)] = partial(kind.written, array)
        for index, written in call.updated:
            array = found.arrays[index]
            if written is not None and not self._made_here(array):
                self.written[id(array)] = partial(written, array)

    def _keep(self, array: Any, name: str) -> None:
        if not self._made_here(array):
            self.arrays.setdefault(id(array), (array, name))

    def _made_here(self, array: Any) -> bool:
        """The graph has its memory already, to use it again when the array is dropped."""
        buffer = array._buffer if isinstance(array, Array) else None
        return isinstance(buffer, Piece) and buffer.memory is self.memory

    def _fill(self, types: Sequence[ArrayType], addresses: Sequence[Any], filling: Filling) -> None:
        for address, type_, pattern in zip(addresses, types, filling.patterns, strict=False):
            if pattern is not None and type_.size:
                nbytes = type_.size * type_.itemsize
                self.steps.append(partial(fill, self.device, address, nbytes, pattern))

    def _launch(self, call: BoundCall, values: list[Any]) -> None:
        temporaries = [
            self.memory.piece(type_.size * type_.itemsize) for type_ in call._temporaries
        ]
        addresses = [piece.address for piece in temporaries]
        self._fill(call._temporaries, addresses, call.clearing)
        values = values + addresses
        for launch in call._launches:
            scratch = [self.memory.piece(nbytes) for nbytes in launch.scratch]
            given = tuple([values[i] if i >= 0 else scratch[-1 - i].address for i in launch.order])
            self.steps.append(partial(launch.prepared, given))
            self.launches += 1
            for piece in scratch:
                piece.close()
        for piece in temporaries:
            piece.close()

    # ------------------------------------------------------------------------------ for replays

    def places(self) -> list[tuple[Callable[[], int], int, str]]:
        """For each array: a function that gives its address, the recorded address, and its name."""
        found = []
        for array, name in self.arrays.values():
            kind = kind_of(array)
            if isinstance(kind, Movable):
                found.append((kind.address_now(array), kind.describe(array)[0], name))
        return found

    def streams(
        self,
    ) -> tuple[list[Callable[[], Stream | None]], list[Callable[[], Stream | None]]]:
        """Functions that give the streams of the caller's work on the arrays: streams of libraries
        that have one for all their arrays, and streams of arrays that know their own."""
        shared: dict[Any, Callable[[], Stream | None]] = {}
        own: dict[Any, Callable[[], Stream | None]] = {}
        for array, _ in self.arrays.values():
            kind = kind_of(array)
            if kind in shared:
                continue
            source = None if kind.tracks_streams else kind.stream_source(self.device)
            if source is not None:
                shared[kind] = source
            else:
                key = kind, id(kind.current_stream(self.device, array))
                own.setdefault(key, partial(kind.current_stream, self.device, array))
        if self._made:  # results' own stream
            own["results"] = lambda: self.device.default_stream
        return list(shared.values()), list(own.values())

    def settle(self) -> None:
        """Wait for what earlier work does in the memory of the new results: a replay goes to any
        stream."""
        shared, own = self.streams()
        found = [source() for source in (*shared, *own)]
        for stream in {id(one): one for one in (*found, self.device.default_stream)}.values():
            if stream is not None and not (isinstance(stream, Capturable) and stream.capturing()):
                stream.synchronize()
