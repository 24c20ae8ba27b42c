"""A fork while another thread imports: the child can import the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes import run_python

SLOW = """
import threading, time
began.set()
time.sleep(0.5)
value = 5
"""
FORK = """
import builtins, importlib, os, signal, sys, threading
import xtarget
began = builtins.began = threading.Event()
sys.path.insert(0, sys.argv[1])
thread = threading.Thread(target=importlib.import_module, args=(sys.argv[2],))
thread.start()
began.wait()
child = os.fork()
if not child:
    signal.alarm(60)  # ends it, where it hangs
    assert importlib.import_module(sys.argv[2]).value == 5
    os._exit(0)
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("name", ["slow_module", "slow_package.inner"])
def test_the_child_imports_what_another_thread_was_importing(name: str, tmp_path: Path) -> None:
    file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(exist_ok=True)
    file.write_text(SLOW)
    done = run_python("-W", "ignore", "-c", FORK, str(tmp_path), name)
    assert done.returncode == 0, done.stderr
