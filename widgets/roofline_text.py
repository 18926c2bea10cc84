"""The words of the interactive roofline: hover texts (plain) and the headline (HTML, all of it escaped).

Numbers come from the report as they are; nothing is computed but their spelling.
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxscale_magic.quantity import byte_rate, flop_rate, flops, intensity, nbytes, percent, seconds
from jaxscale_magic.report.escaping import for_html, plain
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

#: Longest piece of a user's or a module's text that a hover text shows, and the longest remark.
LONGEST, LONGEST_REMARK = 90, 600


def program_hover(report: RooflineReport) -> str:
    """What the program's dot says."""
    work = report.cost
    return "\n".join(
        [
            plain(report.title, limit=LONGEST) or "the program",
            f"{report.bound}-bound: {seconds(report.time.lower)} at best",
            _amounts(work.total_flops, work.hbm_bytes, report.intensity),
        ]
    )


def measured_hover(report: RooflineReport) -> str:
    """What the measured point says; "" without a measurement."""
    if report.measured is None:
        return ""
    minimum = report.measured.minimum
    lines = [f"measured: {seconds(minimum)}, the fastest of {report.measured.runs}"]
    if minimum:
        achieved = flop_rate(report.cost.total_flops / minimum)
        moved = byte_rate(report.cost.hbm_bytes / minimum)
        lines += [
            f"achieved: {achieved}, {moved}",
            f"{percent(report.share_of_bound)} of what the chip allows",
        ]
    return "\n".join(lines)


def op_hover(op: Priced) -> str:
    """What an instruction's dot says."""
    lines = [plain(op.label, limit=LONGEST)]
    if op.source is not None:
        lines.append(plain(f"line {op.source.line}: {op.source.text.strip()}".rstrip(": "), limit=LONGEST))
    times = "" if op.count == 1 else f", in {op.count:,} runs"
    lines.append(f"{seconds(op.time)}{times}, {percent(op.share)} of the time, {op.bound}-bound")
    lines.append(_amounts(op.work.matrix_flops + op.work.vector_flops, op.work.hbm_bytes, op.intensity))
    return "\n".join(lines)


def _amounts(work: int, moved: int, density: float | None) -> str:
    dense = "no bytes moved" if density is None else intensity(density)
    return f"{flops(work)}, {nbytes(moved)}, {dense}"


def headline(report: RooflineReport, notes: Iterable[str] = ()) -> str:
    """The verdict above the chart, as an HTML fragment: bound, intensity and ridge, what it is of, times.

    `notes` are remarks on the view itself; the report's own stand below the chart.
    """
    times = report.time
    rows = [
        ("compute", "unknown" if times.compute is None else seconds(times.compute)),
        ("memory, scheduled bytes", seconds(times.memory)),
        ("memory, compulsory bytes", seconds(times.min_memory)),
        ("communication", _comms(report)),
        ("lower bound", seconds(times.lower)),
    ]
    if report.measured is not None:
        ratio = f" ({report.measured.minimum / times.lower:.3g} × the lower bound)" if times.lower else ""
        rows.append(("measured", seconds(report.measured.minimum) + ratio))
    cells = "".join(
        f'<div style="min-width:4.5em"><div>{for_html(name)}</div><div><b>{for_html(value)}</b></div></div>'
        for name, value in rows
    )
    small = "".join(f"<li>{for_html(note, limit=LONGEST_REMARK)}</li>" for note in notes)
    return (
        '<div class="jaxscale-headline" style="line-height:1.4;color:var(--jp-content-font-color1,inherit)">'
        f'<div style="font-size:1.15em"><b>{for_html(verdict_line(report), limit=LONGEST_REMARK)}</b></div>'
        f"<div><bdi>{for_html(report.title)}</bdi></div>"
        f'<div style="display:flex;flex-wrap:wrap;gap:.3em 1.3em;margin:.4em 0">{cells}</div>'
        + (f'<ul style="margin:0 0 .3em;padding-left:1.2em">{small}</ul>' if small else "")
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
        return f"{bound}: {intensity(report.intensity)}."
    side = "below" if report.intensity < report.ridge else "above"
    return f"{bound}: {intensity(report.intensity)}, {side} the ridge at {intensity(report.ridge)}."


def _comms(report: RooflineReport) -> str:
    if not report.cost.collectives:
        return "none"
    return "unknown" if report.time.comms is None else seconds(report.time.comms)
