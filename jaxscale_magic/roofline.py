"""Work x Chip -> times, arithmetic intensity, ridge point and bound. Pure arithmetic.

Counting is in `hlo/`, what would help in `advice.py`. Source of the model: the roofline of Williams,
Waterman and Patterson, with a communication roof beside compute and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jaxscale_magic.chips.record import Chip
from jaxscale_magic.cost import Cost, OpCost, Source, Work
from jaxscale_magic.errors import ChipError

COMPUTE, MEMORY, COMMUNICATION = "compute", "memory", "communication"


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Seconds on one device.

    Attributes:
        compute: matrix or vector unit, whichever takes longer; None where no peak is known.
        memory: scheduled bytes at the memory's bandwidth.
        min_memory: compulsory bytes at the memory's bandwidth.
        comms: network; 0.0 where the program has no collective, None where it has one without a price.
        lower: no run can be faster: the largest of compute, min_memory and comms.
        upper: nothing overlaps: compute + memory + comms.
        scheduled: the scheduled instructions one after another, each at its own roof.
    """

    compute: float | None
    memory: float
    min_memory: float
    comms: float | None
    lower: float
    upper: float
    scheduled: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Priced:
    """A piece of work with its times: an instruction or a source line.

    Attributes:
        label: what to call it.
        source: the user's line, or None.
        count: how often it runs.
        work: its totals.
        compute, memory: seconds its work takes at each roof.
        time: of an instruction, the larger of the two: its own roof. Of a line, its part of the times of the
            instructions that it is compiled into.
        bound: "compute" or "memory".
        share: `time` as a part of all instructions' times together, 0 to 1, for lines and instructions alike;
            the lines' shares sum to less than 1 where instructions come from no line.
    """

    label: str
    source: Source | None
    count: int
    work: Work
    compute: float | None
    memory: float
    time: float
    bound: str
    share: float

    @property
    def intensity(self) -> float | None:
        """FLOP per scheduled byte; None where it moves no byte."""
        flops = self.work.matrix_flops + self.work.vector_flops
        return flops / self.work.hbm_bytes if self.work.hbm_bytes else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A program on a chip.

    Attributes:
        times: see `Times`.
        bound: "compute", "memory" or "communication", by the bytes the module really moves.
        min_bound: the same by compulsory bytes; differs from `bound` where the compiler moves far more.
        intensity: FLOP per scheduled byte, or None where no byte is moved.
        ridge: FLOP/byte where compute and memory time are equal for this program's mix of dtypes.
        ops: scheduled instructions, dearest first.
        lines: source lines, dearest first.
        notes: what could not be priced, and what stood in for what.
    """

    times: Times
    bound: str
    min_bound: str
    intensity: float | None
    ridge: float | None
    ops: tuple[Priced, ...]
    lines: tuple[Priced, ...]
    notes: tuple[str, ...] = ()


def compute_time(work: Work, chip: Chip) -> float | None:
    """Seconds the busier of matrix and vector unit needs; None where no peak says how long its work takes.

    Vector work beside products is left out where the vector unit has no published peak.
    """
    try:
        matrix = sum(n / chip.peak_flops(dtype) for dtype, n in work.flops.items())
    except ChipError:
        return None
    if chip.vector_flops is None:
        return None if work.vector_flops and not work.flops else matrix
    return max(matrix, work.vector_flops / chip.vector_flops.value)


def memory_time(nbytes: int, chip: Chip, working_set: int | None = None) -> float:
    """Seconds to move `nbytes`, of which a cache serves the part that fits.

    `working_set` is the distinct memory the program touches, in bytes. A chip without a cache figure (every
    accelerator here) pays HBM bandwidth for all of it; a host CPU that runs a program again finds as much
    of the working set in its last-level cache as fits there.
    """
    bandwidth = chip.hbm_bandwidth.value
    if chip.cache_bytes is None or chip.cache_bandwidth is None:
        return nbytes / bandwidth
    size = max(working_set or nbytes, 1)
    cached = min(1.0, chip.cache_bytes.value / size)
    return nbytes * (cached / chip.cache_bandwidth.value + (1 - cached) / bandwidth)


def bound_of(compute: float | None, memory: float | None, comms: float | None = 0.0) -> str:
    """The name of the largest of three times (a tie goes to compute; an absent one is left out)."""
    times = {COMPUTE: compute or 0.0, MEMORY: memory or 0.0, COMMUNICATION: comms or 0.0}
    return max(times, key=lambda name: times[name])


def _price(label: str, source: Source | None, count: int, work: Work, chip: Chip, size: int) -> Priced:
    compute = compute_time(work, chip)
    memory = memory_time(work.hbm_bytes, chip, size)
    return Priced(
        label=label,
        source=source,
        count=count,
        work=work,
        compute=compute,
        memory=memory,
        time=max(compute or 0.0, memory),
        bound=bound_of(compute, memory),
        share=0.0,
    )


def _ranked(pieces: Iterable[Priced], total: float) -> tuple[Priced, ...]:
    """The pieces with their shares of `total` seconds, dearest first."""
    shared = [replace(piece, share=piece.time / total if total else 0.0) for piece in pieces]
    return tuple(sorted(shared, key=lambda piece: -piece.time))


def by_line(ops: Sequence[OpCost]) -> dict[Source, tuple[int, Work]]:
    """The work of every source line: how often its busiest instruction runs, and the sums."""
    lines: dict[Source, tuple[int, Work]] = {}
    for op in ops:
        for source, work in op.lines or ((op.source, op.work),):
            if source is None:
                continue
            count, total = lines.get(source, (0, Work()))
            lines[source] = (max(count, op.count), total + work)
    return lines


def _line_times(ops: Sequence[OpCost], priced: Sequence[Priced], chip: Chip, size: int) -> dict[Source, float]:
    """Every instruction's time, shared among the lines fused into it by what each needs at its own roof."""
    times: dict[Source, float] = {}
    for op, whole in zip(ops, priced, strict=True):
        parts = op.lines or ((op.source, op.work),)
        roofs = [max(compute_time(work, chip) or 0.0, memory_time(work.hbm_bytes, chip, size)) for _, work in parts]
        together = sum(roofs)
        for (source, _), roof in zip(parts, roofs, strict=True):
            if source is not None:
                times[source] = times.get(source, 0.0) + (whole.time * roof / together if together else 0.0)
    return times


def price(cost: Cost, ops: Sequence[OpCost], chip: Chip) -> Verdict:
    """What limits the program on `chip` (figures per JAX device), and each instruction and line of it."""
    device = chip.per_device()
    size = cost.min_hbm_bytes
    # Where a part of the work is not counted and the rest is nothing, there is no time to tell.
    uncounted = bool(cost.unmodelled) and not cost.total_flops
    compute = None if uncounted else compute_time(cost.work, device)
    memory = memory_time(cost.hbm_bytes, device, size)
    min_memory = memory_time(cost.min_hbm_bytes, device, size)
    comms = _comms_time(cost)
    priced_ops = [_price(op.label, op.source, op.count, op.work, device, size) for op in ops]
    op_seconds = sum(op.time for op in priced_ops)
    line_times = _line_times(ops, priced_ops, device, size)
    priced_lines = [
        replace(
            _price(source.text.strip() or f"line {source.line}", source, count, work, device, size),
            time=line_times[source],
        )
        for source, (count, work) in by_line(ops).items()
    ]
    times = Times(
        compute=compute,
        memory=memory,
        min_memory=min_memory,
        comms=comms,
        lower=max(compute or 0.0, min_memory, comms or 0.0),
        upper=(compute or 0.0) + memory + (comms or 0.0),
        scheduled=op_seconds + (comms or 0.0),
    )
    return Verdict(
        times=times,
        bound=bound_of(compute, memory, comms),
        min_bound=bound_of(compute, min_memory, comms),
        intensity=None if uncounted or not cost.hbm_bytes else cost.total_flops / cost.hbm_bytes,
        ridge=_ridge(cost, compute, memory),
        ops=_ranked(priced_ops, op_seconds),
        lines=_ranked(priced_lines, op_seconds),
        notes=tuple(_unpriced(cost, device)),
    )


def _comms_time(cost: Cost) -> float | None:
    """Seconds of all collectives one after another; None where one of them has no price."""
    total = 0.0
    for collective in cost.collectives:
        if collective.time is None:
            return None
        total += collective.time * collective.count
    return total


def _ridge(cost: Cost, compute: float | None, memory: float) -> float | None:
    """FLOP/byte at which this program's own mix of dtypes takes as long as its bytes do."""
    if not compute or not cost.hbm_bytes:
        return None
    return cost.total_flops / compute * memory / cost.hbm_bytes


def _unpriced(cost: Cost, chip: Chip) -> list[str]:
    """Sentences on FLOPs that no figure of the chip prices, or that another unit runs."""
    notes = []
    for dtype in cost.flops:
        try:
            unit, passes = chip.unit(dtype)
        except ChipError as error:
            notes.append(f"Compute time is absent: {error}")
            continue
        if passes != 1 or unit not in (dtype, dtype.partition(":")[0]):
            how = "one pass" if passes == 1 else f"{passes:g} passes"
            notes.append(f"{dtype} products run on {chip.title}'s {unit} unit, in {how}.")
    if cost.collectives and _comms_time(cost) is None:
        runs = sum(collective.count for collective in cost.collectives)
        notes.append(
            f"Communication time is absent: {runs} collectives run, and no network is priced for this target. "
            "The bound is between compute and memory only."
        )
    if cost.unmodelled and not cost.total_flops:
        names = ", ".join(dict.fromkeys(each.name for each in cost.unmodelled))
        notes.append(f"Compute time is absent: nobody knows how many FLOPs {names} takes.")
    if cost.vector_flops and chip.vector_flops is None and not cost.flops:
        notes.append(f"Compute time is absent: no vector peak is published for {chip.title}.")
    elif cost.vector_flops and chip.vector_flops is None:
        notes.append(f"No vector peak is published for {chip.title}: elementwise FLOPs cost no time here.")
    return notes
