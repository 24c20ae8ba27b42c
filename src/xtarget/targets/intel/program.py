"""SYCL kernels: the user's process loads machine code that a child process made, because devices'
compilers crash or hang on some modules. dpctl itself takes only SPIR-V. Where there is no way
around that (`machine_code`), each module is built once in a child before it is built in the user's
process, and the cache records that it was. This costs one more build when a module is new on the
machine, and nothing later.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import dpctl
import dpctl.program

from ..._values.errors import LoadError
from ..._values.types import Artifact, DeviceInfo
from .._host.machine import cpu_identity, find_library_file
from .._host.opencl_icd import compilers
from .._workers.jit import Jit
from .machine_code import find_route
from .status import check

__all__ = ["CODE", "Loader", "build_kernel", "expect_build", "is_zebin", "native_key", "proof_of"]

#: Behind a device's `native_key`, for the child: make machine code, and load it.
CODE = " | machine code"
_MAGIC = b"XTSYCLOK"
_DIGEST_BYTES = 32

_jit = Jit("xtarget.targets.intel.jit")


def native_key(device: dpctl.SyclDevice) -> str:
    """Return the identity of a device and its run time, for code built there."""
    parts = [device.filter_string, device.name.strip(), device.driver_version.strip()]
    if device.is_cpu:
        parts.append(cpu_identity(("CL_CONFIG_",), compilers=compilers()))
    elif (igc := find_library_file("libigc.so.1")) is not None:
        # the name that it has without links tells the version: libigc.so.1.0.12504.6
        real = Path(igc).resolve()
        parts.append(f"{real.name} {real.stat().st_size if real.is_file() else -1}")
    return " | ".join(parts)


def proof_of(spirv: bytes, options: str) -> bytes:
    """Return the header kept for a built module; its machine code follows if there is any."""
    return _MAGIC + hashlib.sha256(options.encode() + b"\0" + spirv).digest()


def is_zebin(binary: bytes) -> bool:
    return binary.startswith(b"\x7fELF")


def _kept(proof: bytes, code: bytes) -> bytes:
    return proof + (hashlib.sha256(code).digest() + code if code else b"")


def _read(native: bytes | None, proof: bytes) -> bytes | None:
    """Return the machine code in a kept record, empty if it has none; None if the record is damaged
    or belongs to another module.
    """
    if native is None or not native.startswith(proof):
        return None
    digest, code = native[len(proof) :][:_DIGEST_BYTES], native[len(proof) + _DIGEST_BYTES :]
    if not digest:
        return b""
    return code if code and hashlib.sha256(code).digest() == digest else None


def build_kernel(
    queue: dpctl.SyclQueue, spirv: bytes, entry: str, options: str
) -> dpctl.program.SyclKernel:
    """Compile SPIR-V to the device's machine code."""
    program = dpctl.program.create_program_from_spirv(queue, spirv, options)
    return program.get_sycl_kernel(entry)


def expect_build() -> None:
    """Have the child load the run time while the caller goes on."""
    _jit.start()


class Loader:
    """Loads the modules of one device."""

    def __init__(self, queue: dpctl.SyclQueue, key: str, info: DeviceInfo) -> None:
        """`key` is the device's `native_key`."""
        self._queue, self._key, self._info = queue, key, info
        self._route = find_route(queue)
        self._route_works = False
        self._proven: set[bytes] = set()

    def load(
        self, artifact: Artifact, zebin: bytes, options: str, native: bytes | None
    ) -> tuple[dpctl.program.SyclKernel, bytes]:
        """A kernel, and what to keep of its module.

        Args:
            artifact: SPIR-V.
            zebin: machine code that was compiled from it, may be empty, and of another device.
            options: of the device's compiler.
            native: what was kept.

        Raises:
            LoadError: it does not build.
        """
        what = f"{artifact.entry} cannot be loaded on {self._info.name} ({self._info.product})"
        proof, route = proof_of(artifact.binary, options), self._route
        code = _read(native, proof)
        if code is None and proof in self._proven:
            code = b""
        if code and route is not None:
            try:
                return route.load(code, artifact.entry, options), _kept(proof, code)
            except LoadError:
                code = None  # another driver's: the contract says to build the SPIR-V instead
        if code is None:
            code = self._in_child(what, artifact, zebin, options)
            if code and route is not None:
                return route.load(code, artifact.entry, options), _kept(proof, code)
            self._proven.add(proof)
        else:  # its driver gives no machine code away, so each process compiles
            from .._triton.frozen import check_machine_code

            check_machine_code(artifact.entry, self._info.name)
        with check(what, LoadError):
            kernel = build_kernel(self._queue, artifact.binary, artifact.entry, options)
        return kernel, proof

    def _in_child(self, what: str, artifact: Artifact, zebin: bytes, options: str) -> bytes:
        """Machine code, which a child has loaded; empty where it could only build the SPIR-V."""
        if self._route is not None:
            for binary in filter(None, (zebin, artifact.binary)):
                try:
                    code = _jit.build(what, self._key + CODE, binary, artifact.entry, options)
                except LoadError:
                    # it may be the way that does not work here, until it once has
                    if self._route_works and binary is artifact.binary:
                        raise
                else:
                    self._route_works = True
                    return code
        _jit.build(what, self._key, artifact.binary, artifact.entry, options)
        return b""
