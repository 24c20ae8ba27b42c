"""A bound call: what `run` replays. The launch path is this file and `_launch.run`.

No disk, no Triton, no logging; what can be made once was made when the call was bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .._arrays import (
    AdoptedKind,
    Allocates,
    ChecksCalls,
    Kind,
    LibraryMemory,
    TracksWrites,
    View,
    adopt,
    kind_of,
)
from .._arrays.host import KIND as HOST
from .._values import environment
from .._values.errors import ArgumentError
from ..spec import ArrayType
from ..targets.base import Buffer, Device, PreparedLaunch, Stream, Value
from .chains import Chain
from .filling import Filling
from .interrupts import settle, unfinished
from .order import Order
from .outs import Outs, check_may_count, counted
from .overlap import Overlaps
from .sized import BoundLaunch, Sized, picking
from .staged_calls import Pieces, StagedRun
from .staging import Staging, side_by_side
from .updates import Update

__all__ = ["BoundCall", "device_text"]

device_text = environment.device_reader()


class BoundCall:
    """A call that only lacks addresses, the values of scalars, and a stream.

    Attributes:
        direct: what launches, for calls with one result that are launches alone: it takes the
            values of the arguments and of `out` in their order; else None.
        start: the same of all calls that are launches alone, whatever they write.
        launches_only: it is launches alone, with any number of results, and what is filled before
            them: nothing is copied or counted.
        takes: how many values it has: those of the arguments, and of the outputs.
        filling: what the outputs are filled with before the launches.
        clearing: what the temporaries are.
        current_stream: how to ask for the caller's stream when all arrays are of one library.
        synchronous: all arrays are the host's, or one is used in place there, so the launch must be
            complete when `run` returns.
        chosen_by: what `device_text` said when the device was chosen.
        checks: each tells whether the values that a kernel was compiled with are still there.
        consents: what the arrays' libraries have to say before each launch, and the check of
            indices.
        written: tells the library of `out` that it is written to; None: it does not ask.
        pieces: where what is copied to the device lies, once that was asked.
    """

    def __init__(
        self,
        *,
        name: str,
        device: Device,
        sized: Sized,
        views: Sequence[View | None],
        out_view: View | None,
        staging: Staging | None,
        out_views: Sequence[View] = (),
        fills: tuple[bytes | None, ...] = (),
        cleared: tuple[bytes | None, ...] = (),
        counts: tuple[int | None, ...] = (),
        updates: tuple[int, ...] = (),
        against: Sequence[tuple[int, bool]] = (),
        checks: tuple[Callable[[], bool], ...] = (),
        index_check: Callable[[Sequence[Any], Any], None] | None = None,
    ) -> None:
        """Bind.

        Args:
            fills: by output, the pattern that it is filled with before the launches; None: it stays
                as it is.
            out_views: the caller's arrays for several outputs.
            cleared: by temporary, the same.
            counts: by new output, the one that says how many leading entries of it are the result.
            updates: arguments that are written in place; after them, `out_views`.
            against: arrays that `out` must not overlap, and whether it may be the array itself.
            index_check: what is called before each launch with the arguments and `out`.
        """
        self.checks = checks
        self._counts = counts if any(index is not None for index in counts) else ()
        given = [*views, *out_views]
        self.name, self.device, self.staging = name, device, staging
        asked = {view.kind for view in (*given, out_view) if view is not None}
        consents = [kind.check_call for kind in asked if isinstance(kind, ChecksCalls)]
        self.consents = tuple(consents if index_check is None else [*consents, index_check])
        self.written: Callable[[Any], None] | None = None
        if out_view is not None and isinstance(out_view.kind, TracksWrites):
            self.written = out_view.kind.written
        self.chosen_by = device_text()
        self._adopts = any(v is not None and isinstance(v.kind, AdoptedKind) for v in views)
        self._on_device = tuple(i for i, v in enumerate(views) if v is not None and v.place)
        arrays = {index: view for index, view in enumerate(views) if view is not None}
        self._arrays = tuple(arrays)
        # results are of the first array's library and lie where it lies; with arrays on the device
        # and on the host, the first on the device
        first = [i for i, view in arrays.items() if view.place is not None] or list(arrays)
        self.like = first[0] if first else None
        self.kind: Kind = HOST if self.like is None else arrays[self.like].kind
        on_host = [v.place is None for v in (*given, out_view) if v is not None]
        in_place = device.info.host_memory and any(on_host)  # a host array may go at any time
        self.synchronous = in_place or all(v is None or v.place is None for v in views)
        # the host's arrays are waited for, so that only views of a device's may be in use still
        at_once = device.info.host_memory and all(on_host)
        given_out = out_view is not None or len(out_views) > 0
        self.filling = Filling(device, fills, at_once=at_once, waits=given_out)
        self.clearing = Filling(device, cleared, at_once=at_once)
        self.current_stream: Callable[[], Stream | None] | None = None
        self._tracks_streams = False
        if len(asked) == 1 and self.like is not None:
            self.current_stream = self.kind.stream_source(device)
            self._tracks_streams = self.current_stream is None and self.kind.tracks_streams
        lies = self.like is not None and self.like in self._on_device
        self._allocates = self.kind if lies and isinstance(self.kind, Allocates) else None
        self._against = tuple(against)
        #: By place in the values: what is written in place, and what tells its library so.
        self.updated = tuple(
            (index, kind.written if isinstance(kind, TracksWrites) else None)
            for index in updates
            for kind in [given[index].kind]  # type: ignore[union-attr]  # only arrays are written
        )
        self.takes = len(views) + len(sized.outputs)
        self.launches_only = len(sized.launches) > 0 and not (staging or self._counts)
        self._short = self.launches_only and len(sized.outputs) == 1 and not updates
        self.alone = (
            self.launches_only
            and len(sized.launches) == 1
            and not (sized.temporaries or sized.launches[0].scratch or self.filling)
        )
        self._plain = self.alone and sized.launches[0].order == tuple(range(self.takes))
        self._size(sized)

    def _size(self, sized: Sized) -> None:
        self.outputs, self._temporaries = sized.outputs, sized.temporaries
        self._launches, self.spans = sized.launches, sized.spans
        self._sizes = [type_.size * type_.itemsize for type_ in sized.outputs]
        sizes = [type_.size * type_.itemsize for type_ in sized.temporaries]
        sizes += [nbytes for launch in sized.launches for nbytes in launch.scratch]
        self._pieces = sizes
        self._room, self._at = side_by_side(sizes) if sizes else (0, ())
        self.pieces: Pieces | None = None
        self._check_against(sized.overlaps)
        self._updates = tuple(
            Update(index, written, sized.spans) for index, written in self.updated
        )
        self.start = self._starting()
        self.direct = self.start if self._short else None

    def _starting(self) -> PreparedLaunch | None:
        if self._plain:
            return self._launches[0].prepared
        if self.alone:  # numbers in another order, or arrays left out
            return picking(self._launches[0])
        return Chain(self.unchained()) if self.launches_only else None

    def _check_against(self, overlaps: Sequence[tuple[int, int, Overlaps]]) -> None:
        self._checks = tuple(
            [
                (index, low, high, shared, in_place)
                for (index, in_place), (low, high, shared) in zip(
                    self._against, overlaps, strict=True
                )
            ]
        )

    def copy(self) -> BoundCall:
        other = object.__new__(BoundCall)
        other.__dict__ = self.__dict__.copy()
        return other

    def resized(self, sized: Sized) -> BoundCall:
        """The same call for other sizes and strides."""
        other = self.copy()
        other._size(sized)
        return other

    def launches_any(self, functions: Collection[int]) -> bool:
        """Args:
        functions: the `id` of each.
        """
        return any(id(launch.function) in functions for launch in self._launches)

    def unloaded(self) -> BoundCall:
        """The same call without its launches."""
        other = self.copy()
        other._launches, other.start, other.direct = (), None, None
        return other

    def unchained(self) -> BoundCall:
        """The same call without `start`, for what launches it: no object knows itself."""
        other = self.copy()
        other.start = other.direct = None
        return other

    @property
    def plain(self) -> bool:
        """Nothing but one launch, which takes the arguments and the outputs in their order."""
        return self._plain

    def with_launch(
        self,
        launch: BoundLaunch,
        outputs: tuple[ArrayType, ...],
        overlaps: Sequence[tuple[int, int, Overlaps]],
        spans: Mapping[int, tuple[int, int]],
    ) -> BoundCall:
        """The same call for other sizes and strides, as `resized` would make it.

        Args:
            launch: all that it takes, temporaries and filling included.
        """
        other = self.copy()
        other.outputs, other._launches, other.start = outputs, (launch,), launch.prepared
        other.direct = launch.prepared if self._short else None
        other._temporaries = ()
        other._room, other._at = 0, ()
        other.filling = Filling(other.device, ())
        other.spans = spans
        other._check_against(overlaps)
        other._updates = tuple(Update(index, written, spans) for index, written in self.updated)
        return other

    def one_stream(self, args: Sequence[Any], out: Any) -> Stream | None:
        """The stream of all arrays where each knows its own; None: there is no such stream."""
        if not self._tracks_streams or out is None:
            return None
        current_stream, device = self.kind.current_stream, self.device
        found = current_stream(device, out)
        for index in self._arrays:
            if current_stream(device, args[index]) is not found:
                return None
        return found

    def check_overlap(self, values: Sequence[Any]) -> None:
        """Refuse an `out`, whose address is the last of `values`, that shares memory with an input;
        it may be the input itself where each element is made of those at its own place.

        Raises:
            ArgumentError: it does.
        """
        out = values[-1]
        for index, low, high, overlaps, in_place in self._checks:
            distance = values[index] - out
            if low < distance < high and (distance or not in_place) and overlaps.at(distance):
                raise ArgumentError(
                    f"{self.name}: out overlaps argument {index + 1} in memory, so elements could "
                    "be overwritten before they are read. Give an out of its own."
                )

    def check_updates(self, arrays: Sequence[Any], values: Sequence[Any]) -> None:
        """Refuse what is written in place and shares memory with another array.

        Args:
            arrays: the arguments, and the arrays for several outputs.

        Raises:
            ArgumentError: it does.
        """
        for update in self._updates:
            update.check(self.name, arrays, values)

    def run(self, args: Sequence[Any], values: list[Value], out: Any, stream: Stream | None) -> Any:
        """Replay the call.

        Args:
            args: the caller's arguments.
            values: their addresses (of scalars: their values), and that of `out` when given.
            out: the caller's `out`, or None.
            stream: where to launch; None is where the caller's own work goes.
        """
        given = args
        if type(out) is Outs:
            addresses: Any = values.pop()
            values += addresses
            given = (*args, *out)
        for update in self._updates:
            update.prepare(self.name, given, values)
        order = Order(self, args, stream)
        if self._counts and out is None:
            check_may_count(self.name, order.launch)
        try:
            if self.staging is not None:
                outputs = StagedRun(self, args, values, out, order, self.staging).run()
            else:
                outputs = self._outputs_of(out, args)
                order.hold(args, outputs)
                self._add_outputs(values, outputs, out, order)
                self.fill(values[len(args) :], order.launch)
                self._launch(values, order.launch)
            order.finish()
        except BaseException as error:  # its traceback holds what the work uses
            unfinished.append(entry := [order.launch, args, out, error])
            settle(entry)
            raise
        finish = getattr(self.kind, "finish", None)  # kinds that can only take arrays in
        if out is None and finish is not None and self.like is not None:
            outputs = [finish(array, args[self.like]) for array in outputs]
        if self._counts and out is None:
            outputs = counted(outputs, self._counts, order.launch)
        if type(out) is Outs:
            return out
        if len(outputs) == 1:
            return outputs[0]
        return tuple(outputs) if outputs else None

    def _outputs_of(self, out: Any, args: Sequence[Any]) -> list[Any]:
        if out is None:
            return self._new_outputs(args)
        return list(out) if type(out) is Outs else [out]

    def hold(
        self, args: Sequence[Any], outputs: Sequence[Any], stream: Stream, *, explicit: bool
    ) -> list[Any]:
        """Tell the arrays' libraries that the stream uses them; those that cannot be told are
        returned, to be kept.

        Args:
            explicit: the stream is the caller's choice, not the one that the arrays' library uses.
        """
        kept = []
        for array in (*(args[index] for index in self._on_device), *outputs):
            adopted = adopt(array)
            kind = kind_of(adopted)
            if isinstance(kind, AdoptedKind):
                kept.append(adopted)  # nobody knows when its library gives the memory away
            elif explicit and not kind.tracks_streams:
                current = kind.current_stream(self.device, adopted)
                if current is not None and current is not stream:
                    tell = getattr(kind, "keep", None)
                    if tell is None or not tell(adopted, stream):
                        kept.append(array)
        return kept

    def _add_outputs(
        self, values: list[Value], outputs: Sequence[Any], out: Any, order: Order
    ) -> None:
        adopted = [adopt(array) for array in outputs]
        order.allocated(adopted, new=out is None)
        if out is None:
            values += [kind_of(array).describe(array)[0] for array in adopted]

    # ------------------------------------------------------------------------------- launching

    def fill(self, addresses: Sequence[Any], stream: Stream) -> None:
        """Set outputs to what they shall begin as."""
        self.filling.fill(addresses, self._sizes, stream)

    def _launch(self, values: list[Value], stream: Stream) -> None:
        room = self.memory(self._room, stream) if self._at else None
        try:
            if room is not None:
                places = [room.address + at for at in self._at]
                values += places
                self.clearing.fill(places, self._pieces, stream)
            self.launch_from(0, values, stream)
            self.done_with(room, stream)
        finally:
            if room is not None:
                room.close()

    def done_with(self, room: Buffer | LibraryMemory | None, stream: Stream) -> None:
        """Wait for launches on host memory, which the call does anyway, and give their memory back:
        a mark in the queue for it would hand them over to other threads."""
        give_back = getattr(room, "give_back", None)  # GivesBack, quicker than by isinstance
        if give_back is not None and self.synchronous and self.device.info.host_memory:
            stream.synchronize()
            give_back()

    def launch_from(self, first: int, values: Sequence[Value], stream: Stream) -> None:
        """Start the launches from one on.

        Args:
            values: of the call, and the pieces of memory that the launches alone use.
        """
        scratch = self.takes + len(self._temporaries) - 1
        for number, launch in enumerate(self._launches):
            if number >= first:
                dynamic = [values[i] if i >= 0 else values[scratch - i] for i in launch.order]
                launch.prepared(dynamic, stream)
            scratch += len(launch.scratch)

    def memory(self, nbytes: int, stream: Stream) -> Buffer | LibraryMemory:
        """Memory for a launch only: of the arrays' library, where that has some for this stream."""
        found = None
        if nbytes and self._allocates is not None:
            found = self._allocates.memory(self.device, nbytes, stream)
        return self.device.alloc(nbytes, stream) if found is None else found

    # --------------------------------------------------------------------------------- results

    def new_output(self, type_: ArrayType, args: Sequence[Any]) -> Any:
        """An array for a result, of the library and at the place of the arguments."""
        return self.kind.empty(type_, self.device, None if self.like is None else args[self.like])

    def _new_outputs(self, args: Sequence[Any]) -> list[Any]:
        return [self.new_output(type_, args) for type_ in self.outputs]
