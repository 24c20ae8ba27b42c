"""`pre_hook` of a configuration: what it does to the arguments of a call, found when it is planned.

Triton calls it before each launch, with tensors. Here it is given stand-ins, which know what is
asked for: `nargs["out"].zero_()`, and the tiles of a descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from .._values.errors import ArgumentError
from .._values.value_classes import value_class
from ..spec import ArrayType
from .contexts import Context
from .triton_wrappers import Tensor

__all__ = ["Asked", "ask_hook"]


@value_class(frozen=True, slots=True)
class Asked:
    """The changes that a hook has made.

    Attributes:
        filled: what the elements of an output are before the kernel starts, by name.
        tiles: lengths of a descriptor's tile, by its parameter.
    """

    filled: dict[str, bool | int | float] = field(default_factory=dict)
    tiles: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def ask_hook(
    kernel: str,
    hook: Callable[[Any], Any],
    context: Context,
    constants: Mapping[str, Any],
    made: Collection[str],
) -> Asked:
    """Call a hook of the configuration that a call takes.

    Args:
        context: the call.
        constants: of the configuration.
        made: the outputs and workspaces, which alone can be filled.
    """
    asked = Asked()
    hook(_Arguments(kernel, context, constants, made, asked))
    return asked


class _Arguments(Mapping[str, Any]):
    def __init__(
        self,
        kernel: str,
        context: Context,
        constants: Mapping[str, Any],
        made: Collection[str],
        asked: Asked,
    ) -> None:
        self._kernel, self._context, self._constants = kernel, context, constants
        self._made, self._asked = made, asked

    def __getitem__(self, name: str) -> Any:
        value = self._constants[name] if name in self._constants else self._context[name]
        if not isinstance(value, ArrayType):
            return value
        return _Changed(self._kernel, name, value, name in self._made, self._asked)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._context, *self._constants)))

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Changed(Tensor):
    """An array of the call, on which hooks do something."""

    def __init__(self, kernel: str, name: str, layout: ArrayType, made: bool, asked: Asked) -> None:
        super().__init__(layout)
        self._kernel, self._name, self._made, self._asked = kernel, name, made, asked

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the hook asks for {name} of {self._name}. It may fill outputs (zero_, fill_), say "
            "block_shape, and read layouts"
        )

    def fill_(self, value: bool | int | float) -> _Changed:
        if not self._made:
            raise ArgumentError(
                f"{self._kernel}: the pre_hook of its configuration fills {self._name}, which is "
                "an input. Only outputs and workspaces can be filled before a launch; fill it "
                "before the call."
            )
        self._asked.filled[self._name] = value
        return self

    def zero_(self) -> _Changed:
        return self.fill_(0)

    @property
    def block_shape(self) -> list[Any]:
        return list(self._asked.tiles.get(self._name, ()))

    @block_shape.setter
    def block_shape(self, lengths: Any) -> None:
        self._asked.tiles[self._name] = tuple(lengths)
