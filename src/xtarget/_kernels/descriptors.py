"""Parameters that are tensor descriptors, by which NVIDIA's copy engine (TMA) moves tiles.

A descriptor is made of an array where the kernel begins: by a function around the kernel, which has
the array's lengths and strides as parameters too. Where a GPU has no such engine, Triton writes the
same loads and stores with addresses, so one kernel serves all targets.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .._values.errors import ArgumentError
from ..spec import Argument, ArrayType, Call, Input, Output, Temporary
from .contexts import Context, Questions, Rule, formula
from .declarations import Declaration, Parameters

__all__ = ["Described", "Descriptors", "described"]

#: Gives the function around one that takes descriptors, with dimensions by parameter.
Described: TypeAlias = Callable[[Any, Parameters, Mapping[str, int]], Any]

#: What the copy engine counts addresses and strides in.
_BYTES = 16
_MOST_DIMS = 5


class Descriptors:
    """The tensor descriptors of one call.

    Attributes:
        tiles: lengths of tiles that a configuration's hook has said, by array.
    """

    def __init__(
        self,
        declaration: Declaration,
        call: Call,
        context: Context,
        ask: Questions,
        described: Described | None,
    ) -> None:
        self._d, self._call, self._context, self._ask = declaration, call, context, ask
        self._described = described
        self.tiles: Mapping[str, tuple[Any, ...]] = {}

    def around(
        self, fn: Any, parameters: Parameters, args: dict[str, Argument], constants: dict[str, Any]
    ) -> Any:
        """The function around one that takes descriptors; None: it takes none.

        Args:
            args, constants: what the launch gives its parameters; the further ones are added.

        Raises:
            ArgumentError: an array cannot have a descriptor.
        """
        ranks: dict[str, int] = {}
        for parameter in parameters.names:
            argument = args.get(parameter)
            name = self._array(argument)
            if name is None or self._d.tile_of(name) is None:
                continue
            array = getattr(self._context, name)
            steps = _steps(self._d.name, name, array, self._is_aligned(argument))
            ranks[parameter] = array.ndim
            args.update({f"{parameter}_length{axis}": n for axis, n in enumerate(array.shape)})
            args.update({f"{parameter}_step{axis}": n for axis, n in enumerate(steps)})
            for axis, length in enumerate(self._tile(name, array)):
                constants[f"{parameter}_tile{axis}"] = length
        if not ranks or self._described is None:
            return None
        return self._described(fn, parameters, ranks)

    def _array(self, argument: Any) -> str | None:
        """The array of the kernel that an argument of a launch is."""
        d = self._d
        if isinstance(argument, Output):
            return list(d.outputs)[argument.index]
        if isinstance(argument, Temporary):
            return list(d.workspaces)[argument.index]
        name = d.order[argument.index] if isinstance(argument, Input) else ""
        return name if name in d.arrays else None

    def _tile(self, name: str, array: ArrayType) -> list[int]:
        ndim = array.ndim
        tile = self.tiles.get(name) or self._d.tile_of(name) or ()
        if len(tile) != ndim:
            given = f"{len(tile)} lengths" if tile else "no lengths"
            raise ArgumentError(
                f"{self._d.name}: the tile of {name} has {given}, and the array {ndim} dimensions. "
                "Give one for each, by .descriptor(...) or block_shape in a configuration's "
                "pre_hook."
            )
        part = f"tile of {name!r}"
        rules = [formula(part, n) if isinstance(n, str) else _always(n) for n in tile]
        lengths = [self._ask.size(part, rule) for rule in rules]
        if min(lengths) < 1 or any(n & (n - 1) for n in lengths):
            raise self._ask.wrong(part, tuple(lengths), "its lengths have to be powers of 2")
        if lengths[-1] * array.itemsize < _BYTES:
            least = f"at least {_BYTES // array.itemsize} elements of {array.dtype}, {_BYTES} bytes"
            raise self._ask.wrong(part, tuple(lengths), f"the last has to be {least}")
        return lengths

    def _is_aligned(self, argument: Any) -> bool:
        """Whether an array begins at a multiple of 16 bytes, as new ones do."""
        if isinstance(argument, Temporary):
            return True
        at = argument.index + (len(self._call.args) if isinstance(argument, Output) else 0)
        return all(self._call.aligned[at : at + 1])


def _always(value: Any) -> Rule:
    return lambda context: value


def _steps(kernel: str, parameter: str, array: ArrayType, aligned: bool) -> list[int]:
    """The strides of a descriptor but for the last, which is 1. A dimension of one element, or of
    none, may have any.

    Raises:
        ArgumentError: the array cannot have a descriptor.
    """
    if not 1 <= array.ndim <= _MOST_DIMS:
        raise ArgumentError(
            f"{kernel}: {parameter} has {array.ndim} dimensions, and a tensor descriptor has 1 to "
            f"{_MOST_DIMS}. Reshape it."
        )
    least = _BYTES // array.itemsize
    if 0 in array.shape:
        return [least] * (array.ndim - 1)
    lengths = zip(array.shape[:-1], array.strides[:-1], strict=True)
    steps = [stride if length > 1 else least for length, stride in lengths]
    apart = array.shape[-1] > 1 and array.strides[-1] != 1
    if apart or not aligned or any(step * array.itemsize % _BYTES for step in steps):
        where = "" if aligned else ", not at a multiple of 16 bytes"
        raise ArgumentError(
            f"{kernel}: {parameter} cannot have a tensor descriptor: its shape is "
            f"{tuple(map(int, array.shape))}, its strides are {tuple(map(int, array.strides))} "
            f"elements of {array.itemsize} bytes{where}. The last dimension has to lie side by "
            "side, and the address and all other strides have to be multiples of 16 bytes. Pass a "
            "copy with longer rows, or give the kernel pointers."
        )
    return steps


def described(fn: Any, parameters: Parameters, ranks: Mapping[str, int]) -> Any:
    """A kernel that takes arrays, around one that takes descriptors of them.

    Args:
        fn: the `@triton.jit` function.
        ranks: dimensions by parameter, of those that are descriptors.
    """
    import triton
    import triton.language as tl

    names, more, made = parameters.names, [], []
    own = [f"{n}: tl.constexpr" if n in parameters.constexpr else n for n in names]
    for name, rank in ranks.items():
        lengths = [f"{name}_length{axis}" for axis in range(rank)]
        steps = [f"{name}_step{axis}" for axis in range(rank - 1)]
        tile = [f"{name}_tile{axis}" for axis in range(rank)]
        more += [*lengths, *steps, *(f"{length}: tl.constexpr" for length in tile)]
        shape = ", ".join(f"{length}.to(tl.int32)" for length in lengths)
        strides = ", ".join([*(f"{step}.to(tl.int64)" for step in steps), "1"])
        parts = f"[{shape}], [{strides}], [{', '.join(tile)}]"
        made.append(f"    {name} = tl.make_tensor_descriptor({name}, {parts})")
    called = "kernel"
    while called in names:
        called += "_"
    title = f"def {fn.__name__}({', '.join((*own, *more))}):"
    code = "\n".join((title, *made, f"    {called}({', '.join(names)})", ""))
    # inspect reads a function's text from here; without a time it is never read again
    file = f"<xtarget descriptors {hashlib.sha256(code.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    values = {"tl": tl, called: fn, "__name__": fn.fn.__module__}
    exec(compile(code, file, "exec", dont_inherit=True), values)
    return triton.jit(values[fn.__name__])
