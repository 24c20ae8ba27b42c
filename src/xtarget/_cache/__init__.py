"""The cache of compiled kernels: folders on disk, and optionally a remote store.

    <cache dir>/v1/nvidia/sm_90/add-<key>.cubin   the binary, readable by the vendor's tools
    <cache dir>/v1/nvidia/sm_90/add-<key>.json    the commit mark: the artifact without its
                                                      bytes, all parts of the key, size and sha256
                                                      of every file, and its own sha256
    <cache dir>/v1/.locks  .quarantine  .usage        who compiles; what was damaged; bytes in use

The JSON is written last. A reader believes nothing that it has not checked; whatever is wrong is a
miss, and the kernel is compiled again. `entry` is the format, `files` and `store` one folder on
disk, `lock` single flight, `evict` the size cap, `remote` the store behind, `cache` all of them in
their order, `explain` what the command line shows,
`stats` what was counted in this process.
"""

from __future__ import annotations

from .._artifacts.entry import SCHEMA, key_of
from .cache import Cache, default_cache

__all__ = ["SCHEMA", "Cache", "default_cache", "key_of"]
