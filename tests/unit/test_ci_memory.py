"""How much memory CI's scripts may use: the machine's, or what a control group leaves of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import run_in_checkout

MACHINE = {"proc/meminfo": "MemTotal:       64000000 kB\nMemFree:        1 kB\n"}
MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "64000000"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, "64000000"),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{9 * MEGABYTE}\n"}, "9216"),
        (  # the group's own limit, and one of the group that it is part of
            {
                "proc/self/cgroup": "0::/jobs/one\n",
                "sys/fs/cgroup/jobs/memory.max": f"{5 * MEGABYTE}\n",
                "sys/fs/cgroup/jobs/one/memory.max": f"{7 * MEGABYTE}\n",
            },
            "5120",
        ),
        (  # version 1; the group's path is the host's, and there is no such folder
            {
                "proc/self/cgroup": "5:cpu:/host/one\n4:hugetlb,memory:/host/one\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * MEGABYTE}\n",
                "sys/fs/cgroup/cpu/memory.limit_in_bytes": "1\n",
            },
            "3072",
        ),
        (  # without a limit version 1 has a large number
            {
                "proc/self/cgroup": "4:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n",
            },
            "64000000",
        ),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in {**MACHINE, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = run_in_checkout(sys.executable, "ci/memory.py", str(tmp_path))
    assert (done.stdout.strip(), done.stderr) == (said, "")


def test_where_the_kernel_says_nothing_nothing_is_printed(tmp_path: Path) -> None:
    done = run_in_checkout(sys.executable, "ci/memory.py", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
