"""The tree of parts that a report is made of. One description; text, Markdown and HTML walk the same tree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict in one line; `tone` names its colour."""

    text: str
    tone: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One labelled bar: `fraction` of the longest, the value as text, what it is the time of, and exactly."""

    label: str
    value: str
    fraction: float
    tone: str
    of: str = ""
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars that are compared with one another."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns. Columns named in `right` are numbers; `tones` colours rows by their bound."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    tones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a name and a value."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence: "warning" or "note"."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Sentences under a title, as a list."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of the roofline picture: FLOP/byte, FLOP/s, share of time (0 to 1)."""

    label: str
    intensity: float
    rate: float
    share: float
    tone: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The roofline picture: roofs (name, FLOP/s), slopes (name, byte/s) and dots; the first slope is main memory."""

    title: str
    roofs: tuple[tuple[str, float], ...]
    slopes: tuple[tuple[str, float], ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class More:
    """Parts that are folded away until asked for."""

    summary: str
    parts: tuple[Part, ...]


Part = Headline | Bars | Table | Facts | Note | Items | Chart | More
