"""What a compiled program does on one device: FLOPs, bytes, how often, from which line.

Frozen records only, which add and scale; `hlo/` fills them, `roofline.py` prices them. All totals are per
device, loop trips included. One multiply-add is two FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A place in the user's own code. `text` is the line itself where it is known."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Arithmetic and traffic, as plain sums.

    Attributes:
        flops: dtype -> FLOPs of the matrix unit (dots and convolutions), by the dtype multiplied;
            "f32:highest" and "f32:high" where the program asks for that precision.
        vector_flops: elementwise and reduction FLOPs.
        transcendentals: evaluations of exp, tanh, sqrt and their like, also counted once in vector_flops.
        hbm_bytes: bytes moved through main memory, as scheduled.
    """

    flops: Mapping[str, int] = field(default_factory=dict)
    vector_flops: int = 0
    transcendentals: int = 0
    hbm_bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return total_work((self, other))

    def __mul__(self, times: int) -> Work:
        return Work(
            flops={dtype: n * times for dtype, n in self.flops.items()},
            vector_flops=self.vector_flops * times,
            transcendentals=self.transcendentals * times,
            hbm_bytes=self.hbm_bytes * times,
        )

    @property
    def matrix_flops(self) -> int:
        """FLOPs of the matrix unit over all dtypes."""
        return sum(self.flops.values())


def total_work(works: Iterable[Work]) -> Work:
    """The sum of many pieces of work."""
    flops: dict[str, int] = {}
    vector = transcendentals = nbytes = 0
    for work in works:
        for dtype, count in work.flops.items():
            flops[dtype] = flops.get(dtype, 0) + count
        vector += work.vector_flops
        transcendentals += work.transcendentals
        nbytes += work.hbm_bytes
    return Work(flops=flops, vector_flops=vector, transcendentals=transcendentals, hbm_bytes=nbytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpCost:
    """One scheduled instruction (a fusion counts as one).

    Attributes:
        name: the instruction's name in the module.
        opcode: HLO opcode; fusions as "fusion".
        label: short words for people, such as "dot", "fusion: multiply, tanh".
        scope: the op name that JAX gave it (`jit(f)/while/body/dot_general`).
        source: the user's line that made it, or None.
        count: how often it runs.
        work: totals over all `count` runs.
        lines: the same work split over the lines whose instructions were fused together.
        assumed: why some of it is an assumption; "" where it is exact.
    """

    name: str
    opcode: str
    label: str
    scope: str = ""
    source: Source | None = None
    count: int = 1
    work: Work
    lines: tuple[tuple[Source | None, Work], ...] = ()
    assumed: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collective:
    """One collective operation.

    Attributes:
        kind: "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute".
        dtype: element type of the payload.
        bytes: payload per device per execution (output of a gather, operand of a reduction).
        count: executions, trips included.
        groups: replica groups, device ids.
        mesh_axes: names of the mesh axes it runs over; empty where no mesh is known.
        time: seconds of one execution, or None before it is priced.
        overlapped: seconds of one execution hidden behind other work, or None.
        source: the user's line, or None.
    """

    kind: str
    dtype: str
    bytes: int
    count: int
    groups: tuple[tuple[int, ...], ...] = ()
    mesh_axes: tuple[str, ...] = ()
    time: float | None = None
    overlapped: float | None = None
    source: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmodelled:
    """Something whose arithmetic is not known: its name, how often it runs, and why."""

    name: str
    count: int
    reason: str
    source: Source | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """A whole program on one device.

    Attributes:
        work: the sums over all instructions.
        min_hbm_bytes: compulsory bytes: what is touched of the arguments, read once, and the results,
            written once.
        collectives: every collective with its count.
        unmodelled: what could not be counted, by name.
        notes: what a reader must know (a loop counted per iteration, the dearest branch taken, ...).
        argument_bytes, output_bytes: sizes of the entry's parameters and results.
    """

    work: Work
    min_hbm_bytes: int
    collectives: tuple[Collective, ...] = ()
    unmodelled: tuple[Unmodelled, ...] = ()
    notes: tuple[str, ...] = ()
    argument_bytes: int = 0
    output_bytes: int = 0

    @property
    def flops(self) -> Mapping[str, int]:
        """dtype -> FLOPs of the matrix unit."""
        return self.work.flops

    @property
    def vector_flops(self) -> int:
        """FLOPs of the vector unit."""
        return self.work.vector_flops

    @property
    def hbm_bytes(self) -> int:
        """Bytes through main memory as scheduled."""
        return self.work.hbm_bytes

    @property
    def total_flops(self) -> int:
        """Matrix and vector FLOPs together."""
        return self.work.matrix_flops + self.work.vector_flops

    def with_notes(self, *notes: str) -> Cost:
        """The same cost with further notes."""
        return replace(self, notes=(*self.notes, *notes))
