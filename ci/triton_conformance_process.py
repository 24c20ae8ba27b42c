"""The processes that run Triton's tests for ci/triton_conformance.py, one case at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
#: A machine that does other work at the same time gets this many times the limit on the clock.
PATIENCE = 5
COLLECT_SECONDS = 600
POLL_SECONDS = 0.5


class LostError(Exception):
    """The worker died or had to be killed; the outcome of its case, and the cause.

    Attributes:
        cpu_seconds: of the case, as far as they were seen.
    """

    def __init__(self, outcome: str, cause: str, cpu_seconds: float = 0.0) -> None:
        super().__init__(cause)
        self.outcome = outcome
        self.cause = cause
        self.cpu_seconds = cpu_seconds


@contextlib.contextmanager
def environment(folder: Path, cache: Path) -> Iterator[dict[str, str]]:
    """The files that let a worker find this checkout as an installed back end of Triton."""
    door = folder / "door"
    info = door / "xtarget-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xtarget\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[triton.backends]\nspirv = xtarget_triton\n")
    given = os.environ.get("PYTHONPATH")
    paths = [str(door), str(ROOT / "src"), str(HERE), *([given] if given else [])]
    yield {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TRITON_DEFAULT_BACKEND": "spirv",
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "XTARGET_CACHE_DIR": str(cache / "xtarget"),
    }


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of all below it, the dead ones that were waited for too."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total, family = 0, [process]
    while family:
        member = family.pop()
        total += ticks.get(member, 0)
        family += [child for child, parent in parents.items() if parent == member]
    return total / os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that has collected one file and runs its cases on demand.

    Attributes:
        cases: ids of all that it collected.
    """

    def __init__(self, file: Path, tests: Path, folder: Path, env: dict[str, str]) -> None:
        take_orders, give_orders = os.pipe()
        take_answers, give_answers = os.pipe()
        self._orders, self._answers = give_orders, take_answers
        self._buffer = b""
        self._log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, closed by `close`
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", str(file), f"--rootdir={tests}"),
                *("-c", os.devnull, "--noconftest", "-p", "triton_conformance_worker"),
                *("-p", "no:cacheprovider", "-W", "ignore", "-q", f"--basetemp={folder / 'tmp'}"),
            ],
            cwd=folder,
            env={**env, "XTARGET_CONFORMANCE": f"{take_orders},{give_answers}"},
            pass_fds=(take_orders, give_answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(take_orders)
        os.close(give_answers)
        first = self._answer(COLLECT_SECONDS)
        if "uncollected" in first:
            self._end()
            raise LostError("crashed", f"cannot be collected: {first['uncollected']}")
        self.cases: list[str] = first["collected"]

    def run(self, case: str, limit: float) -> tuple[str, str]:
        """Outcome and cause of one case.

        Raises:
            LostError: the process is gone; a new worker has to go on.
        """
        with contextlib.suppress(BrokenPipeError):  # the answer that does not come says why
            os.write(self._orders, f"{case}\n".encode())
        answer = self._answer(limit)
        return answer["outcome"], answer["cause"]

    def cpu_seconds(self) -> float:
        """So far, with all its children."""
        return cpu_seconds(self._process.pid)

    def _answer(self, limit: float) -> dict[str, Any]:
        """The next line, within `limit` seconds of the processor and `PATIENCE` times as much on
        the clock: what else the machine does must not fail a case.
        """
        began, cpu = time.monotonic(), cpu_seconds(self._process.pid)
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], POLL_SECONDS)
            if ready:
                chunk = os.read(self._answers, 1 << 20)
                if not chunk:
                    raise LostError("crashed", self._end())
                self._buffer += chunk
                continue
            clock = time.monotonic() - began
            if clock <= limit:
                continue
            used = cpu_seconds(self._process.pid) - cpu
            if used > limit or clock > PATIENCE * limit:
                self._end()
                raise LostError(
                    "timed out", f"{used:.0f} s of the processor, {clock:.0f} s on the clock", used
                )
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> str:
        """Kill the worker and what it started; how it ended and its last words."""
        try:
            status: int | None = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            status = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        self.close()
        if status is None:
            how = "was killed"
        else:
            how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended: {status}"
        start = text.rfind("Fatal Python error")  # then the place comes first, and modules last
        return f"{how}: {text[start : start + 600] if start >= 0 else text[-400:]}"

    def close(self) -> None:
        for descriptor in (self._orders, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._orders = self._answers = -1
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):  # what it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._log.close()
