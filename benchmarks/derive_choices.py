"""Write the table of an arch that nothing was measured on, by the model of `plans/estimates.py`.

python benchmarks/derive_choices.py nvidia:sm_80 -o kernels/choices/tuned/nvidia-sm_80.json
CL_CONFIG_CPU_TARGET_ARCH=skx python benchmarks/derive_choices.py cpu:spirv64 -o avx512.json

Of a GPU what is faster than the default; of a CPU, whose defaults were measured on few, all.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from xtarget import __version__
from xtarget._kernels import libraries, tunings
from xtarget._kernels.tuning_files import DEFAULT, Entry, text_of
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType

_M, _N, _K = (1, 16, 64, 256, 1024, 4096), (1024, 4096, 16384), (1024, 4096)
#: A choice is written if the model says that it takes less than this part of the default's time.
_WORTH = 0.9


#: The same products of a CPU as `tune_suite.py` measures.
_SIDES = (1024, 512, 256)


def matrix(rows: int, columns: int, layout: str, dtype: str) -> ArrayType:
    return ArrayType(dtype, (rows, columns), (1, rows) if layout == "T" else (columns, 1))


def entries(target: Target, units: int) -> list[Entry]:
    kernel = libraries.find("matmul")
    found = []
    cpu = target.vendor == "cpu"
    products = [(side,) * 3 for side in _SIDES] if cpu else itertools.product(_M, _N, _K)
    layouts = ("NN", "NT") if cpu else ("NN", "NT", "TN", "TT")
    dtype = "float32" if cpu else "float16"
    for (m, n, k), layout in itertools.product(products, layouts):
        types = [matrix(m, k, layout[0], dtype), matrix(k, n, layout[1], dtype)]
        call = planning.call_of(kernel, types, {}, target, units, aligned=[True, True])
        with tunings.trying({}) as seen:
            planning.make_plan(kernel, call)
        asked = seen[0].asked
        estimate = asked.estimate
        assert estimate is not None, f"there is no model of {target}"
        best = min(asked.variants(), key=estimate)
        if estimate(best) > _WORTH * estimate(asked.default):
            if not cpu:
                continue
            best = None
        found.append(
            Entry(
                asked.table, str(target), "the model of kernels/plans/estimates.py", "derived",
                dict(asked.words()), seen[0].sizes, DEFAULT if best is None else asked.text(best),
                made={"xtarget": __version__},
            )
        )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--units", type=int, default=108, help="multiprocessors")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    given.output.unlink(missing_ok=True)
    found = entries(Target.parse(given.target), given.units)
    given.output.write_text(text_of(found), encoding="utf-8")
    print(f"{given.output}: {len(found)} choices")


if __name__ == "__main__":
    main()
