"""The contract between shared code and a vendor: the protocols of its driver, compiler and objects.
`optional` has those that only some vendors need.

Arguments were checked above this line; a vendor reports only what a caller could not foresee.
Errors are those of `xtarget._values.errors`, made in the vendor's one `check()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from .._values.types import (
    Artifact,
    CompileRequest,
    DeviceInfo,
    LaunchConfig,
    ProbeReport,
    Target,
)

if TYPE_CHECKING:
    from .._values.vendor_traits import VendorTraits

__all__ = [
    "Buffer",
    "Compiler",
    "Device",
    "Driver",
    "Event",
    "Function",
    "Module",
    "PreparedLaunch",
    "Stream",
    "Value",
    "VendorPackage",
]

#: A launch argument: a device address or an integer, or a float. fp16 and bf16 parameters take the
#: float's value.
Value: TypeAlias = int | float

#: `prepared(values, stream)` starts the kernel: `values` are the dynamic arguments in their order.
#: Asynchronous; the values are copied before it returns; callable from several threads at once.
PreparedLaunch: TypeAlias = "Callable[[Sequence[Value], Stream], None]"


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
