"""The stand-in for arrays and numbers while a function is traced: it notes what is done to it, and
has no values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .._values.deferred import Deferred
from .._values.errors import ArgumentError
from ..spec import ArrayType
from .methods import METHODS, part
from .nodes import Number, Value

if TYPE_CHECKING:
    from .._values.aliases import Args

__all__ = ["NoAttribute", "Notes", "NumberAsked", "Traced"]

#: Attributes of arrays of NumPy and torch that are their elements.
_OF_VALUES = frozenset(("cpu", "data", "flat", "item", "numpy", "tobytes", "tolist"))


class Notes(Protocol):
    """Notes what is done to arrays (`tracing.Tracer`).

    Attributes:
        reads_shapes: the function has asked for a shape.
    """

    reads_shapes: bool

    def call(
        self, kernel: str, args: Sequence[Any], given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """Note a call; what stands for its results."""

    def line(self) -> str:
        """Where the function is, for messages."""


class NumberAsked(Exception):
    """The function has asked for the value of a number among its arguments: the value is part of
    what it computes then.

    Attributes:
        index: of the argument.
    """

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class NoAttribute(ArgumentError, AttributeError):
    """An array while a function is traced has no such attribute."""


class Traced(Deferred):
    """Stands for an array or a number while a function is traced."""

    __slots__ = ("stands", "tracer")
    __hash__ = object.__hash__

    def __init__(self, tracer: Notes, stands: Value | Number) -> None:
        self.tracer, self.stands = tracer, stands

    def take_call(
        self, kernel: str, args: Args, given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        return self.tracer.call(kernel, args, given, options)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method != "__call__" or named:
            self.ask(f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}")
        return self.tracer.call(ufunc.__name__, inputs, {}, {})

    def ask(self, what: str) -> NoReturn:
        """Refuse to give values.

        Raises:
            NumberAsked: this is a number.
            ArgumentError: it is an array.
        """
        if isinstance(self.stands, Number) and self.stands.index is not None:
            raise NumberAsked(self.stands.index)
        raise ArgumentError(
            f"{self.tracer.line()}: {what} asks for values, which a fused function does not have "
            "while it is traced. Use an operator of xtarget in its place (where, clip), or do it "
            "outside of the fused function."
        )

    @property
    def _type(self) -> ArrayType:
        if isinstance(self.stands, Number):
            self.ask("the layout of a number")
        return self.stands.type

    @property
    def dtype(self) -> str:
        """NumPy's name of the dtype."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return self._type.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The function is traced again for arguments of other shapes, once it has asked."""
        self.tracer.reads_shapes = True
        return self._type.shape

    @property
    def size(self) -> int:
        self.tracer.reads_shapes = True
        return self._type.size

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> Any:
        return self.tracer.call("permute", (self,), {}, {})

    def _run(self, kernel: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return self.tracer.call(kernel, args, {}, options)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(self.stands, Number):
            self.ask("an element")
        return part(self._run, self, key, partial(self.ask, "this element (not of slices)"))

    def __getattr__(self, name: str) -> Any:
        if name in METHODS and isinstance(self.stands, Value):
            return partial(METHODS[name], self._run, self)
        if name in _OF_VALUES:
            self.ask(name)
        error: AttributeError = AttributeError(name)
        if not name.startswith("_"):
            error = NoAttribute(
                f"{self.tracer.line()}: an array of a fused function has no {name} while it is "
                f"traced. Use an operator of xtarget in its place (xtarget.run({name!r}, ...), if "
                "there is one), or do it outside of the fused function."
            )
        raise error

    def __str__(self) -> str:
        self.ask("text of it (print, str)")

    def __format__(self, how: str) -> str:
        self.ask("text of it (print, str)")

    def __repr__(self) -> str:
        if isinstance(self.stands, Value):
            return f"<traced {self.stands.type.dtype} {self.stands.type.shape}>"
        return "<traced number>"

    def __iter__(self) -> Iterator[Any]:
        self.ask("iteration")


def _operator(kernel: str, *, turned: bool = False) -> Callable[..., Any]:
    def call(self: Traced, *others: Any) -> Any:
        args = (*others, self) if turned else (self, *others)
        return self.tracer.call(kernel, args, {}, {})

    return call


def _refusal(what: str) -> Callable[..., Any]:
    def refuse(self: Traced, *_: Any, **__: Any) -> Any:
        self.ask(what)

    return refuse


def _in_place(sign: str) -> Callable[..., Any]:
    def refuse(self: Traced, *_: Any) -> Any:
        raise ArgumentError(
            f"{self.tracer.line()}: a fused function changes no array in place. Write "
            f"x = x {sign} y in the place of x {sign}= y."
        )

    return refuse


_BINARY = {
    "add": ("add", "+"), "sub": ("sub", "-"), "mul": ("mul", "*"), "truediv": ("div", "/"),
    "floordiv": ("floor_divide", "//"), "mod": ("remainder", "%"), "pow": ("pow", "**"),
    "and": ("bitwise_and", "&"), "or": ("bitwise_or", "|"), "xor": ("bitwise_xor", "^"),
    "lshift": ("left_shift", "<<"), "rshift": ("right_shift", ">>"), "matmul": ("matmul", "@"),
}  # fmt: skip
for _name, (_kernel, _sign) in _BINARY.items():
    setattr(Traced, f"__{_name}__", _operator(_kernel))
    setattr(Traced, f"__r{_name}__", _operator(_kernel, turned=True))
    setattr(Traced, f"__i{_name}__", _in_place(_sign))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Traced, f"__{_name}__", _operator(_name))
for _name, _kernel in (("neg", "neg"), ("pos", "positive"), ("abs", "abs"), ("invert", "invert")):
    setattr(Traced, f"__{_name}__", _operator(_kernel))
for _name, _what in (
    ("bool", "a condition"), ("int", "int()"), ("float", "float()"), ("index", "an index"),
    ("complex", "complex()"), ("array", "a conversion to NumPy"),
    ("contains", "`in`"), ("dlpack", "DLPack"), ("setitem", "the change of an element"),
):  # fmt: skip
    setattr(Traced, f"__{_name}__", _refusal(_what))
