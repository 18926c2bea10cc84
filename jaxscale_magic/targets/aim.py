"""What `--on` names: a chip's record, the machine to compile for, and how its devices are wired."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from jaxscale_magic.chips import Chip
from jaxscale_magic.chips import chip as chip_by_name
from jaxscale_magic.chips.network import Network, Nodes, torus
from jaxscale_magic.targets.install import find_compiler
from jaxscale_magic.targets.names import GENERATIONS, GPU_NODES, Destination, destination

#: Set to anything but "" or "0", the CPU compiler stands in even where a chip's own is installed.
STAND_IN_VARIABLE = "JAXSCALE_MAGIC_STAND_IN"


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """A chip to hold a program against.

    Attributes:
        chip: its record.
        where: what to compile for; None for a chip that no compiler is described to (one of the user's own).
        real: whether its own compiler is here and wanted.
    """

    chip: Chip
    where: Destination | None
    real: bool

    @property
    def name(self) -> str:
        """As the user writes it: a chip alone by its name, several as "v5e:4x4"."""
        return self.chip.name if self.where is None or self.where.chips == 1 else self.where.name


def aim_at(on: str | Chip, *, stand_in: bool = False) -> Aim:
    """What `on` ("v5e", "v5e:4x4", "h100:8", a `Chip`) means.

    Args:
        on: a chip's name or record, or a target with its shape.
        stand_in: leave the chip's own compiler aside.

    Raises:
        ChipError: no such chip.
        TargetError: no such shape.
    """
    shaped = isinstance(on, str) and (":" in on or "*" in on)
    if shaped:
        where: Destination | None = destination(str(on))
        assert where is not None
        chip = chip_by_name(where.chip)
    else:
        chip = chip_by_name(on)
        known = isinstance(on, str) and (chip.name in GENERATIONS or chip.name in GPU_NODES)
        where = destination(chip.name) if known else None
    asked = stand_in or os.environ.get(STAND_IN_VARIABLE, "0") not in ("", "0")
    real = where is not None and (where.platform == "cpu" or (not asked and find_compiler(where.platform) is not None))
    return Aim(chip=chip, where=where, real=real)


def network_of(where: Destination, chip: Chip, coordinates: Sequence[Sequence[int]] = ()) -> Network | None:
    """How a destination's devices are wired; None for CPUs.

    Args:
        where: what was compiled for.
        chip: whose figures hold.
        coordinates: the place of each device in the order of the mesh, as a TPU compiler gives it: torus
            coordinates, then the core on the chip, then the slice; empty where they are not known.
    """
    if where.platform == "cuda":
        size = where.shape[0] if where.slices > 1 else GPU_NODES[where.chip]
        return Nodes(chip=chip, size=size, count=where.slices)
    if where.platform != "tpu":
        return None
    plain = torus(chip, where.shape, slices=where.slices)
    if not coordinates:
        return plain
    return torus_of_places(plain.chip, where.shape, coordinates)


def torus_of_places(chip: Chip, shape: Sequence[int], places: Sequence[Sequence[int]]) -> Network:
    """A torus whose devices stand where a compiler says: coordinates, core, slice."""
    rank = len(shape)
    network = torus(chip, shape, coords=[place[:rank] for place in places])
    return type(network)(
        chip=chip,
        shape=network.shape,
        wraps=network.wraps,
        coords=network.coords,
        slices=tuple(place[-1] for place in places),
    )
