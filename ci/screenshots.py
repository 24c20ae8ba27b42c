#!/usr/bin/env python3
"""Pictures of commands for the docs: what a terminal of 100 columns shows, as SVG, by rich.

    cd ~/xtarget && .venv/bin/python ci/screenshots.py docs/images devices doctor

Run it in a checkout in your home folder, whose path is then `~`.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100
#: As rich's own, without the fonts that it would load from the network.
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def shown(words: list[str]) -> str:
    """The text that a command writes to a terminal."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [str(Path(sys.executable).parent / "xtarget"), *words],
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm"},
    )
    os.close(follower)
    parts = []
    try:
        while part := os.read(leader, 65536):
            parts.append(part)
    except OSError:  # how Linux tells that nobody has the other end any more
        pass
    child.wait()
    return b"".join(parts).decode().replace("\r\n", "\n").replace(str(Path.home()), "~")


def main(folder: str, commands: list[str]) -> None:
    for command in commands:
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(Text.from_ansi(f"$ xtarget {command}\n{shown(command.split())}"))
        file = Path(folder) / f"{command.replace(' ', '-')}.svg"
        file.parent.mkdir(parents=True, exist_ok=True)
        svg = console.export_svg(title="", code_format=_FORMAT, unique_id=file.stem)
        file.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")
        print(file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
