"""Bundles that somebody made who knows the format: every digest is right, and a member is not what
it should be. Whatever is done with one ends well or in one of our errors, shows no control
character, and takes no memory for what the file says of itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from hostile_bundles import FACTS, GFX, REQUEST, SM_90, artifact, good, sealed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtarget import LoadError, Target
from xtarget._artifacts.entry import DAMAGE, artifact_of, describe
from xtarget._bundle import manifest as shape
from xtarget._bundle import reader
from xtarget._values.errors import XTargetError

pytestmark = pytest.mark.usefixtures("unread_bundles")


def command(*words: str) -> None:
    code = exit_code(*words)
    assert code in (0, 1), (words, code)


def use(path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that a bundle is for. Raises nothing but our errors, and prints what is safe."""
    import contextlib

    targets = [SM_90, GFX, Target("nvidia", "sm_80"), Target("nvidia", "sm_120")]
    with contextlib.suppress(XTargetError):
        bundle = reader.Bundle(path)
        repr(bundle), bundle.targets, bundle.kernels
        for target in targets:
            for request in (REQUEST, replace(REQUEST, aligned=()), replace(REQUEST, num_warps=8)):
                for one in bundle.candidates(request, target):
                    if one.form is not None:
                        with contextlib.suppress(XTargetError):
                            made = one.artifact()
                            assert made.entry.isidentifier()
                            assert made.binary is not None
                with contextlib.suppress(XTargetError):
                    reader._bundles = {path: bundle}
                    reader.why_not(request, target)
                    reader.find(request, target)
        reader._bundles = {}
    capsys.readouterr()
    file, to = str(path), str(folder)
    for words in (
        ("ls", file),
        ("ls", file, "--variants"),
        ("ls", file, "--json"),
        ("ls", file, "--json", "--variants"),
        ("verify", file),
        ("emit-c", file, "-o", to),
        ("emit-c", file, "-o", to, "--driver", "hip"),
        ("emit-c", file, "-o", to, "--kernel", "relu"),
    ):
        command("bundle", *words)
        out, err = capsys.readouterr()
        wrong = [c for c in out + err if not c.isprintable() and c not in "\n"]
        assert not wrong, (words, wrong)
        assert "Traceback" not in err
    for written in folder.glob("*"):
        text = written.read_text()
        assert "\n#error" not in text
        assert "\x1b" not in text


def test_the_bundle_itself_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.xtb"
    path.write_bytes(sealed(good(), FACTS))
    use(path, tmp_path / "c", capsys)
    command("bundle", "verify", str(path))
    assert "2 binaries are as they were written" in capsys.readouterr().out
    (found,) = (reader.Bundle(path).candidates(REQUEST, SM_90),)
    assert next(c.form for c in found if c.target == SM_90) == "exact"
    command("bundle", "emit-c", str(path), "-o", str(tmp_path / "c"))
    assert "1 functions for nvidia:sm_90" in capsys.readouterr().out


TEXTS = (
    "\x1b[2J\x1b]0;title\x07",
    "*/\n#error x\n/*",
    "*\\\n/ #error",
    '"\n#error y\n"',
    "\u202egnp.exe",
    "\ud800",
    "../../etc/passwd",
    "a\0b",
    "",
    "é",
    "x" * 70_000,
)
ODD = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 1.5, -0.0]),
    st.sampled_from([float("nan"), float("inf"), [], {}, [[]], [None], [1], {"a": 1}]),
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=6,
    ),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in items:
        yield from paths(each, (*path, name))


def mutate(draw: Any, whole: Any) -> None:
    """Replace, remove, rename or add something anywhere."""
    where = draw(st.sampled_from(list(paths(whole))))
    holder = whole
    for name in where[:-1]:
        holder = holder[name]
    match draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "add"])):
        case "remove":
            del holder[where[-1]]
        case "rename" if isinstance(holder, dict):
            holder[draw(st.sampled_from(TEXTS))] = holder.pop(where[-1])
        case "add" if isinstance(holder, dict):
            holder[draw(st.sampled_from(TEXTS))] = draw(ODD)
        case _:
            holder[where[-1]] = draw(ODD)


def check_one(data: st.DataObject, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections, facts = good(), copy.deepcopy(FACTS)
    rows = [row for section in sections for row in section["rows"]]
    spoil = lambda manifest: manifest  # noqa: E731
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 2))):
            mutate(data.draw, rows)
        for section, row in zip(sections, (rows[:1], rows[1:]), strict=True):
            section["rows"] = row
    else:

        def spoil(manifest: Any) -> Any:
            mutate(data.draw, manifest)
            return manifest

    path = folder / "a.xtb"
    path.unlink(missing_ok=True)
    path.write_bytes(sealed(sections, facts, spoil))
    use(path, folder / "c", capsys)


@pytest.mark.parametrize("count", [60, pytest.param(6000, marks=pytest.mark.long)])
def test_no_member_of_another_kind_gets_through(
    count: int, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        check_one(data, tmp_path_factory.mktemp("x"), capsys)

    check()


@pytest.mark.parametrize(
    "entry", [*TEXTS, "1a", "a-b", "a b", 'x", 0}; int main', "a;b", None, 1, "é" * 3]
)
def test_an_entry_is_a_c_identifier_or_refused(entry: Any, tmp_path: Path) -> None:
    facts = {**describe(artifact(SM_90, None)), "entry": entry}
    with pytest.raises(DAMAGE, match="C identifier"):  # as the cache reads it
        artifact_of(facts, target=SM_90, binary=b"")
    sections = good()
    sections[0]["rows"][0]["variants"][0]["artifact"]["entry"] = entry
    path = tmp_path / "a.xtb"
    path.write_bytes(sealed(sections, FACTS))
    bundle = reader.Bundle(path)
    with pytest.raises(LoadError, match="C identifier"):
        next(c for c in bundle.candidates(REQUEST, SM_90) if c.target == SM_90).artifact()


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_no_text_of_a_bundle_becomes_c(text: str, tmp_path: Path) -> None:
    """Names that go into comments."""
    from xtarget._bundle.builder.c_source import _comment

    shown = _comment(f"left out: {text}")
    assert shown.startswith("/* ")
    assert shown.endswith(" */")
    assert "*/" not in shown[2:-2]
    assert "\\" not in shown
    assert shown.isprintable()


def test_a_section_that_somebody_put_into_the_cache_is_checked() -> None:
    target, mark_ = "nvidia:sm_90", {"offset": 0, "size": 0, "raw": 0, "sha256": "0" * 64}
    right: dict[str, Any] = {
        "target": target,
        "count": 0,
        "dictionary": mark_,
        "table": mark_,
        "kernels": {},
    }
    shape.check_section(right, SM_90)
    odd = (None, 1, "x", [], {"a": 1}, True, -1, 10**30)
    for name in right:
        for value in odd:
            if (name, value) != ("count", 1):
                with pytest.raises(ValueError, match=r"."):
                    shape.check_section({**right, name: value}, SM_90)
    with pytest.raises(ValueError, match=r"."):
        shape.check_section({**right, "more": 1}, SM_90)
