"""What a plan means for one program on one mesh: a `PartitionSpec` for each array, or what is wrong with it.

How plans are written is in `notation.py`. Pure functions of names, shapes and mesh axes; no devices.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from jaxscale_magic.errors import JaxscaleError, nearest
from jaxscale_magic.shardings.notation import FREE, REST, UNSHARDED, Plan, Rule, dotted

#: Mesh axis -> its size, in the mesh's order.
MeshShape = Mapping[str, int]


def match_inputs(
    plan: Plan, labels: Sequence[str], shapes: Sequence[Sequence[int]], mesh: MeshShape
) -> tuple[PartitionSpec | None, ...]:
    """The spec of each flat input; None for one that no rule names.

    Of several rules that fit, the most specific holds: the one with the most letters outside its wildcards.

    Args:
        plan: its `inputs` are matched.
        labels: a label for each flat input, such as "params['w1']".
        shapes: its global shape.
        mesh: axes and their sizes.

    Raises:
        JaxscaleError: a rule that fits nothing, an unknown axis, an axis used twice, a wrong number of dimensions,
            or a dimension that the axes do not divide; with the array, the dimension and the numbers.
    """
    return _match(plan.name, plan.inputs, labels, shapes, mesh, is_book_style(plan, mesh))


def match_outputs(
    plan: Plan, labels: Sequence[str], shapes: Sequence[Sequence[int]], mesh: MeshShape
) -> tuple[PartitionSpec | None, ...]:
    """As `match_inputs`, for the arrays that come out."""
    return _match(plan.name, plan.outputs, labels, shapes, mesh, is_book_style(plan, mesh))


def is_book_style(plan: Plan, mesh: MeshShape) -> bool:
    """Whether a plan is written as in "How to Scale Your Model": "x[B_data, D]", where D only names a dimension."""
    entries = [entry for rule in (*plan.inputs, *plan.outputs) for entry in rule.entries]
    return any("_" in entry and not all(axis in mesh for axis in entry.split("+")) for entry in entries)


def _match(
    plan: str,
    rules: Sequence[Rule],
    labels: Sequence[str],
    shapes: Sequence[Sequence[int]],
    mesh: MeshShape,
    book: bool,
) -> tuple[PartitionSpec | None, ...]:
    paths = [dotted(label) for label in labels]
    for rule in rules:
        if not any(fits(rule.pattern, path) for path in paths):
            near = nearest(rule.pattern, [*paths, *(path.partition(".")[0] for path in paths)], limit=2)
            meant = f" Did you mean {' or '.join(near)}?" if near else f" The arrays are {', '.join(paths) or 'none'}."
            raise JaxscaleError(f"plan {plan!r}: no array is named {rule.pattern!r}.{meant}")
    specs: list[PartitionSpec | None] = []
    for path, shape in zip(paths, shapes, strict=True):
        fitting = [rule for rule in rules if fits(rule.pattern, path)]
        best = max(fitting, key=lambda rule: _weight(rule.pattern, path), default=None)
        specs.append(None if best is None else _spec(plan, best, path, shape, mesh, book))
    return tuple(specs)


def fits(pattern: str, path: str) -> bool:
    """Whether a pattern names an array: its path, a glob over it, or something that the path lies below."""
    pattern = dotted(pattern)
    parts = path.split(".")
    above = itertools.accumulate(parts, lambda one, other: f"{one}.{other}")
    return any(fnmatch.fnmatchcase(each, pattern) for each in above)


def _weight(pattern: str, path: str) -> tuple[bool, int]:
    return dotted(pattern) == path, sum(letter not in "*?" for letter in pattern)


def _spec(plan: str, rule: Rule, path: str, shape: Sequence[int], mesh: MeshShape, book: bool) -> PartitionSpec:
    where = f"plan {plan!r}: {path}{list(shape)}"
    entries = _filled(where, rule, len(shape))
    dims: list[Any] = []
    used: dict[str, int] = {}
    for dim, (entry, length) in enumerate(zip(entries, shape, strict=True)):
        if entry == FREE:
            dims.append(PartitionSpec.UNCONSTRAINED)
            continue
        axes = axes_of(entry, mesh, book=book)
        if axes is None:
            near = nearest(entry.rpartition("_")[2], mesh)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise JaxscaleError(
                f"{where}: dimension {dim} is sharded on {entry!r}, and the mesh has the axes "
                f"{', '.join(f'{name}={size}' for name, size in mesh.items())}.{meant} Write `-` for none."
            )
        for axis in axes:
            if axis in used:
                raise JaxscaleError(f"{where}: axis {axis!r} shards dimension {used[axis]} and dimension {dim}.")
            used[axis] = dim
        parts = math.prod(mesh[axis] for axis in axes)
        if length % parts:
            raise JaxscaleError(
                f"{where}: dimension {dim} has length {length}, which {'+'.join(axes)} = {parts} does not divide."
            )
        dims.append(axes[0] if len(axes) == 1 else axes or None)
    return PartitionSpec(*dims)


def _filled(where: str, rule: Rule, rank: int) -> list[str]:
    """The rule's entries, `...` written out."""
    entries = list(rule.entries)
    if entries.count(REST) > 1:
        raise JaxscaleError(f"{where}: {rule} has two `...`; one is enough.")
    if REST in entries:
        at, missing = entries.index(REST), rank - len(entries) + 1
        if missing >= 0:
            return [*entries[:at], *[UNSHARDED] * missing, *entries[at + 1 :]]
    elif len(entries) == rank:
        return entries
    given = len(entries) - entries.count(REST)
    dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
    raise JaxscaleError(f"{where}: it has {dimensions}, {rule} names {given}.")


def axes_of(entry: str, mesh: MeshShape, *, book: bool = False) -> tuple[str, ...] | None:
    """The mesh axes that an entry names; None where it names something else.

    Args:
        entry: "-", "data", "data+model"; in the book's style also "B_data", "B_XY", "B_{X,Y}", and "D" for a
            dimension that is not sharded.
        mesh: axes and their sizes.
        book: whether the plan is in the book's style.
    """
    if entry == UNSHARDED:
        return ()
    plain = tuple(part.strip() for part in entry.split("+"))
    if all(axis in mesh for axis in plain):
        return plain
    if not book:
        return None
    _, underscore, behind = entry.partition("_")
    if not underscore:
        return ()
    named = tuple(part.strip() for part in behind.strip("{}").replace(",", "+").split("+"))
    if all(axis in mesh for axis in named):
        return named
    return _joined(behind.strip("{}"), mesh)


def _joined(text: str, mesh: MeshShape) -> tuple[str, ...] | None:
    """Axis names written without anything between them: "XY" on a mesh with X and Y."""
    if not text:
        return ()
    for axis in sorted(mesh, key=len, reverse=True):
        if text.startswith(axis):
            rest = _joined(text[len(axis) :], mesh)
            if rest is not None:
                return (axis, *rest)
    return None
