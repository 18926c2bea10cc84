"""Text and Markdown: the columns that a terminal has, and what must be said loudly."""

import dataclasses

import pytest
from sample_reports import HOSTILE, full, op, report

from jaxscale_magic.cost import Collective, Unmodelled
from jaxscale_magic.report.escaping import columns, for_markdown, shorten_columns


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("🎉", 2)],
)
def test_columns_as_a_terminal_counts_them(text, width):
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 5, "ab…ij"),
        ("漢漢漢漢", 5, "漢…漢"),  # 2 + 1 + 2
        ("漢漢漢漢", 4, "漢…"),  # the second half has one column, too few for a wide character
    ],
)
def test_the_middle_gives_way(text, limit, short):
    assert shorten_columns(text, limit) == short


@pytest.mark.parametrize("name", [*HOSTILE, "漢" * 150, "\u2028a\u2029b", "e\u0301" * 200], ids=lambda s: ascii(s)[:20])
def test_no_line_is_wider_than_eighty_columns(name):
    sample = report((op(name, 2, flops=10**12, text=name), op(name, 3)), title=name, notes=(name,), stands_in=name)
    lines = str(sample).splitlines()
    assert max(map(columns, lines)) <= 80
    assert lines == str(sample).split("\n")  # no separator but our own


def test_faster_than_possible_is_said_though_no_note_does():
    # lower bound 10 ms; 0.98 of it is 9.8 ms
    for minimum, loud in ((0.0097, True), (0.0099, False)):
        sample = dataclasses.replace(full(), measured=dataclasses.replace(full().measured, minimum=minimum))
        assert ("MEASURED FASTER" in str(sample)) is loud


def test_faster_than_possible_is_said_once():
    measured = dataclasses.replace(full().measured, minimum=0.001)
    sample = dataclasses.replace(full(), measured=measured, notes=("MEASURED FASTER THAN POSSIBLE: so.",))
    assert str(sample).count("MEASURED FASTER") == 1


def test_a_measurement_without_a_number_is_unknown():
    sample = dataclasses.replace(full(), measured=dataclasses.replace(full().measured, minimum=float("nan")))
    assert "nan" not in str(sample)
    assert "measured     unknown" in str(sample)


def test_equal_collectives_are_one_row():
    same = tuple(Collective(kind="all-reduce", dtype="bf16", bytes=10**6, count=2) for _ in range(3))
    sample = dataclasses.replace(full(), cost=dataclasses.replace(full().cost, collectives=same))
    assert "6 × all-reduce of 1.00 MB (bf16)" in str(sample)  # 3 × 2 runs


def test_everything_that_is_not_modelled_is_named():
    many = tuple(Unmodelled(name=f"call_{k}", count=1, reason="custom call") for k in range(40))
    text = str(report(unmodelled=many))
    assert "37 more below" in text
    assert all(f"call_{k} " in text for k in range(40))


@pytest.mark.parametrize(
    ("text", "markdown"), [("1. a", "1\\. a"), ("10.0 ms", "10.0 ms"), ("<b>", "&lt;b&gt;"), ("a|b", "a\\|b")]
)
def test_markdown_of_a_user_stays_text(text, markdown):
    assert for_markdown(text) == markdown
