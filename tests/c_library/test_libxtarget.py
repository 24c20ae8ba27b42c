"""libxtarget: what programs without Python call gives the right numbers on the CPU, and every wrong
file and argument is a sentence. The sanitizers look at all of it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from libxtarget import (
    BAD_BUNDLE,
    NEWER,
    NO_DRIVER,
    NOT_IN_BUNDLE,
    NOT_TRUSTED,
    ROOT,
    SANITIZERS,
    Device,
    Failed,
    Kernel,
    Library,
    compiled,
    environment,
    needs_compiler_and_opencl,
    sanitized,
    tensor,
)
from xtarget._bundle.format import HEADER, BundleFile
from xtarget._bundle.writer import Packed, write_bundle

HERE = Path(__file__).parent

pytestmark = needs_compiler_and_opencl


@pytest.mark.parametrize(
    ("looks_for", "bundle"),
    [
        ("address,undefined", "path"),
        ("thread", "path"),
        pytest.param("thread", "by_zstd", marks=pytest.mark.long),
    ],
)
def test_a_program_in_c_calls_kernels_under_the_sanitizers(
    request: pytest.FixtureRequest, tmp_path: Path, looks_for: str, bundle: str
) -> None:
    path: Path = request.getfixturevalue(bundle)
    program = compiled(tmp_path / "check", HERE / "check.c", flags=SANITIZERS[looks_for])
    assert sanitized(tmp_path, program, path, tmp_path / "lock") == "all right\n"


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 4000), pytest.param(2, 100_000, marks=pytest.mark.long)]
)
def test_no_damage_whose_digests_are_right_harms_its_reader(
    path: Path, tmp_path: Path, seed: int, count: int
) -> None:
    flags = SANITIZERS["address,undefined"]
    program = compiled(tmp_path / "fuzz", HERE / "fuzz.c", flags=flags)
    words = [str(program), str(path), str(seed), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    refused, of, files = (int(word) for word in done.stdout.split() if word.isdecimal())
    assert of == count
    # what names a dtype or a text may be another one; everything else contradicts something
    assert count / 3 < refused < count
    assert files > count / 40


@pytest.mark.parametrize("runs", [5000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.skipif(shutil.which("clang") is None, reason="there is no clang, which has libFuzzer")
def test_libfuzzer_finds_nothing(path: Path, tmp_path: Path, runs: int) -> None:
    done = subprocess.run(
        [str(ROOT / "ci" / "fuzz.sh"), "-n", str(runs), "-o", str(tmp_path), str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {runs} runs" in done.stderr


def test_no_damage_of_what_zstd_packed_harms_its_reader(by_zstd: Path, tmp_path: Path) -> None:
    flags = SANITIZERS["address,undefined"]
    program = compiled(tmp_path / "fuzz", HERE / "fuzz.c", flags=flags)
    done = subprocess.run(
        [str(program), str(by_zstd), "3", "1000"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def device(library: Library) -> Any:
    opened = Device(library)
    yield opened
    opened.close()


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


SOFTMAX = [(64, 1000), (4, 513), (30, 1024), (5, 777)]


@pytest.mark.parametrize("shape", SOFTMAX)
def test_softmax(library: Library, device: Device, path: Path, shape: tuple[int, ...]) -> None:
    bundle, x = library.open(path), normal(*shape)
    softmax = Kernel(device, bundle, "softmax", "float32")
    library.close(bundle)
    power = np.exp(x.astype("float64"))
    np.testing.assert_allclose(softmax(x), power / power.sum(-1, keepdims=True), rtol=1e-5)
    softmax.release()


@pytest.mark.parametrize("shape", [(), (1,), (7,), (100_003,), (3, 5), (3, 1, 5), (2, 3, 5, 7)])
def test_elementwise(library: Library, device: Device, path: Path, shape: tuple[int, ...]) -> None:
    bundle, x, y = library.open(path), normal(*shape), normal(*shape)
    add = Kernel(device, bundle, "add", "float32")
    for one, other in ((x, y), (x, 2.5), (-1, y), (x, 3)):
        np.testing.assert_array_equal(add(one, other), one + other)
    odd = np.empty(x.size + 3, "float32")  # not aligned
    for start in range(4):
        out = odd[start : start + x.size].reshape(shape)
        add.launch((x, y), (out,))
        device.synchronize()
        np.testing.assert_array_equal(out, x + y)
    add.release()
    library.close(bundle)


def test_a_caller_chooses_among_the_configurations_that_were_built(
    library: Library, device: Device, path: Path
) -> None:
    bundle, x = library.open(path), normal(4096)
    for options in ({"config": "block=64"}, {}):
        relu = Kernel(device, bundle, "relu", "float32", options)
        np.testing.assert_array_equal(relu(x), np.maximum(x, 0))
        relu.release()
    with pytest.raises(Failed, match=r"other options than those .*: config=block=64") as caught:
        Kernel(device, bundle, "relu", "float32", {"config": "block=32"})
    assert caught.value.status == NOT_IN_BUNDLE


def test_a_bundle_for_few_rows_serves_many(library: Library, device: Device, path: Path) -> None:
    """A block takes several of them on a CPU."""
    bundle = library.open(path)
    total = Kernel(device, bundle, "sum", "float32", {"axis": "1"})
    for rows in (3, 255, 256, 1001):
        x = normal(rows, 1000)
        np.testing.assert_allclose(total(x), x.sum(1), rtol=1e-4, atol=1e-4)
    total.release()
    library.close(bundle)


def test_options_are_compared_as_numbers(library: Library, device: Device, path: Path) -> None:
    bundle, x = library.open(path), normal(9, 1000)
    for axis in ("1", "1.0"):
        total = Kernel(device, bundle, "sum", "float32", {"axis": axis})
        np.testing.assert_allclose(total(x), x.sum(1), rtol=1e-4, atol=1e-4)
        total.release()
    for options in ({"axis": "0"}, {"axes": "1"}, {}):
        with pytest.raises(Failed, match=r"other options than those .*: axis=1, ") as caught:
            Kernel(device, bundle, "sum", "float32", options)
        assert caught.value.status == NOT_IN_BUNDLE
        assert str(caught.value).count("axis=") == 1  # each set of options once
    library.close(bundle)


def test_what_the_bundle_lacks_is_an_error_in_words(
    library: Library, device: Device, path: Path
) -> None:
    bundle = library.open(path)
    softmax = Kernel(device, bundle, "softmax", "float32")
    for x in (
        normal(4, 5),
        normal(4, 1000).astype("float64"),
        normal(1000),
        normal(4, 2000)[:, ::2],
    ):
        with pytest.raises(
            Failed, match=r"has no call of softmax of float32 with \(float"
        ) as caught:
            softmax.launch((x,), (np.empty(x.shape, x.dtype),))
        assert caught.value.status == NOT_IN_BUNDLE
    with pytest.raises(Failed, match=r"\(float32\(4, 5\), a number\): it takes x, then outputs"):
        softmax.launch((normal(4, 5), 1.0), (np.empty((4, 5), "float32"),))
    with pytest.raises(Failed, match=r"\(float32\(4, 1000\) with strides \(2000, -2\)\)"):
        softmax.launch((normal(4, 2000)[:, ::-2],), (np.empty((4, 1000), "float32"),))
    with pytest.raises(Failed, match=r"has 1 output for these arguments, not the 0 of this call"):
        softmax.launch((normal(64, 1000),), ())
    softmax.release()
    with pytest.raises(Failed, match=r"no softmx of float32 .* it has add, relu, softmax, sum"):
        Kernel(device, bundle, "softmx", "float32")
    with pytest.raises(Failed, match=r"no softmax of float16 .* it has that of float32"):
        Kernel(device, bundle, "softmax", "float16")
    library.close(bundle)


def test_a_bundle_that_zstd_packed_gives_the_same_numbers(
    library: Library, device: Device, path: Path, by_zstd: Path, tmp_path: Path
) -> None:
    assert by_zstd.stat().st_size < path.stat().st_size
    bundle, x = library.open(by_zstd), normal(64, 1000)
    add = Kernel(device, bundle, "add", "float32")
    np.testing.assert_array_equal(add(x, 2.5), x + np.float32(2.5))
    add.release()
    library.close(bundle)
    read_all(library, by_zstd)
    mine, data = tmp_path / "a.xtb", path.read_bytes()
    mine.write_bytes(data[:8] + b"\3" + data[9:])  # what zlib packed is no frame of zstd's
    with pytest.raises(Failed, match="cannot be unpacked"):
        read_all(library, mine)


def test_without_libzstd_its_package_is_said(
    shared: Path, by_zstd: Path, path: Path, tmp_path: Path
) -> None:
    """In a process of its own: a library is looked for once."""
    (tmp_path / "none.so").write_bytes(b"")
    code = """
import sys
from libxtarget import Failed, Library
library = Library(sys.argv[1])
library.close(library.open(sys.argv[2]))
try:
    library.open(sys.argv[3])
except Failed as error:
    print(error.status, error)
"""
    words = [sys.executable, "-c", code, str(shared), str(path), str(by_zstd)]
    named = {"XT_ZSTD_LIBRARY": str(tmp_path / "none.so"), "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, env={**os.environ, **named}
    )
    assert done.stdout.startswith(f"{BAD_BUNDLE} the bundle {by_zstd} is packed by zstd"), done
    assert "Install libzstd 1.4 or later (Debian: libzstd1)" in done.stdout


#: The OpenCL loader, whose devices take no SPIR-V.
NO_SPIRV = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int clGetDeviceInfo(void *device, unsigned what, size_t room, void *value, size_t *size) {
  static int (*there)(void *, unsigned, size_t, void *, size_t *);
  if (!there) *(void **)&there = dlsym(RTLD_NEXT, "clGetDeviceInfo");
  if (what != 0x105B) return there(device, what, room, value, size);
  if (room) *(char *)value = 0;
  return 0;
}
"""


def test_a_device_without_spirv_is_named(shared: Path, tmp_path: Path) -> None:
    """In a process of its own: a library is looked for once."""
    found = environment()
    (tmp_path / "loader.c").write_text(NO_SPIRV)
    loader = tmp_path / "loader.so"
    words = ["gcc", "-shared", "-fPIC", str(tmp_path / "loader.c"), "-o", str(loader)]
    real = ("-Wl,--no-as-needed", found["XT_OPENCL_LIBRARY"])
    subprocess.run([*words, *real], check=True, timeout=60)
    code = """
import sys
from libxtarget import Device, Failed, Library
try:
    Device(Library(sys.argv[1]))
except Failed as error:
    print(error.status, error)
"""
    named = {**found, "XT_OPENCL_LIBRARY": str(loader), "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(shared)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **named},
    )
    assert done.stdout.startswith(f"{NO_DRIVER} "), done
    assert "takes no SPIR-V, which bundles have for it" in done.stdout
    assert "pip install intel-opencl-rt" in done.stdout


def test_a_bundle_may_be_replaced_while_it_is_open(
    library: Library, device: Device, path: Path, tmp_path: Path
) -> None:
    mine, other = tmp_path / "a.xtb", tmp_path / "b.xtb"
    shutil.copyfile(path, mine)
    bundle = library.open(mine)
    other.write_bytes(b"something else")
    other.replace(mine)
    add = Kernel(device, bundle, "add", "float32")
    np.testing.assert_array_equal(add(normal(8), 1), normal(8) + 1)
    add.release()
    library.close(bundle)


def test_a_bundle_that_is_cut_while_it_is_open_ends_no_process(
    library: Library, device: Device, path: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "a.xtb"
    shutil.copyfile(path, mine)
    bundle = library.open(mine)
    os.truncate(mine, 200)
    with pytest.raises(Failed, match="became shorter"):
        Kernel(device, bundle, "add", "float32")
    shutil.copyfile(path, mine)  # what was not read is not remembered
    Kernel(device, bundle, "add", "float32").release()
    library.close(bundle)


def newer(data: bytes) -> bytes:
    return data[:8] + struct.pack("<I", 99) + data[12:]


DAMAGE: list[tuple[Callable[[bytes], bytes], int, str]] = [
    (lambda data: b"", BAD_BUNDLE, "empty"),
    (lambda data: data[:40], BAD_BUNDLE, "less than a header"),
    (lambda data: b"\x7fELF" + data[4:], BAD_BUNDLE, "no bundle"),
    (lambda data: data[:-1], BAD_BUNDLE, "was written with"),
    (lambda data: data + b"x", BAD_BUNDLE, "was written with"),
    (newer, NEWER, "Update libxtarget"),
    (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], BAD_BUNDLE, "sha256"),
]


@pytest.mark.parametrize(("damage", "status", "words"), DAMAGE)
def test_damage_is_said(
    library: Library,
    path: Path,
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    status: int,
    words: str,
) -> None:
    mine = tmp_path / "a.xtb"
    mine.write_bytes(damage(path.read_bytes()))
    with pytest.raises(Failed, match=words) as caught:
        library.open(mine)
    assert caught.value.status == status
    assert str(mine) in str(caught.value)


def test_each_part_that_is_used_is_checked(library: Library, path: Path, tmp_path: Path) -> None:
    """A flipped bit in the header, the index, the manifest, and in all that call records name."""
    data, file = path.read_bytes(), BundleFile(path)
    (section,) = file.sections.values()
    assert section.calls is not None
    marks = [section.dictionary, section.calls]
    marks += [mark for _, _, mark in file.call_records(section.target)]
    record = next(iter(file.records(section.target)))
    places = [9, 13, 17, 25, 33, 41, 73, 81, HEADER.size + 1, HEADER.size + 40, file.base - 2]
    places += [section.start + mark.offset + mark.size // 2 for mark in marks]
    binary = record["variants"][0]["binary"]
    places.append(section.start + binary["offset"] + binary["size"] // 2)
    mine = tmp_path / "a.xtb"
    for place in places:
        mine.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(Failed):
            read_all(library, mine)
    read_all(library, path)


def read_all(library: Library, path: Path) -> None:
    bundle = library.open(path)
    try:
        library.check(library.c.xtarget_bundle_verify(bundle))
    finally:
        library.close(bundle)


def test_a_bundle_without_call_records_is_said(library: Library, tmp_path: Path) -> None:
    mine = tmp_path / "a.xtb"
    mine.write_bytes(write_bundle({"made_by": "t"}, []))
    with pytest.raises(Failed, match="nothing for callers without Python"):
        library.open(mine)


def test_only_what_a_trusted_key_signed_is_taken(
    library: Library, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    file = BundleFile(path)
    (listed,) = file.manifest["targets"]
    content = path.read_bytes()[file.base : file.end]
    facts = {name: value for name, value in file.manifest.items() if name != "targets"}
    signed = write_bundle(
        facts, [Packed(listed, content)], lambda text: public + private.sign(text)
    )
    mine, trust = tmp_path / "a.xtb", tmp_path / "keys"
    mine.write_bytes(signed)
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for names in (f"# ours\n  {public.hex().upper()}  # me\n".encode(), pem):
        trust.write_bytes(names)
        bundle = library.open(mine, str(trust))
        assert library.c.xtarget_bundle_signer(bundle).decode() == public.hex()
        library.close(bundle)
    monkeypatch.setenv("XTARGET_TRUST", str(trust))
    with pytest.raises(Failed, match="not signed") as caught:
        library.open(path)
    assert caught.value.status == NOT_TRUSTED
    library.close(library.open(path, ""))  # the program's policy, not the environment's
    for at in (len(signed) - 1, len(signed) - 40):
        mine.write_bytes(signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :])
        with pytest.raises(Failed, match="not one of its content"):
            library.open(mine)
    mine.write_bytes(signed)
    other = Ed25519PrivateKey.generate().public_key()
    for names, words in (
        (other.public_bytes_raw().hex().encode(), "does not name"),
        (b"no key", "holds no public keys"),
        (b"", "holds no public keys"),
        (b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n", "holds no public keys"),
    ):
        trust.write_bytes(names)
        with pytest.raises(Failed, match=words):
            library.open(mine)
    with pytest.raises(Failed, match="cannot be read"):
        library.open(mine, str(tmp_path / "none"))


def test_an_array_elsewhere_and_overlaps_are_refused(
    library: Library, device: Device, path: Path
) -> None:
    bundle, x = library.open(path), normal(100)
    add = Kernel(device, bundle, "add", "float32")
    for kind in (2, 10, 99):
        with pytest.raises(Failed, match="another kind"):
            add.launch((tensor(x, kind), x), (np.empty_like(x),))
    with pytest.raises(Failed, match="may share memory"):
        add.launch((x[:-1].copy(), x[1:]), (x[:-1],))
    add.launch((x, x), (x,))
    device.synchronize()
    np.testing.assert_array_equal(x, 2 * normal(100))
    add.release()
    library.close(bundle)
