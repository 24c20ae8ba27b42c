"""A folder that looks like the kernel driver's topology: one CPU, and the GPUs that one asks for.

Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c (names and formats of the files).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["GPUS", "write"]

#: By arch; the meaning of each figure is in the file.
GPUS: Mapping[str, Mapping[str, int]] = tomllib.loads(
    Path(__file__).with_name("gpus.toml").read_text()
)
_AMD = 0x1002
_GIB = 1 << 30
#: HSA_CAPABILITY: doorbells of type 2, no debugger (its start is an ioctl that the model lacks).
_CAPABILITY = 1 << 7 | 1 << 8 | 1 << 9 | 2 << 12 | 1 << 16
_SRAM_ECC = 1 << 26
_SYSTEM_MEMORY, _LOCAL_MEMORY = 0, 1
_PCIE = 2


def write(folder: Path, archs: Sequence[str]) -> None:
    """Write the topology of a machine with these GPUs, in this order."""
    count = len(archs)
    _put(folder / "generation_id", "1")
    _put(folder / "system_properties", _table(platform_oem=0, platform_id=0, platform_rev=0))
    _node(folder / "nodes/0", 0, "", cpu_cores_count=2, mem_banks_count=1, io_links_count=count)
    _bank(folder / "nodes/0", _SYSTEM_MEMORY, 8 * _GIB, 64)
    for number, arch in enumerate(archs, 1):
        _link(folder / f"nodes/0/io_links/{number - 1}", 0, number)
        _gpu(folder / f"nodes/{number}", number, arch)


def _gpu(node: Path, number: int, arch: str) -> None:
    gpu = GPUS[arch]
    ecc = _SRAM_ECC if arch in ("gfx90a", "gfx942", "gfx950") else 0
    _node(
        node,
        number + 1,
        arch,
        mem_banks_count=1,
        caches_count=2,
        io_links_count=1,
        simd_count=gpu["simds"],
        simd_per_cu=gpu["per_cu"],
        simd_id_base=1 << 31,
        max_waves_per_simd=8,
        lds_size_in_kb=gpu["lds_kib"],
        wave_front_size=gpu["wave"],
        num_xcc=gpu["xccs"],
        array_count=gpu["arrays"],
        simd_arrays_per_engine=1,
        cu_per_simd_array=gpu["array"],
        max_slots_scratch_cu=32,
        gfx_target_version=_version(arch),
        vendor_id=_AMD,
        device_id=gpu["device"],
        location_id=256 * (number + 2),
        drm_render_minor=127 + number,
        num_sdma_engines=2,
        num_sdma_queues_per_engine=8,
        num_cp_queues=24,
        max_engine_clk_fcompute=2100,
        local_mem_size=gpu["memory"] * _GIB,
        fw_version=200,
        sdma_fw_version=24,
        capability=_CAPABILITY | ecc,
        unique_id=1_000_000 + number,
        family_id=141,
    )
    _bank(node, _LOCAL_MEMORY, gpu["memory"] * _GIB, 4096)
    _link(node / "io_links/0", number, 0)
    for index, (level, kib) in enumerate(((1, 32), (2, 4096))):
        cache = _table(
            processor_id_low=1 << 31,
            level=level,
            size=kib,
            cache_line_size=128,
            cache_lines_per_tag=1,
            association=16,
            latency=0,
            type=9,
        )
        _put(node / f"caches/{index}/properties", f"{cache}\nsibling_map {','.join('1' * 64)}")


def _version(arch: str) -> int:
    """`gfx90a` to 90010: two decimal digits each of minor version and stepping."""
    digits = arch.removeprefix("gfx")
    major, minor, stepping = int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
    return major * 10_000 + minor * 100 + stepping


def _node(node: Path, gpu_id: int, name: str, **properties: int) -> None:
    _put(node / "gpu_id", str(gpu_id))
    _put(node / "name", name)
    _put(node / "properties", _table(**properties, max_engine_clk_ccompute=3000))


def _bank(node: Path, kind: int, nbytes: int, width: int) -> None:
    bank = _table(heap_type=kind, size_in_bytes=nbytes, flags=0, width=width, mem_clk_max=1300)
    _put(node / "mem_banks/0/properties", bank)


def _link(folder: Path, start: int, end: int) -> None:
    link = _table(type=_PCIE, node_from=start, node_to=end, weight=20, flags=1)
    _put(folder / "properties", link)


def _table(**values: int) -> str:
    return "\n".join(f"{name} {value}" for name, value in values.items())


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
