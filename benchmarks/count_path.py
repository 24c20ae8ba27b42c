"""How many functions and files one call of `run` passes: `python benchmarks/count_path.py`.

Counts xtarget's own Python functions (and the kernel library's), not those of other packages. Cold:
the first call of a new process with an empty cache (`--cache FOLDER`: with the one in this folder,
so that a second run finds its binary); warm: a call that was made before; new shape: a size that
its class serves.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def passed(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """File and qualified name of each Python function of ours that `call` enters, in order."""
    seen: list[tuple[str, str]] = []
    ours = (str(ROOT / "src"), str(ROOT / "kernels"))

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        function = code.co_flags & inspect.CO_OPTIMIZED  # no body of a module or a class
        if event == "call" and function and code.co_filename.startswith(ours):
            seen.append((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def report(name: str, seen: list[tuple[str, str]], names: bool) -> None:
    functions = list(dict.fromkeys(seen))
    files = list(dict.fromkeys(path for path, _ in seen))
    changes = sum(one[0] != two[0] for one, two in itertools.pairwise(seen))
    print(
        f"{name:10} {len(seen):6} calls  {len(functions):4} functions  {len(files):4} files  "
        f"{changes:6} changes of file"
    )
    if names:
        for path, function in functions:
            print(f"    {Path(path).relative_to(ROOT)}: {function}")


def report_rooms(seen: list[tuple[str, str]]) -> None:
    """Print how many files of each folder a call has passed."""
    files = {Path(path).relative_to(ROOT) for path, _ in seen}
    for room, count in Counter(file.parent for file in files).most_common():
        print(f"    {count:4} {room}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="print the functions of warm calls")
    parser.add_argument("--rooms", action="store_true", help="print the folders of the cold call")
    parser.add_argument("--cache", metavar="FOLDER", help="a cache that stays")
    given = parser.parse_args()
    lasting = contextlib.nullcontext(given.cache) if given.cache else tempfile.TemporaryDirectory()
    with lasting as folder:
        os.environ["XTARGET_CACHE_DIR"] = folder
        import numpy as np

        import xtarget

        a, b, out = np.ones((3, 1000), np.float32)

        def add() -> None:
            xtarget.run("add", a, b, out=out)

        cold = passed(add)
        report("cold", cold, names=False)
        if given.rooms:
            report_rooms(cold)
        for size in range(900, 990):
            xtarget.run("add", a[:size], b[:size], out=out[:size])
        views = a[:880], b[:880], out[:880]
        report(
            "new shape", passed(lambda: xtarget.run("add", *views[:2], out=views[2])), given.names
        )
        for _ in range(3):
            add()
        report("warm", passed(add), given.names)


if __name__ == "__main__":
    main()
