"""The declaration of a kernel: the arguments of `@xtarget.kernel` and the annotations of its
function, which give each parameter its part."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final, get_args

from .._values.authoring import (
    REQUIRED,
    ArrayRule,
    Config,
    In,
    InOut,
    Out,
    Stride,
    StrideRule,
    Workspace,
    dtype_named,
)
from .._values.errors import ArgumentError, XTargetError
from .._values.types import DtypeConstant
from .._values.value_classes import value_class
from .contexts import Heuristic, Rule, formula
from .triton_wrappers import INTERPRETED, is_interpreted

__all__ = ["Declaration", "Parameters", "constant_of", "place_of", "place_of_function"]

_ANY: Final = ArrayRule("In")
#: The annotations that are ours, without their brackets.
_BARE: Final[Mapping[Any, str]] = {
    word: word.__name__ for word in (In, InOut, Out, Workspace, Stride)
}
_WORDS: Final = frozenset(_BARE.values())
#: The annotations that say what a number is, also where Python has not evaluated them.
_KINDS: Final = {word: kind for kind in (int, float, bool) for word in (kind, kind.__name__)}
#: Their methods that take names.
_METHODS: Final = frozenset({"counted_by", "descriptor"})


@value_class(frozen=True, slots=True)
class Declaration:
    """A kernel as its author describes it.

    Attributes:
        name: the kernel's.
        order: arrays and numbers of the caller, in the order of a call.
        arrays: the arrays among them.
        scalars: the numbers among them, with their defaults; `REQUIRED`: there is none.
        outputs, workspaces: what else the launches write, in their order.
        sizes: integers that are computed from the call.
        constants: `tl.constexpr` parameters: values, or functions of the call.
        flags: `tl.constexpr` parameters that the caller gives by keyword, with their defaults.
        dims: lengths by name, each with an array that says it.
        solved: those that a formula of an array says, and how.
        updates: the arrays that are written in place.
        kinds: what the annotation of a number says: int, float or bool.
        steps: the dimensions of arrays whose strides are parameters.
        strided: all of them, and the outputs.
        decided: flags whose value Triton's heuristics find from what the caller gives.
        grid: of the only launch; None: the function gives the launches.
    """

    name: str
    order: tuple[str, ...]
    arrays: Mapping[str, ArrayRule]
    scalars: Mapping[str, Any]
    outputs: Mapping[str, Out | ArrayRule]
    workspaces: Mapping[str, Out | ArrayRule]
    sizes: Mapping[str, Rule]
    constants: Mapping[str, Any]
    flags: Mapping[str, Any]
    dims: Mapping[str, str]
    updates: tuple[str, ...]
    kinds: Mapping[str, type]
    steps: Mapping[str, frozenset[int]]
    strided: bool
    grid: Rule | None
    num_warps: Any
    num_stages: Any
    options: Mapping[str, Any]
    configs: tuple[Config, ...] = ()
    key: tuple[str, ...] = ()
    prune: Callable[..., Any] | None = None
    solved: Mapping[str, Rule] = field(default_factory=dict)
    decided: Mapping[str, Heuristic] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """`KernelSpec.inputs`: with `?` where one may be left out."""
        return tuple(name + "?" if self.may_lack(name) else name for name in self.order)

    def tile_of(self, name: str) -> tuple[int | str, ...] | None:
        """The tile of an array that the function takes as a tensor descriptor."""
        rule = self.arrays.get(name, self.outputs.get(name, self.workspaces.get(name)))
        return rule.tile if isinstance(rule, ArrayRule) else None

    def may_lack(self, name: str) -> bool:
        if name in self.arrays:
            return self.arrays[name].optional
        return self.scalars[name] is not REQUIRED


@value_class(frozen=True, slots=True)
class Parameters:
    """The parameters of a kernel's function.

    Attributes:
        names: in their order.
        constexpr: those that are `tl.constexpr`.
        defaults: by name.
        rules: what annotations say of arrays and strides.
        kinds: of numbers: int, float or bool.
    """

    names: tuple[str, ...]
    constexpr: frozenset[str]
    defaults: Mapping[str, Any]
    rules: Mapping[str, ArrayRule | StrideRule]
    kinds: Mapping[str, type]

    @classmethod
    def of(cls, kernel: str, fn: Any) -> Parameters:
        """Those of a `@triton.jit` function."""
        if is_interpreted(fn):
            raise XTargetError(f"{kernel} cannot be compiled: {INTERPRETED}")
        defaults = {p.name: p.default for p in fn.params if p.has_default}
        constexpr = frozenset(p.name for p in fn.params if p.is_constexpr)
        known = getattr(fn.fn, "__annotations__", {})
        said = {n: known[n] for n in fn.arg_names if n in known and n not in constexpr}
        rules = dict(_annotated(kernel, fn, said))
        kinds = {n: _KINDS[one] for n, one in said.items() if _is_kind(one)}
        if rules or kinds:
            _hide_annotations(fn, frozenset(said))
        return cls(tuple(fn.arg_names), constexpr, defaults, rules, kinds)


def _is_kind(said: Any) -> bool:
    return isinstance(said, str | type) and said in _KINDS


def _annotated(
    kernel: str, fn: Any, annotations: Mapping[str, Any]
) -> Iterator[tuple[str, ArrayRule | StrideRule]]:
    """Annotations that are ours; those of Triton and of type checkers are not."""
    function = fn.fn
    for name, said in annotations.items():
        bare = said if isinstance(said, str) else _BARE.get(said, "") if callable(said) else ""
        if bare in _WORDS:
            example = '["x", 0]' if bare == "Stride" else '["float32", "M", "N"]'
            plain = "" if bare == "Stride" else f', or {bare}["any"] for any dtype and shape'
            plain = ', or Out["x"] to be like x' if bare == "Out" else plain
            raise ArgumentError(
                f"{kernel}: its parameter {name!r} ({place_of(fn, name)}) is {bare}, without "
                f"brackets. Write {bare}{example}{plain}."
            )
        if isinstance(said, str) and any(f"{word}[" in said for word in _WORDS):
            try:
                known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
                tree = _Lengths(known).visit(ast.parse(said, mode="eval"))
                said = eval(compile(ast.fix_missing_locations(tree), "", "eval"), known)
            except XTargetError:
                raise
            except Exception as error:  # it is a user's expression
                raise ArgumentError(
                    f"{kernel}: the annotation {said!r} of its parameter {name!r} "
                    f"({place_of(fn, name)}) cannot be read: {type(error).__name__}: {error}. "
                    "Import what it names at the top of the file."
                ) from error
        rule = _rule_in(said)
        if rule is not None:
            yield name, rule


def _rule_in(said: Any) -> ArrayRule | StrideRule | None:
    """The rule in an annotation, also as `Annotated[tl.tensor, In["T", "N"]]`, which type checkers
    read; None: the annotation is not ours."""
    if isinstance(said, ArrayRule | StrideRule):
        return said
    inside = getattr(said, "__metadata__", None)
    if inside is not None:
        return next((rule for rule in inside if isinstance(rule, ArrayRule | StrideRule)), None)
    members = get_args(said)
    if type(None) in members:
        found = [rule for one in members if (rule := _rule_in(one)) is not None]
        if len(found) == 1 and isinstance(found[0], ArrayRule):
            return found[0] | None
    return None


class _Lengths(ast.NodeTransformer):
    """Annotations that Python has not evaluated (`from __future__ import annotations`): names of
    lengths may then stand without quotes, `In[float32, M, 2 * K]`."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        name = node.value.attr if isinstance(node.value, ast.Attribute) else None
        name = node.value.id if isinstance(node.value, ast.Name) else name
        if name in _WORDS:
            several = isinstance(node.slice, ast.Tuple)
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            items = [self._item(item) for item in items]
            node.slice = ast.Tuple(items, ast.Load()) if several else items[0]
        else:
            self.generic_visit(node)  # ours may stand inside: Annotated[tl.tensor, In[...]]
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            node.args = [self._item(item) for item in node.args]
        return node

    def _item(self, node: ast.expr) -> ast.expr:
        value = self._known.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Constant | ast.Attribute | ast.UnaryOp) or isinstance(value, int):
            return node
        return ast.Constant(ast.unparse(node))


def _hide_annotations(fn: Any, names: frozenset[str]) -> None:
    """Keep annotations from Triton, which evaluates all of them as it compiles, and knows constants
    only."""
    parse = type(fn).parse

    def parsed() -> Any:
        tree = parse(fn)
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.arg in names:
                node.annotation = None
        return tree

    fn.parse = parsed


def place_of_function(fn: Any) -> str:
    """File and line of a function, as `kernels.py:12`; "" where they are not known."""
    code = getattr(getattr(fn, "fn", fn), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def place_of(fn: Any, parameter: str) -> str:
    """File and line of a parameter, or of its function where the file cannot be read."""
    function = getattr(fn, "fn", fn)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return place_of_function(fn)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg == parameter:
            return f"{function.__code__.co_filename}:{first + node.lineno - 1}"
    return place_of_function(fn)


def rules_of(kernel: str, part: str, given: Mapping[str, Any]) -> dict[str, Rule]:
    """Functions of the call, some of them written as formulas or numbers.

    Raises:
        ArgumentError: one is neither.
    """
    return {name: rule_of(kernel, f"{part} {name!r}", rule) for name, rule in given.items()}


def rule_of(kernel: str, part: str, rule: Any) -> Rule:
    numbers = rule if type(rule) is tuple else (rule,)
    if numbers and all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        rule = str(rule)
    if isinstance(rule, str):
        try:
            return formula(part, rule)
        except ArgumentError as error:
            raise ArgumentError(f"{kernel}: {error}") from None
    if callable(rule):
        checked: Rule = rule
        return checked
    raise ArgumentError(
        f"{kernel}: its {part} is {rule!r}. Give a function of the call's layouts: lambda c: ...; "
        'a formula as text: "cdiv(n, BLOCK)"; or a whole number.'
    )


def constant_of(value: Any) -> Any:
    """A constant as launches have it: element types as `DtypeConstant`."""
    if value is None or isinstance(value, bool | int | float | str | tuple | DtypeConstant):
        return value
    name = dtype_named(value)
    return value if name is None else DtypeConstant(name)


def constexpr_value(value: Any) -> Any:
    """The value behind Triton's own wrapper of a constant."""
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def names_in(kernel: str, part: str, given: Any) -> dict[str, ArrayRule]:
    """Arrays by name: `("x", "y?")`, or a mapping to what is said of each."""
    found: dict[str, ArrayRule] = {}
    items = given.items() if isinstance(given, Mapping) else ((name, _ANY) for name in given)
    for name, rule in items:
        if not isinstance(rule, ArrayRule):
            raise ArgumentError(
                f"{kernel}: its {part} {name!r} is {rule!r:.80}. Write what it is as "
                'In["float32", "M", "N"], of xtarget.spec.'
            )
        optional = rule.optional or name.endswith("?")
        found[name.rstrip("?")] = replace(rule, optional=optional)
    return found
