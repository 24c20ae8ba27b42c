"""Artifacts that are kept to be loaded again."""

from __future__ import annotations

from artifacts import sample_artifact

from xtarget._compile.residency import FunctionKey, Shelf
from xtarget._values.types import CompileRequest, KernelSource


def test_the_youngest_of_so_many_bytes_are_kept() -> None:
    made = sample_artifact(b"binary")
    shelf = Shelf(3 * len(made.binary))
    for key in range(5):
        shelf.put(key, made)
    shelf.put(3, made)
    assert [shelf.take(key) is made for key in range(5)] == [False, False, True, True, True]
    assert shelf.take(3) is None
    shelf = Shelf(1)
    shelf.put("large", made)
    assert shelf.take("large") is made  # one at least


def test_a_functions_key_is_the_pair_of_device_and_specialization() -> None:
    source = KernelSource("add", "digest", "add.py", lambda: None)
    request = CompileRequest(source, (("x", "*fp32"),))
    key, again = FunctionKey("cpu:0", request), FunctionKey("cpu:0", request)
    assert key == again == ("cpu:0", request)
    assert hash(key) == hash(again) == hash(("cpu:0", request))
    assert {key: 1}[again] == 1
    name, wanted = key
    assert (name, wanted) == ("cpu:0", request)
    assert key != FunctionKey("cpu:1", request)
