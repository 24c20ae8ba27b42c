"""The binary that libxtarget gives CUDA, and its options: the stand-in driver launches nothing."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from libxtarget import SOURCES
from xtarget import Target
from xtarget._bundle import calls
from xtarget._bundle.writer import Entry, pack_section, write_bundle

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")

#: Fills a float32 array of n elements: n is symbol 1, after the compute units.
FORM = calls.Form(
    options=(),
    arguments=(calls.FormArgument("array", "float32", 1, True),),
    outputs=(calls.FormOutput("float32", 1, False, b"\0\0\x80\x3f"),),
    # results: shape, stride, grid x (n + 255) // 256, y, z, n
    program=(2, (1, 255, 256), ((0, 1, 3), (3, 5, 4)), (1, 2, 6, 2, 2, 1)),
    temporaries=(),
    launches=(
        calls.FormLaunch(0, (calls.LaunchParameter("value", 1), calls.LaunchParameter("size"))),
    ),
)


#: The same, and once more by a second function.
TWICE = replace(
    FORM,
    program=(*FORM.program[:3], (*FORM.program[3], *FORM.program[3][2:])),
    launches=(*FORM.launches, replace(FORM.launches[0], function=1)),
)

#: Of a function with eight warps, behind its name.
EIGHT = "\n8 3\nout *fp32\nn i32\nBLOCK constexpr 256"


def section(arch: str, *, specific: bool, portable: bool, name: str = "ones") -> object:
    def parameters(aligned: bool) -> tuple[calls.BinaryParameter, ...]:
        return (
            calls.BinaryParameter("*fp32", 0, aligned, True),
            calls.BinaryParameter("i32", 1, aligned, False),
            calls.BinaryParameter("*i8", -1, False, True),
        )

    plain = calls.Binary(
        "entry", 128, 65536, specific, parameters(False), f"{arch} plain".encode(),
        f"{arch} PTX".encode() if portable else None, arch if portable else "",
    )  # fmt: skip
    wide = replace(plain, parameters=parameters(True), binary=f"{arch} aligned".encode())
    function = calls.Function(
        "a:b", 2, (plain, wide), "\n4 2\nout *fp32\nn i32\nBLOCK constexpr 256"
    )
    more = replace(plain, threads=256, binary=f"{arch} more".encode(), portable_arch="")
    more = replace(more, portable=None)
    entry = Entry(
        hashlib.sha256(arch.encode()).digest(),
        {"variants": [{"aligned": []}, {"aligned": ["out", "n"]}, {"aligned": ["n"]}]},
        [
            {"binary": one.binary, **({"portable": one.portable} if one.portable else {})}
            for one in (plain, wide, more)
        ],
    )
    functions, form = (function, replace(function, binaries=(more,), signature=EIGHT)), FORM
    if name == "twice":  # the second function has a binary for aligned arrays only
        functions, form = (function, calls.Function("a:c", 2, (wide,))), TWICE
    record = calls.CallRecord(
        name, "float32", False, (("x", False, False),), (), functions, (form,)
    )
    return pack_section(Target("nvidia", arch), {}, [entry], [record])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cuda")
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    program = [str(HERE / "cuda_standin.c"), "-o", str(made / "libcuda.so.1")]
    subprocess.run(["gcc", *flags, *program], check=True, timeout=100)
    sections = [
        section("sm_80", specific=False, portable=True),
        section("sm_90", specific=True, portable=False),
        section("sm_80", specific=False, portable=False, name="twice"),
    ]
    (made / "a.xtb").write_bytes(write_bundle({"made_by": "t"}, sections))
    return made


START = """
import ctypes, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from libxtarget import CUDA, Device, Failed, Kernel, Library
from pathlib import Path
library = Library(Path(sys.argv[2]))
standin = ctypes.CDLL(sys.argv[3])
standin.standin_last.restype = ctypes.c_char_p
device, bundle = Device(library, CUDA), library.open(Path(sys.argv[4]))
"""
CHOICE = """
ones = Kernel(device, bundle, "ones", "float32")
room = np.zeros(1100, "float32")
room = room[(-room.ctypes.data // 4) % 4 :]
for start, n in ((0, 1024), (0, 1023), (1, 1024)):
    x, out = np.zeros(n, "float32"), room[start : start + n]
    try:
        ones.launch((x,), (out,), ctypes.c_void_p(0x77))
        assert (out == 1).all()
        print(standin.standin_last().decode())
    except Failed as error:
        print(error.status, error)
assert standin.standin_depth() == 0
ones.release(), library.close(bundle), device.close()
"""
RAW = """
from libxtarget import argument
ones = Kernel(device, bundle, "ones", "float32")
room = np.zeros(1100, "float32")
room = room[(-room.ctypes.data // 4) % 4 :]
grid = (ctypes.c_uint32 * 3)(7, 2, 1)
for start, n, warps, stages in ((0, 1024, 0, 0), (1, 1024, 4, 2), (0, 1024, 8, 0), (0, 1024, 4, 3)):
    given = (type(argument(0)) * 3)(*map(argument, (room[start : start + n], n, 256)))
    try:
        library.check(library.c.xtarget_kernel_launch(
            ones.raw, ctypes.c_void_p(0x77), grid, warps, stages, given, ctypes.c_size_t(3)))
        print(standin.standin_last().decode())
    except Failed as error:
        print(error.status, error)
function, n, at = ctypes.c_void_p(), ctypes.c_int32(1024), ctypes.c_void_p(room.ctypes.data)
library.check(library.c.xtarget_kernel_function_of(
    ones.raw, b"*fp32:16,i32:16,256", 4, 2, ctypes.byref(function)))
for address in (room.ctypes.data, room.ctypes.data + 4):
    at.value = address
    addresses = (ctypes.c_void_p * 2)(ctypes.addressof(at), ctypes.addressof(n))
    try:
        library.check(library.c.xtarget_function_launch(
            function, ctypes.c_void_p(0x77), grid, addresses, ctypes.c_size_t(2)))
        print(standin.standin_last().decode())
    except Failed as error:
        print(error.status, error)
assert standin.standin_depth() == 0
library.c.xtarget_function_release(function)
ones.release(), library.close(bundle), device.close()
"""
WHOLE = """
twice = Kernel(device, bundle, "twice", "float32")
x, out = np.zeros(1023, "float32"), np.zeros(1023, "float32")
try:
    twice.launch((x,), (out,), ctypes.c_void_p(0x77))
except Failed as error:
    print(error.status, error)
assert not standin.standin_last(), standin.standin_last()
assert not out.any()
twice.release(), library.close(bundle), device.close()
"""


def run(script: str, shared: Path, folder: Path, capability: int) -> list[str]:
    standin = str(folder / "libcuda.so.1")
    words = [str(SOURCES.parents[1] / "tests"), str(shared), standin, str(folder / "a.xtb")]
    done = subprocess.run(
        [sys.executable, "-c", START + script, *words],
        capture_output=True,
        text=True,
        timeout=100,
        env={"XT_CUDA_LIBRARY": standin, "STANDIN_CAPABILITY": str(capability)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("capability", "image"),
    [(80, "sm_80 {}"), (86, "sm_80 {}"), (90, "sm_90 {}"), (89, "sm_80 {}"), (87, "sm_80 PTX"),
     (100, "sm_80 PTX"), (75, "")],
)  # fmt: skip
def test_the_exact_arch_then_the_family_then_the_portable_form(
    shared: Path, folder: Path, capability: int, image: str
) -> None:
    lines = run(CHOICE, shared, folder, capability)
    if not image:
        assert all(line.startswith("5 ") and f"sm_{capability}" in line for line in lines), lines
        return
    for line, kind, n in zip(lines, ("aligned", "plain", "plain"), (1024, 1023, 1024), strict=True):
        assert line == (
            f"{image.format(kind)} grid 4 1 1 block 128 1 1 shared 65536 stream 0x77 n {n} out 1 "
            "hidden 0"
        )


def test_nothing_is_launched_where_a_later_launch_has_no_binary(shared: Path, folder: Path) -> None:
    """Another section may serve the call, from the arrays as they were given."""
    (line,) = run(WHOLE, shared, folder, 80)
    assert line.startswith("5 "), line
    assert "has no binary of twice that runs on" in line


def test_warps_stages_and_alignment_choose_the_binary_of_a_raw_launch(
    shared: Path, folder: Path
) -> None:
    any_shape, unaligned, eight, none, addresses, refused = run(RAW, shared, folder, 86)
    rest = "grid 7 2 1 block {} 1 1 shared 65536 stream 0x77 n 1024 out 1 hidden 0"
    assert any_shape == addresses == f"sm_80 aligned {rest.format(128)}"
    assert unaligned == f"sm_80 plain {rest.format(128)}"
    assert eight == f"sm_80 more {rest.format(256)}"
    assert none.startswith("5 the bundle ")
    assert "(*fp32, 1024, 256) with 4 warps and 3 stages; it has (*fp32,i32,256) with 4 " in none
    assert refused.startswith("1 argument 1 (out) of a:b has to be a multiple of 16"), refused
