"""What a roofline chart is made of: lines, dots and a range, as frozen records of plain numbers and text.

They are filled in `roofline_figure.py` and drawn in `roofline_view.py`; nothing here computes a time.
"""

from __future__ import annotations

from dataclasses import dataclass

LEFT, RIGHT, BOTTOM = "left", "right", "bottom"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The chart's range in powers of ten: FLOP/byte from 10**left to 10**right, FLOP/s likewise."""

    left: int
    right: int
    bottom: int
    top: int

    def __or__(self, other: Limits) -> Limits:
        """The smallest range that holds both."""
        return Limits(
            left=min(self.left, other.left),
            right=max(self.right, other.right),
            bottom=min(self.bottom, other.bottom),
            top=max(self.top, other.top),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A straight line on the log-log chart, from (x[0], y[0]) to (x[1], y[1])."""

    label: str
    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One point.

    Attributes:
        x, y: FLOP/byte and FLOP/s, moved to the edge where there is no such place on a log scale.
        share: its part of the time, 0 to 1.
        bound: "compute", "memory" or "communication".
        hover: several lines of plain text, not escaped.
        edge: "left" (no FLOPs, or too few), "right" (no bytes), "bottom" (far too slow), "" where it fits.
    """

    x: float
    y: float
    share: float
    bound: str
    hover: str
    edge: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineFigure:
    """Everything the chart shows.

    Attributes:
        roofs: the compute peaks of the dtypes in use, highest first.
        slopes: the memory's line that the program pays; on a cached host also main memory's own.
        ridge: FLOP/byte where this program's roof meets the slope; None without a compute time.
        program: the whole program at its own roof; None where it does nothing at all.
        measured: the same intensity at the speed it really ran; None where it did not run.
        ops: the costliest instructions, dearest first.
        limits: the range.
        notes: what stands at an edge, and which roof is missing or only there for scale.
    """

    roofs: tuple[Line, ...]
    slopes: tuple[Line, ...]
    ridge: float | None
    program: Dot | None
    measured: Dot | None
    ops: tuple[Dot, ...]
    limits: Limits
    notes: tuple[str, ...] = ()
