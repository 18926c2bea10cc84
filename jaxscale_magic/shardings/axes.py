"""Which mesh axes a replica group runs over: device ids and a mesh's shape in, the user's axis names out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jaxscale_magic.cost import Collective


def axes_of_groups(groups: Iterable[Sequence[int]], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes along which the members of a group differ, in the mesh's order.

    A group over a part of an axis (a compiler may split a large one) still names that axis.

    Args:
        groups: partition numbers: places in the mesh, its last axis fastest. Of a permute, its (source, target)
            pairs.
        mesh: axis -> size.

    Returns:
        Axis names; empty for groups of one, and for numbers that no such mesh has.
    """
    names, sizes = list(mesh), list(mesh.values())
    devices = math.prod(sizes)
    found: set[str] = set()
    for group in groups:
        if any(not 0 <= device < devices for device in group):
            return ()
        places = [_place(device, sizes) for device in group]
        found |= {name for name, *at in zip(names, *places, strict=True) if len(set(at)) > 1}
        if len(found) == len(names):
            break
    return tuple(name for name in names if name in found)


def _place(device: int, sizes: Sequence[int]) -> list[int]:
    place = []
    for size in reversed(sizes):
        device, at = divmod(device, size)
        place.append(at)
    return place[::-1]


def with_axes(collectives: Iterable[Collective], mesh: Mapping[str, int]) -> tuple[Collective, ...]:
    """Collectives with `mesh_axes` filled in."""
    return tuple(replace(each, mesh_axes=axes_of_groups(each.groups, mesh)) for each in collectives)
