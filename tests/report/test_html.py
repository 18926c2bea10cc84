"""HTML: bounded in size, readable without styles, and the box of an error."""

import dataclasses
import re
import sys

from sample_reports import full, op, report

from jaxscale_magic.cost import Collective, Unmodelled
from jaxscale_magic.report.bundle import mimebundle
from jaxscale_magic.report.html import report_page
from jaxscale_magic.report.palette import DARK, LIGHT


def many(count):
    return report(
        tuple(op("&" * 199 + str(k), k, flops=10**12, text="&" * 199) for k in range(count)),
        notes=tuple("n" * 3000 for _ in range(count)),
        unmodelled=tuple(Unmodelled(name=f"call_{k}" * 20, count=3, reason="r" * 100) for k in range(count)),
    )


def test_the_size_is_bounded_whatever_the_program():
    sample = many(2000)
    collectives = tuple(Collective(kind="all-reduce", dtype="bf16", bytes=k, count=2) for k in range(2000))
    sample = dataclasses.replace(sample, cost=dataclasses.replace(sample.cost, collectives=collectives))
    assert len(sample.to_html().encode()) < 200_000
    assert "3,940 smaller ones" in sample.to_html()  # (2000 - 30) × 2


def test_words_take_the_colour_of_the_page():
    html = full().to_html()
    for fill in re.findall(r'<text[^>]* fill="([^"]+)"', html):
        assert fill == "currentColor"
    for tone in (*LIGHT.values(), *DARK.values()):  # a colour stands only on marks and borders
        assert not re.search(rf"color:{tone}[^>]*>(?!■)[^<]*\w", html)


def test_numbers_are_aligned_and_the_picture_is_legible_without_styles():
    bare = re.sub(r' style="[^"]*"', "", full().to_html())
    assert '<td align="right">10.0 ms</td>' in bare
    assert 'font-size="11"' in bare


def test_no_coordinate_is_missing():
    for minimum in (float("nan"), float("inf"), 0.0):
        measured = dataclasses.replace(full().measured, minimum=minimum)
        html = dataclasses.replace(full(), measured=measured).to_html()
        assert not re.search(r'"-?(nan|inf)', html)


def test_without_the_widget_the_page_says_why(monkeypatch):
    monkeypatch.setattr("jaxscale_magic.report.bundle.has_kernel", lambda: True)
    monkeypatch.setitem(sys.modules, "jaxscale_magic.widgets", None)  # importing it fails
    bundle = mimebundle(full())
    assert set(bundle) == {"text/plain", "text/html"}
    assert "interactive view cannot be shown" in bundle["text/html"]


def test_a_page_is_dark_where_the_readers_system_is():
    page = report_page(full())
    rules = page.index("prefers-color-scheme:dark")
    assert ":root{color-scheme:light dark}" in page
    assert "--jaxscale-compute:" not in page[rules + 400 :]  # no later rule takes the colours back
    assert "details::details-content" in page  # printed in full
