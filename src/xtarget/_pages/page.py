"""The frame of a report's page, and its tables. What comes from outside is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .. import __version__
from .._values.text import one_line

__all__ = ["facts", "figure", "notes", "page", "section", "table"]

_STYLE = """
:root { color-scheme: light; --ink: #1a1f29; --soft: #5b6472; --line: #d5dae2; --back: #fff;
  --head: #f3f5f8; --good: #1b7f4b; --bad: #b3261e; --dim: #8a6d00; }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 84rem; color: var(--ink); background: var(--back);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 1.6rem; margin: .5rem 0 } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem }
p, li { max-width: 46rem } .soft { color: var(--soft) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0 }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; vertical-align: top }
th { background: var(--head) } tr:last-child td { border-bottom: 0 }
td.number, th.number { text-align: right } td.text { white-space: normal; min-width: 12rem }
.good { color: var(--good) } .bad { color: var(--bad); font-weight: 600 }
.dim { color: var(--dim) }
.plots { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
figure { margin: 0; padding: .5rem; max-width: 46rem; border: 1px solid var(--line);
  border-radius: 6px }
figure svg { width: 100%; height: auto; display: block }
figcaption { color: var(--soft); font-size: .85rem }
@media (max-width: 40rem) { body { font-size: 15px } dl { grid-template-columns: 1fr; gap: 0 }
  dd { margin-bottom: .4rem } }
@media print { body { max-width: none; padding: 0; font-size: 10pt }
  .wide { overflow: visible; border: 0 } table { font-size: 7.5pt }
  th, td { padding: .15rem .3rem; white-space: normal } td.text { min-width: 0 }
  .plots { grid-template-columns: 1fr 1fr }
  figure, tr { break-inside: avoid } h2 { break-after: avoid } }
"""


def page(title: str, parts: Iterable[str]) -> bytes:
    """The whole file.

    Args:
        parts: HTML of this module's functions.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_text(title)}</h1>\n"
        + "\n".join(parts)
        + f'\n<p class="soft">Written by xtarget {_text(__version__)}.</p>\n</body>\n</html>\n'
    ).encode()


def _text(value: object) -> str:
    return escape(one_line(str(value)))


def section(title: str, *parts: str, text: str = "") -> str:
    said = f"<p>{_text(text)}</p>\n" if text else ""
    return f"<section>\n<h2>{_text(title)}</h2>\n{said}" + "\n".join(parts) + "\n</section>"


def facts(pairs: Mapping[str, object]) -> str:
    """Names and values, one below the other."""
    inner = "".join(f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in pairs.items())
    return f"<dl>{inner}</dl>"


def notes(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(one)}</li>" for one in sentences) + "</ul>"


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: frozenset[int] = frozenset(),
    texts: frozenset[int] = frozenset(),
    classes: Mapping[str, str] | None = None,
) -> str:
    """A table that scrolls on its own where it is wider than the page.

    Args:
        numbers: columns that end at the right.
        texts: columns with sentences, which are broken into lines.
        classes: a cell that begins with this word gets the class (`good`, `bad`, `dim`).
    """

    def cell(tag: str, index: int, value: str) -> str:
        kinds = ["number"] * (index in numbers) + ["text"] * (index in texts)
        if tag == "td" and classes:
            kinds += [kind for word, kind in classes.items() if value.startswith(word)][:1]
        attribute = f' class="{" ".join(kinds)}"' if kinds else ""
        return f"<{tag}{attribute}>{_text(value)}</{tag}>"

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(cell(tag, i, value) for i, value in enumerate(cells)) + "</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return (
        f'<div class="wide"><table>\n<thead>{line("th", columns)}</thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> str:
    """A plot.

    Args:
        svg: of a plotting library: it stands in the page as it is.
    """
    return f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>"
