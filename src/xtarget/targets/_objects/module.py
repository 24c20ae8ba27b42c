"""Loaded modules and their functions: the checks that all vendors share."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..._values.errors import LaunchError, LoadError
from ..._values.types import Artifact, DeviceInfo, LaunchConfig
from ..base import PreparedLaunch, Stream, Value, launch_once
from ..optional import GridLaunch
from .handles import Opened
from .launch_limits import check_cooperation
from .loaded_code import LoadedCode

__all__ = ["CLOSINGS", "FunctionBase", "ModuleBase", "QueueFunction", "refuse"]

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
