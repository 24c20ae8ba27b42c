"""The optional part of the contract: what a driver, compiler or object may have beyond `base`.

Shared code asks for each by its protocol (`isinstance`); README.md has the reason for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from .._values.types import (
    CompileRequest,
    LaunchConfig,
    MemoryUse,
    Target,
)
from .._values.value_classes import value_class
from .base import (
    Compiler,
    Stream,
    Value,
)

__all__ = [
    "Capturable",
    "CompilesAtLoad",
    "CountsMemory",
    "Fills",
    "GivesBack",
    "Graph",
    "GridLaunch",
    "HasRoutes",
    "KnowsAbsence",
    "Lendable",
    "Locator",
    "MakesGraphs",
    "MakesRoom",
    "NamesDevices",
    "NativeLaunch",
    "PinnedBlock",
    "PinsMemory",
    "Pollable",
    "PreparesGrids",
    "Reopenable",
    "Replaceable",
    "Route",
    "Settles",
    "StartsNatively",
    "Stays",
    "TrimsMemory",
]


#: `launch(grid, values, stream)`: the same where the grid, without zeros, comes with each call too.
GridLaunch: TypeAlias = "Callable[[tuple[int, int, int], Sequence[Value], Stream], None]"


class Route(Compiler, Protocol):
    """A way from kernel to artifact beside the vendor's compiler, by which one is made of another
    source than Triton's IR."""

    @property
    def name(self) -> str:
        """As `XTARGET_ROUTES` names it; artifacts say it."""
        ...

    def refusal(self, request: CompileRequest, target: Target) -> str:
        """Return why the route cannot serve a request, as a sentence; empty if it can. It compiles
        nothing."""
        ...


@runtime_checkable
class HasRoutes(Protocol):
    """A vendor's module that knows ways beside the compiler."""

    def create_routes(self) -> tuple[Route, ...]:
        """Return them in the order in which they are tried."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A compiler that can tell if this process compiles with the tool chain of `fingerprint`."""

    def unsettled(self) -> str:
        """Return why it may compile with another tool chain, as the end of a sentence; empty if it
        does not."""
        ...


@runtime_checkable
class NamesDevices(Protocol):
    """A driver whose devices have names in place of numbers (`emu:gfx942`)."""

    def names(self) -> Sequence[str]:
        """Return the part after the vendor of each device's name, by ordinal."""
        ...


@runtime_checkable
class KnowsAbsence(Protocol):
    """A driver that can often tell at once that it has no device."""

    def absent(self) -> str | None:
        """Return why there cannot be a device (no device node, no binding), within a millisecond
        and without loading a library; None if it cannot tell. `probe` is then not called."""
        ...


@runtime_checkable
class Lendable(Protocol):
    """A stream of a driver whose handle another library may remember beyond `close`."""

    def lend(self) -> None:
        """Let the driver's stream outlive `close`: a stream made later is this one again."""
        ...


@runtime_checkable
class CompilesAtLoad(Protocol):
    """A device whose run time compiles loaded code, in a separate process."""

    def expect_load(self) -> None:
        """Start that process if it does not run: code is being compiled that will be loaded."""
        ...


@runtime_checkable
class CountsMemory(Protocol):
    """A device that knows how much memory it has given."""

    def memory_use(self) -> MemoryUse:
        """Return what its buffers have, without waiting for work."""
        ...


@runtime_checkable
class TrimsMemory(Protocol):
    """A device that keeps memory for later allocations."""

    def trim_memory(self) -> None:
        """Give the system what is kept for later allocations and nobody uses."""
        ...


@runtime_checkable
class GivesBack(Protocol):
    """A buffer whose memory can be given back without looking at any stream."""

    def give_back(self) -> None:
        """Close it: all work that used it is done."""
        ...


class PinnedBlock(Protocol):
    """Memory of the host that copies go through while the caller's thread goes on.

    Attributes:
        address: of its first byte.
    """

    address: int

    def send(self, address: int, nbytes: int, stream: Stream) -> None:
        """Copy its first bytes to the device's memory, in order on the stream."""
        ...

    def receive(self, at: int, address: int, nbytes: int, stream: Stream) -> None:
        """Copy the device's memory to its bytes from `at` on, in order on the stream."""
        ...

    def close(self) -> None:
        """Give it back; its copies have ended."""
        ...


@runtime_checkable
class PinsMemory(Protocol):
    """A device with pinned memory of the host."""

    def pinned(self, nbytes: int, stream: Stream) -> PinnedBlock | None:
        """A block for copies on a stream; None: so many bytes are copied without one, or there is
        no memory to pin.

        Raises:
            LaunchError: the stream is captured, and copies cannot be part of a graph.
        """
        ...


@runtime_checkable
class MakesRoom(Protocol):
    """A device that can unload kernels when it has no memory left."""

    def make_room(self) -> None:
        """Unload the kernels that nobody holds, and give the system what is kept for later; where
        a capture goes on, nothing."""
        ...


@runtime_checkable
class Replaceable(Protocol):
    """A device that can be opened anew after a kernel has failed on it."""

    def when_lost(self, action: Callable[[], None]) -> None:
        """Have `action` called when that happens."""
        ...


@runtime_checkable
class Reopenable(Protocol):
    """A device that can be opened again after its `close`."""

    def when_closed(self, action: Callable[[], None]) -> None:
        """Have `action` called when that happens."""
        ...


@runtime_checkable
class Capturable(Protocol):
    """A stream whose work can be captured into a graph."""

    def capturing(self) -> bool:
        """Return if the stream's work is being captured. The stream must then not wait for work
        outside of the capture, and such work must not wait for the stream."""
        ...


@runtime_checkable
class Pollable(Protocol):
    """An event that can be asked without waiting."""

    def done(self) -> bool:
        """Return whether the point is reached; a failed command counts as reached."""
        ...


@runtime_checkable
class PreparesGrids(Protocol):
    """A function whose launches can be prepared before their grid is known."""

    def prepare_grids(self, args: Sequence[Value | None]) -> GridLaunch:
        """As `prepare`, for any grid. What can be checked without it is checked here, the grid at
        each launch. Only for artifacts that are not cooperative.

        Raises:
            OutOfResourcesError: as `prepare`.
        """
        ...


class Graph(Protocol):
    """Launches that are started together, as often as wanted."""

    def replay(self, stream: Stream) -> None:
        """Start them on the stream, in the order in which they were recorded, after the work that
        it has, and after earlier replays on other streams. Asynchronous; one thread at a time.
        """
        ...

    def close(self) -> None:
        """Give it back. Its replays have passed."""
        ...


@runtime_checkable
class MakesGraphs(Protocol):
    """A device that keeps launches to start them together."""

    def graph(self, record: Callable[[Stream], None]) -> Graph:
        """Make a graph of what `record(stream)` starts: prepared launches of this device, and
        buffers' `fill`. Nothing of it runs now. `record` may be called more than once, also later,
        and starts the same each time; it keeps alive what the launches need.

        Raises:
            LaunchError: the run time refuses to record it.
        """
        ...


@value_class(frozen=True, slots=True)
class NativeLaunch:
    """A launch as the vendor's run time starts it, for the compiled core.

    Attributes:
        entry: address of a function as `cuLaunchKernel` and `hipModuleLaunchKernel` are.
        function: what it starts.
        current_context: address of a function as `cuCtxGetCurrent` is, which has to give `context`;
            0: there is none. `hipGetDevice` is one: the number that it writes is the low half.
        block: threads in x, y, z.
        module: its `raw` is None once it is closed.
        code: its `stays` is True where launches on any stream need no word of the vendor's own.
        fields: where each parameter lies in the buffer that the run time takes, and its size, in
            bytes; empty: it takes the address of each.
        buffer_bytes: of that buffer.
        fills: addresses of functions as `cuMemsetD8Async`, `cuMemsetD16Async` and
            `cuMemsetD32Async` are; 0: it is not known.
        extended: address of a function as `cuLaunchKernelEx` is, for a launch that may start before
            the one in front of it has ended; 0: it may not.
        encode: address of a function as `cuTensorMapEncodeTiled` is; 0: no parameter is a tensor
            map.
        closings: a buffer of 64 bits, a number that is another one after each close of a module;
            None: there is none, and `raw` is read at each launch.
    """

    entry: int
    function: int
    current_context: int
    context: int
    block: tuple[int, int, int]
    shared_bytes: int
    module: Any
    code: Any
    fields: tuple[tuple[int, int], ...] = ()
    buffer_bytes: int = 0
    fills: tuple[int, int, int] = (0, 0, 0)
    extended: int = 0
    encode: int = 0
    closings: Any = None


@runtime_checkable
class StartsNatively(Protocol):
    """A function whose launches the compiled core can start."""

    def native(self, config: LaunchConfig) -> NativeLaunch | None:
        """The launch for a grid, once it was prepared; None where it takes more than that."""
        ...


@runtime_checkable
class Stays(Protocol):
    """A function whose launches can be captured into a graph."""

    @property
    def stays(self) -> bool:
        """True if a graph may hold its code. The code then stays loaded when the function is
        dropped."""
        ...


@runtime_checkable
class Fills(Protocol):
    """A buffer whose device sets memory by itself."""

    def fill(self, pattern: bytes, stream: Stream) -> None:
        """Repeat a pattern of 1, 2, 4 or 8 bytes over the whole buffer, in order on `stream`. The
        size of the buffer is a multiple of the pattern's."""
        ...


@runtime_checkable
class Locator(Protocol):
    """A driver whose vendor's arrays come from other libraries without their device."""

    def locate(self, memory: Any) -> str:
        """The name of the device that foreign memory lies on.

        Args:
            memory: how the vendor's array protocol names it: an address, a SYCL queue.

        Raises:
            XTargetError: it lies on none of the vendor's devices.
        """
        ...
