"""The walk over a module: entry x calls x loop trips -> `Cost` and one `OpCost` a scheduled instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from jaxscale_magic.cost import Collective, Cost, OpCost, Source, Unmodelled, Work, total_work
from jaxscale_magic.hlo.collectives import read_collective
from jaxscale_magic.hlo.custom_calls import custom_call_work
from jaxscale_magic.hlo.flops import NOTHING, RULES, instruction_flops
from jaxscale_magic.hlo.graph import Computation, Instruction, Module
from jaxscale_magic.hlo.read import without_collection
from jaxscale_magic.hlo.sources import Lines
from jaxscale_magic.hlo.touched import compulsory_bytes
from jaxscale_magic.hlo.traffic import FREE, instruction_bytes
from jaxscale_magic.hlo.trips import loop_body, loop_condition, trip_count

#: Opcodes behind which there may be arithmetic; the rest of a fusion is not looked at.
COMPUTING = frozenset(RULES) | {"fusion", "call", "custom-call"}
#: Opcodes that a fusion's label leaves out: they are how data gets to the arithmetic.
_PLUMBING = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "copy", "reshape", "iota"]
)


@dataclass(slots=True)
class _Walk:
    """What the walk has gathered so far."""

    module: Module
    lines: Lines
    traffic: Callable[[Instruction, Computation, Module], int]
    ops: list[OpCost] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    unmodelled: Counter[tuple[str, str, Source | None]] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)
    trips: dict[tuple[int, int], int] = field(default_factory=dict)

    def trips_of(self, loop: Instruction, computation: Computation) -> int:
        """Trips of a loop; one, with a note, where data decides."""
        key = (computation.id, loop.id)
        if key not in self.trips:
            count = trip_count(loop, computation, self.module)
            if count is None:
                source = self.lines(loop)
                where = f" of line {source.line}" if source else ""
                self.notes[f"The loop {loop.name}{where} ends when its data says so: it is counted per iteration."] = (
                    None
                )
                count = 1
            self.trips[key] = count
        return self.trips[key]


def count_module(
    module: Module,
    cell_files: Collection[str] = (),
    traffic: Callable[[Instruction, Computation, Module], int] = instruction_bytes,
) -> tuple[Cost, tuple[OpCost, ...]]:
    """Everything the module does on one device.

    Args:
        module: the compiled module.
        cell_files: file names of the cell under analysis, so that its lines are preferred as sources.
        traffic: HBM bytes of an instruction; `fuse.fused_traffic()` for a module that is not fused yet.

    Returns:
        The sums, and each scheduled instruction in the order of the walk.
    """
    walk = _Walk(module, Lines(module, cell_files), traffic)
    with without_collection():
        _visit(module.entry, 1, walk)
        compulsory = compulsory_bytes(module, walk.trips_of)
    entry = module.entry
    cost = Cost(
        work=total_work(op.work for op in walk.ops),
        min_hbm_bytes=compulsory,
        collectives=tuple(walk.collectives),
        unmodelled=tuple(
            Unmodelled(name=name, count=count, reason=reason, source=source)
            for (name, reason, source), count in walk.unmodelled.items()
        ),
        notes=tuple(walk.notes),
        argument_bytes=sum(p.shape.nbytes for p in entry.parameters.values()),
        output_bytes=entry.root.shape.nbytes,
    )
    return cost, tuple(walk.ops)


def _visit(computation: Computation, times: int, walk: _Walk) -> None:
    """Count every instruction of a scheduled computation that runs `times` times."""
    if times == 0:
        return
    module = walk.module
    for instruction in computation:
        match instruction.opcode:
            case "while":
                trips = walk.trips_of(instruction, computation)
                for part, runs in (
                    (loop_body(instruction, module), trips),
                    (loop_condition(instruction, module), trips + 1),
                ):
                    if part is not None:
                        _visit(part, times * runs, walk)
            case "call" | "async-start":
                for called in instruction.called:
                    _visit(module.computations[called], times, walk)
            case "conditional":
                _visit(_dearest(instruction, walk), times, walk)
            case opcode if opcode not in FREE:
                _count(instruction, computation, times, walk)


def _dearest(conditional: Instruction, walk: _Walk) -> Computation:
    """The branch with the most arithmetic, then the most bytes."""

    def weight(branch: Computation) -> tuple[int, int]:
        trial = _Walk(walk.module, walk.lines, walk.traffic, trips=walk.trips)
        _visit(branch, 1, trial)
        flops = sum(op.work.matrix_flops + op.work.vector_flops for op in trial.ops)
        return flops, sum(op.work.hbm_bytes for op in trial.ops)

    branches = [walk.module.computations[c] for c in conditional.called]
    walk.notes[f"Of the {len(branches)} branches of {conditional.name}, the dearest is counted."] = None
    return max(branches, key=weight)


def _count(instruction: Instruction, computation: Computation, times: int, walk: _Walk) -> None:
    module = walk.module
    source = walk.lines(instruction) or _neighbour(instruction, computation, walk)
    collective = read_collective(instruction, computation, times, source)
    if collective is not None:
        walk.collectives.append(collective)
    pieces: dict[Source | None, list[Work]] = {}
    _arithmetic(instruction, computation, source, pieces, times, walk)
    moved = walk.traffic(instruction, computation, module)
    if moved:
        pieces.setdefault(source, []).append(Work(hbm_bytes=moved))
    lines = {line: _summed(works, times) for line, works in pieces.items()}
    total = _summed(list(lines.values()), 1)
    if not lines and collective is None and instruction.opcode != "custom-call":
        return  # it is computed inside the kernel that uses it
    walk.ops.append(
        OpCost(
            name=instruction.name,
            opcode=instruction.opcode,
            label=_label(instruction, module),
            scope=instruction.scope,
            source=source,
            count=times,
            work=total,
            lines=tuple(lines.items()),
        )
    )


def _summed(works: list[Work], times: int) -> Work:
    work = works[0] if len(works) == 1 else total_work(works)
    return work if times == 1 else work * times


def _arithmetic(
    instruction: Instruction,
    computation: Computation,
    source: Source | None,
    pieces: dict[Source | None, list[Work]],
    times: int,
    walk: _Walk,
) -> None:
    """Add the FLOPs of one run to the lines that asked for them, fused instructions each to its own."""
    if instruction.opcode in ("fusion", "call"):
        for called in instruction.called:
            _fused_arithmetic(walk.module.computations[called], source, pieces, times, walk)
    else:
        _add(_work(instruction, computation, walk.module), source, pieces, times, walk)


def _fused_arithmetic(
    inner: Computation, source: Source | None, pieces: dict[Source | None, list[Work]], times: int, walk: _Walk
) -> None:
    messages = inner.proto.instructions
    for place, work in _parts(inner.pattern, walk.module):
        line = walk.lines.of(messages[place].metadata) or source
        if work is None:
            for called in messages[place].called_computation_ids:
                _fused_arithmetic(walk.module.computations[called], line, pieces, times, walk)
        else:
            _add(work, line, pieces, times, walk)


def _parts(pattern: Computation, module: Module) -> list[tuple[int, Work | str | None]]:
    """Place and work (see `_work`) of the fused instructions that compute; None for those that only call."""
    if "parts" not in pattern.facts:
        found: list[tuple[int, Work | str | None]] = []
        for place, fused in enumerate(pattern):
            if fused.opcode in ("fusion", "call"):
                found.append((place, None))
            elif fused.opcode in COMPUTING:
                work = _work(fused, pattern, module)
                if work is not NOTHING:
                    found.append((place, work))
        pattern.facts["parts"] = found
    parts: list[tuple[int, Work | str | None]] = pattern.facts["parts"]
    return parts


def _work(instruction: Instruction, computation: Computation, module: Module) -> Work | str:
    """The arithmetic of one instruction, or the target of a custom call of which it is unknown."""
    if instruction.opcode != "custom-call":
        return instruction_flops(instruction, computation, module)
    work = custom_call_work(instruction, computation)
    target: str = instruction.proto.custom_call_target
    return target if work is None else work


def _add(
    work: Work | str, source: Source | None, pieces: dict[Source | None, list[Work]], times: int, walk: _Walk
) -> None:
    if isinstance(work, str):
        walk.unmodelled[(work, "custom call: FLOPs unknown", source)] += times
    elif work is not NOTHING:
        pieces.setdefault(source, []).append(work)


def _neighbour(instruction: Instruction, computation: Computation, walk: _Walk) -> Source | None:
    """The line of whoever uses the value, else of whoever made it: a compiler's own copy or convert."""
    for user, _ in computation.users.get(instruction.id, ()):
        if found := walk.lines(user):
            return found
    for index in range(len(instruction.operands)):
        if found := walk.lines(computation.operand(instruction, index)):
            return found
    return None


def _label(instruction: Instruction, module: Module) -> str:
    if instruction.opcode == "custom-call":
        return f"custom call {instruction.proto.custom_call_target}"
    if instruction.opcode != "fusion":
        return instruction.opcode
    inner = module.computations[instruction.called[0]].pattern
    if "label" not in inner.facts:
        inner.facts["label"] = _fusion_label(inner)
    label: str = inner.facts["label"]
    return label


def _fusion_label(inner: Computation) -> str:
    names = list(dict.fromkeys(i.opcode for i in inner if i.opcode not in _PLUMBING))
    if not names:
        return "copy"
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return shown if len(names) == 1 else f"fusion: {shown}"
