"""The box in a notebook for code that cannot be analysed: its lines, the one at fault, what to write instead.

What is wrong stands below it, in the traceback that the front end shows (`CellError._render_traceback_`), so that
nothing is told twice. In a terminal there is no box, and the traceback tells all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxscale_magic.errors import CellError, JaxscaleError
from jaxscale_magic.report.bundle import has_kernel
from jaxscale_magic.report.escaping import for_html, plain
from jaxscale_magic.report.palette import colour, theme_css

#: Class of the element around an error, and how many lines before and after the one at fault are shown.
CLASS, AROUND = "jaxscale-error", 1


def show_error(error: JaxscaleError, lines: Sequence[str] = ()) -> None:
    """Display the box of an error that is about to be raised, where a notebook shows it; else do nothing.

    An error without a line of code needs no box: its traceback holds all of it.

    Args:
        error: it is raised by the caller afterwards; a second call with the same error shows nothing.
        lines: the cell's text as the notebook counts it, `lines[0]` being the magic's own line.
    """
    if not isinstance(error, CellError) or error.boxed or not error.text or not has_kernel():
        return
    from IPython.display import display

    display(error_bundle(error, lines), raw=True)
    error.boxed = True


def error_bundle(error: CellError, lines: Sequence[str] = ()) -> Mapping[str, str]:
    """MIME type -> rendering of the box."""
    text = "\n".join(filter(None, (*(f"{mark} {number}  {code}" for number, mark, code in _excerpt(error, lines)),)))
    return {
        "text/html": error_html(error, lines),
        "text/plain": "\n".join(filter(None, (text, error.advice and f"→ {plain(error.advice, limit=2000)}"))),
    }


def error_html(error: CellError, lines: Sequence[str] = ()) -> str:
    """The box: a few lines of the code, the one at fault marked, and what to write instead."""
    rows = "".join(
        f'<tr style="background:transparent"><td align="right" style="padding:0 8px 0 0;border:none;opacity:.75">'
        f'{number}</td><td style="padding:0;border:none;text-align:left;white-space:pre-wrap">'
        + (
            f"<b><bdi><code>{for_html(code)}</code></bdi></b>"
            if mark == ">"
            else f"<bdi><code>{for_html(code)}</code></bdi>"
        )
        + "</td></tr>"
        for number, mark, code in _excerpt(error, lines)
    )
    table = f'<table style="border:none;margin:0 0 4px">{rows}</table>' if rows else ""
    advice = f'<p style="margin:0">→ <bdi>{for_html(error.advice, limit=2000)}</bdi></p>' if error.advice else ""
    return (
        f'<div class="{CLASS}" style="max-width:52em;line-height:1.4;font-size:14px;padding:2px 8px;'
        f'border-left:6px solid {colour("memory")}"><style>{theme_css(CLASS)}</style>{table}{advice}</div>'
    )


def _excerpt(error: CellError, lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """(line number, ">" at the line at fault, code) of the lines around it; without numbers where there is no cell."""
    if not error.text:
        return []
    if not error.where or error.line is None or not 1 <= error.line <= len(lines):
        return [(str(error.line) if error.where else "", ">", plain(error.text))]
    first, last = max(2, error.line - AROUND), min(len(lines), error.line + AROUND)
    return [
        (str(number), ">" if number == error.line else " ", plain(lines[number - 1]))
        for number in range(first, last + 1)
        if lines[number - 1].strip()
    ]
