"""A Triton kernel as C, from its text: each lane of a block takes the elements that are its own.

A kernel can be translated where a lane needs nothing of another one: where all that it computes is
one operation for each element.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..._values.types import CompileRequest, Parameter, SourceText
from ..._values.value_classes import value_class
from .dialects import Dialect
from .emit import c_name
from .given import described, given
from .lanes import LANES, LaneEvaluator
from .text import Function, Scope
from .tile_evaluate import TileEvaluator
from .values import DType, RefusedError, dtype_of

__all__ = ["Translated", "only_loop", "translate"]


@value_class(frozen=True, slots=True)
class Translated:
    """A kernel in C.

    Attributes:
        text: the whole source file.
        entry: the kernel's name in it.
        parameters: of the entry, in its order.
        double: it computes in float64.
        threads: of a block.
        shared_bytes: that the launch has to ask for.
    """

    text: str
    entry: str
    parameters: tuple[Parameter, ...]
    double: bool
    threads: int
    shared_bytes: int = 0


def translate(
    source: SourceText, request: CompileRequest, dialect: Dialect, threads: int
) -> Translated:
    """A kernel as one entry.

    Args:
        threads: of a block.

    Raises:
        RefusedError: the kernel has something that is not translated, with its file and line.
    """
    try:
        return _Kernel(dialect, LaneEvaluator(dialect)).written(Scope.of(source), request, threads)
    except RefusedError:
        number = 1 if dialect.one_thread else threads
        body = TileEvaluator(dialect, number)
        return _TileKernel(dialect, body).written(Scope.of(source), request, number)


class _Kernel:
    def __init__(self, dialect: Dialect, body: LaneEvaluator) -> None:
        self.dialect = dialect
        self.body = body

    def written(self, function: Function, request: CompileRequest, threads: int) -> Translated:
        names, parameters = given(function, request, self.body.emit)
        self.body.outer = self._outer(function.node)
        try:
            self.body.run(function, names)
            self._check_order()
        except RefusedError as why:
            raise RefusedError(f"{self.body.at}: {why}") from why
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as why:
            raise RefusedError(f"{self.body.at}: {type(why).__name__}: {why}") from why
        # C has words and functions of its own
        return self._file(f"xt_{request.source.name}", parameters, threads)

    def _check_order(self) -> None:
        """Each lane runs through the kernel by itself, so none may read what another one wrote."""
        both = set(self.body.emit.reads) & set(self.body.emit.writes)
        if both:
            raise RefusedError(f"{', '.join(sorted(both))}, which is read and written")

    def _outer(self, node: ast.FunctionDef) -> ast.For | None:
        return only_loop(node)

    def _file(self, name: str, parameters: Sequence[Parameter], threads: int) -> Translated:
        types = [dtype_of(p.type) for p in parameters]
        listed = ", ".join(
            f"{self._parameter_type(t)} {c_name(p.name)}"
            for p, t in zip(parameters, types, strict=True)
        )
        lines = [
            f"KERNEL({threads}) void {name}({listed}) {{",
            *self._lines(threads),
            "}",
        ]
        double = self.body.emit.double or any(t.is_fp64() for t in types)
        of_entry = tuple(described(p, self.body.emit) for p in parameters)
        text = self.dialect.file("\n".join(lines) + "\n", double=double)
        return Translated(text, name, of_entry, double, threads, self._asked())

    def _asked(self) -> int:
        """Bytes of shared memory that the launch has to ask for."""
        return 0

    def _lines(self, threads: int) -> list[str]:
        """The body, for a block's threads."""
        loop = (
            "for (int lane = xt_thread; lane < {0}; lane += {1})"
            if ((self.body.length or 1) > threads)
            else "const int lane = xt_thread; if (lane < {0})"
        )
        lanes = loop.format(self.body.length or 1, threads)
        lines = self.body.emit.lines
        if self.body.outer is None:
            lines = [f"    {LANES} {{", *lines, "    }"]
        return [line.replace(LANES, lanes) for line in lines]

    def _parameter_type(self, dtype: DType) -> str:
        if dtype.is_ptr():
            return self.dialect.type(dtype)
        return "float" if dtype.narrow else self.dialect.in_memory(dtype)


class _TileKernel(_Kernel):
    """A kernel that is made one operation after the other, each for a whole block."""

    body: TileEvaluator

    def _check_order(self) -> None:
        pass

    def _outer(self, node: ast.FunctionDef) -> ast.For | None:
        return None

    def _lines(self, threads: int) -> list[str]:
        return self.body.emit.finished()

    def _asked(self) -> int:
        return self.body.emit.asked


def only_loop(node: ast.FunctionDef) -> ast.For | None:
    """The loop that is all of a kernel."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[0] if len(body) == 1 and isinstance(body[0], ast.For) else None
