"""In a child process: the stages of Triton's compiler that come after its front end.

The other side, which asks for them, is `_triton_backend.limited`.
"""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget

from .._children.frames import pack
from .._devices import registry
from .._values.errors import CompileError
from ..targets._spirv.frontend.backend import Options, SpirvBackend
from ..targets._triton import files

__all__ = ["made_in_child"]


def made_in_child(asked: dict[str, Any]) -> bytes:
    """In the child: the stages of a question."""
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in asked["options"].items()
    }
    options = Options(**given)
    try:
        # the compiler of SPIR-V, whose tool chain is the same for every vendor that takes it
        if asked["toolchain"] != registry.compiler("cpu").fingerprint:
            raise CompileError(
                f"{asked['what']} cannot be compiled in a child process: the program has changed "
                "settings of Triton or of its tools, which the child does not have. Set them by "
                "Triton's variables, or unset XTARGET_COMPILE_SECONDS."
            )
        return _made(asked, options)
    except Exception as error:  # Triton raises anything
        said = str(error) if isinstance(error, CompileError) else f"{type(error).__name__}: {error}"
        return pack({"error": said})


def _made(asked: dict[str, Any], options: Options) -> bytes:
    from ..targets._triton.parsing import new_context, parse_module

    backend = SpirvBackend(GPUTarget("spirv", options.arch, options.warp_size))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options)
    first, metadata = asked["stages"][0], dict(asked["block"])
    module: Any = asked["text"]
    if first != "spirv":
        module = parse_module(new_context(backend.load_dialects), module)
    say = files.on_stage or (lambda name: None)
    say("source")
    texts: dict[str, str] = {}
    binaries: dict[str, bytes] = {}
    for name in asked["stages"]:
        module = stages[name](module, metadata)
        if isinstance(module, bytes):
            binaries[name] = module
        else:
            texts[name] = str(module)
        say(name)
    header = {"texts": texts, "binaries": list(binaries), "metadata": metadata}
    return pack(header, list(binaries.values()))
