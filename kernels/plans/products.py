"""From call to launches: products to which something is added, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget import spec

from . import narrow
from .contractions import Contraction, View, between
from .einsum import labelled
from .elementwise import compute_dtype
from .gates import walk
from .layouts import broadcast_strides, broadcasts
from .options import one_of

__all__ = ["added", "gated", "gemm", "integers", "linear", "matrix_power", "scaled_integers"]

_ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid")
_Labels = Sequence[str]


def added(a: str, b: str, result: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of beta * c + alpha * (a @ b), where c is the first argument.

    Args:
        a, b, result: labels of a, b and of their product.
    """

    def plan(call: spec.Call) -> spec.Plan:
        product = _Product(call, (1, a), (2, b), result)
        factors = [_factor(call, name, product.dtype) for name in ("alpha", "beta")]
        return product.finished(0, factors)

    return plan


def linear(weight: str) -> Callable[[spec.Call], spec.Plan]:
    """The plan of activation(x @ w + bias); x has any number of axes in front.

    Args:
        weight: the labels of w, of which k is that of the last axis of x, n the result's.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x = call.array(0)
        if not x.ndim:
            raise spec.ArgumentError(f"{call.kernel}: x has no dimension; it needs at least one.")
        front = [str(axis) for axis in range(x.ndim - 1)]
        product = _Product(call, (0, [*front, "k"]), (1, weight), [*front, "n"])
        activation = one_of(call, "activation", _ACTIVATIONS)
        bias = 2 if len(call.args) > 2 and call.args[2] is not spec.ABSENT else None
        if bias is not None and call.array(2).shape != (product.lengths["n"],):
            raise spec.ArgumentError(
                f"{call.kernel}: bias has shape {call.array(2).shape}; it needs "
                f"({product.lengths['n']},), one number for each column of the result."
            )
        return product.finished(bias, [None, None], activation)

    return plan


def gemm(call: spec.Call) -> spec.Plan:
    """The plan of ONNX's Gemm."""
    terms = []
    for name, plain in (("trans_a", "mk"), ("trans_b", "kn")):
        turned = call.options[name]
        if turned not in (0, 1):
            raise spec.ArgumentError(f"{call.kernel}: {name} is {turned!r}; it has to be 0 or 1.")
        terms.append(plain[::-1] if turned else plain)
    product = _Product(call, (0, terms[0]), (1, terms[1]), "mn")
    factors = [_factor(call, name, product.dtype) for name in ("alpha", "beta")]
    given = len(call.args) > 2 and call.args[2] is not spec.ABSENT
    return product.finished(2 if given else None, factors)


def _factor(call: spec.Call, name: str, dtype: str) -> spec.Scalar | None:
    """The option `name`; None where it is 1.

    Raises:
        ArgumentError: it is not a number, or a fraction beside integers.
    """
    value = call.options[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise spec.ArgumentError(f"{call.kernel}: {name} is {value!r}; it has to be a number.")
    floating = dtype in ("float16", "bfloat16", "float32", "float64")
    if not floating and value != int(value):
        raise spec.ArgumentError(
            f"{call.kernel}: {name} is {value}, and the result is {dtype}; it has to be an "
            "integer there."
        )
    if value == 1:
        return None
    return spec.Scalar(float(value) if floating else int(value), compute_dtype(dtype))


class _Product:
    """A product of two arguments, and what is made of it.

    Args:
        a, b: index of each, and its labels.
        result: labels of the product.
    """

    def __init__(
        self, call: spec.Call, a: tuple[int, _Labels], b: tuple[int, _Labels], result: _Labels
    ) -> None:
        self.call = call
        self.views: list[View] = []
        self.lengths: dict[str, int] = {}
        where: dict[str, str] = {}
        for index, labels in (a, b):
            array = call.array(index)
            if array.ndim != len(labels):
                raise spec.ArgumentError(
                    f"{call.kernel}: argument {index + 1} has {array.ndim} dimensions; it needs "
                    f"{len(labels)}."
                )
            for axis, label in enumerate(labels):
                n = array.shape[axis]
                if label in self.lengths and self.lengths[label] != n:
                    raise spec.ArgumentError(
                        f"{call.kernel}: {where[label]} has length {self.lengths[label]}, and axis "
                        f"{axis} of argument {index + 1} has length {n}; they need the same."
                    )
                self.lengths[label] = n
                where[label] = f"axis {axis} of argument {index + 1}"
            self.views.append(labelled(call, index, labels))
        self.labels = tuple(result)
        self.shape = tuple(self.lengths[label] for label in result)
        self.dtype = call.rules.promote(*(arg.dtype for arg in call.args))

    def finished(
        self,
        c: int | None,
        factors: Sequence[spec.Scalar | None],
        activation: str = "none",
    ) -> spec.Plan:
        """The plan of activation(alpha * product + beta * argument c).

        Args:
            c: index of the argument; None: nothing is added.
            factors: alpha and beta; None is 1. A beta of 0 leaves c out, nan or not.
        """
        call = self.call
        out = call.output(self.shape, self.dtype)
        alpha, beta = factors
        if beta is not None and beta.value == 0:
            c = None
        strides = () if c is None else _over(call, c, self.shape)
        if not out.size:
            return spec.Plan((out,), ())
        work = Contraction(call, self.dtype)
        rest = c is None and alpha is None and activation == "none"
        axes = dict(zip(self.labels, self.shape, strict=True))
        if rest and 0 not in self.lengths.values():
            steps = zip(self.shape, out.strides, strict=True)
            named = dict(zip(self.labels, steps, strict=True))
            work.run(self.views, View(spec.Output(), self.dtype, named))
            return spec.Plan((out,), tuple(work.launches), tuple(work.temporaries))
        product = work.temporary(axes, between(self.dtype))
        if 0 in self.lengths.values():
            cleared: tuple[int, ...] = (0,)
        else:
            cleared = ()
            work.run(self.views, product)
        addresses: dict[str, spec.Argument] = {"x": product.source, "out": spec.Output()}
        absent: dict[str, Any] = {}
        over = {"so": out.strides, "sx": tuple(step for _, step in product.axes.values())}
        numbers: dict[str, spec.Argument] = {}
        if c is None:
            absent |= {"c": None, "sc": 0}
        else:
            addresses["c"] = spec.Input(c)
            over["sc"] = strides
        for name, value in (("alpha", alpha), ("beta", beta if c is not None else None)):
            if value is None:
                absent[name] = None
            else:
                numbers[name] = value
        last = walk(
            call,
            "products:finish",
            addresses,
            numbers,
            self.shape,
            over,
            {
                **absent,
                "ACTIVATION": activation,
                "T": spec.dtype_constant(compute_dtype(self.dtype)),
            },
        )
        return spec.Plan((out,), (*work.launches, last), tuple(work.temporaries), cleared=cleared)


def _over(call: spec.Call, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an argument that broadcasts to `shape`."""
    array = call.array(index)
    if not broadcasts(array.shape, shape):
        raise spec.ArgumentError(
            f"{call.kernel}: argument {index + 1} has shape {array.shape}, which does not "
            f"broadcast to {shape}, the shape of the product."
        )
    return broadcast_strides(array, shape)


def matrix_power(call: spec.Call) -> spec.Plan:
    """The plan of a square matrix, or a stack of them, multiplied by itself n times."""
    x, power = call.array(0), call.options["n"]
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise spec.ArgumentError(
            f"{call.kernel}: x has shape {x.shape}; its last two axes need the same length."
        )
    if isinstance(power, bool) or not hasattr(power, "__index__") or power < 1:
        raise spec.ArgumentError(
            f"{call.kernel}: n is {power!r}; it has to be 1 or more. For 0 take eye; a negative "
            "power is one of the inverse, which no kernel here gives."
        )
    out = call.output(x.shape, x.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    work = Contraction(call, x.dtype)
    front = [str(axis) for axis in range(x.ndim - 2)]
    shape = dict(zip([*front, "i", "j"], x.shape, strict=True))
    given = labelled(call, 0, list(shape))
    steps = zip(shape.values(), out.strides, strict=True)
    result = View(spec.Output(), x.dtype, dict(zip(shape, steps, strict=True)))
    # from the highest bit down: square, and multiply by x where the bit is set
    bits = bin(power)[3:]
    done = given
    left = len(bits) + bits.count("1")
    for bit in bits:
        for squared in (True, False) if bit == "1" else (True,):
            left -= 1
            into = work.temporary(shape, between(x.dtype)) if left else result
            right = done if squared else given
            work.run([_matrix(done, "i", "k"), _matrix(right, "k", "j")], into)
            done = into
    if power == 1:
        work.run([given], result)
    return spec.Plan((out,), tuple(work.launches), tuple(work.temporaries))


def _matrix(view: View, row: str, column: str) -> View:
    """A view with the labels i and j as one with others."""
    renamed = {"i": row, "j": column}
    return view._replace(axes={renamed.get(k, k): axis for k, axis in view.axes.items()})


def gated(call: spec.Call) -> spec.Plan:
    """The plan of silu(x @ gate) * (x @ up); x has any number of axes in front."""
    x = call.array(0)
    if not x.ndim:
        raise spec.ArgumentError(f"{call.kernel}: x has no dimension; it needs at least one.")
    front = [str(axis) for axis in range(x.ndim - 1)]
    products = [
        _Product(call, (0, [*front, "k"]), (index, "kn"), [*front, "n"]) for index in (1, 2)
    ]
    first = products[0]
    if products[1].shape != first.shape:
        raise spec.ArgumentError(
            f"{call.kernel}: gate has shape {call.array(1).shape} and up {call.array(2).shape}; "
            "they need the same."
        )
    out = call.output(first.shape, first.dtype)
    if not out.size:
        return spec.Plan((out,), ())
    if 0 in first.lengths.values():
        return spec.Plan((out,), (), (), (0,))
    work = Contraction(call, first.dtype)
    axes = dict(zip(first.labels, first.shape, strict=True))
    sources = []
    for product in products:
        sources.append(work.temporary(axes, between(first.dtype)))
        work.run(product.views, sources[-1])
    steps = tuple(step for _, step in sources[0].axes.values())
    computed = spec.dtype_constant(compute_dtype(first.dtype))
    last = walk(
        call,
        "elementwise:binary(functions.gates:silu_mul)",
        {"a": sources[0].source, "b": sources[1].source, "out": spec.Output()},
        {},
        first.shape,
        {"so": out.strides, "sa": steps, "sb": steps},
        {"TA": computed, "TB": computed, "STREAM": False},
    )
    return spec.Plan((out,), (*work.launches, last), tuple(work.temporaries))


def _of_bytes(call: spec.Call) -> _Product:
    """The product of matrices of 8-bit integers."""
    for index in (0, 1):
        if call.array(index).dtype not in ("int8", "uint8"):
            raise spec.ArgumentError(
                f"{call.kernel}: argument {index + 1} is {call.array(index).dtype}; it has to be "
                "int8 or uint8."
            )
    return _Product(call, (0, "mk"), (1, "kn"), "mn")


def _by_units(
    call: spec.Call, product: _Product, out: spec.ArrayType, scales: narrow.Scales | None
) -> spec.Plan | None:
    """The plan of a product of integers by units that multiply these; None: there are none."""
    (m, n), k = product.shape, product.lengths["k"]
    a, b = call.array(0), call.array(1)
    own = narrow.Product(
        call,
        narrow.Operand(spec.Input(0), a.dtype, m, *a.strides),
        narrow.Operand(spec.Input(1), b.dtype, n, *b.strides[::-1]),
        k,
        out,
        scales,
    )
    launches = narrow.integers(own)
    return None if launches is None else spec.Plan((out,), tuple(launches), tuple(own.temporaries))


def integers(call: spec.Call) -> spec.Plan:
    """The plan of the int32 product of matrices of 8-bit integers."""
    product = _of_bytes(call)
    out = call.output(product.shape, "int32")
    if not out.size:
        return spec.Plan((out,), ())
    if 0 in product.lengths.values():
        return spec.Plan((out,), (), (), (0,))
    if (plan := _by_units(call, product, out, None)) is not None:
        return plan
    work = Contraction(call, "int32")
    axes = zip(product.shape, out.strides, strict=True)
    work.run(product.views, View(spec.Output(), "int32", dict(zip("mn", axes, strict=True))))
    return spec.Plan((out,), tuple(work.launches), tuple(work.temporaries))


def scaled_integers(call: spec.Call) -> spec.Plan:
    """The plan of the float32 product that 8-bit integers stand for: rows of `a` and columns of `b`
    have scales, or each has one.
    """
    product = _of_bytes(call)
    out = call.output(product.shape, "float32")
    if not out.size:
        return spec.Plan((out,), ())
    m, n = product.shape
    strides = []
    for index, name, shape in ((2, "a_scale", (m, 1)), (3, "b_scale", (1, n))):
        array = call.array(index)
        length = m if index == 2 else n
        if array.size != 1 and array.shape not in (shape, (length,)):
            raise spec.ArgumentError(
                f"{call.kernel}: {name} has shape {array.shape}; it needs ({length},), a number "
                "for each, or one number."
            )
        step = 0 if array.size == 1 else array.strides[0 if array.ndim == 1 else index - 2]
        strides.append((step, 0) if index == 2 else (0, step))
    if 0 in product.lengths.values():
        return spec.Plan((out,), (), (), (0,))
    scales = narrow.Scales(spec.Input(2), spec.Input(3), strides[0][0], strides[1][1])
    if (plan := _by_units(call, product, out, scales)) is not None:
        return plan
    work = Contraction(call, "int32")
    whole = work.temporary(dict(zip("mn", product.shape, strict=True)), "int32")
    work.run(product.views, whole)
    last = walk(
        call,
        "products:scaled",
        {
            "x": whole.source,
            "a_scale": spec.Input(2),
            "b_scale": spec.Input(3),
            "out": spec.Output(),
        },
        {},
        product.shape,
        {"so": out.strides, "sx": (n, 1), "sa": strides[0], "sb": strides[1]},
        {"T": spec.dtype_constant("float32")},
    )
    return spec.Plan((out,), (*work.launches, last), tuple(work.temporaries))
