"""The site: Sphinx with the theme furo, and Markdown by MyST. `make docs` builds it, no warnings.

Pages that repeat what the code knows are written by `pages.py`, beside this file, at each build.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pages

import xtarget

HERE = Path(__file__).resolve().parent

project = "xtarget"
author = "the authors of xtarget"
copyright = "the authors of xtarget"
version = release = xtarget.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"xtarget {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_inherit_docstrings = False
napoleon_use_rtype = False
nitpicky = False
suppress_warnings = ["epub"]


def mark_code(app: Sphinx, what: str, name: str, found: object, options: object,
              lines: list[str]) -> None:  # fmt: skip
    """In our docstrings an indented block after an empty line is code."""
    for index in range(len(lines) - 1, 1, -1):
        before = next((line for line in reversed(lines[:index]) if line.strip()), "")
        begins = lines[index].startswith("    ") and not lines[index - 1].strip()
        if begins and before[:1] not in ("", " ", ":", ".") and not before.endswith(":"):
            lines[index:index] = [".. code-block:: python", ""]


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", mark_code, priority=400)  # before napoleon
    pages.write(HERE / "generated")
