"""Our own catalog by families: a look-up imports the files of one, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from operators import own_names

import xtarget
from xtarget._kernels import libraries


def printed(code: str) -> Any:
    """The JSON that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys, xtarget\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "family"),
    [("softmax", "normalizations"), ("RealDiv", "arithmetic"), ("np.exp", "powers")],
)
def test_a_look_up_imports_the_rows_of_one_family(name: str, family: str) -> None:
    files = printed(
        "from xtarget._kernels import libraries\n"
        f"libraries.find({name!r})\n"
        "parts = [name.partition('.')[2] for name in sys.modules if 'xtarget_kernels_' in name]\n"
        "print(json.dumps([part for part in parts if part.startswith('operators.')]))"
    )
    families = json.loads((libraries.own_folder() / "names.json").read_text()).keys()
    assert {name.removeprefix("operators.") for name in files} & families == {family}


def test_names_are_known_before_the_rows_are_loaded() -> None:
    count, loaded = printed(
        "count = len([name for name in xtarget.catalog()])\n"
        "loaded = [name for name in sys.modules if '.operators.' in name]\n"
        "print(json.dumps([count, [n for n in loaded if not n.endswith('.refused')]]))"
    )
    assert count == len(own_names()) > 300
    assert loaded == []


def test_names_are_listed_without_what_describes_and_reads_kernels() -> None:
    loaded = printed("len(xtarget.catalog())\nprint(json.dumps(list(sys.modules)))")
    needless = {"xtarget.spec", "xtarget._kernels.library_code", "numpy", "triton"}
    assert needless.isdisjoint(loaded)


def test_the_catalog_is_a_mapping_of_all_kernels() -> None:
    catalog: Any = xtarget.catalog()
    assert list(catalog) == sorted(catalog)
    assert dict(catalog).keys() == catalog.keys()
    assert catalog["add"] is libraries.find("add").spec
    assert "add" in catalog
    assert not {"no_such_kernel", None} & set(catalog)
    assert catalog.get("no_such_kernel") is None
    with pytest.raises(TypeError):
        catalog["add"] = catalog["sub"]


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As before the first look-up of any of our kernels."""
    monkeypatch.setattr(libraries, "_kernels", {})
    monkeypatch.setattr(libraries, "_listed", dict(libraries._listed))
    monkeypatch.setattr(libraries, "_keywords", {})
    libraries._load_unlisted.cache_clear()
    yield
    libraries._load_unlisted.cache_clear()


def test_a_replaced_kernel_stays_when_its_family_is_loaded(unloaded: None) -> None:
    sub = libraries.find("neg")
    mine = replace(sub.spec, name="add", aliases=())
    libraries._kernels.clear()
    libraries.register(mine, sub.source, "mine")
    assert libraries.find("sub").origin == str(libraries.own_folder())  # of the family of add
    assert libraries.find("add").spec is mine
    assert xtarget.catalog()["add"] is mine


def test_a_kernel_that_is_replaced_while_a_call_looks_up_its_words(
    unloaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = libraries.find("sum")
    mine = replace(row.spec, aliases=(), words={"mine": "axis"})
    replacing = threading.Thread(target=libraries.register, args=(mine, row.source, "mine"))
    found = libraries.find

    def slow(name: str) -> libraries.RegisteredKernel:
        kernel = found(name)
        if replacing.ident is None:
            replacing.start()
            replacing.join(0.1)
        return kernel

    monkeypatch.setattr(libraries, "find", slow)
    assert libraries.keywords("sum")["dim"] == "axis"
    replacing.join()
    assert libraries.keywords("sum")["mine"] == "axis"
    assert "dim" not in libraries.keywords("sum")


def test_a_row_that_the_list_of_names_lacks_is_found(unloaded: None) -> None:
    xtarget.catalog()
    del libraries._listed["softmax"]
    assert libraries.find("softmax").spec.name == "softmax"


def test_own_kernels_are_the_same_by_family_and_as_a_whole() -> None:
    library = libraries._libraries[libraries.own_folder()]
    by_family = [spec for family in library.names() for spec in library.family(family)]
    whole = library.specs()
    assert [spec.name for spec in by_family] == [spec.name for spec in whole]
    assert [spec.aliases for spec in by_family] == [spec.aliases for spec in whole]
