"""Loaded modules and their functions: the checks that all vendors share."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..._values.errors import LaunchError, LoadError, OutOfResourcesError
from ..._values.types import Artifact, DeviceInfo, LaunchConfig
from ..base import PreparedLaunch, Stream, Value, launch_once
from ..optional import GridLaunch
from .handles import Opened
from .loaded_code import LoadedCode

__all__ = [
    "CLOSINGS",
    "FunctionBase",
    "ModuleBase",
    "QueueFunction",
    "check_block",
    "check_cooperation",
    "check_grid",
    "refuse",
]

#: `optional.NativeLaunch.closings` of all modules here; no number is written twice.
CLOSINGS = array("Q", [0])
_numbers = itertools.count(1)


class ModuleBase(Opened):
    """An artifact on a device. Closing it refuses further launches; the code itself stays as long
    as a function or a prepared launch may still start it.
    """

    CLOSED = "the module of {where} is closed. Load it again."

    def __init__(
        self, raw: Any, artifact: Artifact, info: DeviceInfo, entries: Sequence[str]
    ) -> None:
        super().__init__(raw, f"{artifact.entry} on {info.name}")
        self.artifact = artifact
        self.info = info
        self._entries = entries

    def described(self, name: str | None) -> Any:
        """`raw`, after a check that `name` is the entry whose parameters the artifact describes.

        Raises:
            LoadError: it is another one, or none.
        """
        raw = self.live()
        if name not in (None, self.artifact.entry):
            raise LoadError(
                f"the module of {self.where} has no entry {name!r} that its artifact describes. It "
                f"has {', '.join(self._entries)}; described is {self.artifact.entry}."
            )
        return raw

    def native(self) -> bytes | None:
        return None

    def close(self) -> None:
        super().close()
        CLOSINGS[0] = next(_numbers)


class FunctionBase(ABC):
    """An entry of a module.

    Attributes:
        code: what a graph may hold; None where nothing can be captured.
    """

    code: LoadedCode | None = None

    def __init__(self, module: ModuleBase) -> None:
        self.artifact = module.artifact
        self.name = module.artifact.entry
        self._module = module

    def _check_values(self, args: Sequence[Value | None]) -> None:
        """Refuse a use after `close`, and a wrong number of values.

        Raises:
            DriverError: the module is closed.
            LaunchError: not one value for each parameter.
        """
        self._module.live()
        parameters = self.artifact.parameters
        if len(args) != len(parameters):
            raise LaunchError(
                f"{self._module.where} takes {len(parameters)} values "
                f"({', '.join(p.name for p in parameters)}), and got {len(args)}."
            )

    @property
    def stays(self) -> bool:
        """`targets.optional.Stays`."""
        return self.code is not None and self.code.stays

    @abstractmethod
    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        """`targets.base.Function.prepare`."""

    def launch(self, config: LaunchConfig, args: Sequence[Value], stream: Stream) -> None:
        launch_once(self, config, args, stream)


class QueueFunction(FunctionBase):
    """An entry that goes to a command queue, which takes threads in place of blocks."""

    @abstractmethod
    def _global_size(self, grid: tuple[int, int, int]) -> Sequence[int]:
        """The threads of a grid, as the queue counts dimensions."""

    @abstractmethod
    def _prepared(self, global_size: Any, args: Sequence[Value | None]) -> Callable[..., None]:
        """The launch as a function of values, stream, and perhaps the threads."""

    def prepare(self, config: LaunchConfig, args: Sequence[Value | None]) -> PreparedLaunch:
        check_cooperation(self.artifact, config.grid)
        return self._prepared(self._global_size(config.grid), args)

    def prepare_grids(self, args: Sequence[Value | None]) -> GridLaunch:
        start, global_size = self._prepared(None, args), self._global_size
        artifact = self.artifact

        def launch(grid: tuple[int, int, int], values: Sequence[Value], stream: Any) -> None:
            if artifact.cooperative:
                check_cooperation(artifact, grid)
            start(values, stream, global_size(grid))

        return launch


def refuse(module: ModuleBase, stream: Any, given: int, wanted: int) -> NoReturn:
    """Say which condition of a prepared launch is not met: off the launch path, which only found
    that one is not.
    """
    module.live()
    stream.live()
    raise LaunchError(
        f"this launch of {module.where} takes {wanted} dynamic values, and got {given}."
    )


# ------------------------------------------------------------------- does a launch fit the device


def check_block(
    artifact: Artifact, info: DeviceInfo, *, most_threads: int = 0, static_shared: int = 0
) -> None:
    """Compare a block's threads and shared memory with the limits.

    Args:
        artifact: the kernel.
        info: the device.
        most_threads: the run time's limit for this kernel; 0 when it does not tell.
        static_shared: bytes of shared memory that the binary takes on top of the artifact's.

    Raises:
        OutOfResourcesError: the block does not fit.
    """
    threads = artifact.block[0]
    limit = min(info.max_threads_per_block, most_threads or info.max_threads_per_block)
    if threads > limit:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {threads} threads a block (num_warps={artifact.num_warps} x "
            f"{artifact.warp_size}), {info.name} ({info.product}) takes {limit} for it. "
            f"Use a smaller num_warps."
        )
    shared = artifact.shared_bytes + static_shared
    if shared > info.max_shared_bytes:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {shared} bytes of shared memory a block, "
            f"{info.name} ({info.product}) has {info.max_shared_bytes}. "
            f"Use smaller BLOCK sizes or a smaller num_stages."
        )


def check_grid(
    artifact: Artifact, info: DeviceInfo, grid: tuple[int, int, int], limits: tuple[int, int, int]
) -> None:
    """Compare a grid with the most blocks in x, y, z.

    Raises:
        OutOfResourcesError: the grid does not fit.
    """
    for axis, blocks, most in zip("xyz", grid, limits, strict=True):
        if blocks > most:
            raise OutOfResourcesError(
                f"{artifact.entry} cannot start {blocks} blocks in {axis} on {info.name} "
                f"({info.product}): the limit is {most} blocks of {artifact.block[0]} threads. Let "
                "each block do more, or split the work over several launches."
            )


def check_cooperation(artifact: Artifact, grid: tuple[int, int, int]) -> None:
    """Refuse blocks that may wait for others, where nobody promises that these run.

    Raises:
        LaunchError: the launch is cooperative and has more than one block.
    """
    x, y, z = grid
    if artifact.cooperative and x * y * z > 1:
        raise LaunchError(
            f"{artifact.entry} cannot be launched with the grid {grid} and "
            "launch_cooperative_grid=True: no OpenCL or SYCL promises that blocks run at the same "
            "time, and one that waits for another would hang. Launch one block on this device, or "
            "use one launch for each step."
        )
