"""Building bundles: equal bytes, nothing compiled twice, and a compiler that hangs or crashes costs
one kernel. Compiles for NVIDIA, without a GPU."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from operators import layouts, own, sampled, stands_for_others

import xtarget
from xtarget import Target
from xtarget._bundle import reader
from xtarget._bundle.builder import classes as _bundle_classes
from xtarget._bundle.builder.build import Order, build
from xtarget._bundle.builder.orders import wanted
from xtarget._cli.main import cli
from xtarget._kernels import libraries

SM_90 = Target("nvidia", "sm_90")

FILE = """
import os
import time

import triton
import triton.language as tl

{special}


@triton.jit
def {name}(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + 1, mask)
"""

CATALOG = """
from xtarget.spec import Example, Input, KernelSpec, Launch, Output, Plan, cdiv


def make(name):
    def plan(call):
        x = call.array(0)
        out = call.output(x.shape, x.dtype)
        args = {{"x": Input(0), "out": Output(), "n": x.size}}
        block = 128 if name == "narrow" else 1024  # that has one element for each thread
        launch = Launch(f"{{name}}:{{name}}", args, {{"BLOCK": block}}, (cdiv(x.size, block), 1, 1))
        return Plan((out,), (launch,))

    sizes = (64, 63) if name in ("fine", "narrow") else (63,)
    return KernelSpec(name, ("x",), plan, ahead=lambda full: [Example(((n,),)) for n in sizes])


KERNELS = tuple(make(name) for name in {names})
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels `fine`, `narrow`, `wrong`, `hanging` and `crashing` in a library of their own."""
    special = {
        "fine": "",
        "narrow": "",
        "wrong": "",
        "hanging": "time.sleep(1000)",
        "crashing": "print('last words', flush=True)\nos.abort()",
    }
    folder = tmp_path / "library"
    folder.mkdir()
    for name, text in special.items():
        body = FILE.format(special=text, name=name)
        if name == "wrong":
            body = body.replace("+ 1, mask", "+ unknown_name, mask")
        (folder / f"{name}.py").write_text(body)
    (folder / "catalog.py").write_text(CATALOG.format(names=tuple(special)))
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(libraries, "_kernels", dict(libraries._kernels))
    xtarget.load_library(folder)
    return folder


def test_two_builds_from_nothing_give_equal_bytes(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(("fine",), ("float32",), (SM_90, Target("amd", "gfx942")))
    written = []
    for number, workers in enumerate((1, 2)):
        monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / f"cache{number}"))
        path = tmp_path / f"{number}.xtb"
        report = build(order, path, workers=workers, seconds=100)
        assert report.compiled == report.variants == 4  # 2 targets x (all, none)
        assert not report.errors
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_a_second_build_compiles_nothing_and_a_damaged_file_is_written_again(
    library: Path, tmp_path: Path
) -> None:
    order, path = Order(("fine",), ("float32",), (SM_90,)), tmp_path / "a.xtb"
    assert build(order, path, workers=1, seconds=100).compiled == 2
    before = path.read_bytes()
    assert build(order, path, workers=1, seconds=100).up_to_date
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    report = build(order, path, workers=1, seconds=100)
    assert (report.compiled, report.from_cache, report.up_to_date) == (0, 2, False)
    assert path.read_bytes() == before
    (library / "fine.py").write_text((library / "fine.py").read_text() + "# changed\n")
    libraries._libraries.pop(library)
    xtarget.load_library(library)
    assert build(order, path, workers=1, seconds=100).compiled == 2


def entries(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(f"cache/v1/*/*/{pattern}"))


def test_a_build_takes_whole_sections_from_the_cache_and_a_lost_one_from_its_entries(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gfx, path = Target("amd", "gfx942"), tmp_path / "a.xtb"
    both = Order(("fine",), ("float32",), (gfx, SM_90))
    build(replace(both, targets=(SM_90,)), path, workers=1, seconds=100)
    assert build(both, path, workers=1, seconds=100).from_cache == 2  # the section of sm_90
    wanted = path.read_bytes()
    assert len(entries(tmp_path, "bundle-section-*.json")) == 2

    def built_again() -> bytes:
        path.unlink()
        report = build(both, path, workers=1, seconds=100)
        assert (report.variants, report.from_cache, report.compiled) == (4, 4, 0)
        return path.read_bytes()

    for file in entries(tmp_path, "fine-*"):
        file.unlink()  # the sections are enough
    assert built_again() == wanted
    build(replace(both, dtypes=("int32",)), tmp_path / "b.xtb", workers=1, seconds=100)
    assert (tmp_path / "b.xtb").read_bytes() != wanted  # other inputs, other sections
    for mark in entries(tmp_path, "bundle-section-*.bin"):
        mark.write_bytes(b"damaged" + mark.read_bytes()[7:])
    path.unlink()
    assert build(both, path, workers=1, seconds=100).compiled == 4
    assert path.read_bytes() == wanted
    for file in entries(tmp_path, "bundle-section-*"):
        file.unlink()
    assert built_again() == wanted  # from the entries
    monkeypatch.setenv("XTARGET_CACHE", "readonly")
    for file in entries(tmp_path, "bundle-section-*"):
        file.unlink()
    assert built_again() == wanted
    assert not entries(tmp_path, "bundle-section-*")


def test_a_section_that_lacks_a_kernel_is_not_kept(library: Path, tmp_path: Path) -> None:
    order = Order(("fine", "wrong"), ("float32",), (SM_90,))
    assert build(order, tmp_path / "a.xtb", workers=1, seconds=100).errors
    assert not entries(tmp_path, "bundle-section-*")


def test_a_compiler_that_hangs_or_crashes_or_refuses_costs_its_kernel_alone(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xtarget._compile.workers._START_SECONDS", 6.0)
    path = tmp_path / "a.xtb"
    order = Order(("fine", "wrong", "crashing", "hanging"), ("float32",), (SM_90,))
    report = build(order, path, workers=2, seconds=2.0)
    assert report.compiled == 2
    assert len(report.errors) == 3
    said = "\n".join(report.errors)
    assert "hanging for nvidia:sm_90 was given up" in said
    assert "crashing for nvidia:sm_90: its compiler died of SIGABRT" in said
    assert "last words" in said
    assert "wrong.py" in said
    assert "unknown_name" in said
    bundle = reader.Bundle(path)
    assert bundle.kernels == ("fine",)
    monkeypatch.setattr("xtarget._compile.workers._START_SECONDS", 0.5)  # give all of them up soon
    assert not build(order, path, workers=1, seconds=0.5).up_to_date  # what failed is tried again


def test_every_variant_of_a_class_is_built_and_serves_what_it_may(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtb"
    build(Order(("fine",), ("float32",), (SM_90,)), path, workers=1, seconds=100)
    monkeypatch.setattr(reader, "_bundles", {})
    monkeypatch.setattr(reader, "_of_environment", None)
    reader.load_bundle(path)
    (one,) = _bundle_classes.classes(
        libraries.find("fine"), "float32", SM_90, views=False, full=False
    )
    assert one.variants == {(), ("x", "out", "n")}
    for aligned, serves in {
        ("x", "out", "n"): ("x", "out", "n"),
        ("x", "out"): (),
        ("out", "n"): (),
        (): (),
    }.items():
        best = reader.candidates(replace(one.request, aligned=aligned), SM_90)[0]
        assert best.aligned == serves
        assert best.artifact().binary[:4] == b"\x7fELF"


def test_variants_of_equal_code_are_one_that_serves_all(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.xtb"
    assert build(Order(("narrow",), ("float32",), (SM_90,)), path, workers=1, seconds=100).compiled
    (record,) = reader.Bundle(path).file.records(SM_90)
    assert [variant["aligned"] for variant in record["variants"]] == [[]]
    monkeypatch.setattr(reader, "_bundles", {})
    reader.load_bundle(path)
    (one,) = _bundle_classes.classes(
        libraries.find("narrow"), "float32", SM_90, views=False, full=False
    )
    for request in one.requests():
        assert reader.candidates(request, SM_90)[0].artifact().binary[:4] == b"\x7fELF"


def _kernels_and_targets() -> list[Any]:
    """In the short tier each kernel for one of the two."""
    kernels = [name for name, spec in own().items() if spec.ahead]
    targets = ("cpu:spirv64", "nvidia:sm_90")  # in this order matmul takes half as long
    chosen = itertools.cycle(targets)
    short = {name: next(chosen) for name in kernels if stands_for_others(name)}
    return [
        sampled(name, name, target, also=short.get(name) != target)
        for name in kernels
        for target in targets
    ]


@pytest.mark.parametrize(("kernel", "target"), _kernels_and_targets())
def test_the_catalogs_calls_have_their_class_in_what_a_bundle_holds(
    kernel: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of ordinary calls, none of them in `ahead`: each finds its class."""
    from xtarget._launch import planning

    monkeypatch.setattr(planning, "register_bytes", lambda: 0)  # a bundle is for any processor
    # those of the calls below; other devices' take most of the time
    monkeypatch.setattr(_bundle_classes, "COMPUTE_UNITS", (planning.TYPICAL_COMPUTE_UNITS,))
    goal = Target.parse(target)
    registered = libraries.find(kernel)
    if "float32" not in registered.spec.dtypes:
        pytest.skip(f"{kernel} takes no float32")
    built = {
        reader.class_key(one.request)
        for one in _bundle_classes.classes(registered, "float32", goal, views=False, full=True)
    }
    assert registered.spec.examples is not None
    for shape in [(100,), (3, 1000), (64, 4096), (1000, 1024), (17, 33), (2, 3, 640)]:
        if kernel == "matmul" and len(shape) != 2:
            continue
        args = layouts(registered.spec, "float32", shape)
        for request in planning.compile_requests(registered, args, {}, goal):
            assert reader.class_key(request) in built, (shape, request)


# ----------------------------------------------------------------------------------- command line


def xtarget_cli(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, obj={"debug": False})


def test_the_command_line_builds_lists_verifies_and_explains(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.xtb")
    common = ("--target", "nvidia:sm_80,nvidia:sm_90", "--kernel", "fine")
    listed = xtarget_cli("bundle", "build", *common, "--list", "--json")
    classes = json.loads(listed.output)["classes"]
    assert [c["aligned"] for c in classes] == [[[], ["x", "out", "n"]]] * 2
    assert [(c["warps"], c["stages"]) for c in classes] == [(4, 2)] * 2
    built = xtarget_cli("bundle", "build", "-o", path, *common, "--jobs", "1", "--json")
    assert built.exit_code == 0, built.output
    assert json.loads(built.stdout)["compiled"] == 4
    assert "up to date" in xtarget_cli("bundle", "build", "-o", path, *common).output
    assert "4 binaries are as they were written" in xtarget_cli("bundle", "verify", path).output
    contents = json.loads(xtarget_cli("bundle", "ls", path, "--json").output)["contents"]
    assert {row["target"] for row in contents} == {"nvidia:sm_80", "nvidia:sm_90"}
    variants = json.loads(xtarget_cli("bundle", "ls", path, "--variants", "--json").output)
    assert any("PTX from sm_80 on" in row["runs_on"] for row in variants["contents"])
    monkeypatch.setenv("XTARGET_BUNDLES", path)
    monkeypatch.setattr(reader, "_bundles", {})
    monkeypatch.setattr(reader, "_of_environment", None)
    (launch,) = json.loads(
        xtarget_cli("explain", "fine", "--target", "nvidia:sm_86", "--json").output
    )
    assert path in launch["source"]
    assert [offer["form"] for offer in launch["offers"]] == ["family", None]
    assert "sm_90a" in launch["offers"][1]["reason"]


def test_bad_orders_are_said(library: Path, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "a.xtb"))
    assert xtarget_cli("bundle", "build", *out).exit_code == 2
    assert xtarget_cli("bundle", "build", "--target", "h100").exit_code == 2
    for arguments, words in {
        ("--target", "nvidia:sm_13"): "does not know",
        ("--target", "h100", "--kernel", "nothing"): "no kernel 'nothing'",
        ("--target", "h100", "--dtype", "float31"): "not a dtype",
        ("--target", "h100", "--kernel", "softmax", "--dtype", "int8"): "none of softmax takes",
    }.items():
        done = xtarget_cli("bundle", "build", *out, *arguments)
        assert done.exit_code != 0
        assert words in f"{done.output} {done.exception}"
    spec = replace(libraries.find("fine").spec, ahead=None)
    kernel = libraries.find("fine").of(spec)
    with pytest.raises(xtarget.CompileError, match="`ahead`"):
        _bundle_classes.classes(kernel, "float32", SM_90, views=False, full=False)


def test_where_there_is_no_terminal_only_a_long_build_says_how_far_it_is(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the standard error, so that --json stays JSON; also while nothing ends."""
    words = ("bundle", "build", "-o", str(tmp_path / "a.xtb"), "--target", "nvidia:sm_90")
    monkeypatch.setattr("xtarget._compile.bars._EVERY", 3600.0)
    done = xtarget_cli(*words, "--kernel", "fine", "--json")
    assert json.loads(done.stdout)["errors"] == []
    assert done.stderr == ""
    monkeypatch.setattr("xtarget._compile.bars._EVERY", 0.01)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "other"))
    done = xtarget_cli(*words, "--kernel", "fine", "--json")
    assert json.loads(done.stdout)["errors"] == []
    assert re.match(r"bundle build, \d+ s: (looking|\d+ of \d+ variants, )", done.stderr)


def test_a_file_that_cannot_be_written_is_said_before_anything_is_compiled(
    library: Path, tmp_path: Path
) -> None:
    order = Order(("fine",), ("float32",), (SM_90,))
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "a.xtb", tmp_path):
        with pytest.raises(xtarget.XTargetError, match=r"written: (Not a dir|it is a folder)"):
            build(order, path, workers=1, seconds=100)
    assert not entries(tmp_path, "*")


def test_what_compiling_took_is_saved_by_who_finds_it(library: Path, tmp_path: Path) -> None:
    order = Order(("fine",), ("float32",), (SM_90,))
    build(order, tmp_path / "a.xtb", workers=1, seconds=100)
    marks = entries(tmp_path, "fine-*.json")
    assert all(json.loads(p.read_text())["entry"]["compile_seconds"] > 0 for p in marks)


def test_who_looks_for_calls_is_told_which_kernel_is_next() -> None:
    told: list[tuple[int, int, str]] = []
    order = Order(("relu", "softmax"), ("float32",), (SM_90, Target("cpu", "spirv64")))
    found = wanted(order, lambda *given: told.append(given))
    assert [place for place, _, _ in told] == [0, 1, 2, 3]
    assert {total for _, total, _ in told} == {4}
    assert [what for _, _, what in told] == [
        f"the calls of {name} for {target}" for target in found for name in ("relu", "softmax")
    ]
