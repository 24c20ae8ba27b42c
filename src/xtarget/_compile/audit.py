"""Compiling what the cache has already, to see whether it is the same: a difference says that the
key lacks something that decides a binary."""

from __future__ import annotations

import ast
import logging
import random
from collections.abc import Iterator, Mapping
from typing import Any

from .. import _cache
from .._artifacts.entry import describe
from .._kernels import libraries
from .._values import environment
from .._values.errors import CompileError, NoCompilerError, XTargetError
from .._values.types import Artifact, CompileRequest, DtypeConstant, Target
from ..targets.optional import Settles
from .keys import ROUTE, TOOLCHAIN, settled
from .routes import TRITON, Way, named

__all__ = ["audited", "recompiled"]

_log = logging.getLogger("xtarget.cache")


def audited(
    kept: Artifact, way: Way, request: CompileRequest, target: Target, key: str
) -> Artifact:
    """A binary of the cache; for a sample of them (`XTARGET_CACHE_AUDIT`) after a comparison with
    what the compiler gives now. The new one where they differ.
    """
    share = environment.cache_audit()
    if not share or random.random() >= share or environment.compile_mode() == "error":
        return kept
    try:
        made, difference = _compare(kept, way, request, target)
    except NoCompilerError:
        return kept
    if not difference:
        return kept
    name = request.source.name
    _log.error("the cache has another %s for %s than the compiler: %s", name, target, difference)
    _cache.default_cache().set_aside(target, name, key, difference)
    return made


def _compare(
    kept: Artifact, way: Way, request: CompileRequest, target: Target
) -> tuple[Artifact, str]:
    """Compile again and compare. Return an artifact and a description of the difference.

    The artifact is the new one if the two were compared, else the kept one. The description is
    empty if the two are equal, or if they cannot be compared because the loaded code is not the
    code that the key names."""
    compiler = way.compiler
    loaded = settled(request) if way.is_triton else request
    if loaded.source.digest != request.source.digest or loaded.source.unidentified:
        return kept, ""
    before = compiler.fingerprint
    made = compiler.compile(loaded, target)
    stays = loaded.source.holds is None or loaded.source.holds()
    loose = compiler.unsettled() if isinstance(compiler, Settles) else ""
    if not stays or loose or compiler.fingerprint != before:
        return kept, ""
    difference = _difference(kept, made)
    if not difference:
        return made, ""
    if _difference(made, compiler.compile(loaded, target)):
        return made, f"{difference}. The compiler does not give the same twice in one process"
    return made, (
        f"{difference}, and no part of the key does. The key lacks something that this binary was "
        "made from; please report what this program changes before it calls xtarget"
    )


def _difference(one: Artifact, other: Artifact) -> str:
    first, second = describe(one), describe(other)
    for facts in (first, second):
        for parameter in facts["parameters"]:
            parameter.pop("stored", None)  # a line, for messages: a comment above moves it
    wrong = [name for name in first if first[name] != second[name]]
    if one.binary != other.binary:
        wrong.insert(0, f"its bytes ({len(one.binary)} and {len(other.binary)})")
    return f"{', '.join(wrong)} differ" if wrong else ""


# ------------------------------------------------------------------------- entries of the cache


def recompiled(entries: Iterator[Mapping[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """A sample of entries, each compiled again: `fault` (None where it is the same) and `skipped`
    (why it cannot be compiled here; None where it was). What differs is set aside.

    Args:
        entries: bodies of their marks.
        count: how many.
    """
    bodies = [body for body in entries if body.get("kind") == "artifact"]
    for body in random.sample(bodies, min(count, len(bodies))):
        target, name = Target.parse(str(body["target"])), str(body["kernel"])
        shown = {"target": str(target), "kernel": name, "key": str(body["key"])}
        try:
            fault, skipped = _again(body, target, name)
        except XTargetError as error:
            fault, skipped = None, str(error)
        yield {**shown, "fault": fault, "skipped": skipped}


def _again(body: Mapping[str, Any], target: Target, name: str) -> tuple[str | None, str | None]:
    parts = {str(label): str(value) for label, value in body["key_parts"]}
    way = named(target.vendor, parts.get(ROUTE, TRITON))
    if way is None or parts.get(TOOLCHAIN) != way.compiler.fingerprint:
        return None, "it was made with another tool chain, or with other settings"
    request = _request(parts, name)
    if request is None:
        return None, "no library that is loaded here has its source"
    key = str(body["key"])
    kept = _cache.default_cache().get(target, name, key)
    if kept is None:
        return None, "it cannot be read"
    _, difference = _compare(kept, way, request, target)
    if difference:
        _cache.default_cache().set_aside(target, name, key, difference)
    return difference or None, None


def _request(parts: Mapping[str, str], name: str) -> CompileRequest | None:
    """The request behind an entry, where its source is in a library that is loaded."""
    for source in libraries.sources_named(name):
        if source.digest == parts["source"]:
            try:
                return CompileRequest(
                    source=source,
                    num_warps=int(parts["num_warps"]),
                    num_stages=int(parts["num_stages"]),
                    line_info=parts["line_info"] == "True",
                    **{n: _value(parts[n]) for n in ("signature", "constants", "aligned")},
                    options=_value(parts["options"]),
                )
            except (ValueError, SyntaxError) as error:
                raise CompileError(f"its key cannot be read: {error}") from error
    return None


def _value(text: str) -> Any:
    """Parse a value from the text that `repr` wrote."""

    class Plain(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            given = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
            return ast.Constant(DtypeConstant(**given))  # type: ignore[arg-type]  # ours, not Python's

    def made(node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(made(element) for element in node.elts)
        if isinstance(node, ast.Constant):
            return node.value
        return ast.literal_eval(node)

    return made(Plain().visit(ast.parse(text, mode="eval")).body)
