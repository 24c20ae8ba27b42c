"""A large array in chunks, each a task of Ray (needs ray).

The worker that has a chunk uses the device of its machine. With `@ray.remote(num_gpus=1)` Ray gives
each task a GPU of its own, and with `ray.init()` the tasks run on the cluster of RAY_ADDRESS.
Run it with: python examples/ray_tasks.py
"""

import os

import numpy as np
import ray

import xtarget


@ray.remote(num_cpus=1)
def soft_rows(chunk):
    """A worker's part for a chunk: its first call loads, the later ones only launch."""
    # the arrays that Ray hands over cannot be written to: they are inputs, never `out`
    return os.getpid(), xtarget.run("softmax", xtarget.run("mul", chunk, 2.0))


if __name__ == "__main__":
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    x = np.random.default_rng(0).standard_normal((4000, 500)).astype(np.float32)
    done = ray.get([soft_rows.remote(chunk) for chunk in np.array_split(x, 8)])
    ray.shutdown()
    result = np.concatenate([rows for _, rows in done])
    e = np.exp(2.0 * x.astype(np.float64))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
    print(f"{len(done)} chunks by {len({pid for pid, _ in done})} workers: right")
