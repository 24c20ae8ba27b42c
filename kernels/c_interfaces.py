"""The kernels as C functions on C-contiguous arrays of one dtype: data for `xtarget bundle emit-c`.

A formula may name the function's sizes and the integer constants of a binary (`BLOCK`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xtarget.spec import CInterface, CVariant

__all__ = ["elementwise", "matmul", "reduction", "rows"]


#: Kernels of `elementwise.py` by number of operands.
_KERNELS = ("", "unary", "binary", "ternary", "quaternary")


def _in_full(lengths: str, length: str, **steps: str) -> dict[str, str]:
    """One axis in the form that general kernels take of huge arrays (`layouts.widened`).

    Args:
        lengths: the parameter for the lengths.
        steps: by parameter for strides, the step of that axis.
    """
    last = dict.fromkeys((f"{lengths}.0", f"{lengths}.1"), "1") | {f"{lengths}.2": length}
    for name, step in steps.items():
        last |= dict.fromkeys((f"{name}.{axis}" for axis in range(3)), "0") | {f"{name}.3": step}
    return last


def elementwise(
    functions: Sequence[str],
    count: int,
    numbers: tuple[str, ...] = (),
    masks: tuple[str, ...] = (),
    flags: Mapping[str, str] | None = None,
) -> CInterface:
    """`n` elements each of `count` arrays and the result.

    Args:
        functions: device functions, `file:function`; where there are two, the caller chooses.
        numbers: what further operands mean, which are passed by value.
        flags: the parameter that chooses the second of the functions, with what it does.
    """
    letters = "abcdefgh"
    (flag, what), *_ = (flags or {"": ""}).items()
    tests = (f"!{flag}", flag) if flag else ("1",)
    variants = tuple(
        CVariant(
            f"elementwise:{_KERNELS[count + len(numbers)]}({function})",
            {"n": "n"},
            ("XT_CDIV(n, BLOCK * STEPS)", "1", "1"),
            requires=test,
        )
        for function, test in zip(functions, tests, strict=True)
    )
    steps = {f"s{letter}": "1" for letter in (*letters[:count], "o")}
    variants += tuple(
        replace(one, values={**one.values, **_in_full("shape", "n", **steps)}) for one in variants
    )
    scalars = tuple(letters[count : count + len(numbers)])
    said = [f"{letter}: {name}" for letter, name in zip(scalars, numbers, strict=True)]
    return CInterface(
        arrays=(*letters[:count], "out"),
        sizes=("n", flag) if flag else ("n",),
        variants=variants,
        empty="n == 0",
        extents=(("n",),),
        scalars=scalars,
        summary="; ".join(["n elements each", *said, *([f"{flag}: {what}"] if flag else [])]),
        masks=masks,
    )


def rows(
    source: str,
    vectors: Sequence[str] = (),
    scalars: tuple[str, ...] = (),
    file: str = "normalization",
    fixed: Mapping[str, bool] | None = None,
) -> CInterface:
    """`m` rows of `n` elements, and vectors of `n`.

    Args:
        fixed: constants of the kernel, beside strides, that every binary has to have.
    """
    values = {"m": "m", "n": "n", "sx.0": "n", "so.0": "n"}
    constants = {"cx": 1, "co": 1, **{f"s{name[0]}": 1 for name in vectors}, **(fixed or {})}
    grid = ("XT_CDIV(m, BLOCK_M)", "1", "1")
    whole = CVariant(
        f"{file}:{source}",
        values,
        grid,
        fixed=constants,
        requires="n <= BLOCK_N",
        prefers="m >= BLOCK_M",
        order=("-BLOCK_N", "BLOCK_M"),
    )
    # `_long` walks its row, so any of its binaries does
    long = CVariant(
        f"{file}:{source}_long",
        values,
        grid,
        fixed=constants,
        prefers="m >= BLOCK_M && n >= BLOCK_N",
        order=("BLOCK_N", "BLOCK_M"),
    )
    huge = replace(
        long,
        values={"m": "m", "n": "n", "cx": "1", "co": "1", **_in_full("shape", "m", sx="n", so="n")},
        fixed={name: value for name, value in constants.items() if name not in ("cx", "co")},
    )
    return CInterface(
        arrays=("x", *vectors, "out"),
        sizes=("m", "n"),
        variants=(whole, long, huge),
        empty="m == 0 || n == 0",
        extents=(("m", "n"),),
        scalars=scalars,
        summary=f"x and out: m x n{'; ' + ', '.join(vectors) + ': n' if vectors else ''}",
    )


def reduction(source: str, *, identity: bool) -> CInterface:
    """The rows of an `m` x `n` matrix, each to one element."""
    variant = CVariant(
        f"reduction:{source}",
        {
            "kept": "m",
            "reduced": "n",
            "chunk": "XT_CDIV(n, BLOCK_R) * BLOCK_R",
            "part": "0",
            "kx.0": "n",
        },
        ("XT_CDIV(m, BLOCK_K)", "1", "1"),
        prefers="BLOCK_R < 2 * n && BLOCK_K <= m",
        order=("BLOCK_R", "BLOCK_K"),
    )
    full = _in_full("kept_shape", "m", kx="n", ko="1") | _in_full("reduced_shape", "n", rx="1")
    plain = {name: value for name, value in variant.values.items() if name != "kx.0"}
    huge = replace(variant, values=plain | full)
    return CInterface(
        arrays=("x", "out"),
        sizes=("m", "n"),
        variants=(variant, huge),
        empty="m == 0",
        extents=(("m", "n"),),
        valid="1" if identity else "n > 0",
        summary="x: m x n, out: m",
    )


def matmul() -> CInterface:
    """(m, k) @ (k, n)."""
    tiles = "XT_CDIV(m, BLOCK_M) * XT_CDIV(n, BLOCK_N)"
    values = {
        "M": "m",
        "N": "n",
        "K": "k",
        "chunk": "XT_CDIV(k, BLOCK_K) * BLOCK_K",
        "part": "0",
        "sa.0": "0",
        "sb.0": "0",
        "so.0": "0",
        "am": "k",
        "bk": "n",
        "om": "n",
    }

    def variant(requires: str, order: tuple[str, ...]) -> CVariant:
        return CVariant(
            "linear:matmul",
            values,
            (tiles, "1", "1"),
            fixed={"ak": 1, "bn": 1, "on": 1},
            requires=f"(!EVEN_K || k % BLOCK_K == 0) && {requires}",
            order=("EVEN_K", *order),
        )

    # as tuning.matmul_tile: little padding and a tile for every multiprocessor, else small tiles
    fitting = f"BLOCK_M < 2 * m && BLOCK_N < 2 * n && {tiles} >= 64"
    quick = variant(fitting, ("BLOCK_M", "BLOCK_N"))
    small = variant("1", ("-BLOCK_M", "-BLOCK_N"))
    batch = {f"batch_shape.{axis}": "1" for axis in range(3)}
    steps = {f"s{name}.{axis}": "0" for name in "abo" for axis in range(4)}
    ones = {"ak": "1", "bn": "1", "on": "1"}
    huge = replace(small, values=values | batch | steps | ones, fixed={})
    return CInterface(
        arrays=("a", "b", "out"),
        sizes=("m", "n", "k"),
        variants=(quick, small, huge),
        empty="m == 0 || n == 0",
        extents=(("m", "k"), ("k", "n"), ("m", "n")),
        summary="a: m x k, b: k x n, out: m x n",
    )
