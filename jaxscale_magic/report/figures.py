"""The figures of a report as pairs of a name and a value, each in words that need no manual."""

from __future__ import annotations

from collections import Counter

from jaxscale_magic import quantity as q
from jaxscale_magic.chips.record import Chip
from jaxscale_magic.errors import ChipError
from jaxscale_magic.report.parts import Facts
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.report.tables import GLANCE, ROWS

#: Launching is told from this share of the measured time on.
LAUNCH = 0.2


def figures(report: RooflineReport) -> Facts:
    """Work, bytes, intensity and ridge, times, measurement, memory, what was not counted."""
    facts = [*_work(report), *_times(report), *_measurement(report), *_collectives(report)]
    if report.fit is not None:
        room = f" of the device's {q.nbytes(report.fit.capacity)}" if report.fit.capacity else ""
        beside = "" if report.fit.temporaries is not None else ", without temporaries, which are not known"
        facts.append(("device memory", f"{q.nbytes(report.fit.peak)}{room}{beside}"))
    unknown = [f"{entry.count} × {entry.name} ({entry.reason})" for entry in report.cost.unmodelled[:GLANCE]]
    if len(report.cost.unmodelled) > GLANCE:
        unknown.append(f"{len(report.cost.unmodelled) - GLANCE} more below")
    if unknown:
        facts.append(("not counted", ", ".join(unknown)))
    if report.target.compiler:
        facts.append(("compiled by", report.target.compiler))
    return Facts("Figures", tuple(facts))


def _work(report: RooflineReport) -> list[tuple[str, str]]:
    cost = report.cost
    products = ", ".join(f"{q.flops(n)} in {dtype}" for dtype, n in cost.flops.items()) or "none"
    facts = [
        ("matrix products", products),
        ("elementwise", q.flops(cost.vector_flops) if cost.vector_flops else "none"),
        (
            "bytes",
            f"{q.nbytes(cost.hbm_bytes)} scheduled (moved by the program as compiled), "
            f"{q.nbytes(cost.min_hbm_bytes)} compulsory (inputs read once, results written once)",
        ),
    ]
    if report.intensity is None:
        facts.append(("intensity", "none: no bytes are moved"))
    else:
        facts.append(("intensity", f"{q.intensity(report.intensity)} of scheduled bytes"))
    facts.append(("ridge", ridge_words(report)))
    return facts


def ridge_words(report: RooflineReport) -> str:
    """The ridge, and the two rates that it is the quotient of: FLOP/s reached at best ÷ bytes/s paid."""
    cost, times = report.cost, report.time
    if not report.ridge or not times.compute or not times.memory:
        if times.compute is None:
            return "unknown, since the compute time is"
        return "none: it takes both FLOPs and bytes"
    rate, bandwidth = cost.total_flops / times.compute, cost.hbm_bytes / times.memory
    chip = report.target.chip.per_device()
    return (
        f"{q.intensity(report.ridge)} = {q.flop_rate(rate)} ({_unit_words(report, chip)}) ÷ "
        f"{q.byte_rate(bandwidth)} ({_memory_words(report, chip)}); below it, memory limits"
    )


def _unit_words(report: RooflineReport, chip: Chip) -> str:
    """Which peak the rate of work is: one dtype's, a mix, or the vector unit's."""
    cost, compute = report.cost, report.time.compute or 0.0
    try:
        matrix = sum(n / chip.peak_flops(dtype) for dtype, n in cost.flops.items())
    except ChipError:
        matrix = 0.0
    if matrix < 0.999 * compute:
        beside = "; products run beside" if cost.flops else ""
        return f"vector unit{beside}"
    dtypes = [dtype for dtype, n in cost.flops.items() if n]
    peak = f"{dtypes[0]} peak" if len(dtypes) == 1 else f"peaks of {', '.join(dtypes)}, mixed as here"
    if cost.vector_flops > 0.005 * cost.total_flops:
        peak += "; elementwise work runs beside"
    return peak


def _memory_words(report: RooflineReport, chip: Chip) -> str:
    """Which bandwidth is paid: HBM's, main memory's, a cache's, or a mix."""
    if chip.cache_bytes is None or chip.cache_bandwidth is None:
        return "main memory" if chip.kind == "cpu" else "HBM"
    size = max(report.cost.min_hbm_bytes or report.cost.hbm_bytes, 1)
    cached = min(1.0, chip.cache_bytes.value / size)
    return "cache: all of it fits" if cached == 1 else f"{q.percent(cached)} from cache, the rest from main memory"


def _times(report: RooflineReport) -> list[tuple[str, str]]:
    times = report.time
    if times.lower == 0:
        return []
    return [
        ("lower", f"{q.seconds(times.lower)}: compulsory bytes, everything overlaps; no run is faster"),
        ("scheduled", f"{q.seconds(times.scheduled)}: one instruction after another, each at its own roof"),
        ("upper", f"{q.seconds(times.upper)}: scheduled bytes, nothing overlaps"),
    ]


def _measurement(report: RooflineReport) -> list[tuple[str, str]]:
    measured = report.measured
    if measured is None:
        return []
    facts = [
        (
            "measured",
            f"{q.seconds(measured.minimum)} at best, median {q.seconds(measured.median)}, interquartile range "
            f"{q.seconds(measured.spread)}, {measured.runs} samples",
        ),
        ("reached", _reached(report)),
    ]
    if measured.fresh_outputs is not None:
        facts.append(
            ("ordinary call", f"{q.seconds(measured.fresh_outputs)}, where each run allocates its outputs anew")
        )
    if measured.dispatch >= LAUNCH * measured.minimum:
        facts.append(("launch", f"{q.seconds(measured.dispatch)} of the measured time is launching the program"))
    return facts + [("measurement", note) for note in measured.notes]


def _reached(report: RooflineReport) -> str:
    measured = report.measured
    if measured is None or not measured.minimum:
        return q.UNKNOWN
    rates = [q.byte_rate(report.cost.min_hbm_bytes / measured.minimum) + " of compulsory bytes"]
    if report.cost.total_flops:
        rates.insert(0, q.flop_rate(report.cost.total_flops / measured.minimum))
    return " and ".join(rates)


def _collectives(report: RooflineReport) -> list[tuple[str, str]]:
    """Equal collectives in one row; what moves most first."""
    runs: Counter[tuple[str, str, int]] = Counter()
    for collective in report.cost.collectives:
        runs[collective.kind, collective.dtype, collective.bytes] += collective.count
    ranked = sorted(runs.items(), key=lambda item: -item[0][2] * item[1])
    rows = [
        ("collective", f"{count:,} × {kind} of {q.nbytes(size)} ({dtype})")
        for (kind, dtype, size), count in ranked[:ROWS]
    ]
    left = sum(count for _, count in ranked[ROWS:])
    return rows + ([("collective", f"{left:,} smaller ones")] if left else [])
