"""A program's own schedule, walked: what runs when, what waits for what, how much communication stays exposed.

Pure arithmetic over steps that somebody else has priced; which instruction is which step is read in `hlo/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: The resource on which everything waits that is not asynchronous.
CORE = "core"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One instruction of a schedule, run once.

    Attributes:
        name: what to call it.
        seconds: resource ("core", "hbm", "ici x", "dcn") -> how long it occupies it.
        starts: a key: the work goes on in the background until a step that waits for this key.
        waits: keys of background work that must be over before this step.
    """

    name: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    starts: str = ""
    waits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """Steps that run `trips` times over."""

    name: str
    body: Sequence[Step | Loop]
    trips: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of the timeline: `name` on `resource` from `begin` to `end`, in seconds.

    Attributes:
        times: how often this stretch comes again; 1 outside loops.
        waits: the core stands still here for `name`.
    """

    name: str
    resource: str
    begin: float
    end: float
    times: int = 1
    waits: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """What a walk found.

    Attributes:
        seconds: from the first step to the last.
        busy: resource -> seconds it is occupied.
        exposed: resource -> seconds that the core stands still for it.
        spans: the stretches, of every loop its first two iterations only.
    """

    seconds: float
    busy: Mapping[str, float]
    exposed: Mapping[str, float]
    spans: tuple[Span, ...]


@dataclass(slots=True)
class _Walk:
    now: float = 0.0
    free: dict[str, float] = field(default_factory=dict)
    ends: dict[str, tuple[str, str, float]] = field(default_factory=dict)  # key -> (name, resource, end)
    busy: dict[str, float] = field(default_factory=dict)
    exposed: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    times: int = 1

    def occupy(self, name: str, resource: str, seconds: float, begin: float) -> float:
        """Put work on a resource behind what it already has; returns when it is over."""
        start = max(begin, self.free.get(resource, 0.0))
        end = self.free[resource] = start + seconds
        self.busy[resource] = self.busy.get(resource, 0.0) + seconds
        if seconds:
            self.spans.append(Span(name=name, resource=resource, begin=start, end=end, times=self.times))
        return end

    def stand_still(self, name: str, resource: str, until: float) -> None:
        """The core waits for a resource."""
        if until > self.now:
            self.exposed[resource] = self.exposed.get(resource, 0.0) + until - self.now
            self.spans.append(Span(name=name, resource=CORE, begin=self.now, end=until, times=self.times, waits=True))
            self.now = until


def walk(steps: Iterable[Step | Loop]) -> Timeline:
    """Walk a schedule in order.

    A step occupies its resources together, and is over when the slowest is; background work occupies its own
    behind what they already have. Work on one resource never overlaps. Two iterations of a loop are walked, and
    each further one takes as long as the second.
    """
    state = _Walk()
    _walk(steps, state)
    for name, resource, end in list(state.ends.values()):
        state.stand_still(name, resource, end)
    return Timeline(seconds=state.now, busy=dict(state.busy), exposed=dict(state.exposed), spans=tuple(state.spans))


def _walk(steps: Iterable[Step | Loop], state: _Walk) -> None:
    for step in steps:
        if isinstance(step, Loop):
            _walk_loop(step, state)
            continue
        for key in step.waits:
            if key in state.ends:
                state.stand_still(*state.ends.pop(key))
        if step.starts:
            ends = {r: state.occupy(step.name, r, s, state.now) for r, s in step.seconds.items()}
            slowest = max(ends, key=lambda r: ends[r], default=CORE)
            state.ends[step.starts] = (step.name, slowest, ends.get(slowest, state.now))
            continue
        ends = {r: state.occupy(step.name, r, s, state.now) for r, s in step.seconds.items()}
        for resource, end in sorted(ends.items(), key=lambda item: item[0] != CORE):
            if resource == CORE:
                state.now = max(state.now, end)
            else:
                state.stand_still(step.name, resource, end)


def _walk_loop(loop: Loop, state: _Walk) -> None:
    if loop.trips < 1:
        return
    _walk(loop.body, state)
    if loop.trips < 2:
        return
    before = (state.now, dict(state.busy), dict(state.exposed))
    more = loop.trips - 1
    state.times *= more
    _walk(loop.body, state)
    state.times //= more
    # What the second iteration added comes again as often as iterations are left.
    again = more - 1
    added = (state.now - before[0]) * again
    for totals, old in ((state.busy, before[1]), (state.exposed, before[2])):
        for resource, seconds in totals.items():
            totals[resource] = seconds + (seconds - old.get(resource, 0.0)) * again
    state.now += added
    state.free = {resource: end + added for resource, end in state.free.items()}
    state.ends = {key: (name, resource, end + added) for key, (name, resource, end) in state.ends.items()}
