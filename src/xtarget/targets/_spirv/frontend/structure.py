"""Triton's IR as objects, and changes to it through Triton's own bindings.

`operations` walks over a module. `Editor` builds new operations beside existing ones. The bindings
do not erase operations: an operation whose results nobody uses any more goes with the next pass
that removes dead code (`common.add_cse`), if it has no effect on memory.

CONTRIBUTING.md lists what the bindings of Triton 3.6 to 3.9 can do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...._values.errors import CompileError
from ..._triton.locations import described
from .reader import Statement, read
from .types import Layout, Type, read_type

__all__ = ["NEAREST", "Editor", "Operation", "operations", "place_of_first", "type_of"]


@dataclass(slots=True, eq=False)
class Operation:
    """An operation of a module.

    Attributes:
        handle: Triton's object.
        name: with the dialect: `tt.load`.
        block: identity of the block that the operation is in; 0 for the module.
        before: the operation before it in its block; None if it is the first one.
    """

    handle: Any
    name: str
    block: int
    before: Operation | None

    @property
    def operands(self) -> list[Any]:
        return [self.handle.get_operand(i) for i in range(self.handle.get_num_operands())]

    @property
    def results(self) -> list[Any]:
        return [self.handle.get_result(i) for i in range(self.handle.get_num_results())]

    def operand_type(self, index: int) -> Type:
        return type_of(self.handle.get_operand(index))


def type_of(value: Any) -> Type:
    """The type of one of Triton's values."""
    return read_type(str(value.get_type()))


def operations(module: Any) -> list[Operation]:
    """All operations of a module: those in an operation's regions before the operation."""
    found: list[Operation] = []
    last: dict[int, Operation] = {}

    def take(handle: Any) -> None:
        block = handle.get_block()
        number = 0 if block is None else block.id()
        operation = Operation(handle, handle.get_name(), number, last.get(number))
        last[number] = operation
        found.append(operation)

    module.walk(take)
    return found


def place_of_first(module: Any, prefix: str, scalars: Collection[str]) -> str:
    """` (tt.load in file.py:12: ...)` for the first operation whose name begins with `prefix` and
    that has a value of, or a pointer to, one of these types; empty where there is none.
    """
    edit = Editor(module)
    for operation in edit.operations:
        values = [*operation.operands, *operation.results]
        if operation.name.startswith(prefix) and any(
            type_of(value).scalar in scalars for value in values
        ):
            return edit.place(operation)
    return ""


class Editor:
    """Builds operations. Each of `create_*` and `get_*` of Triton's builder is its attribute."""

    def __init__(self, module: Any) -> None:
        from triton._C.libtriton import gluon_ir

        self.module = module
        #: Of the module as it was.
        self.operations = operations(module)
        self.builder = gluon_ir.GluonOpBuilder(module.context)
        self._statements: list[Statement] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.builder, name)

    def go_after(self, operation: Operation) -> None:
        """Place the next operations after this one, with its location."""
        self.builder.set_insertion_point_after(operation.handle)

    def go_before(self, operation: Operation) -> None:
        """Place the next operations before this one, with its location."""
        self.builder.set_insertion_point_after(operation.handle)
        location = self.builder.get_loc()
        if operation.before is not None:
            self.builder.set_insertion_point_after(operation.before.handle)
        else:
            self.builder.set_insertion_point_to_start(operation.handle.get_block())
        self.builder.set_loc(location)

    def integer(self, operation: Operation, name: str) -> int:
        """The value of an attribute: an integer, or one of the words in `_WORDS` as its number. Ask
        before the first change of the module.

        Raises:
            CompileError: the operation does not have it.
        """
        if hasattr(operation.handle, "get_int_attr"):  # from Triton 3.7 on
            value = operation.handle.get_int_attr(name)
        else:
            value = self._printed_attribute(operation, name)
        if value is None:
            raise CompileError(
                f"xtarget expected an attribute {name} of Triton's operation {operation.name}"
                f"{self.place(operation)}. Install a version of Triton that xtarget was tested "
                "with."
            )
        return int(value)

    def _printed_attribute(self, operation: Operation, name: str) -> int | None:
        """An attribute in the module's text; operations of one name do not contain each other."""
        same = [o for o in self.operations if o.name == operation.name]
        if self._statements is None:
            self._statements = read(self.module.str_nodebug())
        printed = [s for s in self._statements if s.name == operation.name]
        if len(same) != len(printed):
            raise CompileError(
                f"xtarget read {len(printed)} operations {operation.name} in Triton's IR, and "
                f"there are {len(same)}."
            )
        word = printed[same.index(operation)].attribute(name)
        return _WORDS.get(word, int(word) if word.lstrip("-").isdigit() else None)

    def rounding_mode(self, number: int) -> Any:
        """Triton's object for `NEAREST` or its like."""
        from triton._C.libtriton import ir

        return (ir.ROUNDING_MODE.RTZ, ir.ROUNDING_MODE.RTNE)[number]

    def place(self, operation: Operation) -> str:
        """` (tt.load in file.py:12: ...)`; without a line where none is known."""
        self.builder.set_insertion_point_after(operation.handle)
        return described(operation.name, str(self.builder.get_loc()))

    # ------------------------------------------------------------------------------------- types

    def element(self, name: str) -> Any:
        """An element type of Triton's builder by MLIR's name of it."""
        make = _ELEMENTS.get(name)
        if make is None:
            raise CompileError(f"xtarget does not know Triton's element type {name!r}.")
        return getattr(self.builder, make)()

    def pointer(self, element: Any) -> Any:
        """The type of a pointer to global memory."""
        # Triton 3.9 has words for address spaces, and policies for caches; older ones numbers
        return self.builder.get_ptr_ty(element, "global" if self.has_cache_policies else 1)

    @property
    def has_cache_policies(self) -> bool:
        return hasattr(self.builder, "get_cache_policy")

    def tensor(self, element: Any, shape: Sequence[int], layout: Any) -> Any:
        """A tensor type; `element` and `layout` are the builder's."""
        return self.builder.get_distributed_ty(element, list(shape), layout)

    def layout(self, layout: Layout, shape: Sequence[int]) -> Any:
        """The builder's form of a layout of a tensor of this shape.

        Raises:
            CompileError: a layout of another kind.
        """
        get = self.builder
        kind, names = layout.kind, layout.names
        if kind == "ttg.blocked" and names == _BLOCKED:
            return get.get_blocked_layout(*(list(layout[name]) for name in _BLOCKED_ORDER), [])
        if kind == "ttg.slice" and names == {"dim", "parent"}:
            dim = layout["dim"]
            return get.get_slice_layout(
                dim, self.layout(layout["parent"], (*shape[:dim], 1, *shape[dim:]))
            )
        if kind == "ttg.dot_op" and names <= {"opIdx", "parent", "kWidth"}:
            width = layout["kWidth"] if "kWidth" in names else 0
            parent = self.layout(layout["parent"], shape)
            return get.get_dot_operand_layout(layout["opIdx"], parent, width)
        if kind == "ttg.linear" and names == set(_LINEAR):
            bases = ([list(base) for base in layout[name]] for name in _LINEAR)
            return get.get_distributed_linear_layout(*bases, list(shape))
        raise CompileError(
            f"xtarget does not know Triton's layout {kind} with {', '.join(sorted(names))}."
        )

    def numbers(self, values: Sequence[int]) -> Any:
        """An attribute: a tensor of 32-bit integers."""
        from triton._C.libtriton import ir

        return ir.make_attr(list(values), self.module.context)

    def like(self, type_: Type, element: str) -> Any:
        """A type with another element type, otherwise as `type_`."""
        new = self.element(element)
        if type_.shape is None:
            return new
        if type_.layout is None:
            return self.builder.get_block_ty(new, list(type_.shape))
        return self.tensor(new, type_.shape, self.layout(type_.layout, type_.shape))


#: Rounding modes by their numbers in Triton.
ZERO, NEAREST = 0, 1
#: Words that Triton prints for the numbers of attributes.
_WORDS = {"rtz": ZERO, "rtne": NEAREST}
_ELEMENTS = {
    "f16": "get_half_ty",
    "bf16": "get_bf16_ty",
    "f32": "get_float_ty",
    "f64": "get_double_ty",
    "f8E4M3FN": "get_fp8e4nv_ty",
    "f8E4M3FNUZ": "get_fp8e4b8_ty",
    "f8E5M2": "get_fp8e5_ty",
    "f8E5M2FNUZ": "get_fp8e5b16_ty",
    **{f"i{bits}": f"get_int{bits}_ty" for bits in (1, 8, 16, 32, 64)},
}
_BLOCKED_ORDER = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
_BLOCKED = frozenset(_BLOCKED_ORDER)
_LINEAR = ("register", "lane", "warp", "block")
