"""The names that a function reads: from its source text, and from its bytecode."""

from __future__ import annotations

import ast
import dis
import hashlib
import types
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["code_digest", "names_imported", "names_of_code", "names_of_source"]


@lru_cache(maxsize=4096)
def names_of_source(source: str) -> tuple[bool, frozenset[str], tuple[tuple[str, ...], ...]]:
    """Of a function's source: whether its lines go into the binary (an assertion's message), its
    parameters, and every name that it may read, with its attributes.
    """
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    params = frozenset(a.arg for a in every)
    found: dict[tuple[str, ...], None] = {}
    outside = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    outside += [a.annotation for a in every if a.annotation is not None]
    outside += [function.returns] if function.returns is not None else []
    for node in outside:  # these mean the names of the outside, also where a parameter has them
        for chain in _chains(node):
            if chain[0] not in params:
                found[chain] = None
    found.update(dict.fromkeys(_reads(function.body, set())))
    lines = "assert" in source
    return lines, params, tuple(found)


def _reads(body: Sequence[ast.stmt], local: set[str]) -> Iterator[tuple[str, ...]]:
    """Names that statements may read from outside: Triton looks for a name among those that were
    assigned before, on the way that it has taken, and then among the globals.

    Args:
        local: names that are assigned on every way here; those that this body assigns are added.
    """
    for statement in body:
        headers: list[ast.AST] = []
        targets: list[ast.AST] = []
        bodies: list[tuple[Sequence[ast.stmt], set[str]]] = []
        if isinstance(statement, ast.Assign):
            headers, targets = [statement.value], [*statement.targets]
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            headers, targets = [statement.value, statement.annotation], [statement.target]
        elif isinstance(statement, ast.If | ast.While):
            headers = [statement.test]
            bodies = [(statement.body, set(local)), (statement.orelse, set(local))]
        elif isinstance(statement, ast.For):
            headers = [statement.iter]
            inside = local | set(_assigned([statement.target]))
            bodies = [(statement.body, inside), (statement.orelse, set(local))]
        else:
            headers = [statement]
        stored = {(name,) for name in _assigned(targets)}
        yield from (c for tree in headers for c in _chains(tree) if c[0] not in local)
        yield from (c for t in targets for c in _chains(t) if c[0] not in local and c not in stored)
        for inner, names in bodies:
            yield from _reads(inner, names)
        local.update(_assigned(targets))
        if isinstance(statement, ast.If):
            local.update(bodies[0][1] & bodies[1][1])


def _assigned(targets: Sequence[ast.AST]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Tuple | ast.List):
            yield from _assigned(target.elts)


def _chains(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    if isinstance(tree, ast.Attribute):
        names, node = [tree.attr], tree.value
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            yield (node.id, *reversed(names))
            return
    elif isinstance(tree, ast.Name):
        yield (tree.id,)
        return
    elif (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and tree.func.id in ("getattr", "hasattr")
        and len(tree.args) >= 2
        and isinstance(tree.args[0], ast.Name)
        and isinstance(tree.args[1], ast.Constant)
    ):
        yield (tree.func.id,)
        yield (tree.args[0].id, str(tree.args[1].value))
        for rest in (*tree.args[2:], *tree.keywords):
            yield from _chains(rest)
        return
    for child in ast.iter_child_nodes(tree):
        yield from _chains(child)


@lru_cache(maxsize=4096)
def names_of_code(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Names that bytecode reads from outside, with their attributes."""
    found: dict[tuple[str, ...], None] = {}
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(step.argval))
            continue
        if chain:
            found[tuple(chain)] = None
            chain = []
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            chain = [str(step.argval)]
    if chain:
        found[tuple(chain)] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(names_of_code(constant)))
    return tuple(found)


@lru_cache(maxsize=4096)
def names_imported(code: types.CodeType) -> tuple[str, ...]:
    names = [str(s.argval) for s in dis.get_instructions(code) if s.opname == "IMPORT_NAME"]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += names_imported(constant)
    return tuple(names)


@lru_cache(maxsize=4096)
def code_digest(code: types.CodeType) -> str:
    """Of bytecode without its file and lines."""
    total = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, types.CodeType):
            total.update(code_digest(value).encode())
        elif isinstance(value, tuple):
            total.update(f"({len(value)}".encode())
            for element in value:
                add(element)
        elif isinstance(value, frozenset):
            add(tuple(sorted(map(repr, value))))
        else:
            total.update(f"{type(value).__name__} {value!r};".encode())

    add(code.co_code)
    for name in ("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_consts"):
        add(getattr(code, name))
    add((code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags))
    add(getattr(code, "co_exceptiontable", b""))
    return total.hexdigest()
