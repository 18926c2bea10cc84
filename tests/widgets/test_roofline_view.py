"""The interactive view, driven from Python: what the marks hold, and what choosing a chip changes."""

from __future__ import annotations

import dataclasses

import pytest
from widget_samples import HOSTILE, chip, op, report

from jaxscale_magic.chips import chips
from jaxscale_magic.cost import Collective
from jaxscale_magic.quantity import intensity, seconds
from jaxscale_magic.report.palette import DARK, colour
from jaxscale_magic.widgets import roofline_widget
from jaxscale_magic.widgets.roofline_view import RooflineView

FAST = chip("fast", peaks={"bf16": 4e12}, bandwidth=1e10, title="Chip Fast")
NO_BF16 = chip("odd", peaks={"s8": 1e11}, title="Chip Odd")
OPS = (op("dot", 10**9, 10**6), op("copy", 0, 2 * 10**6), op("tanh", 0, 10**6, vector=10**6))


def view(*ops, **kwargs) -> RooflineView:
    return RooflineView(report(ops, **kwargs), (chip(), FAST, NO_BF16))


def test_own_chip_comes_first_and_once():
    chooser = view(*OPS).chooser
    assert chooser.options == (("Chip one (this report)", "one"), ("Chip Fast", "fast"), ("Chip Odd", "odd"))
    assert chooser.value == "one"


def test_marks_hold_the_figure():
    shown = view(*OPS, measured=0.05)
    # 1.001e9 FLOP over 4e6 bytes; 10 ms of compute against 4 ms of memory
    assert shown.program.x == pytest.approx([1.001e9 / 4e6])
    assert shown.program.y == pytest.approx([1.001e9 / 0.01])
    assert list(shown.program.colors) == [colour("compute")]
    assert shown.measured.y == pytest.approx([1.001e9 / 0.05])
    # 10 ms, 2 ms and 1 ms of 13 ms
    assert shown.ops.size == pytest.approx([10 / 13, 2 / 13, 1 / 13])
    assert list(shown.ops.colors) == [colour("compute"), colour("memory"), colour("memory")]
    assert list(shown.roofs.y.ravel()) == pytest.approx([1e11, 1e11])
    assert list(shown.roof_labels.text) == ["bf16 100 GFLOP/s"]


def test_axes_carry_their_units():
    shown = view(*OPS)
    assert shown.x_axis.label == "arithmetic intensity (FLOP/byte)"
    assert shown.y_axis.label == "FLOP/s"


def test_choosing_a_chip_reprices_at_once_and_back():
    shown = view(*OPS, measured=0.05)
    marks, before = list(shown.figure.marks), shown.headline.value
    shown.chooser.value = "fast"
    # 1e9 FLOP take 0.25 ms at 4e12, 4e6 bytes 0.4 ms at 1e10: now memory
    priced = shown.report.on(FAST)
    assert shown.program.y == pytest.approx([1.001e9 / 4e-4])
    assert list(shown.program.colors) == [colour("memory")]
    assert list(shown.roofs.y.ravel()) == pytest.approx([4e12, 4e12])
    for value in (
        "Memory-bound on Chip Fast",
        seconds(priced.time.compute or 0),
        seconds(priced.time.memory),
        intensity(priced.intensity),
        intensity(priced.ridge),
    ):
        assert value in shown.headline.value
    assert "measured" not in shown.headline.value
    assert not shown.measured.visible
    assert "Chip Fast" in shown.headline.value
    assert "Figures" in shown.details.value or "products" in shown.details.value
    assert list(shown.figure.marks) == marks  # the same marks, with other data
    shown.chooser.value = "one"
    assert shown.headline.value == before
    assert shown.measured.visible


def test_own_range_stays_in_sight():
    shown = view(*OPS)
    low, high = shown.y_scale.min, shown.y_scale.max
    shown.chooser.value = "fast"
    assert shown.y_scale.min <= low
    assert shown.y_scale.max >= high


def test_measured_is_in_the_headline():
    assert "50.0 ms (5 × the lower bound)" in view(*OPS, measured=0.05).headline.value


def test_unknown_peak_is_said_not_raised():
    shown = view(*OPS)
    shown.chooser.value = "odd"
    assert "compute time is unknown there" in shown.headline.value
    assert ">unknown<" in shown.headline.value
    assert not shown.ridge.visible


@pytest.mark.parametrize("ops", [(), (op("copy", 0, 10**6),), (op("iota", 10**6, 0),), (op("none", 0, 0),)])
@pytest.mark.parametrize("measured", [None, 0.0, 0.01])
@pytest.mark.parametrize("chosen", ["one", "fast", "odd"])
def test_odd_programs_on_every_chip(ops, measured, chosen):
    shown = view(*ops, measured=measured)
    shown.chooser.value = chosen
    for mark in (shown.program, shown.measured, shown.ops):
        assert all(mark.x > 0)
        assert all(mark.y > 0)


def test_hostile_text_never_becomes_markup():
    hostile = chip("hostile", title=HOSTILE)
    shown = RooflineView(report((op(HOSTILE, 10**6, 10**6),), hostile, title=HOSTILE), ())
    assert "<script" not in shown.headline.value
    assert "<img" not in shown.headline.value
    assert "&lt;script&gt;" in shown.headline.value
    # hover texts are set by the front end as text, through the table of names
    assert HOSTILE in shown.ops.names[0]
    assert shown.ops.tooltip.fields == ["name"]


def test_communication_of_another_chip_is_said():
    collective = Collective(kind="all-reduce", dtype="bf16", bytes=1, count=4, time=0.01)
    shown = view(*OPS, collectives=(collective,))
    assert "Communication-bound on Chip one" in shown.headline.value
    shown.chooser.value = "fast"
    assert "Communication time stays as priced for Chip one." in shown.headline.value


def test_widget_holds_headline_chart_and_report():
    box = roofline_widget(report(OPS))
    top, figure, _legend, details = box.children
    assert "Compute-bound" in top.children[0].value
    assert len(figure.marks) == 11
    # What the static page shows beside the chart is below it: bars, instructions, figures.
    for words in ("compute", "dot", "compulsory", "multiply-add"):
        assert words in details.value
    assert "<svg xmlns" not in details.value  # the chart itself is not drawn twice


def test_every_known_chip_can_be_chosen():
    shown = RooflineView(report(OPS))
    known = chips()
    assert {name for _, name in shown.chooser.options} == {"one", *(known_chip.name for known_chip in known)}
    for known_chip in known:
        shown.chooser.value = known_chip.name
        assert seconds(shown.report.on(known_chip).time.memory) in shown.headline.value


def test_absent_times_are_unknown_not_raised():
    sample = report(OPS, measured=0.05)
    absent = dict.fromkeys(("compute", "memory", "min_memory", "comms", "lower", "upper", "scheduled"))
    times = dataclasses.replace(sample.time, **absent)
    shown = RooflineView(dataclasses.replace(sample, verdict=dataclasses.replace(sample.verdict, times=times)))
    assert shown.headline.value.count(">unknown<") >= 4
    assert "50.0 ms" in shown.headline.value


def test_the_marks_take_the_theme_of_the_notebook():
    style = roofline_widget(report(OPS)).children[2].value
    assert '[data-jp-theme-light="false"] .jaxscale-roofline' in style
    assert f"--jaxscale-compute:{DARK['compute']}" in style
    assert "y = x @ w" in view(*OPS).headline.value  # what it is of
