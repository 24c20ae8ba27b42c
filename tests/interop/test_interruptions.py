"""Interruptions between any two steps of a program: Ctrl-C, signal handlers, finalizers, forks."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python

import xtarget
from xtarget._launch import interrupts, run
from xtarget._launch.call import BoundCall


@pytest.fixture(params=["silicon", "emulator"])
def device(request: pytest.FixtureRequest) -> str:
    """A device that uses the host's memory, where one is there, and one that copies."""
    if request.param == "emulator":
        return "emu:gfx942"
    return xtarget.default_device().name


@pytest.fixture(autouse=True)
def _nothing_is_bound() -> None:
    """A call of a known class is not kept until it comes again; the first of a class is."""
    run.forget_calls()


def bound(key: str) -> BoundCall:
    """The bound call of a kernel that was made last."""
    return next(call for known, call in reversed(run._calls.items()) if known[0] == key)  # type: ignore[index]


def interrupted_after_launch(monkeypatch: pytest.MonkeyPatch, call: BoundCall) -> None:
    """Have Ctrl-C come as soon as the work of the call was started."""

    def wrapped(launch: Callable[..., None]) -> Callable[..., None]:
        def launched(values: Any, stream: Any) -> None:
            launch(values, stream)
            signal.raise_signal(signal.SIGINT)

        return launched

    if run._native is not None:  # it has what launches the class, not this call
        run._native.forget()
    if call.direct is not None:
        monkeypatch.setattr(call, "direct", wrapped(call.direct))
    *others, last = call._launches
    last = replace(last, prepared=wrapped(last.prepared))
    monkeypatch.setattr(call, "_launches", (*others, last))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("new", [False, True], ids=["out", "new result"])
def test_no_kernel_writes_after_an_interruption(
    device: str, monkeypatch: pytest.MonkeyPatch, ctrl_c: None, new: bool
) -> None:
    n = 32 if device.startswith("emu") else 1024
    a = np.ones((n, n), np.float32)
    out = None if new else np.zeros((n, n), np.float32)
    xtarget.run("matmul", a, a, out=out, device=device)
    call = bound("matmul")
    made: list[Any] = []
    if new:
        empty = type(call).new_output
        monkeypatch.setattr(
            BoundCall, "new_output", lambda *args: made.append(empty(*args)) or made[-1]
        )
    else:
        made.append(out)
        out[:] = 0  # type: ignore[index]
    interrupted_after_launch(monkeypatch, call)
    with pytest.raises(KeyboardInterrupt):
        xtarget.run("matmul", a, a, out=out, device=device)
    assert not interrupts.unfinished
    (result,) = made
    seen = result.copy()
    time.sleep(0.1)
    np.testing.assert_array_equal(result, seen)
    if device.startswith("cpu"):  # others copy, and the copy back was left out
        np.testing.assert_array_equal(seen, np.full((n, n), n, np.float32))


def test_a_second_ctrl_c_waits_as_well(
    device: str, monkeypatch: pytest.MonkeyPatch, ctrl_c: None
) -> None:
    a, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    xtarget.run("add", a, a, out=out, device=device)
    call, stream = bound("add"), xtarget.device(device).default_stream
    kind, waits = type(stream), []
    synchronize = kind.synchronize

    def impatient(self: Any) -> None:
        waits.append(1)
        if len(waits) < 4:
            signal.raise_signal(signal.SIGINT)
        synchronize(self)

    interrupted_after_launch(monkeypatch, call)
    monkeypatch.setattr(kind, "synchronize", impatient)
    with pytest.raises(KeyboardInterrupt):
        xtarget.run("add", a, a, out=out, device=device)
    assert len(waits) == 4
    assert not interrupts.unfinished


def program(
    text: str, *args: str, seconds: float = 240, silent: bool = True, **environment: str
) -> str:
    """The output of a program in a process of its own; it must neither hang nor print errors."""
    done = run_python("-W", "ignore", "-c", text, *args, seconds=seconds, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not silent or done.stderr == "", done.stderr
    return done.stdout


HANDLER = """
import signal, sys, time
import numpy as np
import xtarget
where = sys.argv[1]
a = np.arange(500, dtype=np.float32)
o = np.empty_like(a)
xtarget.run("add", a, a, device=where), xtarget.run("add", a, a, out=o, device=where)
right = refused = 0
busy = False
def handler(number, frame):
    global right, refused, busy
    if busy:
        return
    busy = True
    try:
        b = np.full(500, right, np.float32)
        assert (xtarget.run("add", b, b, device=where) == 2 * b).all()
        assert (xtarget.run("add", b, b, out=b.copy(), device=where) == 2 * b).all()
        right += 1
    except xtarget.XTargetError as error:
        assert "signal handler" in str(error), error
        refused += 1
    finally:
        busy = False
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0013, 0.0013)
calls = 0
while calls < 20 or right + refused < 50:
    calls += 1
    assert (xtarget.run("add", a, a, device=where) == 2 * a).all()
    o[:] = 0
    xtarget.run("add", a, a, out=o, device=where)
    assert (o == 2 * a).all()
signal.setitimer(signal.ITIMER_REAL, 0)
assert right and (not refused or where.startswith("emu"))
"""


def test_run_in_a_signal_handler(device: str) -> None:
    program(HANDLER, device)


FINALIZER = """
import gc, sys
import numpy as np
import xtarget
where = sys.argv[1]
a = np.arange(500, dtype=np.float32)
right = 0
class Late:
    def __init__(self):
        self.me = self
        self.array = xtarget.asarray(a, device=where)
    def __del__(self):
        global right
        try:
            assert (xtarget.run("add", a, a, device=where) == 2 * a).all()
            assert (xtarget.run("add", self.array, self.array).numpy() == 2 * a).all()
            right += 1
        except xtarget.XTargetError as error:
            assert "finalizer" in str(error), error
xtarget.run("add", a, a, device=where)
gc.set_threshold(7, 2, 2)
for _ in range(20 if where.startswith("emu") else 300):
    Late()
    assert (xtarget.run("add", a, a, device=where) == 2 * a).all()
Late()
gc.collect()  # the others may all have been collected where an emulated device was in use
assert right
"""


def test_run_in_finalizers_that_the_collector_calls_anywhere(device: str) -> None:
    program(FINALIZER, device)


DROPPED = """
import sys
import numpy as np
import xtarget
where = sys.argv[1]
a = np.arange(100, dtype=np.float32)
for many in (330, 3000):
    arrays = [xtarget.asarray(a, device=where) for _ in range(many)]
    arrays.clear()
    assert (xtarget.run("add", a, a, device=where) == 2 * a).all()
arrays = [xtarget.asarray(a, device=where) for _ in range(1000)]
"""


def test_thousands_of_arrays_are_dropped_at_once(device: str) -> None:
    program(DROPPED, device)


IN_COMPILATION = """
import signal, sys
import numpy as np
import triton.compiler.compiler as of_triton
import xtarget
class Late(Exception): pass
said = []
def handler(number, frame):
    try:
        xtarget.run(sys.argv[2], np.ones(8, np.float32), device="cpu")
    except xtarget.CompileError as error:
        said.append(str(error))
    raise Late("told by the user's own handler")
signal.signal(signal.SIGALRM, handler)
make_ir = of_triton.ASTSource.make_ir
def interrupted(self, *args, **options):
    of_triton.ASTSource.make_ir = make_ir
    signal.raise_signal(signal.SIGALRM)
    return make_ir(self, *args, **options)
of_triton.ASTSource.make_ir = interrupted
try:
    xtarget.run("exp", np.ones(8, np.float32), device="cpu")
except Late:
    print("Late")
print(said[0])
assert (xtarget.run("exp", np.zeros(8, np.float32), device="cpu") == 1).all()
"""


@pytest.mark.parametrize(("other", "words"), [("exp", "is needed while"), ("relu", "while this")])
@pytest.mark.skipif(
    importlib.util.find_spec("pyopencl") is None, reason="pyopencl is not installed: no CPU device"
)
def test_a_signal_handler_in_a_compilation(other: str, words: str, tmp_path: Path) -> None:
    said = program(IN_COMPILATION, "", other, XTARGET_CACHE_DIR=str(tmp_path)).splitlines()
    assert said[0] == "Late"
    assert words in said[1]
    assert "signal handler" in said[1]


STARTING = """
import signal, sys
import numpy as np
import xtarget
from xtarget._devices import registry as _registry
x, where, told = np.arange(8, dtype=np.float32), sys.argv[2] or None, []
def handler(*_):
    try:
        told.append(str(xtarget.run("mul", x, 3.0, device=where)[1]))
    except xtarget.XTargetError as error:
        told.append(str(error))
class Finder:
    def find_spec(self, name, path, target=None):
        if name.endswith(sys.argv[1]):
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGUSR2)
        return None
signal.signal(signal.SIGUSR2, handler)
sys.meta_path.insert(0, Finder())
if sys.argv[1] == "opening":
    kind = type(_registry.driver("cpu"))
    opens = kind.open
    def opened(self, number):
        device = opens(self, number)
        signal.raise_signal(signal.SIGUSR2)
        return device
    kind.open = opened
for _ in range(2):
    assert (xtarget.run("mul", x, 2.0, device=where) == 2 * x).all()
print(*told, sep="; ")
print(xtarget.default_device().name)
"""


@pytest.mark.sample(3, each=("words",))
@pytest.mark.parametrize(
    ("at", "where", "words"),
    [
        ("xtarget._launch.binding", "", "still importing xtarget."),
        ("xtarget.targets.nvidia.driver", "", "still importing xtarget."),
        ("xtarget.targets.cpu.device", "cpu", "still importing xtarget."),
        (".plans.elementwise", "cpu", "is being imported"),
        ("opening", "cpu", "cpu:0 is being opened"),
    ],
)
@pytest.mark.skipif(
    importlib.util.find_spec("pyopencl") is None, reason="pyopencl is not installed: no CPU device"
)
def test_a_signal_handler_before_a_device_is_ready(at: str, where: str, words: str) -> None:
    usual = program("import xtarget; print(xtarget.default_device().name)").strip()
    said, device = program(STARTING, at, where).splitlines()
    assert words in said
    assert "signal handler" in said
    assert ";" not in said  # it came once
    assert device == usual


USR1 = """
import faulthandler, os, signal, sys, threading
import numpy as np
import xtarget
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
if sys.argv[2] == "C":
    faulthandler.register(signal.SIGUSR1, file=sys.stdout)
x = np.ones(5, np.float32)
def work():
    if sys.argv[1] == "compile":
        xtarget.compile("mul", x, x, target="nvidia:sm_90")
    else:
        xtarget.run("mul", x, x, device=sys.argv[1])
if sys.argv[2] == "thread":
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
else:
    work()
sys.stdout.flush()
signal.raise_signal(signal.SIGUSR1)
assert sys.argv[2] == "C" or came == [1]
"""


@pytest.mark.sample(3, each=("what", "how"))
@pytest.mark.parametrize("how", ["Python", "C", "thread"])
@pytest.mark.parametrize("what", ["cpu", "compile"])
@pytest.mark.skipif(
    importlib.util.find_spec("pyopencl") is None, reason="pyopencl is not installed: no CPU device"
)
def test_sigusr1_is_the_programs(what: str, how: str, tmp_path: Path) -> None:
    cache = str(tmp_path) if what == "compile" else os.environ.get("XTARGET_CACHE_DIR", "")
    said = program(USR1, what, how, XTARGET_CACHE_DIR=cache)
    assert ("most recent call first" in said) == (how == "C")


AT_THE_END = """
import atexit, os, sys, threading
import numpy as np
import xtarget
def late():
    assert (xtarget.run("mul", np.ones(5, np.float32), 2.0) == 2).all()
    os.write(1, b"right")
if sys.argv[1] == "end":
    atexit.register(late)
else:
    def start(self):
        raise RuntimeError("can't start new thread")
    threading.Thread.start = start
    late()
"""


@pytest.mark.parametrize("when", ["end", "no more threads"])
def test_a_first_run_where_no_thread_can_begin(when: str, tmp_path: Path) -> None:
    said = program(AT_THE_END, when, XTARGET_CACHE_DIR=str(tmp_path))
    assert said == "right"


IMPORT = """
import sys
import xtarget
class Finder:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
        return None
layout = xtarget.spec.ArrayType("float32", (64,), (1,))
for attempt in range(2):
    if attempt == 0:
        sys.meta_path.insert(0, Finder())
    try:
        if sys.argv[2] == "user" and attempt == 0:
            import triton
        else:
            xtarget.compile("exp", layout, target="nvidia:sm_90")
            print("compiled")
    except KeyboardInterrupt:
        print("interrupted")
import triton
triton.knobs, triton.compile, triton.language.float32
"""


@pytest.mark.sample(3, each=("module", "who"))
@pytest.mark.parametrize("who", ["xtarget", "user"])
@pytest.mark.parametrize("module", ["triton.knobs", "triton.language.core"])
def test_ctrl_c_while_triton_is_imported(module: str, who: str, tmp_path: Path) -> None:
    said = program(IMPORT, module, who, XTARGET_CACHE_DIR=str(tmp_path))
    assert said.split() == ["interrupted", "compiled"]


FORK = """
import os, signal, sys, threading, time
import xtarget
layout = xtarget.spec.ArrayType("float32", (64,), (1,))
def compile_all():
    for name in ("exp", "relu", "add", "mul"):
        xtarget.compile(name, layout, *[layout] * (name in ("add", "mul")), target="nvidia:sm_90")
thread = threading.Thread(target=compile_all)
thread.start()
children = []
for seconds in (0.02, 0.3, 0.3):
    time.sleep(seconds)
    child = os.fork()
    if not child:
        signal.alarm(150)  # ends the child, where it hangs
        xtarget.compile("exp", layout, target="nvidia:sm_90")
        xtarget.compile("mul", layout, layout, target="nvidia:sm_90")
        import triton
        assert "xtarget" not in str(triton.knobs.cache.dir), triton.knobs.cache.dir
        os._exit(0)
    children.append(child)
thread.join()
answers = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert answers == [0] * 3, answers
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_another_thread_compiles(tmp_path: Path) -> None:
    # logging, imported while a fork waits for it, says so (CPython's `register_at_fork`)
    program(FORK, XTARGET_CACHE_DIR=str(tmp_path), silent=False)
