"""The box of an error in a notebook: what it holds, that it is shown once, and not in a terminal."""

import re

import pytest
from sample_reports import HOSTILE

from jaxscale_magic.errors import CellError, ChipError
from jaxscale_magic.report.error_box import error_bundle, error_html, show_error

CELL = ("%%roofline", "z = y + 1", "print(z.sum())", "z * 2")


def error():
    return CellError("it needs a number.", advice="Write it right.", line=3, text=CELL[2])


def test_the_box_shows_the_line_its_neighbours_and_what_to_write():
    html = error_html(error(), CELL)
    assert re.findall(r"<code>(.*?)</code>", html) == ["z = y + 1", "print(z.sum())", "z * 2"]
    assert re.findall(r"<b><bdi><code>(.*?)</code>", html) == ["print(z.sum())"]
    assert "Write it right." in html
    assert "%%roofline" not in html
    assert error_bundle(error(), CELL)["text/plain"].splitlines() == [
        "  2  z = y + 1",
        "> 3  print(z.sum())",
        "  4  z * 2",
        "→ Write it right.",
    ]


def test_without_the_cell_the_line_alone_is_shown():
    assert re.findall(r"<code>(.*?)</code>", error_html(error())) == ["print(z.sum())"]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda s: ascii(s)[:20])
def test_hostile_text_is_text(name):
    html = error_html(CellError(name, advice=name, line=2, text=name), ("", name))
    html.encode("utf-8")
    assert not re.search(r"<(script|img)", html)
    assert not any(harmful in html for harmful in "\x1b\x00\u202e\u2066")


@pytest.fixture
def displayed(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    return shown


def test_a_notebook_shows_the_box_once_and_the_rest_below_it(displayed, monkeypatch):
    monkeypatch.setattr("jaxscale_magic.report.error_box.has_kernel", lambda: True)
    failed = error()
    show_error(failed, CELL)
    show_error(failed, CELL)
    assert len(displayed) == 1
    below = failed._render_traceback_()
    assert below == ["CellError, line 3: it needs a number."]
    assert "it needs a number" not in displayed[0]["text/html"]  # nothing is told twice
    assert "Write it right" not in "".join(below)


def test_a_terminal_shows_no_box(displayed):
    failed = error()
    show_error(failed, CELL)
    assert displayed == []
    assert len(failed._render_traceback_()) == 3


@pytest.mark.parametrize("failed", [ChipError("no such chip."), CellError("it cannot be.", advice="Do this.")])
def test_an_error_without_code_needs_no_box(failed, displayed, monkeypatch):
    monkeypatch.setattr("jaxscale_magic.report.error_box.has_kernel", lambda: True)
    show_error(failed)
    assert displayed == []
