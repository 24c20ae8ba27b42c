"""`XTARGET_COMPILE_SECONDS`: a kernel is compiled in a child process, under a limit of time."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import gone, run_python

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
sys.path.insert(0, str(Path(__file__).parent))
import limited_kernels
import triton
import triton.language as tl

import xtarget
from xtarget import CompileError, Target
from xtarget._compile import functions, routes
from xtarget._compile import limited as _compile_child
from xtarget._kernels.decorator import loaded_source
from xtarget._values.types import CompileRequest
from xtarget.spec import ArrayType

SM_90 = Target("nvidia", "sm_90")
X = ArrayType("float32", (1000,), (1,))


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "60")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    yield
    _compile_child.end_idle()


def request(fn: Any, block: int = 64) -> CompileRequest:
    return CompileRequest(
        source=loaded_source(fn, "here"),
        signature=(("x", "*fp32"), ("o", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
        constants=(("BLOCK", block),),
    )


def test_the_binary_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = [
        (lambda: xtarget.compile("add", X, X, target="nvidia:sm_90")[0]),
        (
            lambda: functions._compile(
                routes.named("nvidia", routes.TRITON), request(limited_kernels.quick), SM_90
            )[0]
        ),
    ]
    for make in inside:
        monkeypatch.setenv("XTARGET_CACHE", "off")
        monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "60")
        limited = make()
        monkeypatch.delenv("XTARGET_COMPILE_SECONDS")
        assert limited == make()


def test_one_child_serves_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (64, 128):
        made = functions.artifact(request(limited_kernels.quick, block), SM_90)
        assert made.entry == "quick"
    ((_, child),) = _compile_child._idle
    pid = child.pid
    functions.artifact(request(limited_kernels.quick, 256), SM_90)
    assert child.pid == pid is not None


def test_triton_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_COMPILE_SECONDS", "2")
    with pytest.raises(CompileError, match=r"kernel slow for nvidia:sm_90 was given up") as raised:
        functions.artifact(request(limited_kernels.slow), SM_90)
    said = str(raised.value)
    assert "more than 2 s of processor time" in said
    assert "stage" in said
    assert "XTARGET_COMPILE_SECONDS" in said
    assert not _compile_child._idle


def test_a_function_of_triton_behind_its_tuner() -> None:
    made = functions.artifact(request(limited_kernels.tuned.fn), SM_90)
    assert made.entry == "tuned"


def test_what_does_not_compile_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = request(limited_kernels.quick, 63)
    with pytest.raises(CompileError) as limited:
        functions.artifact(wrong, SM_90)
    monkeypatch.delenv("XTARGET_COMPILE_SECONDS")
    with pytest.raises(CompileError) as here:
        functions.artifact(wrong, SM_90)
    assert str(limited.value) == str(here.value)


def test_a_value_that_the_program_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child would compile another kernel: 3 where 5 is due."""
    monkeypatch.setattr(limited_kernels, "FACTOR", tl.constexpr(5))
    with pytest.raises(CompileError, match="values that the program has set"):
        functions.artifact(request(limited_kernels.quick), SM_90)


def test_settings_that_the_program_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the environment reaches the child, a function does not."""
    assert functions.artifact(request(limited_kernels.quick), SM_90)
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert functions.artifact(request(limited_kernels.quick), SM_90)
    hook = triton.knobs.runtime
    monkeypatch.setattr(hook, "add_stages_inspection_hook", lambda *_: ("key", "hash"))
    with pytest.raises(CompileError, match="settings of Triton"):
        functions.artifact(request(limited_kernels.quick), SM_90)


def test_a_kernel_that_no_other_process_finds() -> None:
    @triton.jit
    def inner(x, o, n, BLOCK: tl.constexpr):
        tl.store(o, tl.load(x))

    with pytest.raises(CompileError, match="defined inside a function") as raised:
        functions.artifact(request(inner), SM_90)
    assert "XTARGET_COMPILE_SECONDS" in str(raised.value)


def test_a_programs_own_kernel_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        Path(limited_kernels.__file__).read_text()
        + f"\nimport sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        "import test_compile_seconds as t\n"
        "try:\n    t.functions.artifact(t.request(quick), t.SM_90)\n"
        "except t.CompileError as error:\n    print(error)\n"
    )
    done = run_python(str(tmp_path / "program.py"))
    assert done.stdout.count("\n") == 1, done.stderr
    assert "it is defined in the program itself" in done.stdout


def test_a_child_that_dies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Within a compilation this is an error, between two of them nothing."""
    text = Path(limited_kernels.__file__).read_text()
    dies = "import os\nif 'TEST_DIE' in os.environ: os.kill(os.getpid(), 9)\n"
    (tmp_path / "dying_kernels.py").write_text(
        text.replace("import triton\n", f"{dies}import triton\n", 1)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    dying_kernels = importlib.import_module("dying_kernels")
    functions.artifact(request(dying_kernels.quick), SM_90)
    ((_, child),) = _compile_child._idle
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert functions.artifact(request(dying_kernels.quick, 128), SM_90).entry == "quick"
    with monkeypatch.context() as patch:
        patch.setenv("TEST_DIE", "1")
        with pytest.raises(CompileError, match=r"died of SIGKILL\. It said last: nothing"):
            functions.artifact(request(dying_kernels.quick, 256), SM_90)
    assert functions.artifact(request(dying_kernels.quick, 256), SM_90).entry == "quick"


def test_no_child_stays_in_the_middle_of_a_compilation(tmp_path: Path) -> None:
    """Its parent goes without a word; the child does not wait for the end of its work."""
    begun = tmp_path / "begun"
    (tmp_path / "endless.py").write_text(
        f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(3600)\n"
    )
    code = (
        f"import os, sys, time; sys.path.append({str(tmp_path)!r})\n"
        "from xtarget._children.child import Child\n"
        "from xtarget._children.frames import pack\n"
        "from xtarget._compile.workers import COMPILE_CHILD\n"
        "child = Child(COMPILE_CHILD)\n"
        "print(child.start(), flush=True)\n"
        "child.send(pack({'import': 'endless'}))\n"
        f"while not os.path.exists({str(begun)!r}): time.sleep(0.02)\n"
        "os.kill(os.getpid(), 9)"
    )
    assert gone(int(run_python("-c", code).stdout))
