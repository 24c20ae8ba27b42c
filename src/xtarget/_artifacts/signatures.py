"""Ed25519 keys and signatures of entries and bundles: whom to believe, and signing. The keys are
the files that OpenSSL writes:

    openssl genpkey -algorithm ed25519 -out sign.pem              XTARGET_SIGN=sign.pem
    openssl pkey -in sign.pem -pubout -out trust.pem              XTARGET_TRUST=trust.pem

A trust file may hold several public keys, one after the other; or one a line, 64 hexadecimal digits
each, where `#` begins a comment. `cryptography` is imported only where there is a key to read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._system import files
from .._values.errors import UntrustedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["PUBLIC_BYTES", "Signer", "Trust", "is_signed"]

#: Signed before the message, so that a signature made for something else is none here.
_CONTEXT = b"xtarget signature 1\n"
_MAX_KEY_FILE = 1 << 20
PUBLIC_BYTES = 32


class Trust:
    """The signers of a trust file.

    Raises:
        UntrustedError: the file cannot be read or holds no Ed25519 public key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _content(path)
        blocks = re.findall(
            rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", text, re.DOTALL
        )
        keys = [_key(path, block, private=False) for block in blocks]
        if b"-----BEGIN" not in text:
            keys = [_public(raw) for raw in _lines(path, text)]
        if not keys:
            raise UntrustedError(
                f"{path} holds no public key, neither PEM nor 64 hexadecimal digits a line. {_MAKE}"
            )
        self._keys: dict[str, Ed25519PublicKey] = {key_id(key): key for key in keys}

    def names(self, public: bytes) -> bool:
        """Check whether a raw public key is one of these keys."""
        return any(key.public_bytes_raw() == public for key in self._keys.values())

    def check(self, message: bytes, signer: str | None, signature: str | None) -> None:
        """Raises:
        UntrustedError: it is not signed by one of these, or not what was signed.
        """
        from cryptography.exceptions import InvalidSignature

        if not isinstance(signer, str) or not isinstance(signature, str):
            raise UntrustedError(f"it is not signed, and {self.path} believes signed ones only")
        key = self._keys.get(signer)
        if key is None:
            raise UntrustedError(f"its signer {signer[:40]} is not in {self.path}")
        try:
            key.verify(base64.b64decode(signature, validate=True), _CONTEXT + message)
        except (InvalidSignature, ValueError):
            raise UntrustedError(f"its signature by {signer} is wrong") from None


class Signer:
    """A private key to sign with.

    Raises:
        UntrustedError: the file cannot be read or holds no Ed25519 private key.
    """

    def __init__(self, path: Path) -> None:
        self._key: Ed25519PrivateKey = _key(path, _content(path), private=True)
        self.id = key_id(self._key.public_key())
        self.public: bytes = self._key.public_key().public_bytes_raw()

    def sign_raw(self, message: bytes) -> bytes:
        """The 64 bytes of a signature, without a context before the message."""
        signature: bytes = self._key.sign(message)
        return signature

    def sign(self, message: bytes) -> tuple[str, str]:
        """The signer's id, and the signature in base64."""
        return self.id, base64.b64encode(self._key.sign(_CONTEXT + message)).decode()


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Check whether the owner of a raw public key signed a message.

    The signature has the form that `Signer.sign_raw` makes.

    Raises:
        UntrustedError: cryptography is not installed.
    """
    _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id(key: Ed25519PublicKey) -> str:
    """The first 32 hex digits of the sha256 of the raw public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]


_MAKE = (
    "`openssl genpkey -algorithm ed25519 -out sign.pem` makes a private key, `openssl pkey -in "
    "sign.pem -pubout -out trust.pem` its public one."
)


def _content(path: Path) -> bytes:
    try:
        return files.read_regular(path, _MAX_KEY_FILE)
    except OSError as error:
        raise UntrustedError(f"the key file {path} cannot be read: {error.strerror}.") from error


def _lines(path: Path, text: bytes) -> list[bytes]:
    words = [line.partition(b"#")[0].strip().decode(errors="replace") for line in text.splitlines()]
    try:
        keys = [bytes.fromhex(word) for word in words if word]
    except ValueError:
        keys = [b""]
    if any(len(key) != PUBLIC_BYTES for key in keys):
        raise UntrustedError(
            f"{path} has a line that is not a public key, which is 64 hexadecimal digits. {_MAKE}"
        )
    return keys


def _public(raw: bytes) -> Ed25519PublicKey:
    _, ed25519 = _cryptography()
    key: Ed25519PublicKey = ed25519.Ed25519PublicKey.from_public_bytes(raw)
    return key


def _cryptography() -> tuple[Any, Any]:
    """Its modules `serialization` and `ed25519`."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UntrustedError(
            "Signatures need the package cryptography, which is not installed. Install it with "
            'pip install "xtarget[trust]".'
        ) from error
    return serialization, ed25519


def _key(path: Path, pem: bytes, *, private: bool) -> Any:
    serialization, ed25519 = _cryptography()
    kind = ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey
    try:
        key: Any = (
            serialization.load_pem_private_key(pem, password=None)
            if private
            else serialization.load_pem_public_key(pem)
        )
    except (ValueError, TypeError) as error:
        raise UntrustedError(f"{path} holds no key that can be read ({error}). {_MAKE}") from error
    if not isinstance(key, kind):
        raise UntrustedError(f"{path} holds a key that is not an Ed25519 one. {_MAKE}")
    return key
