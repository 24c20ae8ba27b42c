"""Signatures of bundles: who signed, and whether `XTARGET_TRUST` names them.

What is signed is the header, which holds the sha256 of the manifest, which holds those of all else.
Keys and the arithmetic are in `_artifacts.signatures`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .._values import environment
from .._values.errors import LoadError
from .format import BundleFile

__all__ = ["check", "signer", "verify"]


def check(file: BundleFile) -> str | None:
    """The signer's public key (hexadecimal) where `XTARGET_TRUST` is set; None where nobody asked:
    the digests hold without it.

    Raises:
        LoadError: the signature is wrong; or `XTARGET_TRUST` is set and there is no signature, or
            a stranger's.
        UntrustedError: the keys that `XTARGET_TRUST` names cannot be read.
    """
    path = environment.trust_file()
    if path is None:
        return None
    if not file.signature:
        raise LoadError(
            f"the bundle {file.path} is refused: it is not signed, and XTARGET_TRUST={path} asks "
            "for a signature. Build it with --sign, or unset XTARGET_TRUST."
        )
    from .._artifacts.signatures import PUBLIC_BYTES, Trust

    key = file.signature[:PUBLIC_BYTES]
    if not Trust(path).names(key):
        raise LoadError(
            f"the bundle {file.path} is refused: it is signed by {key.hex()}, whom "
            f"XTARGET_TRUST={path} does not name. Add that key if you trust it."
        )
    return verify(file)


def verify(file: BundleFile) -> str:
    """The public key (hexadecimal) that signed the bundle, whoever that is.

    Raises:
        LoadError: the signature is not one of this file's content.
        UntrustedError: signatures cannot be checked here.
    """
    from .._artifacts.signatures import PUBLIC_BYTES, is_signed

    key, signature = file.signature[:PUBLIC_BYTES], file.signature[PUBLIC_BYTES:]
    if not is_signed(key, signature, file.signed):
        raise LoadError(
            f"the bundle {file.path} is refused: its signature is not one of its content. It was "
            "changed after it was signed; get it again from where it was built."
        )
    return key.hex()


def signer(path: Path) -> Callable[[bytes], bytes]:
    """Return a function that signs with the private key of a PEM file.

    The function returns the public key, followed by the signature.

    Raises:
        UntrustedError: the file cannot be read as an Ed25519 private key.
    """
    from .._artifacts.signatures import Signer

    key = Signer(path)
    return lambda text: key.public + key.sign_raw(text)
