"""Imports go down only: an AST walk (`module_imports`) over every file, imports inside functions
included, and a look at what a fresh process has really loaded."""

from __future__ import annotations

import ast
import json
import re
import sys

import pytest
from module_imports import (
    EMULATOR,
    FLOORS,
    PACKAGE,
    ROOT,
    failures,
    floor,
    imports_in,
    imports_of,
    is_module,
    layer,
    modules,
    own,
    reachable,
    room,
    root,
    vendor_of,
    vendors,
)
from processes import run_python

KERNELS = ROOT / "kernels"

DOOR = "xtarget_triton"

LAYER_NAMES = ("values", "contract", "vendors", "services", "public face", "command line")
#: What may lie flat in the package.
FLAT = {"__init__", "__main__", "pytest_plugin", "spec", "testing"}

#: Modules that reach each other, also through imports in functions: none.
CIRCLES: list[list[str]] = []
#: The same through imports that only the type checker makes.
TYPE_CIRCLES = [
    [f"targets.amd.{name}" for name in ("capture", "device", "memory", "module", "stream")],
    [
        f"targets.nvidia.{name}"
        for name in ("code", "device", "memory", "module", "pinned", "stream")
    ],
]

TRITON = {"triton", "llvmlite"}
GPU_BINDINGS = {"cuda", "hip", "rocm", "dpctl", "dpnp", "pyopencl", "torch", "cupy", "jax"}
ARRAY_LIBRARIES = {"numpy", "ml_dtypes", "torch", "cupy"}


# -------------------------------------------------------------------------------------- static


def test_there_is_something_to_check() -> None:
    assert {"xtarget", "xtarget._values.types", "xtarget.targets.base", "xtarget._cli.main"} <= set(
        modules()
    )
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


def test_imports_go_down_the_floors_of_the_services() -> None:
    up = [
        i
        for module in modules()
        if layer(module) == 3
        for i in imports_in(module)
        if is_module(i.name) and own(i.name) and layer(i.name) == 3
        if room(i.name) != room(module) and floor(i.name) >= floor(module)
    ]
    assert not up, failures(up, f"imports from the same floor or a higher one ({FLOORS})")


def test_every_module_has_its_room() -> None:
    flat = {path.stem for path in PACKAGE.glob("*.py")}
    assert flat == FLAT, "beside the rooms lie only what is public, and `__main__`"


def test_values_need_the_standard_library_only() -> None:
    foreign = [
        i
        for module in modules()
        if layer(module) <= 1
        for i in imports_in(module)
        if not own(i.name)
        and root(i.name) not in sys.stdlib_module_names
        and not (
            module == "xtarget._values.environment"
            and i.name == "platformdirs"
            and i.inside_function
        )
    ]
    assert not foreign, failures(foreign, "layers 0 and 1 import the standard library only")


def test_vendors_stay_apart() -> None:
    wrong = []
    for module in modules():
        for i in imports_in(module):
            if not own(i.name) or layer(module) != 2:
                continue
            other = vendor_of(i.name)
            allowed = {vendor_of(module)}
            if root(module) == EMULATOR:
                allowed.add("amd")  # it executes AMD's code objects below AMD's own classes
            if other is not None and other not in allowed:
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


def test_nothing_of_xtarget_imports_the_emulator() -> None:
    wrong = [
        i
        for module in modules()
        if root(module) != EMULATOR
        for i in imports_in(module)
        if root(i.name) == EMULATOR
    ]
    assert not wrong, failures(wrong, f"{EMULATOR} enters by its entry point, or by its name")


def test_one_module_acts_at_forks_and_at_exit() -> None:
    found = {
        module
        for module, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr == "register_at_fork")
        or (isinstance(node, ast.Import) and any(a.name == "atexit" for a in node.names))
    }
    assert found == {"xtarget._system.life"}


def test_python_is_started_in_one_module() -> None:
    found = {
        module
        for module, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    }
    assert found == {"xtarget._children.start", "xtarget._cli.info"}  # the second prints it


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


def circles(*, with_types: bool) -> set[frozenset[str]]:
    """Modules that reach each other, imports in functions included.

    Args:
        with_types: those below `if TYPE_CHECKING` too.
    """

    def known_to(module: str) -> list[str]:
        return [
            i.name
            for i in imports_in(module)
            # the package itself is imported before any of its modules
            if is_module(i.name)
            and i.name not in ("xtarget", EMULATOR)
            and (with_types or not i.for_types)
        ]

    below: dict[str, set[str]] = {}
    for module in modules():
        seen: set[str] = set()
        todo = known_to(module)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += known_to(name)
        below[module] = seen
    return {
        frozenset(other for other in below[module] if module in below[other])
        for module in modules()
        if len(below[module]) and module in below[module]
    }


def written(found: set[frozenset[str]]) -> list[list[str]]:
    return sorted(sorted(name.removeprefix("xtarget.") for name in circle) for circle in found)


def test_circles_of_imports_are_those_that_are_known() -> None:
    """An import in a function hides a circle from Python, not from who reads."""
    assert written(circles(with_types=False)) == CIRCLES


def test_circles_of_types_are_those_that_are_known() -> None:
    """The same with imports for the type checker: a device knows its streams and they know it.
    The list may only become shorter; take out what is gone."""
    assert written(circles(with_types=True)) == sorted(CIRCLES + TYPE_CIRCLES)


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
        inner = path.relative_to(KERNELS).with_suffix("").parts
        name = ".".join(("kernels", *(part for part in inner if part != "__init__")))
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for i in imports_of(ast.parse(path.read_text(encoding="utf-8")), name, package):
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
            asked = i.inside_function and (own(i.name) or root(i.name) == "triton")
            if not (free or loaded or asked or root(i.name) == DOOR):
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
    done = run_python("-c", code, path=ROOT / "src", seconds=60, check=True)
    return {root(name) for name in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "statement",
    [
        "import xtarget",
        "import xtarget.spec",
        "import xtarget._cli.main",
        f"import {EMULATOR}",
        *(f"import xtarget.targets.{vendor}" for vendor in vendors()),
        *(f"import xtarget.targets.{vendor}.driver" for vendor in vendors()),
        *(f"import xtarget.targets.{vendor}.compiler" for vendor in vendors()),
    ],
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    heavy = TRITON | GPU_BINDINGS | ARRAY_LIBRARIES | {"rich"}
    assert not loaded_by(statement) & heavy


def test_the_picture_of_the_rooms_has_the_floors() -> None:
    picture = (ROOT / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")
    lines: dict[int, set[str]] = {}
    for y, name in re.findall(
        r'y="([0-9]+)[.0-9]*" [^>]*font-weight="600">([\w.]+)</text>', picture
    ):
        lines.setdefault(int(y), set()).add(name)
    drawn = [names for _, names in sorted(lines.items())]
    start = next(n for n, names in enumerate(drawn) if FLOORS[-1][0] in names)
    assert drawn[start : start + len(FLOORS)] == [set(rooms) for rooms in reversed(FLOORS)]
