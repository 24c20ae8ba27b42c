"""Torture of the cache: many processes make the same kernels while some are killed.

    python benchmarks/torture_cache.py [--processes 32] [--kernels 200] [--rounds 10]

Each round starts with an empty cache. Every process asks for every kernel, in an order of its own;
compiling is made up (a few milliseconds and bytes that depend on the key), so that the cache is
what is tested. Meanwhile processes are killed with SIGKILL at random and replaced. Counted from a
log that every compilation writes before and after its work: wrong results, processes that hang, and
compilations of each key, which may be one, plus one for each kill of a process that was at it.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TARGET = "nvidia:sm_90"


def content(constant: int) -> bytes:
    """The binary that belongs to a kernel: 10 kB that nothing else has."""
    return hashlib.sha256(str(constant).encode()).digest() * 320


def work(kernels: int, log: Path, seed: int) -> None:
    """One process: ask for all kernels."""
    from xtarget import Artifact, Target
    from xtarget._compile import functions
    from xtarget._devices import registry
    from xtarget._values.types import CompileRequest, KernelSource, Parameter

    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, constant: int) -> None:
        os.write(out, f"{what} {constant} {os.getpid()}\n".encode())

    class Compiler:
        fingerprint = "made up"

        def compile(
            self, request: CompileRequest, target: Target, *, keep_stages: bool = False
        ) -> Artifact:
            constant = dict(request.constants)["N"]
            assert isinstance(constant, int)
            note("begin", constant)
            time.sleep(random.uniform(0, 0.01))
            note("end", constant)
            return Artifact(
                target=target,
                format="cubin",
                entry="add",
                binary=content(constant),
                num_warps=4,
                warp_size=32,
                shared_bytes=0,
                parameters=(Parameter("a", "*fp32"),),
                texts={"ptx": f"// {constant}\n"},
            )

    compiler: Any = Compiler()
    registry.compiler = lambda vendor: compiler  # type: ignore[assignment]  # a stand-in
    order = list(range(kernels))
    random.seed(seed)
    random.shuffle(order)
    source = KernelSource("add", "0" * 64, "", lambda: None)
    for constant in order:
        request = CompileRequest(source, (("N", "constexpr"),), (("N", constant),))
        made = functions.artifact(request, Target.parse(TARGET))
        if made.binary != content(constant) or made.texts != {"ptx": f"// {constant}\n"}:
            note("wrong", constant)


def compilations(log: Path, killed: set[int]) -> tuple[int, int, int, int]:
    """Wrong results; keys that were compiled; compilations; and those of them that a kill does not
    account for."""
    begun: collections.Counter[str] = collections.Counter()
    last: dict[int, str] = {}  # a process compiles one kernel at a time
    wrong = 0
    for line in log.read_text().splitlines():
        what, constant, pid = line.split()
        wrong += what == "wrong"
        if what == "begin":
            begun[constant] += 1
            last[int(pid)] = constant
    cut_short = collections.Counter(last[pid] for pid in killed if pid in last)
    extra = sum(max(0, times - 1 - cut_short[key]) for key, times in begun.items())
    return wrong, len(begun), sum(begun.values()), extra


def one_round(number: int, processes: int, kernels: int, limit: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        environment = {**os.environ, "XTARGET_CACHE_DIR": f"{folder}/cache"}
        chance = random.Random(number)
        started = 0

        def start() -> subprocess.Popen[bytes]:
            nonlocal started
            started += 1
            words = [__file__, "--work", str(log), "--kernels", str(kernels)]
            words += ["--seed", str(1000 * number + started)]
            return subprocess.Popen([sys.executable, *words], env=environment)

        running = [start() for _ in range(processes)]
        killed: set[int] = set()
        failed = 0
        begin = time.monotonic()
        next_kill = begin + 1
        while running and time.monotonic() - begin < limit:
            time.sleep(0.02)
            for process in list(running):
                if process.poll() is not None:
                    running.remove(process)
                    if process.returncode == -signal.SIGKILL:
                        killed.add(process.pid)
                        running.append(start())
                    else:
                        failed += process.returncode != 0
            if time.monotonic() > next_kill and len(killed) < processes and running:
                chance.choice(running).kill()
                next_kill = time.monotonic() + chance.uniform(0, 0.3)
        for process in running:
            process.kill()
            process.wait()
        wrong, keys, made, extra = compilations(log, killed)
        damaged = len(list(Path(folder).glob("cache/v1/.quarantine/*.json")))
        return {
            "seconds": round(time.monotonic() - begin, 1),
            "killed": len(killed),
            "wrong": wrong,
            "hangs": len(running),
            "crashes": failed,
            "keys": keys,
            "compilations": made,
            "unexplained": extra,
            "quarantined": damaged,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a round")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--work", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.kernels, options.work, options.seed)
        return
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(number, options.processes, options.kernels, options.limit))
        print(f"round {number}:", ", ".join(f"{k} {v}" for k, v in rounds[-1].items()), flush=True)
    total = {name: sum(r[name] for r in rounds) for name in rounds[0]}
    print("all:", ", ".join(f"{name} {value:g}" for name, value in total.items()))
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1))
    bad = ("wrong", "hangs", "crashes", "unexplained")
    sys.exit(any(total[name] for name in bad) or any(r["keys"] < options.kernels for r in rounds))


if __name__ == "__main__":
    main()
