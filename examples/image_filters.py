"""An image pipeline in one kernel: blur, sharpen, contrast and vignette, without temporaries.

Run it with: python examples/image_filters.py [IN.ppm [OUT.ppm]]     (without IN: a drawn picture)
"""

import sys

import numpy as np
import triton
import triton.language as tl

import xtarget
from xtarget.spec import In, Out, cdiv


@xtarget.kernel(grid=lambda c: (c.H, cdiv(c.W, c.BLOCK)), constants={"BLOCK": 256}, complete=True)
@triton.jit
def develop(image: In["float32", "C", "H", "W"], out: Out["float32", "C", "H", "W"],  # noqa: F821 (names of axes)
            C, H, W, sharpen, contrast, BLOCK: tl.constexpr):  # fmt: skip
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < W
    dy, dx = row / H - 0.5, column / W - 0.5
    light = 1.0 - 0.8 * (dx * dx + dy * dy)
    for channel in range(C):
        plane = image + channel * H * W
        total = tl.zeros([BLOCK], tl.float32)
        for y in range(-1, 2):
            line = min(max(row + y, 0), H - 1) * W
            for x in range(-1, 2):
                place = tl.minimum(tl.maximum(column + x, 0), W - 1)
                total += tl.load(plane + line + place, inside, other=0.0)
        here = tl.load(plane + row * W + column, inside, other=0.0)
        value = here + sharpen * (here - total / 9)
        value = ((value - 0.5) * contrast + 0.5) * light
        value = tl.minimum(tl.maximum(value, 0.0), 1.0)
        tl.store(out + channel * H * W + row * W + column, value, inside)


def read(path):
    with open(path, "rb") as file:
        magic, width, height, most = file.read().split(maxsplit=4)[:4]
        assert (magic, most) == (b"P6", b"255"), "a PPM of 8 bits, please"
        file.seek(-int(width) * int(height) * 3, 2)
        return np.frombuffer(file.read(), np.uint8).reshape(int(height), int(width), 3)


def drawn():
    y, x = np.mgrid[0:240, 0:320] / 40
    waves = [np.sin(x * a + y * b) for a, b in ((1, 0.3), (0.4, 1.1), (1.3, -0.8))]
    return ((np.stack(waves, -1) + 1) * 127.5).astype(np.uint8)


picture = read(sys.argv[1]) if len(sys.argv) > 1 else drawn()
planes = np.ascontiguousarray(picture.transpose(2, 0, 1)).astype(np.float32) / 255
done = xtarget.run("develop", planes, 1.5, 1.2)
bytes_out = np.ascontiguousarray((done * 255 + 0.5).astype(np.uint8).transpose(1, 2, 0))
with open(sys.argv[2] if len(sys.argv) > 2 else "developed.ppm", "wb") as file:
    file.write(b"P6\n%d %d\n255\n" % (bytes_out.shape[1], bytes_out.shape[0]) + bytes_out.tobytes())
print(f"wrote {file.name}, {picture.shape[1]}x{picture.shape[0]}")
