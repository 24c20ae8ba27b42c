"""Tensor maps that the host makes for a launch: what the core and Python tell the driver."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xtarget._values.types import Parameter
from xtarget.targets._objects.tensor_maps import TensorMap, map_of

CORE = Path(__file__).parents[2] / "src" / "xtarget" / "_core"
#: bfloat16, 32 bytes of swizzle, tiles of 64 x 128.
TYPE = "tensormap:9:2:1:64x128"
PROGRAM = """
#include "launch.h"
#include <inttypes.h>
#include <stdio.h>

static int encode(void *map, int dtype, uint32_t rank, void *address, const uint64_t *lengths,
                  const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                  int interleave, int swizzle, int promotion, int fill) {
  printf("%d %u %" PRIuPTR, dtype, rank, (uintptr_t)address);
  for (uint32_t i = 0; i < rank; i++) printf(" %" PRIu64, lengths[i]);
  for (uint32_t i = 0; i + 1 < rank; i++) printf(" %" PRIu64, strides[i]);
  for (uint32_t i = 0; i < rank; i++) printf(" %u %u", box[i], element_strides[i]);
  printf(" %d %d %d %d %d\\n", interleave, swizzle, promotion, fill, (int)((uintptr_t)map % 64));
  return address == (void *)4096 ? 1 : 0;
}

int main(void) {
  static struct xt_maps maps;
  static struct xt_launch launch;
  uint64_t bytes[XT_MOST_PARAMETERS];
  void *places[XT_MOST_PARAMETERS];
  struct xt_value values[2] = {{XT_ADDRESS, {.address = 1024}}, {XT_INTEGER, {.integer = 7}}};
  const int64_t sizes[] = {300, 400, 1000};
  launch.encode = encode;
  launch.map_count = 1;
  launch.parameter_count = 6;
  launch.parameters[0] = (struct xt_parameter){XT_PASS_WORD, 1, 0, 0, 8};
  launch.parameters[1] = (struct xt_parameter){XT_PASS_MAP, 0, UINT64_C(BITS), 0, 8};
  for (int i = 0; i < 3; i++)
    launch.parameters[2 + i] = (struct xt_parameter){XT_PASS_SIZE, i, 0, 0, 8};
  launch.parameters[5] = (struct xt_parameter){XT_PASS_WORD, -1, 1, 0, 8};
  int status = xt_pack(&launch, values, sizes, bytes, places, &maps);
  unsigned char *map = places[1];
  unsigned char *end = maps.room + sizeof maps.room;
  printf("%d %d\\n", status, map >= maps.room && map + XT_MAP_BYTES <= end);
  values[0].as.address = 4096; /* the driver refuses */
  printf("%d\\n", xt_pack(&launch, values, sizes, bytes, places, &maps));
  values[0].kind = XT_INTEGER;
  printf("%d\\n", xt_pack(&launch, values, sizes, bytes, places, &maps));
  return 0;
}
"""
#: dtype, dimensions, address, lengths and the stride in bytes from the innermost on, lengths of the
#: tile with the steps in it, then CU_TENSOR_MAP_INTERLEAVE_NONE, the swizzle,
#: CU_TENSOR_MAP_L2_PROMOTION_L2_128B, zeros past the end, and the map at a multiple of 64 bytes.
TOLD = "9 2 1024 400 300 2000 128 1 64 1 0 1 2 0 0"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_core_makes_a_map_of_an_address_and_the_sizes_behind_it(tmp_path: Path) -> None:
    source, program = tmp_path / "maps.c", tmp_path / "maps"
    word = map_of(TYPE)
    assert word is not None
    source.write_text(PROGRAM.replace("BITS", str(word.word)))
    files = [str(source), str(CORE / "launch.c")]
    subprocess.run(
        ["cc", "-std=c11", f"-I{CORE}", *files, "-lm", "-o", str(program)], check=True, timeout=60
    )
    said = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    refused = TOLD.replace("1024", "4096", 1)
    assert said.stdout.splitlines() == [TOLD, "0 1", refused, "-1", "-1"]


@pytest.mark.parametrize("factor", [2.5, math.inf, math.nan])
def test_python_tells_the_driver_the_same(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    tensor_maps = pytest.importorskip("xtarget.targets.nvidia.tensor_maps")
    told: list[str] = []
    launched: list[list[int]] = []
    factors: list[float] = []

    @tensor_maps._ENCODE
    def encode(
        map_: int, dtype: int, rank: int, address: int, lengths: int, strides: int, box: int,
        steps: int, *rest: int,
    ) -> int:  # fmt: skip
        def read(kind: Any, place: int, count: int) -> list[int]:
            return list((kind * count).from_address(place))

        tile, one = read(ctypes.c_uint32, box, rank), read(ctypes.c_uint32, steps, rank)
        boxes = zip(tile, one, strict=True)
        numbers = [dtype, rank, address, *read(ctypes.c_uint64, lengths, rank)]
        numbers += [*read(ctypes.c_uint64, strides, rank - 1), *(n for pair in boxes for n in pair)]
        told.append(" ".join(map(str, [*numbers, *rest, map_ % 64])))
        ctypes.memset(map_, 0x5A, 128)
        return 0

    class Driver:
        @staticmethod
        def cuLaunchKernel(function: Any, *rest: Any) -> tuple[int]:
            places = list((ctypes.c_void_p * 7).from_address(rest[8]))
            first, map_, *numbers = [
                ctypes.c_uint32.from_address(place).value for place in places[:6]
            ]
            factors.append(ctypes.c_float.from_address(places[6]).value)
            whole = ctypes.string_at(places[1], 128) == b"\x5a" * 128
            launched.append([*rest[:7], first, map_, whole, *numbers])
            return (0,)

        CUresult = CUfunction = CUstream = staticmethod(int)

    monkeypatch.setattr(tensor_maps, "driver", Driver)
    monkeypatch.setattr(tensor_maps, "check", lambda answer, what: None)
    types = ["i32", TYPE, "i32", "i32", "i64", "i64", "fp32"]
    launch = tensor_maps.launch_with_maps(
        [Parameter(f"p{i}", type_) for i, type_ in enumerate(types)],
        ctypes.cast(encode, ctypes.c_void_p).value,
        "a kernel",
    )
    one = type("Handle", (), {"handle": 5, "grid": (2, 3, 4), "block": (32, 1, 1), "shmem_size": 6})
    values = [ctypes.c_uint32(7), 1024, ctypes.c_uint32(300), ctypes.c_uint32(400), 1000, 1]
    launch(one, one, one, *values, ctypes.c_float(factor))
    assert told == [TOLD]
    np.testing.assert_array_equal(factors, [factor])
    assert launched == [[2, 3, 4, 32, 1, 1, 6, 7, 0x5A5A5A5A, True, 300, 400, 1000, 1]]


def test_types_say_what_a_map_is_of() -> None:
    assert map_of(TYPE) == TensorMap(dtype=9, itemsize=2, swizzle=1, tile=(64, 128))
    assert map_of("*bf16") is None
    for wrong in ("tensormap:9:2:1:64x48", "tensormap:9:0:1:64", "tensormap:9:2:1"):
        with pytest.raises(ValueError, match=r"tensor map|not enough values"):
            map_of(wrong)
