"""A report as a tree of parts: what is said, in which order. How it looks is in the renderings."""

from __future__ import annotations

import math
from collections import Counter

from jaxscale_magic import quantity as q
from jaxscale_magic.report.parts import Bar, Bars, Facts, Headline, More, Note, Part, Table
from jaxscale_magic.report.picture import chart
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

#: How many lines of the cell are shown at a glance, and how many rows of a table in all.
GLANCE, ROWS = 3, 30
#: How many names of what is not modelled a table holds, and how many notes are shown.
NAMES, NOTES = 60, 12
#: A measurement below this part of the lower bound is no luck: something is wrong.
TOO_FAST = 0.98


def build(report: RooflineReport) -> tuple[Part, ...]:
    """The parts of a report, most important first."""
    return tuple(
        part
        for part in (
            _headline(report),
            *_warnings(report),
            _times(report),
            chart(report),
            _lines(report, report.lines[:GLANCE], "Costliest lines"),
            *(Note("advice", advice.text) for advice in report.advice),
            _figures(report),
            *_quiet_notes(report),
            More(
                "Every line and instruction",
                tuple(
                    part
                    for part in (
                        _lines(report, report.lines[GLANCE:ROWS], "Further lines"),
                        _ops(report),
                        _unmodelled(report),
                    )
                    if part is not None
                ),
            ),
            Note("note", "One multiply-add is two FLOPs. All figures are per device."),
        )
        if part is not None and not (isinstance(part, More) and not part.parts)
    )


def _is_loud(note: str) -> bool:
    return note.startswith(("MEASURED FASTER", "Nothing is left"))


def _headline(report: RooflineReport) -> Headline:
    chip = report.target.chip.title
    if report.time.lower == 0:
        return Headline(f"Nothing to run on {chip}", "neutral", report.title)
    words = {"compute": "compute-bound", "memory": "memory-bound", "communication": "communication-bound"}
    below = f"at least {q.seconds(report.time.lower)}"
    measured = report.measured
    if measured is not None:
        below += f", measured {q.seconds(measured.minimum)}: {_speed(report)}"
    return Headline(f"{words[report.bound].capitalize()} on {chip}", report.bound, f"{report.title} — {below}")


def _speed(report: RooflineReport) -> str:
    share = report.share_of_bound
    if share is None:
        return ""
    return f"{q.percent(share)} of what the chip allows"


def _warnings(report: RooflineReport) -> list[Note]:
    notes = [Note("warning", note) for note in report.notes if _is_loud(note)]
    measured = report.measured
    told = any(note.text.startswith("MEASURED FASTER") for note in notes)
    if measured is not None and measured.minimum < TOO_FAST * report.time.lower and not told:
        notes.append(
            Note(
                "warning",
                f"MEASURED FASTER THAN POSSIBLE: {q.seconds(measured.minimum)} against a lower bound of "
                f"{q.seconds(report.time.lower)}. Do not trust this report's times.",
            )
        )
    verdict = report.verdict
    if verdict.bound != verdict.min_bound:
        notes.append(
            Note(
                "warning",
                f"The two byte figures disagree: the compiled program moves {q.nbytes(report.cost.hbm_bytes)} and is "
                f"{verdict.bound}-bound; the {q.nbytes(report.cost.min_hbm_bytes)} that cannot be avoided would leave "
                f"it {verdict.min_bound}-bound.",
            )
        )
    if report.target.stands_in:
        text = report.target.stands_in
        notes.append(Note("note", text[0].upper() + text[1:] + "."))
    if report.fit is not None and report.fit.fits is False:
        notes.append(
            Note(
                "warning",
                f"It does not fit: {q.nbytes(report.fit.peak)} needed, {q.nbytes(report.fit.capacity)} there.",
            )
        )
    return notes


def _times(report: RooflineReport) -> Bars:
    times = report.time
    rows: list[tuple[str, float | None, str]] = [
        ("compute", times.compute, "compute"),
        ("memory", times.memory, "memory"),
    ]
    if report.cost.collectives:
        rows.append(("communication", times.comms, "communication"))
    if report.measured is not None:
        rows.append(("measured", report.measured.minimum, "measured"))
    rows = [(label, value if value is None or math.isfinite(value) else None, tone) for label, value, tone in rows]
    longest = max((value for _, value, _ in rows if value), default=0.0)
    return Bars(
        "Time at the roof",
        tuple(
            Bar(label, q.seconds(value), (value or 0.0) / longest if longest else 0.0, tone, _exact(value))
            for label, value, tone in rows
        ),
    )


def _exact(value: float | None) -> str:
    return "no figure" if value is None else f"{value:.6g} s"


def _lines(report: RooflineReport, lines: tuple[Priced, ...], title: str) -> Table | None:
    if not lines:
        return None
    return Table(
        title,
        ("line", "code", "time", "share", "bound", "FLOP/B"),
        tuple(
            (
                str(line.source.line) if line.source else "",
                line.label,
                q.seconds(line.time),
                q.percent(line.share),
                line.bound,
                q.intensity(line.intensity).removesuffix(" FLOP/B"),
            )
            for line in lines
        ),
        right=frozenset({0, 2, 3, 5}),
        tones=tuple(line.bound for line in lines),
    )


def _ops(report: RooflineReport) -> Table | None:
    timed = [op for op in report.ops if op.time]
    ops = timed[:ROWS]
    if not ops:
        return None
    return Table(
        "Instructions" + (f" (the dearest {ROWS} of {len(timed)})" if len(timed) > ROWS else ""),
        ("instruction", "runs", "FLOPs", "bytes", "time", "share", "bound"),
        tuple(
            (
                op.label,
                f"{op.count:,}",
                q.flops(op.work.matrix_flops + op.work.vector_flops),
                q.nbytes(op.work.hbm_bytes),
                q.seconds(op.time),
                q.percent(op.share),
                op.bound,
            )
            for op in ops
        ),
        right=frozenset({1, 2, 3, 4, 5}),
        tones=tuple(op.bound for op in ops),
    )


def _figures(report: RooflineReport) -> Facts:
    cost, measured = report.cost, report.measured
    products = ", ".join(f"{q.flops(n)} in {dtype}" for dtype, n in cost.flops.items()) or "none"
    facts = [
        ("products", products),
        ("elementwise", q.flops(cost.vector_flops)),
        ("bytes", f"{q.nbytes(cost.hbm_bytes)} scheduled, {q.nbytes(cost.min_hbm_bytes)} compulsory"),
        ("intensity", f"{q.intensity(report.intensity)} against a ridge of {q.intensity(report.ridge)}"),
        ("time", f"between {q.seconds(report.time.lower)} and {q.seconds(report.time.upper)} at the roofs"),
    ]
    if measured is not None:
        facts.append(
            (
                "measured",
                f"minimum {q.seconds(measured.minimum)}, median {q.seconds(measured.median)}, "
                f"spread {q.seconds(measured.spread)}, {measured.runs} samples",
            )
        )
        facts.append(("reached", _reached(report)))
        if measured.fresh_outputs is not None:
            facts.append(
                (
                    "new outputs",
                    f"{q.seconds(measured.fresh_outputs)} where each run allocates its outputs anew",
                )
            )
        if measured.dispatch >= 0.2 * measured.minimum:
            facts.append(("launch", f"{q.seconds(measured.dispatch)} of it launches the program"))
        facts += [("measurement", note) for note in measured.notes]
    facts += _collectives(report)
    if report.fit is not None:
        room = f" of {q.nbytes(report.fit.capacity)}" if report.fit.capacity else ""
        beside = "" if report.fit.temporaries is not None else ", temporaries not counted"
        facts.append(("memory", f"{q.nbytes(report.fit.peak)}{room} per device{beside}"))
    unknown = [f"{entry.count} × {entry.name} ({entry.reason})" for entry in cost.unmodelled[:GLANCE]]
    if len(cost.unmodelled) > GLANCE:
        unknown.append(f"{len(cost.unmodelled) - GLANCE} more below")
    facts.append(("not modelled", ", ".join(unknown) or "nothing"))
    if report.target.compiler:
        facts.append(("compiler", report.target.compiler))
    return Facts("Figures", tuple(facts))


def _collectives(report: RooflineReport) -> list[tuple[str, str]]:
    """Equal collectives in one row; what moves most first."""
    runs: Counter[tuple[str, str, int]] = Counter()
    for collective in report.cost.collectives:
        runs[collective.kind, collective.dtype, collective.bytes] += collective.count
    ranked = sorted(runs.items(), key=lambda item: -item[0][2] * item[1])
    rows = [
        ("collective", f"{count} × {kind} of {q.nbytes(size)} {dtype}") for (kind, dtype, size), count in ranked[:ROWS]
    ]
    left = ranked[ROWS:]
    return rows + ([("collective", f"{sum(count for _, count in left):,} smaller runs more")] if left else [])


def _unmodelled(report: RooflineReport) -> Table | None:
    """What could not be counted, by name, where the figures have no room for it."""
    entries = report.cost.unmodelled
    if len(entries) <= GLANCE:
        return None
    runs: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        runs[entry.name, entry.reason] += entry.count
    shown = runs.most_common(NAMES)
    title = "Not modelled" + (f" (the {NAMES} that run most of {len(runs)})" if len(runs) > NAMES else "")
    return Table(
        title,
        ("instruction", "runs", "why"),
        tuple((name, f"{count:,}", reason) for (name, reason), count in shown),
        right=frozenset({1}),
    )


def _quiet_notes(report: RooflineReport) -> list[Note]:
    notes = [note for note in (*report.notes, *report.verdict.notes) if not _is_loud(note)]
    shown = [Note("note", note) for note in notes[:NOTES]]
    left = len(notes) - NOTES
    return shown + ([Note("note", f"{left} further notes are in to_dict().")] if left > 0 else [])


def _reached(report: RooflineReport) -> str:
    measured = report.measured
    if measured is None or not measured.minimum:
        return q.UNKNOWN
    rates = [q.byte_rate(report.cost.min_hbm_bytes / measured.minimum)]
    if report.cost.total_flops:
        rates.insert(0, q.flop_rate(report.cost.total_flops / measured.minimum))
    return " and ".join(rates)
