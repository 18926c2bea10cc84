"""Traffic of a module that has not been fused yet, as a fusing compiler for an accelerator would leave it.

Used where another compiler stands in: its own fusions would be those of the wrong machine. Cheap instructions
are computed where their result is used; what is left moves through main memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from jaxscale_magic.hlo.flops import ARITHMETIC, TRANSCENDENTAL
from jaxscale_magic.hlo.graph import HBM, Computation, Instruction, Module
from jaxscale_magic.hlo.traffic import (
    FREE,
    IN_PLACE,
    LARGE_CONSTANT,
    PARTIAL,
    instruction_bytes,
    updated_part,
)

#: Slices of one value, alike in size, that a kernel is followed through.
_MOST_PARTS = 64

Traffic = Callable[[Instruction, Computation, Module], int]

#: Instructions that a compiler recomputes inside the kernel that uses them, rather than store their result.
CHEAP = (
    frozenset(ARITHMETIC)
    | TRANSCENDENTAL
    | frozenset(
        [
            "and",
            "or",
            "xor",
            "not",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
            "compare",
            "select",
            "is-finite",
            "convert",
            "bitcast",
            "bitcast-convert",
            "broadcast",
            "reshape",
            "transpose",
            "reverse",
            "iota",
            "slice",
            "dynamic-slice",
            "gather",
            "pad",
            "concatenate",
            "complex",
            "real",
            "imag",
            "copy",
            "popcnt",
            "count-leading-zeros",
            "stochastic-convert",
        ]
    )
)
#: Kernels that take cheap producers in as they read their operands.
ABSORBING = frozenset(
    [
        "dot",
        "convolution",
        "reduce",
        "reduce-window",
        "scatter",
        "dynamic-update-slice",
        "ragged-dot",
        "select-and-scatter",
    ]
)
#: Kernels that apply a cheap consumer to their result before they write it.
EPILOGUE = frozenset({"dot", "convolution", "ragged-dot"})


def fused_traffic() -> Traffic:
    """A traffic function for `count_module`, with a cache of what it finds out about each computation."""
    plans: dict[int, _Plan] = {}

    def traffic(instruction: Instruction, computation: Computation, module: Module) -> int:
        if computation.id not in plans:
            plans[computation.id] = _Plan(computation)
        return plans[computation.id].bytes(instruction, module)

    return traffic


class _Plan:
    """Which values of one computation are stored, and which live only inside a kernel."""

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._stored = {i.id for i in computation if self._is_stored(i)}
        self._epilogue_of = self._find_epilogues()

    def bytes(self, instruction: Instruction, module: Module) -> int:
        """HBM bytes that the kernel ending in `instruction` moves; 0 where it ends in none."""
        if instruction.opcode in FREE or instruction.id not in self._stored:
            return 0
        if instruction.opcode not in CHEAP and instruction.opcode not in ABSORBING:
            return instruction_bytes(instruction, self._computation, module)
        read = sum(self._reads(instruction).values())
        if instruction.id in self._epilogue_of:
            return read  # its result is handed to the epilogue, never stored
        return read + self._written(instruction) + self._copied(instruction, module)

    def _is_stored(self, instruction: Instruction) -> bool:
        if instruction.opcode not in CHEAP or instruction.id == self._computation.root_id:
            return True
        users = self._computation.users.get(instruction.id, ())
        return any(user.opcode not in CHEAP and user.opcode not in ABSORBING for user, _ in users)

    def _find_epilogues(self) -> dict[int, int]:
        """Products whose only use, through cheap instructions, is one stored result of the same size."""
        found = {}
        for product in self._computation:
            if product.opcode in EPILOGUE and product.id != self._computation.root_id:
                ends = self._ends(product)
                if len(ends) == 1:
                    (end,) = ends.values()
                    if end.opcode in CHEAP and end.shape.size == product.shape.size:
                        found[product.id] = end.id
        return found

    def _ends(self, value: Instruction) -> dict[int, Instruction]:
        """The stored instructions that `value` reaches through unstored ones."""
        ends: dict[int, Instruction] = {}
        pending, seen = [value], {value.id}
        while pending:
            for user, _ in self._computation.users.get(pending.pop().id, ()):
                if user.id in self._stored:
                    ends[user.id] = user
                elif user.id not in seen:
                    seen.add(user.id)
                    pending.append(user)
        return ends

    def _reads(self, kernel: Instruction) -> dict[int, int]:
        """Stored values that the kernel reads: id -> bytes, at most all of each."""
        reads: dict[int, int] = {}
        pending: list[tuple[Instruction, int | None]] = []
        seen: Counter[tuple[int, int | None]] = Counter()
        self._operands(kernel, None, pending)
        while pending:
            value, limit = pending.pop()
            # Two slices of one size read two parts of a value; the whole of it is read once.
            if seen[value.id, limit] >= (1 if limit is None else _MOST_PARTS):
                continue
            seen[value.id, limit] += 1
            if value.id in self._stored and self._epilogue_of.get(value.id) != kernel.id:
                small = value.opcode == "constant" and value.shape.nbytes < LARGE_CONSTANT
                if not small and value.shape.memory_space == HBM:
                    whole = value.shape.nbytes
                    part = whole if limit is None else min(whole, -(-limit * value.shape.bits // 8))
                    reads[value.id] = min(whole, reads.get(value.id, 0) + part)
            elif self._epilogue_of.get(value.id) != kernel.id:
                self._operands(value, limit, pending)
        return reads

    def _operands(self, user: Instruction, limit: int | None, pending: list[tuple[Instruction, int | None]]) -> None:
        for index in range(len(user.operands)):
            operand = self._computation.operand(user, index)
            if index == 0 and user.opcode in PARTIAL:
                part = PARTIAL[user.opcode](user, self._computation)
                pending.append((operand, part if limit is None else min(part, limit)))
            elif index == 0 and user.opcode in IN_PLACE:
                if user.opcode == "scatter":
                    pending.append((operand, updated_part(user, self._computation).size))
            else:
                pending.append((operand, limit))

    def _copied(self, kernel: Instruction, module: Module) -> int:
        """Bytes of the copy that keeps an argument whole which is updated in place but not donated."""
        if kernel.opcode not in IN_PLACE or self._computation.id != module.entry.id:
            return 0
        updated = self._computation.operand(kernel, 0)
        donated = {number for number, _ in module.aliases.values()}
        if updated.opcode != "parameter" or updated.proto.parameter_number in donated:
            return 0
        return 2 * updated.shape.hbm_bytes

    def _written(self, kernel: Instruction) -> int:
        if kernel.opcode in IN_PLACE:
            return updated_part(kernel, self._computation).nbytes
        return kernel.shape.hbm_bytes
