"""The environment variables that xtarget reads: one table, from which the manual's is made."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from . import environment_parsing as parse
from .environment_parsing import Parse

__all__ = ["VARIABLES", "Variable"]


class Variable(NamedTuple):
    """An environment variable.

    Attributes:
        means: for the manual, in Markdown.
        read: when it is read, so from when on a change counts; for the manual.
        parse: from its text to its value; ValueError with the end of a sentence.
        unset: its value where it is not set, or empty.
        there: raises a ValueError where what it names does not exist. The command line asks.
    """

    means: str
    parse: Parse
    unset: Any = None
    there: Parse | None = None
    read: str = "each kernel that is not loaded"


#: What sizes begin at.
_LEAST_BYTES: Final = 1 << 20

VARIABLES: Final[dict[str, Variable]] = {
    "XTARGET_DEVICE": Variable(
        "the device for data that lies on none: `nvidia:1`, `cpu`",
        parse.text,
        read="each call",
    ),
    "XTARGET_CACHE_DIR": Variable("the cache's folder", parse.path),
    "XTARGET_CACHE": Variable(
        "`readwrite` (as if not set), `readonly` or `off`",
        parse.choice("readwrite", "readonly", "off", folder="XTARGET_CACHE_DIR"),
        "readwrite",
    ),
    "XTARGET_CACHE_SIZE": Variable(
        "its cap: `500M`, `2GiB` (as if not set), `none`",
        parse.nbytes(_LEAST_BYTES, instead="XTARGET_CACHE=off keeps nothing."),
        2 << 30,
    ),
    "XTARGET_CACHE_PATH": Variable(
        "read-only cache folders that are asked first, separated by `:`", parse.folders, ()
    ),
    "XTARGET_CACHE_SHARED": Variable(
        "1 uses cache folders that others may write", parse.boolean, False
    ),
    "XTARGET_CACHE_WAIT": Variable(
        "seconds that another process may take for the same kernel (120)",
        parse.seconds(120, least=0),
        120.0,
    ),
    "XTARGET_CACHE_REMOTE": Variable(
        "the remote store: `redis://host/0`, `https://host/cache`, `s3://bucket/cache`", parse.store
    ),
    "XTARGET_CACHE_REMOTE_WRITE": Variable(
        "1 stores there what is compiled here", parse.boolean, False
    ),
    "XTARGET_CACHE_REMOTE_SECONDS": Variable(
        "seconds that it may take to answer (2)", parse.seconds(2), 2.0
    ),
    "XTARGET_CACHE_AUDIT": Variable(
        "the share of hits that xtarget compiles again and compares (0.01 is one in a hundred)",
        parse.fraction,
        0.0,
    ),
    "XTARGET_TRUST": Variable(
        "a file of Ed25519 public keys: cache entries and bundles not signed by one of them are "
        "refused",
        parse.path,
        there=parse.file,
    ),
    "XTARGET_SIGN": Variable(
        "a file with the private key for signing entries", parse.path, there=parse.file
    ),
    "XTARGET_ROUTES": Variable(
        "the ways to a binary, in the order in which they are tried: `opencl,triton`. The word "
        "`strict` makes it an error when one fails; else the next one serves, and a warning says "
        "so. The word `host` has NumPy's reference serve what cannot be compiled. Not set: "
        "`triton`, then those of the vendor that need no Triton",
        parse.names,
        (),
    ),
    "XTARGET_LOCK": Variable(
        "a file that `xtarget lock` wrote: any binary that is not in it is refused, by libxtarget "
        "too",
        parse.path,
        there=parse.file,
    ),
    "XTARGET_COMPILE": Variable(
        "`allow` (as if not set), `warn` or `error`, when a kernel has to be compiled",
        parse.choice("allow", "warn", "error"),
        "allow",
    ),
    "XTARGET_COMPILE_SECONDS": Variable(
        "seconds of processor time that compiling one kernel may take, all stages of Triton "
        "included; it is then compiled in a child process, in Triton's own launching for SPIR-V "
        "all but the front end. Not set: no limit for Triton's stages",
        parse.seconds(60),
    ),
    "XTARGET_COMPILE_SERVER": Variable(
        "who compiles in this process's place (`xtarget serve`): `unix:/run/xtarget.sock`, "
        "`https://host:8787` or, on this machine, `http://localhost:8787`",
        parse.server,
    ),
    "XTARGET_COMPILE_TOKEN": Variable(
        "a file with the token that the compile server asks for", parse.path, there=parse.file
    ),
    "XTARGET_COMPILE_CA": Variable(
        "a file of certificates (PEM) by which the compile server is known; not set: the system's",
        parse.path,
        there=parse.file,
    ),
    "XTARGET_COMPILE_SERVER_SECONDS": Variable(
        "seconds that the compile server may take for one kernel (300)", parse.seconds(300), 300.0
    ),
    "XTARGET_BUNDLES": Variable(
        "bundles to take binaries from, separated by `:`", parse.paths, (), parse.files
    ),
    "XTARGET_KERNELS": Variable(
        "folders with kernel libraries, separated by `:`",
        parse.paths,
        (),
        parse.folders,
        read="once: the first look-up of a kernel",
    ),
    "XTARGET_PROBE_SECONDS": Variable(
        "seconds that a vendor's library may take to answer, of processor time or of idle "
        "time (5); a late one is asked a second time",
        parse.seconds(5),
        5.0,
        read="each look for devices",
    ),
    "XTARGET_WAIT_SECONDS": Variable(
        "seconds that xtarget waits for work on an AMD GPU before it raises a "
        "`DeviceLostError` (no limit)",
        parse.seconds(60),
        read="each wait",
    ),
    "XTARGET_INTEL_DEVICES": Variable(
        "a dpctl filter, for example `opencl:cpu`, in place of Intel's GPUs",
        parse.text,
        read="each look for devices",
    ),
    "XTARGET_EMULATOR_BUDGET": Variable(
        "lane-instructions after which the AMD emulator stops a launch (2e10)",
        parse.count(1),
        20_000_000_000,
        read="once: the first look for emulated devices",
    ),
    "XTARGET_EMULATOR_CHECK": Variable(
        "further checks of the AMD emulator: `race`, for data races in LDS and global memory",
        parse.words("race"),
        frozenset(),
        read="once: the first look for emulated devices",
    ),
    "XTARGET_EMULATOR_PROCESSES": Variable(
        "how many processes share a large launch of the AMD emulator (1); kernels with atomic "
        "operations run in one",
        parse.count(1, 256, "number of processes"),
        1,
        read="once: the first look for emulated devices",
    ),
    "XTARGET_EMULATOR_HIP": Variable(
        "`library` reaches emulated devices by hip-python and a stand-in library, built on first "
        "use with a C compiler; `object` (as if not set) within this process",
        parse.choice("object", "library"),
        "object",
        read="once: the first look for emulated devices",
    ),
    "XTARGET_SPIRV_SECONDS": Variable(
        "seconds of processor time that generating one SPIR-V module may take, and five times that "
        "on the clock (60)",
        parse.seconds(60),
        60.0,
    ),
    "XTARGET_JIT_SECONDS": Variable(
        "seconds of processor time that a run time may take to compile one SPIR-V module, and five "
        "times that on the clock; also `ocloc` (60)",
        parse.seconds(60),
        60.0,
    ),
    "XTARGET_BUILD_MEMORY": Variable(
        "memory that a child process may take to compile one kernel (8G); `none` means no limit",
        parse.nbytes(_LEAST_BYTES),
        8 << 30,
    ),
    "XTARGET_MODULES": Variable(
        "how many kernels stay loaded on a device (4096), of how many bytes of binaries, or both: "
        "`100,512MiB`; beyond that, those that were bound longest ago are unloaded, and loaded "
        "again when they are needed. Kernels of live graphs and of prepared launches, and those "
        "that were launched in a captured stream, stay",
        parse.kernels(4096, _LEAST_BYTES),
        (4096, None),
    ),
    "XTARGET_HOST_MEMORY": Variable(
        "host memory that xtarget keeps for later calls, from dropped results (NumPy) and "
        "from temporary arrays of CPU kernels (1G); the system may reclaim it; 0 keeps none",
        parse.nbytes(_LEAST_BYTES, zero=True, instead="0 keeps none."),
        1 << 30,
        read="each result",
    ),
    "XTARGET_RECORD": Variable(
        "a file that lists the classes of calls that programs use, for `xtarget warmup`: "
        "`profile.json`",
        parse.path,
        read="once: the first use of `run`, `get`, `kernel`",
    ),
    "XTARGET_CHECK": Variable(
        "1 compares indices (`take`, `gather`, `scatter`, `embedding`...) with the array that they "
        "are for before each launch, as the option `check=True` does for one call: an error names "
        "the index and its place. For looking for a mistake: each call waits for its results",
        parse.boolean,
        False,
        read="each call; a prepared launch keeps what it was prepared with",
    ),
    "XTARGET_TUNE": Variable(
        "1 measures the configurations of a kernel (`configs=`, `@triton.autotune`) at the first "
        "call of each key, as Triton's autotuner does; not set: only `tune` measures",
        parse.boolean,
        False,
        read="each call of a new class",
    ),
    "XTARGET_CORE": Variable(
        "`python` makes launches without the compiled core, `c` insists on it; not set: it is used "
        "where it was built",
        parse.choice("python", "c"),
        read="once: the first call",
    ),
    "XTARGET_INDUCTOR": Variable(
        "1 makes torch.compile write Triton kernels for the CPU, which xtarget compiles",
        parse.boolean,
        False,
        read="once: the import of Triton",
    ),
    "XTARGET_LOG": Variable(
        "what is said on stderr (or to the handlers that the program gave `logging`), by "
        "libxtarget too: `error`, `warning`, `info` (what is compiled and loaded too, with times) "
        "or `debug` (each call too)",
        parse.choice("error", "warning", "info", "debug"),
        read="once: the first use of `run`, `get`, `kernel`; by libxtarget: its first call",
    ),
    "XTARGET_TRACE": Variable(
        "a file for a Chrome trace of calls and kernels, which Perfetto opens: `trace.json`",
        parse.path,
        read="once: the first use of `run`, `get`, `kernel`",
    ),
    "XTARGET_VERIFY": Variable(
        "1 compares each call's result with the kernel's reference in float64 on the host: slow",
        parse.boolean,
        False,
        read="once: the first use of `run`, `get`, `kernel`",
    ),
    "XTARGET_OCLOC": Variable(
        "Intel's offline compiler for GPUs, where it is not on the PATH",
        parse.text,
        there=parse.program,
    ),
    "XTARGET_HIP_CLANG": Variable(
        "a clang with AMD's target, its lld beside it, for the route `hip`; not set: hipRTC, or "
        "the clang of ROCm, of the wheel ziglang, or of the PATH",
        parse.text,
        there=parse.program,
    ),
    "XTARGET_SPIRV_UNTESTED": Variable(
        "1 tries SPIR-V with a pair of Triton and llvmlite that was never tested",
        parse.boolean,
        False,
    ),
}
