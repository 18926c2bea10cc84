"""A report as a tree of parts: what is said, in which order. How it looks is in the renderings.

The tables are in `tables.py`, the list of figures in `figures.py`.
"""

from __future__ import annotations

import math

from jaxscale_magic import quantity as q
from jaxscale_magic.report.figures import figures
from jaxscale_magic.report.parts import Bar, Bars, Headline, Items, More, Note, Part
from jaxscale_magic.report.picture import chart
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.report.tables import costliest_lines, further_lines, instructions, unmodelled

#: How many notes are shown.
NOTES = 12
#: A measurement below this part of the lower bound is no luck: something is wrong.
TOO_FAST = 0.98
#: Two times closer than this part of one another are told as one.
SAME = 0.005


def build(report: RooflineReport) -> tuple[Part, ...]:
    """The parts of a report, most important first."""
    folded = tuple(
        part for part in (further_lines(report), instructions(report), unmodelled(report)) if part is not None
    )
    parts: tuple[Part | None, ...] = (
        _headline(report),
        *_warnings(report),
        _times(report),
        chart(report),
        costliest_lines(report),
        Items("What would help", tuple(advice.text for advice in report.advice)) if report.advice else None,
        figures(report),
        *_quiet_notes(report),
        More("Every line and instruction", folded) if folded else None,
        Note("note", "One multiply-add counts as two FLOPs. All figures are for one device."),
    )
    return tuple(part for part in parts if part is not None)


def _is_loud(note: str) -> bool:
    return note.startswith(("MEASURED FASTER", "Nothing is left"))


def roof_time(report: RooflineReport) -> float | None:
    """Seconds at the program's own roof by scheduled bytes; None where none of its times is known."""
    times = report.time
    known = [value for value in (times.compute, times.memory, times.comms) if value is not None]
    return max(known, default=None)


def _headline(report: RooflineReport) -> Headline:
    chip = report.target.chip.title
    if report.time.lower == 0:
        return Headline(f"Nothing to run on {chip}", "neutral", report.title)
    verdict = f"{report.bound.capitalize()}-bound on {chip}"
    if report.time.compute is None:
        verdict += ", as far as can be told: its compute time is unknown"
    return Headline(verdict, report.bound, " — ".join(filter(None, (report.title, limits(report)))))


def limits(report: RooflineReport) -> str:
    """The times in one sentence: the least possible, at the roof of what was compiled, and measured."""
    lower, roof, measured = report.time.lower, roof_time(report), report.measured
    said = f"at least {q.seconds(lower)}" if lower is not None else "the least time is unknown"
    if lower is not None and roof is not None and roof > (1 + SAME) * lower:
        said += f" with the fewest bytes possible, {q.seconds(roof)} with the bytes that it moves as compiled"
    if measured is not None:
        said += f", measured {q.seconds(measured.minimum)}"
        if report.share_of_bound is not None:
            said += f": {q.percent(report.share_of_bound)} of what the chip allows"
    return said


def _warnings(report: RooflineReport) -> list[Note]:
    notes = [Note("warning", note) for note in report.notes if _is_loud(note)]
    measured, lower = report.measured, report.time.lower
    told = any(note.text.startswith("MEASURED FASTER") for note in notes)
    if measured is not None and lower is not None and measured.minimum < TOO_FAST * lower and not told:
        notes.append(
            Note(
                "warning",
                f"MEASURED FASTER THAN POSSIBLE: {q.seconds(measured.minimum)} against a lower bound of "
                f"{q.seconds(lower)}. Do not trust this report's times.",
            )
        )
    verdict = report.verdict
    if verdict.bound != verdict.min_bound:
        notes.append(
            Note(
                "warning",
                f"The two byte figures disagree: with the {q.nbytes(report.cost.hbm_bytes)} that the compiled program "
                f"moves (scheduled bytes) it is {verdict.bound}-bound; with the {q.nbytes(report.cost.min_hbm_bytes)} "
                f"that no compiler can avoid (compulsory bytes) it would be {verdict.min_bound}-bound.",
            )
        )
    if report.target.stands_in:
        text = report.target.stands_in
        notes.append(Note("note", text[0].upper() + text[1:] + "."))
    if report.fit is not None and report.fit.fits is False:
        notes.append(
            Note(
                "warning",
                f"It does not fit: it needs {q.nbytes(report.fit.peak)} of memory, and the device has "
                f"{q.nbytes(report.fit.capacity)}.",
            )
        )
    return notes


def _times(report: RooflineReport) -> Bars:
    times, cost = report.time, report.cost
    rows: list[tuple[str, float | None, str, str]] = [("compute", times.compute, "compute", q.flops(cost.total_flops))]
    if _differ(times.memory, times.min_memory):
        rows += [
            ("memory, scheduled bytes", times.memory, "memory", q.nbytes(cost.hbm_bytes)),
            ("memory, compulsory bytes", times.min_memory, "memory", q.nbytes(cost.min_hbm_bytes)),
        ]
    else:
        rows.append(("memory", times.memory, "memory", q.nbytes(cost.hbm_bytes)))
    if cost.collectives:
        rows.append(("communication", times.comms, "communication", ""))
    if report.measured is not None:
        rows.append(("measured", report.measured.minimum, "measured", ""))
    longest = max((_length(value) for _, value, *_ in rows), default=0.0) or 1.0
    return Bars(
        "Time at each roof",
        tuple(
            Bar(label, q.seconds(value), _length(value) / longest, tone, of, _exact(value))
            for label, value, tone, of in rows
        ),
    )


def _length(value: float | None) -> float:
    """What a bar is drawn by; 0 for what has no length."""
    return value if value is not None and 0 < value < math.inf else 0.0


def _differ(one: float | None, other: float | None) -> bool:
    return one is None or other is None or abs(one - other) > SAME * max(one, other)


def _exact(value: float | None) -> str:
    return f"{value:.6g} s" if value is not None and math.isfinite(value) else "no figure"


def _quiet_notes(report: RooflineReport) -> list[Note]:
    notes = [note for note in (*report.notes, *report.verdict.notes) if not _is_loud(note)]
    shown = [Note("note", note) for note in notes[:NOTES]]
    left = len(notes) - NOTES
    return shown + ([Note("note", f"{left} more notes are in report.notes.")] if left > 0 else [])
