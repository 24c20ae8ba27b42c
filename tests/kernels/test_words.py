"""Names of arguments and options in NumPy, torch, ONNX and TensorFlow are understood."""

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError, run

INDEX = np.array([1, 0, 1])
X = np.linspace(-2, 2, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
WEIGHT = np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)
BIAS = np.arange(4, dtype=np.float32)
QUERY = np.linspace(-1, 1, 2 * 4 * 8, dtype=np.float32).reshape(1, 2, 4, 8)
CAUSAL = np.tril(np.ones((4, 4), bool))
SLOPES = np.array([0.5, 0.25], np.float32)
SCALE, SHIFT = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)


def test_words_mean_something_else_than_the_rows_own_names():
    for name, spec in xtarget.catalog().items():
        own = {one.rstrip("?") for one in spec.inputs} | set(spec.options)
        assert set(spec.words.values()) <= own, name
        assert not set(spec.words) & (own | {"out", "device", "stream", "compile"}), name


@pytest.mark.parametrize("name", ["Gather", "onnx::Gather", "tf.gather", "GatherV2"])
def test_onnx_and_tensorflow_gather_slices_with_indices_of_any_rank(name: str) -> None:
    """Indices of x's rank would fit torch's gather as well, which takes single elements."""
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    index = np.array([[3, 0], [1, 1]])
    np.testing.assert_array_equal(run(name, x, index), x[index])
    np.testing.assert_array_equal(run(name, x, index // 2, axis=1), x[:, index // 2])


@pytest.mark.parametrize("name", ["gather", "torch.gather", "aten::gather", "GatherElements"])
def test_torch_gather_takes_elements(name: str) -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    index = np.array([[3, 0], [1, 1]])
    np.testing.assert_array_equal(run(name, x, index), np.take_along_axis(x[:, :2], index, 0))


@pytest.mark.parametrize(
    ("name", "args", "words", "same_args", "options"),
    [
        ("sum", (X,), {"dim": 1, "keepdim": True}, (X,), {"axis": 1, "keepdims": True}),
        ("sum", (X,), {"axes": (0, 2)}, (X,), {"axis": (0, 2)}),
        ("softmax", (), {"x": X, "dim": 1}, (X,), {"axis": 1}),
        ("mean", (X,), {"axis": 1, "keep_dims": True}, (X,), {"axis": 1, "keepdims": True}),
        ("Gemm", (X[0, 0], X[0, 1]), {"transB": 1}, (X[0, 0], X[0, 1]), {"trans_b": 1}),
        ("Tile", (X[0, 0],), {"multiples": (2, 3)}, (X[0, 0],), {"reps": (2, 3)}),
        ("scatter_reduce", (X[0, 0],), {"index": INDEX[None], "src": X[0, 1, :1, :3],
         "reduction": "max"}, (X[0, 0], INDEX[None], X[0, 1, :1, :3]), {"reduce": "amax"}),
        ("permute", (X,), {"dims": (0, 2, 1, 3)}, (X,), {"axes": (0, 2, 1, 3)}),
        ("max_pool2d", (X,), {"kernel_size": 3}, (X,), {"kernel": 3}),
        ("adaptive_avg_pool2d", (X,), {"output_size": 3}, (X,), {"size": 3}),
        ("conv2d", (X, WEIGHT), {"bias": BIAS}, (X, WEIGHT, BIAS), {}),
        ("Conv2D", (X, WEIGHT), {"bias": None, "strides": 2}, (X, WEIGHT), {"stride": 2}),
        ("clip", (X,), {"min": -1.0, "max": 1.0}, (X, -1.0, 1.0), {}),
        ("concat", ([X, X],), {"dim": 1}, (X, X), {"axis": 1}),
        ("index", (X, [INDEX, None, INDEX]), {}, (X, INDEX, None, INDEX), {}),
        ("index_put", (X, [INDEX], X[:1]), {}, (X, INDEX, X[:1]), {}),
        ("einsum", ([X[0, 0], X[0, 1]],), {"equation": "ij,jk->ik"}, (X[0, 0], X[0, 1]),
         {"subscripts": "ij,jk->ik"}),
        ("attention", (QUERY,), {"k": QUERY, "v": QUERY, "attn_mask": CAUSAL},
         (QUERY, QUERY, QUERY), {"causal": True}),
        ("layer_norm", (X,), {"bias": np.arange(8.0, dtype=np.float32)},
         (X, np.ones(8, np.float32), np.arange(8.0, dtype=np.float32)), {}),
        ("batch_norm", (X, SCALE, SHIFT, None, SHIFT), {},
         (X, SCALE, SHIFT, np.ones(3, np.float32), SHIFT), {}),
        ("instance_norm", (X, None, SHIFT), {"epsilon": 0.5},
         (X, np.ones(3, np.float32), SHIFT), {"eps": 0.5}),
        ("bincount", (np.array([1, 2, 2]), None), {"length": 4}, (np.array([1, 2, 2]),),
         {"length": 4}),
    ],
)  # fmt: skip
def test_a_call_in_other_words_is_the_same_call(name, args, words, same_args, options):
    expected = run(name, *same_args, **options)
    for _ in range(2):  # new, and known: a mask and `causal` are added in different places
        np.testing.assert_allclose(run(name, *args, **words), expected, 1e-6)


def test_a_mask_that_is_left_out_before_slopes():
    given = run("attention", QUERY, QUERY, QUERY, np.ones((4, 4), bool), SLOPES)
    np.testing.assert_allclose(run("attention", QUERY, QUERY, QUERY, slopes=SLOPES), given, 1e-6)


def test_words_in_a_kernel_object_a_prepared_launch_and_an_artifact():
    out = np.empty((2, 8, 8), np.float32)
    expected = X.sum(1)
    total = xtarget.get("sum")
    np.testing.assert_allclose(total(X, dim=1), expected, 1e-5, 1e-5)
    total.prepare(X, dim=1, out=out)()
    np.testing.assert_allclose(out, expected, 1e-5, 1e-5)
    by_word, by_name = (
        xtarget.compile("sum", X, target="nvidia:sm_90", **options)[0].binary
        for options in ({"dim": 1}, {"axis": 1})
    )
    assert by_word == by_name
    fused = xtarget.fuse(lambda x: run("exp", run("sum", x, dim=1)))
    np.testing.assert_allclose(fused(X), np.exp(expected), 1e-4)


def observed(name, *args):
    with xtarget.hooks.add(exit=lambda launch: None):
        return run(name, *args)


WAYS = {
    "run": run,
    "observed": observed,
    "prepare": lambda name, *args: xtarget.get(name).prepare(*args)(),
    "compile": lambda name, *args: xtarget.compile(name, *args, target="nvidia:sm_90"),
    "fuse": lambda name, *args: xtarget.fuse(
        lambda x: run(name, *([x, x] if isinstance(arg, list) else arg for arg in args))
    )(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_list_of_arrays_is_understood_wherever_a_call_is_given(way):
    found = WAYS[way]("concat", [X, X])
    if way != "compile":
        np.testing.assert_array_equal(found, np.concatenate([X, X]))
    with pytest.raises(ArgumentError, match="given by name: dtype='float16'"):
        WAYS[way]("cast", X, "float16")


def test_a_kernels_other_names_understand_the_same_words():
    np.testing.assert_array_equal(run("ReduceSum", X, dim=1), run("sum", X, axis=1))
    with pytest.raises(xtarget.UnknownKernelError):
        run("no_such_kernel", X, dim=1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: run("sum", X, dim=1, axis=0), "sum: axis is given twice, also as dim"),
        (lambda: run("sum", X, dim=1, axes=0), "sum: axis is given twice, also as axes"),
        (lambda: run("conv2d", X, WEIGHT, BIAS, bias=BIAS), "bias is given twice, as argument 3"),
        (lambda: run("clip", X, min=0, a_min=0, max=1), "given twice, as min and as a_min"),
        (lambda: run("cast", X, "float16"), "Options are given by name: dtype='float16'"),
        (lambda: run("permute", X, (0, 2, 1, 3)), r"given by name: axes=\(0, 2, 1, 3\)"),
        (lambda: run("zeros", (3, 4)), r"given by name: shape=\(3, 4\) \(or dtype\)"),
        (lambda: run("softmax", X, -1), r"takes 1 argument \(x\), not 2. Options are given by"),
        (lambda: run("arange", 10), "takes 0 arguments .only options., not 1"),
        (lambda: run("add", X, c=X), "or by the names that `help` shows"),
        (lambda: run("add", X, None), "b is None. Give an array"),
        (lambda: run("concat", X, None, X), "was left out"),
        (lambda: run("sum", X, dims_=1), "sum has no option 'dims_'"),
    ],
)
def test_what_is_given_twice_or_in_the_wrong_place_is_a_sentence(call, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        call()
