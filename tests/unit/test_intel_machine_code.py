"""Machine code through dpctl: Level Zero's calls, against a stand-in, and what is loaded when."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("dpctl")

from artifacts import sample_artifact

from xtarget._values.errors import LoadError
from xtarget.targets.intel import program
from xtarget.targets.intel.machine_code import LevelZero, Route
from xtarget.targets.intel.program import CODE, Loader, proof_of

CONTEXT, DEVICE, MODULE = 0x1000, 0x2000, 0x3000
SPIRV, ZEBIN = b"\x03\x02#\x07 a module", b"\x7fELF a zebin"


class Ze:
    """`libze_loader`, as far as it is called: modules are numbers, code is `code of` the input.

    Attributes:
        status: what the next zeModuleCreate gives.
        made: (format, input, options) of modules, in order.
        alive: modules that nobody has destroyed.
    """

    def __init__(self) -> None:
        self.status = 0
        self.made: list[tuple[int, bytes, bytes]] = []
        self.alive: set[int] = set()
        place = ctypes.c_void_p
        result = ctypes.c_int
        self.zeModuleCreate = ctypes.CFUNCTYPE(result, *[place] * 5)(self._create)
        self.zeModuleGetNativeBinary = ctypes.CFUNCTYPE(result, *[place] * 3)(self._code)
        self.zeModuleDestroy = ctypes.CFUNCTYPE(result, place)(self._destroy)

    def _create(self, context: int, device: int, given: int, module: int, log: Any) -> int:
        assert (context, device, log) == (CONTEXT, DEVICE, None)
        # ze_module_desc_t: stype, pNext, format, inputSize, pInputModule, pBuildFlags, pConstants
        words = (ctypes.c_uint64 * 7).from_address(given)
        kind, following, format_, size, code, options, constants = words
        assert (kind & 0xFFFFFFFF, following, constants) == (0x1B, 0, 0)
        if self.status:
            return self.status
        self.made.append(
            (format_ & 0xFFFFFFFF, ctypes.string_at(code, size), ctypes.string_at(options))
        )
        number = MODULE + len(self.made)
        self.alive.add(number)
        ctypes.c_void_p.from_address(module).value = number
        return 0

    def _code(self, module: int, size: int, code: int | None) -> int:
        text = b"code of " + self.made[module - MODULE - 1][1]
        ctypes.c_size_t.from_address(size).value = len(text)
        if code:
            ctypes.memmove(code, text, len(text))
        return 0

    def _destroy(self, module: int) -> int:
        self.alive.remove(module)
        return 0


@pytest.fixture
def ze() -> Ze:
    return Ze()


@pytest.fixture
def bundled() -> list[Any]:
    return []


@pytest.fixture
def route(ze: Ze, bundled: list[Any]) -> Route:
    def bundle(*given: Any) -> Any:
        bundled.append(given)
        return SimpleNamespace(get_sycl_kernel=lambda name: f"kernel {name}")

    context = SimpleNamespace(addressof_ref=lambda: 0x77)
    return Route(LevelZero(ze, CONTEXT, DEVICE), bundle, context)


def test_level_zero_compiles_and_gives_the_code_back(route: Route, ze: Ze) -> None:
    assert route.compile(SPIRV, "-a -b") == b"code of " + SPIRV
    assert ze.made == [(0, SPIRV, b"-a -b")]
    assert not ze.alive


def test_level_zero_loads_a_zebin_as_machine_code(route: Route, ze: Ze, bundled: list[Any]) -> None:
    assert route.load(ZEBIN, "k", "-ze-opt-large-register-file") == "kernel k"
    assert ze.made == [(1, ZEBIN, b"-ze-opt-large-register-file")]
    assert bundled == [(MODULE + 1, 0x77, 2)], "SYCL's number of Level Zero"
    assert ze.alive == {MODULE + 1}, "the bundle destroys it"


def test_level_zeros_refusal_is_told(route: Route, ze: Ze, bundled: list[Any]) -> None:
    ze.status = 0x70000004  # ZE_RESULT_ERROR_MODULE_BUILD_FAILURE
    for call in (lambda: route.compile(SPIRV, ""), lambda: route.load(ZEBIN, "k", "")):
        with pytest.raises(LoadError, match="zeModuleCreate gave 0x70000004"):
            call()
    assert bundled == []


# ------------------------------------------------------------------------------------- the loader


class Jit:
    """The child: what it is asked, and what it refuses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.refused: list[tuple[str, bytes]] = []

    def build(self, what: str, device: str, binary: bytes, entry: str, options: str) -> bytes:
        kind = "code" if device.endswith(CODE) else "proof"
        self.asked.append((kind, binary))
        if (kind, binary) in self.refused:
            raise LoadError(f"{what}: no {kind}")
        if kind == "proof":
            return proof_of(binary, options)
        return binary if binary == ZEBIN else b"code of " + binary


@pytest.fixture
def jit(monkeypatch: pytest.MonkeyPatch) -> Jit:
    made = Jit()
    monkeypatch.setattr(program, "_jit", made)
    monkeypatch.setattr(program, "build_kernel", lambda queue, spirv, entry, options: "by dpctl")
    return made


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, route: Route) -> Loader:
    monkeypatch.setattr(program, "find_route", lambda queue: route)
    return _loader()


def _loader() -> Loader:
    return Loader(None, "a GPU", SimpleNamespace(name="intel:0", product="a GPU"))  # type: ignore[arg-type]


ARTIFACT = sample_artifact(SPIRV, target="intel:spirv64", format="spirv", entry="k", parameters=())


def test_the_childs_code_is_loaded_and_kept(loader: Loader, jit: Jit, ze: Ze) -> None:
    kernel, kept = loader.load(ARTIFACT, b"", "", None)
    assert kernel == "kernel k"
    assert jit.asked == [("code", SPIRV)]
    assert loader.load(ARTIFACT, b"", "", kept) == (kernel, kept)
    assert jit.asked == [("code", SPIRV)], "the kept code needs no child"
    assert ze.made == [(1, b"code of " + SPIRV, b"")] * 2, "this process compiled nothing"


@pytest.mark.parametrize("damage", [lambda kept: kept[:-1], lambda kept: kept[:-1] + b"?", len])
def test_damaged_code_is_not_loaded(loader: Loader, jit: Jit, ze: Ze, damage: Any) -> None:
    _, kept = loader.load(ARTIFACT, b"", "", None)
    broken = bytes(len(kept)) if damage is len else damage(kept)
    assert loader.load(ARTIFACT, b"", "", broken)[1] == kept
    assert len(jit.asked) == 2


def test_code_that_the_driver_refuses_is_made_again(loader: Loader, jit: Jit, ze: Ze) -> None:
    _, kept = loader.load(ARTIFACT, b"", "", None)
    build = jit.build

    def build_and_recover(*given: Any) -> bytes:
        ze.status = 0
        return build(*given)

    jit.build = build_and_recover  # type: ignore[method-assign]
    ze.status = 0x78000013
    assert loader.load(ARTIFACT, b"", "", kept) == ("kernel k", kept)
    assert len(jit.asked) == 2


def test_a_zebin_goes_first_and_its_spirv_after_it(loader: Loader, jit: Jit, ze: Ze) -> None:
    loader.load(ARTIFACT, ZEBIN, "", None)
    assert jit.asked == [("code", ZEBIN)]
    assert ze.made == [(1, ZEBIN, b"")]
    jit.refused = [("code", ZEBIN)]
    assert loader.load(ARTIFACT, ZEBIN, "", None)[0] == "kernel k"
    assert jit.asked[1:] == [("code", ZEBIN), ("code", SPIRV)]
    assert ze.made[1:] == [(1, b"code of " + SPIRV, b"")]


def test_where_the_way_does_not_work_spirv_is_built(loader: Loader, jit: Jit, ze: Ze) -> None:
    jit.refused = [("code", SPIRV)]
    assert loader.load(ARTIFACT, b"", "", None) == ("by dpctl", proof_of(SPIRV, ""))
    assert jit.asked == [("code", SPIRV), ("proof", SPIRV)]
    assert ze.made == []
    assert loader.load(ARTIFACT, b"", "", None)[0] == "by dpctl"
    assert len(jit.asked) == 2, "it was proven in this process"


def test_where_there_is_no_way_spirv_is_built(monkeypatch: pytest.MonkeyPatch, jit: Jit) -> None:
    monkeypatch.setattr(program, "find_route", lambda queue: None)
    kept = proof_of(SPIRV, "")
    assert _loader().load(ARTIFACT, ZEBIN, "", None) == ("by dpctl", kept)
    assert jit.asked == [("proof", SPIRV)]
    assert _loader().load(ARTIFACT, ZEBIN, "", kept) == ("by dpctl", kept)
    assert len(jit.asked) == 1


def test_a_module_that_cannot_be_built_is_told_of(loader: Loader, jit: Jit) -> None:
    jit.refused = [("code", SPIRV), ("proof", SPIRV)]
    with pytest.raises(LoadError, match=r"k cannot be loaded on intel:0 \(a GPU\): no proof"):
        loader.load(ARTIFACT, b"", "", None)
    jit.refused = []
    loader.load(ARTIFACT, b"", "", None)
    jit.refused = [("code", SPIRV)]
    with pytest.raises(LoadError, match="no code"):  # the way works, so it is the module
        loader.load(ARTIFACT, b"", "", None)
    assert ("proof", SPIRV) not in jit.asked[3:]
