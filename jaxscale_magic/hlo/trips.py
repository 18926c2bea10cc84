"""How often a while loop runs: stated by the compiler, or derived from start, step and condition.

XLA:CPU and XLA:GPU print `known_trip_count`. XLA:TPU does not: there the counter is found in the condition's
compare, its start in the loop's operand, its step in the body. A counter that does not go by equal steps is followed
step by step (`scalars.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxscale_magic.hlo.graph import Computation, Instruction, Module
from jaxscale_magic.hlo.scalars import NotDerivable, Scope, Tape, literal_value

#: Opcodes that hand their only operand on unchanged.
_TRANSPARENT = frozenset({"copy", "bitcast", "reshape", "copy-start", "copy-done", "convert", "optimization-barrier"})
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE", "EQ": "EQ"}
_NEGATED = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT", "NE": "EQ", "EQ": "NE"}
#: No nest of fusions, calls and tuples in a real module is deeper.
_DEPTH = 64
#: Scalar operations that following one loop may take: about a second.
_STEPS_FOLLOWED = 1_000_000


@dataclass(frozen=True, slots=True)
class Linear:
    """A scalar: `slot`-th element of the loop state times one, plus `offset`; a constant where slot is None."""

    slot: int | None
    offset: int


def trip_count(loop: Instruction, computation: Computation, module: Module) -> int | None:
    """Executions of the body of `loop` (an instruction of `computation`); None where data decides."""
    for way in (_stated, _derived, _followed):
        count = way(loop, computation, module)
        if count is not None:
            return count
    return None


def _stated(loop: Instruction, computation: Computation, module: Module) -> int | None:
    config = loop.proto.backend_config
    if b"known_trip_count" not in config:
        return None
    try:
        return int(json.loads(config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return None


def _derived(loop: Instruction, computation: Computation, module: Module) -> int | None:
    body, condition = _body_and_condition(loop, module)
    if body is None or condition is None:
        return None
    found = _compare(Scope(condition), condition.root, module)
    if found is None:
        return None
    left, direction, right = found
    step_left, step_right = (_step(side, body, module) for side in (left, right))
    if step_left is None or step_right is None:
        return None
    if step_left == 0:  # the bound stands on the left: turn the comparison round
        left, right, step_left, step_right = right, left, step_right, step_left
        direction = _FLIPPED[direction]
    if step_left == 0 or step_right != 0:
        return None
    start, limit = (_initial(side, loop, computation, module) for side in (left, right))
    if start is None or limit is None:
        return None
    return count_steps(start, step_left, direction, limit)


def count_steps(start: int, step: int, direction: str, limit: int) -> int | None:
    """How often `start, start+step, ...` satisfies the comparison with `limit` before it first fails.

    None where it never fails, or the counter would have to wrap round.
    """
    match direction:
        case "LT":
            return max(0, -((start - limit) // step)) if step > 0 else (0 if start >= limit else None)
        case "LE":
            return count_steps(start, step, "LT", limit + 1)
        case "GT":
            return count_steps(-start, -step, "LT", -limit)
        case "GE":
            return count_steps(-start, -step, "LT", -limit + 1)
        case "NE":
            distance = limit - start
            return distance // step if distance % step == 0 and distance // step >= 0 else None
        case "EQ":
            return 0 if start != limit else 1
    return None


def _body_and_condition(loop: Instruction, module: Module) -> tuple[Computation | None, Computation | None]:
    """The two called computations, told apart by what they return."""
    body = condition = None
    for called in loop.called:
        computation = module.computations[called]
        if computation.root.shape.dtype == "pred" and not computation.root.shape.elements:
            condition = computation
        else:
            body = computation
    return body, condition


def loop_body(loop: Instruction, module: Module) -> Computation | None:
    """The computation that a while loop repeats."""
    return _body_and_condition(loop, module)[0]


def loop_condition(loop: Instruction, module: Module) -> Computation | None:
    """The computation that decides whether a while loop goes on."""
    return _body_and_condition(loop, module)[1]


def _compare(scope: Scope, instruction: Instruction, module: Module) -> tuple[Linear, str, Linear] | None:
    """The comparison that decides the loop, as (left, direction, right) in the loop's own state."""
    negate = False
    for _ in range(_DEPTH):
        if instruction.opcode == "fusion" or instruction.opcode == "call":
            called = module.computations[instruction.called[0]]
            scope, instruction = Scope(called, instruction, scope), called.root
        elif instruction.opcode in _TRANSPARENT:
            instruction = scope.computation.operand(instruction, 0)
        elif instruction.opcode == "not":
            negate, instruction = not negate, scope.computation.operand(instruction, 0)
        elif instruction.opcode == "compare":
            left, right = (_linear(scope, scope.computation.operand(instruction, k), module, _DEPTH) for k in (0, 1))
            direction = instruction.proto.comparison_direction
            if left is None or right is None or direction not in _FLIPPED:
                return None
            return left, _NEGATED[direction] if negate else direction, right
        else:
            return None
    return None


def _linear(scope: Scope, instruction: Instruction, module: Module, depth: int) -> Linear | None:
    """`instruction`'s value as a `Linear` in the state of the loop, or None."""
    if depth == 0:
        return None
    computation, opcode = scope.computation, instruction.opcode
    if opcode == "constant":
        value = literal_value(instruction)
        return Linear(None, int(value)) if value is not None and value.dtype.kind in "iu" else None
    if opcode in _TRANSPARENT:
        return _linear(scope, computation.operand(instruction, 0), module, depth - 1)
    if opcode in ("add", "subtract"):
        left, right = (_linear(scope, computation.operand(instruction, k), module, depth - 1) for k in (0, 1))
        return _combine(left, right, -1 if opcode == "subtract" else 1)
    if opcode == "negate":
        inner = _linear(scope, computation.operand(instruction, 0), module, depth - 1)
        return Linear(None, -inner.offset) if inner is not None and inner.slot is None else None
    if opcode in ("fusion", "call") and not instruction.shape.elements:
        called = module.computations[instruction.called[0]]
        return _linear(Scope(called, instruction, scope), called.root, module, depth - 1)
    if opcode == "parameter" and scope.caller is not None and scope.outer is not None:
        argument = scope.outer.computation.operand(scope.caller, instruction.proto.parameter_number)
        return _linear(scope.outer, argument, module, depth - 1)
    if opcode == "get-tuple-element":
        return _element(scope, computation.operand(instruction, 0), instruction.proto.tuple_index, module, depth)
    return None


def _element(scope: Scope, maker: Instruction, index: int, module: Module, depth: int) -> Linear | None:
    """Element `index` of the tuple that `maker` makes."""
    if maker.opcode == "parameter":
        if scope.caller is None or scope.outer is None:
            return Linear(index, 0)
        maker = scope.outer.computation.operand(scope.caller, maker.proto.parameter_number)
        return _element(scope.outer, maker, index, module, depth - 1)
    if maker.opcode == "tuple":
        return _linear(scope, scope.computation.operand(maker, index), module, depth - 1)
    if maker.opcode == "fusion":
        called = module.computations[maker.called[0]]
        return _element(Scope(called, maker, scope), called.root, index, module, depth - 1)
    if maker.opcode in _TRANSPARENT:
        return _element(scope, scope.computation.operand(maker, 0), index, module, depth - 1)
    return None


def _combine(left: Linear | None, right: Linear | None, sign: int) -> Linear | None:
    if left is None or right is None:
        return None
    if right.slot is None:
        return Linear(left.slot, left.offset + sign * right.offset)
    if left.slot is None and sign == 1:
        return Linear(right.slot, left.offset + right.offset)
    return None


def _step(side: Linear, body: Computation, module: Module) -> int | None:
    """How much a side of the comparison changes each trip: 0 for a constant or an unchanged element."""
    if side.slot is None:
        return 0
    after = _element(Scope(body), body.root, side.slot, module, _DEPTH)
    if after is None or after.slot != side.slot:
        return None
    return after.offset


def _initial(side: Linear, loop: Instruction, computation: Computation, module: Module) -> int | None:
    """The value of a side of the comparison before the first trip."""
    if side.slot is None:
        return side.offset
    start = _element(Scope(computation), computation.operand(loop, 0), side.slot, module, _DEPTH)
    if start is None or start.slot is not None:
        return None
    return start.offset + side.offset


def _followed(loop: Instruction, computation: Computation, module: Module) -> int | None:
    """The count by running the loop's own scalars: for counters that double, count in floats or stop on two tests."""
    body, condition = _body_and_condition(loop, module)
    if body is None or condition is None:
        return None
    tape = Tape(module)
    try:
        goes_on = tape.scalar(Scope(condition), condition.root)
        scope = Scope(body)
        following: dict[int, int] = {}
        while missing := [slot for slot in tape.slots if slot not in following]:
            for slot in missing:
                following[slot] = tape.element(scope, body.root, slot)
        beginning = Tape(module)
        outside = Scope(computation)
        first = {slot: beginning.element(outside, computation.operand(loop, 0), slot) for slot in tape.slots}
        if beginning.slots:  # the loop itself stands in a loop, whose state decides
            return None
        with np.errstate(all="ignore"):
            values = beginning.run({})
            return _count_trips(tape, goes_on, following, {slot: values[step] for slot, step in first.items()})
    except (NotDerivable, ArithmeticError, TypeError, ValueError):
        return None


def _count_trips(tape: Tape, goes_on: int, following: Mapping[int, int], state: dict[int, Any]) -> int | None:
    """Trips until the condition fails; None where that takes longer than following it is worth."""
    for trips in range(_STEPS_FOLLOWED // max(len(tape), 1)):
        values = tape.run(state)
        if not values[goes_on]:
            return trips
        state = {slot: values[step] for slot, step in following.items()}
    return None
