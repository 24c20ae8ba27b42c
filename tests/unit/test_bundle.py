"""The variant of a bundle that serves a request, and why the others do not."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from artifacts import sample_artifact

from xtarget import Artifact, LoadError, Target, UntrustedError
from xtarget._artifacts.compatibility import fit, portable_fit
from xtarget._bundle import reader
from xtarget._bundle.builder.classes import Class
from xtarget._bundle.builder.sections import section_of
from xtarget._bundle.writer import write_bundle
from xtarget._cli.bundle import list_bundle
from xtarget._compile import functions
from xtarget._compile.workers import Job
from xtarget._values.errors import FrozenError, NoCompilerError
from xtarget._values.types import CompileRequest, KernelSource
from xtarget.targets.nvidia.compatibility import portable_arch

ROOT = Path(__file__).resolve().parents[2]
REQUEST = CompileRequest(
    source=KernelSource("add", "ab" * 32, "kernels/elementwise.py", lambda: None),
    signature=(("a", "*fp32"), ("n", "i32"), ("BLOCK", "constexpr")),
    constants=(("BLOCK", 1024),),
    aligned=("a", "n"),
)


def artifact(target: Target, request: CompileRequest, ptx: str | None) -> Artifact:
    text = f"{target} {request.aligned} {request.constants}"
    return sample_artifact(
        text.encode() * 10,
        target=target,
        texts={} if ptx is None else {"ptx": f".version 8.0\n.target {ptx}\n// {text}"},
    )


def make(path: Path, *made: tuple[str, CompileRequest, str | None]) -> Path:
    """A bundle of (target, request, target line of the PTX)."""
    sections: dict[Target, Any] = {}
    for text, request, ptx in made:
        target = Target.parse(text)
        one = Class("elementwise:add", "/library", replace(request, aligned=()))
        one.kernels.add(("add", "float32"))
        job = Job(target, "/library", "elementwise:add", request)
        sections.setdefault(target, []).append((job, one, artifact(target, request, ptx)))
    path.write_bytes(write_bundle({"made_by": "t"}, [section_of(*s) for s in sections.items()]))
    return path


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_bundles", {})
    monkeypatch.setattr(reader, "_of_environment", None)
    monkeypatch.delenv("XTARGET_BUNDLES", raising=False)
    monkeypatch.delenv("XTARGET_TRUST", raising=False)


def found(target: str, request: CompileRequest = REQUEST) -> tuple[str, str, bytes] | None:
    best = reader.find(request, Target.parse(target))
    return None if best is None else (str(best.target), best.format, best.binary)


def test_an_artifact_comes_back_as_it_was_built(tmp_path: Path) -> None:
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None)))
    back = reader.find(REQUEST, Target("nvidia", "sm_90"))
    assert back == artifact(Target("nvidia", "sm_90"), REQUEST, None)


def test_the_exact_arch_wins_then_the_family_then_the_portable_form(tmp_path: Path) -> None:
    every = [("nvidia:sm_80", "sm_80"), ("nvidia:sm_86", "sm_86"), ("nvidia:sm_90", "sm_90a")]
    reader.load_bundle(make(tmp_path / "a.xtb", *((t, REQUEST, p) for t, p in every)))
    forms = {
        target: (found(target) or ("", "", b""))[:2]
        for target in ("nvidia:sm_75", "nvidia:sm_80", "nvidia:sm_89", "nvidia:sm_90", "nvidia:100")
    }
    assert forms == {
        "nvidia:sm_75": ("", ""),
        "nvidia:sm_80": ("nvidia:sm_80", "cubin"),
        "nvidia:sm_89": ("nvidia:sm_86", "cubin"),
        "nvidia:sm_90": ("nvidia:sm_90", "cubin"),
        "nvidia:100": ("nvidia:sm_86", "ptx"),
    }


def test_the_portable_form_is_the_text_itself(tmp_path: Path) -> None:
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_80", REQUEST, "sm_80")))
    text = artifact(Target("nvidia", "sm_80"), REQUEST, "sm_80").texts["ptx"]
    assert found("nvidia:sm_120") == ("nvidia:sm_80", "ptx", text.encode())


def test_the_variant_that_assumes_most_of_what_is_true_is_taken(tmp_path: Path) -> None:
    made = [replace(REQUEST, aligned=aligned) for aligned in ((), ("a",), ("a", "n"))]
    reader.load_bundle(make(tmp_path / "a.xtb", *(("nvidia:sm_90", r, None) for r in made)))
    for true, assumed in {
        ("a", "n"): ("a", "n"),
        ("a",): ("a",),
        ("n",): (),
        (): (),
    }.items():
        request = replace(REQUEST, aligned=true)
        best = reader.candidates(request, Target("nvidia", "sm_90"))[0]
        assert best.aligned == assumed
        assert f"{assumed}".encode() in best.artifact().binary


def test_what_assumes_more_than_is_true_never_serves(tmp_path: Path) -> None:
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None)))
    assert found("nvidia:sm_90", replace(REQUEST, aligned=("n",))) is None
    (only,) = reader.candidates(replace(REQUEST, aligned=("n",)), Target("nvidia", "sm_90"))
    assert "multiples of 16" in only.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": replace(REQUEST.source, digest="cd" * 32)}, "another source"),
        ({"source": replace(REQUEST.source, name="sub")}, "has no sub"),
        ({"signature": (("a", "*fp64"),)}, "no such specialization"),
        ({"signature": (("a", "*fp16"), ("b", "*fp32"))}, "of fp16 and fp32.* convert one"),
        ({"constants": (("BLOCK", 256),)}, "no such specialization"),
        ({"num_warps": 8}, "no such specialization"),
        ({"num_stages": 5}, "no such specialization"),
        ({"line_info": True}, "no such specialization"),
        ({"options": (("maxnreg", 64),)}, "no such specialization"),
    ],
)
def test_whatever_changes_the_binary_is_another_one(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None)))
    request = replace(REQUEST, **changes)
    assert found("nvidia:sm_90", request) is None
    (only,) = reader.candidates(request, Target("nvidia", "sm_90"))
    assert re.search(reason, only.reason)


def test_a_frozen_process_says_why_the_bundle_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None)))
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(FrozenError, match=r"BLOCK=7.*a\.xtb does not serve it .*no such special"):
        functions.artifact(
            replace(REQUEST, constants=(("BLOCK", 7),)), Target("nvidia", "sm_90"), bundled=True
        )


@pytest.mark.parametrize(
    ("made", "here", "specific", "form"),
    [
        ("nvidia:sm_80", "nvidia:sm_86", False, "family"),
        ("nvidia:sm_86", "nvidia:sm_80", False, None),
        ("nvidia:sm_80", "nvidia:sm_90", False, None),
        ("nvidia:sm_80", "nvidia:sm_87", False, None),
        ("nvidia:sm_90", "nvidia:sm_90", True, "exact"),
        ("nvidia:sm_100", "nvidia:sm_103", True, None),
        ("amd:gfx942", "amd:gfx942", False, "exact"),
        ("amd:gfx1100", "amd:gfx1101", False, None),
        ("intel:spirv64", "cpu:spirv64", False, None),
        ("cpu:spirv64", "cpu:spirv64", False, "exact"),
    ],
)
def test_only_what_a_vendor_guarantees_counts_as_fitting(
    made: str, here: str, specific: bool, form: str | None
) -> None:
    got, reason = fit(Target.parse(made), Target.parse(here), specific)
    assert got == form
    assert bool(reason) == (form is None)


def test_ptx_is_portable_unless_its_target_has_a_letter() -> None:
    assert portable_arch(".version 8.0\n.target sm_80\n") == "sm_80"
    assert portable_arch(".target sm_80, debug") == "sm_80"
    assert portable_arch(".target sm_90a") is None
    assert portable_arch(".target sm_100f") is None
    assert portable_arch("// no target") is None
    here = Target("nvidia", "sm_90")
    assert portable_fit(Target("nvidia", "sm_80"), "sm_80", here) is None
    assert "newer" in (portable_fit(Target("nvidia", "sm_100"), "sm_100", here) or "")
    assert "no portable" in (portable_fit(here, None, here) or "")


def test_the_variable_names_bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(tmp_path / "a.xtb", ("nvidia:sm_80", REQUEST, "sm_80"))
    second = make(tmp_path / "b.xtb", ("nvidia:sm_90", REQUEST, None))
    monkeypatch.setenv("XTARGET_BUNDLES", f"{first}:{second}")
    assert [b.path for b in reader.loaded()] == [first, second]
    got = found("nvidia:sm_90")
    assert got is not None  # the exact one of the second, not the PTX of the first
    assert got[0] == "nvidia:sm_90"
    monkeypatch.setenv("XTARGET_BUNDLES", str(tmp_path / "none.xtb"))
    with pytest.raises(LoadError, match=r"none\.xtb"):
        found("nvidia:sm_90")


def test_without_a_compiler_the_error_says_what_the_bundles_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoCompiler:
        fingerprint = ""

        def compile(
            self, request: CompileRequest, target: Target, *, keep_stages: bool = False
        ) -> Artifact:
            raise NoCompilerError("no compiler is installed.")

    monkeypatch.setattr("xtarget._devices.registry.compiler", lambda vendor: NoCompiler())
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    reader.load_bundle(make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None)))
    assert functions.artifact(REQUEST, Target("nvidia", "sm_90"), bundled=True).entry == "add"
    with pytest.raises(NoCompilerError):  # compiling is not running: no bundle stands in for it
        functions.artifact(REQUEST, Target("nvidia", "sm_90"))
    with pytest.raises(NoCompilerError, match=r"not for amd:gfx942: it has nvidia:sm_90"):
        functions.artifact(REQUEST, Target("amd", "gfx942"), bundled=True)
    with pytest.raises(NoCompilerError, match=r"no such specialization"):
        functions.artifact(replace(REQUEST, num_warps=1), Target("nvidia", "sm_90"), bundled=True)


def test_a_damaged_binary_is_an_error_with_the_file_and_no_silent_compile(tmp_path: Path) -> None:
    path = make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None))
    bundle = reader.load_bundle(path)
    record = next(bundle.file.records(Target("nvidia", "sm_90")))
    mark = record["variants"][0]["binary"]
    data = bytearray(path.read_bytes())
    data[bundle.file.sections[Target("nvidia", "sm_90")].start + mark["offset"]] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    with pytest.raises(LoadError, match=r"a\.xtb"):
        found("nvidia:sm_90")


def test_records_are_what_the_schema_says(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "bundle-manifest.schema.json").read_text())
    bundle = reader.Bundle(make(tmp_path / "a.xtb", ("nvidia:sm_80", REQUEST, "sm_80")))
    record = next(bundle.file.records(Target("nvidia", "sm_80")))
    jsonschema.validate(record, {"$ref": "#/$defs/record", "$defs": schema["$defs"]})


# ------------------------------------------------------------------------------------- signatures


def test_a_signature_is_asked_for_where_trust_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, None))
    trust = tmp_path / "keys"
    trust.write_text("ab" * 32 + "  # somebody\n")
    monkeypatch.setenv("XTARGET_TRUST", str(trust))
    with pytest.raises(LoadError, match="not signed"):
        reader.load_bundle(path)


@pytest.mark.skipif(
    importlib.util.find_spec("cryptography") is None, reason="cryptography is not installed"
)
def test_only_what_a_trusted_key_signed_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    from xtarget._bundle.signing import signer

    private = Ed25519PrivateKey.generate()
    pem = tmp_path / "key.pem"
    pem.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    data = write_bundle({"made_by": "t"}, [], signer(pem))
    path, trust = tmp_path / "a.xtb", tmp_path / "keys"
    monkeypatch.setenv("XTARGET_TRUST", str(trust))
    public = private.public_key().public_bytes_raw().hex()
    trust.write_text(f"# ours\n{public}\n")
    path.write_bytes(data)
    assert reader.Bundle(path).signer == public
    shown = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    trust.write_bytes(shown)
    assert reader.Bundle(path).signer == public
    trust.write_text("ab" * 32)
    with pytest.raises(LoadError, match="does not name"):
        reader.Bundle(path)
    trust.write_text(public)
    for at in (len(data) - 1, len(data) - 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(LoadError, match="not one of its content"):
            reader.Bundle(path)
    trust.write_text("no key")
    with pytest.raises(UntrustedError, match="64 hexadecimal digits"):
        reader.Bundle(path)


def test_the_list_has_the_sizes_of_each_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(
        tmp_path / "a.xtb", ("nvidia:sm_90", REQUEST, "sm_80"), ("amd:gfx942", REQUEST, None)
    )
    list_bundle(str(path), False, True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["packed_by"] == "zlib"
    amd, nvidia = sorted(facts["targets"], key=lambda one: str(one["target"]))
    made = artifact(Target("amd", "gfx942"), REQUEST, None)
    assert (amd["target"], amd["unpacked"]) == ("amd:gfx942", len(made.binary))
    made = artifact(Target("nvidia", "sm_90"), REQUEST, "sm_80")
    assert nvidia["unpacked"] == len(made.binary) + len(made.texts["ptx"])
    for one in (amd, nvidia):
        assert 0 < one["packed"] < one["bytes"] < path.stat().st_size
    list_bundle(str(path), False, False)
    assert "amd:gfx942: " in capsys.readouterr().out


@pytest.mark.parametrize("path", [3, None, b"a.xtb", "a\0b"])
def test_a_path_that_is_none_is_a_sentence(path: Any) -> None:
    with pytest.raises(LoadError, match="a bundle is given by its path, not by"):
        reader.load_bundle(path)
