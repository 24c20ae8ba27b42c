"""`xtarget serve`: compile for other processes and machines."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._values.errors import ArgumentError
from .base import Command, FunctionT, echo, json_option

if TYPE_CHECKING:
    from .._serve.listen import CompileServer

__all__ = ["serve"]

#: Between looks at how long nothing was asked, in seconds.
_LOOK = 1.0
#: The signals that stop it.
_ENDS = (signal.SIGTERM, signal.SIGINT)
#: They would send what is asked here elsewhere, or make it otherwise than it was asked for.
_NOT_HERE = ("XTARGET_COMPILE_SERVER", "XTARGET_ROUTES")


def _limit(
    name: str, kind: click.IntRange | click.FloatRange, default: float, help: str
) -> Callable[[FunctionT], FunctionT]:
    """An option that is a number within bounds and shows its default."""
    return click.option(name, type=kind, default=default, show_default=True, help=help)


@click.command(
    cls=Command,
    examples=(
        "xtarget serve --listen unix:/run/user/1000/xtarget.sock",
        "xtarget serve --listen 0.0.0.0:8787 --token tokens --tls-cert cert.pem --tls-key key.pem",
    ),
)
@click.option(
    "--listen", required=True, metavar="ADDRESS", help="unix:/PATH, or host:port (0: a free one)."
)
@click.option(
    "--token",
    "tokens",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of those who may ask: a token a line, or a name and a token.",
)
@click.option(
    "--tls-cert", "certificate", type=click.Path(dir_okay=False, path_type=Path), help="PEM file."
)
@click.option("--tls-key", "key", type=click.Path(dir_okay=False, path_type=Path), help="PEM file.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    help="Compilations at the same time. Default: one for each processor.",
)
@_limit("--waiting", click.IntRange(0, 10_000), 256, "Requests that may wait for their turn.")
@click.option(
    "--per-minute", type=click.IntRange(1, 100_000), help="Compilations of one client in a minute."
)
@_limit(
    "--stop-seconds",
    click.FloatRange(0, 3600),
    30.0,
    "When stopped, for compilations that are in work.",
)
@click.option(
    "--idle", type=click.FloatRange(1), metavar="SECONDS", help="End when nobody asks for so long."
)
@json_option
def serve(
    listen: str,
    tokens: Path | None,
    certificate: Path | None,
    key: Path | None,
    jobs: int | None,
    waiting: int,
    per_minute: int | None,
    stop_seconds: float,
    idle: float | None,
    as_json: bool,
) -> None:
    """Compile for processes that name this server in XTARGET_COMPILE_SERVER.

    They need no Triton. What is made is kept and signed as this machine's cache settings say, and
    each kernel is compiled once, whoever asks. Who may ask can run code here: a kernel's files are
    imported. SIGTERM or an interrupt lets it end what is in work.
    """
    from .._compile.limited import end_idle
    from .._serve.listen import opened
    from .._serve.work import Limits, Work

    for name in _NOT_HERE:
        if os.environ.get(name, "").strip():
            raise ArgumentError(f"{name} is set, which a compile server does not take. Unset it.")
    count = jobs or len(os.sched_getaffinity(0))
    work = Work(Limits(count, waiting, per_minute))
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # in all threads; `_wait` takes them
    with opened(listen, work, tokens, certificate, key) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        facts = {"address": server.shown, "process": os.getpid(), "jobs": count}
        said = (
            f"listening at {server.shown} (process {os.getpid()}, {count} compilations at a time)"
        )
        echo(json.dumps(facts) if as_json else said)
        _wait(server, idle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)  # a second one ends it at once
        server.shutdown()
        whole = server.drain(stop_seconds)
    end_idle()
    counts = work.counts
    echo(
        f"stopped after {counts['units']} requests: {counts['compiled']} compiled, "
        f"{counts['there']} were there{'' if whole else '; what was in work is given up'}.",
        err=as_json,
    )


def _wait(server: CompileServer, idle: float | None) -> None:
    while signal.sigtimedwait(_ENDS, _LOOK) is None:
        if idle is not None and server.idle_seconds > idle:
            return
