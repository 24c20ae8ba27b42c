"""The C functions of `xtarget bundle emit-c`: they compile without a warning, and give the driver
the same binaries, grids and values as Python does. The driver is a stand-in that launches nothing;
`ci/gpu.sh c_abi` runs main.c beside this file on a GPU."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_bundles import only_examples
from threads import in_threads

import xtarget
from xtarget import Target
from xtarget._bundle.builder import classes
from xtarget._bundle.builder.build import Order, build
from xtarget._bundle.builder.c_source import emit_c
from xtarget._bundle.format import BundleFile
from xtarget._bundle.reader import Bundle, class_key
from xtarget._kernels import libraries as _kernels
from xtarget._launch import planning
from xtarget._launch.specializing import requests
from xtarget.spec import ArrayType, Example, contiguous_strides

HERE = Path(__file__).parent
STANDIN = HERE.parent / "cuda_standin" / "launches.c"
STRICT = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror")
NVIDIA = (Target("nvidia", "sm_80"), Target("nvidia", "sm_90"))
#: Few enough to be compiled in seconds, enough for every branch of the C code.
EXAMPLES: dict[str, list[Example]] = {
    "relu": [Example(((n,),)) for n in (4096, 4095, 2**32)],
    "softmax": [
        Example(((m, n),)) for m, n in ((1024, 256), (1023, 255), (1024, 32768), (1024, 40000))
    ],
    "sum": [Example(((1024, 256),), {"axis": 1}), Example(((1023, 255),), {"axis": 1})],
    "rms_norm": [Example(((1024, 256), (256,)))],
    "layer_norm": [Example(((1024, 256), (256,), (256,)))],
    "where": [Example(((4096,),) * 3)],
    "gelu": [Example(((4096,),), {"approximate": form}) for form in ("none", "tanh")],
    "matmul": [Example(((1024, 64), (64, 1024))), Example(((15, 63), (63, 17)))],
}


#: Those that are built for two archs, for the choice between them.
FAMILY = ("relu", "softmax")


def _few_layouts(types: Any, views: bool) -> Any:
    """One array in every layout: binaries that a C function has to pass over. Several as C has
    them."""
    return _LAYOUTS(types, views) if len(types) == 1 else [(types, "C")]


_LAYOUTS = classes._layouts


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Every kernel for one arch. Beside it `family.xtb` and `hip.xtb`."""
    folder = tmp_path_factory.mktemp("bundle")
    with only_examples(EXAMPLES, folder / "cache") as patch:
        patch.setattr(classes, "_layouts", _few_layouts)
        for name, kernels, targets in (
            ("all", tuple(EXAMPLES), NVIDIA[:1]),
            ("family", FAMILY, NVIDIA),
            ("hip", ("relu",), (Target("amd", "gfx942"),)),
        ):
            order = Order(kernels, ("float32",), targets)
            report = build(order, folder / f"{name}.xtb", workers=2, seconds=100)
            assert not report.errors
    return Bundle(folder / "all.xtb")


@pytest.fixture(scope="module")
def family(bundle: Bundle) -> Bundle:
    return Bundle(bundle.path.parent / "family.xtb")


def compiled(source: Path, to: Path, *options: str) -> Path:
    subprocess.run(
        ["gcc", *STRICT, *options, "-shared", "-fPIC", "-o", str(to), str(source), "-lpthread"],
        check=True,
        timeout=300,
    )
    return to


@pytest.fixture(scope="module")
def libraries(
    bundle: Bundle, family: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, Path]:
    """The emitted code of both bundles, and the stand-in, as shared libraries."""
    folder = tmp_path_factory.mktemp("c")
    made = []
    for of in (bundle, family):
        assert not emit_c(of, folder / of.path.stem, (), "cuda").left_out
        made.append(compiled(folder / of.path.stem / "xtarget_kernels.c", folder / f"{len(made)}"))
    standin = compiled(STANDIN, folder / "libcuda.so.1", "-Wno-pointer-to-int-cast")
    os.environ["XT_CUDA_LIBRARY"] = str(standin)
    return made[0], made[1], standin


def loaded(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.xt_message.restype = ctypes.c_char_p
    return library


@pytest.fixture(scope="module")
def all_code(libraries: tuple[Path, Path, Path]) -> Any:
    return loaded(libraries[0])


@pytest.fixture(scope="module")
def code(libraries: tuple[Path, Path, Path]) -> Any:
    """The functions that have binaries for two archs."""
    return loaded(libraries[1])


@pytest.fixture(scope="module")
def standin(libraries: tuple[Path, Path, Path]) -> Any:
    library = ctypes.CDLL(str(libraries[2]))
    library.standin_last.restype = ctypes.c_char_p
    return library


def message(code: Any, status: int) -> str:
    text: bytes = code.xt_message(status)
    return text.decode()


def call(code: Any, name: str, addresses: list[int], sizes: list[int], *scalars: float) -> int:
    function = getattr(code, name)
    status: int = function(
        ctypes.c_void_p(0x77),
        *map(ctypes.c_void_p, addresses),
        *map(ctypes.c_int64, sizes),
        *map(ctypes.c_double, scalars),
    )
    return status


CALLS = [
    # kernel, shapes of the arrays, options, sizes of the C function, scalars
    ("relu", [(4096,)], {}, [4096], []),
    ("relu", [(4095,)], {}, [4095], []),
    ("relu", [(1,)], {}, [1], []),
    ("relu", [(2**32,)], {}, [2**32], []),
    ("relu", [(2**32 + 5,)], {}, [2**32 + 5], []),
    ("softmax", [(1024, 256)], {}, [1024, 256], []),
    ("softmax", [(2048, 250)], {}, [2048, 250], []),
    ("softmax", [(1024, 32768)], {}, [1024, 32768], []),
    ("softmax", [(1024, 40000)], {}, [1024, 40000], []),
    ("sum", [(1024, 256)], {"axis": 1}, [1024, 256], []),
    ("sum", [(900, 255)], {"axis": 1}, [900, 255], []),
    ("rms_norm", [(1024, 256), (256,)], {}, [1024, 256], [1e-6]),
    ("layer_norm", [(1024, 256), (256,), (256,)], {}, [1024, 256], [1e-5]),
    ("where", [(4096,)] * 3, {}, [4096], []),
    ("matmul", [(1024, 64), (64, 1024)], {}, [1024, 1024, 64], []),
    ("matmul", [(15, 63), (63, 17)], {}, [15, 17, 63], []),
    ("gelu", [(4096,)], {"approximate": "none"}, [4096, 0], []),
    ("gelu", [(4095,)], {"approximate": "tanh"}, [4095, 1], []),
]


@pytest.mark.parametrize("offset", [0, 4])
@pytest.mark.parametrize(
    ("kernel", "shapes", "options", "sizes", "scalars", "arch"),
    # on sm_90 long rows have tiles of their own
    [(*call, 80) for call in CALLS] + [(*call, 90) for call in CALLS if call[0] in FAMILY],
)
def test_c_launches_what_python_launches(
    bundle: Bundle,
    family: Bundle,
    all_code: Any,
    code: Any,
    standin: Any,
    kernel: str,
    shapes: list[tuple[int, ...]],
    options: dict[str, Any],
    sizes: list[int],
    scalars: list[float],
    arch: int,
    offset: int,
) -> None:
    target = Target("nvidia", f"sm_{arch}")
    registered = _kernels.find(kernel)
    types = [
        ArrayType("bool" if name == "condition" else "float32", shape, contiguous_strides(shape))
        for name, shape in zip(registered.spec.inputs, shapes, strict=False)
    ]
    units = 64 if kernel == "matmul" else 1
    plan = planning.make_plan(
        registered, planning.call_of(registered, types, options, target, units, general=True)
    )
    ((launch, request, slots),) = requests(
        registered, plan, types, [offset == 0] * len(types), [offset == 0]
    )
    if kernel not in FAMILY:
        family, code = bundle, all_code
    best = next(iter(sorted(family.candidates(request, target), key=lambda c: c.form != "exact")))
    assert best.form == "exact", best.reason
    artifact = best.artifact()
    addresses = [0x1000 * (i + 1) + offset for i in range(len(shapes) + 1)]
    expected: list[int] = []
    layout = ""
    for parameter in artifact.parameters:
        slot = slots.get(parameter.name)
        if parameter.hidden or slot is None:
            expected.append(0)
        elif parameter.type == "fp32":
            assert slot.value is not None
            expected.append(ctypes.c_int32.from_buffer(ctypes.c_float(slot.value)).value)
        elif slot.index is not None:
            expected.append(addresses[slot.index])
        else:
            expected.append(int(slot.value or 0))
        layout += "4" if parameter.type in ("i32", "fp32") else "8"
    standin.standin_context(1 if arch == 80 else 2, arch)
    standin.standin_layout(layout.encode())
    status = call(code, f"xt_{kernel}_f32", addresses, sizes, *scalars)
    assert status == 0, message(code, status)
    words = standin.standin_last().decode().split()
    grid = [str(n) for n in launch.grid]
    threads = artifact.num_warps * artifact.warp_size
    assert words[:9] == [
        artifact.entry, *grid, str(threads), "1", "1", str(artifact.shared_bytes), "0x77"
    ]  # fmt: skip
    assert list(map(int, words[9:])) == expected


def test_other_sizes_find_a_binary_that_is_right_for_them(all_code: Any, standin: Any) -> None:
    standin.standin_context(1, 80)
    standin.standin_layout(b"")
    made, code = [0x1000, 0x2000, 0x3000], all_code
    for m, n in ((1, 1), (3, 100), (7, 256), (5, 3000), (100000, 17)):
        assert call(code, "xt_softmax_f32", made[:2], [m, n]) == 0, message(code, 3)
        assert call(code, "xt_sum_f32", made[:2], [m, n]) == 0
        assert call(code, "xt_rms_norm_f32", made, [m, n], 1e-5) in (0, 3)  # rows to 256
        assert call(code, "xt_matmul_f32", made, [m, n, 33]) == 0
    assert call(code, "xt_sum_f32", made[:2], [5, 0]) == 0  # the sum of nothing


def test_nothing_to_compute_launches_nothing(code: Any, standin: Any) -> None:
    before = standin.standin_launches()
    assert call(code, "xt_relu_f32", [0, 0], [0]) == 0
    assert call(code, "xt_softmax_f32", [0, 0], [0, 5]) == 0
    assert standin.standin_launches() == before


def test_errors_are_said_in_words(code: Any, standin: Any) -> None:
    standin.standin_context(1, 80)
    for addresses, sizes, words in (
        ([0x1000, 0x1000], [-1], "negative"),
        ([0, 0x1000], [5], "NULL"),
        ([0x1000, 0x1000], [2**63 - 1], "larger than any memory"),
        ([0x1000, 0x1000], [2**62], "more blocks"),
    ):
        status = call(code, "xt_relu_f32", addresses, sizes)
        assert status == 4
        assert words in message(code, status)
    standin.standin_context(0, 0)
    status = call(code, "xt_relu_f32", [0x1000, 0x1000], [5])
    assert (status, "cuCtxSetCurrent" in message(code, status)) == (2, True)
    standin.standin_context(5, 75)
    status = call(code, "xt_relu_f32", [0x1000, 0x1000], [5])
    assert status == 3
    assert "nvidia:sm_80, nvidia:sm_90" in message(code, status)
    standin.standin_context(1, 80)
    standin.standin_fail(700)
    status = call(code, "xt_relu_f32", [0x1000, 0x1000], [5])
    standin.standin_fail(0)
    assert status == 1700
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in message(code, status)
    assert message(code, 0) == "no error"
    assert "no status" in message(code, 77)


def test_a_newer_device_gets_the_family_then_the_ptx(code: Any, standin: Any) -> None:
    standin.standin_layout(b"")
    for context, arch in ((6, 86), (7, 100)):
        standin.standin_context(context, arch)
        status = call(code, "xt_relu_f32", [0x1000, 0x2000], [64])
        assert status == 0, message(code, status)


def test_threads_and_contexts_load_each_binary_once(code: Any, standin: Any) -> None:
    before, failed = standin.standin_loads(), []

    def work(number: int) -> None:
        standin.standin_context(8 + number % 2, 80)
        standin.standin_layout(b"")
        for n in (16, 17) * 100:
            if call(code, "xt_relu_f32", [0x1000, 0x2000], [n]):
                failed.append(n)

    in_threads(work, range(8))
    assert not failed
    assert standin.standin_loads() - before == 4  # two binaries in two contexts


def test_everything_can_be_loaded_before_a_capture(code: Any, standin: Any) -> None:
    standin.standin_context(10, 80)
    assert code.xt_load() == 0
    loads = standin.standin_loads()
    assert call(code, "xt_softmax_f32", [0x1000, 0x2000], [64, 256]) == 0
    assert standin.standin_loads() == loads


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"XT_CUDA_LIBRARY": "/nowhere/libcuda.so.1"}, "Install the vendor's driver"),
        ({"XT_CUDA_LIBRARY": "libm.so.6"}, "too old"),
        ({"STANDIN_INIT": "100"}, "CUDA_ERROR_STANDIN (100)"),
    ],
)
def test_a_driver_that_cannot_be_used_is_said(
    libraries: tuple[Path, Path, Path], variables: dict[str, str], words: str
) -> None:
    script = (
        "import ctypes, sys; c = ctypes.CDLL(sys.argv[1]); c.xt_message.restype = ctypes.c_char_p\n"
        "p = ctypes.c_void_p(4096); s = c.xt_relu_f32(None, p, p, ctypes.c_int64(5))\n"
        "print(s, c.xt_message(s).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(libraries[1])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "XT_CUDA_LIBRARY": str(libraries[2]), **variables},
    )
    assert words in done.stdout


def test_the_header_is_c_and_cpp(bundle: Bundle, tmp_path: Path) -> None:
    emit_c(bundle, tmp_path, ("relu",), "cuda")
    for compiler, suffix in (("gcc", "c"), ("g++", "cpp")):
        user = tmp_path / f"user.{suffix}"
        user.write_text('#include "xtarget_kernels.h"\nint main(void) { return xt_load(); }\n')
        command = [compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(user)]
        subprocess.run(command, check=True, timeout=60)


def test_the_same_template_writes_hip(bundle: Bundle, tmp_path: Path) -> None:
    other = Bundle(bundle.path.parent / "hip.xtb")
    emit_c(other, tmp_path, (), "hip")
    compiled(tmp_path / "xtarget_kernels.c", tmp_path / "libkernels.so")
    assert "hipModuleLaunchKernel" in (tmp_path / "xtarget_kernels.c").read_text()


def test_what_cannot_be_written_is_said(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(xtarget.LoadError, match=r"no binaries for amd; it has nvidia:sm_80"):
        emit_c(bundle, tmp_path, (), "hip")
    with pytest.raises(xtarget.LoadError, match="has no exp"):
        emit_c(bundle, tmp_path, ("exp",), "cuda")
    with pytest.raises(xtarget.UnknownKernelError):
        emit_c(bundle, tmp_path, ("nothing",), "cuda")


def test_a_pipe_is_neither_replaced_nor_waited_for_and_nothing_is_half_written(
    bundle: Bundle, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "xtarget_kernels.c")
    with pytest.raises(xtarget.XTargetError, match=r"kernels\.c cannot be written: .+ pipe"):
        emit_c(bundle, tmp_path, ("relu",), "cuda")
    assert [path.name for path in tmp_path.iterdir()] == ["xtarget_kernels.c"]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def change(kernel: str, **to: Any) -> None:
        before = _kernels.find(kernel)
        after = before.changed(**to)
        monkeypatch.setitem(_kernels._kernels, kernel, after)

    return change


def test_a_kernel_without_a_c_form_is_left_out_with_the_reason(
    family: Bundle, tmp_path: Path, changed: Callable[..., None]
) -> None:
    changed("relu", c=None)
    with pytest.raises(xtarget.XTargetError, match="gives no C interface"):
        emit_c(family, tmp_path, ("relu",), "cuda")
    done = emit_c(family, tmp_path, (), "cuda")
    assert list(done.left_out) == ["relu"]
    assert "gives no C interface" in (tmp_path / "xtarget_kernels.h").read_text()
    assert done.files[0][1].startswith("1 functions")


def test_binaries_that_do_not_fit_the_c_form_leave_one_dtype_out(
    family: Bundle, tmp_path: Path, changed: Callable[..., None]
) -> None:
    interface = _kernels.find("relu").spec.c
    assert interface is not None
    changed("relu", c=replace(interface, arrays=("a", "b", "out")))
    done = emit_c(family, tmp_path, (), "cuda")
    assert list(done.left_out) == ["relu (float32)"]
    assert "has the parameters that its C interface gives" in done.left_out["relu (float32)"]
    with pytest.raises(xtarget.XTargetError, match="has the parameters"):
        emit_c(family, tmp_path, ("relu", "softmax"), "cuda")


def test_kernels_of_a_library_that_is_not_there_are_left_out(
    family: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(_kernels._kernels, "relu", raising=False)
    monkeypatch.delitem(_kernels._listed, "relu")
    done = emit_c(family, tmp_path, (), "cuda")
    assert "XTARGET_KERNELS" in done.left_out["relu"]


def test_a_record_that_contradicts_its_binary_is_no_traceback(
    family: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = BundleFile.records

    def wrong(self: BundleFile, target: Target) -> Any:
        for record in records(self, target):
            if record["source"] == "elementwise:unary(functions.activations:relu)":
                record = {
                    **record,
                    "variants": [{**v, "aligned": ["shape.0"]} for v in record["variants"]],
                }
            yield record

    monkeypatch.setattr(BundleFile, "records", wrong)
    done = emit_c(family, tmp_path, (), "cuda")
    assert "takes shape.0 for multiples of 16" in done.left_out["relu (float32)"]


@pytest.mark.parametrize(("approximate", "flag"), [("none", "!use_tanh"), ("tanh", "use_tanh")])
def test_a_flag_chooses_among_a_kernels_binaries(
    bundle: Bundle, tmp_path: Path, approximate: str, flag: str
) -> None:
    emit_c(bundle, tmp_path, ("gelu",), "cuda")
    text = (tmp_path / "xtarget_kernels.c").read_text()
    launched = set(re.findall(rf"if \(.*\({flag}\).*\{{\n(?:.*;\n)+?.*xt_launch\(&(\w+)", text))
    types = [ArrayType("float32", (4096,), (1,))]
    options = {"approximate": approximate}
    registered = _kernels.find("gelu")
    plan = planning.make_plan(
        registered, planning.call_of(registered, types, options, NVIDIA[0], 64, general=True)
    )
    ((_, request, _),) = requests(registered, plan, types, [True])
    key = class_key(request).hex()[:12]
    assert launched
    assert all(f"_{key}_" in name for name in launched)
