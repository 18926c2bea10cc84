"""A report as a tree of parts: what is said, in which order. How it looks is in the renderings."""

from __future__ import annotations

from jaxscale_magic import quantity as q
from jaxscale_magic.errors import ChipError
from jaxscale_magic.report.parts import Bar, Bars, Chart, Dot, Facts, Headline, More, Note, Part, Table
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

#: How many lines of the cell are shown at a glance, and how many rows of a table in all.
GLANCE, ROWS = 3, 30


def build(report: RooflineReport) -> tuple[Part, ...]:
    """The parts of a report, most important first."""
    return tuple(
        part
        for part in (
            _headline(report),
            *_warnings(report),
            _times(report),
            _chart(report),
            _lines(report, report.lines[:GLANCE], "Costliest lines"),
            *(Note("advice", advice.text) for advice in report.advice),
            _figures(report),
            *(Note("note", note) for note in (*report.notes, *report.verdict.notes) if not _is_loud(note)),
            More(
                "Every line and instruction",
                tuple(
                    part
                    for part in (
                        _lines(report, report.lines[GLANCE:ROWS], "Further lines"),
                        _ops(report),
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
    for collective in cost.collectives:
        facts.append(
            (
                "collective",
                f"{collective.count} × {collective.kind} of {q.nbytes(collective.bytes)} {collective.dtype}",
            )
        )
    if report.fit is not None:
        room = f" of {q.nbytes(report.fit.capacity)}" if report.fit.capacity else ""
        beside = "" if report.fit.temporaries is not None else ", temporaries not counted"
        facts.append(("memory", f"{q.nbytes(report.fit.peak)}{room} per device{beside}"))
    unknown = ", ".join(f"{entry.count} × {entry.name} ({entry.reason})" for entry in cost.unmodelled)
    facts.append(("not modelled", unknown or "nothing"))
    if report.target.compiler:
        facts.append(("compiler", report.target.compiler))
    return Facts("Figures", tuple(facts))


def _reached(report: RooflineReport) -> str:
    measured = report.measured
    if measured is None or not measured.minimum:
        return q.UNKNOWN
    rates = [q.byte_rate(report.cost.min_hbm_bytes / measured.minimum)]
    if report.cost.total_flops:
        rates.insert(0, q.flop_rate(report.cost.total_flops / measured.minimum))
    return " and ".join(rates)


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
        roof = max(report.time.compute or 0.0, report.time.memory)
        found.append(Dot("the program at its roof", report.intensity, total / roof, 1.0, report.bound))
        if report.measured is not None and report.measured.minimum:
            found.append(Dot("measured", report.intensity, total / report.measured.minimum, 1.0, "measured"))
    for op in report.ops[:10]:
        flops = op.work.matrix_flops + op.work.vector_flops
        if op.intensity and op.time:
            found.append(Dot(op.label, op.intensity, flops / op.time, op.share, op.bound))
    return tuple(found)


def _chart(report: RooflineReport) -> Chart | None:
    points, lines = dots(report), roofs(report)
    if not points or not lines:
        return None
    chip = report.target.chip.per_device()
    slopes = [("memory", chip.hbm_bandwidth.value)]
    if chip.cache_bandwidth is not None:
        slopes.append(("cache", chip.cache_bandwidth.value))
    return Chart(f"Roofline of {chip.title}", lines, tuple(slopes), points)
