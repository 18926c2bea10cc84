"""A report -> what a roofline chart shows: lines, dots and limits, as plain numbers and plain text.

Nothing here draws (`roofline_view.py`) or knows HTML; the records are in `roofline_marks.py`, words in
`roofline_text.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jaxscale_magic.chips.record import Chip
from jaxscale_magic.errors import ChipError
from jaxscale_magic.quantity import byte_rate, flop_rate
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced, bound_of, memory_time
from jaxscale_magic.widgets.roofline_marks import BOTTOM, LEFT, RIGHT, Dot, Limits, Line, RooflineFigure
from jaxscale_magic.widgets.roofline_text import measured_hover, op_hover, program_hover

#: How many of the costliest instructions are drawn.
OPS = 10
#: Whose roof is drawn for scale over a program that has none of its own, by preference.
USUAL = ("bf16", "f16", "f32")
#: Dots further than this many decades from the far end are put on the edge.
X_DECADES, Y_DECADES = 8, 10


def roofline_figure(report: RooflineReport, within: Limits | None = None) -> RooflineFigure:
    """The chart of `report`, its range widened to hold `within` as well."""
    device = report.target.chip.per_device()
    cost, times = report.cost, report.time
    bandwidth = effective_bandwidth(report, device)
    peaks, notes = peaks_in_use(report, device)

    roof_time = max(times.compute or 0.0, times.memory or 0.0, times.comms or 0.0)
    bound = bound_of(times.compute, times.memory, times.comms)
    points = [_Point(cost.total_flops, cost.hbm_bytes, roof_time)]
    if report.measured:
        points.append(_Point(cost.total_flops, cost.hbm_bytes, report.measured.minimum))
    ops = [op for op in report.ops if op.time > 0][:OPS]
    points += [_Point(_flops(op), op.work.hbm_bytes, op.time) for op in ops]
    limits = _limits(points, [peak for _, peak in peaks], bandwidth)
    limits = limits | within if within else limits

    program = points[0].dot(limits, 1.0, bound, program_hover(report))
    measured = None
    if report.measured:
        measured = points[1].dot(limits, 1.0, bound, measured_hover(report))
    dots = [
        point.dot(limits, op.share, op.bound, op_hover(op))
        for op, point in zip(ops, points[len(points) - len(ops) :], strict=True)
    ]
    return RooflineFigure(
        roofs=tuple(_roof(label, peak, bandwidth, limits) for label, peak in peaks),
        slopes=_slopes(device, bandwidth, _end_of_slope(report, ops, peaks, bandwidth, limits), limits),
        ridge=cost.total_flops / times.compute / bandwidth if times.compute else None,
        program=program,
        measured=measured,
        ops=tuple(dot for dot in dots if dot is not None),
        limits=limits,
        notes=(*notes, *_edge_notes(program, measured)),
    )


def effective_bandwidth(report: RooflineReport, device: Chip) -> float:
    """Bytes/s that the program pays: main memory's, or more where a host's cache serves a part."""
    if device.cache_bytes is None or device.cache_bandwidth is None:
        return device.hbm_bandwidth.value
    probe = report.cost.hbm_bytes or 1
    return probe / memory_time(probe, device, report.cost.min_hbm_bytes or probe)


def peaks_in_use(report: RooflineReport, device: Chip) -> tuple[list[tuple[str, float]], list[str]]:
    """(name, FLOP/s) of every unit the program runs on, highest first, and what must be said of them.

    Dtypes with one and the same peak share a roof. A program without any known peak is drawn under the
    chip's usual matrix unit, for scale.
    """
    by_peak: dict[float, list[str]] = {}
    notes = []
    for dtype, flops in report.cost.flops.items():
        if not flops:
            continue
        try:
            by_peak.setdefault(device.peak_flops(dtype), []).append(dtype)
        except ChipError:
            notes.append(f"No roof for {dtype}: what multiplies it is placed by its bytes alone.")
    if report.cost.vector_flops and device.vector_flops:
        by_peak.setdefault(device.vector_flops.value, []).append("vector unit")
    if not by_peak and device.matrix_flops:
        usual = [dtype for dtype in USUAL if dtype in device.matrix_flops]
        dtype = (usual or sorted(device.matrix_flops))[0]
        by_peak[device.matrix_flops[dtype].value] = [f"for scale: {dtype}"]
        notes.append("The roof is there for scale: no arithmetic with a known peak is in the program.")
    return [(", ".join(names), peak) for peak, names in sorted(by_peak.items(), reverse=True)], notes


@dataclass(frozen=True, slots=True)
class _Point:
    """Work done in a time, before it is placed."""

    flops: int
    nbytes: int
    time: float

    @property
    def placed(self) -> bool:
        """Whether a log-log chart has a place for it."""
        return bool(self.flops and self.nbytes and self.time)

    @property
    def x(self) -> float:
        return self.flops / self.nbytes

    @property
    def y(self) -> float:
        return self.flops / self.time

    def dot(self, limits: Limits, share: float, bound: str, hover: str) -> Dot | None:
        """The dot, at an edge where it has no place of its own; None where nothing is done."""
        left, right = 10.0**limits.left, 10.0**limits.right
        bottom = 10.0**limits.bottom
        if not self.time or not (self.flops or self.nbytes):
            return None
        if not self.nbytes:
            x, y, edge = right, self.y, RIGHT
        elif self.x < left:  # along the diagonal of its own bytes/s, so that it stays on the slope
            x, y, edge = left, self.nbytes / self.time * left, LEFT
        else:
            x, y, edge = min(self.x, right), self.y, ""
        if y < bottom:
            y, edge = bottom, BOTTOM
        return Dot(x=x, y=y, share=share, bound=bound, hover=hover, edge=edge)


def _flops(op: Priced) -> int:
    return op.work.matrix_flops + op.work.vector_flops


def _floor(values: Iterable[float]) -> int:
    return math.floor(math.log10(min(values)))


def _ceil(values: Iterable[float]) -> int:
    return math.ceil(math.log10(max(values)))


def _limits(points: list[_Point], peaks: list[float], bandwidth: float) -> Limits:
    """Decades that hold every dot and ridge, with air around the ridge to see both sides of it."""
    xs = [peak / bandwidth for peak in peaks] + [point.x for point in points if point.placed] or [1.0]
    right = _ceil([max(xs) * 3])
    left = max(min(_floor([min(xs) / 1.5]), right - 3), right - X_DECADES)
    ys = [bandwidth * 10.0**left, *peaks, *(p.y for p in points if p.flops and p.time)]
    ys += [p.nbytes / p.time * 10.0**left for p in points if p.nbytes and p.time and not p.flops]
    top = _ceil([max(ys) * 1.5])
    bottom = max(min(_floor(ys), top - 3), top - Y_DECADES)
    return Limits(left=left, right=right, bottom=bottom, top=top)


def _roof(label: str, peak: float, bandwidth: float, limits: Limits) -> Line:
    ridge = max(peak / bandwidth, 10.0**limits.left)
    return Line(label=f"{label} {flop_rate(peak)}", x=(ridge, 10.0**limits.right), y=(peak, peak))


def _end_of_slope(
    report: RooflineReport,
    ops: list[Priced],
    peaks: list[tuple[str, float]],
    bandwidth: float,
    limits: Limits,
) -> float:
    """FLOP/byte where the slope meets the highest roof, or the last dot that has no roof."""
    if not peaks:
        return float(10.0**limits.right)
    roofless = [(piece.compute, piece.intensity) for piece in ops]
    roofless.append((report.time.compute, report.intensity))
    reach = [x for compute, x in roofless if compute is None and x is not None]
    return max([peak / bandwidth for _, peak in peaks] + reach)


def _slopes(device: Chip, bandwidth: float, right: float, limits: Limits) -> tuple[Line, ...]:
    """The slope that is paid; main memory's own as well where a cache makes the two differ."""
    own = device.hbm_bandwidth.value
    cached = abs(bandwidth / own - 1) > 0.01
    lines = [(bandwidth, "memory and cache" if cached else "memory")]
    if cached:
        lines.append((own, "memory alone"))
    left = 10.0**limits.left
    return tuple(
        Line(label=f"{name} {byte_rate(speed)}", x=(left, right), y=(speed * left, speed * right))
        for speed, name in lines
    )


def _edge_notes(program: Dot | None, measured: Dot | None) -> list[str]:
    if program is None:
        return ["The program does no arithmetic and moves no bytes: there is nothing to place."]
    notes = {
        LEFT: "The program has no arithmetic, or next to none: its dot stands at the left edge.",
        RIGHT: "The program moves no bytes: its dot stands at the right edge.",
        BOTTOM: "The program's dot stands at the bottom edge.",
    }
    said = [notes[program.edge]] if program.edge else []
    if measured is not None and measured.edge == BOTTOM != program.edge:
        said.append("The measured speed lies below the chart: its dot stands at the bottom edge.")
    return said
