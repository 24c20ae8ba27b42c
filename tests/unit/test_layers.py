"""Imports go down only (DESIGN, section 2): an AST walk over every file, imports inside functions
included, and a look at what a fresh process has really loaded."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "xtarget"
KERNELS = ROOT / "kernels"

DOOR = "xtarget_triton"

VALUES = {"_types", "_errors", "_env", "_ahead", "spec"}
FACE = {"__init__", "_run"}
LAYER_NAMES = ("values", "contract", "vendors", "services", "public face", "command line")

TRITON = {"triton", "llvmlite"}
GPU_BINDINGS = {"cuda", "hip", "rocm", "dpctl", "dpnp", "pyopencl", "torch", "cupy"}
ARRAY_LIBRARIES = {"numpy", "ml_dtypes", "torch", "cupy"}


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
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


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


def layer(module: str) -> int:
    """Layer of a module of xtarget, by its place."""
    parts = module.split(".")[1:]
    if not parts:
        return 4
    head = parts[0]
    if head == "targets":
        return 1 if parts[1:] in ([], ["base"]) else 2
    if head.startswith("_cli") or head == "__main__":
        return 5
    if head in FACE:
        return 4
    return 0 if head in VALUES else 3


def vendor_of(module: str) -> str | None:
    """`nvidia` for `xtarget.targets.nvidia.driver`; None for what vendors share."""
    parts = module.split(".")
    if len(parts) < 3 or parts[1] != "targets" or parts[2] == "base" or parts[2].startswith("_"):
        return None
    return parts[2]


def root(name: str) -> str:
    return name.partition(".")[0]


def own(name: str) -> bool:
    return root(name) == "xtarget"


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


# -------------------------------------------------------------------------------------- static


def test_there_is_something_to_check() -> None:
    assert {"xtarget", "xtarget._types", "xtarget.targets.base", "xtarget._cli"} <= set(modules())
    assert len(vendors()) >= 4


def test_imports_go_down() -> None:
    up = [
        i
        for module in modules()
        for i in imports_in(module)
        # the command line is the public face's user: `import xtarget` is how it gets there
        if own(i.name) and is_module(i.name) and layer(i.name) > layer(module)
    ]
    assert not up, failures(
        up,
        "imports from a higher layer (" + " < ".join(LAYER_NAMES) + ")",
    )


def test_values_need_the_standard_library_only() -> None:
    foreign = [
        i
        for module in modules()
        if layer(module) <= 1
        for i in imports_in(module)
        if not own(i.name)
        and root(i.name) not in sys.stdlib_module_names
        and not (module == "xtarget._env" and i.name == "platformdirs" and i.inside_function)
    ]
    assert not foreign, failures(foreign, "layers 0 and 1 import the standard library only")


def test_vendors_stay_apart() -> None:
    wrong = []
    for module in modules():
        for i in imports_in(module):
            if not own(i.name) or layer(module) != 2:
                continue
            other = vendor_of(i.name)
            if other is not None and other != vendor_of(module):
                wrong.append(i)  # a vendor imports another, or a shared way imports a vendor
            if layer(i.name) > 2:
                wrong.append(i)
    assert not wrong, failures(wrong, "a vendor's module reaches outside its folder")


def test_nobody_above_names_a_vendors_module() -> None:
    wrong = [
        i
        for module in modules()
        if layer(module) >= 3
        for i in imports_in(module)
        if vendor_of(i.name) is not None
    ]
    assert not wrong, failures(wrong, "vendors are known as text, to _registry alone")


def test_no_cycles_at_import_time() -> None:
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, "import cycle: " + " -> ".join((*way, module))
        if module in done or not is_module(module):
            return
        for i in imports_in(module):
            later = i.inside_function or i.for_types
            if own(i.name) and not later and i.name not in ("xtarget", module):
                visit(i.name, (*way, module))
        done.add(module)

    for module in modules():
        visit(module, ())


@pytest.mark.parametrize("vendor", vendors())
@pytest.mark.parametrize(
    ("side", "forbidden"),
    [("driver", TRITON), ("compiler", GPU_BINDINGS)],
    ids=["driver", "compiler"],
)
def test_driver_and_compiler_stay_apart(vendor: str, side: str, forbidden: set[str]) -> None:
    start = f"xtarget.targets.{vendor}.{side}"
    assert is_module(start), f"{vendor} has no {side} module"
    modules_there = reachable(start)
    wrong = [i for m in sorted(modules_there) for i in imports_in(m) if root(i.name) in forbidden]
    assert not wrong, failures(wrong, f"{start} can reach what a {side} must not load")


def test_kernels_import_triton_and_the_spec_only() -> None:
    wrong = []
    for path in sorted(KERNELS.rglob("*.py")):
        name = "kernels." + path.stem
        for i in imports_of(ast.parse(path.read_text(encoding="utf-8")), name, "kernels"):
            free = root(i.name) in sys.stdlib_module_names or root(i.name) == "kernels"
            # references are NumPy functions; a catalog that is only read must not load it
            reference = root(i.name) in {"numpy", "ml_dtypes"} and i.inside_function
            allowed = root(i.name) == "triton" or i.name == "xtarget.spec"
            if not (free or reference or allowed):
                wrong.append(i)
    assert not wrong, failures(
        wrong, "kernels import triton, the standard library and xtarget.spec"
    )
    assert (KERNELS / "catalog.py").is_file()


def test_what_triton_imports_stands_alone() -> None:
    """`xtarget_triton` is loaded by every `import triton`; a fault of xtarget must not reach it."""
    wrong = []
    for path in sorted((PACKAGE.parent / "xtarget_triton").glob("*.py")):
        for i in imports_of(ast.parse(path.read_text(encoding="utf-8")), path.stem, DOOR):
            free = root(i.name) in sys.stdlib_module_names
            loaded = i.name in ("triton.backends.compiler", "triton.backends.driver")
            if not (free or loaded or (own(i.name) and i.inside_function)):
                wrong.append(i)
    assert not wrong, failures(wrong, f"{DOOR} imports what Triton has loaded, and no more")


def test_the_catalog_does_not_reach_triton() -> None:
    seen, todo = set(), ["catalog"]
    while todo:
        name = todo.pop()
        path = KERNELS / f"{name}.py"
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        for i in imports_of(ast.parse(path.read_text(encoding="utf-8")), name, "kernels"):
            assert root(i.name) != "triton", f"kernels/{name}.py, line {i.line}: imports triton"
            if i.name.startswith("kernels."):
                todo.append(i.name.split(".")[1])
    assert "catalog" in seen


# ------------------------------------------------------------------------------------- in life


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh process has after `statement`."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    return {root(name) for name in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "statement",
    [
        "import xtarget",
        "import xtarget.spec",
        "import xtarget._cli",
        *(f"import xtarget.targets.{vendor}" for vendor in vendors()),
        *(f"import xtarget.targets.{vendor}.driver" for vendor in vendors()),
        *(f"import xtarget.targets.{vendor}.compiler" for vendor in vendors()),
    ],
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    heavy = TRITON | GPU_BINDINGS | ARRAY_LIBRARIES | {"rich"}
    assert not loaded_by(statement) & heavy
