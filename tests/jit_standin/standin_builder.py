"""A child of `targets._jit` whose builds do what the "SPIR-V" says; needs no run time."""

from __future__ import annotations

import os
import signal
import sys
import time

from xtarget._values.errors import LoadError, NoDeviceError
from xtarget.targets._workers.jit_process import Build, serve


def open_device(key: str) -> Build:
    if key != "device":
        raise NoDeviceError(f"there is no {key}.")
    return build


def build(spirv: bytes, entry: str, options: str) -> bytes:
    what = spirv.decode()
    if what == "hang":
        time.sleep(1000)
    elif what == "deaf hang":  # a library's call that no signal handler of Python's gets through
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGALRM})
        while True:
            os.getpid()
    elif what == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "hang in a crash":  # LLVM sets an alarm when it crashes
        signal.alarm(1)
        time.sleep(1000)
    elif what == "exit":
        os._exit(14)
    elif what == "memory":
        return bytes(1 << 33)
    elif what == "refuse":
        raise LoadError(f"building {entry} failed: the log.")
    elif what == "wrong":
        raise RuntimeError("unforeseen")
    elif what == "print":
        os.write(1, b"noise of a library")
    elif what == "stand still":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "crash once damaged" and os.environ.get("DAMAGED"):
        os._exit(1)
    elif what == "slow":
        time.sleep(1)
    elif what == "damage":
        os.environ["DAMAGED"] = "1"
    return f"{os.getpid()} {what}".encode()


if __name__ == "__main__":
    serve(open_device)
