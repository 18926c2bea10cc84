"""Serialized HLO module -> `graph.Module`. Every way for the bytes to be wrong is a `ModuleError`.

Turning XLA's text into protobuf needs jaxlib and is in `jax_internals.py`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxscale_magic.cost import Source
from jaxscale_magic.errors import ModuleError
from jaxscale_magic.hlo.graph import DTYPES, Computation, Instruction, Module, Shape
from jaxscale_magic.hlo.schema import message

#: Opcodes that call computations.
CALLING = frozenset(
    [
        "all-reduce",
        "all-reduce-start",
        "async-done",
        "async-start",
        "async-update",
        "call",
        "conditional",
        "custom-call",
        "fusion",
        "map",
        "reduce",
        "reduce-scatter",
        "reduce-window",
        "scan",
        "scatter",
        "select-and-scatter",
        "sort",
        "while",
    ]
)


def read_module(data: bytes) -> Module:
    """Read a serialized `HloModuleProto`, or an `HloProto` that wraps one.

    Raises:
        ModuleError: the bytes are no module, are cut short, or contradict themselves.
    """
    try:
        proto, own = _parse(data)
        with without_collection():
            computations = _computations(proto, _structures(data if own else proto.SerializeToString()))
    except ModuleError:
        raise
    except Exception as error:  # protobuf raises its own DecodeError, and UnicodeError for bad names
        raise ModuleError(f"these {len(data)} bytes are no HLO module: {error}.") from error
    if proto.entry_computation_id not in computations:
        raise ModuleError(
            f"module {proto.name!r} is cut short: its entry computation {proto.entry_computation_id} is missing."
        )
    return Module(
        name=proto.name,
        entry=computations[proto.entry_computation_id],
        computations=computations,
        frames=_frames(proto.stack_frame_index),
        aliases={
            tuple(entry.output_shape_index): (entry.parameter_number, tuple(entry.parameter_shape_index))
            for entry in proto.input_output_alias.entries
        },
    )


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the garbage collector from walking a growing graph of records that all stay alive."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parse(data: bytes) -> tuple[Any, bool]:
    """The module message, unwrapped from an `HloProto` where it is in one, and whether `data` is that message."""
    module = message("Module")()
    try:
        module.ParseFromString(data)
    except Exception:
        module.Clear()
    if module.computations:
        return module, True
    # A wrapped module's field 1 is a message, a bare module's is its name: only one of them parses.
    wrapped = message("HloProto")()
    try:
        wrapped.ParseFromString(data)
    except Exception as error:
        raise ModuleError(f"these {len(data)} bytes are no HLO module: {error}.") from error
    if not wrapped.hlo_module.computations:
        raise ModuleError(f"these {len(data)} bytes hold no HLO computation.")
    return wrapped.hlo_module, False


def _shape(proto: Any) -> Shape:
    number = proto.element_type
    if number == 13:
        return Shape("tuple", elements=tuple(_shape(member) for member in proto.tuple_shapes))
    if number == 34:  # a buffer is a reference to its only member, and occupies what that occupies
        return _shape(proto.tuple_shapes[0])
    if number not in DTYPES:
        raise ModuleError(f"unknown element type {number} in the module.")
    dtype, bits = DTYPES[number]
    dims = tuple(proto.dimensions)
    if any(length < 0 for length in dims):
        raise ModuleError(f"a shape with a negative length: {dtype}{list(dims)}.")
    if not proto.HasField("layout"):
        return Shape(dtype, dims, bits)
    layout = proto.layout
    tiles = tuple(tuple(tile.dimensions) for tile in layout.tiles)
    return Shape(dtype, dims, layout.element_size_in_bits or bits, (), layout.memory_space, tiles)


def _instruction(proto: Any, shapes: dict[bytes, Shape]) -> Instruction:
    # Most shapes stand in a module many times; the message's own bytes are the quickest key to find them by.
    described = proto.shape
    key = described.SerializeToString()
    shape = shapes.get(key)
    if shape is None:
        shape = shapes[key] = _shape(described)
    return Instruction(
        proto.id,
        proto.name,
        proto.opcode,
        shape,
        tuple(proto.operand_ids),
        tuple(proto.called_computation_ids),
        proto,
    )


def _structures(data: bytes) -> list[bytes]:
    """Of each computation, bytes that are equal where two differ in names, metadata and computations called only."""
    module = message("StructuralModule").FromString(data)
    module.DiscardUnknownFields()
    return [computation.SerializeToString() for computation in module.computations]


def _computations(proto: Any, structures: list[bytes]) -> dict[int, Computation]:
    """Computations by id. Only the first of each structure is read, and checked, at once: it stands for the rest."""
    known: set[int] = {computation.id for computation in proto.computations}
    shapes: dict[bytes, Shape] = {}

    def make(computation: Any) -> dict[int, Instruction]:
        instructions = {i.id: _instruction(i, shapes) for i in computation.instructions}
        _check(computation, instructions, known)
        return instructions

    computations: dict[int, Computation] = {}
    models: dict[tuple[bytes, tuple[int, ...]], Computation] = {}
    callers: dict[bytes, list[int]] = {}
    for described, structure in zip(proto.computations, structures, strict=True):
        if structure not in callers:
            callers[structure] = [k for k, i in enumerate(described.instructions) if i.opcode in CALLING]
        # A callee stands before its callers; where one does not, its own number tells it from any other.
        callees = tuple(
            computations[c].pattern.id if c in computations else c
            for k in callers[structure]
            for c in (*described.instructions[k].called_computation_ids, -1)
        )
        computation = Computation(
            id=described.id,
            name=described.name,
            root_id=described.root_id,
            is_fusion=described.is_fusion_computation,
            proto=described,
            model=models.get((structure, callees)),
            make=make,
        )
        if computation.model is None:
            models[structure, callees] = computation
            computation.instructions  # noqa: B018 - read now, so that what is wrong shows now
        computations[computation.id] = computation
    return computations


def _check(computation: Any, instructions: dict[int, Instruction], computations: set[int]) -> None:
    """Refuse references that lead nowhere, so that no later room meets one."""
    if computation.root_id not in instructions:
        raise ModuleError(f"computation {computation.name!r} is cut short: its root is missing.")
    for instruction in instructions.values():
        if not all(map(instructions.__contains__, instruction.operands)):
            raise ModuleError(f"instruction {instruction.name!r} reads an operand that is not there.")
        if not computations.issuperset(instruction.called):
            raise ModuleError(f"instruction {instruction.name!r} calls a computation that is not there.")


def _frames(index: Any) -> dict[int, tuple[Source, int]]:
    """Stack frames by id. Ids count from 1; a frame that points nowhere is left out."""
    files, locations = list(index.file_names), list(index.file_locations)
    frames: dict[int, tuple[Source, int]] = {}
    for number, frame in enumerate(index.stack_frames, start=1):
        if not 1 <= frame.file_location_id <= len(locations):
            continue
        location = locations[frame.file_location_id - 1]
        if not 1 <= location.file_name_id <= len(files):
            continue
        parent = frame.parent_frame_id if frame.parent_frame_id != number else 0
        frames[number] = (Source(file=files[location.file_name_id - 1], line=location.line), parent)
    return frames
