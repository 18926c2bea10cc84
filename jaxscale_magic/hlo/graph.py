"""The typed graph of one module: shapes, instructions, computations, stack frames.

Records only; `read.py` fills them from protobuf. An instruction keeps its message for the attributes that only
a few opcodes have (`Instruction.proto`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxscale_magic.cost import Source

#: XLA's PrimitiveType number -> (short name, bits). TOKEN, OPAQUE and TUPLE hold no bytes of their own.
DTYPES: dict[int, tuple[str, int]] = {
    1: ("pred", 8),
    2: ("s8", 8),
    3: ("s16", 16),
    4: ("s32", 32),
    5: ("s64", 64),
    6: ("u8", 8),
    7: ("u16", 16),
    8: ("u32", 32),
    9: ("u64", 64),
    10: ("f16", 16),
    11: ("f32", 32),
    12: ("f64", 64),
    13: ("tuple", 0),
    14: ("opaque", 0),
    15: ("c64", 64),
    16: ("bf16", 16),
    17: ("token", 0),
    18: ("c128", 128),
    19: ("f8e5m2", 8),
    20: ("f8e4m3fn", 8),
    21: ("s4", 4),
    22: ("u4", 4),
    23: ("f8e4m3b11fnuz", 8),
    24: ("f8e5m2fnuz", 8),
    25: ("f8e4m3fnuz", 8),
    26: ("s2", 2),
    27: ("u2", 2),
    28: ("f8e4m3", 8),
    29: ("f8e3m4", 8),
    30: ("s1", 1),
    31: ("u1", 1),
    32: ("f4e2m1fn", 4),
    33: ("f8e8m0fnu", 8),
    34: ("buffer", 0),
}

#: Memory spaces of TPU layouts: 0 is HBM, 1 VMEM, 2 semaphores, 5 host.
HBM, HOST = 0, 5


@dataclass(frozen=True, slots=True)
class Shape:
    """An array, or a tuple of shapes.

    Attributes:
        dtype: XLA's short name ("bf16"), "tuple" for tuples.
        dims: lengths; empty for scalars and tuples.
        bits: bits one element occupies in memory.
        elements: the tuple's members.
        memory_space: 0 is HBM.
        tiles: the layout's tiles, outermost first.
    """

    dtype: str
    dims: tuple[int, ...] = ()
    bits: int = 0
    elements: tuple[Shape, ...] = ()
    memory_space: int = HBM
    tiles: tuple[tuple[int, ...], ...] = ()

    @property
    def size(self) -> int:
        """Number of elements of an array shape."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Logical bytes, padding not counted; a tuple's members added up."""
        if self.elements:
            return sum(member.nbytes for member in self.elements)
        return -(-self.size * self.bits // 8) if self.bits else 0

    @property
    def hbm_bytes(self) -> int:
        """Bytes of the parts that live in HBM."""
        if self.elements:
            return sum(member.hbm_bytes for member in self.elements)
        return self.nbytes if self.memory_space == HBM else 0

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating-point (complex included)."""
        return self.dtype[0] in "fcb"  # f32, f8e4m3, c64, bf16; "buffer" holds no elements

    @property
    def is_complex(self) -> bool:
        """Whether an element is a pair of floats."""
        return self.dtype in ("c64", "c128")


class Instruction(NamedTuple):
    """One instruction. `operands` are ids in the same computation, `called` are computation ids.

    A tuple rather than a dataclass: a large module makes a hundred thousand of them.
    """

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    proto: Any

    @property
    def scope(self) -> str:
        """The op name that JAX gave it, without the outer call that a module compiled from an export has."""
        name: str = self.proto.metadata.op_name
        outer, exported, inner = name.partition("/call_exported")
        return inner.removeprefix("/") if exported and outer.startswith("jit(") and "/" not in outer else name


@dataclass(frozen=True, eq=False)
class Computation:
    """A computation: instructions in dependency order, which become records when they are first asked for.

    Attributes:
        proto: the message it is read from.
        model: the first computation of the module that is the same, and calls the same, but for names, metadata and
            numbers of computations; None where that is this one. See `pattern`.
        make: reads the instructions.
    """

    id: int
    name: str
    root_id: int
    is_fusion: bool
    proto: Any = field(repr=False)
    model: Computation | None = field(repr=False)
    make: Callable[[Any], Mapping[int, Instruction]] = field(repr=False)

    @functools.cached_property
    def instructions(self) -> Mapping[int, Instruction]:
        """Instructions by id."""
        return self.make(self.proto)

    @property
    def pattern(self) -> Computation:
        """The computation to look at for whatever does not depend on names and sources.

        A layer's fusions come back in every layer: what is found out about the pattern holds for all of them. What
        the pattern calls has the structure of what this computation calls, not its names and sources.
        """
        return self.model or self

    @functools.cached_property
    def facts(self) -> dict[Any, Any]:
        """Where other rooms keep what they found out about a pattern."""
        return {}

    def __len__(self) -> int:
        return len(self.proto.instructions)

    def __bool__(self) -> bool:
        return True

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return self.instructions[self.root_id]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    def operand(self, instruction: Instruction, index: int) -> Instruction:
        """The instruction that makes operand `index`."""
        return self.instructions[instruction.operands[index]]

    @functools.cached_property
    def parameters(self) -> Mapping[int, Instruction]:
        """Parameter number -> instruction."""
        return {i.proto.parameter_number: i for i in self if i.opcode == "parameter"}

    @functools.cached_property
    def users(self) -> Mapping[int, tuple[tuple[Instruction, int], ...]]:
        """Instruction id -> (user, operand index), one entry per use."""
        found: dict[int, list[tuple[Instruction, int]]] = {}
        for instruction in self:
            for index, operand in enumerate(instruction.operands):
                found.setdefault(operand, []).append((instruction, index))
        return {key: tuple(uses) for key, uses in found.items()}


@dataclass(frozen=True)
class Module:
    """A compiled module.

    Attributes:
        name: the module's name, `jit_f`.
        entry: the computation that runs.
        computations: id -> computation.
        frames: stack frame id -> the place of that frame and its parent's id (0 is none).
        aliases: output index -> (parameter number, parameter index) of donated arguments.
    """

    name: str
    entry: Computation
    computations: Mapping[int, Computation] = field(repr=False)
    frames: Mapping[int, tuple[Source, int]] = field(repr=False, default_factory=dict)
    aliases: Mapping[tuple[int, ...], tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def instruction_count(self) -> int:
        """Instructions over all computations."""
        return sum(len(computation) for computation in self.computations.values())
