"""Every elementwise row of the table on every vendor's device that is there, against its reference.

A row and dtype costs a compilation, so the short tier takes one dtype of a row, always the same,
and an emulated device one row in eight; the long tier takes all.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operator_values import arguments, other_options
from operators import own, sample, takes
from oracle import FLOATS, check, compare, expected

import xtarget
from xtarget import ArgumentError
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._values.types import COMPUTED
from xtarget.spec import KernelSpec

ROWS = {
    name: spec
    for name, spec in own().items()
    if (spec.elementwise and spec.plan.__module__.endswith(".plans.elementwise"))
    or name in ("divmod", "frexp", "modf", "sincos")
}


def _number(text: str) -> int:
    """A number that is the same in every process."""
    return zlib.crc32(text.encode())


def _dtypes(spec: KernelSpec) -> list[str]:
    """Floats of 8 bits have tests of their own: test_float8.py, test_few_bits_moved.py."""
    return [dtype for dtype in spec.dtypes if dtype in COMPUTED and takes(spec, dtype)]


def _chosen(spec: KernelSpec) -> str:
    """The dtype of the short tier: float32 of every second row."""
    dtypes, number = _dtypes(spec), _number(spec.name)
    return "float32" if "float32" in dtypes and number % 2 else dtypes[number // 2 % len(dtypes)]


def _pairs() -> list[Any]:
    pairs = []
    for name, spec in sorted(ROWS.items()):
        for dtype in _dtypes(spec):
            marks = [] if dtype == _chosen(spec) else [pytest.mark.long]
            if _number(name) % 8:
                marks.append(pytest.mark.large)
            pairs.append(pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}"))
    return pairs


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "dtype"), _pairs())
def test_a_row_gives_its_references_values(device: str, name: str, dtype: str) -> None:
    """Ordinary and special values; then other options, which need no other binary."""
    spec = ROWS[name]
    values = arguments(spec, dtype)
    check(name, *values, device=device)
    if other_options(spec):
        check(name, *values, device=device, **other_options(spec))


# ------------------------------------------------------------------------------------- layouts


#: A row for each kernel of `elementwise.py`.
KERNELS = ("neg", "copysign", "fma", "addcmul", "modf", "divmod")
SHAPES = st.lists(st.integers(1, 3), min_size=0, max_size=8).map(tuple)


def _view(data: Any, shape: tuple[int, ...], seed: int) -> Any:
    """An array that broadcasts to `shape`: axes in any order, backwards, or repeated."""
    own_shape = tuple(1 if data.draw(st.integers(0, 3)) == 0 else n for n in shape)
    order = data.draw(st.permutations(range(len(shape))))
    x = sample("float32", *(own_shape[i] for i in order), seed=seed)
    x = x.transpose(np.argsort(order)) if shape else x
    return x[tuple(slice(None, None, data.draw(st.sampled_from((1, -1)))) for _ in shape)]


def _any_layouts(device: str, data: Any, shape: tuple[int, ...]) -> None:
    name = data.draw(st.sampled_from(KERNELS))
    views = [_view(data, shape, seed) for seed in range(len(ROWS[name].inputs))]
    check(name, *views, device=device)


@examples(12)
@given(data=st.data(), shape=SHAPES)
def test_any_layouts_of_every_number_of_operands(
    device: str, data: Any, shape: tuple[int, ...]
) -> None:
    _any_layouts(device, data, shape)


@pytest.mark.long
@examples(300, same=False)
@given(data=st.data(), shape=SHAPES)
def test_many_layouts_of_every_number_of_operands(
    device: str, data: Any, shape: tuple[int, ...]
) -> None:
    _any_layouts(device, data, shape)


@pytest.mark.parametrize("name", KERNELS)
def test_shapes_without_elements_and_without_axes(device: str, name: str) -> None:
    for shape in ((0,), (3, 0, 2), ()):
        values = [sample("float32", *shape, seed=s) for s in range(len(ROWS[name].inputs))]
        check(name, *values, device=device)


@pytest.mark.parametrize("name", ["neg", "copysign", "fma"])
def test_a_result_in_the_place_of_an_argument(device: str, name: str) -> None:
    values = [sample("float32", 5, 33, seed=s) for s in range(len(ROWS[name].inputs))]
    right = expected(name, [v.copy() for v in values], {})
    given_out = values[-1]
    assert xtarget.run(name, *values, out=given_out, device=device) is given_out
    compare(name, given_out, right)


def test_digamma_next_to_its_poles(device: str) -> None:
    """The right answers are of mpmath, of 40 digits; SciPy's own is 245 units off."""
    x = np.array([-0.9993971906861143, 1.5, 1.4617524584415027])
    right = np.array([-1658.4750062188753607, 0.03648997397857652, 1.1641760001770771e-4])
    found = check("digamma", x, device=device)
    np.testing.assert_allclose(found, right, rtol=1e-15, atol=1e-15)


def test_silu_mul_of_infinite_numbers_keeps_what_is_too_small_for_a_float(device: str) -> None:
    x = np.array([-432.5, -800, -17, 3, 0, np.inf, -np.inf, np.nan, -432.5], np.float16)
    y = np.array([np.inf] * 8 + [-np.inf], np.float16)
    right = np.array([-np.inf] * 3 + [np.inf, np.nan, np.inf, np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(xtarget.run("silu_mul", x, y, device=device), right)
    gated = xtarget.run("silu_and_mul", np.stack([x, y], -1), device=device)
    np.testing.assert_array_equal(gated.ravel(), right)


@pytest.mark.parametrize("shapes", [((), (1,)), ((3,), (2, 3)), ((2, 3, 4), (3,)), ((1,), (3,))])
def test_weights_of_prelu_make_no_other_shape(device: str, shapes: Any) -> None:
    with pytest.raises(xtarget.ArgumentError, match=r"does not broadcast to x.*\(n, 1, 1\)"):
        xtarget.run("prelu", *(np.ones(shape, np.float32) for shape in shapes), device=device)


def test_prelu_of_channels_is_torchs(device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, weight = sample("float32", 2, 3, 3, 3), sample("float32", 3)
    found = check("prelu", x, weight.reshape(3, 1, 1), device=device)
    right = torch.nn.functional.prelu(torch.as_tensor(x), torch.as_tensor(weight)).numpy()
    np.testing.assert_array_equal(found, right)


def test_select_takes_a_bool_and_no_axis(device: str) -> None:
    x = sample("float32", 3, 4)
    np.testing.assert_array_equal(
        xtarget.run("select", x > 0, x, -1.0, device=device), np.where(x > 0, x, np.float32(-1))
    )
    with pytest.raises(xtarget.ArgumentError, match=r"select: the condition is float32.*a view"):
        xtarget.run("select", x, 0, 1, device=device)  # as torch.select has it


def test_lerp_is_torchs_at_infinities(device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ends = np.float32([1, -np.inf, np.inf, np.nan, 0, -2.5, 1e3])
    weight = np.float32([0, 0.25, 0.5, 1, -2.5, 1.25, np.inf])
    given = [a.ravel() for a in np.meshgrid(ends, ends, weight)]
    found = check("lerp", *given, device=device)
    right = torch.lerp(*map(torch.as_tensor, given)).numpy()
    np.testing.assert_allclose(found, right, rtol=1e-5)


def test_numbers_among_the_arguments(device: str) -> None:
    x = sample("float32", 77)
    for name, values in (
        ("pow", (x * x, 2.0)),
        ("clip", (x, -0.5, 0.5)),
        ("gt", (x, 0.25)),
        ("floor_divide", (1.5, x)),
        ("lerp", (x, -x, 0.25)),
    ):
        check(name, *values, device=device)


# ------------------------------------------------------------------------ all numbers of half types


def _halves(dtype: str) -> Any:
    return np.arange(2**16, dtype=np.uint16).view(numpy_dtype(dtype))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", sorted(n for n, s in ROWS.items() if len(s.inputs) == 1 and "float16" in s.dtypes)
)
def test_every_number_of_a_half_type(device: str, name: str, dtype: str) -> None:
    check(name, _halves(dtype), device=device)


# ------------------------------------------------------------------------ what integers cannot do


def test_division_of_integers_by_zero_and_beyond(device: str) -> None:
    for dtype in ("int8", "int64"):
        least = np.iinfo(dtype).min
        x = np.array([5, -5, 0, least, least, 7], dtype)
        y = np.array([0, 0, 0, -1, 0, -2], dtype)
        with np.errstate(all="ignore"):
            for name in ("floor_divide", "remainder", "fmod"):
                found = xtarget.run(name, x, y, device=device)
                np.testing.assert_array_equal(found, getattr(np, name)(x, y))


def test_integers_to_negative_powers_as_torch(device: str) -> None:
    """NumPy has no answer: an error there."""
    x, y = np.array([1, -1, -1, 2, 0, -3], np.int32), np.array([-2, -2, -3, -1, -1, -1], np.int32)
    found = xtarget.run("pow", x, y, device=device)
    np.testing.assert_array_equal(found, [1, 1, -1, 0, 0, 0])


def test_comparisons_that_no_dtype_holds_are_refused(device: str) -> None:
    with pytest.raises(ArgumentError, match="lt: uint64 is compared with a signed integer"):
        xtarget.run("lt", np.ones(3, np.uint64), np.ones(3, np.int64), device=device)


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("name", "arguments", "options", "said"),
    [
        ("sin", (), {}, "sin takes 1 argument"),
        ("relu6", (np.ones(3, bool),), {}, "relu6 does not take bool"),
        ("bitwise_and", (np.ones(3), np.ones(3)), {}, "bitwise_and does not take float64"),
        ("elu", (np.ones(3),), {"alpha": "x"}, "elu: alpha='x' is not a number"),
        ("elu", (np.ones(3),), {"beta": 1.0}, "elu has no option 'beta'"),
        ("gelu", (np.ones(3),), {"approximate": "fast"}, "approximate is 'fast'"),
        ("ldexp", (np.ones(3), np.ones(3)), {}, "ldexp: x is float64 and exponent is float64"),
        ("hypot", (np.ones(3), np.ones(4)), {}, "do not broadcast"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    device: str, name: str, arguments: Any, options: Any, said: str
) -> None:
    with pytest.raises(ArgumentError) as error:
        xtarget.run(name, *arguments, device=device, **options)
    assert said in str(error.value)


def test_two_results_have_no_place_in_one_out(device: str) -> None:
    x = sample("float32", 5)
    with pytest.raises(ArgumentError, match="frexp gives 2 results, and out= has room for one"):
        xtarget.run("frexp", x, out=x.copy(), device=device)


# ------------------------------------------------------------------------ casts


def _castable(dtype: str, other: str) -> Any:
    """Values that both dtypes have, and of floating numbers the special ones if both are."""
    unsigned = "bool" in (dtype, other) or any(d.startswith("uint") for d in (dtype, other))
    values = np.array([0, 1, 2, 3, 77, 100, 127]) if unsigned else np.arange(-100, 101, 7)
    if dtype in FLOATS and other in FLOATS:
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.1, 1 / 3, 1e-30, 65519.0, 1e30])
    elif dtype in FLOATS:
        values = values * 1.25
    return values.astype(numpy_dtype(dtype))


def _casts() -> list[Any]:
    dtypes = COMPUTED  # floats of 8 bits: test_float8.py
    pairs = [(a, b) for a in dtypes for b in dtypes]
    return [
        pytest.param(
            a, b, marks=[pytest.mark.long, pytest.mark.large] if _number(a + b) % 12 else []
        )
        for a, b in pairs
    ]


@pytest.mark.parametrize(("dtype", "other"), _casts())
def test_every_pair_of_dtypes_is_cast(device: str, dtype: str, other: str) -> None:
    x = _castable(dtype, other)
    found = xtarget.run("cast", x, dtype=other, device=device)
    assert found.dtype == numpy_dtype(other)
    with np.errstate(all="ignore"):
        right = x.astype(numpy_dtype(other))
        np.testing.assert_array_equal(found.astype(np.float64), right.astype(np.float64))


def test_a_dtype_that_arrays_do_not_have_is_refused(device: str) -> None:
    with pytest.raises(ArgumentError, match="dtype is 'float8_e4m3fnuz'; it has to be one of"):
        xtarget.run("cast", np.ones(3), dtype="float8_e4m3fnuz", device=device)
