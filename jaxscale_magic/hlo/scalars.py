"""Scalars of a module evaluated without running it: the counters and bounds that decide how long a loop goes on.

Only what IEEE and two's complement fix to the last bit is evaluated, so that a count derived here is the count that
runs. Which scalars a loop depends on is found out in `trips.py`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from jaxscale_magic.hlo.graph import Computation, Instruction, Module, Shape

#: XLA's dtype -> numpy's.
_DTYPES: dict[str, Any] = {
    "pred": np.bool_,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
#: Literals of these dtypes are stored as bytes.
_AS_BYTES = frozenset({"s8", "u8", "s16", "u16", "f16", "bf16"})
#: Opcodes that hand their only operand on; `convert` changes its dtype.
_HANDED_ON = frozenset({"copy", "bitcast", "reshape", "broadcast", "copy-start", "copy-done", "optimization-barrier"})
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}


def _divide(left: Any, right: Any) -> Any:
    if left.dtype.kind in "iu":
        quotient = abs(int(left)) // abs(int(right))
        return left.dtype.type(-quotient if (left < 0) != (right < 0) else quotient)
    return left / right


def _shift(left: Any, distance: Any, *, right: bool, signed: bool) -> Any:
    """A shift as XLA defines it: by the width or more, nothing is left but copies of the sign."""
    bits = left.dtype.itemsize * 8
    by = int(distance)
    value = int(left) if signed else int(left) % 2**bits
    if not 0 <= by < bits:
        shifted = -1 if right and signed and value < 0 else 0
    else:
        shifted = value >> by if right else value << by
    return np.asarray(shifted % 2**bits, np.uint64).astype(left.dtype)[()]


#: Opcode -> its value from its operands' values. Transcendental functions are left out: their last bit differs.
_EVALUATED: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _divide,
    "remainder": np.fmod,
    "negate": operator.neg,
    "abs": abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floor": np.floor,
    "ceil": np.ceil,
    "round-nearest-even": np.rint,
    "sqrt": np.sqrt,
    "sign": np.sign,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": np.invert,
    "shift-left": functools.partial(_shift, right=False, signed=False),
    "shift-right-logical": functools.partial(_shift, right=True, signed=False),
    "shift-right-arithmetic": functools.partial(_shift, right=True, signed=True),
    "select": lambda chosen, one, other: one if chosen else other,
    "clamp": lambda low, value, high: np.minimum(np.maximum(low, value), high),
    "is-finite": np.isfinite,
}
#: No nest of fusions, calls and tuples in a real module is deeper.
_DEPTH = 200


@dataclass(frozen=True, eq=False, slots=True)
class Scope:
    """A computation with what its parameters stand for: the caller's instruction in the caller's scope."""

    computation: Computation
    caller: Instruction | None = None
    outer: Scope | None = None


def literal_value(instruction: Instruction) -> Any | None:
    """A scalar constant as a numpy scalar, or None."""
    shape, literal = instruction.shape, instruction.proto.literal
    if shape.elements or shape.size != 1 or shape.dtype not in _DTYPES:
        return None
    dtype = _DTYPES[shape.dtype]
    data = getattr(literal, shape.dtype + "s")
    if shape.dtype in _AS_BYTES:
        return np.frombuffer(data, dtype)[0] if len(data) == np.dtype(dtype).itemsize else None
    return dtype(data[0]) if data else None


class NotDerivable(Exception):
    """A value that depends on data: an argument, an array, a function that is not exact."""


@dataclass(slots=True)
class Tape:
    """Straight-line code for some scalars of one loop: each step a function of earlier steps' values.

    Attributes:
        module: where called computations are looked up.
        slots: element of the loop state -> the step that holds it.
    """

    module: Module
    slots: dict[int, int] = field(default_factory=dict)
    _steps: list[tuple[Callable[..., Any] | None, tuple[int, ...]]] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)
    _known: dict[tuple[Scope, int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._steps)

    def scalar(self, scope: Scope, instruction: Instruction, depth: int = _DEPTH) -> int:
        """The step that computes `instruction`.

        Raises:
            NotDerivable: it depends on more than constants and the loop state.
        """
        key = (scope, instruction.id, -1)
        if key not in self._known:
            self._known[key] = self._emit(scope, instruction, depth)
        return self._known[key]

    def element(self, scope: Scope, maker: Instruction, index: int, depth: int = _DEPTH) -> int:
        """The step that computes element `index` of the tuple that `maker` makes.

        Raises:
            NotDerivable: as `scalar`.
        """
        if depth == 0:
            raise NotDerivable
        match maker.opcode:
            case "parameter" if scope.caller is None or scope.outer is None:
                return self._slot(index)
            case "parameter":
                assert scope.outer is not None
                assert scope.caller is not None
                argument = scope.outer.computation.operand(scope.caller, maker.proto.parameter_number)
                return self.element(scope.outer, argument, index, depth - 1)
            case "tuple":
                return self.scalar(scope, scope.computation.operand(maker, index), depth - 1)
            case "fusion" | "call":
                inner = self._inside(scope, maker)
                return self.element(inner, inner.computation.root, index, depth - 1)
            case opcode if opcode in _HANDED_ON:
                return self.element(scope, scope.computation.operand(maker, 0), index, depth - 1)
        raise NotDerivable

    def run(self, state: dict[int, Any]) -> list[Any]:
        """Every step's value, the loop state being `state` (element -> numpy scalar)."""
        values = self._values
        for slot, step in self.slots.items():
            values[step] = state[slot]
        for step, (function, operands) in enumerate(self._steps):
            if function is not None:
                values[step] = function(*[values[k] for k in operands])
        return values

    def _slot(self, index: int) -> int:
        if index not in self.slots:
            self.slots[index] = self._add(None, ())
        return self.slots[index]

    def _add(self, function: Callable[..., Any] | None, operands: Sequence[int], value: Any = None) -> int:
        self._steps.append((function, tuple(operands)))
        self._values.append(value)
        return len(self._steps) - 1

    def _inside(self, scope: Scope, caller: Instruction) -> Scope:
        return Scope(self.module.computations[caller.called[0]], caller, scope)

    def _emit(self, scope: Scope, instruction: Instruction, depth: int) -> int:
        computation, opcode = scope.computation, instruction.opcode
        if depth == 0 or not _is_scalar(instruction.shape):
            raise NotDerivable
        match opcode:
            case "constant":
                value = literal_value(instruction)
                if value is None:
                    raise NotDerivable
                return self._add(None, (), value)
            case "get-tuple-element":
                maker = computation.operand(instruction, 0)
                return self.element(scope, maker, instruction.proto.tuple_index, depth - 1)
            case "parameter" if scope.caller is not None and scope.outer is not None:
                argument = scope.outer.computation.operand(scope.caller, instruction.proto.parameter_number)
                return self.scalar(scope.outer, argument, depth - 1)
            case "fusion" | "call":
                inner = self._inside(scope, instruction)
                return self.scalar(inner, inner.computation.root, depth - 1)
            case opcode if opcode in _HANDED_ON:
                return self.scalar(scope, computation.operand(instruction, 0), depth - 1)
        function = self._function(instruction)
        operands = [
            self.scalar(scope, computation.operand(instruction, k), depth - 1) for k in range(len(instruction.operands))
        ]
        return self._add(function, operands)

    def _function(self, instruction: Instruction) -> Callable[..., Any]:
        match instruction.opcode:
            case "compare":
                return _COMPARISONS[instruction.proto.comparison_direction]
            case "convert":
                return _DTYPES[instruction.shape.dtype]  # type: ignore[no-any-return]
            case opcode if opcode in _EVALUATED:
                return _EVALUATED[opcode]
        raise NotDerivable


def _is_scalar(shape: Shape) -> bool:
    return not shape.elements and shape.size == 1 and shape.dtype in _DTYPES
