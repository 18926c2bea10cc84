"""Compulsory bytes: what no compiler can avoid moving.

The parts of the arguments that the program touches, read once, and the results, written once. An argument read
only through slices or gathers counts what they touch, at most all of it; an unused one counts nothing; of a
donated argument that is updated in place, only the update is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxscale_magic.hlo.graph import Computation, Instruction, Module, Shape
from jaxscale_magic.hlo.traffic import IN_PLACE, PARTIAL, VIEWS, updated_part
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
    return read + sum(_written(module, path, shape) for path, shape in _leaves(module.entry.root.shape))


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
            # A result of the program: read to be copied out, unless it is a donated argument's own buffer.
            return 0 if (() if element is None else (element,)) in self._module.aliases else shape.nbytes
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
        computation = self._module.computations[called]
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
        if body is None or not _handed_on(body, element):
            return total
        return total + self.read(loop, element, shape, frame, depth)


def _handed_on(body: Computation, element: int) -> bool:
    """Whether element `element` of a loop's state comes out as the buffer it went in: unchanged, or updated in
    place.
    """
    root = body.root
    if root.opcode != "tuple" or element >= len(root.operands):
        return False
    value = body.operand(root, element)
    for _ in range(_DEPTH):
        if value.opcode == "get-tuple-element":
            return value.proto.tuple_index == element and body.operand(value, 0).opcode == "parameter"
        if value.operands and (value.opcode in ("copy", "bitcast") or value.opcode in IN_PLACE):
            value = body.operand(value, 0)
        else:
            return False
    return False


def _origin(value: Instruction, computation: Computation) -> Instruction | None:
    """The parameter whose buffer `value` updates in place or shows, or None."""
    for _ in range(_DEPTH):
        if value.opcode == "parameter":
            return value
        if value.operands and (value.opcode in IN_PLACE or value.opcode in ("bitcast", "copy")):
            value = computation.operand(value, 0)
        else:
            return None
    return None


def _written(module: Module, path: tuple[int, ...], shape: Shape) -> int:
    """Bytes written of the result at `path`: all of it, or only the updates of a donated argument."""
    if path not in module.aliases:
        return shape.nbytes
    value: Instruction = module.entry.root
    computation = module.entry
    for index in path:
        if value.opcode != "tuple":
            return shape.nbytes
        value = computation.operand(value, index)
    updates = _updates(value, computation, module)
    return shape.nbytes if updates is None else min(updates, shape.nbytes)


def _updates(value: Instruction, computation: Computation, module: Module) -> int | None:
    """Bytes of the in-place updates between a parameter and `value`; None where it is made otherwise."""
    total = 0
    for _ in range(_DEPTH):
        if value.opcode == "parameter":
            return total
        if value.opcode == "fusion":
            inner = module.computations[value.called[0]]
            inside = _updates(inner.root, inner, module)
            origin = _origin(inner.root, inner)
            if inside is None or origin is None:
                return None
            total += inside
            value = computation.operand(value, origin.proto.parameter_number)
        elif value.opcode in IN_PLACE:
            total += updated_part(value, computation).nbytes
            value = computation.operand(value, 0)
        elif value.opcode in ("bitcast", "copy") and value.operands:
            value = computation.operand(value, 0)
        else:
            return None
    return None
