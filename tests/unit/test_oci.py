"""The cache as an OCI image layout: what is written and believed, and the check of a machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import here

from xtarget import LoadError, Target, XTargetError, _cache
from xtarget._cache import compression, oci
from xtarget._cli import images
from xtarget._values.types import Artifact

SM_90, CPU = Target("nvidia", "sm_90"), Target("cpu", "spirv64")
Files = dict[str, bytes]
Cli = Callable[..., tuple[int, str, str]]
UseCache = Callable[..., None]
Members = list[tuple[str, bytes]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command here: its exit status, standard output and standard error."""
    return partial(here, capsys)


@pytest.fixture
def use_cache(monkeypatch: pytest.MonkeyPatch) -> UseCache:
    """Makes a folder the cache, with these artifacts in it."""

    def use(folder: Path, *made: Artifact) -> None:
        monkeypatch.setenv("XTARGET_CACHE_DIR", str(folder))
        for artifact in made:
            parts = [("target", str(artifact.target)), ("source", "s"), ("toolchain", "t")]
            _cache.default_cache().put("add", _cache.key_of(parts), parts, artifact, seconds=1.0)

    return use


@pytest.fixture
def layout(tmp_path: Path, use_cache: UseCache, cli: Cli) -> Path:
    """An image of a kernel for two targets."""
    made = [Artifact(target, "spirv", "add", b"code" * 9, 1, 16, 0, ()) for target in (SM_90, CPU)]
    use_cache(tmp_path / "cache", *made)
    code, output, errors = cli("cache", "export", "--oci", str(tmp_path / "image"))
    assert code == 0, errors
    assert "skopeo copy oci:" in output
    return tmp_path / "image"


def content(folder: Path) -> Files:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_layout_has_a_layer_for_each_target_and_digests_that_hold(layout: Path) -> None:
    found = content(layout)
    blobs = {name: data for name, data in found.items() if name.startswith("blobs/")}
    for name, data in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"

    def blob(descriptor: Any) -> bytes:
        data = blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(data) == descriptor["size"]
        return data

    (named,) = json.loads(found["index.json"])["manifests"]
    assert named["annotations"]["org.opencontainers.image.ref.name"] == "latest"
    manifest = json.loads(blob(named))
    config = json.loads(blob(manifest["config"]))
    contents = [layer["annotations"]["dev.xtarget.content"] for layer in manifest["layers"]]
    assert contents == ["cpu:spirv64", "nvidia:sm_90"]
    for layer, plain in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        unpacked = gzip.decompress(blob(layer))
        assert plain == f"sha256:{hashlib.sha256(unpacked).hexdigest()}"
        assert b"xtarget/cache/v1/" in unpacked


def test_the_same_content_gives_the_same_bytes_and_goes_into_another_cache(
    layout: Path, tmp_path: Path, use_cache: UseCache, cli: Cli
) -> None:
    use_cache(tmp_path / "other")
    assert cli("cache", "import", "--oci", str(layout), "--json")[1] == (
        '{"added": 2, "failed": 0}\n'
    )
    again = tmp_path / "again"
    cli("cache", "export", "--oci", str(again))
    assert content(again) == content(layout)
    code, _, errors = cli("cache", "verify")
    assert code == 0, errors


def damaged(layout: Path) -> str:
    largest = max(content(layout / "blobs").items(), key=lambda item: len(item[1]))[0]
    path = layout / "blobs" / largest
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return "has other bytes than its name says"


def cut(layout: Path) -> str:
    (layout / "index.json").write_text("{")
    return "is damaged"


def without_blobs(layout: Path) -> str:
    for path in (layout / "blobs" / "sha256").iterdir():
        path.unlink()
    return "is not an OCI image layout that can be read"


@pytest.mark.parametrize("damage", [damaged, cut, without_blobs])
def test_a_damaged_layout_is_refused(layout: Path, damage: Any, cli: Cli) -> None:
    message = damage(layout)
    code, _, errors = cli("cache", "import", "--oci", str(layout))
    assert code == 1
    assert message in " ".join(errors.split())


def test_a_folder_of_something_else_is_left_as_it_is(
    layout: Path, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    code, _, errors = cli("cache", "export", "--oci", str(tmp_path / "mine"))
    assert code == 1
    assert "not empty" in errors
    assert list(content(tmp_path / "mine")) == ["thesis.tex"]


def test_check_loads_what_is_for_a_device_and_says_what_is_refused(
    layout: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    info = SimpleNamespace(name="cpu:0", target=CPU, product="A CPU", driver_version="7")
    loaded: list[str] = []

    def load(device: Any, made: Artifact, name: str) -> None:
        loaded.append(f"{name} {made.target}")
        if info.driver_version == "6":
            raise LoadError("the driver is too old.")

    reports = [SimpleNamespace(devices=[info])]
    monkeypatch.setattr(images.registry, "probe_all", lambda: reports)
    monkeypatch.setattr(images.registry, "open_device", lambda name: SimpleNamespace(info=info))
    monkeypatch.setattr(images, "load", load)
    code, output, _ = cli("cache", "check")
    assert code == 0
    assert loaded == ["add cpu:spirv64"]
    assert "cpu:0 (A CPU, driver 7): 1 of 1 load" in output
    assert "No device here is for nvidia:sm_90." in output
    code, output, _ = cli("cache", "check", "--target", "nvidia")
    assert code == 1
    assert output == "No device here is for nvidia:sm_90.\n"
    info.driver_version = "6"
    code, output, _ = cli("cache", "check")
    assert code == 1
    assert "add: the driver is too old." in output
    info.driver_version = "7"
    (binary,) = (layout.parent / "cache" / "v1" / "nvidia").rglob("*.spirv")
    binary.write_bytes(b"other")
    code, output, _ = cli("cache", "check")
    assert code == 1
    assert "damaged: add for nvidia:sm_90, add-" in output
    info.target = Target("amd", "gfx942")
    code, output, _ = cli("cache", "check")
    assert code == 1
    assert "no entry is for amd:gfx942" in output


@pytest.mark.parametrize("command", ["export --oci new", "check", "lock"])
def test_a_choice_of_nothing_says_what_there_is(command: str, layout: Path, cli: Cli) -> None:
    words = command.split() if command == "lock" else ["cache", *command.split()]
    for chosen, near in (("--kernel ad", " (there is add)"), ("--target amd", "")):
        code, _, errors = cli(*words, *chosen.split())
        assert code == 1
        said = f"the kernels for cpu:spirv64, nvidia:sm_90 in .*cache, {chosen} chooses none"
        assert re.search(said, " ".join(errors.split()))
        assert near in errors


def test_entries_that_are_damaged_are_neither_exported_nor_loaded(
    layout: Path, tmp_path: Path, cli: Cli
) -> None:
    for file in (tmp_path / "cache").rglob("*.spirv"):
        file.write_bytes(file.read_bytes() + b"more")
    for words in (("export", "--oci", "new"), ("export", "--oci", "new", "--target", "cpu")):
        code, _, errors = cli("cache", *words)
        assert code == 1
        said = " ".join(errors.split())
        assert re.search("no chosen entry of .*cache is intact. `xtarget cache verify` says", said)
    code, _, errors = cli("cache", "check", "--target", "cpu")
    assert code == 1
    assert "is intact" in errors


def test_what_lies_in_another_cache_is_not_exported(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_cache: UseCache, cli: Cli
) -> None:
    monkeypatch.setenv("XTARGET_CACHE_PATH", str(tmp_path / "cache"))
    use_cache(tmp_path / "empty")
    code, _, errors = cli("cache", "export", "--oci", "new")
    assert code == 1
    assert "empty has no compiled kernels. Run the program" in " ".join(errors.split())


@pytest.mark.parametrize("command", ["export --oci new", "check", "lock"])
def test_a_cache_that_cannot_be_read_is_not_empty(
    command: str, tmp_path: Path, use_cache: UseCache, cli: Cli
) -> None:
    (tmp_path / "file").write_text("no folder")
    use_cache(tmp_path / "file")
    words = command.split() if command == "lock" else ["cache", *command.split()]
    code, _, errors = cli(*words)
    assert code == 1
    assert "cannot be looked at" in errors


@pytest.mark.parametrize("tag", ["", "a b", "a:b", "-x", "x" * 129])
def test_a_tag_that_no_registry_takes_is_refused(
    tag: str, layout: Path, tmp_path: Path, cli: Cli
) -> None:
    words = ("--oci", str(tmp_path / "second"), f"--tag={tag}")
    code, _, errors = cli("cache", "export", *words)
    assert code == 1
    assert "no tag of an image" in errors
    assert not (tmp_path / "second").exists()


def test_an_image_is_not_written_into_a_file(layout: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, errors = cli("cache", "export", "--oci", str(tmp_path / "thesis.tex"))
    assert code == 1
    assert "thesis.tex is a file" in errors


def test_layers_are_packed_by_zstd_where_that_is_asked_for(
    layout: Path, tmp_path: Path, use_cache: UseCache, cli: Cli
) -> None:
    pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    image = tmp_path / "small"
    words = ("--oci", str(image), "--compression", "zstd", "--json")
    code, output, errors = cli("cache", "export", *words)
    assert code == 0, errors
    assert {one["content"] for one in json.loads(output)["layers"]} == {str(SM_90), str(CPU)}
    manifests = [d for d in content(image).values() if b"image.layer" in d]
    layers = json.loads(manifests[0])["layers"]
    assert all(one["mediaType"].endswith("layer.v1.tar+zstd") for one in layers)
    use_cache(tmp_path / "other")
    assert cli("cache", "import", "--oci", str(image))[0] == 0
    assert len(list((tmp_path / "other").rglob("add-*.json"))) == 2
    # an image of gzip's layers stays as it was
    assert all(b"tar+zstd" not in data for data in content(layout).values())


def test_without_zstd_its_install_line_is_said(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    for name in ("compression", "compression.zstd", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    words = ("cache", "export", "--oci", str(tmp_path / "small"), "--compression", "zstd")
    code, _, errors = cli(*words)
    assert code == 1
    assert "packing takes zstd" in errors
    assert 'pip install "xtarget[zstd]"' in errors
    with pytest.raises(XTargetError, match=r"this is packed by zstd.*xtarget\[zstd\]"):
        compression.unpack(b"\x28\xb5\x2f\xfd rest", 100)


@pytest.mark.parametrize("kind", compression.KINDS)
def test_what_unpacks_to_too_much_is_refused(kind: str) -> None:
    if kind == "zstd":
        pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    packed = compression.pack(bytes(100_000), kind)
    assert compression.pack(bytes(100_000), kind) == packed
    assert len(compression.unpack(packed, 100_000)) == 100_000
    with pytest.raises(ValueError, match="unpacks to more than 99999 bytes"):
        compression.unpack(packed, 99_999)
    with pytest.raises((ValueError, EOFError, OSError)):
        compression.unpack(packed[:-9], 100_000)


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


class Rewritten:
    """A layout as another tool writes it."""

    def __init__(self, layout: Path) -> None:
        self.folder = layout
        self.index = json.loads((layout / "index.json").read_bytes())
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))

    def blob(self, descriptor: Any) -> bytes:
        return (self.folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()

    def put(self, data: bytes, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": "x", **more, "digest": f"sha256:{digest}", "size": len(data)}

    def layers(
        self,
        change: Callable[[bytes], bytes],
        media: str = "application/vnd.oci.image.layer.v1.tar",
    ) -> None:
        """Each layer as `change` of its plain tar file."""
        self.manifest["layers"] = [
            self.put(change(unpacked(self.blob(layer))), mediaType=media)
            for layer in self.manifest["layers"]
        ]
        self.write(self.put(json.dumps(self.manifest).encode()))

    def write(self, *manifests: dict[str, Any]) -> None:
        (self.folder / "index.json").write_text(json.dumps({"manifests": manifests}))


def renamed(plain: bytes, change: Callable[[str, bytes], Members]) -> bytes:
    """The tar file with members that `change` gives for each."""
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(plain)) as old,
        tarfile.open(fileobj=made, mode="w") as new,
    ):
        for member in old:
            taken = old.extractfile(member)
            assert taken is not None
            data = taken.read()
            for name, content in change(member.name, data):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                new.addfile(info, io.BytesIO(content))
    return made.getvalue()


def block(member: tarfile.TarInfo, **numbers: tuple[int, int]) -> bytes:
    """The head of a member, with numbers that `tarfile` would not write, and their places."""
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    for place, number in numbers.values():
        head[place : place + 12] = (number % (1 << 95) | 1 << 95).to_bytes(12, "big")
        if number < 0:
            head[place] = 0xFF
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def sparse(name: str, size: int) -> bytes:
    """A member of GNU tar that has no bytes and reads as `size` zeros."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.GNUTYPE_SPARSE
    return block(info, offset=(386, 0), bytes=(398, 0), size=(483, size))


def test_what_other_tools_make_of_a_layout_is_read(
    layout: Path,
    tmp_path: Path,
    use_cache: UseCache,
    cli: Cli,
) -> None:
    def added(name: str) -> Any:
        use_cache(tmp_path / name)
        code, output, errors = cli("cache", "import", "--oci", str(layout), "--json")
        assert code == 0, errors
        return json.loads(output)["added"]

    image = Rewritten(layout)
    image.layers(lambda plain: plain)  # packed by nobody
    assert added("plain") == 2
    image = Rewritten(layout)

    def again(name: str, data: bytes) -> Members:
        return [(f"./{name}", b"old"), (f"./{name}", data), ("./etc/x", b"")]

    docker = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    image.layers(lambda plain: gzip.compress(renamed(plain, again)), docker)
    assert added("renamed, and twice") == 2
    image = Rewritten(layout)
    signature = image.put(b"{}", mediaType="application/vnd.dev.cosign.simplesigning.v1+json")
    signed = image.put(json.dumps({"layers": [signature]}).encode())
    inner = image.put(json.dumps({"manifests": [*image.index["manifests"], signed]}).encode())
    image.write(inner, inner)
    assert added("an index in an index") == 2


def test_what_a_layout_has_no_business_with_is_refused(
    layout: Path, tmp_path: Path, cli: Cli
) -> None:
    def refused() -> str:
        code, _, errors = cli("cache", "import", "--oci", str(layout))
        assert code == 1
        return " ".join(errors.split())

    def elsewhere(name: str, data: bytes) -> Members:
        return [(f"xtarget/cache/../../{name}", data), (name.replace("add", "mul"), data)]

    image = Rewritten(layout)
    first = json.dumps(image.manifest)
    changes: dict[str, Callable[[bytes], bytes]] = {
        "lies where another entry belongs": lambda plain: renamed(plain, elsewhere),
        "unexpected end of data": lambda plain: plain[:700],
        "compression method": lambda plain: b"\x1f\x8b" + plain,
        "end-of-stream": lambda plain: gzip.compress(plain)[:-20],
        "decompressing": lambda plain: gzip.compress(plain)[:15] + b"\0" * 40,
    }
    for message, change in changes.items():
        image.manifest = json.loads(first)
        image.layers(change)
        said = refused()
        assert "is damaged" in said
        assert message in said, said
    loop: dict[str, Any] = {"manifests": image.index["manifests"]}
    for _ in range(20):
        loop = {"manifests": [image.put(json.dumps(loop).encode())]}
    image.write(*loop["manifests"])
    assert "in too many others" in refused()
    image.manifest = json.loads(first)
    image.layers(lambda plain: sparse("xtarget/cache/v1/add.json", 1 << 62) + plain)
    assert "xtarget/cache/v1/add.json is a sparse file" in refused()


def test_a_member_after_which_it_comes_again_ends_the_reading() -> None:
    first = block(tarfile.TarInfo("etc/a"))
    layer = first + block(tarfile.TarInfo("etc/b"), size=(124, -512))
    found: Any
    try:
        found = oci._files_of(layer)
    except ValueError as error:
        found = str(error)
    # Pythons that know of it (CVE-2025-8194) end there
    assert found in ("etc/b is said to have -512 bytes", {})


def test_indexes_that_name_others_again_and_again_are_read_once(
    layout: Path, tmp_path: Path, use_cache: UseCache, cli: Cli
) -> None:
    image = Rewritten(layout)
    named = image.index["manifests"]
    for _ in range(6):
        named = [image.put(json.dumps({"manifests": named}).encode())] * 60
    image.write(*named)
    use_cache(tmp_path / "other")
    _, output, errors = cli("cache", "import", "--oci", str(layout), "--json")
    assert output == '{"added": 2, "failed": 0}\n', errors


def test_images_of_other_tags_stay_in_a_layout(layout: Path, cli: Cli) -> None:
    words = ("cache", "export", "--oci", str(layout), "--target", "cpu", "--tag")
    for tag, there in (("v2", ["latest", "v2"]), ("latest", ["v2", "latest"])):
        code, _, errors = cli(*words, tag)
        assert code == 0, errors
        listed = json.loads((layout / "index.json").read_bytes())["manifests"]
        assert [one["annotations"]["org.opencontainers.image.ref.name"] for one in listed] == there
    (layout / "index.json").write_text("{")
    code, _, errors = cli(*words, "v3")
    assert code == 1
    assert "the index of the OCI image layout" in errors
