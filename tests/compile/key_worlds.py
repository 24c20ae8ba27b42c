"""Small kernel libraries whose kernels read constants in every way there is, and processes that use
them one after the other with one cache.

A process is a fork of this one, in which Triton is loaded and no library is: as good as a new one,
and 50 times as quick. The binary is Triton's IR: what a constant changes is in it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xtarget import Target
from xtarget._compile import functions
from xtarget._devices import registry
from xtarget._kernels.library import Library
from xtarget._values.types import Artifact, CompileRequest, Resources

TARGET = Target("nvidia", "sm_90")

FILES = {
    "catalog.py": "KERNELS = ()\n",
    "mine.py": '''
import triton
import triton.language as tl
{mine_imports}
from . import helper
from .helper import shift, shift as again
from .sub import exported
from .sub.deep import dig

A = tl.constexpr({a})
DT = tl.{dtype}
COUNT = {count}


@triton.jit
def own(v):
    return v + A


@triton.jit
def with_default(v, c: tl.constexpr = {default}):
    return v + c

{mine_more}

@triton.jit
def kernel(x, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i).to(DT)
    v = own(v) + {literal}
    v = shift(v) + again(v)
    v = dig(v)
    v = exported(v)
    v = with_default(v)
    v = v + helper.S
{kernel_more}
    tl.store(o + i, v)
''',
    "helper.py": '''
import triton
import triton.language as tl

S = tl.constexpr({s})
SHIFT: tl.constexpr = tl.constexpr({shift})


@triton.jit
def shift(v):
    return v + SHIFT
''',
    "sub/__init__.py": '''
from .deep import dig as exported_dig
from .deep import exported
''',
    "sub/deep.py": '''
import triton
import triton.language as tl
from ..helper import S
{deep_imports}

DEEP = tl.constexpr({deep})


@triton.jit
def dig(v, c: tl.constexpr = DEEP):
    return v + c + S


@triton.jit
def exported(v):
    return v + DEEP
''',
}  # fmt: skip

#: Each adds another way to read a constant; those that compute something are not static.
FEATURES: dict[str, dict[str, str]] = {
    "environment": {
        "mine_imports": "import os",
        "mine_more": 'ENV = tl.constexpr(int(os.environ.get("WORLD_ENV", "1")))',
        "kernel_more": "    v = v + ENV",
    },
    "data file": {
        "mine_imports": "import json\nfrom pathlib import Path",
        "mine_more": (
            'DATA = tl.constexpr(json.loads((Path(__file__).parent / "data.json").read_text()))'
        ),
        "kernel_more": "    v = v + DATA",
    },
    "closure": {
        "mine_more": (
            "def make(c):\n    @triton.jit\n    def inner(v):\n        return v + c\n\n"
            "    return inner\n\nclosed = make(tl.constexpr({closed}))"
        ),
        "kernel_more": "    v = closed(v)",
    },
    "named tuple": {
        "mine_imports": "from typing import NamedTuple",
        "mine_more": (
            "class Settings(NamedTuple):\n    size: int\n\n"
            "SETTINGS = tl.constexpr(Settings({member}))"
        ),
        "kernel_more": "    v = v + SETTINGS.size",
    },
    "computed when compiled": {
        "mine_more": (
            "BASE = {base}\n\n@triton.constexpr_function\ndef add_one(n):\n    return n + BASE\n\n"
            "@triton.constexpr_function\ndef computed(n):\n    return add_one(n) + len(TABLE)\n\n"
            "TABLE = list(range({count}))"
        ),
        "kernel_more": "    v = v + computed(3)",
    },
    "another package": {
        "mine_imports": "import world_package",
        "kernel_more": "    v = v + world_package.LEVEL\n    v = world_package.lift(v)",
    },
    "imported by name": {
        "mine_imports": "import importlib",
        "mine_more": 'named = importlib.import_module(".helper", __package__)',
        "kernel_more": "    v = named.shift(v) + named.S",
    },
}

PACKAGE = """
import triton
import triton.language as tl

LEVEL = tl.constexpr({level})
_INNER = tl.constexpr({lift})


@triton.jit
def lift(v):
    return v + _INNER
"""

VALUES = (
    *("a", "count", "default", "literal", "s", "shift", "deep", "closed", "member", "base"),
    *("level", "lift"),
)
DTYPES = ("float32", "float16", "int32")


@dataclass
class World:
    """A library as it lies on the disk, with what is around it."""

    folder: Path
    features: tuple[str, ...]
    values: dict[str, int | str]
    environment: str = "1"
    data: int = 1
    #: (module, name, value): what a process sets after it has imported the library.
    patches: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, random_: random.Random) -> World:
        features = tuple(sorted(random_.sample(sorted(FEATURES), random_.choice((0, 0, 1, 2, 3)))))
        values: dict[str, int | str] = {name: random_.randrange(1, 4) for name in VALUES}
        return cls(folder, features, {**values, "dtype": random_.choice(DTYPES)})

    def write(self) -> None:
        more: dict[str, str] = {
            name: "\n".join(FEATURES[f].get(name, "") for f in self.features).format(**self.values)
            for name in ("mine_imports", "mine_more", "kernel_more")
        }
        library = self.folder / "library"
        for name, text in FILES.items():
            path = library / name
            path.parent.mkdir(parents=True, exist_ok=True)
            given = {**self.values, **more, "deep_imports": ""}
            if not name.startswith("catalog"):
                text = text.format(**given)
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
        (library / "data.json").write_text(str(self.data))
        (self.folder / "world_package.py").write_text(PACKAGE.format(**self.values))
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        for cache in library.rglob("__pycache__"):
            shutil.rmtree(cache)

    def change(self, random_: random.Random) -> str:
        """Change one thing."""
        what = random_.choice(("value", "value", "value", "environment", "data", "dtype", "patch"))
        if what == "value":
            name = random_.choice(VALUES)
            self.values[name] = random_.randrange(1, 4)
            return f"{name}={self.values[name]}"
        if what == "environment":
            self.environment = str(random_.randrange(1, 4))
            return f"environment={self.environment}"
        if what == "data":
            self.data = random_.randrange(1, 4)
            return f"data={self.data}"
        if what == "dtype":
            self.values["dtype"] = random_.choice(DTYPES)
            return f"dtype={self.values['dtype']}"
        if self.patches and random_.random() < 0.5:
            self.patches.clear()
            return "no patches"
        name = random_.choice((("helper", "S"), ("mine", "A"), ("sub.deep", "DEEP")))
        self.patches[name] = random_.randrange(1, 4)
        return f"{name} is set to {self.patches[name]}"


def request_of(library: Library, type_: str = "*fp32") -> CompileRequest:
    return CompileRequest(
        source=library.source("mine:kernel"),
        signature=(("x", type_), ("o", type_), ("BLOCK", "constexpr")),
        constants=(("BLOCK", 16),),
    )


class FrontEnd:
    """A compiler that ends at Triton's first IR."""

    compiled = 0

    @property
    def fingerprint(self) -> str:
        from xtarget.targets._triton import toolchain

        return toolchain.fingerprint()

    def archs(self) -> tuple[str, ...]:
        return (TARGET.arch,)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        import triton
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.compiler.compiler import make_backend

        FrontEnd.compiled += 1
        fn = request.source.load()
        context = ir.context()
        ir.load_dialects(context)
        gpu = GPUTarget("cuda", 90, 32)
        backend = make_backend(gpu)
        backend.load_dialects(context)
        options = backend.parse_options({})
        source = ASTSource(fn, dict(request.signature), dict(request.constants), {})
        with triton.knobs.compilation.scope():
            triton.knobs.compilation.disable_line_info = True
            module = source.make_ir(
                gpu,
                options,
                backend.get_codegen_implementation(options),
                backend.get_module_map(),
                context,
            )
        lines = [line for line in str(module).splitlines() if not line.startswith("#loc")]
        text = "\n".join(line.partition(" loc(")[0] for line in lines)
        # the library's folder is in the names of what is not inlined
        text = text.replace(fn.__module__.partition(".")[0], "LIBRARY")
        return Artifact(
            target=target,
            format="cubin",
            entry=fn.__name__,
            binary=text.encode(),
            num_warps=4,
            warp_size=32,
            shared_bytes=0,
            parameters=(),
            resources=Resources(),
        )


def in_a_process(work: Callable[[], Any]) -> Any:
    """The result of `work` in a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            try:
                answer: Any = (True, work())
            except BaseException as error:  # the parent raises it
                answer = (False, f"{type(error).__name__}: {error}")
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        right, value = pickle.load(pipe)
    os.waitpid(child, 0)
    if not right:
        raise AssertionError(value)
    return value


@contextlib.contextmanager
def only_front_end() -> Iterator[None]:
    """Within it, every compiler is a `FrontEnd`."""
    original = registry.compiler
    registry.compiler = lambda vendor: FrontEnd()  # type: ignore[assignment]
    try:
        yield
    finally:
        registry.compiler = original


def binaries(world: World, types: tuple[str, ...] = ("*fp32",)) -> list[tuple[bytes, bytes]]:
    """For each type: what the cache gives, and what a compiler gives in the same process."""
    import importlib
    import sys

    import triton.language as tl

    os.environ["WORLD_ENV"] = world.environment
    sys.path.insert(0, str(world.folder))
    importlib.invalidate_caches()
    sys.dont_write_bytecode = True
    library = Library(world.folder / "library")
    for (module, name), value in world.patches.items():
        loaded = importlib.import_module(f"{library.package}.{module}")
        setattr(loaded, name, tl.constexpr(value))
    found = []
    for type_ in types:
        got = functions.artifact(request_of(library, type_), TARGET).binary
        right = FrontEnd().compile(request_of(library, type_), TARGET).binary
        found.append((got, right))
    return found
