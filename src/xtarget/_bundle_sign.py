"""Ed25519 signatures of bundles: who signed, and whether `XTARGET_TRUST` names them.

What is signed is the header, which holds the sha256 of the manifest, which holds those of all
else. `cryptography` is imported only where there is something to sign or to check.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _env
from ._bundle_format import BundleFile
from ._errors import LoadError, XTargetError

__all__ = ["check", "signer", "verify"]

#: Public key, then signature of the header.
_KEY_BYTES = 32
_INSTALL = 'pip install "xtarget[trust]"'


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise XTargetError(
            f"signatures need the package cryptography ({error}). Install it: {_INSTALL}"
        ) from error
    return ed25519


def _trusted(path: Path) -> frozenset[bytes]:
    """Public keys of a file: PEM, or one in each line, 64 hexadecimal digits; `#` begins a
    comment."""
    try:
        text = path.read_text(encoding="utf-8")
        if "-----BEGIN PUBLIC KEY-----" in text:
            return _pem_keys(text)
        lines = text.splitlines()
        words = [line.partition("#")[0].strip() for line in lines]
        keys = frozenset(bytes.fromhex(word) for word in words if word)
    except (OSError, ValueError) as error:
        raise LoadError(
            f"XTARGET_TRUST={path} cannot be read as a list of keys ({error}). Write one public "
            "key a line, 64 hexadecimal digits each."
        ) from error
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise LoadError(
            f"XTARGET_TRUST={path} names no key, or one that has not 64 hexadecimal digits. Write "
            "one public key a line."
        )
    return keys


def _pem_keys(text: str) -> frozenset[bytes]:
    """Raises:
    ValueError: a block is no Ed25519 public key.
    """
    ed25519 = _ed25519()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    mark = "-----BEGIN PUBLIC KEY-----"
    loaded = [load_pem_public_key((mark + part).encode()) for part in text.split(mark)[1:]]
    if not all(isinstance(key, ed25519.Ed25519PublicKey) for key in loaded):
        raise ValueError("a key is not of Ed25519")
    return frozenset(key.public_bytes_raw() for key in loaded)


def check(file: BundleFile) -> str | None:
    """The signer's public key (hexadecimal) where `XTARGET_TRUST` is set; None where nobody asked:
    the digests hold without it.

    Raises:
        LoadError: the signature is wrong; or `XTARGET_TRUST` is set and there is no signature, or
            a stranger's.
    """
    trust = _env.trust_file()
    if trust is None:
        return None
    if not file.signature:
        raise LoadError(
            f"the bundle {file.path} is refused: it is not signed, and XTARGET_TRUST={trust} asks "
            "for a signature. Build it with --sign, or unset XTARGET_TRUST."
        )
    key = file.signature[:_KEY_BYTES]
    if key not in _trusted(trust):
        raise LoadError(
            f"the bundle {file.path} is refused: it is signed by {key.hex()}, whom "
            f"XTARGET_TRUST={trust} does not name. Add that key if you trust it."
        )
    return verify(file)


def verify(file: BundleFile) -> str:
    """The public key (hexadecimal) that signed the bundle, whoever that is.

    Raises:
        LoadError: the signature is not one of this file's content.
    """
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    key, signature = file.signature[:_KEY_BYTES], file.signature[_KEY_BYTES:]
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, file.signed)
    except (InvalidSignature, ValueError) as error:
        raise LoadError(
            f"the bundle {file.path} is refused: its signature is not one of its content. It was "
            "changed after it was signed; get it again from where it was built."
        ) from error
    return key.hex()


def signer(path: Path) -> Callable[[bytes], bytes]:
    """What signs with the private key of a PEM file (PKCS #8, `openssl genpkey -algorithm
    ed25519`)."""
    ed25519 = _ed25519()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise XTargetError(
            f"{path} cannot be read as a private key ({error}). Make one with: openssl genpkey "
            "-algorithm ed25519 -out key.pem"
        ) from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise XTargetError(
            f"{path} is no Ed25519 key. Make one with: openssl genpkey -algorithm ed25519 -out "
            "key.pem"
        )
    public: bytes = private.public_key().public_bytes_raw()
    return lambda text: public + private.sign(text)
