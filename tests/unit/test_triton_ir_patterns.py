"""Triton's IR is read as objects: only the reader has patterns over its text."""

from __future__ import annotations

import ast
from pathlib import Path

TARGETS = Path(__file__).resolve().parents[2] / "src" / "xtarget" / "targets"
#: The reader; everything else that handles Triton's IR or what Triton makes of it is counted.
READER = {"reader.py", "types.py"}
FILES = [
    *sorted(p for p in (TARGETS / "_spirv/frontend").glob("*.py") if p.name not in READER),
    *(TARGETS / name for name in ("_spirv/capabilities.py", "_triton/accesses.py")),
    *(TARGETS / name for name in ("amd/signed_atomics.py", "amd/unused_arguments.py")),
]
#: Regular expressions outside of the reader. Lower it when one goes; it never becomes more.
MOST = 0


def patterns(path: Path) -> list[str]:
    """`file:line` of each use of the module `re`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(TARGETS)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
    ]


def test_regular_expressions_over_triton_ir() -> None:
    found = [each for path in FILES for each in patterns(path)]
    assert len(found) <= MOST, found
    assert len(found) == MOST, f"lower MOST to {len(found)}"
