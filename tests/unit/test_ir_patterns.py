"""IR is read as objects: only the readers have regular expressions over its text."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "xtarget"
#: The readers of LLVM IR and of Triton's IR.
READERS = {
    *(f"targets/_spirv/llvm/{name}.py" for name in ("cursor", "operands", "reader", "words")),
    *(f"targets/_spirv/frontend/{name}.py" for name in ("reader", "types")),
}
#: All other uses of `re` in the rooms that meet IR: how many, and which text they read. A new one
#: has to be added here, with its text; IR is not one.
OTHER = {
    "targets/_c/dialects.py": (1, "the includes of an author's CUDA C++"),
    "targets/_c/hip.py": (1, "CUDA C++, which becomes HIP C++"),
    "targets/_c/tile_arrays.py": (1, "marks in C code of ours"),
    "targets/_c/written.py": (1, "C code of an author"),
    "targets/_host/contents.py": (1, "a Python file of a package"),
    "targets/_spirv/library/arithmetic.py": (4, "names of functions"),
    "targets/_spirv/library/bessel.py": (1, "names of functions"),
    "targets/_spirv/library/directed.py": (2, "names of functions"),
    "targets/_spirv/library/libdevice_amd.py": (2, "names of functions"),
    "targets/_spirv/library/libdevice_nvidia.py": (9, "names of functions"),
    "targets/_spirv/library/special.py": (1, "names of functions"),
    "targets/_spirv/llvm/asserts.py": (1, "the message of an assertion"),
    "targets/_spirv/llvm/atomics.py": (1, "names of functions"),
    "targets/_spirv/llvm/bfloat.py": (2, "names of functions"),
    "targets/_spirv/llvm/narrow.py": (1, "names of functions"),
    "targets/_spirv/llvm/printf.py": (1, "a format of printf"),
    "targets/_spirv/vectors/calls.py": (5, "names of functions"),
    "targets/_spirv/versions.py": (1, "a version"),
    "targets/_template/holes.py": (1, "the holes of a text of ours"),
    "targets/_triton/reason.py": (6, "what Triton's passes print when they fail"),
    "targets/amd/library.py": (1, "the name of a file"),
    "targets/cpu/discover.py": (1, "an answer of OpenCL"),
    "targets/cpu/pocl.py": (1, "a version"),
    "targets/intel/ocloc.py": (1, "what ocloc prints"),
    "targets/intel/zebin.py": (5, "YAML in a zebin"),
    "targets/nvidia/compatibility.py": (1, "the name of an arch"),
    "targets/nvidia/nvrtc.py": (1, "what NVRTC says of a missing header"),
    "targets/nvidia/status.py": (1, "names of status codes"),
}


def uses(path: Path) -> int:
    """The number of uses of the module `re`. No file imports its functions by name."""
    count = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), path
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = node.func.value
            count += (
                isinstance(module, ast.Name) and module.id == "re" and node.func.attr != "escape"
            )
    return count


def test_only_readers_have_regular_expressions_over_ir() -> None:
    found = {
        str(path.relative_to(SOURCE)): count
        for room in ("targets", "_triton_backend", "_compile")
        for path in sorted((SOURCE / room).rglob("*.py"))
        if (count := uses(path))
    }
    others = {name: count for name, count in found.items() if name not in READERS}
    assert others == {name: count for name, (count, _) in OTHER.items()}
    assert found.keys() >= READERS, "a reader without a pattern need not be listed"
