"""The contract between shared code and a vendor: the protocols of its driver, compiler and objects.

Arguments were checked above this line; a vendor reports only what a caller could not foresee.
Errors are those of `xtarget._values.errors`, made in the vendor's one `check()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from .._values.types import (
    Artifact,
    CompileRequest,
    DeviceInfo,
    LaunchConfig,
    MemoryUse,
    ProbeReport,
    Target,
)

if TYPE_CHECKING:
    from .._values.vendor_traits import VendorTraits

__all__ = [
    "Buffer",
    "Capturable",
    "Compiler",
    "CompilesAtLoad",
    "CountsMemory",
    "Device",
    "Driver",
    "Event",
    "Fills",
    "Function",
    "Graph",
    "GridLaunch",
    "HasRoutes",
    "KnowsAbsence",
    "Locator",
    "MakesGraphs",
    "MakesRoom",
    "Module",
    "NamesDevices",
    "NativeLaunch",
    "Pollable",
    "PreparedLaunch",
    "PreparesGrids",
    "Reopenable",
    "Replaceable",
    "Route",
    "Settles",
    "StartsNatively",
    "Stays",
    "Stream",
    "TrimsMemory",
    "Value",
    "VendorPackage",
]

#: A launch argument: a device address or an integer, or a float. fp16 and bf16 parameters take the
#: float's value.
Value: TypeAlias = int | float

#: `prepared(values, stream)` starts the kernel: `values` are the dynamic arguments in their order.
#: Asynchronous; the values are copied before it returns; callable from several threads at once.
PreparedLaunch: TypeAlias = "Callable[[Sequence[Value], Stream], None]"

#: `launch(grid, values, stream)`: the same where the grid, without zeros, comes with each call too.
GridLaunch: TypeAlias = "Callable[[tuple[int, int, int], Sequence[Value], Stream], None]"


@runtime_checkable
class Compiler(Protocol):
    """A vendor's way from kernel to artifact. Loads no GPU library; works without a GPU."""

    @property
    def fingerprint(self) -> str:
        """Identity of the tool chain: it changes if the same request could give other bytes. It is
        cheap, and does not load Triton."""
        ...

    def archs(self) -> tuple[str, ...]:
        """The archs that are known to work, for messages and for `xtarget compile --help`."""
        ...

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        """Compile one specialization. With `keep_stages`, every stage's text is in
        `Artifact.texts`.

        Raises:
            CompileError: Triton or the back end refuses the kernel, or no compiler is installed.
            UnknownTargetError: the installed compiler does not know `target.arch`.
        """
        ...


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


class Event(Protocol):
    """A point in a stream."""

    def synchronize(self) -> None:
        """Wait on the host until the point is reached."""
        ...

    def elapsed_ms(self, since: Event) -> float:
        """Milliseconds of device time from `since` (same device) to this event, both reached."""
        ...

    def close(self) -> None: ...


class Stream(Protocol):
    """An in-order queue of work on a device (HIP stream, SYCL queue, OpenCL command queue)."""

    @property
    def handle(self) -> Any:
        """The vendor's own handle: an integer for CUDA and HIP, the queue object of dpctl and
        pyopencl."""
        ...

    def record(self) -> Event:
        """A new event after all work enqueued so far."""
        ...

    def wait(self, event: Event) -> None:
        """Make later work of this stream wait for `event`, without blocking the host."""
        ...

    def synchronize(self) -> None:
        """Wait on the host for all work of this stream; errors of that work surface here."""
        ...

    def close(self) -> None:
        """Give the stream back; a borrowed one is left as it is."""
        ...


class Buffer(Protocol):
    """Global memory of a device."""

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def write(self, source: memoryview, stream: Stream) -> None:
        """Copy host bytes (C-contiguous, at most `nbytes`) to the start of the buffer, in order on
        `stream`.

        The source may be reused when this returns.
        """
        ...

    def read(self, destination: memoryview, stream: Stream) -> None:
        """Copy from the start of the buffer to host bytes; complete when this returns."""
        ...

    def close(self) -> None: ...


class Function(Protocol):
    """A launchable entry of a loaded module."""

    @property
    def name(self) -> str: ...

    @property
    def artifact(self) -> Artifact: ...

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        """Fix everything of a launch that does not change from call to call.

        Args:
            config: the grid; no dimension is zero.
            args: one value for each parameter of `artifact.parameters`, hidden ones included (0 for
                a null pointer). None marks a dynamic one, given at each call of the prepared
                launch.

        Raises:
            OutOfResourcesError: the launch can never fit this device; both numbers are in the
                message.
        """
        ...

    def launch(self, config: LaunchConfig, args: Sequence[Value], stream: Stream) -> None:
        """Start the kernel once: `prepare(config, args)((), stream)`, and nothing for a grid with a
        zero.
        """
        ...


class Module(Protocol):
    """An artifact loaded on a device."""

    def function(self, name: str | None = None) -> Function:
        """The entry `name` (the artifact's own entry when None).

        Raises:
            LoadError: there is no such entry; the message lists those there are.
        """
        ...

    def native(self) -> bytes | None:
        """The device's own machine code where the run time compiled a portable format, or the
        proof that it could, to be given to the next `load`; None where there is nothing to save.
        """
        ...

    def close(self) -> None: ...


class Device(Protocol):
    """One opened processor."""

    @property
    def info(self) -> DeviceInfo: ...

    @property
    def default_stream(self) -> Stream:
        """The stream that work goes to when the caller names none; always the same object."""
        ...

    @property
    def native_key(self) -> str | None:
        """Identity of device and run time for `Module.native` binaries; None where loading never
        compiles.
        """
        ...

    def load(self, artifact: Artifact, native: bytes | None = None) -> Module:
        """Load an artifact. `native` is the result of `Module.native` for the same artifact and
        `native_key`. A native binary that the run time refuses is ignored; it is not an error.

        Raises:
            LoadError: the bytes are not what the artifact says, or the run time refuses them.
        """
        ...

    def stream(self, handle: Any = None) -> Stream:
        """A new stream, or a borrowed one: an integer handle, or the vendor's own stream object."""
        ...

    def alloc(self, nbytes: int, stream: Stream | None = None) -> Buffer:
        """Global memory, uninitialised, aligned to 256 bytes or better. `nbytes` may be 0.

        Usable by work on `stream` (the default stream when None) at once; closing the buffer frees
        it after the work that was enqueued on that stream by then.

        Raises:
            OutOfMemoryError: there is none left.
        """
        ...

    def borrow(self, address: int, nbytes: int) -> Buffer:
        """Memory of this device that somebody else owns, as a buffer: `close()` frees nothing."""
        ...

    def synchronize(self) -> None:
        """Wait on the host for all work of the device."""
        ...

    def close(self) -> None: ...


class Driver(Protocol):
    """A vendor's run time. Imports no Triton."""

    @property
    def vendor(self) -> str: ...

    def probe(self) -> ProbeReport:
        """Look for devices. Never raises for "not here": the report has the reason. May load the
        vendor's library; the caller guards against one that blocks.
        """
        ...

    def open(self, ordinal: int) -> Device:
        """Open device `ordinal`.

        Raises:
            NoDeviceError: there is no such device; the message says what there is or why there is
                none.
        """
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


@dataclass(frozen=True, slots=True)
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
        fill: address of a function as `cuMemsetD8Async` and `hipMemsetD8Async` are; 0: it is not
            known.
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
    fill: int = 0
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


@runtime_checkable
class VendorPackage(Protocol):
    """The module of a vendor. Each function imports its modules when it is called."""

    def create_driver(self) -> Driver: ...

    def create_compiler(self) -> Compiler: ...

    def vendor_traits(self) -> VendorTraits:
        """The facts that shared code needs before driver and compiler. Optional: there are
        defaults."""
        ...


def launch_once(
    function: Function, config: LaunchConfig, args: Sequence[Value], stream: Stream
) -> None:
    """`Function.launch` for every vendor: an empty grid is nothing to do, as in Triton."""
    if 0 not in config.grid:
        function.prepare(config, args)((), stream)
