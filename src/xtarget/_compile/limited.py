"""Compiling one kernel in a child process, under a limit of time that every stage obeys.

Triton's own passes take no limit, and nothing ends them in the process that they run in. No code is
sent: the child imports the kernel from where the parent did, and compares the digest of its text
and of the values that it reads.
"""

from __future__ import annotations

from .._children import start
from .._children.child import Child, ChildLostError, NoChildError
from .._children.frames import Frame, pack
from .._children.limits import Patience
from .._values.errors import CompileError
from .._values.types import Artifact, CompileRequest, Target
from .finding import where_found
from .workers import COMPILE_CHILD, artifact_of, question, said_last

__all__ = ["ask_child", "compile_in_child", "end_idle", "given_up"]

#: To start Python and import Triton.
_START_SECONDS = 60.0
#: Children without work, by the environment that they were started with.
_idle: list[tuple[dict[str, str], Child]] = []


def compile_in_child(
    request: CompileRequest,
    target: Target,
    seconds: float,
    toolchain: str,
    *,
    keep_stages: bool = False,
) -> Artifact:
    """The artifact, of a child that may work for so many seconds.

    Args:
        toolchain: the compiler's fingerprint here, which the child's has to be.

    Raises:
        CompileError: it does not compile, the time is up, the child died, or the kernel cannot be
            found by another process.
    """
    what = f"kernel {request.source.name} for {target}"
    where = {**where_found(request.source, what), "toolchain": toolchain}
    asked = pack(question(where, request, target, keep_stages=keep_stages))
    return artifact_of(target, *ask_child(what, asked, seconds))


def ask_child(what: str, asked: bytes, seconds: float, limit: float | None = None) -> Frame:
    """Send a request to a child (`compile_child`). Return its answer if it comes in time.

    Args:
        what: name of what is compiled, for messages.
        seconds: limit of processor time, and of time in which the child does nothing.
        limit: the limit that the message names, in seconds; `seconds` if None.

    Raises:
        CompileError: the child reported one, the time is up, or the child died.
    """
    environment = start.environment()
    child = _idle_child(environment)
    stages: list[str] = []
    try:
        _prepare(child)
        patience = Patience(seconds, child.start())
        frame = child.ask(asked, patience.over, on_note=lambda said: stages.append(said["stage"]))
    except NoChildError as error:
        raise CompileError(f"{what} is compiled in a child process. {error}") from error
    except ChildLostError as lost:
        if lost.late:
            raise given_up(what, limit or seconds, stages[-1] if stages else "") from None
        raise CompileError(
            f"{what}: the process that compiled it {lost}. It said last: {said_last(lost)}"
        ) from None
    _idle.append((environment, child))
    if "error" in frame[0]:
        raise CompileError(frame[0]["error"])
    return frame


def _prepare(child: Child) -> None:
    """Have the child import Triton, which is not part of the limit."""
    again = child.pid is not None
    request = pack({"import": "triton"})
    try:
        child.ask(request, Patience(_START_SECONDS, child.start()).over)
    except ChildLostError as lost:
        if lost.late or not again:
            raise
        # it went while it was idle
        child.ask(request, Patience(_START_SECONDS, child.start()).over)


def given_up(what: str, seconds: float, stage: str) -> CompileError:
    """The time is up.

    Args:
        stage: the last one that was complete.
    """
    doing = f"after its stage {stage!r}" if stage else "before its first stage"
    return CompileError(
        f"{what} was given up: compiling it takes more than {seconds:g} s of processor time; "
        f"it was in what Triton does {doing}. Make the kernel's blocks or its loops smaller "
        "(tl.static_range and large constants unroll), or give it more time with "
        "XTARGET_COMPILE_SECONDS."
    )


def _idle_child(environment: dict[str, str]) -> Child:
    """A child that has this environment."""
    while _idle:
        started_with, child = _idle.pop()
        if started_with == environment:
            return child
        child.end(kill=True)
    return Child(COMPILE_CHILD)


def end_idle() -> None:
    """End the children that have no work."""
    while _idle:
        _idle.pop()[1].end(kill=True)
