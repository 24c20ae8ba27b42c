"""A name of one library means what that library does by default, or is refused with what to run."""

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError, UnknownKernelError, run
from xtarget._kernels import libraries

torch = pytest.importorskip("torch")

X = np.linspace(-5, 5, 2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6)
ORDER = np.random.default_rng(0).permutation(X.size).reshape(X.shape)
MIXED = X.reshape(-1)[ORDER]
SCALE, BIAS, MEAN, VARIANCE = np.linspace(0.5, 3, 12, dtype=np.float32).reshape(4, 3)
LOGITS, TARGETS = MIXED[0, :, :, 0], np.array([3, 0, 5])


def by_torch(name: str, *args: Any, **options: Any) -> np.ndarray:
    call = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    found = call(*map(torch.from_numpy, args), **options)
    return found.numpy()


def windows(x: np.ndarray) -> np.ndarray:
    """The windows of 2 x 2, one beside each element."""
    return np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(2, 3))


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("HardSigmoid", np.clip(0.2 * MIXED + 0.5, 0, 1)),
        ("hardsigmoid", np.clip(MIXED / 6 + 0.5, 0, 1)),
        ("ArgMax", MIXED.argmax(0)[None]),
        ("onnx::ArgMin", MIXED.argmin(0)[None]),
        ("argmax", MIXED.argmax()),
        ("np.argmax", MIXED.argmax()),
        ("tf.math.argmax", MIXED.argmax(0)),
        ("onnx::ReduceSum", MIXED.sum(keepdims=True)),
        ("ReduceSum", MIXED.sum()),
        ("ReduceL1", np.abs(MIXED).sum(keepdims=True)),
        ("ai.onnx.ReduceMax", MIXED.max(keepdims=True)),
        ("MaxPool", windows(MIXED).max((-2, -1))),
        ("AveragePool", windows(MIXED).mean((-2, -1))),
        ("LpPool", np.sqrt(np.square(windows(MIXED)).sum((-2, -1)))),
        ("max_pool", windows(MIXED).max((-2, -1))[:, :, ::2, ::2]),
        ("RMSNormalization", MIXED / np.sqrt(np.square(MIXED).mean(-1, keepdims=True) + 1e-5)),
        ("LeakyRelu", np.where(MIXED > 0, MIXED, 0.01 * MIXED)),
        ("tf.nn.leaky_relu", np.where(MIXED > 0, MIXED, 0.2 * MIXED)),
        ("tf.cumsum", np.cumsum(MIXED, 0)),
        ("np.cumsum", np.cumsum(MIXED)),
        ("tf.math.cumprod", np.cumprod(MIXED, 0)),
        ("cumsum", np.cumsum(MIXED, -1)),
        ("np.diagonal", np.diagonal(MIXED)),
        ("diagonal", by_torch("diagonal", MIXED)),
        ("np.linalg.diagonal", np.diagonal(MIXED, axis1=-2, axis2=-1)),
        ("np.trace", np.trace(MIXED)),
        ("tf.linalg.trace", np.trace(MIXED, axis1=-2, axis2=-1)),
        ("torch.var", MIXED.var(ddof=1)),
        ("aten::std", MIXED.std(ddof=1)),
        ("np.var", MIXED.var()),
        ("torch.nn.functional.normalize", by_torch("normalize", MIXED)),
        ("torch.nn.functional.rms_norm", by_torch("rms_norm", MIXED, normalized_shape=(6,))),
        ("tf.image.resize", None),
    ],
)
def test_a_name_of_a_library_has_its_defaults(name: str, right: np.ndarray | None) -> None:
    found = run(name, MIXED)
    if right is None:  # NHWC, between elements
        channels_first = by_torch("interpolate", MIXED.transpose(0, 3, 1, 2).copy(),
                                  scale_factor=2, mode="bilinear")  # fmt: skip
        right = channels_first.transpose(0, 2, 3, 1)
    assert found.shape == np.shape(right)
    np.testing.assert_allclose(found, right, 1e-4, 1e-5)


def test_an_option_that_is_given_stands_before_the_librarys_default() -> None:
    np.testing.assert_array_equal(run("ArgMax", MIXED, axis=1, keepdims=0), MIXED.argmax(1))
    np.testing.assert_array_equal(run("MaxPool", MIXED, strides=2), run("max_pool", MIXED))
    right = np.clip(0.3 * MIXED + 0.5, 0, 1)
    np.testing.assert_allclose(run("onnx::HardSigmoid", MIXED, alpha=0.3), right, 1e-5)


def test_a_small_root_mean_square_shows_torchs_eps() -> None:
    small = MIXED * np.float32(1e-4)
    right = by_torch("rms_norm", small, normalized_shape=(6,))
    np.testing.assert_allclose(run("torch.rms_norm", small), right, 1e-5)
    tiny = MIXED.astype(np.float64) * 1e-7
    right = by_torch("rms_norm", tiny, normalized_shape=(6,))
    np.testing.assert_allclose(run("torch.rms_norm", tiny), right, 1e-12)


def test_the_gradient_of_a_diagonal_is_of_the_same_axes() -> None:
    x = torch.from_numpy(MIXED).requires_grad_()
    grad = run("diagonal", MIXED + 1)
    torch.diagonal(x).backward(torch.from_numpy(grad))
    assert x.grad is not None
    np.testing.assert_array_equal(run("diagonal_backward", grad, shape=x.shape), x.grad.numpy())


@pytest.mark.parametrize("name", ["BatchNormalization", "onnx::BatchNormalization",
                                  "aten::batch_norm"])  # fmt: skip
def test_batch_normalization_takes_scale_and_bias_before_mean_and_variance(name: str) -> None:
    right = by_torch("batch_norm", MIXED, MEAN, VARIANCE, SCALE, BIAS)
    np.testing.assert_allclose(run(name, MIXED, SCALE, BIAS, MEAN, VARIANCE), right, 1e-4, 1e-5)
    for other in ("batch_norm", "torch.nn.functional.batch_norm"):
        found = run(other, MIXED, MEAN, VARIANCE, SCALE, BIAS)
        np.testing.assert_allclose(found, right, 1e-4, 1e-5)


def test_onnx_divides_integers_towards_zero_and_floats_as_others() -> None:
    a, b = np.array([7, -7, 9], np.int32), np.array([2, 2, -4], np.int32)
    found = run("onnx::Div", a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [3, -3, -2])
    np.testing.assert_array_equal(run("onnx::Div", a / 1, b / 1), a / b)
    np.testing.assert_array_equal(run("Div", a, b), a / b)


def test_tensorflows_first_division_of_integers_goes_down_and_its_operators_towards_zero() -> None:
    a, b = np.array([7, -7, 9], np.int32), np.array([2, 2, -4], np.int32)
    np.testing.assert_array_equal(run("tf.compat.v1.div", a, b), [3, -4, -3])
    np.testing.assert_array_equal(run("tf.raw_ops.Div", a, b), [3, -3, -2])
    np.testing.assert_array_equal(run("tf.math.divide", a, b), a / b)


def test_onnx_powers_have_the_dtype_of_the_base() -> None:
    for one, other in (("float32", "int64"), ("int32", "float32"), ("int64", "int64")):
        a, b = np.array([1, 2, 3], one), np.array([4, 5, 2], other)
        right = np.power(a, b).astype(one)
        np.testing.assert_allclose(run("onnx::Pow", a, b), right, 1e-6, strict=True)


@pytest.mark.parametrize("x", [ORDER[0].T, ORDER[0, :, ::-1, ::2]])
def test_numpys_running_sums_without_an_axis_are_of_all_elements(x: np.ndarray) -> None:
    np.testing.assert_array_equal(run("np.cumsum", x), np.cumsum(x))
    np.testing.assert_array_equal(run("cumsum", x, axis=None, reverse=True),
                                  np.cumsum(x.ravel()[::-1])[::-1])  # fmt: skip


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_torchs_extremes_along_an_axis_have_their_indices(name: str, dtype: str) -> None:
    x = (MIXED > 0) if dtype == "bool" else np.where(ORDER % 11 == 0, np.nan, np.rint(MIXED))
    x = x.astype(dtype)
    for shape, dim, keepdim in ((x.shape, 1, False), ((2, 108), -1, True)):
        given = x.reshape(shape)
        found = run(f"torch.{name}", given, dim=dim, keepdim=keepdim)
        values, places = getattr(torch, name)(torch.from_numpy(given), dim=dim, keepdim=keepdim)
        for one, right in zip(found, (values, places), strict=True):
            np.testing.assert_array_equal(one, right.numpy(), strict=True)
    np.testing.assert_array_equal(run(f"torch.{name}", x), getattr(np, name)(x))


def test_extremes_of_a_long_row_have_their_index() -> None:
    x = np.sin(np.arange(300_001, dtype=np.float32)).reshape(1, -1)
    for name in ("max", "min"):
        value, place = run(f"aten::{name}.dim", x, dim=1)
        np.testing.assert_array_equal(place, getattr(x, f"arg{name}")(1))
        np.testing.assert_array_equal(value, getattr(x, name)(1))


@pytest.mark.parametrize("name", ["fabs", "rint", "sinc"])
def test_numpys_functions_of_integers_give_floats(name: str) -> None:
    for dtype in (np.int64, np.int8):
        x = np.array([-3, 0, 2], dtype)
        found, right = run(f"np.{name}", x), getattr(np, name)(x)
        np.testing.assert_allclose(found, right, 1e-6, 1e-15, strict=True)
    assert run("torch.fabs", np.array([-3])).dtype == np.int64


def test_torchs_dropout_gives_no_mask() -> None:
    kept = run("torch.nn.functional.dropout", MIXED, p=0.25, seed=3)
    np.testing.assert_array_equal(kept, run("dropout", MIXED, p=0.25, seed=3)[0])
    wide = np.zeros((*MIXED.shape[:-1], 2 * MIXED.shape[-1]), MIXED.dtype)
    run("torch.dropout", MIXED, p=0.25, seed=3, out=wide[..., ::2])
    np.testing.assert_array_equal(wide[..., ::2], kept)
    assert not wide[..., 1::2].any()


def test_torchs_upsample_bilinear_keeps_the_corners() -> None:
    right = by_torch("interpolate", MIXED, scale_factor=2, mode="bilinear", align_corners=True)
    found = run("torch.nn.functional.upsample_bilinear", MIXED, scale_factor=2)
    np.testing.assert_allclose(found, right, 1e-4, 1e-5)


def test_words_of_options_are_known_where_a_library_has_its_own_defaults() -> None:
    np.testing.assert_array_equal(run("np.eye", N=3, M=2, k=1), np.eye(3, 2, 1))
    np.testing.assert_array_equal(run("np.linspace", stop=3, num=7), np.linspace(0, 3, 7))
    np.testing.assert_array_equal(run("np.ones", size=(2, 3)), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("name", "option"),
    [("np.tile", "reps"), ("torch.tile", "reps"), ("onnx::TopK", "k"), ("tf.roll", "shift"),
     ("onnx::Split", "sections"), ("torch.nn.functional.pad", "pad"),
     ("torch.nn.functional.max_pool2d", "kernel"),
     ("torch.repeat_interleave", "repeats"), ("torch.adaptive_avg_pool2d", "size")],
)  # fmt: skip
def test_an_option_that_a_library_requires_has_to_be_given(name: str, option: str) -> None:
    said = f"{xtarget.get(name).spec.name}: {option} is None.*; it has to be"
    with pytest.raises(xtarget.ArgumentError, match=said):
        run(name, MIXED)


@pytest.mark.parametrize(
    ("name", "said", "args", "options"),
    [
        (
            "torch.nn.functional.instance_norm",
            "torch.nn.functional.instance_norm",
            (MIXED, MEAN, VARIANCE),
            {},
        ),
        ("np.zeros", "np.zeros", (5,), {}),
        ("ArgMax", "onnx::ArgMax", (X,), {"axis": 9}),
        ("tf.math.cumsum", "tf.cumsum", (X,), {"axis": 9}),
        ("numpy.random.rand", "np.rand", (), {"shap": 3}),
        ("aten::max.dim", "torch.max", (X,), {"dim": (0, 1)}),
    ],
)
def test_errors_say_the_librarys_name(
    name: str, said: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(xtarget.ArgumentError) as error:
        run(name, *args, **options)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("name", ["zeros", "ones", "eye", "linspace", "logspace", "random.rand"])
def test_numpy_makes_float64(name: str) -> None:
    assert run(f"np.{name}").dtype == np.float64
    assert run(name.rpartition(".")[2]).dtype == np.float32


def test_a_loss_of_each_row_and_rows_of_an_embedding() -> None:
    right = by_torch("cross_entropy", LOGITS, TARGETS, reduction="none")
    found = run("softmax_cross_entropy_loss_with_logits", LOGITS, TARGETS)
    np.testing.assert_allclose(found, right, 1e-4)
    np.testing.assert_array_equal(run("embedding_lookup", LOGITS, TARGETS % 3), LOGITS[[0, 0, 2]])
    np.testing.assert_array_equal(run("embedding", TARGETS % 3, LOGITS), LOGITS[[0, 0, 2]])


def test_names_of_onnx_that_differ_in_their_letters() -> None:
    flags, index = MIXED > 0, np.array([[0, 1], [-1, 2]])
    np.testing.assert_array_equal(run("Xor", flags, flags[::-1]), flags ^ flags[::-1])
    np.testing.assert_array_equal(run("Not", flags), ~flags)
    np.testing.assert_array_equal(run("IsNaN", MIXED), np.isnan(MIXED))
    np.testing.assert_array_equal(run("GatherND", MIXED, index), MIXED[index[:, 0], index[:, 1]])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("onnx::Sum", "run add"),
        ("onnx::LSTM", "run gru, lstm or simple_rnn"),
        ("Resize", "run interpolate"),
        ("NonZero", "run nonzero"),
        ("tf.nn.conv2d", "channels_last=True"),
        ("tf.raw_ops.MaxPool", "channels_last=True"),
        ("tf.nn.softmax_cross_entropy_with_logits", "labels first"),
        ("tf.unique", "run unique"),
        ("tf.math.bincount", "run bincount"),
        ("tf.nn.ctc_loss", "labels first"),
        ("aten::resize", "run reshape"),
        ("numpy.nonzero", "run argwhere"),
        ("np.histogram", "histogram with the edges"),
        ("torch.equal", "run eq, then all"),
        ("np.random.logistic", "sigmoid"),
        ("torch.median", "run kthvalue"),
        ("torch.inverse", "reciprocal"),
        ("torch.nn.functional.gumbel_softmax", "run exponential"),
        ("aten::split.Tensor", "run split with sections="),
        ("l2_normalize", "run normalize"),
    ],
)
def test_what_means_something_else_there_is_refused_with_what_to_run(name: str, said: str) -> None:
    with pytest.raises(UnknownKernelError) as error:
        run(name, MIXED)
    assert said in str(error.value)


def test_every_row_of_one_library_is_called_by_its_names() -> None:
    rows = libraries.of_one_library()
    assert len(rows) > 40
    for spec in rows:
        assert spec.name not in xtarget.catalog()
        assert {xtarget.get(alias).spec.name for alias in spec.aliases} == {spec.name}


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("exp", ["int8"]),
        ("erf", ["int64"]),
        ("sum", ["uint8"]),
        ("add", ["int64", "float16"]),
        ("where", ["bool", "int32", "float32"]),
        ("clamp", ["int32", 0.5]),
        ("div", ["int16", "int16"]),
        ("mul", ["float16", "0-d float64"]),
        ("maximum", ["int8", "0-d bfloat16"]),
        ("cat", ["int32", "float32"]),
    ],
)
def test_torchs_names_have_torchs_result_dtypes(name: str, arrays: list[Any]) -> None:
    def one(kind: Any) -> Any:
        if not isinstance(kind, str):
            return kind
        whole = torch.arange(3) if " " not in kind else torch.tensor(2)
        return whole.to(getattr(torch, kind.split()[-1]))

    args = [one(kind) for kind in arrays]
    right = torch.cat(args) if name == "cat" else getattr(torch, name)(*args)
    found = run(f"torch.{name}", *args)
    assert found.dtype == right.dtype
    assert torch.allclose(found.double(), right.double(), rtol=1e-3, equal_nan=True)


def test_torchs_logsumexp_of_integers_is_float32() -> None:
    x = torch.tensor([[1, -2, 3]], dtype=torch.int8)
    found = run("torch.logsumexp", x, dim=1)
    assert found.dtype == torch.float32
    assert torch.allclose(found, torch.logsumexp(x, dim=1))


@pytest.mark.parametrize(
    ("pad", "mode", "value"),
    [((1, 2), "constant", 3.0), ((0, 1, 2, 0), "replicate", None), ((2, 1), "circular", None)],
)
def test_torchs_pad_has_torchs_words(pad: Any, mode: str, value: Any) -> None:
    x = torch.from_numpy(MIXED)[:, :, 0] if mode == "circular" else torch.from_numpy(MIXED)
    right = torch.nn.functional.pad(x, pad, mode, value)
    found = run("torch.nn.functional.pad", x, pad=pad, mode=mode, value=value)
    assert torch.equal(found, right)
    with pytest.raises(ArgumentError, match="pair"):
        run("torch.pad", x, pad=3)


def test_libraries_words_for_arguments() -> None:
    x = MIXED[0, 0, :2]
    assert np.array_equal(run("torch.add", input=x, other=x), x + x)
    assert np.array_equal(run("np.where", x > 1, x=x, y=-x), np.where(x > 1, x, -x))
    assert np.allclose(
        run("torch.addmm", input=x[:, :2], mat1=x, mat2=x.T), x[:, :2] + x @ x.T, 1e-5
    )
    assert np.allclose(run("torch.mse_loss", input=x, target=0 * x), (x * x).mean(), 1e-5)


_HALVES = torch.linspace(-3, 3, 12).reshape(3, 4)
_WHOLES = torch.tensor([[1, -2, 7, 0]] * 3)


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("add", [_HALVES, _HALVES.T.reshape(3, 4)], {"alpha": 0.5}),
        ("add", [_WHOLES, _WHOLES.int()], {"alpha": 3}),
        ("add", [_WHOLES > 0, _WHOLES < 3], {"alpha": -1}),
        ("sub", [_HALVES, 2], {"alpha": 2}),
        ("sub", [_WHOLES.int(), (30 * _WHOLES).to(torch.int8)], {"alpha": -3}),
        ("rsub", [_WHOLES, _HALVES], {"alpha": -0.5}),
        ("div", [_HALVES, _WHOLES], {"rounding_mode": "floor"}),
        ("div", [_WHOLES, _WHOLES + 3], {"rounding_mode": "trunc"}),
        ("max", [_WHOLES, _HALVES], {}),
        ("min", [_WHOLES > 0, _WHOLES < 3], {}),
        ("sign", [_WHOLES > 0], {}),
        ("nan_to_num", [_WHOLES], {}),
        ("rrelu", [_HALVES], {"upper": 0.25}),
        ("sort", [_HALVES.flip(1) % 2], {"dim": 0, "descending": True}),
    ],
)
def test_torchs_names_take_what_torchs_functions_take(
    name: str, args: list[Any], options: dict[str, Any]
) -> None:
    right = getattr(torch, name)(*args, **options)
    for written in (f"torch.{name}", f"aten::{name}"):
        found = run(written, *args, **options)
        torch.testing.assert_close(found, tuple(right) if name == "sort" else right, equal_nan=True)
    host = run(f"torch.{name}", *args, **options, impl="host")
    torch.testing.assert_close(host, tuple(right) if name == "sort" else right, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "args", "options", "said"),
    [
        ("add", [_WHOLES, _WHOLES], {"alpha": 2.5}, "it has to be an integer, as the arrays are"),
        ("div", [_HALVES, _HALVES], {"rounding_mode": "up"}, "None or 'floor' or 'trunc'"),
        ("max", [_HALVES, 1], {}, "Give dim by name: dim=1"),
        ("max", [_HALVES, _HALVES], {"dim": 1}, "Leave dim and keepdim out"),
        ("einsum", [_HALVES, _HALVES], {}, "has to be a text like 'ij,jk->ik'"),
    ],
)
def test_what_torchs_functions_refuse(
    name: str, args: list[Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        run(f"torch.{name}", *args, **options)
