"""`config=`: a caller asks for the numbers of a kernel of the library."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from command_line import here

pytest.importorskip("triton")

import xtarget
from xtarget import ArgumentError, CompileError
from xtarget._devices import registry
from xtarget.spec import ArrayType

X = np.random.default_rng(3).standard_normal((40, 70), dtype=np.float32)
LAYOUT = ArrayType("float32", (512, 512), (512, 1))
GPU = "nvidia:sm_90"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))


@pytest.fixture
def cpu() -> str:
    if not any(info.vendor == "cpu" for info in xtarget.devices()):
        pytest.skip("no OpenCL CPU run time")
    return str(registry.find_device("cpu"))


def test_a_call_has_the_numbers_that_it_asks_for(cpu: str) -> None:
    for config in ({"m": 4, "n": 16}, "n=16, m=4", {"n": np.int64(16), "m": 4}):
        found = xtarget.run("matmul", X, X.T, device=cpu, config=config)
        np.testing.assert_allclose(found, X @ X.T, rtol=1e-4, atol=1e-4)
    launch = xtarget.get("add").prepare(X, X, device=cpu, config={"block": 256})
    np.testing.assert_array_equal(launch(), X + X)
    for nothing in ({}, None):
        np.testing.assert_array_equal(xtarget.run("neg", X, device=cpu, config=nothing), -X)


def test_each_configuration_is_a_binary_of_its_own() -> None:
    layout = LAYOUT

    def made(config: Any) -> Any:
        (artifact,) = xtarget.compile("add", layout, layout, target=GPU, config=config)
        return artifact

    usual, same = made(None), made({"block": 1024})
    assert usual.binary == same.binary  # what the call takes anyway
    other = made({"block": 512, "num_warps": 2})
    assert other.block[0] == 64
    assert other.binary not in (usual.binary, made({"block": 512}).binary)
    (softmax,) = xtarget.compile("softmax", layout, target=GPU, config={"num_warps": 2})
    assert softmax.block[0] == 64  # its plan asks for no warps
    (tiles,) = xtarget.compile(
        "matmul", layout, layout, target=GPU, config={"m": 32, "n": 64, "k": 32, "num_warps": 4}
    )
    assert tiles.block[0] == 128


def test_explain_says_who_asked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explain", "add", "--target", GPU, "--option", "config=block=512", "--json")
    code, out, _ = here(capsys, *words)
    assert code == 0
    (launch,) = json.loads(out)
    (choice,) = launch["choices"]
    assert (choice["how"], choice["by"]) == ("asked for", "config=")
    assert choice["is"].startswith("block=512, ")
    assert "BLOCK=512" in str(launch["constants"])


def test_what_a_reference_compares_has_no_configuration(
    cpu: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "add", "--shape", "8x8", "--device", cpu, "--check")
    code, out, _ = here(capsys, *words, "--option", "config=block=256")
    assert code == 0, out


@pytest.mark.parametrize(
    ("name", "config", "says"),
    [
        ("add", {"blok": 8}, r"asks for blok, which this call does not have. It has block, "),
        ("add", {"block": 100}, "asks for block=100, which cannot serve this call"),
        ("add", {"block": 0}, "Give a whole number from 1 on"),
        ("add", {"block": 10**12}, "Give a whole number from 1 on"),
        ("add", {"block": 2.5}, "'block': 2.5. Give numbers and words by name"),
        ("add", {"block": "1,x=2"}, "Give numbers and words by name"),
        ("add", {1: 2}, "1: 2. Give numbers and words by name"),
        ("add", {"num_warps": 3}, "num_warps=3. Give a power of two from 1 to 32"),
        ("add", "block", "config='block' is not known. Give numbers by name"),
        ("add", 4, "config=4 is not known"),
        ("add", X, r"config=array\(.* is not known"),
        ("matmul", {"way": "magic"}, r"way=magic. This call can have .*tiles.* there"),
        ("matmul", {"m": 4096}, "m=4096, which cannot serve this call"),
        ("flip", {"tile": 8}, "tile, which this call does not have. It has num_warps, num_stages"),
    ],
)
def test_what_a_call_cannot_have_is_said(name: str, config: Any, says: str) -> None:
    args = [LAYOUT] * (1 if name == "flip" else 2)
    with pytest.raises(ArgumentError, match=says) as caught:
        xtarget.compile(name, *args, target=GPU, config=config)
    assert "\n" not in str(caught.value)


def test_a_configuration_that_does_not_compile_is_told_in_a_sentence() -> None:
    says = r"add cannot be made with block=2097152, which config= asks for \(.*numel.*\)\. Give"
    with pytest.raises(CompileError, match=says) as caught:
        xtarget.compile("add", LAYOUT, LAYOUT, target=GPU, config={"block": 1 << 21})
    assert "\n" not in str(caught.value)


def test_what_has_no_configuration_takes_none(cpu: str) -> None:
    for name in ("softmax", "neg"):  # of which one has the number among its choices
        with pytest.raises(ArgumentError, match="a CPU computes a block in one thread"):
            xtarget.run(name, X, device=cpu, config={"num_warps": 4})
    with pytest.raises(ArgumentError, match="is no kernel, so config= says nothing of it"):
        xtarget.run("add", X, X, impl="host", config={"block": 256})
    with pytest.raises(ArgumentError, match=r"has config=. Within a fused function"):
        xtarget.fuse(lambda a: xtarget.run("exp", a, config={"block": 256}) + 1)(X)
