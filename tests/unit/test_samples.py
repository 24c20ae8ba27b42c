"""`@pytest.mark.sample`: which cases of a family the short form of the tests runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from processes import run_python
from samples import chosen

KERNELS, ARCHS = ("add", "sum", "sort", "dot", "scan"), ("gfx1100", "gfx942")
PAIRS = list(product(KERNELS, ARCHS))
IDS = ["-".join(pair) for pair in PAIRS]

FAMILY = """
import pytest

def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cpu:0", "nvidia:0", "emu:gfx942"])

@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [*range(9), pytest.param(9, marks=pytest.mark.long)])
def test_one(n): pass

@pytest.mark.sample(3, each=("n",))
@pytest.mark.parametrize("n", range(4))
@pytest.mark.parametrize("m", range(4))
def test_each(n, m): pass

@pytest.mark.sample(2)
@pytest.mark.parametrize("n", range(6))
def test_devices(n, device): pass
"""


@pytest.mark.parametrize("seed", ["0", "1", "day 7"])
def test_a_share_runs_and_each_value(seed: str) -> None:
    kept = chosen(IDS, PAIRS, 2, seed)
    assert len(PAIRS) // 2 <= len(kept) <= len(PAIRS) // 2 + 1  # what a value needs comes first
    assert {PAIRS[i][0] for i in kept} == set(KERNELS)
    assert {PAIRS[i][1] for i in kept} == set(ARCHS)
    assert kept == chosen(IDS, PAIRS, 2, seed)


def test_a_case_that_is_new_changes_no_other() -> None:
    kept = {IDS[i] for i in chosen(IDS, [()] * len(IDS), 2, "0")}
    more = [*IDS, "another"]
    again = {more[i] for i in chosen(more, [()] * len(more), 2, "0")}
    assert len(again ^ kept) == 1


def test_other_seeds_run_the_others() -> None:
    ran = [chosen(IDS, [()] * len(IDS), 5, str(seed)) for seed in range(60)]
    assert {len(kept) for kept in ran} == {2}
    assert frozenset().union(*ran) == set(range(len(IDS)))


CONFTEST = """
import pytest
from samples import mark_those_left_out

@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    given = yield
    mark_those_left_out(metafunc)
    return given
"""
MARKS = """
[pytest]
markers =
    long: it takes long
    sample: one of some
"""


def test_the_others_are_long(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(MARKS)
    (tmp_path / "test_family.py").write_text(FAMILY)
    options = ("--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")

    def names(*words: str, seed: str | None = None) -> list[str]:
        done = run_python("-m", "pytest", *options, *words, cwd=tmp_path, XTARGET_TEST_SEED=seed)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]

    short = names("-m", "not long")
    assert sum(name.startswith("test_one[") for name in short) == 3
    assert "test_one[9]" not in short
    each = [name for name in short if name.startswith("test_each[")]
    assert len(each) == 6
    assert {name[:-1].rpartition("-")[2] for name in each} == set("0123")
    runs = {
        device: {name.replace(device, "") for name in short if device in name}
        for device in ("cpu:0", "nvidia:0", "emu:gfx942")
    }
    assert runs["cpu:0"] == runs["emu:gfx942"]
    assert (len(runs["cpu:0"]), len(runs["nvidia:0"])) == (3, 6)
    assert len(names()) == 10 + 16 + 18
    assert names("-m", "not long", seed="0") == short
    assert names("-m", "not long", seed="1") != short
