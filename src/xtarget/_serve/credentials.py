"""The credentials of a compile server and of its clients: tokens, and TLS."""

from __future__ import annotations

import hashlib
import os
import ssl
import stat
from pathlib import Path

from .._system import files
from .._values.errors import ArgumentError

__all__ = ["hashed", "tls_of", "tokens_of"]

_MOST_TOKEN_FILE = 1 << 20


def tokens_of(path: Path) -> dict[bytes, str]:
    """Clients by the sha256 of their tokens. A line is `token`, or `name token`.

    Raises:
        ArgumentError: the file cannot be read, may be read by others, or has none.
    """
    try:
        text = files.read_regular(path, _MOST_TOKEN_FILE).decode()
        mode = os.stat(path).st_mode
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"the token file {path} (--token) cannot be read: {why}. Name a file with a "
            f"token a line: (umask 077; openssl rand -hex 32 > {path})"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ArgumentError(
            f"the token file {path} may be read by others. Take their rights: chmod 600 {path}"
        )
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    found: dict[bytes, str] = {}
    for number, words in enumerate(lines, 1):
        if len(words) > 2 or (words and len(words[-1]) < 16):
            raise ArgumentError(
                f"line {number} of {path} is no `name token` with a token of 16 characters or more."
            )
        if words:
            client = words[0] if len(words) == 2 else f"of line {number}"
            found[hashed(words[-1])] = client
    if not found:
        raise ArgumentError(f"{path} has no token. Make one: openssl rand -hex 32 > {path}")
    return found


def hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def tls_of(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ArgumentError("TLS needs both --tls-cert and --tls-key.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        missing = dict.fromkeys(str(path) for path in (certificate, key) if not path.is_file())
        why = (
            f"there is no file {' or '.join(missing)}"
            if missing
            else "they are no certificate and its key in PEM"
            if isinstance(error, ssl.SSLError)
            else error.strerror or error
        )
        raise ArgumentError(
            f"--tls-cert {certificate} and --tls-key {key} cannot be used: {why}."
        ) from error
    return context
