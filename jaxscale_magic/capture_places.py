"""The notebook's arrays while a cell is traced: swapped for tracers where they stand, put back, and landed.

Objects keep their identity: a list stays the same list, and two names for one dict stay two names for one dict,
since arrays are exchanged inside the notebook's own containers and nothing is copied. What is read and written in
a single object is in `capture_holders.py`; running the cell is in `capture.py`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jaxscale_magic.capture_holders import (
    METHOD,
    OPAQUE,
    PARTIAL,
    STATIC,
    WRAPPER,
    Kind,
    Parts,
    is_notebooks_own,
    is_registered,
    kind_of,
)

#: Objects looked at from the names that a cell reads; what lies behind is an ordinary constant.
MOST_OBJECTS = 200_000


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an input: an array with numbers in it, or the description of one."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "biufcV" and leaf.dtype.names is None
    return isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))


@dataclass(frozen=True, slots=True)
class Held:
    """An object and what it held when it was looked at."""

    owner: Any
    kind: Kind
    parts: Parts

    def put(self) -> None:
        """Put these parts into the object, where it can be changed."""
        if self.kind.write is not None:
            self.kind.write(self.owner, self.parts)


@dataclass(frozen=True, slots=True)
class Survey:
    """What is reachable from some names.

    Attributes:
        roots: name -> value.
        arrays: id -> (label such as "params['w']", array), each array once, in the order found.
        holders: id -> every object that can be changed, with its parts at that time.
        swapped: ids of the holders, and of tuples and the like, in which arrays are inputs.
    """

    roots: dict[str, Any]
    arrays: dict[int, tuple[str, Any]]
    holders: dict[int, Held]
    swapped: frozenset[int]


def survey(names: Iterable[str], namespace: Mapping[str, Any]) -> Survey:
    """Look at everything that `names` lead to."""
    notebook = str(namespace.get("__name__", ""))
    roots = {name: namespace[name] for name in names}
    arrays: dict[int, tuple[str, Any]] = {}
    holders: dict[int, Held] = {}
    swapped: set[int] = set()
    seen: dict[int, Any] = {id(namespace): namespace}

    def visit(value: Any, label: str, inputs: bool) -> Iterator[tuple[Any, str, bool]]:
        if is_array(value):
            if inputs:
                arrays.setdefault(id(value), (label, value))
            return
        kind = kind_of(value, notebook)
        if kind is None or kind is OPAQUE or (id(value) in seen and (not inputs or id(value) in swapped)):
            return
        seen[id(value)] = value
        parts = kind.read(value)
        inside = inputs and (
            kind in (PARTIAL, METHOD, WRAPPER) or is_registered(value) or is_notebooks_own(value, notebook)
        )
        if inside:
            swapped.add(id(value))
        if kind.write is not None:
            holders.setdefault(id(value), Held(value, kind, parts))
        for place, part in parts.items():
            yield part, label + _written(place, value), inside and not _is_static(place)
        if type(value).__module__ == notebook:
            yield type(value), label, False

    _walk([(value, name, True) for name, value in roots.items()], visit)
    return Survey(roots, arrays, holders, frozenset(swapped))


def _walk(start: list[tuple[Any, str, bool]], visit: Callable[..., Iterator[tuple[Any, str, bool]]]) -> None:
    """Visit depth first, in order, up to `MOST_OBJECTS`."""
    stack = start[::-1]
    for _ in range(MOST_OBJECTS):
        if not stack:
            return
        stack += list(visit(*stack.pop()))[::-1]


def _is_static(place: Any) -> bool:
    return isinstance(place, tuple) and place[0] is STATIC


def _written(place: Any, owner: Any) -> str:
    """A place as Python writes it, behind the name of its owner."""
    if isinstance(owner, tuple) and hasattr(owner, "_fields"):
        return f".{owner._fields[place]}"
    if isinstance(owner, (list, tuple, dict)):
        return f"[{place!r}]"
    if isinstance(owner, types.FunctionType) and place[0] == "cell":
        return f".{owner.__code__.co_freevars[place[1]]}"
    if isinstance(place, str):
        return place if place[:1] in ".[" else f".{place}"
    return f".{place[1]}" if isinstance(place, tuple) and len(place) == 2 else ""


class Exchange:
    """Values for other values, by identity, wherever they stand; tuples and the like are made anew."""

    def __init__(self, pairs: Mapping[int, Any], notebook: str, within: frozenset[int] | None = None) -> None:
        self._new: dict[int, Any] = dict(pairs)
        self._notebook = notebook
        self._within = within
        self._kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        """What stands in the place of `value` from now on: itself where nothing in it is exchanged."""
        if id(value) in self._new:
            return self._new[id(value)]
        if self._within is not None and id(value) not in self._within:
            return value
        kind = kind_of(value, self._notebook)
        if kind is None or kind.rebuild is None:
            return value
        parts = kind.read(value)
        new = self.parts(parts)
        result = value if new is None else kind.rebuild(value, new)
        self._new[id(value)] = result
        self._kept += [value, result]  # an id is only good while its object lives
        return result

    def parts(self, parts: Parts) -> Parts | None:
        """The parts exchanged, or None where none of them is."""
        new = {place: part if _is_static(place) else self(part) for place, part in parts.items()}
        return new if any(new[place] is not part for place, part in parts.items()) else None

    @property
    def back(self) -> dict[int, Any]:
        """id of what stands there now -> what stood there, for all that was made anew."""
        pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
        return {id(new): old for old, new in pairs if new is not old}


class Pending:
    """Stands for a result until it is there."""


@dataclass(slots=True)
class Outcome:
    """What a traced cell left behind; `Pending` stands for each traced result, so that no tracer outlives it.

    Attributes:
        names: name -> value, for each name that was bound.
        deleted: names that are gone.
        last: value of the last expression.
        changed: the notebook's objects whose parts changed.
        fresh: objects that the cell made and that hold results.
        tracers: the results, each once; for whoever traces to hand on and forget.
        hidden: (path, what keeps it) of a tracer where nothing else can be put.
        text: path of a text that a tracer was written into, or "".
        pending: what stands for each of the results.
    """

    names: dict[str, Any] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    last: Any = None
    changed: list[Held] = field(default_factory=list)
    fresh: list[Held] = field(default_factory=list)
    tracers: list[Any] = field(default_factory=list)
    hidden: tuple[str, str] | None = None
    text: str = ""
    pending: list[Pending] = field(default_factory=list)

    def settle(self, back: Mapping[int, Any], notebook: str) -> None:
        """Take the tracers out: the notebook's own (by id) for what was swapped in, `Pending` for the results."""
        self.pending = [Pending() for _ in self.tracers]
        marks = {id(tracer): mark for tracer, mark in zip(self.tracers, self.pending, strict=True)}
        self._exchange(Exchange({**back, **marks}, notebook))
        for held in self.fresh:
            held.put()

    def land(self, values: Iterable[Any], notebook: str) -> None:
        """Put the results in: `values` in the order of `tracers`."""
        marks = {id(mark): value for mark, value in zip(self.pending, values, strict=True)}
        self._exchange(Exchange(marks, notebook))
        for held in (*self.changed, *self.fresh):
            held.put()

    def _exchange(self, exchange: Exchange) -> None:
        self.names = {name: exchange(value) for name, value in self.names.items()}
        self.last = exchange(self.last)
        self.changed = [Held(h.owner, h.kind, exchange.parts(h.parts) or h.parts) for h in self.changed]
        self.fresh = [Held(h.owner, h.kind, new) for h in self.fresh if (new := exchange.parts(h.parts)) is not None]


class Places:
    """The arrays that a cell reads, where they stand, through one trace of it."""

    def __init__(self, names: Iterable[str], namespace: MutableMapping[str, Any]) -> None:
        self._namespace = namespace
        self._notebook = str(namespace.get("__name__", ""))
        self._survey = survey(names, namespace)

    def numpy_contents(self) -> list[tuple[Any, Any]]:
        """(array, copy of its contents) for numpy's arrays, which a cell may change in place."""
        arrays = (array for _, array in self.arrays.values() if isinstance(array, np.ndarray))
        return [(array, array.copy()) for array in arrays if array.flags.writeable]

    @property
    def arrays(self) -> dict[int, tuple[str, Any]]:
        """id -> (label, array) of everything that may be an input; numpy's own included."""
        return self._survey.arrays

    def run(self, inputs: Mapping[int, Any], cell: Callable[[], Any]) -> Outcome:
        """Run `cell` with arrays exchanged for `inputs` (id of an array -> tracer); then put everything back.

        The cell finds everything as it was when it was surveyed, and leaves everything as it is now. Whatever it
        raises comes through.
        """
        saved = dict(self._namespace)
        current = [Held(held.owner, held.kind, held.kind.read(held.owner)) for held in self._survey.holders.values()]
        exchange = Exchange(inputs, self._notebook, self._survey.swapped)
        now: dict[int, Held] = {}
        try:
            for name, value in self._survey.roots.items():
                self._namespace[name] = exchange(value)
            for key, held in self._survey.holders.items():
                new = exchange.parts(held.parts) if key in self._survey.swapped else None
                now[key] = Held(held.owner, held.kind, held.parts if new is None else new)
                if not _same(now[key].parts, held.kind.read(held.owner)):
                    now[key].put()
            before = dict(self._namespace)
            last = cell()
            originals = {id(tracer): self._survey.arrays[key][1] for key, tracer in inputs.items()}
            return self._outcome(before, now, last, originals | exchange.back)
        finally:
            self._put_back(saved, current)

    def _outcome(self, before: dict[str, Any], now: dict[int, Held], last: Any, back: dict[int, Any]) -> Outcome:
        found = Outcome(last=last)
        found.names = {k: v for k, v in self._namespace.items() if k not in before or before[k] is not v}
        found.deleted = [name for name in before if name not in self._namespace]
        tracers: dict[int, Any] = {}
        seen: dict[int, Any] = {id(self._namespace): self._namespace}

        def visit(value: Any, label: str, fresh: bool) -> Iterator[tuple[Any, str, bool]]:
            if isinstance(value, jax.core.Tracer):
                if id(value) not in back:
                    tracers.setdefault(id(value), value)
                return
            if isinstance(value, str):
                if fresh and not found.text and is_tracers_text(value):
                    found.text = label
                return
            kind = kind_of(value, self._notebook)
            if kind is None or id(value) in seen:
                return
            seen[id(value)] = value
            parts = kind.read(value)
            old = now.get(id(value))
            traced = any(isinstance(part, jax.core.Tracer) for part in parts.values())
            changed = old is None or not _same(old.parts, parts)
            if kind.write is not None and changed:
                (found.fresh if old is None else found.changed).append(Held(value, kind, parts))
            elif kind.write is None and kind.rebuild is None and traced and found.hidden is None:
                found.hidden = (label, type(value).__name__)
            yield from ((part, label + _written(place, value), changed) for place, part in parts.items())

        roots = [(value, name, True) for name, value in found.names.items()] + [(last, "the last expression", True)]
        roots += [(self._namespace[n], n, False) for n in self._survey.roots if n in self._namespace]
        _walk(roots + [(held.owner, "", False) for held in now.values()], visit)
        found.tracers = list(tracers.values())
        found.settle(back, self._notebook)
        return found

    def _put_back(self, saved: dict[str, Any], current: list[Held]) -> None:
        for name in [name for name in self._namespace if name not in saved]:
            del self._namespace[name]
        self._namespace.update(saved)
        for held in current:
            if not _same(held.parts, held.kind.read(held.owner)):
                held.put()

    def land(self, outcome: Outcome, values: Iterable[Any]) -> Any:
        """Make an outcome the notebook's, with `values` for its tracers; returns the last expression's value."""
        outcome.land(values, self._notebook)
        for name in outcome.deleted:
            self._namespace.pop(name, None)
        self._namespace.update(outcome.names)
        return outcome.last


def _same(one: Parts, other: Parts) -> bool:
    return list(one) == list(other) and all(other[place] is part for place, part in one.items())


def is_tracers_text(text: str) -> bool:
    """Whether a text is what jax writes for an array without numbers."""
    return re.search(r"\b\w*Tracer\(\w+\[|Traced<", text) is not None
