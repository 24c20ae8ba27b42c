"""One grammar for all commands: each is walked."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import COMMANDS, here, parsed

from xtarget._cli.base import Command

ROOT = Path(__file__).resolve().parents[2]
#: Commands whose whole output is for a program already, or a text.
_NO_JSON = {"ci matrix", "completion"}


def test_the_commands_of_a_group_are_its_own() -> None:
    assert len(COMMANDS) == len(set(COMMANDS.values()))
    assert {"devices", "run", "bench", "tune kernel", "show", "explain", "bundle build"} <= set(
        COMMANDS
    )
    assert "ci bench" not in COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_examples_that_parse(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    assert command.examples
    own = 0
    for example in command.examples:
        line = example.partition(" > ")[0].removeprefix('eval "$(').removesuffix(')"')
        words = shlex.split(line)
        while "=" in words[0]:
            words = words[1:]  # a variable
        if words[0] == "xtarget":
            own += parsed(words[1:]) is command
    assert own >= 1, f"no example of `xtarget {name}` calls it"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_its_exit_codes_are_and_takes_json(name: str, capsys: Any) -> None:
    code, out, err = here(capsys, *name.split(), "--help")
    assert (code, err) == (0, "")
    for word in ("Usage: xtarget", "Examples:", "Exit codes:", "0 done; 1 an error", "--debug"):
        assert word in out
    assert ("--json" in out) == (name not in _NO_JSON)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in _NO_JSON])
def test_an_error_with_json_is_json(name: str, capsys: Any) -> None:
    code, out, err = here(capsys, *name.split(), "--json", "--no-such-option")
    assert code == 2
    assert list(json.loads(out)) == ["error"]
    assert "no-such-option" in err


@pytest.mark.parametrize("words", [["devces"], ["bundle", "biuld"], ["cache", "cler"]])
def test_a_command_that_is_not_there_names_a_near_one(words: list[str], capsys: Any) -> None:
    code, _, err = here(capsys, *words)
    assert code == 2
    assert "Did you mean" in err


def test_plain_terminals() -> None:
    """60 columns, no colours, LANG=C and an encoding without our signs: whole lines, no error."""
    plain = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "60", "LC_ALL": "C",
        "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "HOME": os.environ["HOME"],
    }  # fmt: skip
    script = "; ".join(
        f"{sys.executable} -m xtarget {words} || exit 9"
        for words in ("--help", "bench --help", "devices", "kernels --category scan", "cache path")
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=plain
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    long = [line for line in done.stdout.splitlines() if len(line) > 60]
    # but for examples, which are copied, and paths, which have no place to break
    assert [
        line for line in long if not line.startswith("  xtarget ") and " " in line.strip()
    ] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capsys, "completion", shell)
    assert code == 0
    assert "_XTARGET_COMPLETE" in out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("xtarget be", "bench"),
        ("xtarget run layer_n", "layer_norm"),
        ("xtarget run a --ch", "--check"),
        ("xtarget bench layer_n", "layer_norm"),
        ("xtarget compile a --target h2", "h200"),
        ("xtarget bundle build --target cpu,amd:gfx94", "cpu,amd:gfx942"),
        ("xtarget run a --dtype bfl", "bfloat16"),
        ("xtarget bench a --against numpy,to", "numpy,torch"),
        ("xtarget verify --merge ./rep", None),
    ],
)
def test_what_is_completed(typed: str, offered: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from xtarget._cli.main import main; main()"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "_XTARGET_COMPLETE": "bash_complete",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
        },
    )
    wanted = "file,./rep" if offered is None else f"plain,{offered}"
    assert wanted in done.stdout.splitlines(), done.stderr
