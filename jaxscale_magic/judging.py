"""A traced program compiled for what it is held against, counted, its collectives priced.

Which machine that is says `targets/aim.py`; what follows from the figures is in `analysis.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxscale_magic.chips import Chip
from jaxscale_magic.chips.network import Network, collective_time
from jaxscale_magic.cost import Collective, Cost, OpCost
from jaxscale_magic.errors import ChipError
from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.fuse import fused_traffic
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.shardings.axes import with_axes
from jaxscale_magic.targets.absent import compile_for
from jaxscale_magic.targets.aim import Aim, network_of
from jaxscale_magic.targets.compile import CompiledModule, compile_here, compile_standing_in


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The compiled program that figures are read from.

    Attributes:
        module: what the compiler made of it.
        network: how its devices are wired, or None where that is not known.
        mesh: mesh axis -> size, in the mesh's order; empty without a mesh.
        notes: what did not travel to the compiler, devices left idle.
    """

    module: CompiledModule
    network: Network | None = None
    mesh: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def count(self, chip: Chip, cell_files: Collection[str] = ()) -> tuple[Cost, tuple[OpCost, ...]]:
        """Its cost, collectives named by mesh axes and priced, and each scheduled instruction.

        Raises:
            ModuleError: the module cannot be read.
        """
        module = read_module(self.module.module)
        if self.module.fused:
            cost, ops = count_module(module, cell_files)
        else:
            cost, ops = count_module(module, cell_files, fused_traffic())
        named = with_axes(cost.collectives, self.mesh)
        return replace(cost, collectives=tuple(self._priced(each) for each in named)), ops

    def _priced(self, collective: Collective) -> Collective:
        if self.network is None or not collective.groups:
            return collective
        try:
            found = collective_time(collective.kind, collective.bytes, collective.groups, self.network)
        except ChipError:  # a kind without a formula stays without a time
            return collective
        return replace(collective, time=found.seconds)


def judge(traced: Any, aim: Aim | None, devices: int = 1) -> Judged:
    """Compile a traced program for what `aim` says; None: for the devices that are here.

    Args:
        traced: a `jax.stages.Traced`.
        aim: what to compile for.
        devices: how many devices its inputs are sharded over.

    The chip's own compiler is used where it is installed. Without it the CPU compiler stands in: in this process
    for one chip, in a worker for several.

    Raises:
        TargetError: the compiler refuses the program, or there are fewer devices than it needs.
    """
    if aim is None:
        return Judged(module=compile_here(traced))
    if aim.where is None or (aim.where.chips == 1 and (devices > aim.where.devices or not aim.real)):
        return Judged(module=compile_standing_in(traced, aim.chip.title))
    compiled = compile_for(traced, aim.where, stand_in=not aim.real)
    mesh = compiled.request.mesh
    return Judged(
        module=compiled.module,
        network=network_of(compiled.where, aim.chip, compiled.result.coordinates),
        mesh=dict(zip(mesh.names, mesh.sizes, strict=True)) if mesh is not None else {},
        notes=compiled.notes,
    )


def devices_of(leaves: Sequence[Any]) -> int:
    """How many devices arrays, or descriptions with a sharding, lie on."""
    shardings = (getattr(leaf, "sharding", None) for leaf in leaves)
    return max((sharding.num_devices for sharding in shardings if sharding is not None), default=1)
