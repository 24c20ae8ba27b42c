"""Python files outside of packages, as modules: kernels, scripts, what another suite has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

__all__ = ["load_file"]


def load_file(path: Path, *, name: str = "", register: bool = False) -> Any:
    """The module of a file.

    Args:
        name: the module's name; by default the file's.
        register: put it into `sys.modules`, where pickles and Triton's messages look.
    """
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if register:
        sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
