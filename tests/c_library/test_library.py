"""Kernels by their library's folder or their file, and their name: a child process builds them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from libxtarget import (
    BAD_ARGUMENT,
    NOT_BUILT,
    NOT_IN_BUNDLE,
    Device,
    Failed,
    Kernel,
    Library,
    needs_compiler_and_opencl,
)

pytestmark = needs_compiler_and_opencl

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def plus(x, out, n, BY: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + BY, i < n)
"""
CATALOG = """
from xtarget.spec import Example, Input, KernelSpec, Launch, Output, Plan, cdiv


def make(name, function):
    def plan(call):
        x = call.array(0)
        args = {"x": Input(0), "out": Output(), "n": x.size}
        constants = {"BY": 1, "BLOCK": 64}
        launch = Launch(f"kernels:{function}", args, constants, (cdiv(x.size, 64), 1, 1))
        return Plan((call.output(x.shape, x.dtype),), (launch,))

    return KernelSpec(name, ("x",), plan, ahead=lambda full: [Example(((1000,),))])


KERNELS = (make("plus_one", "plus"), make("missing", "none"))
"""

#: A file of one's own, without a catalog.
FILE = """
import triton
import triton.language as tl
import xtarget
from helping import BLOCKS


@xtarget.kernel(
    inputs=("x",), outputs={"out": "x"}, sizes={"N": lambda c: c.x.size}, constants={"BLOCK": 64},
    grid=lambda c: BLOCKS or -(-c.N // c.BLOCK), examples=lambda shape: [shape],
)
@triton.jit
def times_three(x, out, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 3 * tl.load(x + i, i < N), i < N)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library; the command that builds it is this Python's, and its cache is of the test."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "kernels.py").write_text(KERNELS)
    (tmp_path / "library" / "catalog.py").write_text(CATALOG)
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m xtarget "$@"\n')
    command.chmod(0o700)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XT_EXECUTABLE", str(command))
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path / "library"


def test_a_kernel_by_its_folder_and_name(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(library)
    bundle = library.of_library(folder, device, "plus_one", "float32")
    one = Kernel(device, bundle, "plus_one", "float32")
    x = np.arange(3000, dtype="float32")
    np.testing.assert_array_equal(one(x), x + 1)
    with pytest.raises(Failed, match=r"the bundle of the library .* has no call of plus_one"):
        one(x.astype("float64"))
    with pytest.raises(Failed) as caught:
        Kernel(device, bundle, "missing", "float32")
    assert caught.value.status == NOT_IN_BUNDLE
    for name, words in (
        ("missing", "could not build the kernels of .*no @triton.jit function 'none'"),
        ("nothing", "no kernel 'nothing'"),
    ):
        with pytest.raises(Failed, match=words) as caught:
            library.of_library(folder, device, name, "float32")
        assert caught.value.status == NOT_BUILT
    assert not [*folder.with_name("temporary").iterdir()]
    for place, words in (
        ("/" + "x" * 300, "more than 240 bytes"),
        ("/none", "no folder can be made"),
    ):
        monkeypatch.setenv("TMPDIR", place)
        with pytest.raises(Failed, match=words):
            library.of_library(folder, device, "plus_one", "float32")
    one.release()
    library.close(bundle)
    device.close()


def test_a_kernel_by_its_file_and_name(library: Library, folder: Path) -> None:
    device, file = Device(library), folder.with_name("mine.py")
    file.write_text(FILE)
    x = np.arange(1, 3001, dtype="float32")
    for blocks, reached in ((2, 128), (0, 3000)):  # a rule's value in a file beside it
        file.with_name("helping.py").write_text(f"BLOCKS = {blocks}\n")
        bundle = library.of_library(file, device, None, "float32")
        kernel = Kernel(device, bundle, "times_three", "float32")
        out = np.zeros_like(x)
        kernel.launch([x], [out])
        device.synchronize()
        np.testing.assert_array_equal(out, np.where(x <= reached, 3 * x, 0))
        kernel.release()
        library.close(bundle)
    for text, words in (
        ("import nothing_of_this_name", "mine.py cannot be imported: ModuleNotFoundError: No"),
        ("x = 1", "mine.py has no function under @xtarget.kernel"),
    ):
        file.write_text(text)
        with pytest.raises(Failed, match=words) as caught:
            library.of_library(file, device, None, "float32")
        assert caught.value.status == NOT_BUILT
    (folder.with_name("json.py")).write_text(FILE)
    with pytest.raises(Failed, match="there is another module json"):
        library.of_library(folder.with_name("json.py"), device, None, "float32")
    device.close()


def test_what_cannot_be_built_is_said(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(library)
    command = folder.with_name("command")

    def refused(words: str, *, seconds: float = 100.0, status: int = NOT_BUILT) -> None:
        with pytest.raises(Failed, match=words) as caught:
            library.of_library(folder, device, None, "float32", seconds)
        assert caught.value.status == status
        assert not [*folder.with_name("temporary").iterdir()]

    refused("a time of more than 0 seconds", seconds=0.0, status=BAD_ARGUMENT)
    command.write_text("#!/bin/sh\nsleep 100\n")
    refused("within 0.2 seconds, or was ended. Give it more time", seconds=0.2)
    command.write_text("#!/bin/sh\necho first >&2\necho last >&2\nexit 1\n")
    refused("could not build the kernels of .*: last$")
    command.write_text("#!/bin/sh\nexit 0\n")
    refused("kernels.xtb cannot be opened", status=2)
    monkeypatch.setenv("XT_EXECUTABLE", "no-such-command")
    refused("the command no-such-command cannot be run: No such file or directory. Install xtarget")
    device.close()
