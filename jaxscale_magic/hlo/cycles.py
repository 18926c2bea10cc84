"""The TPU compiler's own estimate of a module's time: cycles a fusion states, times how often it runs.

An opinion independent of this package's model. Instructions without a statement (collectives, copies) add nothing,
so it estimates the cores' work, not the network's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from jaxscale_magic.hlo.graph import Computation, Module
from jaxscale_magic.hlo.trips import loop_body, loop_condition, trip_count

#: FLOPs that one multiply-accumulate counts.
_FLOPS_PER_CELL = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycles:
    """Attributes: total (cycles over the schedule), stated and silent (executed instructions with and without one),
    unknown_loops (loops counted once because their trip count is not known).
    """

    total: int
    stated: int
    silent: int
    unknown_loops: int

    def seconds(self, clock: float) -> float | None:
        """Time at a clock in Hz; None where no instruction stated any."""
        return self.total / clock if self.stated else None


def clock_of(peak: float, units: int, shape: tuple[int, int]) -> float:
    """Clock in Hz of a matrix unit: peak FLOP/s ÷ (units × rows × columns × 2)."""
    return peak / (units * shape[0] * shape[1] * _FLOPS_PER_CELL)


def estimated_cycles(module: Module) -> Cycles:
    """Sum the cycles that the compiler states over the schedule, loops as often as they run."""
    total, stated, silent, unknown = _sum(module.entry, module)
    return Cycles(total=total, stated=stated, silent=silent, unknown_loops=unknown)


def _sum(computation: Computation, module: Module) -> tuple[int, int, int, int]:
    total = stated = silent = unknown = 0
    for instruction in computation:
        parts: list[tuple[Computation, int]] = []
        match instruction.opcode:
            case "while":
                trips = trip_count(instruction, computation, module)
                unknown += trips is None
                runs = 1 if trips is None else trips
                for part, times in (
                    (loop_body(instruction, module), runs),
                    (loop_condition(instruction, module), runs + 1),
                ):
                    if part is not None:
                        parts.append((part, times))
            case "call" | "async-start":
                parts = [(module.computations[c], 1) for c in instruction.called]
            case "conditional":
                branches = [module.computations[c] for c in instruction.called]
                parts = [(max(branches, key=lambda b: _sum(b, module)[0]), 1)]
            case "fusion" | "convolution" | "custom-call":
                cycles = _stated(instruction.proto.backend_config)
                total += cycles or 0
                stated += cycles is not None
                silent += cycles is None
        for part, times in parts:
            inner = _sum(part, module)
            total, stated, silent, unknown = (
                total + inner[0] * times,
                stated + inner[1] * times,
                silent + inner[2] * times,
                unknown + inner[3],
            )
    return total, stated, silent, unknown


def _stated(config: bytes) -> int | None:
    if b"estimated_cycles" not in config:
        return None
    try:
        return int(json.loads(config)["window_config"]["estimated_cycles"])
    except (ValueError, KeyError, TypeError):
        return None
