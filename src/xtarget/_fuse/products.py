"""Products of matrices that go on in the same launch: what follows is done to each tile before it
is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from .._kernels.steps import Operand, Step
from .._values.float8 import FLOAT8
from .._values.value_classes import value_class
from ..spec import ABSENT
from .nodes import Node, Value
from .stored import is_attention, is_read_through, is_scan, places_of, stored_among

__all__ = [
    "MOST_ARGUMENTS",
    "MOST_BESIDE",
    "MOST_OF_HEAD",
    "Head",
    "Product",
    "first_of",
    "heads_of",
    "obstacle",
    "product_among",
    "product_of",
]

#: Arrays and numbers beside a product (`kernels/tails.py`).
MOST_BESIDE = 4
#: Arrays and numbers of a launch with attention, what its arrays are made of among them.
MOST_ARGUMENTS = 12
#: Those that a factor is made of (`kernels/headed.py`).
MOST_OF_HEAD = 3
#: Rows or columns of a product up to which a factor may be made as it is read: that many make no
#: more tiles than `HEAD_TILES` of `kernels/plans/tuning_matmul.py`, by which each call decides.
_MOST_READERS = 512
#: The same of one that is made of floats of 8 bits, and of the rows or columns of the smaller one
#: where both are made (`MOST_OF_8_BITS` and `SECOND_COLUMNS` there).
_MOST_OF_8_BITS, _MOST_OF_BOTH = 64, 16
#: What the smaller one is made by then, again in each tile: operators of an instruction or two. A
#: gelu of 16 rows took 2 x as long as in a launch of its own, relu 0.94 to 1.02 x (H100).
_CHEAP = frozenset(
    ("abs", "add", "cast", "clamp", "clip", "maximum", "minimum", "mul", "neg", "positive", "relu",
     "relu6", "square", "sub", "where", "eq", "ne", "lt", "le", "gt", "ge")
)  # fmt: skip
#: Dtypes of arrays of attention that are made as it reads them.
_ATTENDED = frozenset(("float16", "bfloat16", "float32", "float64"))
#: The letter of a product's tile.
_TILE = "a"


@value_class(frozen=True, slots=True)
class Product:
    """A node that is a product of matrices, and what it does to it itself.

    Attributes:
        factors: the places of the matrices among its operands.
        turned: the second has the columns of its matrices as rows.
        added: the place of what is added, or None.
        vector: what is added has one number for each column.
        steps: an operand `@N` is the node's operand N, a number the index of an earlier step.
        result: what stands for the node: a step, or the tile.
    """

    factors: tuple[int, int]
    turned: bool
    added: int | None
    vector: bool
    steps: tuple[Step, ...]
    result: Operand


#: By name: places of the factors, whether the second is turned, place of what is added, and whether
#: that is a vector.
_FORMS = {
    "matmul": ((0, 1), False, None, False),
    "linear": ((0, 1), True, 2, True),
    "xw_plus_b": ((0, 1), False, 2, True),
    "addmm": ((1, 2), False, 0, False),
    "baddbmm": ((1, 2), False, 0, False),
    "gemm": ((0, 1), False, 2, False),
}


@lru_cache(maxsize=256)
def product_of(node: Node) -> Product | None:
    """A node as a product; None: it is none, or one that goes on in no launch."""
    form = _FORMS.get(node.spec.name)
    if form is None or not node.own or len(node.plan.outputs) != 1:
        return None
    factors, turned, added, vector = form
    if any(not isinstance(node.operands[place], Value) for place in factors):
        return None
    if added is not None and (len(node.types) <= added or node.types[added] is ABSENT):
        added = None
    if added is not None and not isinstance(node.operands[added], Value):
        return None
    dtype = node.plan.outputs[0].dtype
    options = {**node.spec.options, **node.options}
    if options.get("trans_a", 0):  # the first factor lies as it is
        return None
    turned = turned or bool(options.get("trans_b", 0))
    factor = {name: options.get(name, 1) for name in ("alpha", "beta")}
    if factor["beta"] == 0:  # what is added is not read, nan or not
        return None
    t = "float32" if dtype in ("float16", "bfloat16") else dtype
    steps: list[Step] = []
    value: Operand = (_TILE, (t,))

    def step(function: str, *operands: Operand) -> Operand:
        steps.append(Step(function, operands, t))
        return str(len(steps) - 1), ()

    def times(operand: Operand, by: bool | int | float) -> Operand:
        if by == 1:
            return operand
        text = float(by).hex() if t.startswith("float") else str(int(by))
        return step("functions.arithmetic:mul", operand, (f"={text}", (t,)))

    value = times(value, factor["alpha"])
    if added is not None:
        other = times((f"@{added}", (t,)), factor["beta"])
        value = step("functions.arithmetic:add", value, other)
    activation = options.get("activation", "none")
    if activation != "none":
        value = step(f"functions.activations:{activation}", value)
    if not steps:
        return Product(factors, turned, added, vector, (), (_TILE, (dtype,)))
    last = steps.pop()
    steps.append(Step(last.function, last.operands, dtype))
    return Product(factors, turned, added, vector, tuple(steps), value)


@value_class(frozen=True, slots=True)
class Head:
    """The steps that make a factor of a product, a scan's input, or an array of attention, in the
    same launch.

    Attributes:
        node: the product, the scan, or attention.
        place: of what is made among its operands.
        nodes: that give it, in their order.
    """

    node: Node
    place: int
    nodes: tuple[Node, ...]


def heads_of(nodes: Sequence[Node]) -> tuple[Head, ...]:
    """The heads of factors of a section's product, of its scan's input where something follows it,
    or arrays of its attention, in the order of their places; none: these are arrays as they are."""
    node = product_among(nodes)
    product = None if node is None else product_of(node)
    places: tuple[int, ...] = () if product is None else product.factors
    if node is None:
        node = stored_among(nodes)
        if node is not None and is_attention(node):
            places = (0, 1, 2)
        elif node is not None and is_scan(node) and node is not nodes[-1]:
            places = (0,)
    if node is None:
        return ()
    inside = {id(one) for one in nodes}
    found: list[Head] = []
    for place in places:
        own = node.operands[place]
        if isinstance(own, Value) and id(own.node) in inside:
            needed = {id(own.node)}
            for one in reversed(nodes):
                if id(one) in needed:
                    needed |= {
                        id(value.node)
                        for value in one.operands
                        if isinstance(value, Value) and id(value.node) in inside
                    }
            found.append(Head(node, place, tuple(one for one in nodes if id(one) in needed)))
    return tuple(found)


def first_of(head: Head) -> Value | None:
    """The array in whose place a factor is made: one of its shape; None: there is none."""
    factor = head.node.operands[head.place]
    assert isinstance(factor, Value)
    inside = {id(one) for one in head.nodes}
    found = [
        own
        for node in head.nodes
        for own in node.operands
        if isinstance(own, Value) and id(own.node) not in inside
    ]
    return next((own for own in found if own.type.shape == factor.type.shape), None)


def _head_obstacle(nodes: Sequence[Node], head: Head, heads: Sequence[Head]) -> str:
    """Why what makes a factor of a product is none of its section; empty: it is.

    Args:
        heads: all of the section.
    """
    node, product = head.node, product_of(head.node)
    own = node.operands[head.place]
    assert isinstance(own, Value)
    made = {id(one) for one in head.nodes}
    if own.views:
        return f"{node.spec.name} reads a view of it"
    for one in nodes:
        for place, value in enumerate(one.operands):
            read = isinstance(value, Value) and id(value.node) in made
            if read and id(one) not in made and not (one is node and place == head.place):
                return f"{node.spec.name} reads it, and {one.spec.name}"
    if not own.type.size or first_of(head) is None:
        return f"{node.spec.name} reads it"
    if is_attention(node):
        dtype = own.type.dtype
        return "" if dtype in _ATTENDED else f"{node.spec.name} reads it as {dtype}"
    if product is None:
        return ""
    other = node.operands[sum(product.factors) - head.place]
    assert isinstance(other, Value)
    if own.type.ndim < 2 or other.type.ndim < 2:
        return f"{node.spec.name} reads it"
    second = head.place == product.factors[1]
    if second and own.type.ndim > 2:
        return f"{node.spec.name} reads it once for each matrix"
    dtype = node.plan.outputs[0].dtype
    if dtype not in ("float16", "bfloat16", "float32"):
        return f"{node.spec.name} reads it"
    whole = node.plan.outputs[0].shape
    height = math.prod(whole[:-1])
    readers = height if second else whole[-1]
    if len(heads) > 1:
        readers = min(height, whole[-1])
        smaller = heads[int(height > whole[-1])]
        if readers > _MOST_OF_BOTH or not _is_cheap(smaller):
            return (
                f"{node.spec.name} makes both factors as it reads them only where one has no more "
                f"than {_MOST_OF_BOTH} rows or columns and is made by sums, products and the like"
            )
    if readers > _MOST_READERS:
        return f"{node.spec.name} reads it more than once"
    narrow = any(type_.dtype in FLOAT8 for one in head.nodes for type_ in one.types)
    if narrow and readers > _MOST_OF_8_BITS:
        return f"{node.spec.name} takes floats of 8 bits apart for no more than {_MOST_OF_8_BITS}"
    return ""


def _is_cheap(head: Head) -> bool:
    """Whether a factor may be made again by each tile."""
    names = {node.spec.name for node in head.nodes}
    return names <= _CHEAP and not any(
        type_.dtype in FLOAT8 for node in head.nodes for type_ in node.types
    )


def product_among(nodes: Sequence[Node]) -> Node | None:
    """The product of a section."""
    return next((node for node in nodes if product_of(node) is not None), None)


def obstacle(nodes: Sequence[Node], root: Node) -> str:
    """Why nodes that are a product, a convolution or a scan, and elementwise operators, are not a
    section; empty: they are.

    Decided by the sizes of this trace. For others the section's plan computes the product apart
    where it has to.
    """
    made = {id(node) for node in nodes}
    node, *others = (
        one for one in nodes if product_of(one) is not None or places_of(one) is not None
    )
    if others:
        return "a launch has one product of matrices, convolution, scan or attention"
    if node is root and is_read_through(nodes, root):
        return ""
    heads = heads_of(nodes)
    for head in heads:
        why = _head_obstacle(nodes, head, heads)
        if why:
            return why
        made -= {id(one) for one in head.nodes}
    inside = [
        operand.node.spec.name
        for operand in node.operands
        if isinstance(operand, Value) and operand.node is not None and id(operand.node) in made
    ]
    if inside:
        return f"{node.spec.name} reads it"
    if node is root:
        return "" if heads else f"{node.spec.name} ends it"
    if root.plan.outputs[0].shape != node.plan.outputs[0].shape or not node.plan.launches:
        return f"its shape is not that of {root.spec.name}"
    return ""
