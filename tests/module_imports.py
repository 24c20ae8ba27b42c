"""The modules of xtarget, what they import, and the layers and floors that they stand on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "EMULATOR",
    "FLOORS",
    "PACKAGE",
    "ROOT",
    "Import",
    "failures",
    "floor",
    "imports_in",
    "imports_of",
    "is_module",
    "layer",
    "module_name",
    "modules",
    "own",
    "reachable",
    "room",
    "root",
    "vendor_of",
    "vendors",
]

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "xtarget"


#: Our own vendor beside the package: it enters as a third party's does.
EMULATOR = "xtarget_emulator"


#: The floors of layer 3, from the lowest: the rooms of a floor do not know each other.
FLOORS = (
    ("_core", "_devices", "_artifacts", "_executors"),
    ("_arrays", "_cache"),
    ("_kernels", "_bundle"),
    ("_compile",),
    ("_launch",),
    ("_triton_backend", "_bundle.builder", "_fuse"),
    ("_serve",),
)


@dataclass(frozen=True)
class Import:
    """One import statement: where it stands, what it names, and whether it runs only in a function,
    or never (`if TYPE_CHECKING`)."""

    importer: str
    line: int
    name: str
    inside_function: bool
    for_types: bool

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.name}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    folders = (PACKAGE, PACKAGE.parent / EMULATOR)
    return {module_name(path): path for f in folders for path in sorted(f.rglob("*.py"))}


def is_module(name: str) -> bool:
    return name in modules()


def imports_of(tree: ast.AST, importer: str, package: str) -> Iterator[Import]:
    """Every import of a file. `from . import x` names the module x where there is one."""
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.walk(node)
        if child is not node
    }
    for_types = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for child in ast.walk(statement)
    }
    for node in ast.walk(tree):
        when = (id(node) in inside, id(node) in for_types)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, node.lineno, alias.name, *when)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                name = full if is_module(full) else base
                yield Import(importer, node.lineno, name, *when)


@cache
def imports_in(module: str) -> tuple[Import, ...]:
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(imports_of(ast.parse(path.read_text(encoding="utf-8")), module, package))


def room(module: str) -> str:
    """`_cache` for `xtarget._cache.store`; `_bundle.builder` is a room of its own."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[:2] == ["_bundle", "builder"] else parts[0] if parts else ""


def layer(module: str) -> int:
    """Layer of a module of xtarget, by its place; the emulator is a vendor."""
    if root(module) == EMULATOR:
        return 2
    head, *below = [*module.split(".")[1:], ""]
    if head == "targets":
        return 1 if below[0] in ("", "base", "optional") else 2
    if head in ("_cli", "__main__"):
        return 5
    if head in (
        "",
        "dask",
        "jax",
        "torch",
        "testing",
        "pytest_plugin",
        "_verify",
        "_bench",
        "_pages",
    ):
        return 4
    return 0 if head in ("_values", "_system", "_children", "spec") else 3


def floor(module: str) -> int:
    """Its floor in layer 3."""
    (found,) = [n for n, rooms in enumerate(FLOORS) if room(module) in rooms]
    return found


def vendor_of(module: str) -> str | None:
    """`nvidia` for `xtarget.targets.nvidia.driver`; None for what vendors share."""
    if root(module) == EMULATOR:
        return EMULATOR
    parts = module.split(".")
    if len(parts) < 3 or parts[1] != "targets" or parts[2].startswith("_"):
        return None
    if parts[2] in ("base", "optional"):
        return None
    return parts[2]


def root(name: str) -> str:
    return name.partition(".")[0]


def own(name: str) -> bool:
    return root(name) in ("xtarget", EMULATOR)


def vendors() -> list[str]:
    return sorted(p.parent.name for p in (PACKAGE / "targets").glob("[a-z]*/__init__.py"))


def reachable(start: str) -> set[str]:
    """Modules that `start` can load: what it imports, and the packages those stand in."""
    seen, todo = set(), [start]
    while todo:
        module = todo.pop()
        if module in seen or not is_module(module):
            continue
        seen.add(module)
        todo += [i.name for i in imports_in(module) if own(i.name)]
    return seen


def failures(found: list[Import], why: str) -> str:
    return f"{why}:\n" + "\n".join(map(str, found))
