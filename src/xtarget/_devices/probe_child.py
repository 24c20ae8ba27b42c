"""The process in which a vendor is probed. Its answer is one report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._children.frames import pack
from .._children.serve import Answer, serve


def _loaded() -> Answer:
    from . import registry

    def report(header: dict[str, Any], parts: list[bytes]) -> bytes:
        return pack(asdict(registry.driver(header["vendor"]).probe()))

    return report


if __name__ == "__main__":
    serve(_loaded)
