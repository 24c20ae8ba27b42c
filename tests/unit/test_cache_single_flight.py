"""One compilation for each key, across threads and processes, whatever happens to the owner."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from xtarget import Artifact, FrozenError, Target, XTargetError, _cache
from xtarget._cache import counters, lock, store
from xtarget._cache.stats import CacheStats, cache_stats
from xtarget._compile import functions, single_flight
from xtarget._devices import registry
from xtarget._system import files
from xtarget._values.types import CompileRequest, KernelSource, Parameter

TARGET = Target("nvidia", "sm_90")
ROOT = Path(__file__).resolve().parents[2]


def request(n: int = 0) -> CompileRequest:
    source = KernelSource("add", "0" * 64, "", lambda: None)
    return CompileRequest(source, (("x", "*fp32"), ("N", "constexpr")), (("N", n),), ("x",))


class Compiler:
    """Takes a moment, and remembers what it compiled."""

    fingerprint = "made up"

    def __init__(self) -> None:
        self.compiled: list[int] = []
        self.error: Exception | None = None

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        n = dict(request.constants)["N"]
        assert isinstance(n, int)
        self.compiled.append(n)
        time.sleep(0.02)
        if self.error is not None:
            raise self.error
        parameters = (Parameter("x", "*fp32"),)
        return Artifact(target, "cubin", "add", bytes([n]) * 100, 4, 32, 0, parameters)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(registry, "compiler", lambda vendor: made)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    return made


def changes(before: CacheStats) -> dict[str, Any]:
    """The counters that moved since."""
    after = cache_stats()
    moved = {
        name: getattr(after, name) - getattr(before, name)
        for name in before.__dataclass_fields__
        if name != "misses" and getattr(after, name) != getattr(before, name)
    }
    causes = {c: n - before.misses.get(c, 0) for c, n in after.misses.items()}
    return {**moved, "misses": {c: n for c, n in causes.items() if n}}


# ------------------------------------------------------------------------------------- counting


def test_hits_misses_and_seconds_are_counted(compiler: Compiler) -> None:
    before = cache_stats()
    functions.artifact(request(), TARGET)
    moved = changes(before)
    assert (moved["compiles"], moved["writes"], moved["misses"]) == (1, 1, {"absent": 1})
    assert moved["compile_seconds"] >= 0.02
    before = cache_stats()
    functions.artifact(request(), TARGET)
    moved = changes(before)
    assert moved.pop("compile_seconds_saved") >= 0.015
    assert moved == {"hits": 1, "misses": {}}


def test_a_damaged_entry_is_counted_as_such(compiler: Compiler, tmp_path: Path) -> None:
    functions.artifact(request(), TARGET)
    (path,) = tmp_path.rglob("*.cubin")
    path.write_bytes(b"")
    before = cache_stats()
    functions.artifact(request(), TARGET)
    moved = changes(before)
    assert moved["misses"] == {"damaged": 1}
    assert moved["quarantines"] == 1
    assert compiler.compiled == [0, 0]


# --------------------------------------------------------------------------------------- threads


def test_threads_that_want_the_same_kernel_compile_it_once(compiler: Compiler) -> None:
    results: list[Artifact] = []
    threads = [
        threading.Thread(
            target=lambda n=n: results.append(functions.artifact(request(n % 3), TARGET))
        )
        for n in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 24
    assert sorted(compiler.compiled) == [0, 1, 2]
    assert not single_flight._locks, "locks of what is done are not kept"


def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have(
    compiler: Compiler, tmp_path: Path
) -> None:
    functions.artifact(request(), TARGET)
    with counters._lock, store._said_lock, _cache.default_cache().own.usage._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            store.warn("said in a child")
            functions.artifact(request(0), TARGET)
            functions.artifact(request(1), TARGET)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_compile_that_fails_leaves_no_lock(compiler: Compiler, tmp_path: Path) -> None:
    compiler.error = ValueError("no")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            functions.artifact(request(), TARGET)
    assert not list(tmp_path.rglob("*.lock"))
    compiler.error = None
    assert functions.artifact(request(), TARGET).binary == bytes(100)


# ------------------------------------------------------------------------------------- processes

OWNER = """
import contextlib, sys, time
from pathlib import Path
from xtarget._cache import lock
with lock.hold(Path(sys.argv[1]), 60, lambda: False):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_a_lock_ends_with_its_owner(tmp_path: Path) -> None:
    path, before = tmp_path / "x.lock", cache_stats()
    with owner(path) as process:
        with lock.try_hold(path) as held:
            assert not held
        process.kill()
        process.wait(10)
        with lock.hold(path, 60, lambda: False):
            assert "takeovers" not in changes(before), "it waited to the end of its patience"


def test_a_lock_whose_owner_stalls_is_taken_over(tmp_path: Path) -> None:
    path, before = tmp_path / "x.lock", cache_stats()
    with owner(path) as process:
        process.send_signal(signal.SIGSTOP)
        with lock.hold(path, 0.5, lambda: False):
            assert changes(before) == {"waits": 1, "takeovers": 1, "misses": {}}
            with lock.try_hold(path) as held:
                assert not held, "the new owner's lock counts"
        assert not path.exists()
        process.send_signal(signal.SIGCONT)


def test_an_owner_that_was_overtaken_does_not_free_the_new_owners_lock(tmp_path: Path) -> None:
    path, overtaken = tmp_path / "x.lock", ExitStack()
    overtaken.enter_context(lock.hold(path, 60, lambda: False))
    path.unlink()  # as somebody who takes over does
    with lock.try_hold(path) as held:
        assert held
        overtaken.close()
        assert path.exists()
        with lock.try_hold(path) as again:
            assert not again


def test_who_waits_goes_on_when_the_entry_is_there(tmp_path: Path) -> None:
    path, done, before = tmp_path / "x.lock", threading.Event(), cache_stats()
    with owner(path):
        threading.Timer(0.3, done.set).start()
        with lock.hold(path, 60, done.is_set):
            assert done.is_set()
    assert "takeovers" not in changes(before), "it waited to the end of its patience"


def test_a_locks_file_is_removed_and_waiters_still_exclude_each_other(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "x.lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with lock.hold(path, 60, lambda: False):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]
    assert not path.exists()


# ------------------------------------------------------------------ file systems that misbehave


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EBUSY])
def test_a_file_system_that_asks_for_patience_gets_it(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real, failures = os.replace, [2]

    def replace(*args: Any) -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError(code, os.strerror(code))
        real(*args)

    monkeypatch.setattr(os, "replace", replace)
    functions.artifact(request(), TARGET)
    monkeypatch.undo()
    assert failures == [0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.ESTALE])
@pytest.mark.parametrize("call", ["replace", "open", "mkdir", "fsync"])
def test_whatever_a_write_answers_the_kernel_is_there(
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    call: str,
    code: int,
) -> None:
    real = getattr(os, call)

    def fails(*args: Any, **named: Any) -> Any:
        below = call == "fsync" or str(args[0]).startswith(str(tmp_path / "cache"))
        writes = call != "open" or (len(args) > 1 and args[1] & os.O_CREAT)
        if below and writes:
            raise OSError(code, os.strerror(code))
        return real(*args, **named)

    monkeypatch.setattr(files, "_PAUSES", (0.0,))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fails)
        assert functions.artifact(request(), TARGET).binary == bytes(100)
    assert functions.artifact(request(), TARGET).binary == bytes(100)
    assert not list(tmp_path.rglob("*.json.*")), "no temporary files stay"


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_whatever_a_read_answers_the_kernel_is_there(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    functions.artifact(request(), TARGET)
    real = os.open

    def fails(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if str(path).endswith(".cubin"):
            raise OSError(code, os.strerror(code))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(files, "_PAUSES", (0.0,))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        assert functions.artifact(request(), TARGET).binary == bytes(100)


def test_a_folder_that_vanishes_is_made_again(compiler: Compiler, tmp_path: Path) -> None:
    import shutil

    for n in range(3):
        assert functions.artifact(request(n), TARGET).binary == bytes([n]) * 100
        shutil.rmtree(tmp_path / "cache")
    functions.artifact(request(), TARGET)
    functions.artifact(request(), TARGET)
    assert compiler.compiled == [0, 1, 2, 0]


class Loading:
    """A device whose run time compiles what is loaded."""

    def __init__(self) -> None:
        self.told = 0

    def expect_load(self) -> None:
        self.told += 1


def test_a_device_is_told_of_what_is_compiled_for_it(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = Loading()
    for _ in range(2):
        functions.artifact(request(1), TARGET, device=device)
    assert device.told == 1
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    with pytest.raises(FrozenError):
        functions.artifact(request(2), TARGET, device=device)
    assert device.told == 1


# ---------------------------------------------------------------------------------------- frozen


def test_a_frozen_process_names_what_is_missing(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions.artifact(request(1), TARGET)
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    assert functions.artifact(request(1), TARGET).binary == b"\1" * 100
    with pytest.raises(FrozenError, match=r"kernel add for nvidia:sm_90 .*x: \*fp32, N=2.*x, num_"):
        functions.artifact(request(2), TARGET)
    with pytest.raises(FrozenError):
        functions.artifact(request(1), TARGET, keep_stages=True)
    assert compiler.compiled == [1]


def test_a_compilation_can_be_warned_of(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XTARGET_COMPILE", "warn")
    functions.artifact(request(2), TARGET)
    assert "N=2" in caplog.text
    caplog.clear()
    functions.artifact(request(2), TARGET)
    assert not caplog.text


def test_a_mode_that_means_nothing_is_said(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XTARGET_COMPILE", "never")
    with pytest.raises(XTargetError, match="XTARGET_COMPILE=never means nothing"):
        functions.artifact(request(), TARGET)


AT_THE_END = """
import atexit, sys
from pathlib import Path
from xtarget._cache import lock


class Finder:  # as newer versions of filelock do: they import what may not be imported then
    def find_spec(self, name, path, target=None):
        if name == "filelock":
            import concurrent.futures.thread


def late():
    sys.meta_path.insert(0, Finder())
    with lock.hold(Path(sys.argv[1]), 1.0, lambda: False):
        print("held")


atexit.register(late)
"""


def test_a_lock_in_the_last_moments_of_a_process(tmp_path: Path) -> None:
    """filelock begins with a pool of threads, which Python does not allow there."""
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END, str(tmp_path / "a.lock")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("held\n", "")
