"""Threads of a run time may run on every CPU but the one that their caller waits on; nobody else's
are touched."""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from threads import in_threads

from xtarget.targets.cpu.workers import Workers

ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="on one CPU every thread is bound to it")


class Worker:
    """A thread that runs on `CPUS` and that Python does not know of, as a worker is."""

    CPUS = ALL

    def __init__(self) -> None:
        self._end, self._ready = threading.Event(), threading.Event()
        _thread.start_new_thread(self._work, ())
        assert self._ready.wait(30)

    def _work(self) -> None:
        os.sched_setaffinity(0, self.CPUS)
        self.id = threading.get_native_id()
        self._ready.set()
        self._end.wait()

    @property
    def cpus(self) -> set[int]:
        return os.sched_getaffinity(self.id)

    def close(self) -> None:
        """End the thread and wait until the system knows it no more."""
        self._end.set()
        deadline = time.monotonic() + 30
        while Path(f"/proc/self/task/{self.id}").exists() and time.monotonic() < deadline:
            time.sleep(0.001)


class Bound(Worker):
    """A thread that binds itself to one CPU, as a worker does."""

    CPUS = {max(ALL)}  # noqa: RUF012


_Thread = TypeVar("_Thread", bound=Worker)


@contextmanager
def ended(kind: type[_Thread]) -> Iterator[type[_Thread]]:
    """The kind, whose threads are ended at the end."""
    made: list[Worker] = []

    class Kept(kind):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    yield Kept
    for thread in made:
        thread.close()


@pytest.fixture
def bound() -> Iterator[type[Bound]]:
    with ended(Bound) as kind:
        yield kind


@pytest.fixture
def worker() -> Iterator[type[Worker]]:
    with ended(Worker) as kind:
        yield kind


def on_cpu(workers: Workers, cpu: int) -> None:
    """Let `workers` take the calling thread for one that runs on `cpu`."""
    workers._cpu = lambda: cpu


def test_a_worker_bound_to_one_cpu_may_run_on_all(bound: type[Bound]) -> None:
    workers = Workers()
    worker = bound()
    workers.look()
    assert worker.cpus == ALL


def test_a_worker_that_starts_with_later_work_is_found(bound: type[Bound]) -> None:
    workers = Workers()
    for _ in range(3):
        workers.look()
    worker = bound()
    workers.look()
    assert worker.cpus == ALL


def test_threads_from_before_the_run_time_stay_where_their_owner_put_them(
    bound: type[Bound],
) -> None:
    owned = bound()
    Workers().look()
    assert len(owned.cpus) == 1


def test_threads_that_come_long_after_the_run_times_are_somebody_elses(
    bound: type[Bound],
) -> None:
    workers = Workers()
    for _ in range(8):
        workers.look()
    owned = bound()
    workers.look()
    assert len(owned.cpus) == 1


@pytest.fixture(params=["SYCL_CPU_CU_AFFINITY", "DPCPP_CPU_CU_AFFINITY"])
def bound_by_user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(request.param, "close")


@pytest.mark.usefixtures("bound_by_user")
def test_a_user_who_binds_the_workers_is_obeyed(bound: type[Bound]) -> None:
    workers = Workers()
    worker = bound()
    workers.look()
    assert len(worker.cpus) == 1


def test_a_thread_that_ends_meanwhile_is_no_error(bound: type[Bound]) -> None:
    workers = Workers()
    worker = bound()
    looks = workers._threads

    def gone() -> set[int]:
        found = looks()
        worker.close()
        return found

    workers._threads = gone  # type: ignore[method-assign]
    workers.look()


# ------------------------------------------------------------------ out of the caller's way

few = pytest.mark.skipif(len(ALL) > 8, reason="workers make way on machines of few CPUs")


@few
def test_the_c_library_says_on_which_cpu_the_caller_runs() -> None:
    workers = Workers()
    assert workers._cpu is not None
    assert workers._cpu() in ALL


@few
@pytest.mark.parametrize("kind", ["bound", "worker"])
def test_workers_stay_off_the_cpu_of_a_caller_that_waits(
    kind: str, request: pytest.FixtureRequest
) -> None:
    workers = Workers()
    one = request.getfixturevalue(kind)()
    workers.look()
    assert one.cpus == ALL
    for cpu in (min(ALL), max(ALL), max(ALL), min(ALL)):
        on_cpu(workers, cpu)
        workers.make_way()
        assert one.cpus == ALL - {cpu}
        workers.look()
        assert one.cpus == ALL - {cpu}


@few
def test_a_worker_that_starts_with_the_first_work_makes_way(worker: type[Worker]) -> None:
    workers = Workers()
    workers.look()
    on_cpu(workers, min(ALL))
    workers.make_way()
    one = worker()
    workers.look()
    workers.make_way()
    assert one.cpus == ALL - {min(ALL)}


@few
def test_threads_that_users_start_between_calls_are_left_alone(worker: type[Worker]) -> None:
    before = worker()
    workers = Workers()
    workers.look()
    for cpu in (min(ALL), max(ALL), min(ALL)):
        between = worker()
        on_cpu(workers, cpu)
        workers.make_way()
        workers.look()
        workers.make_way()
        assert between.cpus == ALL
    assert before.cpus == ALL


@few
def test_a_worker_that_has_ended_makes_way_without_an_error(worker: type[Worker]) -> None:
    workers = Workers()
    one, other = worker(), worker()
    workers.look()
    one.close()
    on_cpu(workers, min(ALL))
    workers.make_way()
    assert other.cpus == ALL - {min(ALL)}


@pytest.mark.usefixtures("bound_by_user")
def test_workers_of_a_user_who_binds_them_do_not_move(worker: type[Worker]) -> None:
    workers = Workers()
    one = worker()
    workers.look()
    workers.make_way()
    assert one.cpus == ALL


@few
@pytest.mark.parametrize("cpus", [ALL, {max(ALL)}], ids=["free", "pinned"])
def test_a_thread_of_the_users_program_runs_where_it_wants(cpus: set[int]) -> None:
    """Whenever it starts, also in the middle of making the context or of a wait."""
    workers = Workers()
    end, started = threading.Event(), []

    def start() -> None:
        ready = threading.Event()

        def work() -> None:
            os.sched_setaffinity(0, cpus)
            ready.set()
            end.wait()

        started.append(threading.Thread(target=work))
        started[-1].start()
        assert ready.wait(30)

    try:
        for cpu in (max(ALL), min(ALL), max(ALL), min(ALL)):
            start()
            workers.look()
            on_cpu(workers, cpu)
            workers.make_way()
            start()
        for thread in started:
            assert thread.native_id is not None
            assert os.sched_getaffinity(thread.native_id) == cpus
    finally:
        end.set()
        for thread in started:
            thread.join()


@few
def test_threads_that_wait_at_once_do_not_disturb_each_other(worker: type[Worker]) -> None:
    workers = Workers()
    some = [worker() for _ in range(4)]
    failed: list[BaseException] = []

    def wait(_: int) -> None:
        try:
            for cpu in (min(ALL), max(ALL)) * 50:
                on_cpu(workers, cpu)
                workers.make_way()
                workers.look()
        except BaseException as error:
            failed.append(error)

    in_threads(wait, range(4))
    assert not failed
    assert workers._looks_left == 0
    on_cpu(workers, min(ALL))
    workers._avoided = None
    workers.make_way()
    assert all(one.cpus == ALL - {min(ALL)} for one in some)
