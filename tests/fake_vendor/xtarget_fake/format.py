"""The fake vendor's binary: a magic, a digest, and JSON that names a kernel and its constants."""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAGIC = b"FAKEBIN1"
_DIGEST = 32


def encode(content: dict[str, Any]) -> bytes:
    body = json.dumps(content, sort_keys=True).encode()
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(binary: bytes) -> dict[str, Any]:
    """The content.

    Raises:
        ValueError: the bytes are not what `encode` made.
    """
    body = binary[len(MAGIC) + _DIGEST :]
    if not binary.startswith(MAGIC):
        raise ValueError("it does not begin with FAKEBIN1")
    if hashlib.sha256(body).digest() != binary[len(MAGIC) : len(MAGIC) + _DIGEST]:
        raise ValueError("its digest is wrong")
    content: dict[str, Any] = json.loads(body)
    return content
