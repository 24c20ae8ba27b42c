"""A second process finds the binary, and needs no compiler."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import run_python

import xtarget

SCRIPT = """
import json, sys
import numpy as np
import xtarget
from xtarget._compile import functions as _build
a = np.arange(1000, dtype=np.float32)
result = xtarget.run("add", a, a, device=sys.argv[1])
assert (result == a + a).all()
ours = {m for m in sys.modules if m.startswith("xtarget.")}
print(json.dumps(sorted(ours | {m.partition(".")[0] for m in sys.modules})))
"""

#: What only compiling, bundles, failures and our own arrays need. Each module of these costs a warm
#: start a third of a millisecond and more.
COLD = {
    *("_arrays.capsules", "_arrays.device_array", "_bundle.reader", "_bundle.format"),
    *("_compile.limited", "_kernels.decorator", "_system.progress", "targets._triton.accesses"),
    *("targets._triton.compile", "targets._triton.frozen", "targets._spirv.frontend.blocks"),
    *("targets._spirv.frontend.dots", "_children.child", "_kernels.composed"),
    *("_kernels.programs", "_kernels.steps", "targets._triton.identity"),
    *("targets._triton.importing", "targets._triton.replaced"),
}

PACKAGE = Path(xtarget.__file__).parent
ALL = {".".join(p.relative_to(PACKAGE).with_suffix("").parts) for p in PACKAGE.rglob("*.py")}


def run(device: str, cache: Path, *, hide: tuple[str, ...] = ()) -> tuple[set[str], str]:
    """Run `add` in a fresh process; the packages it loaded, and its standard error."""
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in hide)
    alone = {"XTARGET_CACHE_DIR": str(cache), "XTARGET_ROUTES": "triton"}
    done = run_python("-c", f"import sys\n{hidden}{SCRIPT}", device, **alone)
    if done.returncode:
        return set(), done.stderr
    return set(json.loads(done.stdout)), done.stderr


def test_the_second_process_imports_neither_torch_nor_triton(device: str, tmp_path: Path) -> None:
    first, errors = run(device, tmp_path)
    assert "triton" in first, errors
    second, errors = run(device, tmp_path)
    assert second, errors
    assert not second & {"triton", "torch", "llvmlite"}
    if not device.startswith("emu:"):
        cold = {f"xtarget.{name}" for name in COLD}
        assert cold <= {f"xtarget.{name}" for name in ALL}, "a name of COLD is of no module"
        assert not (loaded := second & cold), f"loaded in a warm start: {sorted(loaded)}"


def test_a_vendors_compiler_is_at_hand_without_what_only_compiling_needs() -> None:
    names = [f"xtarget.targets.{vendor}.compiler" for vendor in ("nvidia", "amd", "intel", "cpu")]
    done = run_python("-c", f"import {', '.join(names)}, sys; print(*sys.modules)")
    loaded = set(done.stdout.split())
    assert loaded >= set(names), done.stderr
    assert not loaded & {"triton", *(f"xtarget.{name}" for name in COLD)}


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


@pytest.mark.parametrize("command", [(), ("bash", "-c", "trap '' CHLD; exec \"$@\"", "bash")])
def test_a_kernel_compiles_whatever_the_caller_does(
    device: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """In a folder of files with the names of modules, where the ends of children are not told."""
    for name in ("json", "typing", "numpy", "triton", "llvmlite", "pyopencl", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise OSError")
    done = subprocess.run(
        [*command, sys.executable, "-P", "-c", SCRIPT, device],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "XTARGET_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p and p != str(Path.cwd())),
        },
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_nothing_is_left_running(device: str, tmp_path: Path) -> None:
    mark = f"MARK_OF_A_TEST={tmp_path}"
    code = f"{SCRIPT}\nprint('done', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "MARK_OF_A_TEST": str(tmp_path),
            "XTARGET_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    assert process.stdout is not None
    process.stdout.readline()
    if xtarget.device(device).info.vendor in ("cpu", "intel"):
        assert len(_marked(mark)) > 1  # it has children, which compile
    process.communicate(timeout=120)
    assert process.returncode == 0
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _marked(mark):
        time.sleep(0.05)
    assert not _marked(mark)


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
    done = run_python("-c", BINDINGS, device)
    assert done.returncode == 0, done.stderr
    everywhere = os.sched_getaffinity(0)
    left_out = {frozenset(everywhere - set(cpus)) for cpus in json.loads(done.stdout)}
    assert frozenset() in left_out, "the caller is bound"
    others = left_out - {frozenset()}
    assert len(others) <= 1, "threads keep off different CPUs"
    assert all(len(cpus) == 1 for cpus in others), "threads are bound"


def _marked(mark: str) -> list[str]:
    """Processes that have a variable of this value in their environment."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and mark.encode() in (place / "environ").read_bytes():
                found.append(place.name)
    return found


def test_without_any_device_every_vendors_reason_is_said(tmp_path: Path) -> None:
    hide = "".join(f"sys.modules[{m!r}] = None\n" for m in ("pyopencl", "cuda", "hip", "dpctl"))
    code = f"import sys\n{hide}import numpy, xtarget\nxtarget.run('add', numpy.ones(3), 1.0)"
    done = run_python("-c", code, XTARGET_DEVICE=None, XTARGET_CACHE_DIR=str(tmp_path))
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
    done = run_python("-c", FORK, device, seconds=180, check=True)
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
    # Python 3.12 warns of every fork of a process with threads
    done = run_python("-W", "ignore::DeprecationWarning", "-c", IN_FLIGHT + then, device)
    assert (done.returncode, done.stderr) == (0, "")
