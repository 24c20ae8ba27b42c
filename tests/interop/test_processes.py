"""What a second process finds: the binary, and no need of a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
import numpy as np
import xtarget
from xtarget import _build
a = np.arange(1000, dtype=np.float32)
result = xtarget.run("add", a, a, device=sys.argv[1])
assert (result == a + a).all()
print(json.dumps(sorted({m.partition(".")[0] for m in sys.modules})))
"""


def run(device: str, cache: Path, *, hide: tuple[str, ...] = ()) -> tuple[set[str], str]:
    """Run `add` in a fresh process; the packages it loaded, and its standard error."""
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in hide)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{hidden}{SCRIPT}", device],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "XTARGET_CACHE_DIR": str(cache),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    if done.returncode:
        return set(), done.stderr
    return set(json.loads(done.stdout)), done.stderr


def test_the_second_process_imports_neither_torch_nor_triton(device: str, tmp_path: Path) -> None:
    first, errors = run(device, tmp_path)
    assert "triton" in first, errors
    second, errors = run(device, tmp_path)
    assert second, errors
    assert not second & {"triton", "torch", "llvmlite"}


def test_a_binary_serves_where_no_compiler_is_installed(device: str, tmp_path: Path) -> None:
    _, errors = run(device, tmp_path, hide=("triton",))
    assert "NoCompilerError" in errors
    assert 'pip install "xtarget[compile]"' in errors
    assert run(device, tmp_path)[0]
    # another toolchain, or none: the binary that is there is used
    loaded, errors = run(device, tmp_path, hide=("triton", "llvmlite"))
    assert loaded, errors


def corrupt(cache: Path) -> None:
    files = [p for p in cache.rglob("*") if p.suffix in (".cubin", ".hsaco", ".spirv")]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)


def test_a_corrupt_entry_is_compiled_again_and_warned_of_once(device: str, tmp_path: Path) -> None:
    run(device, tmp_path)
    corrupt(tmp_path)
    loaded, errors = run(device, tmp_path)
    assert "triton" in loaded, errors
    assert errors.count("damaged") == 1, errors
    loaded, errors = run(device, tmp_path)
    assert loaded
    assert "damaged" not in errors


def test_without_a_cache_folder_it_works_and_warns_once(device: str, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    loaded, errors = run(device, blocker)
    assert loaded, errors
    assert errors.count(f"the cache folder {blocker} cannot be") == 1, errors


def test_nothing_is_left_running(device: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, device],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={
            **os.environ,
            "XTARGET_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    assert process.wait(120) == 0
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _group_lives(process.pid):
        time.sleep(0.05)
    assert not _group_lives(process.pid)


BINDINGS = """
import json, os, sys
import numpy as np
import xtarget
a = np.arange(1 << 20, dtype=np.float32)
for _ in range(10):
    xtarget.run("add", a, a, device=sys.argv[1])
print(json.dumps([sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")]))
"""


def test_no_thread_is_left_bound_to_a_cpu_that_the_caller_may_be_on(device: str) -> None:
    """The caller's thread, which works too, would take turns with it. So threads may run on every
    CPU, or on all but the one where the caller waited last.
    """
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("on one CPU every thread is bound to it")
    done = subprocess.run(
        [sys.executable, "-c", BINDINGS, device],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    everywhere = os.sched_getaffinity(0)
    left_out = {frozenset(everywhere - set(cpus)) for cpus in json.loads(done.stdout)}
    assert frozenset() in left_out, "the caller is bound"
    others = left_out - {frozenset()}
    assert len(others) <= 1, "threads keep off different CPUs"
    assert all(len(cpus) == 1 for cpus in others), "threads are bound"


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_without_any_device_every_vendors_reason_is_said(tmp_path: Path) -> None:
    hide = "".join(f"sys.modules[{m!r}] = None\n" for m in ("pyopencl", "cuda", "hip", "dpctl"))
    code = f"import sys\n{hide}import numpy, xtarget\nxtarget.run('add', numpy.ones(3), 1.0)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if k != "XTARGET_DEVICE"},
            "XTARGET_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    assert "NoDeviceError: no device was found" in done.stderr
    for vendor in ("nvidia", "amd", "intel", "cpu"):
        assert f"  {vendor}: " in done.stderr
        assert f'pip install "xtarget[{vendor}]"' in done.stderr


FORK = """
import multiprocessing, sys
import numpy as np, xtarget
a = np.ones(3, np.float32)
device = sys.argv[1]

def work(when):
    try:
        print(when, xtarget.run("add", a, 1.0, device=device))
    except xtarget.XTargetError as error:
        print(when, type(error).__name__, error)

def child(when):
    process = multiprocessing.get_context("fork").Process(target=work, args=(when,))
    process.start()
    process.join(60)
    print(when, "exit code", process.exitcode)

child("before")
work("parent")
child("after")
work("parent")
"""


def test_a_forked_child_says_so_and_does_not_hang(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, device],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.stdout.count("parent [2. 2. 2.]") == 2, done.stdout + done.stderr
    assert "before [2. 2. 2.]" in done.stdout
    assert "after DriverError" in done.stdout
    assert "spawn" in done.stdout
    assert done.stdout.count("exit code 0") == 2


IN_FLIGHT = """
import sys
import numpy as np
import xtarget
x = xtarget.asarray(np.ones((700, 700), np.float32), device=sys.argv[1])
for _ in range(20):
    y = xtarget.run("matmul", x, x)
"""
FORKED = """
import os
child = os.fork()
if not child:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


@pytest.mark.parametrize("then", ["", FORKED], ids=["", "forked"])
def test_a_program_may_end_while_its_work_is_in_flight(device: str, then: str) -> None:
    """Its arrays are gone before the run time's threads are."""
    done = subprocess.run(
        # Python 3.12 warns of every fork of a process with threads
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", IN_FLIGHT + then, device],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert (done.returncode, done.stderr) == (0, "")
