"""Artifacts that are kept to be loaded again."""

from __future__ import annotations

from artifacts import sample_artifact

from xtarget._compile.residency import Shelf


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
