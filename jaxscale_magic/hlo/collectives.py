"""Collective operations as the module spells them: kind, payload, replica groups.

What a collective costs on a network is not known here.
"""

from __future__ import annotations

from typing import Any

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
    """Device ids of each group: explicit lists, the iota form, or the pairs of a permute."""
    if proto.source_target_pairs:
        return tuple((pair.source, pair.target) for pair in proto.source_target_pairs)
    listed = proto.collective_device_list.replica_groups or proto.replica_groups
    if listed:
        return tuple(tuple(group.replica_ids) for group in listed)
    iota = proto.collective_device_list.iota_replica_group_list
    if not iota.num_replica_groups:
        return ()
    import numpy as np

    ids = np.arange(iota.num_replica_groups * iota.num_devices_per_group).reshape(list(iota.iota_reshape_dims))
    if iota.iota_transpose_perm:
        ids = ids.transpose(list(iota.iota_transpose_perm))
    return tuple(tuple(map(int, row)) for row in ids.reshape(iota.num_replica_groups, -1))
