"""What a kernel stores to, beside what its spec declares."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from .._values.errors import CompileError
from .._values.types import Artifact, CompileRequest, Parameter

__all__ = ["UndeclaredStoreError", "line_of_store", "undeclared_stores", "with_declared_stores"]


class UndeclaredStoreError(CompileError):
    """A kernel stores to arrays that its spec declares as inputs.

    Attributes:
        path: the file of the kernel.
        stores: by parameter, file and line of the first store (`kernels.py:12`), where it is known.
    """

    def __init__(
        self, kernel: str, path: str, stores: dict[str, str | None], inputs: tuple[str, ...] = ()
    ) -> None:
        """
        Args:
            inputs: what the spec calls the arrays behind the parameters; none: as these.
        """
        self.path, self.stores = path, stores
        self._given = (kernel, path, stores, inputs)
        super().__init__(self.told(kernel, inputs or tuple(stores)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given  # not the message: a pool of processes sends it on

    def told(self, kernel: str, inputs: tuple[str, ...]) -> str:
        """What the kernel does, and how its spec says so.

        Args:
            inputs: what the spec calls the arrays behind the parameters.
        """
        places = " and ".join(
            f"{name} (line {line})" if line else name for name, line in self.stores.items()
        )
        listed = ", ".join(f'"{name}"' for name in dict.fromkeys(inputs))
        comma = "," if len(set(inputs)) == 1 else ""
        return (
            f"kernel {kernel} ({self.path}) stores to {places}, which its spec declares as "
            f"{'an input' if len(self.stores) == 1 else 'inputs'}. Declare it: "
            f"updates=({listed}{comma}), or make it an output."
        )


def with_declared_stores(request: CompileRequest, made: Artifact) -> Artifact:
    """The artifact, if its kernel writes to what the request says it may.

    Raises:
        UndeclaredStoreError: it writes to another array: one that is not copied back where arrays
            are copied to the device, and that others may read meanwhile.
        CompileError: it is declared elementwise and is not.
    """
    stores = undeclared_stores(request, made)
    if not stores:
        return made
    inputs = {
        p.name: line_of_store(request, p) or p.stored for p in stores if _is_input(request, p)
    }
    if inputs:
        raise UndeclaredStoreError(request.source.name, request.source.path, inputs)
    name, line = stores[0].name, line_of_store(request, stores[0]) or stores[0].stored
    where = f" (line {line})" if line else ""
    raise CompileError(
        f"kernel {request.source.name} ({request.source.path}) is declared elementwise, and stores "
        f"to {name}{where} what it has made of several elements of a block. Leave elementwise out; "
        "in_place=True says that `out` may be an input all the same."
    )


def undeclared_stores(request: CompileRequest, made: Artifact) -> list[Parameter]:
    """The parameters that the kernel writes in a way that its spec does not say."""
    return [
        parameter
        for parameter in made.parameters
        if parameter.hidden is None
        and (
            (_is_input(request, parameter) and set(parameter.access or "") & set("wa"))
            or (request.elementwise and "m" in (parameter.access or ""))
        )
    ]


def line_of_store(request: CompileRequest, parameter: Parameter) -> str | None:
    """File and line of a parameter's first write, in the file as it is now; None where only the
    compiler knows it."""
    if "+" not in (parameter.stored or "") or find_spec("triton") is None:
        return None
    from ..targets._triton.lines import line_in_file

    return line_in_file(request.source.load(), parameter.stored or "")


def _is_input(request: CompileRequest, parameter: Parameter) -> bool:
    return request.writes is not None and parameter.name not in request.writes
