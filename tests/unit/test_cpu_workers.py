"""Threads that a run time binds to one CPU each are freed; nobody else's are touched."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from xtarget.targets.cpu.workers import Workers

ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="on one CPU every thread is bound to it")


class Bound:
    """A thread that binds itself to one CPU, as a worker does."""

    def __init__(self) -> None:
        self._end, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    def _work(self) -> None:
        os.sched_setaffinity(0, {max(ALL)})
        self.id = threading.get_native_id()
        self._ready.set()
        self._end.wait()

    @property
    def cpus(self) -> set[int]:
        return os.sched_getaffinity(self.id)

    def close(self) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture
def bound() -> Iterator[type[Bound]]:
    made: list[Bound] = []

    class Kept(Bound):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    yield Kept
    for thread in made:
        thread.close()


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


@pytest.mark.parametrize("variable", ["SYCL_CPU_CU_AFFINITY", "DPCPP_CPU_CU_AFFINITY"])
def test_a_user_who_binds_the_workers_is_obeyed(
    variable: str, bound: type[Bound], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "close")
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
