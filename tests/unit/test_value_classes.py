"""`value_class` makes of a class what `dataclasses.dataclass` does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from functools import partial
from operator import eq, lt
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from xtarget._values.value_classes import value_class

T = TypeVar("T")
_FROZEN = {"frozen": True, "slots": True}


def _classes(make: Callable[..., Any]) -> list[Any]:
    """Classes of all sorts, made by a decorator."""

    @make(**_FROZEN)
    class Plain:
        """Of two."""

        a: int
        b: Any = 5

    @make(**_FROZEN)
    class Listed(Plain):
        """Derived, with a field that is made, and one that does not count."""

        c: list[int] = dataclasses.field(default_factory=list, hash=False)
        d: Any = dataclasses.field(default=None, compare=False, repr=False)

        def __post_init__(self) -> None:
            if self.a == 13:
                raise ValueError("13")

    @make(**_FROZEN)
    class Boxed(Generic[T]):
        """Of one."""

        a: T

    @make(**_FROZEN, eq=False)
    class Same:
        """Equal to itself alone."""

        a: int

    @make(**_FROZEN, repr=False)
    class Told:
        """With methods of its own."""

        a: int

        def __repr__(self) -> str:
            return f"<{self.a}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.a // 2 == self.a // 2

    @make(**_FROZEN, order=True)
    class Ordered:
        """Compared."""

        a: int

    @make(**_FROZEN)
    class Empty:
        """Of none."""

    @make(**_FROZEN)
    class Counted:
        """With a field that is no argument."""

        a: int
        b: list[int] = dataclasses.field(init=False, repr=False, default_factory=list)

    return [Plain, Listed, Boxed, Same, Told, Ordered, Empty, Counted]


NUMBERS = range(8)
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((float("nan"),), {}),
    ((), {"a": 1}),
    ((), {"b": 1}),
    ((13,), {}),
    ((1, 2, [3], 4), {}),
    ((1,), {"c": [3], "d": "x"}),
    ((1,), {"e": 3}),
    ((1, 2, 3, 4, 5), {}),
    (([],), {}),
]


def _outcome(function: Callable[[], Any]) -> Any:
    """The result or the error of a function, without where a class was made."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error).replace("_value_classes", "_classes")


def _changed(value: Any) -> str:
    return repr(dataclasses.replace(value, a=4))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("args", "named"), ARGUMENTS)
def test_instances_are_alike(number: int, args: Any, named: Any) -> None:
    ours, theirs = _classes(value_class)[number], _classes(dataclasses.dataclass)[number]
    made, wanted = (_outcome(partial(cls, *args, **named)) for cls in (ours, theirs))
    if isinstance(wanted, tuple):
        assert made == wanted
        return
    assert repr(made) == repr(wanted)
    assert dataclasses.asdict(made) == dataclasses.asdict(wanted) or args[0] != args[0]
    assert _outcome(lambda: hash(made)) == _outcome(lambda: hash(wanted)) or number == 3
    for other, by_name in [*ARGUMENTS[:3], (args, named)]:
        one, two = (_outcome(partial(cls, *other, **by_name)) for cls in (ours, theirs))
        assert _outcome(partial(eq, made, one)) == _outcome(partial(eq, wanted, two))
        assert _outcome(partial(lt, made, one)) == _outcome(partial(lt, wanted, two))
    assert number == 4 or made != wanted
    for name in (field.name for field in dataclasses.fields(ours)):
        for change in (partial(setattr, made, name, 1), partial(delattr, made, name)):
            theirs_change = partial(change.func, wanted, *change.args[1:])
            assert _outcome(change) == _outcome(theirs_change)
            assert _outcome(change)[0] == "FrozenInstanceError"
    slips = number in (1, 5, 7)  # a dataclass's own
    with pytest.raises(TypeError if slips else AttributeError):
        made.new = 1
    changed = [_outcome(partial(_changed, one)) for one in (made, wanted)]
    assert changed[0] == changed[1]
    assert repr(copy.deepcopy(made)) == repr(made)
    assert made.__getstate__() == wanted.__getstate__() or number == 5 or args[0] != args[0]


@pytest.mark.parametrize("number", NUMBERS)
def test_classes_are_alike(number: int) -> None:
    ours, theirs = _classes(value_class)[number], _classes(dataclasses.dataclass)[number]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    for name in ("__doc__", "__slots__", "__match_args__", "__module__", "__annotations__"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert ours.__init__.__qualname__ == theirs.__init__.__qualname__.replace("dataclass", "")
    fields = [[repr(f) for f in dataclasses.fields(made)] for made in (ours, theirs)]
    assert fields[0] == fields[1]


def _odd(make: Callable[..., Any], number: int) -> Any:
    """A class that a decorator refuses, or reads in another way than field by field."""

    class Base:
        """No dataclass."""

        __slots__ = ("other",)
        held = 3

    def order() -> Any:
        class Order:
            a: int = 1
            b: int

        return Order

    def mutable() -> Any:
        class Mutable:
            a: list[int] = []  # noqa: RUF012

        return Mutable

    def unannotated() -> Any:
        class Unannotated:
            a = dataclasses.field(default=1)

        return Unannotated

    def of_the_class() -> Any:
        class OfTheClass:
            """With one value that is no field."""

            a: int
            b: ClassVar[int] = 4

        return OfTheClass

    def by_name() -> Any:
        class ByName:
            """With one field that is given by its name."""

            a: int
            _: dataclasses.KW_ONLY
            b: int = 2

        return ByName

    def inherited() -> Any:
        class Inherited(Base):
            """With the default of a class above, and a slot of it."""

            held: int
            other: int = 1

        return Inherited

    def itself() -> Any:
        class Itself:
            """With a field of the name that methods have for the instance."""

            self: int
            a: int = 0

        return Itself

    kinds = [order, mutable, unannotated, of_the_class, by_name, inherited, itself]
    return make(**_FROZEN)(kinds[number]())


@pytest.mark.parametrize("number", range(7))
def test_odd_classes_and_mistakes_are_alike(number: int) -> None:
    def told(make: Callable[..., Any]) -> Any:
        made = _odd(make, number)
        fields = [(f.name, repr(f.default), f.kw_only) for f in dataclasses.fields(made)]
        return str(inspect.signature(made)), fields, made.__slots__, repr(made(1)), made(1).a

    given, wanted = (_outcome(partial(told, make)) for make in (value_class, dataclasses.dataclass))
    assert given == wanted


@pytest.mark.parametrize("frozen", [True, False])
def test_a_dataclass_derives_from_one_as_from_any_frozen_one(frozen: bool) -> None:
    def derived(base: Any) -> Any:
        @dataclasses.dataclass(frozen=frozen)
        class Derived(base):  # type: ignore[misc]
            c: int = 7

        made = Derived(1, c=3)
        return repr(made), made == Derived(1, c=3), _outcome(partial(setattr, made, "a", 2))

    makers = value_class, dataclasses.dataclass
    given, wanted = (_outcome(partial(derived, _classes(make)[0])) for make in makers)
    assert given == wanted
    assert frozen == (given[1] is True)


@value_class(frozen=True, slots=True)
class _Sent:
    """Sent between processes."""

    a: int
    b: tuple[int, ...] = ()


def test_values_are_pickled() -> None:
    sent = _Sent(1, (2, 3))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(sent, protocol)) == sent


def test_a_value_within_itself_is_told() -> None:
    around: list[Any] = []
    made = _Sent(1, around)  # type: ignore[arg-type]
    around.append(made)
    assert repr(made) == "_Sent(a=1, b=[...])"
