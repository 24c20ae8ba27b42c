"""A large array in chunks, each on one of several worker processes (needs dask).

Workers are started with "spawn": a vendor's run time does not work in a child of a fork.
Run it with: python examples/dask_workers.py
"""

import os

import dask
import numpy as np

import xtarget


@dask.delayed
def soft_rows(chunk):
    """A worker's part for a chunk: its first call loads, the later ones only launch."""
    return os.getpid(), xtarget.run("softmax", xtarget.run("mul", chunk, 2.0))


if __name__ == "__main__":
    x = np.random.default_rng(0).standard_normal((4000, 500)).astype(np.float32)
    tasks = [soft_rows(chunk) for chunk in np.array_split(x, 8)]
    with dask.config.set({"multiprocessing.context": "spawn"}):
        done = dask.compute(*tasks, scheduler="processes", num_workers=2)
    result = np.concatenate([rows for _, rows in done])
    e = np.exp(2.0 * x.astype(np.float64))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
    print(f"{len(done)} chunks by {len({pid for pid, _ in done})} workers: right")
