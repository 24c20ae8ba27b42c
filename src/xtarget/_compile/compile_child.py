"""The process that compiles for `workers` and `limited`."""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import Any

from .._artifacts import entry
from .._children.frames import pack
from .._children.serve import Answer, note, serve
from .._devices import registry
from .._kernels import libraries
from .._values.errors import CompileError, XTargetError
from .._values.types import KernelSource, Target
from .workers import request_of

#: The folders of kernels that were imported.
_loaded: set[str] = set()


def _source(question: dict[str, Any]) -> KernelSource:
    """The kernel that a question is about.

    Raises:
        XTargetError: it is not what the parent has.
    """
    if "module" in question:
        from .imported import source_of

        return source_of(question)
    if question["origin"] not in _loaded:
        libraries.load_library(question["origin"])
        _loaded.add(question["origin"])
    source = libraries.library_source(question["origin"], question["source"])
    if source.again is not None:
        source = source.again()  # what is imported, with the values that it reads
    if source.unidentified and "digest" in question:
        raise CompileError(
            f"{source.name} ({source.path}) cannot be compiled in another process: "
            f"{source.unidentified}, so no other process can know that it is the same."
        )
    if source.digest != question.get("digest", source.digest):
        raise CompileError(
            f"{source.path} was changed during the compilation, or reads values that the program "
            "has set. Do it again."
        )
    return source


def _answer(question: dict[str, Any], _: list[bytes]) -> bytes:
    if "import" in question:
        with contextlib.suppress(ImportError):  # the compilation says it
            importlib.import_module(question["import"])
        return pack({})
    try:
        if "stages" in question:
            from .stages import made_in_child

            return made_in_child(question)
        source = _source(question)
        if "target" not in question:
            return pack(_described(source))
        return _compiled(question, source)
    except XTargetError as error:
        return pack({"error": str(error)})


def _described(source: KernelSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "digest": source.digest,
        "labelled": [list(part) for part in source.parts],
        "unidentified": source.unidentified,
        "places": source.places,
    }


def _compiled(question: dict[str, Any], source: KernelSource) -> bytes:
    target = Target.parse(question["target"])
    request = request_of(source, question["request"])
    start = time.perf_counter()
    compiler = registry.compiler(target.vendor)
    if question.get("toolchain", compiler.fingerprint) != compiler.fingerprint:
        raise CompileError(
            f"{source.name} for {target} cannot be compiled in a child process: the program "
            "has changed settings of Triton or of its tools, which the child does not have. "
            "Set them by Triton's variables, or unset XTARGET_COMPILE_SECONDS."
        )
    made = compiler.compile(request, target, **question["more"])
    seconds = time.perf_counter() - start
    header = {
        "artifact": entry.describe(made),
        "texts": dict(made.texts),
        "seconds": seconds,
        "stage_seconds": dict(made.stage_seconds),
    }
    return pack(header, [made.binary])


def _prepared() -> Answer:
    from ..targets._triton import files

    # the parent says it where the time is up
    files.on_stage = lambda name: note(stage=name)
    return _answer


if __name__ == "__main__":
    serve(_prepared)
