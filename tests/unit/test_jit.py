"""The children that run times' compilers work in: they may die, hang or be left, and the user's
process goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import gone
from threads import in_threads

from xtarget._values.errors import LoadError, XTargetError
from xtarget.targets._workers import jit as _jit
from xtarget.targets._workers import jit_process
from xtarget.targets._workers.jit import Jit

STANDIN = str(Path(__file__).parents[1] / "jit_standin")


@pytest.fixture(autouse=True)
def _standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(STANDIN)


@pytest.fixture
def jit() -> Iterator[Jit]:
    made = Jit("standin_builder")
    yield made
    made.close()


def build(jit: Jit, what: str, device: str = "device") -> tuple[int, str]:
    """The child that built, and what it made."""
    pid, _, made = jit.build("k cannot be loaded", device, what.encode(), "k").partition(b" ")
    return int(pid), made.decode()


def test_nothing_is_started_before_it_is_needed(jit: Jit) -> None:
    assert jit.pids == []


def test_one_child_builds_many(jit: Jit) -> None:
    first = build(jit, "one")
    assert first[1] == "one"
    assert build(jit, "two") == (first[0], "two")
    assert jit.pids == [first[0]]


def test_a_child_may_be_started_ahead_of_the_first_build(jit: Jit) -> None:
    jit.start()
    jit.start()
    (pid,) = jit.pids
    assert build(jit, "one") == (pid, "one")
    jit.start()
    assert jit.pids == [pid]


def test_what_cannot_be_started_ahead_is_said_when_it_builds(
    jit: Jit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    jit.start()
    with pytest.raises(LoadError, match=r"sys\.executable"):
        build(jit, "one")
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("hang in a crash", "k cannot be loaded: .*compiler crashed while it made machine code"),
        ("crash", r"(?s)k cannot be loaded: .*compiler died of SIGSEGV.*It said:\nabout to crash"),
        ("exit", "ended with status 14 .*XTARGET_BUILD_MEMORY"),
        ("refuse", "^k cannot be loaded: building k failed: the log.$"),
        ("wrong", "k cannot be loaded: RuntimeError: unforeseen"),
    ],
)
def test_what_fails_is_an_error_and_the_next_build_works(jit: Jit, what: str, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        build(jit, what)
    assert build(jit, "next")[1] == "next"


@pytest.mark.parametrize("what", ["hang", "deaf hang"])
def test_a_build_that_does_not_end(jit: Jit, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pid, _ = build(jit, "first")
    monkeypatch.setenv("XTARGET_JIT_SECONDS", "0.3")
    with pytest.raises(LoadError, match=r"did not finish within 0.3 s.*XTARGET_JIT_SECONDS"):
        build(jit, what)
    assert gone(pid)
    monkeypatch.delenv("XTARGET_JIT_SECONDS")
    assert build(jit, "next")[1] == "next"


def test_a_child_that_stands_still(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    pid, _ = build(jit, "first")
    monkeypatch.setattr(_jit, "_GRACE", 0.2)
    monkeypatch.setenv("XTARGET_JIT_SECONDS", "0.3")
    with pytest.raises(LoadError, match="did not finish"):
        build(jit, "stand still")
    assert gone(pid)


def test_a_build_that_wants_too_much_memory(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_BUILD_MEMORY", "1G")
    with pytest.raises(LoadError, match=r"MemoryError.*had 1024 MiB.*XTARGET_BUILD_MEMORY"):
        build(jit, "memory")
    assert build(jit, "next")[1] == "next"


def test_a_build_that_fails_with_little_memory_says_so(
    jit: Jit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intel's compiler says "Failed to build device program" and no more."""
    monkeypatch.setenv("XTARGET_BUILD_MEMORY", "10M")
    with pytest.raises(LoadError, match=r"(?s)the log\..It may have run out of memory: .* 10 MiB"):
        build(jit, "refuse")


@pytest.mark.parametrize("name", ["XTARGET_JIT_SECONDS", "XTARGET_BUILD_MEMORY"])
def test_a_limit_that_means_nothing(jit: Jit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "plenty")
    with pytest.raises(XTargetError, match=name):
        build(jit, "any")


def test_a_device_that_is_not_there(jit: Jit) -> None:
    with pytest.raises(LoadError, match=r"k cannot be loaded: there is no other\."):
        build(jit, "one", device="other")
    assert build(jit, "two")[1] == "two"


def test_what_a_library_prints_is_no_answer(jit: Jit) -> None:
    assert build(jit, "print")[1] == "print"
    assert build(jit, "next")[1] == "next"


def test_a_child_that_ended_while_idle_is_replaced(jit: Jit) -> None:
    pid, _ = build(jit, "first")
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert build(jit, "second")[1] == "second"


def test_a_child_that_an_earlier_build_damaged_gets_one_more_try(jit: Jit) -> None:
    pid, _ = build(jit, "damage")
    after = build(jit, "crash once damaged")
    assert after[1] == "crash once damaged"
    assert after[0] != pid


def test_a_child_is_replaced_after_many_builds(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "_BUILDS", 2)
    pids = [build(jit, "any")[0] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    assert gone(pids[0])


def test_threads_build_at_the_same_time(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def work(number: int) -> None:
        made.extend(build(jit, f"{number}.{i}")[1] for i in range(3))

    in_threads(work, range(8))
    assert sorted(made) == sorted(f"{number}.{i}" for number in range(8) for i in range(3))
    assert 1 <= len(jit.pids) <= _jit._CHILDREN


def test_an_interpreter_that_does_not_know_itself(
    jit: Jit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(LoadError, match=r"child process.*sys\.executable"):
        build(jit, "any")


def test_an_interpreter_that_cannot_be_started(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(LoadError, match=r"/no/such/python .* cannot be started"):
        build(jit, "any")


def _in_a_process(code: str) -> list[int]:
    """The process ids that a script prints which has built once."""
    script = (
        f"import os, sys, threading\nsys.path.append({STANDIN!r})\n"
        "from xtarget.targets._workers.jit import Jit\n"
        "jit = Jit('standin_builder')\n"
        "pid = int(jit.build('what', 'device', b'one', 'k').split()[0])\n"
        f"print(pid, flush=True)\n{code}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("how", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_no_child_stays_after_its_parent(how: str) -> None:
    for pid in _in_a_process(how):
        assert gone(pid)


@pytest.mark.parametrize("what", ["hang", "deaf hang"])
def test_no_child_stays_that_is_in_the_middle_of_a_build(what: str) -> None:
    # the build goes on in a thread; the parent is killed while it does
    code = f"""
import time
threading.Thread(target=jit.build, args=('what', 'device', {what!r}.encode(), 'k'),
                 daemon=True).start()
time.sleep(0.3)
os.kill(os.getpid(), 9)"""
    for pid in _in_a_process(code):
        assert gone(pid)


def test_a_forked_process_has_children_of_its_own() -> None:
    code = """
child = os.fork()
if child == 0:
    print(int(jit.build('what', 'device', b'two', 'k').split()[0]), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert int(jit.build('what', 'device', b'three', 'k').split()[0]) == pid"""
    first, second = _in_a_process(code)
    assert first != second
    assert gone(first)
    assert gone(second)


def test_a_child_without_work_ends_by_itself(
    jit: Jit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        Path(STANDIN, "standin_builder.py")
        .read_text()
        .replace(
            "    serve(open_device)",
            "    from xtarget.targets._workers import jit_process\n    jit_process._IDLE = 0.2\n"
            "    serve(open_device)",
        )
    )
    (tmp_path / "brief_builder.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert jit_process._IDLE > 10
    brief = Jit("brief_builder")
    pid, _ = build(brief, "one")
    assert gone(pid)
    assert build(brief, "two")[1] == "two"
    brief.close()


def test_a_build_that_a_signal_handler_makes_waits_for_no_turn_of_its_own_thread(jit: Jit) -> None:
    """However many there are at one time: the handlers' builds end first."""
    made: list[tuple[int, str]] = []
    depth = _jit._CHILDREN + 1

    def handler(*_: object) -> None:
        if len(handlers) < depth:
            handlers.append(None)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            made.append(build(jit, "slow"))

    handlers: list[None] = []
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        made.append(build(jit, "slow"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(made) == depth + 1
    assert jit._free.qsize() == _jit._CHILDREN


def test_an_exception_of_a_handler_gives_the_turn_back(jit: Jit) -> None:
    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            build(jit, "slow")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert jit._free.qsize() == _jit._CHILDREN
    assert build(jit, "one")[1] == "one"
