"""The words of the interactive roofline: hover texts (plain) and the headline (HTML, all of it escaped).

Numbers come from the report as they are; nothing is computed but their spelling.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

#: Longest piece of a user's or a module's text that is shown.
LONGEST = 90

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def rate(value: float, unit: str) -> str:
    """Three digits with a prefix: 1.97e14 FLOP/s is "197 TFLOP/s"."""
    scale, prefix = next(((s, p) for s, p in _PREFIXES if abs(value) >= s * 0.9995), (1.0, ""))
    return f"{value / scale:.3g} {prefix}{unit}"


def duration(seconds: float) -> str:
    """Three digits in s, ms, µs or ns."""
    if not seconds:
        return "0 s"
    scale, unit = next(((s, u) for s, u in _SMALL if seconds >= s * 0.9995), _SMALL[-1])
    value = seconds / scale
    return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def density(value: float | None) -> str:
    """An arithmetic intensity."""
    if value is None:
        return "no bytes moved"
    return f"{value:,.0f} FLOP/byte" if value >= 1000 else f"{value:.3g} FLOP/byte"


def shortened(text: str) -> str:
    """At most `LONGEST` characters on one line."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def program_hover(report: RooflineReport) -> str:
    """What the program's dot says."""
    work = report.cost
    return "\n".join(
        [
            shortened(report.title) or "the program",
            f"{report.bound}-bound: {duration(report.time.lower)} at best",
            _amounts(work.total_flops, work.hbm_bytes, report.intensity),
        ]
    )


def measured_hover(report: RooflineReport) -> str:
    """What the measured point says; "" without a measurement."""
    if report.measured is None:
        return ""
    seconds = report.measured.minimum
    lines = [f"measured: {duration(seconds)}, the fastest of {report.measured.runs}"]
    if seconds:
        achieved = rate(report.cost.total_flops / seconds, "FLOP/s")
        moved = rate(report.cost.hbm_bytes / seconds, "B/s")
        lines += [f"achieved: {achieved}, {moved}", f"{report.share_of_bound:.0%} of what the chip allows"]
    return "\n".join(lines)


def op_hover(op: Priced) -> str:
    """What an instruction's dot says."""
    lines = [shortened(op.label)]
    if op.source is not None:
        lines.append(shortened(f"line {op.source.line}: {op.source.text}".rstrip(": ")))
    times = "" if op.count == 1 else f", in {op.count:,} runs"
    lines.append(f"{duration(op.time)}{times}, {op.share:.0%} of the time, {op.bound}-bound")
    lines.append(_amounts(op.work.matrix_flops + op.work.vector_flops, op.work.hbm_bytes, op.intensity))
    return "\n".join(lines)


def _amounts(flops: int, nbytes: int, intensity: float | None) -> str:
    return f"{rate(flops, 'FLOP')}, {rate(nbytes, 'B')}, {density(intensity)}"


def headline(report: RooflineReport, notes: Iterable[str] = ()) -> str:
    """The verdict beside the chart, as an HTML fragment: bound, times, intensity and ridge, measurement."""
    times = report.time
    rows = [
        ("compute", "unknown" if times.compute is None else duration(times.compute)),
        ("memory", duration(times.memory)),
        ("communication", _comms(report)),
        ("at best", duration(times.lower)),
    ]
    if report.measured is not None:
        times_bound = f" ({report.measured.minimum / times.lower:.3g}× the bound)" if times.lower else ""
        rows.append(("measured", duration(report.measured.minimum) + times_bound))
    cells = "".join(
        f'<div style="min-width:6.5em"><div style="opacity:.75">{escape(name)}</div>'
        f"<div><b>{escape(value)}</b></div></div>"
        for name, value in rows
    )
    stands_in = report.target.stands_in
    remarks = [f"{stands_in[:1].upper()}{stands_in[1:].rstrip('.')}."] if stands_in else []
    remarks += [*report.verdict.notes, *notes]
    small = "".join(f"<li>{escape(remark)}</li>" for remark in dict.fromkeys(remarks))
    return (
        '<div class="jaxscale-headline" style="line-height:1.4;color:var(--jp-content-font-color1,inherit)">'
        f'<div style="font-size:1.15em">{escape(verdict_line(report))}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:.3em 1.6em;margin:.4em 0">{cells}</div>'
        + (f'<ul style="margin:0 0 .3em;padding-left:1.2em;opacity:.85">{small}</ul>' if small else "")
        + "</div>"
    )


def verdict_line(report: RooflineReport) -> str:
    """One plain sentence: what limits the program on this chip, and where it stands to the ridge."""
    where = f"on {report.target.chip.title}"
    if not report.cost.total_flops and not report.cost.hbm_bytes and not report.time.comms:
        return f"Nothing to do {where}: no arithmetic, no bytes, no communication."
    bound = f"{report.bound.capitalize()}-bound {where}"
    if report.time.compute is None:
        return f"{bound}, as far as can be told: compute time is unknown there."
    if not report.cost.total_flops:
        return f"{bound}: no arithmetic, only bytes."
    if report.intensity is None:
        return f"{bound}: no bytes moved, only arithmetic."
    if report.ridge is None:
        return f"{bound}: {density(report.intensity)}."
    return f"{bound}: {density(report.intensity)}, ridge at {density(report.ridge)}."


def _comms(report: RooflineReport) -> str:
    if not report.cost.collectives:
        return "none"
    return "unknown" if report.time.comms is None else duration(report.time.comms)
