"""What the roofline picture shows of a report: roofs, slopes and dots. How it is drawn is in `svg.py`."""

from __future__ import annotations

import math

from jaxscale_magic.errors import ChipError
from jaxscale_magic.report.parts import Chart, Dot
from jaxscale_magic.report.record import RooflineReport


def roofs(report: RooflineReport) -> tuple[tuple[str, float], ...]:
    """The roofs that matter to a program: its own dtypes', and bf16 and f32 where the chip has them.

    Dtypes with the same peak share one roof.
    """
    chip = report.target.chip.per_device()
    names: dict[float, list[str]] = {}
    for dtype in dict.fromkeys((*report.cost.flops, *(d for d in ("bf16", "f32") if d in chip.matrix_flops))):
        try:
            names.setdefault(chip.peak_flops(dtype), []).append(dtype)
        except ChipError:
            continue
    if not report.cost.flops and chip.vector_flops is not None:
        names.setdefault(chip.vector_flops.value, []).append("vector")
    return tuple((", ".join(dtypes), peak) for peak, dtypes in names.items())


def dots(report: RooflineReport) -> tuple[Dot, ...]:
    """The program and its ten costliest instructions, where they have an intensity and a time."""
    found = []
    total = report.cost.total_flops
    if report.intensity and total and report.time.lower:
        roof = max(report.time.compute or 0.0, report.time.memory or 0.0)
        found.append(Dot("the program at its roof", report.intensity, total / roof, 1.0, report.bound))
        if report.measured is not None and 0 < report.measured.minimum < math.inf:
            found.append(Dot("measured", report.intensity, total / report.measured.minimum, 1.0, "measured"))
    for op in report.ops[:10]:
        flops = op.work.matrix_flops + op.work.vector_flops
        if op.intensity and op.time:
            found.append(Dot(op.label, op.intensity, flops / op.time, op.share, op.bound))
    return tuple(found)


def chart(report: RooflineReport) -> Chart | None:
    """The picture's data; None where there is no dot or no roof to draw."""
    points, lines = dots(report), roofs(report)
    if not points or not lines:
        return None
    chip = report.target.chip.per_device()
    slopes = [("memory", chip.hbm_bandwidth.value)]
    if chip.cache_bandwidth is not None:
        slopes.append(("cache", chip.cache_bandwidth.value))
    return Chart(f"Roofline of {chip.title}", lines, tuple(slopes), points)
