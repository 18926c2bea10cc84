"""The tables of a report: lines, instructions, what was not counted. All shares are of one and the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jaxscale_magic import quantity as q
from jaxscale_magic.report.parts import Table
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

#: How many lines of the cell are shown at a glance, and how many rows of a table in all.
GLANCE, ROWS = 3, 30
#: How many names of what is not modelled a table holds.
NAMES = 60
#: Rows below this share of the time are folded into one.
LEAST = 1e-4


def whole_time(report: RooflineReport) -> float:
    """What shares are shares of: the seconds of all instructions one after another, each at its own roof."""
    return sum(op.time or 0.0 for op in report.ops)


def _shown(pieces: Sequence[Priced], most: int) -> Sequence[Priced]:
    """The dearest pieces that are worth a row; `pieces` are in that order."""
    return [piece for piece in pieces[:most] if piece.share >= LEAST]


def costliest_lines(report: RooflineReport) -> Table | None:
    """The lines that cost most, and all others in one row, so that the shares sum to 100 %."""
    shown = _shown(report.lines, GLANCE)
    if not shown:
        return None
    total = q.seconds(whole_time(report))
    title = f"Costliest lines (shares of {total}: all instructions one after another)"
    return _lines(title, shown, _rest_of_lines(report, shown))


def further_lines(report: RooflineReport) -> Table | None:
    """The lines after those shown at a glance."""
    shown = _shown(report.lines, ROWS)[GLANCE:]
    return _lines("Further lines", shown, None) if shown else None


def _rest_of_lines(report: RooflineReport, shown: Sequence[Priced]) -> tuple[str, ...] | None:
    """One row for what stands in no row: other lines, and instructions that come from no line."""
    whole = whole_time(report)
    seconds = whole - sum(line.time for line in shown)
    if not whole or seconds < LEAST * whole:
        return None
    others = len(report.lines) - len(shown)
    homeless = whole - sum(line.time for line in report.lines) >= LEAST * whole
    words = [f"{others} other line{'s' * (others > 1)}"] if others else []
    words += ["instructions from no line of yours"] if homeless else []
    return ("", "(" + " and ".join(words or ["other"]) + ")", q.seconds(seconds), q.percent(seconds / whole), "", "")


def _lines(title: str, lines: Sequence[Priced], rest: tuple[str, ...] | None) -> Table:
    rows = [
        (
            str(line.source.line) if line.source else "",
            line.label,
            q.seconds(line.time),
            q.percent(line.share),
            line.bound,
            q.intensity(line.intensity).removesuffix(" FLOP/B"),
        )
        for line in lines
    ]
    return Table(
        title,
        ("line", "code", "time", "share", "bound", "FLOP/B"),
        (*rows, *([rest] if rest else [])),
        right=frozenset({0, 2, 3, 5}),
        tones=(*(line.bound for line in lines), *([""] if rest else [])),
    )


def instructions(report: RooflineReport) -> Table | None:
    """The dearest instructions of the compiled program, and all others in one row."""
    shown = _shown(report.ops, ROWS)
    if not shown:
        return None
    rows = [
        (
            op.label,
            f"{op.count:,}",
            q.flops(op.work.matrix_flops + op.work.vector_flops),
            q.nbytes(op.work.hbm_bytes),
            q.seconds(op.time),
            q.percent(op.share),
            op.bound,
        )
        for op in shown
    ]
    tones = [op.bound for op in shown]
    others = [op for op in report.ops[len(shown) :] if op.time]
    if others:
        rows.append(
            (
                f"({len(others):,} other{'s' * (len(others) > 1)})",
                "",
                q.flops(sum(op.work.matrix_flops + op.work.vector_flops for op in others)),
                q.nbytes(sum(op.work.hbm_bytes for op in others)),
                q.seconds(sum(op.time for op in others)),
                q.percent(sum(op.share for op in others)),
                "",
            )
        )
        tones.append("")
    return Table(
        f"Instructions of the compiled program (shares of the same {q.seconds(whole_time(report))})",
        ("instruction", "runs", "FLOPs", "bytes", "time", "share", "bound"),
        tuple(rows),
        right=frozenset({1, 2, 3, 4, 5}),
        tones=tuple(tones),
    )


def unmodelled(report: RooflineReport) -> Table | None:
    """What could not be counted, by name, where the figures have no room for it."""
    entries = report.cost.unmodelled
    if len(entries) <= GLANCE:
        return None
    runs: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        runs[entry.name, entry.reason] += entry.count
    shown = runs.most_common(NAMES)
    title = "Not counted" + (f" (the {NAMES} that run most of {len(runs)})" if len(runs) > NAMES else "")
    return Table(
        title,
        ("instruction", "runs", "why"),
        tuple((name, f"{count:,}", reason) for (name, reason), count in shown),
        right=frozenset({1}),
    )
