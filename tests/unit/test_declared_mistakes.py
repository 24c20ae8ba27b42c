"""Mistakes in the arguments of `@xtarget.kernel`: each is said at once, in a sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")


import xtarget
from xtarget._kernels import libraries
from xtarget.spec import (
    Out,
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outputs": ["out"]}, "outputs are .* a mapping"),
        ({"dtypes": "float32"}, "a tuple of names"),
        ({"dtypes": ("float3",)}, "no dtype 'float3'"),
        ({"inputs": "x"}, "a tuple of names"),
        ({"constants": {"BLOCK": [4]}}, "its constant 'BLOCK' is .*function of the call"),
        ({"options": {"maxreg": 32}}, "an option 'maxreg'. Did you mean maxnreg"),
        ({"updates": ("y",)}, "y of updates is none of its inputs"),
    ],
)
def test_a_mistake_in_a_declaration_is_said_at_once(given: Any, message: str) -> None:
    class Jitted:
        arg_names = ("x", "out", "BLOCK")
        cache_key = "0" * 64
        __name__ = "mistaken"
        fn, params = None, ()

    declared = {"inputs": ("x",), "outputs": {"out": "x"}, "grid": lambda c: (1,), **given}
    with pytest.raises(xtarget.XTargetError, match=message):
        xtarget.kernel(**declared)(Jitted())


#: Each kind of value, wrong and right; what fits a parameter is left out below.
KINDS: dict[str, Any] = {
    "none": None,
    "text": "a",
    "empty": "",
    "bytes": b"x",
    "3": 3,
    "zero": 0,
    "negative": -1,
    "huge": 2**70,
    "float": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
    "false": False,
    "()": (),
    "(1,)": (1,),
    "('a',)": ("a",),
    "[]": [],
    "{}": {},
    "set": {"x"},
    "generator": (name for name in ("x",)),
    "object": object(),
    "function": len,
    "numpy": np.float32(2),
    "array": np.array([1, 2]),
}
FLAG = {"true", "false"}
NUMBERS = {"3", "zero", "negative", "huge", "float", "nan", "inf", "true", "false", "numpy", "none"}
SEQUENCE, MAPPING, CALLED = {"()", "[]"}, {"none", "{}"}, {"none", "function"}
#: By parameter: what it takes of these. The sentence has the parameter's name.
TAKES: dict[str, set[str]] = {
    "inputs": SEQUENCE | MAPPING,
    "updates": SEQUENCE,
    "outputs": MAPPING,
    "grid": {"function", "text", "3", "zero", "(1,)"},
    "sizes": MAPPING,
    "constants": MAPPING,
    "options": MAPPING,
    "complete": FLAG,
    "strided": FLAG,
    "elementwise": FLAG,
    "in_place": FLAG,
    "scalars": {*SEQUENCE, "{}"},
    "flags": MAPPING,
    "workspaces": MAPPING,
    "configs": SEQUENCE,
    "key": SEQUENCE,
    "prune": CALLED,
    "examples": CALLED,
    "num_warps": {"function"},
    "num_stages": {"3", "zero", "function"},
    "dtypes": set(),
    "reference": CALLED,
    "name": {"none", "text"},
    "summary": {"none", "text", "empty"},
    "init": NUMBERS,
    "maxnreg": {"none", "3"},
    "enable_fp_fusion": FLAG,
    "lanes": {"text", "empty"},
}


class Mistaken:
    arg_names = ("x", "out", "BLOCK")
    cache_key = "0" * 64
    __name__ = "mistaken"
    __qualname__ = "mistaken"
    fn, params = None, ()


def declared(**given: Any) -> Any:
    known = {"inputs": ("x",), "outputs": {"out": "x"}, "grid": lambda c: (1,)}
    return xtarget.kernel(**{**known, **given})(Mistaken())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameter", TAKES)
def test_every_parameter_refuses_every_wrong_kind(
    parameter: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "register", lambda *_: None)
    value = KINDS[kind]
    given = {parameter: value}
    if parameter == "init":
        given = {"outputs": {"out": Out("x", init=value)}}
    elif parameter in ("maxnreg", "enable_fp_fusion", "lanes"):
        given = {"options": {parameter: value}}
    if kind in TAKES[parameter]:
        declared(**{"outputs": {}, **given} if parameter == "inputs" else given)
        return
    with pytest.raises(xtarget.XTargetError) as raised:
        declared(**given)
    said = str(raised.value)
    assert parameter in said
    assert said.endswith(".")
    assert len(said) < 700


@pytest.mark.parametrize("part", ["outputs", "sizes", "constants", "options"])
@pytest.mark.parametrize("name", [None, 3, b"x", (), 1.5])
def test_a_mapping_names_parameters_by_text(part: str, name: Any) -> None:
    value: Any = {"outputs": "x", "sizes": len, "constants": 1, "options": 1}[part]
    with pytest.raises(xtarget.XTargetError, match=r"which is not text|has an option"):
        declared(**{part: {name: value}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": ("x", "x")}, "'x' is named twice in inputs"),
        ({"outputs": {"x": "x"}}, "'x' is named in inputs and outputs"),
        ({"constants": {"out": 1}}, "'out' is named in outputs and constants"),
        ({"num_warps": 6}, "num_warps is 6"),
        ({"num_warps": 2048}, "num_warps is 2048"),
        ({"num_stages": 10**6}, "num_stages is 1000000"),
        ({"options": {"num_ctas": 0}}, "num_ctas is 0. Give a whole number from 1"),
    ],
)
def test_a_value_out_of_range_or_twice(given: Any, message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=message):
        declared(**given)


def test_a_list_of_names_is_taken_as_it_is_now() -> None:
    names = ["x"]
    decorate = xtarget.kernel(inputs=names, outputs={"out": "x"}, grid=lambda c: (1,))
    names.append("y")
    decorate(Mistaken())  # type: ignore[type-var]
    assert libraries.find("mistaken").spec.inputs == ("x", "BLOCK")


def test_a_wrapper_that_is_not_known_is_refused() -> None:
    class Wrapper:
        arg_names = ("x", "out")

    with pytest.raises(xtarget.XTargetError, match=r"not a Wrapper: leave it out"):
        xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid=lambda c: 1)(Wrapper())
