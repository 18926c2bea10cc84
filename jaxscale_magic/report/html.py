"""Reports as HTML: a self-contained fragment without script, and whole pages.

It reads right where styles are stripped (tables, headings and `details` carry it), on dark pages (text takes the
page's own colour, marks the theme's) and on paper. The box of an error is in `error_box.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jaxscale_magic.report.build import build
from jaxscale_magic.report.escaping import for_html
from jaxscale_magic.report.palette import colour, paint, theme_css
from jaxscale_magic.report.parts import Bars, Chart, Facts, Headline, Items, More, Note, Part, Table
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.report.svg import chart_svg

_MARKS = {"warning": "⚠ ", "note": ""}
#: Longest text of a table's cell, so that the page stays small whatever the program's names.
LONGEST_CELL = 120
#: Class of the element around a report.
CLASS = "jaxscale-report"
_CELL = "padding:1px 10px 1px 0;border:none;background:transparent"


def report_html(report: RooflineReport, *, remark: str = "", leave_out: tuple[type[Part], ...] = ()) -> str:
    """The report as a fragment; `remark` is one more line below it, `leave_out` kinds of parts shown elsewhere."""
    body = _body(report, leave_out) + (_html(Note("note", remark)) if remark else "")
    return _framed(f"<style>{theme_css(CLASS)}</style>{body}")


def _body(report: RooflineReport, leave_out: tuple[type[Part], ...] = ()) -> str:
    return "".join(_html(part) for part in build(report) if not isinstance(part, leave_out))


def _framed(body: str) -> str:
    return f'<div class="{CLASS}" style="max-width:52em;line-height:1.4;font-size:14px">{body}</div>'


def report_page(report: RooflineReport) -> str:
    """The report as a whole page."""
    return reports_page([report])


def reports_page(reports: Sequence[RooflineReport]) -> str:
    """Several reports below one another as a whole page."""
    title = for_html(reports[0].title if reports else "jaxscale-magic")
    style = (
        "body{font-family:system-ui,sans-serif;margin:2em auto;max-width:56em;padding:0 1em}"
        + ":root{color-scheme:light dark}"
        + theme_css(CLASS, own_page=True)
        # Paper cannot unfold: what is folded away is printed too.
        + "@media print{details::details-content{content-visibility:visible;block-size:auto}"
        "tr,svg,li{break-inside:avoid}body{margin:0;max-width:none}}"
    )
    rule = '<hr style="margin:2em 0;opacity:.3">'
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        + rule.join(_framed(_body(report)) for report in reports)  # the page's own style gives the colours
        + "</body></html>"
    )


@functools.singledispatch
def _html(part: Part) -> str:
    raise TypeError(f"no HTML rendering for {type(part).__name__}")


@_html.register
def _(part: Headline) -> str:
    return (
        f'<h3 style="margin:0 0 2px;padding-left:8px;border-left:6px solid {colour(part.tone)}">'
        f"{for_html(part.text)}</h3>"
        f'<p style="margin:0 0 8px">{for_html(part.below, limit=400)}</p>'
    )


@_html.register
def _(part: Bars) -> str:
    rows = []
    for bar in part.bars:
        width = max(0.3, 100 * bar.fraction) if bar.fraction else 0
        fill = (
            f'<svg width="100%" height="12" role="img" aria-label="{for_html(bar.label)}: {for_html(bar.value)}">'
            f'<rect width="{width:.1f}%" height="12" rx="2" {paint(bar.tone)}/></svg>'
        )
        number = f'align="right" style="{_CELL};text-align:right;white-space:nowrap"'
        rows.append(
            f'<tr style="background:transparent"><th align="left" style="{_CELL};text-align:left;font-weight:normal;'
            f'white-space:nowrap">{for_html(bar.label)}</th>'
            f'<td {number} title="{for_html(bar.exact)}">{for_html(bar.value)}</td>'
            f'<td {number}>{for_html(bar.of)}</td><td style="{_CELL};width:60%">{fill}</td></tr>'
        )
    return f'<table style="border:none;width:100%;margin:0 0 8px">{"".join(rows)}</table>'


@_html.register
def _(part: Table) -> str:
    head = "".join(
        f'<th align="{_side(part, k)}" style="{_CELL};text-align:{_side(part, k)}">{for_html(column)}</th>'
        for k, column in enumerate(part.columns)
    )
    rows = []
    for number, row in enumerate(part.rows):
        tone = part.tones[number] if part.tones else ""
        cells = "".join(
            f'<td align="{_side(part, k)}" style="{_CELL};text-align:{_side(part, k)}">'
            f"{_cell(part, k, cell, tone)}</td>"
            for k, cell in enumerate(row)
        )
        rows.append(f'<tr style="background:transparent">{cells}</tr>')
    return (
        f'<p style="margin:8px 0 2px"><b>{for_html(part.title)}</b></p><table style="border:none;margin:0 0 8px">'
        f'<thead><tr style="background:transparent">{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _side(part: Table, column: int) -> str:
    return "right" if column in part.right else "left"


def _cell(part: Table, column: int, cell: str, tone: str) -> str:
    shown = for_html(cell, limit=LONGEST_CELL)
    if part.columns[column] == "bound" and tone:  # the mark has the colour; the word stays readable on any page
        return f'<span style="color:{colour(tone)}">■</span> <b>{shown}</b>'
    return f"<bdi><code>{shown}</code></bdi>" if part.columns[column] in ("code", "instruction") else shown


@_html.register
def _(part: Facts) -> str:
    rows = "".join(
        f'<tr style="background:transparent"><th align="left" style="{_CELL};text-align:left;'
        f'font-weight:normal;opacity:.75;vertical-align:top;white-space:nowrap">{for_html(name)}</th>'
        f'<td style="{_CELL};text-align:left">{for_html(value, limit=2000)}</td></tr>'
        for name, value in part.facts
    )
    return f'<table style="border:none;margin:4px 0 8px">{rows}</table>'


@_html.register
def _(part: Note) -> str:
    tone = {"warning": "memory"}.get(part.kind)
    border = f";border-left:3px solid {colour(tone)};padding-left:8px" if tone else ";opacity:.8;font-size:90%"
    return f'<p style="margin:3px 0{border}">{_MARKS[part.kind]}<bdi>{for_html(part.text, limit=2000)}</bdi></p>'


@_html.register
def _(part: Items) -> str:
    items = "".join(f"<li><bdi>{for_html(item, limit=2000)}</bdi></li>" for item in part.items)
    return (
        f'<div style="margin:6px 0;border-left:3px solid {colour("communication")};padding-left:8px">'
        f'<b>{for_html(part.title)}</b><ul style="margin:0;padding-left:1.3em">{items}</ul></div>'
    )


@_html.register
def _(part: Chart) -> str:
    return f'<div style="margin:4px 0">{chart_svg(part)}</div>'


@_html.register
def _(part: More) -> str:
    inside = "".join(_html(inner) for inner in part.parts)
    return f"<details><summary>{for_html(part.summary)}</summary>{inside}</details>"
