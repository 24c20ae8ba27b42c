"""Plans, specs and examples that are wrong are named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("triton")


import xtarget
from xtarget import spec
from xtarget._kernels import libraries
from xtarget._launch.staging import pattern_of

X = spec.ArrayType("float32", (1000,), (1,))
_ARRAY = spec.ArrayType("float32", (4,), (1,))
#: With parts of wrong types, which no type checker is asked about.
_plan: Any = spec.Plan
_replaced: Any = replace
_example: Any = spec.Example
_register: Any = libraries.register
_SIZED = {"x": spec.Input(0), "out": spec.Output(), "n": 4}
_MAPS = {"x": spec.Descriptor(("n",), (), (64,))}
_LAUNCH = spec.Launch("kernels:negate", {"x": spec.Input(0), "out": spec.Output()}, {}, (1, 1, 1))


def _result(value: Any) -> Any:
    """Return the value; raise it if it is an exception."""
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (None, "gave None"),
        (_plan([_ARRAY], ()), "has outputs"),
        (spec.Plan((spec.ArrayType("float3", (4,), (1,)),), ()), "no known layout"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, grid=(1, 1)),)), "three integers"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, args={"x": spec.Input(3)}),)), "only 1 of these"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, args={"x": "x"}),)), "not an argument"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, grid=(1, 1, -1)),)), "three integers"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, grid=(1, True, 1)),)), "three integers"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, source=3),)), "not text"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, num_warps="4"),)), "num_warps is '4'"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, num_warps=3),)), "num_warps is 3"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, num_stages=-1),)), "num_stages is -1"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, options={"maxnreg": "a"}),)), "maxnreg is 'a'"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, options={"maxreg": 3}),)), "Did you mean maxnreg"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, options=None),)), "not a mapping"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, constants={"B": len}),)), "the constant B"),
        (
            spec.Plan((_ARRAY,), (replace(_LAUNCH, args={"x": spec.Scalar(1, "float3")}),)),
            "of a dtype",
        ),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, descriptors=("x",)),)), "descriptors that are not"),
        (_plan((_ARRAY,), (_replaced(_LAUNCH, descriptors={"x": 3}),)), "3 of x, which is none"),
        (spec.Plan((_ARRAY,), (replace(_LAUNCH, descriptors=_MAPS),)), "of x, which is none"),
        (
            spec.Plan(
                (_ARRAY,),
                (replace(_LAUNCH, args=_SIZED, descriptors=_MAPS, options={"num_ctas": 2}),),
            ),
            "descriptors and num_ctas=2.* Make the descriptors in the kernel",
        ),
        (
            spec.Plan(
                (_ARRAY,),
                (
                    replace(
                        _LAUNCH,
                        args=_SIZED,
                        descriptors=_MAPS,
                        options={"launch_cooperative_grid": True},
                    ),
                ),
            ),
            "launch_cooperative_grid=True",
        ),
        (spec.Plan((_ARRAY,), (_LAUNCH,), init=(0, 1)), "has init"),
        (_plan((_ARRAY,), (_LAUNCH,), init=("0",)), "as init of output 0"),
        (spec.Plan((spec.ArrayType("float32", (-4,), (1,)),), ()), "no known layout"),
        (_plan((spec.ArrayType("float32", (1.5,), (1,)),), ()), "no known layout"),
        (KeyError("axis"), "cannot be planned"),
        (ZeroDivisionError("n"), "cannot be planned"),
    ],
)
def test_a_plan_that_is_wrong_is_named(plan: Any, message: str) -> None:
    wrong = spec.KernelSpec("wrong.plan", ("x",), lambda call: _result(plan))
    _register(wrong, lambda text: None, "")
    with pytest.raises(xtarget.ArgumentError, match=f"wrong.plan.*{message}"):
        xtarget.compile("wrong.plan", X, target="nvidia:sm_90")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("inputs", "x", "a tuple of names"),
        ("dtypes", "float32", "a tuple of names"),
        ("plan", 5, "its plan is 5"),
        ("options", ["axis"], "its options is"),
        ("scalars", ("alpha",), "none of its inputs"),
        ("name", 3, "has the name 3"),
        ("name", " ", "has the name ' '"),
        ("inputs", ("x", "x"), "named twice"),
        ("dtypes", (), "takes no array at all"),
        ("complete", 3, "its complete is 3"),
        ("elementwise", "a", "its elementwise is 'a'"),
        ("reference", 3, "its reference is 3"),
        ("ahead", 3, "its ahead is 3"),
        ("c", 3, "its c is 3"),
        ("category", None, "its category is None"),
        ("summary", 3, "its summary is 3"),
    ],
)
def test_a_spec_that_is_wrong_is_named(part: str, value: Any, message: str) -> None:
    from xtarget._kernels.checks import check_spec

    wrong = spec.KernelSpec("wrong.spec", ("x",), lambda call: spec.Plan((), ()))
    with pytest.raises(xtarget.XTargetError, match=message):
        check_spec(replace(wrong, **{part: value}))


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (3, "no calls: TypeError"),
        (None, "no calls: TypeError"),
        ("ab", "not an xtarget.spec.Example"),
        ([None], "not an xtarget.spec.Example"),
        ([_example("ab")], "not a tuple of shapes"),
        ([_example((3,))], "not a tuple of shapes"),
        ([_example(((4.5,),))], "not a tuple of shapes"),
        ([spec.Example(((-4,),))], "not a tuple of shapes"),
        ([spec.Example(((True,),))], "not a tuple of shapes"),
        ([spec.Example(((2**70,),))], "not a tuple of shapes"),
        ([spec.Example(())], "has 0 shapes"),
        ([spec.Example(((4,), (4,)))], "has 2 shapes"),
        ([_example(((4,),), options=3)], "options are not a mapping"),
        ([spec.Example(((4,),), {"axes": 1})], "no option 'axes'"),
        ([spec.Example(((4,),), dtypes=("int63",))], "dtypes are not a tuple of dtypes' names"),
        ([_example(((4,),), dtypes="int32")], "dtypes are not a tuple of dtypes' names"),
        (ZeroDivisionError("n"), "no calls: ZeroDivisionError: n"),
    ],
)
def test_calls_to_build_for_that_are_none_are_named(calls: Any, message: str) -> None:
    from xtarget._bundle.builder.build import Order, wanted

    wrong = spec.KernelSpec(
        "wrong.ahead", ("x",), lambda call: spec.Plan((), ()), ahead=lambda full: _result(calls)
    )
    _register(wrong, lambda text: None, "")
    order = Order(("wrong.ahead",), ("float32",), (xtarget.Target("nvidia", "sm_90"),))
    with pytest.raises(xtarget.XTargetError, match=f"wrong.ahead: its ahead gave .*{message}"):
        wanted(order)


@pytest.mark.parametrize("init", [-1, 2, 1.5, math.nan, math.inf, 2**70])
def test_a_bool_begins_as_one_of_two(init: float) -> None:
    array = spec.ArrayType("bool", (4,), (1,))
    with pytest.raises(xtarget.ArgumentError, match="which does not fit into bool"):
        pattern_of("k", 0, init, array)
    assert [pattern_of("k", 0, one, array) for one in (0, 1, False, True)] == [b"\0", b"\1"] * 2
