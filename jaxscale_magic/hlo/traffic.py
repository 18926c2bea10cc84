"""Bytes that one scheduled instruction moves through main memory.

A fusion reads its operands and writes its result, but of an operand that it only slices, gathers from or
updates in place it touches just that part. What no compiler could avoid is in `touched.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxscale_magic.hlo.graph import HBM, Computation, Instruction, Module, Shape

#: Instructions that move nothing: names for values, or work done by the computations that they call.
FREE = frozenset(
    [
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "after-all",
        "add-dependency",
        "opt-barrier",
        "optimization-barrier",
        "partition-id",
        "replica-id",
        "while",
        "call",
        "conditional",
        "async-start",
        "async-update",
        "async-done",
        "copy-done",
        "all-gather-done",
        "all-reduce-done",
        "collective-permute-done",
        "send-done",
        "recv-done",
        "domain",
        "get-dimension-size",
    ]
)
#: Views of the same bytes inside a fusion: what is done to their result is done to their operand.
VIEWS = frozenset({"bitcast", "reshape", "copy", "transpose", "convert", "get-tuple-element", "reverse"})
#: Opcode -> which part of operand 0 it touches, given the instruction.
PARTIAL: dict[str, Callable[[Instruction, Computation], int]] = {
    "slice": lambda instruction, computation: instruction.shape.size,
    "dynamic-slice": lambda instruction, computation: instruction.shape.size,
    "gather": lambda instruction, computation: instruction.shape.size,
}
#: Opcodes that write a part of operand 0 and hand the rest on: -> the operand that holds the new part.
IN_PLACE = {"dynamic-update-slice": 1, "scatter": 2}


#: Constants from this size up lie in memory and are read from there; smaller ones come with the code.
LARGE_CONSTANT = 1024


def large_constants(computation: Computation) -> list[Instruction]:
    """The constants of a computation that are read like arguments."""
    return [i for i in computation if i.opcode == "constant" and i.shape.nbytes >= LARGE_CONSTANT]


def instruction_bytes(instruction: Instruction, computation: Computation, module: Module) -> int:
    """HBM bytes of running `instruction` once, as part of a scheduled (not fused) computation."""
    opcode = instruction.opcode
    if opcode in FREE:
        return 0
    if opcode == "fusion":
        return _fusion_bytes(instruction, computation, module)
    if opcode in IN_PLACE:
        # Operand 0 is the result's own buffer: the part is read from its operand and written, no more.
        new = updated_part(instruction, computation)
        rest = [computation.operand(instruction, k).shape for k in range(1, len(instruction.operands))]
        read = 0 if opcode == "dynamic-update-slice" else _on_hbm(instruction.shape, _bytes(new))
        return sum(shape.hbm_bytes for shape in rest) + _on_hbm(instruction.shape, _bytes(new)) + read
    operands = [computation.operand(instruction, k) for k in range(len(instruction.operands))]
    read = sum(operand.shape.hbm_bytes for operand in operands)
    if opcode in PARTIAL:
        first = operands[0].shape
        part = min(first.nbytes, _scaled(first, PARTIAL[opcode](instruction, computation)))
        read += _on_hbm(first, part) - first.hbm_bytes
    if opcode in ("broadcast", "iota", "rng-get-and-update-state"):
        read = operands[0].shape.hbm_bytes if operands else 0
    if opcode == "copy-start":
        # The result is (destination, source, context): the copy is one read and one write.
        return read + instruction.shape.elements[0].hbm_bytes if instruction.shape.elements else read
    return read + _written(instruction, module)


def _written(instruction: Instruction, module: Module) -> int:
    if instruction.opcode.endswith("-start") and instruction.shape.elements:
        return instruction.shape.elements[-1].hbm_bytes
    return instruction.shape.hbm_bytes


def updated_part(instruction: Instruction, computation: Computation) -> Shape:
    """The shape of what an in-place instruction writes."""
    index = IN_PLACE[instruction.opcode]
    if instruction.opcode == "scatter":  # operands: arrays, indices, updates
        index = (len(instruction.operands) - 1) // 2 + 1
    return computation.operand(instruction, index).shape


def _bytes(shape: Shape) -> int:
    return shape.nbytes


def _scaled(shape: Shape, elements: int) -> int:
    return -(-elements * shape.bits // 8)


def _on_hbm(shape: Shape, nbytes: int) -> int:
    return nbytes if shape.elements or shape.memory_space == HBM else 0


def _fusion_bytes(instruction: Instruction, computation: Computation, module: Module) -> int:
    fused = module.computations[instruction.called[0]].pattern
    reads = fused.facts.get("reads")
    if reads is None:
        reads = [(number, read_inside(parameter, fused, module)) for number, parameter in fused.parameters.items()]
        fused.facts["reads"] = reads
    total = 0
    for number, nbytes in reads:
        total += _on_hbm(computation.operand(instruction, number).shape, nbytes)
    writes = fused.facts.get(("writes", instruction.shape))
    if writes is None:
        writes = sum(_on_hbm(shape, nbytes) for shape, nbytes in _results(fused, instruction.shape, module))
        fused.facts["writes", instruction.shape] = writes
    return total + writes


def read_inside(parameter: Instruction, fused: Computation, module: Module) -> int:
    """Bytes of a fused computation's parameter that the fusion reads, at most all of it."""
    whole = parameter.shape.nbytes
    total = 0
    for user, index in fused.users.get(parameter.id, ()):
        total += _read_by(user, index, parameter.shape, fused, module)
        if total >= whole:
            return whole
    return total


def _read_by(user: Instruction, index: int, shape: Shape, fused: Computation, module: Module) -> int:
    if index == 0 and user.opcode in PARTIAL:
        return _scaled(shape, PARTIAL[user.opcode](user, fused))
    if index == 0 and user.opcode in IN_PLACE:
        if user.opcode == "scatter":  # it adds to the old values
            return _scaled(shape, updated_part(user, fused).size)
        return 0
    if user.opcode in VIEWS:
        total = 0
        for next_user, next_index in fused.users.get(user.id, ()):
            total += _read_by(next_user, next_index, shape, fused, module)
        if user.id == fused.root_id:
            total = shape.nbytes
        return total
    if user.opcode == "fusion":
        inner = module.computations[user.called[0]].pattern
        return read_inside(inner.parameters[index], inner, module)
    return shape.nbytes


def _results(fused: Computation, shape: Shape, module: Module) -> list[tuple[Shape, int]]:
    """What a fusion writes: (result shape, bytes) for each of its outputs."""
    root = fused.root
    if root.opcode == "tuple" and shape.elements:
        makers = [fused.operand(root, k) for k in range(len(root.operands))]
        return [
            (part, _written_by(maker, part, fused, module)) for maker, part in zip(makers, shape.elements, strict=True)
        ]
    return [(shape, _written_by(root, shape, fused, module))]


def _written_by(maker: Instruction, shape: Shape, fused: Computation, module: Module) -> int:
    while maker.opcode in VIEWS and maker.operands:
        inner = fused.operand(maker, 0)
        if maker.opcode == "get-tuple-element":
            break
        maker = inner
    if maker.opcode in IN_PLACE and _comes_from_parameter(fused.operand(maker, 0), fused):
        return _scaled(shape, updated_part(maker, fused).size)
    return shape.hbm_bytes if shape.elements else shape.nbytes


def _comes_from_parameter(instruction: Instruction, fused: Computation) -> bool:
    """Whether a fused value is a parameter seen through views: then it can be updated in its own buffer."""
    while instruction.opcode in VIEWS and instruction.operands:
        instruction = fused.operand(instruction, 0)
    if instruction.opcode in IN_PLACE:
        return _comes_from_parameter(fused.operand(instruction, 0), fused)
    return instruction.opcode == "parameter"
