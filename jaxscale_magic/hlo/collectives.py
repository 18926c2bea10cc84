"""Collective operations as the module spells them: kind, payload, replica groups.

What a collective costs on a network is not known here.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from jaxscale_magic.cost import Collective, Source
from jaxscale_magic.hlo.graph import Computation, Instruction, Shape

#: HLO opcode -> the kind it is counted as. A `-done` carries no payload of its own.
KINDS = {
    "all-gather": "all-gather",
    "all-gather-start": "all-gather",
    "all-reduce": "all-reduce",
    "all-reduce-start": "all-reduce",
    "reduce-scatter": "reduce-scatter",
    "all-to-all": "all-to-all",
    "ragged-all-to-all": "all-to-all",
    "collective-permute": "collective-permute",
    "collective-permute-start": "collective-permute",
    "collective-broadcast": "collective-broadcast",
}


def read_collective(
    instruction: Instruction, computation: Computation, count: int, source: Source | None
) -> Collective | None:
    """The collective that `instruction` is, or None. `count` is how often it runs."""
    kind = KINDS.get(instruction.opcode)
    if kind is None:
        return None
    operands = [computation.operand(instruction, k).shape for k in range(len(instruction.operands))]
    payload = _gathered(instruction) if kind == "all-gather" else operands
    return Collective(
        kind=kind,
        dtype=_dtype(payload),
        bytes=sum(shape.nbytes for shape in payload),
        count=count,
        groups=replica_groups(instruction.proto),
        source=source,
    )


def _gathered(instruction: Instruction) -> list[Shape]:
    shape = instruction.shape
    if instruction.opcode.endswith("-start") and shape.elements:  # (operand, result)
        shape = shape.elements[-1]
    return list(shape.elements) or [shape]


def _dtype(shapes: list[Shape]) -> str:
    for shape in shapes:
        if not shape.elements:
            return shape.dtype
        return _dtype(list(shape.elements))
    return "token"


def replica_groups(proto: Any) -> tuple[tuple[int, ...], ...]:
    """Device ids of each group: explicit lists, the iota form, axes of a mesh, or the pairs of a permute."""
    if proto.source_target_pairs:
        return tuple((pair.source, pair.target) for pair in proto.source_target_pairs)
    listed = proto.collective_device_list.replica_groups or proto.replica_groups
    if listed:
        return tuple(tuple(group.replica_ids) for group in listed)
    for iota in (proto.iota_replica_groups, proto.collective_device_list.iota_replica_group_list):
        if iota.num_replica_groups:
            return _iota_groups(iota)
    return _mesh_groups(proto.mesh_replica_groups)


def _iota_groups(iota: Any) -> tuple[tuple[int, ...], ...]:
    """`[2,4]<=[4,2]T(1,0)`: numbers in the last shape, transposed, in rows of the first."""
    ids = np.arange(iota.num_replica_groups * iota.num_devices_per_group).reshape(list(iota.iota_reshape_dims))
    if iota.iota_transpose_perm:
        ids = ids.transpose(list(iota.iota_transpose_perm))
    return _rows(ids.reshape(iota.num_replica_groups, -1))


def _mesh_groups(groups: Any) -> tuple[tuple[int, ...], ...]:
    """`mesh['a'=2,'b'=4] {'b':(1)2}`: devices that differ along these axes, or parts of axes, only."""
    sizes = [axis.size for axis in groups.mesh.axes]
    if not sizes or not groups.axes:
        return ()
    ids = np.array(groups.mesh.device_ids or range(math.prod(sizes)))
    iota = groups.mesh.iota_device_ids
    if iota.reshape_dims:
        ids = ids.reshape(list(iota.reshape_dims)).transpose(list(iota.transpose_perm) or None)
    ids = ids.reshape(sizes)
    # A part of an axis is a dimension of its own: 'b':(p)s of a length n splits it into p, s and n/(p s).
    cuts = [{1, size} for size in sizes]
    for ref in groups.axes:
        if ref.HasField("sub_axis_info"):
            part = ref.sub_axis_info
            cuts[ref.mesh_axis_index] |= {part.pre_size, part.pre_size * part.size}
    split = [(axis, low, high) for axis, at in enumerate(cuts) for low, high in itertools.pairwise(sorted(at))]
    ids = ids.reshape([high // low for _, low, high in split])
    chosen = [k for ref in groups.axes for k, piece in enumerate(split) if _covers(ref, piece, sizes)]
    others = [k for k in range(len(split)) if k not in chosen]
    members = math.prod(ids.shape[k] for k in chosen)
    return _rows(ids.transpose(others + chosen).reshape(-1, members))


def _covers(ref: Any, piece: tuple[int, int, int], sizes: list[int]) -> bool:
    axis, low, high = piece
    if axis != ref.mesh_axis_index:
        return False
    first, last = 1, sizes[axis]
    if ref.HasField("sub_axis_info"):
        first, last = ref.sub_axis_info.pre_size, ref.sub_axis_info.pre_size * ref.sub_axis_info.size
    return bool(first <= low and high <= last)


def _rows(ids: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in ids)
