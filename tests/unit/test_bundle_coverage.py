"""A bundle's contents: any of a kernel's ordinary calls finds its class, whatever its sizes."""

from __future__ import annotations

import numpy as np
import pytest

from xtarget import Target
from xtarget._bundle import reader
from xtarget._bundle.builder.c_binaries import Binary, takes
from xtarget._bundle.builder.classes import classes
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._launch.ranges import valid_for
from xtarget._launch.specializing import requests
from xtarget.spec import ArrayType, Example, Input, KernelSpec, Launch, Output, Plan
from xtarget.spec import contiguous_strides as packed

GPUS = tuple(map(Target.parse, ("nvidia:sm_80", "amd:gfx942", "intel:spirv64")))
CPU = Target.parse("cpu:spirv64")


def array(*shape: int, dtype: str = "float32") -> ArrayType:
    return ArrayType(dtype, shape, packed(shape))


def arguments(name: str, m: int, n: int, form: int) -> list[ArrayType]:
    """Of one call; forms are those of the default coverage."""
    if name == "layer_norm":
        return [array(m, n), *[array(n)] * form]
    if name == "rms_norm":
        return [array(m, n), *[array(n)] * (form % 2)]
    whole = array(n) if form == 0 else array(m, n)
    if name == "where":
        return [array(*whole.shape, dtype="bool"), array(n), whole]
    return [whole, whole if form == 1 else array(n)] if name == "add" else [whole]


@pytest.mark.parametrize("target", [*GPUS, CPU], ids=str)
@pytest.mark.parametrize("name", ["add", "where", "relu", "softmax", "layer_norm", "rms_norm"])
def test_random_calls_find_their_class(name: str, target: Target) -> None:
    """Also in the order that is built if nobody asks for more (without `--full`)."""
    kernel = libraries.find(name)
    built = {
        reader.class_key(one.request)
        for one in classes(kernel, "float32", target, views=False, full=False)
    }
    rng = np.random.default_rng(len(name))
    most = 1000 if target == CPU else 30000  # larger results of a CPU go past its caches
    for number in range(60):
        m, n = (int(np.exp(rng.uniform(np.log(low), np.log(most)))) for low in (1, 16))
        if "norm" in name and number < 9:
            m, n = m + 1, (3, 4, 8)[number // 3]  # few channels
        given = arguments(name, m, n, number % 3)
        for request in planning.compile_requests(kernel, given, {}, target, general=True):
            assert reader.class_key(request) in built, (given, request)


def _drawn(
    name: str, dtype: str, rng: np.random.Generator
) -> tuple[list[ArrayType], dict[str, int]]:
    """A call of any proportions, half of the lengths multiples of 16, and its options."""

    def length(low: int, high: int) -> int:
        n = round(np.exp(rng.uniform(np.log(low), np.log(high))))
        return n // 16 * 16 or n if rng.random() < 0.5 else n

    if name == "matmul":
        m, n, k = length(1, 8192), length(1, 8192), length(16, 16384)
        return [array(m, k, dtype=dtype), array(k, n, dtype=dtype)], {}
    x = array(length(1, 20000), length(1, 20000), dtype=dtype)
    return [x], {"axis": int(rng.integers(2))}


@pytest.mark.parametrize(
    ("name", "dtype", "target"),
    [
        ("sum", "float32", "cpu:spirv64"),
        ("sum", "float16", "nvidia:sm_90"),
        ("max", "float32", "amd:gfx942"),
        *(
            pytest.param(name, dtype, str(target), marks=pytest.mark.long)
            for target in (*GPUS, CPU, "nvidia:sm_90")
            for name, dtype in (
                ("matmul", "float32"),
                ("sum", "float32"),
                ("mean", "float32"),
            )
        ),
    ],
)
def test_calls_of_any_proportions_find_their_class(name: str, dtype: str, target: str) -> None:
    """Long sums, few rows, few columns: whoever ships a bundle has no compiler for the rest."""
    kernel, wanted = libraries.find(name), Target.parse(target)
    built = {
        reader.class_key(one.request)
        for one in classes(kernel, dtype, wanted, views=False, full=False)
    }
    rng, missed = np.random.default_rng(3), []
    for _ in range(100):
        given, options = _drawn(name, dtype, rng)
        for request in planning.compile_requests(kernel, given, options, wanted, general=True):
            if reader.class_key(request) not in built:
                missed.append((given, options, request.constants))
    assert not missed, missed


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax_of_long_rows_finds_its_class_however_few_they_are(dtype: str) -> None:
    kernel, target = libraries.find("softmax"), Target.parse("nvidia:sm_90")
    built = {
        reader.class_key(one.request)
        for one in classes(kernel, dtype, target, views=False, full=False)
    }
    for m in (1, 2, 128, 264, 265, 600, 601, 20000):
        for n in (32769, 40000, 65536, 131072, 200001):
            given = [array(m, n, dtype=dtype)]
            (request,) = planning.compile_requests(kernel, given, {}, target, general=True)
            assert reader.class_key(request) in built, (m, n, request)


@pytest.mark.parametrize("target", GPUS[:2], ids=str)
def test_rows_and_their_number_decide_no_binary(target: Target) -> None:
    """A length decides by its range, and by whether it is a multiple of 16."""
    for name in ("softmax", "layer_norm", "rms_norm"):
        kernel = libraries.find(name)
        made = set()
        for m in (2, 3, 16, 1000, 4096):
            for n in (520, 1000):
                (request,) = planning.compile_requests(kernel, arguments(name, m, n, 1), {}, target)
                assert request.aligned == ()
                made.add(request)
            (whole,) = planning.compile_requests(kernel, arguments(name, m, 1024, 1), {}, target)
            assert "m" not in whole.aligned
            assert "n" in whole.aligned
        assert len(made) == 1, name


def test_a_class_says_for_which_sizes_it_is_valid() -> None:
    kernel = libraries.find("softmax")
    said = valid_for(kernel, [array(100, 1024)], {}, GPUS[0])
    assert "513 <= x.shape[1] <= 1024" in said
    assert "x.shape[1] % 16 == 0" in said
    assert not any("bit_length" in text for text in said)  # what others imply is not said
    assert "x.shape[1] % 16 >= 1" in valid_for(kernel, [array(100, 1000)], {}, GPUS[0])
    said = [
        text
        for one in classes(kernel, "float32", GPUS[0], views=False, full=False)
        if dict(one.request.constants)["BLOCK_N"] == 8192
        for text in one.valid_for
    ]
    assert "4097 <= x.shape[1] <= 8192" in said


def test_names_that_are_no_parameters_are_refused() -> None:
    def plan(call: object) -> Plan:
        launch = Launch(
            "softmaxes:softmax", {"x": Input(0), "out": Output()}, {}, (1, 1, 1),
            aligned_by=("length",),
        )  # fmt: skip
        return Plan((array(4),), (launch,))

    spec = KernelSpec("odd", ("x",), plan, ahead=lambda full: [Example(((4,),))])
    kernel = libraries.find("softmax")
    changed = type(kernel)(**{f: getattr(kernel, f) for f in kernel.__slots__} | {"spec": spec})
    with pytest.raises(Exception, match=r"aligned_by=\('length',\), not names of its parameters"):
        planning.compile_requests(changed, [array(4)], {}, GPUS[0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_c_function_takes_no_binary_of_a_relative(name: str) -> None:
    """The three have one source; C's softmax is the plain one, of short rows and of long ones."""
    interface = libraries.find("softmax").spec.c
    assert interface is not None
    kernel, taken = libraries.find(name), [list[int](), list[int]()]
    for found, types in zip(taken, ([array(64, 256)], [array(64, 40_000)]), strict=True):
        call = planning.call_of(kernel, types, {}, GPUS[0], 100)
        plan = planning.make_plan(kernel, call)
        ((launch, request, _),) = requests(kernel, plan, types, [True], [True])
        for number, variant in enumerate(interface.variants):
            parameters = {"x": "*fp32", "out": "*fp32", **dict.fromkeys(variant.values, "i32")}
            shown = tuple((one, type_, False) for one, type_ in parameters.items())
            constants = dict(request.constants)
            binary = Binary("xt_x", launch.source, "x", shown, (), constants, ())
            if takes(interface, variant, binary, "float32"):
                found.append(number)
    short, long = taken
    assert bool(short) == bool(long) == (name == "softmax")
    assert not set(short) & set(long)
