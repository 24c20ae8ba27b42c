"""`XTARGET_LOG`: what is said on stderr, by level."""

from __future__ import annotations

from processes import run_python

PROGRAM = """
import numpy as np
import xtarget
x = np.ones(5, np.float32)
xtarget.run("relu", x)
xtarget.run("relu", x)
"""


def test_each_level_says_what_it_is_for(device: str) -> None:
    said = run_python("-c", PROGRAM, XTARGET_LOG="debug", XTARGET_DEVICE=device).stderr.splitlines()
    assert sum(line.startswith("xtarget: INFO: load relu, device ") for line in said) == 1
    calls = [line for line in said if line.startswith("xtarget: DEBUG: call relu(float32 1d) on ")]
    assert len(calls) == 2
    said = run_python("-c", PROGRAM, XTARGET_LOG="info", XTARGET_DEVICE=device).stderr
    assert "load relu" in said
    assert "DEBUG" not in said


def test_another_word_is_an_error() -> None:
    done = run_python("-c", PROGRAM, XTARGET_LOG="loud")
    assert "XTARGET_LOG=loud means nothing. Write error or warning or info or debug." in done.stderr


def test_the_programs_own_handlers_get_it() -> None:
    text = "import logging; logging.basicConfig(format='mine %(name)s'); import xtarget\n"
    text += "xtarget.run; logging.getLogger('xtarget').info('x')"
    assert run_python("-c", text, XTARGET_LOG="info").stderr == "mine xtarget\n"
