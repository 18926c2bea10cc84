"""Reports as plain text of 80 columns, and as Markdown."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jaxscale_magic.report.build import build
from jaxscale_magic.report.escaping import columns, fit, for_markdown, plain, shorten_columns
from jaxscale_magic.report.parts import Bars, Chart, Facts, Headline, Items, More, Note, Part, Table
from jaxscale_magic.report.record import RooflineReport

WIDTH, LONGEST_NOTE = 80, 2000
_MARKS = {"warning": "! ", "note": "· "}


def report_text(report: RooflineReport) -> str:
    """The report in lines of at most 80 characters, without colour codes."""
    lines: list[str] = []
    for part in build(report):
        spaced = [""] if isinstance(part, (Bars, More)) else []
        for line in (*spaced, *_text(part)):
            if line or (lines and lines[-1]):  # never two empty lines
                lines.append(line)
    return "\n".join(lines).rstrip()


@functools.singledispatch
def _text(part: Part) -> list[str]:
    raise TypeError(f"no text rendering for {type(part).__name__}")


@_text.register
def _(part: Headline) -> list[str]:
    return [plain(part.text).upper(), *_wrapped(part.below), ""]


@_text.register
def _(part: Bars) -> list[str]:
    wide = max(len(bar.label) for bar in part.bars)
    of = max(len(bar.of) for bar in part.bars)
    room = WIDTH - wide - of - 18
    rows = []
    for bar in part.bars:
        length = round(bar.fraction * room * 8)
        blocks = "█" * (length // 8) + ("▏▎▍▌▋▊▉"[length % 8 - 1] if length % 8 else "")
        rows.append(f"  {bar.label:<{wide}}  {bar.value:>10}  {bar.of:>{of}}  {blocks}".rstrip())
    return [*rows, ""]


@_text.register
def _(part: Table) -> list[str]:
    if not part.rows:
        return []
    cells = [[plain(cell) for cell in row] for row in (part.columns, *part.rows)]
    widths = [max(columns(row[k]) for row in cells) for k in range(len(part.columns))]
    flexible = max(range(len(widths)), key=lambda k: widths[k])
    spare = WIDTH - 2 - sum(widths) - 2 * (len(widths) - 1)
    widths[flexible] = max(8, widths[flexible] + min(0, spare))
    lines = _wrapped(part.title)
    for row in cells:
        shown = [
            _padded(shorten_columns(cell, width), width, right=k in part.right)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(fit(("  " + "  ".join(shown)).rstrip(), WIDTH))
    return [*lines, ""]


@_text.register
def _(part: Facts) -> list[str]:
    wide = max(len(name) for name, _ in part.facts)
    lines = []
    for name, value in part.facts:
        lines += _wrapped(value, first=f"  {name:<{wide}}  ", rest=" " * (wide + 4))
    return [*lines, ""]


@_text.register
def _(part: Note) -> list[str]:
    mark = _MARKS[part.kind]
    return _wrapped(part.text, first=mark, rest=" " * len(mark))


@_text.register
def _(part: Items) -> list[str]:
    return [line for item in part.items for line in _wrapped(item, first="→ ", rest="  ")] + [""]


@_text.register
def _(part: Chart) -> list[str]:
    return []  # the picture needs a page; its numbers stand in the tables


@_text.register
def _(part: More) -> list[str]:
    return [line for inner in part.parts for line in _text(inner)]


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if right else cell + space


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """Words in lines of at most WIDTH columns; a word longer than a line is broken."""
    lines: list[str] = []
    line, empty = first, True
    for word in plain(text, limit=LONGEST_NOTE).split():
        if not empty and columns(line) + 1 + columns(word) > WIDTH:
            lines, line, empty = [*lines, line], rest, True
        line, empty = line + ("" if empty else " ") + word, False
        while columns(line) > WIDTH:
            head = fit(line, WIDTH)
            lines, line = [*lines, head], rest + line[len(head) :]
    return lines if empty else [*lines, line]


def report_markdown(report: RooflineReport) -> str:
    """The report as Markdown."""
    return "\n".join(line for part in build(report) for line in _markdown(part)).rstrip() + "\n"


@functools.singledispatch
def _markdown(part: Part) -> list[str]:
    raise TypeError(f"no Markdown rendering for {type(part).__name__}")


@_markdown.register
def _(part: Headline) -> list[str]:
    return [f"### {for_markdown(part.text)}", "", for_markdown(part.below, limit=600), ""]


@_markdown.register
def _(part: Bars) -> list[str]:
    rows = [(bar.label, bar.value, bar.of, "█" * round(20 * bar.fraction)) for bar in part.bars]
    return _markdown_table(("", "time", "of", ""), rows, {1, 2})


@_markdown.register
def _(part: Table) -> list[str]:
    return [f"**{for_markdown(part.title)}**", "", *_markdown_table(part.columns, part.rows, part.right)]


@_markdown.register
def _(part: Facts) -> list[str]:
    return _markdown_table(("", ""), part.facts, frozenset())


@_markdown.register
def _(part: Note) -> list[str]:
    words = {"warning": "**Warning:** ", "note": ""}
    return [words[part.kind] + for_markdown(part.text, limit=LONGEST_NOTE), ""]


@_markdown.register
def _(part: Items) -> list[str]:
    items = [f"- {for_markdown(item, limit=LONGEST_NOTE)}" for item in part.items]
    return [f"**{for_markdown(part.title)}**", "", *items, ""]


@_markdown.register
def _(part: Chart) -> list[str]:
    return []


@_markdown.register
def _(part: More) -> list[str]:
    return [line for inner in part.parts for line in _markdown(inner)]


def _markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] | set[int]
) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(for_markdown(cell) for cell in cells) + " |"

    rule = "|" + "|".join("--:" if k in right else ":--" for k in range(len(columns))) + "|"
    return [line(columns), rule, *map(line, rows), ""]
