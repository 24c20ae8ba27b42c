"""Environment variables: one table; no value and no name is ignored in silence."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
from pathlib import Path

import pytest
from processes import run_python

from xtarget import ArgumentError
from xtarget._values import environment as _env

ROOT = Path(__file__).parents[2]

WRONG = [
    *(("XTARGET_PROBE_SECONDS", v) for v in ("abc", "nan", "inf", "-1", "0", "1e300", "5 s")),
    *(("XTARGET_SPIRV_SECONDS", v) for v in ("soon", "NaN", "-inf", "0")),
    *(("XTARGET_JIT_SECONDS", v) for v in ("0", "never", "-0.5")),
    *(("XTARGET_CACHE_WAIT", v) for v in ("long", "-1", "nan")),
    *(("XTARGET_CACHE_REMOTE_SECONDS", v) for v in ("x", "0", "inf")),
    *(("XTARGET_CACHE_REMOTE", v) for v in ("foo", "host:6379", "./cache", "bucket/cache")),
    *(("XTARGET_HOST_MEMORY", v) for v in ("x", "-1", "1e3", "5Q", "nan")),
    *(("XTARGET_HOST_MEMORY", v) for v in ("1", "1000", "999999999T")),
    *(("XTARGET_BUILD_MEMORY", v) for v in ("plenty", "-5G", "0", "1", "8", "8192", "0.5M")),
    *(("XTARGET_BUILD_MEMORY", v) for v in ("nan", "1e400", "99999999T", "9" * 16)),
    *(("XTARGET_CACHE_SIZE", v) for v in ("big", "0", "2", "-1", "9" * 15 + "T")),
    *(("XTARGET_COMPILE_SECONDS", v) for v in ("0", "1e7", "none", "400001")),
    *(("XTARGET_CACHE_AUDIT", v) for v in ("nan", "-1", "2", "1e400")),
    *(("XTARGET_CACHE_SHARED", v) for v in ("maybe", "2", "-1")),
    ("XTARGET_CACHE_REMOTE_WRITE", "perhaps"),
    ("XTARGET_SPIRV_UNTESTED", "oui"),
    ("XTARGET_CACHE", "readwrit"),
    ("XTARGET_COMPILE", "eror"),
    *(
        ("XTARGET_COMPILE_SERVER", v)
        for v in ("host:80", "unix:here", "https://host", "http://h:80")
    ),
    ("XTARGET_CACHE_PATH", "/nofolder"),
    *((f"XTARGET_{n}", "~/x") for n in ("CACHE_DIR", "CACHE_PATH", "TRUST", "SIGN", "TRACE")),
    *((f"XTARGET_{n}", "/tmp:~/x") for n in ("BUNDLES", "KERNELS", "CACHE_PATH")),
    *(("XTARGET_MODULES", v) for v in ("0", "few", "100,", "5,7", "1G,100")),
    *(("XTARGET_EMULATOR_BUDGET", v) for v in ("x", "0", "-5", "1.5", "1e400", "_")),
    *(("XTARGET_EMULATOR_CHECK", v) for v in ("races", "race,bounds", ",", "Race")),
    *(("XTARGET_EMULATOR_PROCESSES", v) for v in ("0", "257", "two", "1.0")),
    ("XTARGET_EMULATOR_HIP", "libary"),
]
#: Of what is there or not, only the command line asks before it is used.
MISSING = ["XTARGET_TRUST", "XTARGET_SIGN", "XTARGET_BUNDLES", "XTARGET_KERNELS", "XTARGET_OCLOC"]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_means_nothing_is_a_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ArgumentError, match=re.escape(f"{name}={value} ")) as raised:
        _env._value(name)
    assert str(raised.value).endswith(".")
    assert [str(raised.value)] == _env.problems()


@pytest.mark.parametrize("name", MISSING)
def test_what_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/no/such/thing")
    (said,) = _env.problems()
    assert said.startswith(f"{name}=/no/such/thing names /no/such/thing, which is not a ")


@pytest.mark.parametrize("name", list(_env.VARIABLES))
@pytest.mark.parametrize("value", ["x" * 6000, "9" * 6000, "\x1b[31m", "1\n2", "-", ":", "~"])
def test_whatever_stands_there_ends_in_a_value_or_a_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    problems = _env.problems()
    for said in problems:
        assert said.startswith(f"{name}=")
        assert said.endswith(".")
        assert said.isprintable()
        assert len(said) < 400
    with contextlib.suppress(ArgumentError):
        _env._value(name)
        assert all("which is not a " in said for said in problems)  # what is asked later


@pytest.mark.parametrize("name", [n for n in _env.VARIABLES if n.endswith("_SECONDS")])
def test_the_longest_time_is_one_that_the_system_can_wait(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll takes less than 25 days, and limits are taken five times on the clock."""
    monkeypatch.setenv(name, "400000")
    source, sink = os.pipe()
    os.write(sink, b"x")
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        assert selector.select(5 * _env._value(name) + 10)
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize("name", list(_env.VARIABLES))
def test_an_empty_value_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    unset = _env._value(name)
    for nothing in ("", "  "):
        monkeypatch.setenv(name, nothing)
        assert _env._value(name) == unset


@pytest.mark.parametrize(
    ("name", "value", "means"),
    [
        ("XTARGET_CACHE_SHARED", "yes", True),
        ("XTARGET_CACHE_SHARED", "False", False),
        ("XTARGET_EMULATOR_BUDGET", "2e10", 20_000_000_000),
        ("XTARGET_EMULATOR_BUDGET", "1_000", 1000),
        ("XTARGET_EMULATOR_CHECK", " race, ", frozenset({"race"})),
        ("XTARGET_CACHE_WAIT", "0", 0.0),
        ("XTARGET_HOST_MEMORY", "none", None),
        ("XTARGET_MODULES", "100", (100, None)),
        ("XTARGET_MODULES", "100, 512MiB", (100, 512 << 20)),
        ("XTARGET_MODULES", "2G", (4096, 2 << 30)),
        ("XTARGET_CACHE_PATH", f"/tmp{os.pathsep}", (Path("/tmp"),)),
    ],
)
def test_values(name: str, value: str, means: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert _env._value(name) == means
    monkeypatch.delenv(name)
    assert _env._value(name) == _env.VARIABLES[name].unset


def test_the_functions_read_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wrong value reaches the caller of the function that is for it."""
    for name, value in dict(WRONG).items():
        monkeypatch.setenv(name, value)
    for function in (
        *(_env.probe_seconds, _env.spirv_seconds, _env.jit_seconds, _env.host_memory),
        *(_env.build_memory, _env.emulator_budget, _env.emulator_checks, _env.spirv_untested),
        *(_env.emulator_processes, _env.emulator_library, _env.cache_settings, _env.compile_mode),
    ):
        with pytest.raises(ArgumentError):
            function()


def test_a_folder_for_the_caches_mode_is_told_where_folders_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XTARGET_CACHE", "/some/folder")
    with pytest.raises(ArgumentError, match=r"a folder is given by XTARGET_CACHE_DIR\.$"):
        _env.cache_settings()


def test_no_variable_is_read_past_the_table() -> None:
    """Every name that stands in the sources is in the table, and is read there."""
    package = ROOT / "src" / "xtarget"
    for file in package.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert not re.search(r"environ[^\n]*XTARGET_", source) or file.name == "environment.py", (
            file
        )
        for name in re.findall(r"\bXTARGET_[A-Z_]*[A-Z]\b", source):
            known = name in _env.VARIABLES or name.startswith(_env._OTHERS)
            assert known, (file, name)


def test_unknown_names_are_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in list(os.environ):
        if name.startswith("XTARGET_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XTARGET_EMULATOR_CHECKS", "race")
    monkeypatch.setenv("XTARGET_QQQQQQQQQQQQQ", "1")
    monkeypatch.setenv("XTARGET_TEST_LONG", "1")
    monkeypatch.setattr(_env, "_names_checked", False)
    for _ in range(2):
        _env.emulator_checks()
    assert caplog.text.count("XTARGET_EMULATOR_CHECKS means nothing") == 1
    assert "Did you mean XTARGET_EMULATOR_CHECK?" in caplog.text
    assert caplog.text.count("XTARGET_QQQQQQQQQQQQQ means nothing") == 1
    assert "XTARGET_TEST_LONG" not in caplog.text


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "xtarget", *words, path=ROOT / "src", **environment)


@pytest.mark.parametrize(
    "words", [["devices"], ["kernels"], ["cache", "path"], ["bundle", "ls", "x"]]
)
def test_every_command_says_it_at_the_start(words: list[str]) -> None:
    done = command(*words, XTARGET_EMULATOR_CHECK="races", XTARGET_EMULATOR_BUGET="5")
    assert done.returncode == 1
    assert "XTARGET_EMULATOR_CHECK=races means nothing. Write race." in done.stderr
    done = command("cache", "path", XTARGET_EMULATOR_BUGET="5")
    assert "XTARGET_EMULATOR_BUGET means nothing" in done.stderr


def test_info_shows_what_is_wrong_and_help_helps() -> None:
    done = command("info", XTARGET_JIT_SECONDS="soon", XTARGET_JITT_SECONDS="5")
    assert done.returncode == 0
    assert "XTARGET_JIT_SECONDS=soon is not a time" in done.stdout
    assert "XTARGET_JITT_SECONDS is not a variable" in done.stdout
    assert command("--help", XTARGET_JIT_SECONDS="soon").returncode == 0


def test_import_never_raises() -> None:
    code = (
        "import xtarget, xtarget._values.environment, xtarget.targets._workers.jit, "
        "xtarget.targets._spirv.worker.client"
    )
    done = run_python("-c", code, path=ROOT / "src", **dict(WRONG), XTARGET_X="1")
    assert (done.returncode, done.stderr) == (0, "")
