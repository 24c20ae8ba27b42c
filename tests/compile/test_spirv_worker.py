"""The child process that runs LLVM: it may die, hang or be left, and the next request works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import gone

from xtarget._children import child
from xtarget._values.errors import CompileError, XTargetError
from xtarget.targets._spirv.llvm.codegen import EXAMPLE
from xtarget.targets._spirv.llvm.text import Layout
from xtarget.targets._spirv.worker import client
from xtarget.targets._spirv.worker.client import Worker

pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")

LAYOUT = Layout(num_warps=1, warp_size=16, shared_bytes=0)
FINE = EXAMPLE.replace("@example", "@k")
#: Valid LLVM IR that its SPIR-V back end ends the process on.
FATAL = """
target triple = "spirv64v1.4-unknown-unknown"
define spir_kernel void @k(ptr addrspace(1) %p) {
  %v = load i128, ptr addrspace(1) %p, align 16
  %r = call i128 @llvm.bitreverse.i128(i128 %v)
  store i128 %r, ptr addrspace(1) %p, align 16
  ret void
}
declare i128 @llvm.bitreverse.i128(i128)
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def assert_works(worker: Worker) -> None:
    text, kernel = worker.prepare(FINE, b"", "k", LAYOUT)
    assert (kernel.parameters, kernel.asserts) == (("ptr",), False)
    assert "get_sub_group_local_id" in text
    assert worker.emit(text)[:4] == b"\x03\x02\x23\x07"


def test_one_child_serves_many_requests(worker: Worker) -> None:
    assert worker.pid is None
    assert_works(worker)
    pid = worker.pid
    assert_works(worker)
    assert worker.pid == pid is not None


def test_what_ends_llvm_is_an_error_and_the_child_stays(worker: Worker) -> None:
    assert_works(worker)
    pid = worker.pid
    with pytest.raises(CompileError, match=r"generating SPIR-V: LLVM's process (died of|ended)"):
        worker.emit(FATAL)
    assert_works(worker)
    assert worker.pid == pid


def test_text_that_is_no_ir(worker: Worker) -> None:
    with pytest.raises(CompileError, match="LLVM IR parsing error"):
        worker.prepare("define nonsense", b"", "k", LAYOUT)
    assert_works(worker)


def test_a_request_that_takes_too_long(worker: Worker) -> None:
    assert_works(worker)
    worker.time_limit = 0.0
    with pytest.raises(CompileError, match=r"rewriting .* did not finish within 0 s"):
        worker.prepare(FINE, b"", "k", LAYOUT)
    worker.time_limit = 60.0
    assert_works(worker)


def test_a_request_that_works_too_long(worker: Worker) -> None:
    assert_works(worker)
    worker.time_limit = 0.01
    with pytest.raises(CompileError, match=r"did not finish within 0.01 s of processor time"):
        worker.prepare(FINE + "\n" * (64 << 20), b"", "k", LAYOUT)
    worker.time_limit = 60.0
    assert_works(worker)


def test_the_clock_alone_ends_no_request(worker: Worker) -> None:
    """As on a machine whose processors others have: LLVM stands still for longer than its limit."""
    assert_works(worker)
    worker.time_limit, found = 3.0, []
    server = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    if not server.exists():
        pytest.skip("this system's /proc does not tell a process's children")

    def starve() -> None:
        while not found and asking.is_alive():
            found.extend(map(int, server.read_text().split()))
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(4)
            os.kill(pid, signal.SIGCONT)

    answers: list[str] = []
    asking = threading.Thread(
        target=lambda: answers.append(worker.prepare(FINE + "\n" * (4 << 20), b"", "k", LAYOUT)[0])
    )
    asking.start()
    starve()
    asking.join()
    assert len(found) == 1
    assert "get_sub_group_local_id" in answers[0]


def test_a_request_that_takes_too_much_memory(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_BUILD_MEMORY", "1M")
    with pytest.raises(CompileError, match=r"memory|Memory"):
        worker.emit(FINE + "\n" * (64 << 20))
    monkeypatch.setenv("XTARGET_BUILD_MEMORY", "none")
    assert_works(worker)


def test_the_limit_comes_from_the_environment(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("soon", "-1", "inf", "nan", "0"):
        monkeypatch.setenv("XTARGET_SPIRV_SECONDS", text)
        with pytest.raises(XTargetError, match=f"XTARGET_SPIRV_SECONDS={text} is not a time"):
            worker.prepare(FINE, b"", "k", LAYOUT)
    monkeypatch.setenv("XTARGET_SPIRV_SECONDS", "59")
    assert_works(worker)


def test_a_child_that_was_killed(worker: Worker) -> None:
    assert_works(worker)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert_works(worker)
    assert worker.pid != pid


def test_a_child_that_stands_still(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_works(worker)
    monkeypatch.setattr(client, "_GRACE", 0.3)
    worker.time_limit = 0.2
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(CompileError, match="LLVM's process did not answer"):
        worker.prepare(FINE, b"", "k", LAYOUT)
    assert gone(pid)
    worker.time_limit = 60.0
    assert_works(worker)


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), 9)", "sys.exit(0)"])
def test_the_child_goes_with_its_parent(how: str) -> None:
    script = (
        "import os, sys\nfrom xtarget.targets._spirv.worker.client import worker\n"
        f"worker.start()\nprint(worker.pid, flush=True)\n{how}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert gone(int(done.stdout))


def test_a_forked_process_has_a_child_of_its_own(worker: Worker) -> None:
    script = f"""
import os, sys
from xtarget.targets._spirv.worker.client import worker
from xtarget.targets._spirv.llvm.codegen import EXAMPLE
from xtarget.targets._spirv.llvm.text import Layout
text = {FINE!r}
layout = Layout(num_warps=1, warp_size=16, shared_bytes=0)
first = worker.prepare(text, b"", "k", layout)
pid = os.fork()
if pid == 0:
    os._exit(0 if worker.prepare(text, b"", "k", layout) == first else 1)
assert os.waitpid(pid, 0)[1] == 0
assert worker.prepare(text, b"", "k", layout) == first
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)


def test_an_interrupted_request_leaves_nothing_in_the_pipe(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_works(worker)

    def interrupted(data: bytearray) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(child, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.prepare(FINE, b"", "k", LAYOUT)
    assert_works(worker)


def test_the_child_imports_neither_triton_nor_numpy() -> None:
    script = """
import sys
from xtarget.targets._spirv.llvm import codegen
from xtarget.targets._spirv.worker import main
from xtarget.targets._spirv.llvm.codegen import EXAMPLE
from xtarget.targets._spirv.llvm.text import Layout
text, kernel = codegen.prepare(sys.argv[1], b"", "k", Layout(1, 16, 0))
codegen.emit(text)
heavy = {"triton", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script, FINE], timeout=60, check=True)
