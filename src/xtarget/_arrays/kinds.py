"""The contract of a kind of arrays: how they are read and made, and what a library may offer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from .._values.types import DeviceInfo
from .._values.value_classes import value_class
from ..spec import ArrayType
from ..targets.base import Device, Stream


@value_class(frozen=True, slots=True)
class View:
    """One array as a launch sees it.

    Attributes:
        kind: the library it belongs to.
        owner: the array; keeps the memory alive.
        address: of the first element.
        type: dtype, shape, strides.
        place: name of the device it lies on; None for host memory.
        writable: may be an output.
    """

    kind: Kind
    owner: Any
    address: int
    type: ArrayType
    place: str | None
    writable: bool = True


class Kind(Protocol):
    """The properties of an array library that xtarget needs."""

    @property
    def name(self) -> str:
        """For messages: `NumPy`, `torch`."""
        ...

    @property
    def tracks_streams(self) -> bool:
        """An array knows the stream that its own work goes to, whatever is current."""
        ...

    def describe(self, array: Any) -> tuple[int, Hashable]:
        """Address and a key: arrays with equal keys can use the same plan (dtype, shape, strides,
        place, 16-byte alignment). On the launch path: as short as it can be.

        The key holds all that `view` looks at, or this checks it for every array: what `view`
        refuses is refused here too, whatever was seen before.

        Raises:
            ArgumentError: `view` would refuse the array.
        """
        ...

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None] | None:
        """Take a key of `describe` apart.

        Returns:
            what is neither sizes nor strides, the shape, and the strides in elements: None for a
            contiguous array. None alone where the strides are not of whole elements.
        """
        ...

    def view(self, array: Any) -> View:
        """Read address, layout and device of an array.

        Raises:
            ArgumentError: an array that kernels cannot use (sparse, complex, on an unknown device).
        """
        ...

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        """The stream that the library's own work on `array` goes to at the moment; None: it has
        none and its arrays are ready."""
        ...

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        """Return a function that gives the current stream of all arrays on a device.

        It is for the launch path. Return None if each array has its own stream."""
        ...

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        """A new C-contiguous array, uninitialised, where `like` lies: an array of this kind, or
        None for `device` (host kinds: host memory)."""
        ...


@runtime_checkable
class ChecksCalls(Protocol):
    """A kind whose library can refuse a launch."""

    def check_call(self, args: Sequence[Any], out: Any) -> None:
        """Before each launch, with the call's arguments (numbers included) and its `out` or None.

        Raises:
            ArgumentError: the library is recording what it computes, and would not see the launch.
        """
        ...


@runtime_checkable
class TracksWrites(Protocol):
    """A kind whose library counts the writes to its arrays."""

    def written(self, array: Any) -> None:
        """A launch writes to the array, which is the caller's."""
        ...


@runtime_checkable
class Traced(Protocol):
    """A kind whose library traces Python code."""

    def opaque(self, function: Any) -> None:
        """Let the library call a function without tracing it."""
        ...


@runtime_checkable
class Movable(Protocol):
    """A kind whose arrays can get other memory while they are held."""

    def address_now(self, array: Any) -> Callable[[], int]:
        """The function that gives the array's address before each launch prepared with it.

        It raises an ArgumentError where the array cannot be used any more."""
        ...


@runtime_checkable
class MakesNatively(Protocol):
    """A kind whose arrays can be made without code of Python's, for the compiled core."""

    def maker(self, dtype: str, place: DeviceInfo | None) -> Callable[[tuple[int, ...]], Any]:
        """The function that makes an array of a shape as `empty` does, on a device or the host."""
        ...


@runtime_checkable
class AllocatesInC(Protocol):
    """A kind whose library has an interface in C that makes arrays, for the compiled core."""

    def place_in_c(self, dtype: str, place: DeviceInfo | None) -> tuple[int, int, int] | None:
        """The library's codes of a dtype, of the kind of a device (None: host memory) and of its
        number; None: it has no such function."""
        ...


@runtime_checkable
class PointsToStream(Protocol):
    """A kind whose library tells the driver's handle of its stream, for the compiled core."""

    def stream_object(self, device: Device) -> Callable[[], Any]:
        """The function that gives an object that has the handle of the current stream as `ptr`."""
        ...


@runtime_checkable
class FinishesOutputs(Protocol):
    """A kind whose library can import arrays but not allocate them: outputs are made as arrays of
    another kind first."""

    def finish(self, array: Any, like: Any) -> Any:
        """Turn an output into an array of the library of the argument `like`."""
        ...


@runtime_checkable
class KeepsMemory(Protocol):
    """A kind whose library can keep an array's memory for a stream that it does not know."""

    def keep(self, array: Any, stream: Stream) -> bool:
        """Keep it until the stream's work so far is done; False if the library cannot."""
        ...


class LibraryMemory:
    """Memory of another library's allocator; giving it back is dropping what holds it."""

    __slots__ = ("_holder", "address")

    def __init__(self, address: int, holder: Any) -> None:
        self.address, self._holder = address, holder

    def close(self) -> None:
        self._holder = None


@runtime_checkable
class Allocates(Protocol):
    """A kind whose library has an allocator that knows what its stream has done, and what happens
    while that stream is captured."""

    def memory(self, device: Device, nbytes: int, stream: Stream) -> LibraryMemory | None:
        """Uninitialised memory on the device for work of `stream`, at least one byte; None if that
        is not the library's current stream."""
        ...


class Adopted:
    """An object of another library that was read once. Each kind has its own subclass.

    Attributes:
        array: the caller's object.
        view: what was read; its owner keeps the memory alive.
        key: for `Kind.describe`.
    """

    __slots__ = ("array", "key", "view")

    def __init__(self, array: Any, view: View) -> None:
        self.array, self.view = array, view
        aligned = view.address % 16 == 0
        self.key = (view.type, view.place, view.writable, aligned, view.kind, type(array))


class AdoptedKind:
    """Base class of the kinds of adopted objects."""

    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        return array.view.address, array.key

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None]:
        type_, *rest = key
        return (type_.dtype, *rest), type_.shape, type_.strides

    def view(self, array: Any) -> View:
        view: View = array.view
        return view

    def stream_source(self, device: Device) -> Callable[[], Stream | None] | None:
        return None
