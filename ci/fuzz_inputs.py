#!/usr/bin/env python3
"""The first inputs of ci/fuzz.sh: a bundle's parts, and answers of a compile server.

ci/fuzz_inputs.py BUNDLE FOLDER
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from xtarget._bundle.format import BundleFile
from xtarget._bundle.writer import write_bundle

HEAD = b"HTTP/1.1 %d OK\r\nXtarget-Protocol: 1\r\nConnection: close\r\n\r\n"


def answer_of(content: bytes) -> bytes:
    """Return what a server sends with a bundle."""
    digest = hashlib.sha256(content).hexdigest().encode()
    return HEAD % 200 + b"working\nbundle %d %s\n" % (len(content), digest) + content


def main() -> None:
    """Write them."""
    bundle, folder = map(Path, sys.argv[1:])
    file, whole = BundleFile(bundle), bundle.read_bytes()
    inputs = {
        "bundle": whole,
        "answer": answer_of(whole),
        "answer-empty": answer_of(write_bundle({}, [])),
        "refusal": HEAD % 200 + b"error no Triton here.\n",
        "token": HEAD % 401 + b"it asks for a token.",
    }
    for target in file.sections:
        for number, (_, _, mark) in enumerate(file.call_records(target)):
            inputs[f"record-{number}"] = file.binary(target, mark.json())
    for name, content in inputs.items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
