"""The one way in which this package starts a Python process.

A child finds what its parent finds, and runs no code of the folder that the caller happens to be
in: a `json.py` or `typing.py` there, or a package of such a name among the installed ones, must not
become the child's. So Python starts with `-P` and without `PYTHONPATH`; then `begin` gives it the
parent's search path with the standard library in front and the caller's folders left out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO

from .._system.package import FOLDER

__all__ = [
    "NoChildError",
    "begin",
    "environment",
    "ignores_ends",
    "kill",
    "python",
    "search_path",
    "start",
]

#: Variables that tell the interpreter what the user wants of his own program, not of ours.
_NOT_FOR_CHILDREN = frozenset(
    (
        "PYTHONPATH",
        "PYTHONINSPECT",
        "PYTHONSTARTUP",
        "PYTHONVERBOSE",
        "PYTHONWARNINGS",
        "XTARGET_TRACE",  # the parent's file
    )
)
#: What the child runs first. The path comes before the first import that is not built in.
_BEGIN = """\
import sys
path = {path!r}
sys.path[:] = path + [p for p in sys.path if p not in path]
from xtarget._children.start import begin
begin({module!r})
"""
#: Where the program was started, as far as that is known.
try:
    _started_in = os.getcwd()
except OSError:
    _started_in = ""


class NoChildError(Exception):
    """No child can be started. The text is a sentence."""


def start(
    module: str,
    *arguments: str,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start `python -m module arguments`, in a session of its own: an interrupt from the terminal
    is the parent's to handle.

    Raises:
        NoChildError: it cannot be started.
    """
    if not sys.executable:
        raise NoChildError(
            "This Python does not know its own executable (sys.executable is empty), which a "
            "child process is started with. Set sys.executable."
        )
    try:
        return subprocess.Popen(
            python(module, *arguments),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        do = "Free memory or processes, and try again."
        if isinstance(error, (PermissionError, FileNotFoundError)):
            do = f"The user of this process must be able to execute {sys.executable}."
        raise NoChildError(
            f"The child process {sys.executable} -m {module} cannot be started ({error}). {do}"
        ) from error


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a child of `start`, and the processes that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module in a child; its environment is `environment`."""
    flags = sys.flags
    given = [
        option
        for option, there in (
            ("-I", flags.isolated),
            ("-E", flags.ignore_environment),
            ("-s", flags.no_user_site),
            ("-S", flags.no_site),
            ("-B", flags.dont_write_bytecode),
        )
        if there
    ]
    begin_with = _BEGIN.format(path=search_path(), module=module)
    return [sys.executable, "-P", *given, "-c", begin_with, *arguments]


def environment() -> dict[str, str]:
    """The environment of a child."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_FOR_CHILDREN}


def begin(module: str) -> None:
    """In the child: restore the signals that it inherited from its parent, then run the module."""
    # LLVM's worker has to see the ends of its own children, and limits end a child by their signals
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    import runpy

    from .._values.environment import check_names

    check_names(warn=False)  # the parent does
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def search_path() -> list[str]:
    """The search path of a child: absolute, the standard library first, else in this process's
    order.

    Left out are the folders that Python itself put there, the current one and the program's. One
    of them stays if xtarget is installed in it, or packages are, or `PYTHONPATH` names it.
    """
    own = _real(os.path.dirname(FOLDER))
    named = {_real(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    if sys.flags.ignore_environment:
        named = set()
    callers = _callers_folders() - named - _package_folders() - {own}
    library: list[str] = []
    others: list[str] = []
    for entry in sys.path:
        if not isinstance(entry, str) or not entry:
            continue
        real = _real(entry)
        absolute = os.path.abspath(entry)
        if real in callers or absolute in library or absolute in others:
            continue
        (library if _is_standard_library(absolute) else others).append(absolute)
    if own not in map(_real, others):  # an import hook found us
        others.append(own)
    return library + others


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the current folder is gone
        return path


def _callers_folders() -> set[str]:
    """The current folder, the one that the program was started in, and the program's own."""
    found = {_real(_started_in)} if _started_in else set()
    with contextlib.suppress(OSError):  # it is gone
        found.add(_real(os.getcwd()))
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if isinstance(program, str):
        found.add(os.path.dirname(_real(program)))
    return found


def _package_folders() -> set[str]:
    """Return the folders in which `site` looks for packages."""
    site = sys.modules.get("site")
    if site is None:  # python -S
        return set()
    found = [*site.getsitepackages()] if hasattr(site, "getsitepackages") else []
    user = getattr(site, "USER_SITE", None)
    return {_real(p) for p in (*found, user) if p}


def _is_standard_library(path: str) -> bool:
    home = os.path.dirname(os.path.abspath(os.__file__))
    return (
        path in (home, os.path.join(home, "lib-dynload"))
        or os.path.basename(path) == f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    )


def ignores_ends() -> bool:
    """Check whether this process ignores SIGCHLD (`trap '' CHLD`).

    If so, the exit status of a child is unknown, and `subprocess` reports 0.
    """
    return signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
