"""The chart as plain numbers, on chips whose figures can be worked out in the head.

The chip of `widget_samples`: 100 GFLOP/s in bf16, 1 GB/s, so the ridge is at 100 FLOP/byte.
"""

from __future__ import annotations

import pytest
from widget_samples import HOSTILE, chip, op, report

from jaxscale_magic.cost import Collective
from jaxscale_magic.widgets.roofline_figure import OPS, roofline_figure
from jaxscale_magic.widgets.roofline_marks import Limits


@pytest.mark.parametrize(
    ("flops", "nbytes", "x", "y", "bound"),
    [
        # 1e9 FLOP take 10 ms at 1e11 FLOP/s, 1e6 bytes 1 ms at 1e9 bytes/s: compute, at the peak
        (10**9, 10**6, 1000.0, 1e11, "compute"),
        # 1e7 FLOP take 0.1 ms, 1e6 bytes 1 ms: memory, 1e7 FLOP a millisecond
        (10**7, 10**6, 10.0, 1e10, "memory"),
        # at the ridge, a tie goes to compute
        (10**8, 10**6, 100.0, 1e11, "compute"),
    ],
)
def test_dot_stands_at_its_intensity_under_its_own_roof(flops, nbytes, x, y, bound):
    figure = roofline_figure(report((op("dot", flops, nbytes),)))
    for dot in (figure.program, figure.ops[0]):
        assert dot is not None
        assert (dot.x, dot.y) == pytest.approx((x, y))
        assert (dot.bound, dot.edge) == (bound, "")
    assert figure.ridge == pytest.approx(100)


def test_roof_and_slope_meet_at_the_ridge():
    figure = roofline_figure(report((op("dot", 10**7, 10**6),)))
    (roof,), (slope,) = figure.roofs, figure.slopes
    assert (roof.x[0], *roof.y) == pytest.approx((100, 1e11, 1e11))
    assert (slope.x[1], slope.y[1]) == pytest.approx((100, 1e11))
    assert slope.y[0] / slope.x[0] == pytest.approx(1e9)
    assert (roof.label, slope.label) == ("bf16 100 GFLOP/s", "memory 1.00 GB/s")


def test_every_dtype_in_use_has_a_roof_and_equal_peaks_share_one():
    two = chip(peaks={"bf16": 1e11, "f16": 1e11, "f32": 2e10, "s8": 4e11}, vector=1e9)
    ops = tuple(op(dtype, 10**6, 10**6, dtype=dtype) for dtype in ("bf16", "f16", "f32"))
    ops += (op("tanh", 0, 10**6, vector=10),)
    labels = [roof.label for roof in roofline_figure(report(ops, two)).roofs]
    assert labels == ["bf16, f16 100 GFLOP/s", "f32 20.0 GFLOP/s", "vector unit 1.00 GFLOP/s"]


def test_figures_are_per_device():
    halved = roofline_figure(report((op("dot", 10**9, 10**6),), chip(devices=2)))
    assert halved.roofs[0].y[0] == pytest.approx(5e10)
    assert halved.program is not None
    assert halved.program.y == pytest.approx(5e10)


def test_ten_costliest_with_their_share():
    ops = tuple(op(f"op{n}", 0, n * 10**6, vector=1) for n in range(1, 13))
    dots = roofline_figure(report(ops)).ops
    assert len(dots) == OPS
    assert dots[0].share == pytest.approx(12 / 78)
    assert dots[0].hover.startswith("op12\nline 3: y = op12\n12.0 ms, 15 % of the time, memory-bound")


def test_measured_point_is_the_achieved_rate():
    figure = roofline_figure(report((op("dot", 10**9, 10**6),), measured=0.04))
    assert figure.measured is not None
    assert (figure.measured.x, figure.measured.y) == pytest.approx((1000, 1e9 / 0.04))
    assert "25 % of what the chip allows" in figure.measured.hover


def test_communication_pulls_the_program_below_its_roof():
    collective = Collective(kind="all-reduce", dtype="bf16", bytes=1, count=4, time=0.01)
    figure = roofline_figure(report((op("dot", 10**9, 10**6),), collectives=(collective,)))
    assert figure.program is not None
    assert figure.program.bound == "communication"
    assert figure.program.y == pytest.approx(1e9 / 0.04)


def test_no_flops_stands_at_the_left_edge_on_the_slope():
    figure = roofline_figure(report((op("copy", 0, 10**6),), measured=0.002))
    left = 10.0**figure.limits.left
    assert figure.program is not None
    assert figure.measured is not None
    assert (figure.program.x, figure.program.y) == pytest.approx((left, 1e9 * left))
    assert figure.measured.y == pytest.approx(5e8 * left)  # half the bandwidth: half as high
    assert figure.program.edge == "left"
    assert any("left edge" in note for note in figure.notes)
    assert figure.roofs[0].label.startswith("for scale: bf16")


def test_no_bytes_stands_at_the_right_edge():
    figure = roofline_figure(report((op("iota", 10**9, 0),)))
    assert figure.program is not None
    assert (figure.program.x, figure.program.y) == pytest.approx((10.0**figure.limits.right, 1e11))
    assert any("right edge" in note for note in figure.notes)


def test_nothing_at_all_is_said():
    figure = roofline_figure(report())
    assert (figure.program, figure.ops, figure.ridge) == (None, (), None)
    assert "nothing to place" in figure.notes[-1]


def test_unknown_peak_leaves_the_slope_and_says_so():
    figure = roofline_figure(report((op("dot", 10**9, 10**6),), chip(peaks={"s8": 1e11})))
    assert figure.ridge is None
    assert figure.program is not None
    assert figure.program.y == pytest.approx(1e12)  # 1e9 FLOP in the millisecond its bytes take
    assert figure.slopes[0].x[1] == pytest.approx(1000)  # the slope reaches the dot
    assert any("bf16" in note for note in figure.notes)


def test_chip_without_any_peak():
    figure = roofline_figure(report((op("copy", 5, 10**6),), chip(peaks={})))
    assert figure.roofs == ()
    assert figure.slopes[0].x[1] == 10.0**figure.limits.right


def test_cache_lifts_the_slope_and_main_memory_stays_in_sight():
    # the working set of 2 MB fits by half: 1 MB at 4 GB/s and 1 MB at 1 GB/s take 1.25 ms, so 1.6 GB/s
    cached = chip(cache=(1e6, 4e9))
    figure = roofline_figure(report((op("dot", 2 * 10**6, 2 * 10**6),), cached))
    assert [slope.label for slope in figure.slopes] == [
        "memory and cache 1.60 GB/s",
        "memory alone 1.00 GB/s",
    ]
    assert figure.program is not None
    assert (figure.program.x, figure.program.y) == pytest.approx((1, 1.6e9))


@pytest.mark.parametrize("tiny", [1, 10**3, 10**6])
def test_range_is_whole_decades_and_holds_everything(tiny):
    ops = (op("dot", 10**12, 10**9), op("small", tiny, 10**9), op("copy", 0, 10**9))
    figure = roofline_figure(report(ops, measured=5.0))
    limits = figure.limits
    assert 3 <= limits.right - limits.left <= 8
    assert figure.program is not None
    assert figure.measured is not None
    for dot in (figure.program, figure.measured, *figure.ops):
        assert 10.0**limits.left <= dot.x <= 10.0**limits.right
        assert 10.0**limits.bottom <= dot.y <= 10.0**limits.top


def test_range_can_be_widened():
    wide = Limits(left=-7, right=9, bottom=0, top=17)
    assert roofline_figure(report((op("dot", 10**9, 10**6),)), wide).limits == wide


def test_far_too_slow_stands_at_the_bottom():
    figure = roofline_figure(report((op("dot", 10**9, 10**6),), measured=1e9))
    assert figure.measured is not None
    assert figure.measured.y == 10.0**figure.limits.bottom
    assert any("bottom edge" in note for note in figure.notes)


def test_hostile_text_stays_text():
    assert HOSTILE in roofline_figure(report((op(HOSTILE, 1, 1),))).ops[0].hover
