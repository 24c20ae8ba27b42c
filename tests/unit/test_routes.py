"""The order of routes, what comes in the place of one that fails, and what the key says of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import xtarget
from xtarget._cli.routes import table
from xtarget._compile import functions, keys, routes
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._values.errors import ArgumentError, CompileError, NoCompilerError
from xtarget._values.types import Artifact, CompileRequest, KernelSource, Target

DOCS = Path(__file__).parents[2] / "docs"
CPU = Target("cpu", "spirv64")
REQUEST = CompileRequest(KernelSource("k", "0" * 64, "k.py", lambda: None), ())


@dataclass
class Compiles:
    """A route that gives an artifact, or fails, or refuses."""

    name: str
    fails: CompileError | None = None
    refuses: str = ""
    fingerprint: str = "tools"
    asked: int = field(default=0)

    def archs(self) -> tuple[str, ...]:
        return ("spirv64",)

    def refusal(self, request: CompileRequest, target: Target) -> str:
        return self.refuses

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return Artifact(target, "cl", "k", b"k()", 1, 16, 0, (), route=self.name)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Compiles]:
    """Triton's place and two routes."""
    found = {name: Compiles(name) for name in ("triton", "opencl", "other")}
    monkeypatch.setattr(routes.registry, "compiler", lambda vendor: found["triton"])
    monkeypatch.setattr(routes.registry, "routes", lambda vendor: (found["opencl"], found["other"]))
    monkeypatch.setattr(routes, "_warned", set())
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    return found


def made(request: CompileRequest = REQUEST) -> str:
    return functions.artifact(request, CPU).route


def test_triton_is_first_and_no_other_route_is_asked(given: dict[str, Compiles]) -> None:
    assert made() == "triton"
    assert not given["opencl"].asked


def test_where_triton_is_missing_the_first_route_that_can_serves(
    given: dict[str, Compiles],
) -> None:
    given["triton"].fails = NoCompilerError("no compiler is installed.")
    given["opencl"].refuses = "it has a loop."
    assert made() == "other"
    given["other"].refuses = "it has a branch."
    with pytest.raises(
        NoCompilerError, match=r"no compiler.*opencl cannot serve it: it has a loop.*other cannot"
    ):
        made(replace(REQUEST, num_warps=8))


def test_an_error_in_the_source_is_tritons_word_alone(given: dict[str, Compiles]) -> None:
    given["triton"].fails = CompileError("k.py:3: wrong.")
    with pytest.raises(CompileError, match=r"^k\.py:3: wrong\.$"):
        made()
    assert not given["opencl"].asked


def test_a_named_route_that_fails_is_followed_by_the_next_with_one_warning(
    given: dict[str, Compiles], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", "opencl,triton")
    given["opencl"].fails = CompileError("k.cl:7: wrong.")
    with caplog.at_level(logging.WARNING, "xtarget"):
        assert made() == "triton"
        assert made(replace(REQUEST, num_warps=8)) == "triton"
    (warning,) = [r.message for r in caplog.records if "route" in r.message]
    assert "opencl has failed for k" in warning
    assert "k.cl:7: wrong." in warning
    caplog.clear()
    monkeypatch.setattr(routes, "_warned", set())
    monkeypatch.setenv("XTARGET_ROUTES", "opencl")  # there is no next one to warn of
    with pytest.raises(CompileError, match=r"^k\.cl:7: wrong\.$"):
        made(replace(REQUEST, num_warps=16))
    assert not caplog.records
    monkeypatch.setenv("XTARGET_ROUTES", "strict,opencl,triton")
    with pytest.raises(CompileError, match=r"k\.cl:7"):
        made(replace(REQUEST, num_warps=2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "opencl,fortran",
            "names 'fortran', which is not a route. There are opencl, other, triton, and the words "
            "host and strict",
        ),
        ("opencl,opencl", "is not a list of names"),
        ("open cl", "is not a list of names"),
    ],
)
def test_a_wrong_list_of_routes_is_said_in_a_sentence(
    given: dict[str, Compiles], monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("XTARGET_ROUTES", value)
    with pytest.raises(ArgumentError, match=message):
        made()


def test_binaries_of_two_routes_have_two_keys(
    given: dict[str, Compiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made() == "triton"
    monkeypatch.setenv("XTARGET_ROUTES", "opencl")
    assert made() == "opencl"
    assert made() == "opencl"
    assert given["opencl"].asked == 1  # the second is of the cache, which says its route
    given["opencl"].fingerprint = "newer tools"
    made()
    assert given["opencl"].asked == 2
    parts = [keys.key_parts(REQUEST, CPU, "tools", route) for route in ("", "opencl")]
    assert [part for part in parts[1] if part not in parts[0]] == [("route", "opencl")]


def test_the_table_has_each_operator_with_each_route_of_each_vendor() -> None:
    """Every row says of every route that it serves, or why it does not."""
    specs = [spec for name, spec in xtarget.catalog().items() if libraries.own(name)]
    head, rows, counts = table(specs)
    assert [row[0] for row in rows] == [spec.name for spec in specs]
    assert set(counts) == {"nvidia:sm_90", "amd:gfx942", "intel:spirv64", "cpu:spirv64"}
    further = {"nvidia": "nvrtc", "amd": "hip", "intel": "template", "cpu": "opencl"}
    for target, count in counts.items():
        vendor = target.partition(":")[0]
        served = [row[head.index(target)].split(", ") for row in rows]
        assert all(words[0] == "triton" for words in served)
        assert sum(further[vendor] in words for words in served) > 180
        assert sum(len(words) > 1 for words in served) == count
        known = {"triton", *(route.name for route in registry.routes(vendor))}
        assert {word for words in served for word in words} == known
    assert counts["nvidia:sm_90"] == counts["amd:gfx942"]
    cpu = head.index("cpu:spirv64")
    templates = sum("template" in row[cpu] for row in rows)
    page = " ".join((DOCS / "how-to" / "routes.md").read_text().split())
    figures = (
        f"for each element, whatever the dtypes and layouts are: {templates} operators",
        f"{counts['cpu:spirv64']} of {len(rows)} can on the CPU, "
        f"{counts['nvidia:sm_90']} on NVIDIA and AMD",
    )
    assert [figure for figure in figures if figure not in page] == [], "for docs/how-to/routes.md"
    by_triton_alone = [row for row in rows if set(row[2:-1]) == {"triton"}]
    assert by_triton_alone
    assert all(row[-1] for row in by_triton_alone), "the last column says why"
