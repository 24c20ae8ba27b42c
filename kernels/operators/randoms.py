"""Random numbers. What is drawn depends on nothing but the call: the same `seed` and `offset` give
the same integers and uniform numbers on every device, bit for bit (of what takes a logarithm or an
angle, the last bits may differ). Without them both are 0, and two calls give the same. A call that
follows another one takes another `seed`, or an `offset` beyond the groups that the other one took:
one for four elements of 32 bits or less, for two wider ones or integers, for one of bernoulli.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import random as plans
from .row import alike, row
from .rules import ALL, FLOATS

__all__ = ["ROWS", "philox"]


def philox(seed: int, offset: int, groups: int) -> Any:
    """The words of `groups` counters from `offset` on, a row for each: Philox 4x32-10."""
    import numpy as np

    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    counter = np.arange(groups, dtype=np.uint64) + np.uint64(offset)
    c = [counter & low, counter >> half, np.zeros_like(counter), np.zeros_like(counter)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        one, two = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (two >> half) ^ c[1] ^ np.uint64(k[0]),
            two & low,
            (one >> half) ^ c[3] ^ np.uint64(k[1]),
            one & low,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1)


def _words(shape: Any, seed: int, offset: int) -> Any:
    """A word for each element."""
    import numpy as np

    size = int(np.prod(shape, dtype=np.int64))
    return philox(seed, offset, -(-size // 4)).reshape(-1)[:size].reshape(shape)


def _wide(shape: Any, seed: int, offset: int) -> Any:
    """64 bits for each element."""
    import numpy as np

    size = int(np.prod(shape, dtype=np.int64))
    words = philox(seed, offset, -(-size // 2)).reshape(-1, 2)
    return ((words[:, 0] << np.uint64(32)) | words[:, 1])[:size].reshape(shape)


#: Bits of a number from 0 to below 1.
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _unit(shape: Any, dtype: str, seed: int, offset: int) -> Any:
    import numpy as np

    digits = _DIGITS[dtype]
    wide = dtype == "float64"
    bits = (_wide if wide else _words)(shape, seed, offset)
    whole = bits >> np.uint64((64 if wide else 32) - digits)
    return whole.astype(np.float64) * 2.0**-digits


def _rand(shape: Any = (1,), dtype: str = "float32", seed: int = 0, offset: int = 0) -> Any:
    return _unit(shape, dtype, seed, offset)


def _uniform(
    shape: Any = (1,), low: float = 0.0, high: float = 1.0, dtype: str = "float32",
    seed: int = 0, offset: int = 0,
) -> Any:  # fmt: skip
    return _unit(shape, dtype, seed, offset) * (high - low) + low


def _above_zero(shape: Any, dtype: str, seed: int, offset: int) -> Any:
    """As the kernel rounds it: a logarithm near 1 tells the last bit."""
    import numpy as np

    if dtype == "float64":
        return _unit(shape, dtype, seed, offset) + 2.0**-54
    words = _words(shape, seed, offset).astype(np.float32)
    return (words * np.float32(2.0**-32) + np.float32(2.0**-33)).astype(np.float64)


def _randn(
    shape: Any = (1,), mean: float = 0.0, std: float = 1.0, dtype: str = "float32",
    seed: int = 0, offset: int = 0,
) -> Any:  # fmt: skip
    import numpy as np

    size = int(np.prod(shape, dtype=np.int64))
    even = (size + 1) // 2 * 2
    wide = "float64" if dtype == "float64" else "float32"
    length = np.sqrt(-2 * np.log(_above_zero((even,), wide, seed, offset)[::2]))
    turn = _unit((even,), wide, seed, offset)[1::2]
    angle = turn * 2 * np.pi
    both = np.stack([length * np.cos(angle), length * np.sin(angle)], 1).reshape(-1)
    return both[:size].reshape(shape) * std + mean


def _exponential(
    shape: Any = (1,), rate: float = 1.0, dtype: str = "float32", seed: int = 0, offset: int = 0
) -> Any:
    import numpy as np

    wide = "float64" if dtype == "float64" else "float32"
    return -np.log(_above_zero(shape, wide, seed, offset)) / rate


def _randint(
    shape: Any = (1,), low: int = 0, high: int = 2, dtype: str = "int64",
    seed: int = 0, offset: int = 0,
) -> Any:  # fmt: skip
    import numpy as np

    bits = _wide(shape, seed, offset).astype(object)
    return np.asarray(((bits * (high - low)) // 2**64) + low).astype(dtype)


def _randperm(n: int = 1, seed: int = 0, offset: int = 0) -> Any:
    import numpy as np

    return np.argsort(_wide((n,), seed, offset).view(np.int64), kind="stable")


def _bernoulli(x: Any, seed: int = 0, offset: int = 0) -> Any:
    import numpy as np

    words = philox(seed, offset, x.size)
    if x.dtype == np.float64:
        number = (((words[:, 0] << np.uint64(32)) | words[:, 1]) >> np.uint64(11)) * 2.0**-53
    else:
        number = (words[:, 0] >> np.uint64(8)) * 2.0**-24
    return (number.reshape(x.shape) < x.astype(np.float64)).astype(x.dtype)


def _dropout(x: Any, p: float = 0.5, seed: int = 0, offset: int = 0) -> Any:
    import numpy as np

    keep = _words(x.shape, seed, offset) >= round(p * 2**32)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return np.where(keep, x * scale, np.zeros_like(x)), keep


def _like(made: Any) -> Any:
    def reference(x: Any, **options: Any) -> Any:
        return made(x.shape, dtype=x.dtype.name, **options)

    return reference


_SEED = {"seed": 0, "offset": 0}
_SHAPE = {"shape": (1,), "dtype": "float32", **_SEED}
_MADE: Any = {"category": "random", "dtypes": ALL, "examples": lambda shape: []}

ROWS: tuple[KernelSpec, ...] = (
    row("rand", "", plans.floats(plans.unit), "numbers from 0 to below 1, all as likely, "
        "the same for the same seed and offset", _rand,
        aliases="random_uniform", options=_SHAPE, **_MADE),
    row("uniform", "", plans.floats(plans.uniform), "numbers from low to high, all as likely",
        _uniform, options={**_SHAPE, "low": 0.0, "high": 1.0}, tolerance=(1, 1), **_MADE),
    row("randn", "", plans.floats(plans.normal), "normal deviates of a mean and a standard "
        "deviation", _randn, aliases="normal random_normal",
        options={**_SHAPE, "mean": 0.0, "std": 1.0}, tolerance=(16, 16), **_MADE),
    row("rand_like", "x", plans.like(plans.unit), "rand in the form of x", _like(_rand), alike(1),
        options=_SEED, category="random", dtypes=FLOATS, exact=True),
    row("randn_like", "x", plans.like(plans.normal), "randn in the form of x", _like(_randn),
        alike(1), options={**_SEED, "mean": 0.0, "std": 1.0}, tolerance=(16, 16),
        category="random", dtypes=FLOATS, exact=True),
    row("exponential", "", plans.floats(plans.exponential), "-log(u) / rate of numbers u from 0 to "
        "1", _exponential, options={**_SHAPE, "rate": 1.0}, tolerance=(8, 0), **_MADE),
    row("randint", "", plans.randint, "integers from low to below high, all as likely", _randint,
        options={**_SHAPE, "low": 0, "high": 2, "dtype": "int64"}, **_MADE),
    row("randperm", "", plans.randperm, "the integers below n in any order", _randperm,
        options={"n": 1, **_SEED}, **_MADE),
    replace(row("bernoulli", "probability", plans.bernoulli, "1 with the probability that x says, "
        "else 0", _bernoulli, alike(1), options=_SEED, category="random", dtypes=FLOATS),
        exact=True),
    row("dropout", "x", plans.dropout, "x / (1 - p), or 0 with the probability p; and which "
        "elements are kept", _dropout, alike(1), "native_dropout",
        options={"p": 0.5, **_SEED}, tolerance=(4, 0), category="random", dtypes=FLOATS),
)  # fmt: skip
