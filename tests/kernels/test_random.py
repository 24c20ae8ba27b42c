"""Random numbers: Philox's words on every device, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import own, sample
from oracle import check, compare, expected

import xtarget
from xtarget._arrays.dtypes import numpy_dtype

FLOATS = ("float16", "bfloat16", "float32", "float64")
SEED = 0x0123456789ABCDEF


def _philox(*counter: int, key: tuple[int, int]) -> tuple[int, ...]:
    """Philox 4x32-10 of one counter, in Python's integers, by its paper."""
    c, k = list(counter), list(key)
    for _ in range(10):
        one, two = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(two >> 32) ^ c[1] ^ k[0], two % 2**32, (one >> 32) ^ c[3] ^ k[1], one % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return tuple(c)


def test_the_words_are_those_that_are_published() -> None:
    """Source: the known answers of Random123 (kat_vectors)."""
    ones = 2**32 - 1
    assert _philox(0, 0, 0, 0, key=(0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert _philox(ones, ones, ones, ones, key=(ones, ones)) == (
        *(0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    )


def _words(seed: int, offset: int, groups: int) -> Any:
    key = (seed % 2**32, seed >> 32)
    rows = [_philox(c % 2**32, c >> 32, 0, 0, key=key) for c in range(offset, offset + groups)]
    return np.array(rows, np.uint64)


@pytest.mark.parametrize("offset", [2**32 - 3, pytest.param(0, marks=pytest.mark.large)])
def test_integers_and_uniform_numbers_are_the_words(device: str, offset: int) -> None:
    """Bit for bit; the counter goes past 32 bits, and the last group is not full."""
    words = _words(SEED, offset, 9)
    given = {"seed": SEED, "offset": offset, "device": device}
    found = xtarget.run("rand", shape=(5, 7), **given)
    right = (words.reshape(-1)[:35] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    np.testing.assert_array_equal(found.reshape(-1).astype(np.float64), right)
    wide = (words.reshape(-1, 2)[:, 0] << np.uint64(32)) | words.reshape(-1, 2)[:, 1]
    found = xtarget.run("rand", shape=(17,), dtype="float64", **given)
    np.testing.assert_array_equal(found, (wide[:17] >> np.uint64(11)) * 2.0**-53)
    found = xtarget.run("randint", shape=(17,), low=-(2**63), high=0, **given)
    np.testing.assert_array_equal(
        found - np.int64(-(2**63)), (wide[:17] >> np.uint64(1)).astype(np.int64)
    )


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "rand": [{}],
    "uniform": [{"low": -1.0, "high": 3.5}],
    "randn": [{"mean": 2.0, "std": 0.5}],
    "exponential": [{"rate": 2.5}],
}


def _floats() -> list[Any]:
    short = {("rand", "float16"), ("rand", "bfloat16"), ("uniform", "float32"),
             ("randn", "float32"), ("randn", "float64"), ("exponential", "float32")}  # fmt: skip
    return [
        pytest.param(name, dtype, marks=[] if (name, dtype) in short else [pytest.mark.long])
        for name in OPTIONS
        for dtype in FLOATS
    ]


@pytest.mark.sample(3, each=("name", "dtype"))
@pytest.mark.parametrize(("name", "dtype"), _floats())
def test_numbers_of_every_dtype(device: str, name: str, dtype: str) -> None:
    for options in OPTIONS[name]:
        given = {"shape": (3, 333), "dtype": dtype, "seed": SEED, "offset": 5, **options}
        found = xtarget.run(name, device=device, **given)
        assert found.dtype == numpy_dtype(dtype)
        compare(name, found, expected(name, [], given))


def test_they_are_spread_as_they_should() -> None:
    """By the references, which the devices are compared with."""
    catalog = own()
    made = {n: catalog[n].reference for n in ("rand", "randn", "exponential", "randint")}
    big: Any = {"shape": (200_000,), "seed": 3}
    for name, mean, deviation in (("rand", 0.5, 12**-0.5), ("randn", 0, 1), ("exponential", 1, 1)):
        x = made[name](**big)
        assert abs(x.mean() - mean) < 0.01
        assert abs(x.std() - deviation) < 0.01
    counts = np.bincount(made["randint"](**big, low=0, high=7), minlength=7)
    assert np.abs(counts / 200_000 - 1 / 7).max() < 0.005


@pytest.mark.parametrize("dtype", ["int8", "uint64", pytest.param("int32", marks=pytest.mark.long)])
def test_integers_of_a_range(device: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    for low, high in ((0, 7), (int(info.min), int(min(info.max, 2**63 - 2)) + 1)):
        check("randint", shape=(4, 33), low=low, high=high, dtype=dtype, seed=9, device=device)
        found = xtarget.run("randint", shape=(999,), low=low, high=high, dtype=dtype, device=device)
        assert int(found.min()) >= low
        assert int(found.max()) < high


@pytest.mark.parametrize("n", [1, 100, pytest.param(5000, marks=pytest.mark.large)])
def test_permutations(device: str, n: int) -> None:
    found = check("randperm", n=n, seed=SEED, device=device)
    np.testing.assert_array_equal(np.sort(found), np.arange(n))


def test_dropout_keeps_what_its_mask_says(device: str) -> None:
    """Elements are numbered in the order of their indices, whatever the layout is."""
    x = sample("float32", 6, 50)
    for view in (x, np.asfortranarray(x), x[::-1, ::2]):
        value, kept = check("dropout", view, p=0.3, seed=SEED, device=device)
        np.testing.assert_array_equal(value == 0, ~kept | (view == 0))
    for p, share in ((0.0, 1), (1.0, 0)):
        value, kept = xtarget.run("dropout", x, p=p, device=device)
        assert kept.mean() == share
        np.testing.assert_array_equal(value, x * share)


@pytest.mark.large
def test_tosses(device: str) -> None:
    x = np.linspace(0, 1, 300, dtype=np.float32).reshape(3, 100)
    found = check("bernoulli", x.T, seed=4, device=device)
    assert found[0, 0] == 0
    assert found[-1, -1] == 1


def test_the_same_call_gives_the_same_and_another_offset_goes_on(device: str) -> None:
    first = xtarget.run("rand", shape=(64,), seed=5, device=device)
    np.testing.assert_array_equal(first, xtarget.run("rand", shape=(64,), seed=5, device=device))
    rest = xtarget.run("rand", shape=(32,), seed=5, offset=8, device=device)
    np.testing.assert_array_equal(first[32:], rest)
    assert (first != xtarget.run("rand", shape=(64,), seed=6, device=device)).any()


def test_a_result_in_the_callers_memory(device: str) -> None:
    out = np.zeros((40, 3), np.float32).T
    xtarget.run("rand", shape=(3, 40), seed=2, out=out, device=device)
    np.testing.assert_array_equal(out, xtarget.run("rand", shape=(3, 40), seed=2, device=device))
    assert xtarget.run("randn", shape=(0, 3), device=device).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "args", "options", "said"),
    [
        ("rand", [], {"seed": -1}, "seed is -1; it has to be from 0 to"),
        ("rand", [], {"seed": 2**64}, "seed=18446744073709551616 is not of 64 bits with a sign"),
        ("rand", [], {"seed": 0.5}, "seed is 0.5; it has to be an integer"),
        ("rand", [], {"dtype": "int32"}, "dtype is 'int32'; it has to be one of float16"),
        ("rand", [], {"shape": (-1,)}, "no length may be below 0"),
        ("uniform", [], {"low": 2.0, "high": 1.0}, "low is the smaller"),
        ("uniform", [], {"high": float("inf")}, "high is inf; it has to be a finite number"),
        ("randn", [], {"std": -1.0}, "std is -1.0; it may not be below 0"),
        ("exponential", [], {"rate": 0.0}, "rate is 0.0; it has to be above 0"),
        ("randint", [], {"low": 3, "high": 3}, "from 3 to below 3 are not integers"),
        ("randint", [], {"high": 300, "dtype": "int8"}, "are not integers of int8"),
        ("randperm", [], {"n": -1}, "n is -1; it may not be below 0"),
        ("dropout", [np.zeros(3)], {"p": 1.5}, "p is 1.5; it has to be from 0 to 1"),
    ],
)
def test_bad_input_is_said_in_a_sentence(
    device: str, name: str, args: Any, options: Any, said: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=said):
        xtarget.run(name, *args, device=device, **options)
