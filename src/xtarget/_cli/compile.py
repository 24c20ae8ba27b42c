"""`xtarget compile` and `xtarget show`: binaries and compiler stages, without a GPU."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import xtarget

from .._system.output import write_output
from .._system.tools import find_tool
from .._values.errors import (
    ArgumentError,
    CompileError,
    NoCompilerError,
    UnknownTargetError,
    XTargetError,
)
from .._values.types import Artifact, Target
from .arguments import Inputs, choose_inputs
from .base import echo
from .tables import echo_wrapped
from .values import CallOptions

__all__ = ["compile_kernel", "show_kernel"]

_SUFFIX = {"spirv": "spv"}
#: Text that is written beside the binary.
_BESIDE = {"cubin": "ptx"}
#: Where each vendor keeps what `--stage asm` shows.
_ASM = ("ptx", "amdgcn")


def _compile(inputs: Inputs, target: Target, *, keep_stages: bool) -> tuple[Artifact, ...]:
    artifacts: tuple[Artifact, ...] = xtarget.compile(
        inputs.spec.name, *inputs.args, target=target, keep_stages=keep_stages, **inputs.options
    )
    return artifacts


def _manifest(artifact: Artifact, file: str, arguments: str) -> dict[str, Any]:
    """All that is known of an artifact but its bytes; nothing depends on where it was made, or on
    how long that took."""
    facts = asdict(artifact)
    del facts["binary"], facts["texts"], facts["stage_seconds"]
    return {
        **facts,
        "target": str(artifact.target),
        "block": list(artifact.block),
        "file": file,
        "size": len(artifact.binary),
        "sha256": hashlib.sha256(artifact.binary).hexdigest(),
        "arguments": arguments,
    }


def compile_kernel(
    kernel: str,
    targets: Sequence[str],
    folder: str,
    call_options: CallOptions,
    as_json: bool,
) -> None:
    """Compile and write; print what was written. A target that fails keeps no other from being
    tried.

    Raises:
        CompileError: one for all targets that failed.
        ArgumentError: the folder cannot be made or written to.
    """
    parsed = list(dict.fromkeys(Target.parse(text) for text in targets))
    inputs = choose_inputs(kernel, call_options)
    into = Path(folder)
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"the folder {folder} cannot be made: {error.strerror or error}. Choose another with "
            "-o."
        ) from error
    archs = [target.arch for target in parsed]
    written = []
    failed: list[XTargetError] = []
    for target in parsed:
        vendor = f"{target.vendor}-" if archs.count(target.arch) > 1 else ""
        try:
            try:
                artifacts = _compile(inputs, target, keep_stages=True)
            except NoCompilerError:  # the cache, a bundle, or a compile server may have it
                artifacts = _compile(inputs, target, keep_stages=False)
        except (CompileError, UnknownTargetError) as error:
            failed.append(error)
            continue
        for number, artifact in enumerate(artifacts, 1):
            stem = f"{kernel}-{vendor}{target.arch}" + (f".{number}" if len(artifacts) > 1 else "")
            file = f"{stem}.{_SUFFIX.get(artifact.format, artifact.format)}"
            manifest = _manifest(artifact, file, inputs.describe())
            write_output(into / file, artifact.binary)
            beside = _BESIDE.get(artifact.format, "")
            if beside in artifact.texts:
                write_output(into / f"{stem}.{beside}", artifact.texts[beside].encode())
            write_output(into / f"{stem}.json", json.dumps(manifest, indent=2).encode() + b"\n")
            written.append(manifest)
            if not as_json:
                echo_wrapped(
                    f"{into / file}  {target}  {len(artifact.binary)} bytes  {_usage(artifact)}"
                )
    if failed and as_json and written:  # one document only: the error says what was written
        files = ", ".join(str(into / manifest["file"]) for manifest in written)
        failed.append(CompileError(f"Written for the other targets: {files}."))
        raise CompileError("\n".join(str(error) for error in failed)) from failed[0]
    if as_json and not failed:
        echo(json.dumps(written, indent=2))
    if len(failed) == 1:
        raise failed[0]
    if failed:
        texts = "\n".join(str(error) for error in failed)
        raise CompileError(f"{len(failed)} of {len(parsed)} targets failed:\n{texts}") from failed[
            0
        ]


# ------------------------------------------------------------------------------------------- show


def _usage(artifact: Artifact) -> str:
    """`4 warps x 32, 12 registers, 0 spilled, 512 B shared`."""
    resources = artifact.resources
    parts = [f"{artifact.num_warps} x {artifact.warp_size} threads"]
    if resources.registers is not None:
        parts.append(f"{resources.registers} registers")
    if resources.spilled_registers is not None:
        parts.append(f"{resources.spilled_registers} spilled")
    parts.append(f"{artifact.shared_bytes} B shared")
    return ", ".join(parts)


def _resources(artifact: Artifact) -> dict[str, Any]:
    return {
        "entry": artifact.entry,
        "target": str(artifact.target),
        "format": artifact.format,
        "size": len(artifact.binary),
        "block": list(artifact.block),
        "num_warps": artifact.num_warps,
        "warp_size": artifact.warp_size,
        "shared_bytes": artifact.shared_bytes,
        "global_scratch": asdict(artifact.global_scratch),
        **asdict(artifact.resources),
        "parameters": [asdict(p) for p in artifact.parameters],
    }


def _disassemble(binary: bytes) -> str:
    tool = find_tool("spirv-dis")
    if tool is None:
        raise CompileError(
            "the text of a SPIR-V module is written by spirv-dis, which is not on the PATH. "
            "Install it with: apt install spirv-tools (Debian, Ubuntu) or dnf install spirv-tools "
            "(Fedora); or look at --stage llir."
        )
    done = subprocess.run([tool, "-"], input=binary, capture_output=True, check=False, timeout=60)
    if done.returncode:
        raise CompileError(
            f"spirv-dis refuses the module: {done.stderr.decode(errors='replace').strip()}. "
            "Please report it with the kernel's name and `xtarget doctor --report FILE`."
        )
    return done.stdout.decode()


def _stage(artifact: Artifact, stage: str) -> str:
    if stage == "asm":
        for name in _ASM:
            if name in artifact.texts:
                return artifact.texts[name]
        if artifact.format == "spirv":
            return _disassemble(artifact.binary)
    elif stage in artifact.texts:
        return artifact.texts[stage]
    raise CompileError(
        f"the compiler for {artifact.target} keeps no stage {stage!r}; it keeps "
        f"{', '.join(artifact.texts) or 'none'}. Choose another --stage."
    )


def show_kernel(
    kernel: str,
    target: str,
    stage: str,
    call_options: CallOptions,
    as_json: bool,
) -> None:
    """Compile and print one stage of every launch, or what the binaries use."""
    parsed = Target.parse(target)
    inputs = choose_inputs(kernel, call_options)
    artifacts = _compile(inputs, parsed, keep_stages=True)
    if stage == "resources":
        facts = [_resources(artifact) for artifact in artifacts]
        if as_json:
            echo(json.dumps(facts, indent=2))
            return
        for fact in facts:
            for name, value in fact.items():
                if name == "parameters":
                    value = ", ".join(
                        f"{p['name']}: {p['type']}" + (" (hidden)" if p["hidden"] else "")
                        for p in value
                    )
                elif name == "global_scratch":
                    value = f"{value['nbytes']} bytes a block"
                text = "not told by this format" if value is None else str(value)
                echo(f"{name:24}{text}")
        return
    texts = [(a.entry, _stage(a, stage)) for a in artifacts]
    if as_json:
        echo(json.dumps([{"entry": e, "stage": stage, "text": t} for e, t in texts]))
        return
    for number, (entry, text) in enumerate(texts, 1):
        if len(texts) > 1:
            echo(f"// launch {number} of {len(texts)}: {entry}")
        echo(text)
