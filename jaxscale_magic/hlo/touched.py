"""Compulsory bytes: what no compiler can avoid moving.

The parts of the arguments that the program touches, read once, and the results, written once. An argument read
only through slices or gathers counts what they touch, at most all of it; an unused one counts nothing; of a
donated argument that is updated in place, only the update is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jaxscale_magic.hlo.graph import Computation, Instruction, Module, Shape
from jaxscale_magic.hlo.traffic import IN_PLACE, PARTIAL, VIEWS, large_constants, updated_part
from jaxscale_magic.hlo.trips import loop_body, loop_condition

Trips = Callable[[Instruction, Computation], int]
#: Deeper nests than this are counted whole: an upper figure, never a missing one.
_DEPTH = 200


def compulsory_bytes(module: Module, trips: Trips) -> int:
    """Bytes per device of one run of the entry computation.

    Args:
        module: the compiled module.
        trips: (loop, its computation) -> how often its body runs.
    """
    reader = _Reader(module, trips)
    top = _Frame(module.entry)
    read = 0
    for parameter in module.entry.parameters.values():
        if parameter.shape.elements:
            read += sum(reader.read(parameter, k, part, top, _DEPTH) for k, part in enumerate(parameter.shape.elements))
        else:
            read += reader.read(parameter, None, parameter.shape, top, _DEPTH)
    for computation in module.computations.values():
        if not computation.is_fusion:
            place = top if computation.id == module.entry.id else _Frame(computation)
            for constant in large_constants(computation):
                read += reader.read(constant, None, constant.shape, place, _DEPTH)
    return read + _results(module, trips)


def _results(module: Module, trips: Trips) -> int:
    """Bytes written of all results. One that is handed out twice is written once, an argument handed on never is."""
    root = module.entry.root
    seen: set[tuple[int, int | None]] = set()
    total = 0
    for path, shape in _leaves(root.shape):
        if len(path) < 2:
            maker = _maker(module.entry, root, path[0] if path else None)
            if maker in seen or module.entry.instructions[maker[0]].opcode == "parameter":
                continue
            seen.add(maker)
        total += _written(module, path, shape, trips)
    return total


def _makes(module: Module, element: int | None) -> Instruction:
    """The instruction that makes a result of the program."""
    return module.entry.instructions[_maker(module.entry, module.entry.root, element)[0]]


def _maker(computation: Computation, value: Instruction, element: int | None) -> tuple[int, int | None]:
    """The instruction that makes a result, and which element of it: behind tuples and copies."""
    while True:
        if value.opcode == "tuple" and element is not None:
            value, element = computation.operand(value, element), None
        elif value.opcode == "get-tuple-element" and element is None:
            value, element = computation.operand(value, 0), value.proto.tuple_index
        elif value.opcode == "copy":
            value = computation.operand(value, 0)
        else:
            return value.id, element


def _leaves(shape: Shape, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Shape]]:
    if shape.dtype != "tuple":
        return [(path, shape)]
    return [leaf for k, part in enumerate(shape.elements) for leaf in _leaves(part, (*path, k))]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the walk stands: a computation, and the instruction that called it (none for the entry)."""

    computation: Computation
    caller: Instruction | None = None
    outer: _Frame | None = None


class _Reader:
    """Follows one value through the module and adds up what is read of it."""

    def __init__(self, module: Module, trips: Trips) -> None:
        self._module = module
        self._trips = trips

    def read(self, value: Instruction, element: int | None, shape: Shape, frame: _Frame, depth: int) -> int:
        """Bytes read of `value` (of its tuple element `element` where that is not None), capped at its size."""
        if depth == 0:
            return shape.nbytes
        total = 0
        if value.id == frame.computation.root_id:
            total += self._at_root(element, shape, frame, depth - 1)
        for user, index in frame.computation.users.get(value.id, ()):
            if total >= shape.nbytes:
                break
            total += self._read_by(user, index, element, shape, frame, depth - 1)
        return min(total, shape.nbytes)

    def _at_root(self, element: int | None, shape: Shape, frame: _Frame, depth: int) -> int:
        """The value leaves its computation as element `element` of the result."""
        if frame.caller is None or frame.outer is None:
            # A result of the program: read to be copied out, unless it is a donated argument's own buffer, or an
            # argument that is only handed on.
            path = () if element is None else (element,)
            handed_on = _makes(self._module, element).opcode == "parameter"
            return 0 if handed_on or path in self._module.aliases else shape.nbytes
        if frame.caller.opcode == "while":
            return 0  # `_loop` follows what comes out of a loop
        return self.read(frame.caller, element, shape, frame.outer, depth)

    def _read_by(
        self, user: Instruction, index: int, element: int | None, shape: Shape, frame: _Frame, depth: int
    ) -> int:
        opcode = user.opcode
        if opcode == "get-tuple-element" and element is not None:
            return self.read(user, None, shape, frame, depth) if user.proto.tuple_index == element else 0
        if opcode == "tuple":
            return self.read(user, index, shape, frame, depth)
        if opcode == "copy-start":  # its result is (destination, source, context)
            return self.read(user, 0, shape, frame, depth)
        if opcode == "copy-done":
            return self.read(user, None, shape, frame, depth)
        if opcode in VIEWS or opcode == "optimization-barrier":
            # A view or a copy: whoever reads it could have read the original instead.
            return self.read(user, element, shape, frame, depth)
        if index == 0 and opcode in PARTIAL:
            return -(-PARTIAL[opcode](user, frame.computation) * shape.bits // 8)
        if index == 0 and opcode in IN_PLACE:
            own = updated_part(user, frame.computation).nbytes if opcode == "scatter" else 0
            return own + self.read(user, None, shape, frame, depth)
        if opcode in ("fusion", "call", "async-start"):
            return self._inside(user, user.called[0], index, element, shape, frame, depth)
        if opcode == "conditional" and index > 0:
            return self._inside(user, user.called[index - 1], 0, element, shape, frame, depth)
        if opcode == "while" and element is not None:
            return self._loop(user, element, shape, frame, depth)
        return shape.nbytes

    def _inside(
        self,
        caller: Instruction,
        called: int,
        number: int,
        element: int | None,
        shape: Shape,
        frame: _Frame,
        depth: int,
    ) -> int:
        computation = self._module.computations[called].pattern
        if number not in computation.parameters:
            return shape.nbytes
        inner = _Frame(computation, caller, frame)
        return self.read(computation.parameters[number], element, shape, inner, depth)

    def _loop(self, loop: Instruction, element: int, shape: Shape, frame: _Frame, depth: int) -> int:
        total = 0
        body, condition = loop_body(loop, self._module), loop_condition(loop, self._module)
        trips = self._trips(loop, frame.computation)
        for part, times in ((body, trips), (condition, trips + 1)):
            if part is not None and part.parameters:
                inner = _Frame(part, loop, frame)
                total += times * self.read(part.parameters[0], element, shape, inner, depth)
        if _kept_by_loop(loop, element, self._module, self._trips) is None:
            return total
        return total + self.read(loop, element, shape, frame, depth)


def _written(module: Module, path: tuple[int, ...], shape: Shape, trips: Trips) -> int:
    """Bytes written of the result at `path`: all of it, or only the updates of a donated argument."""
    if path not in module.aliases or len(path) > 1:
        return shape.nbytes
    found = _buffer(module.entry, module.entry.root, path[0] if path else None, module, trips)
    return shape.nbytes if found is None else min(found.updated, shape.nbytes)


class _Buffer(NamedTuple):
    """The parameter whose memory a value lies in, and the bytes that were updated there on the way."""

    parameter: int
    element: int | None
    updated: int


def _buffer(
    computation: Computation, value: Instruction, element: int | None, module: Module, trips: Trips
) -> _Buffer | None:
    """Follow a value, or its tuple element, back to the parameter whose memory it shows or updates in place.

    None where it is made otherwise.
    """
    updated = 0
    for _ in range(_DEPTH):
        opcode = value.opcode
        if opcode == "parameter":
            return _Buffer(value.proto.parameter_number, element, updated)
        if opcode == "get-tuple-element" and element is None:
            value, element = computation.operand(value, 0), value.proto.tuple_index
        elif opcode == "tuple" and element is not None:
            value, element = computation.operand(value, element), None
        elif opcode in ("bitcast", "copy", "optimization-barrier"):
            value = computation.operand(value, 0)
        elif opcode in IN_PLACE:
            updated += updated_part(value, computation).nbytes
            value = computation.operand(value, 0)
        elif opcode in ("fusion", "call"):
            inner = module.computations[value.called[0]].pattern
            found = _buffer(inner, inner.root, element, module, trips)
            if found is None:
                return None
            updated += found.updated
            value, element = computation.operand(value, found.parameter), found.element
        elif opcode == "while":
            each = _kept_by_loop(value, element, module, trips)
            if each is None:
                return None
            updated += each * trips(value, computation)
            value = computation.operand(value, 0)
        else:
            return None
    return None


def _kept_by_loop(loop: Instruction, element: int | None, module: Module, trips: Trips) -> int | None:
    """Bytes that a trip updates in an element of a loop's state that stays in its buffer; None for any other."""
    body = loop_body(loop, module)
    if body is None or element is None:
        return None
    found = _buffer(body, body.root, element, module, trips)
    return found.updated if found is not None and found.element == element else None
