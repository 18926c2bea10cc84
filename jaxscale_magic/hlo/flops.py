"""FLOPs of one instruction from its shapes: a table of rules by opcode.

A rule sees the instruction and its computation and returns a `Work` without bytes. How often it runs is in
`count.py`, what it moves in `traffic.py`. One multiply-add is two FLOPs; a complex multiply-add is eight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxscale_magic.cost import Work
from jaxscale_magic.hlo.graph import Computation, Instruction, Module, Shape

Rule = Callable[[Instruction, Computation, Module], Work]
RULES: dict[str, Rule] = {}
#: What an instruction that only moves data computes.
NOTHING = Work()

#: FLOPs of one element: a real and a complex operand's.
ARITHMETIC = {
    "add": (1, 2),
    "subtract": (1, 2),
    "multiply": (1, 6),
    "divide": (1, 11),
    "maximum": (1, 1),
    "minimum": (1, 1),
    "negate": (1, 2),
    "abs": (1, 4),
    "remainder": (1, 1),
    "clamp": (2, 2),
    "floor": (1, 1),
    "ceil": (1, 1),
    "round-nearest-afz": (1, 1),
    "round-nearest-even": (1, 1),
    "sign": (1, 1),
    "reduce-precision": (1, 1),
}
#: Elementwise functions that hardware evaluates as a series or in a unit of its own: one FLOP, one evaluation.
TRANSCENDENTAL = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan2",
        "atanh",
        "cbrt",
        "cosine",
        "cosh",
        "erf",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "power",
        "rsqrt",
        "sine",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    ]
)
#: `PrecisionConfig.operand_precision` -> the suffix of the dtype under which the FLOPs are counted.
_PRECISION_SUFFIX = {1: ":high", 2: ":highest"}


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    """Register the rule of some opcodes."""

    def register(function: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = function
        return function

    return register


def instruction_flops(instruction: Instruction, computation: Computation, module: Module) -> Work:
    """The arithmetic of running `instruction` once; nothing for opcodes that only move data."""
    found = RULES.get(instruction.opcode)
    return found(instruction, computation, module) if found else NOTHING


def _elementwise(instruction: Instruction, computation: Computation, module: Module) -> Work:
    shape = instruction.shape
    if not shape.is_float:
        return NOTHING
    real, complex_ = ARITHMETIC[instruction.opcode]
    return Work(vector_flops=shape.size * (complex_ if shape.is_complex else real))


def _transcendental(instruction: Instruction, computation: Computation, module: Module) -> Work:
    shape = instruction.shape
    return Work(vector_flops=shape.size, transcendentals=shape.size) if shape.is_float else NOTHING


RULES.update(dict.fromkeys(ARITHMETIC, _elementwise))
RULES.update(dict.fromkeys(TRANSCENDENTAL, _transcendental))


def multiplied_dtype(instruction: Instruction, left: Shape, right: Shape) -> str:
    """The dtype under which a product is counted: the wider operand's, with the precision asked for.

    Precision matters for f32 only, which a matrix unit may multiply in one or several narrower passes.
    """
    wider = left if left.bits >= right.bits else right
    if wider.dtype != "f32":
        return wider.dtype
    asked = max(instruction.proto.precision_config.operand_precision, default=0)
    return wider.dtype + _PRECISION_SUFFIX.get(asked, "")


def _product(instruction: Instruction, computation: Computation, multiply_adds: int) -> Work:
    left, right = (_before_widening(instruction, computation.operand(instruction, k), computation) for k in (0, 1))
    each = 8 if left.is_complex or right.is_complex else 2
    return Work(flops={multiplied_dtype(instruction, left, right): each * multiply_adds})


def _before_widening(product: Instruction, operand: Instruction, computation: Computation) -> Shape:
    """The shape of an operand, before jax widened it where it did so itself.

    For a CPU, which cannot multiply some narrow dtypes, jax lowers a product to converts and a wide product, all
    under the product's own op name; a convert that the user wrote has a name of its own.
    """
    shape = operand.shape
    while operand.opcode in ("bitcast", "copy", "reshape", "transpose"):
        operand = computation.operand(operand, 0)
    own = operand.opcode == "convert" and operand.proto.metadata.op_name == product.proto.metadata.op_name != ""
    return computation.operand(operand, 0).shape if own else shape


@rule("dot")
def _dot(instruction: Instruction, computation: Computation, module: Module) -> Work:
    left = computation.operand(instruction, 0).shape
    contracted = instruction.proto.dot_dimension_numbers.lhs_contracting_dimensions
    depth = math.prod(left.dims[d] for d in contracted)
    return _product(instruction, computation, instruction.shape.size * depth)


@rule("ragged-dot")
def _ragged_dot(instruction: Instruction, computation: Computation, module: Module) -> Work:
    # Every row of the ragged side meets one group, however the groups are cut.
    left = computation.operand(instruction, 0).shape
    ragged = instruction.proto.ragged_dot_dimension_numbers
    contracted = ragged.dot_dimension_numbers.lhs_contracting_dimensions
    depth = math.prod(left.dims[d] for d in contracted)
    size = instruction.shape.size
    if set(ragged.lhs_ragged_dimensions) & set(contracted):
        groups = computation.operand(instruction, 2).shape.size
        size //= groups or 1  # each group contracts its own share of the depth
    return _product(instruction, computation, size * depth)


def taps_on_elements(
    *, out: int, size: int, window: int, stride: int, low: int, dilation: int, base_dilation: int
) -> int:
    """Pairs (output position, window tap) that fall on a real element along one spatial dimension.

    position = output * stride + tap * dilation - low, which must be a multiple of the base dilation and lie
    inside the input; padding and the holes of a dilated base cost nothing.
    """
    found = 0
    for tap in range(window):
        offset = tap * dilation - low
        # Outputs o with 0 <= o*stride + offset <= (size-1)*base_dilation.
        first = max(0, -(offset // stride))
        last = min(out - 1, ((size - 1) * base_dilation - offset) // stride)
        if last < first:
            continue
        if base_dilation == 1:
            found += last - first + 1
            continue
        # o*stride = -offset (mod base_dilation) repeats every base_dilation / gcd outputs.
        common = math.gcd(stride, base_dilation)
        if offset % common:
            continue
        period = base_dilation // common
        residue = (-offset // common) * pow(stride // common, -1, period) % period if period > 1 else 0
        start = first + (residue - first) % period
        if start <= last:
            found += (last - start) // period + 1
    return found


@rule("convolution")
def _convolution(instruction: Instruction, computation: Computation, module: Module) -> Work:
    left = computation.operand(instruction, 0).shape
    right = computation.operand(instruction, 1).shape
    numbers = instruction.proto.convolution_dimension_numbers
    out = instruction.shape
    spatial = 1
    for window, i, o in zip(
        instruction.proto.window.dimensions,
        numbers.input_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=True,
    ):
        spatial *= taps_on_elements(
            out=out.dims[o],
            size=left.dims[i],
            window=window.size,
            stride=window.stride or 1,
            low=window.padding_low,
            dilation=window.window_dilation or 1,
            base_dilation=window.base_dilation or 1,
        )
    batch = out.dims[numbers.output_batch_dimension]
    features = out.dims[numbers.output_feature_dimension]
    # The kernel's input features are those of one group already; a batch group contracts a share of the batch.
    depth = right.dims[numbers.kernel_input_feature_dimension]
    return _product(instruction, computation, batch * features * depth * spatial)


def reducer_flops(computations: Sequence[Computation]) -> int:
    """FLOPs of running a reducer once on scalars."""
    total = 0
    for computation in computations:
        for inner in computation:
            if not inner.shape.elements and inner.shape.is_float:
                real, complex_ = ARITHMETIC.get(inner.opcode, (0, 0))
                total += complex_ if inner.shape.is_complex else real
                total += inner.opcode in TRANSCENDENTAL
    return total


def _called(instruction: Instruction, module: Module) -> list[Computation]:
    return [module.computations[c] for c in instruction.called]


def _first(shape: Shape) -> Shape:
    return shape.elements[0] if shape.elements else shape


@rule("reduce")
def _reduce(instruction: Instruction, computation: Computation, module: Module) -> Work:
    read = computation.operand(instruction, 0).shape.size
    steps = max(0, read - _first(instruction.shape).size)
    return Work(vector_flops=steps * reducer_flops(_called(instruction, module)))


@rule("reduce-window")
def _reduce_window(instruction: Instruction, computation: Computation, module: Module) -> Work:
    read = computation.operand(instruction, 0).shape
    out = _first(instruction.shape)
    reducer = reducer_flops(_called(instruction, module))
    running = _running_reduction(instruction, read, out)
    if running is not None:
        return Work(vector_flops=running * reducer)
    taps = math.prod(
        taps_on_elements(
            out=out.dims[d],
            size=read.dims[d],
            window=window.size,
            stride=window.stride or 1,
            low=window.padding_low,
            dilation=window.window_dilation or 1,
            base_dilation=window.base_dilation or 1,
        )
        for d, window in enumerate(instruction.proto.window.dimensions)
    )
    return Work(vector_flops=max(0, taps - out.size) * reducer)


def _running_reduction(instruction: Instruction, read: Shape, out: Shape) -> int | None:
    """Steps of a window that only grows (a cumulative sum) or always holds everything; None for one that slides.

    n - 1 a row, however many results show it.
    """
    moving = [d for d, window in enumerate(instruction.proto.window.dimensions) if window.size > 1]
    if len(moving) != 1:
        return None
    (d,) = moving
    window, size = instruction.proto.window.dimensions[d], read.dims[d]
    if (window.stride or 1) != 1 or (window.window_dilation or 1) != 1 or (window.base_dilation or 1) != 1:
        return None
    from_the_start = window.padding_low >= out.dims[d] - 1
    to_the_end = window.size - window.padding_low >= size
    if not (from_the_start or to_the_end) or not out.dims[d]:
        return None
    longest: int = min(size, window.size)
    return out.size // out.dims[d] * max(0, longest - 1)


@rule("scatter")
def _scatter(instruction: Instruction, computation: Computation, module: Module) -> Work:
    arrays = (len(instruction.operands) - 1) // 2
    updates = computation.operand(instruction, arrays + 1).shape
    return Work(vector_flops=updates.size * reducer_flops(_called(instruction, module)))


@rule("select-and-scatter")
def _select_and_scatter(instruction: Instruction, computation: Computation, module: Module) -> Work:
    source = computation.operand(instruction, 1).shape
    return Work(vector_flops=source.size * reducer_flops(_called(instruction, module)))


@rule("map")
def _map(instruction: Instruction, computation: Computation, module: Module) -> Work:
    return Work(vector_flops=instruction.shape.size * reducer_flops(_called(instruction, module)))


@rule("fft")
def _fft(instruction: Instruction, computation: Computation, module: Module) -> Work:
    # 5 n log2 n for a complex transform of length n (Cooley-Tukey's radix-2 count), half of it for a real one.
    lengths = list(instruction.proto.fft_length)
    n = math.prod(lengths)
    read = computation.operand(instruction, 0).shape
    real = instruction.proto.fft_type in (2, 3)
    full = read if instruction.proto.fft_type != 3 else instruction.shape
    transforms = full.size // n if n else 0
    flops = 5 * n * math.log2(n) * transforms if n > 1 else 0
    return Work(vector_flops=round(flops / 2 if real else flops))


@rule("cholesky")
def _cholesky(instruction: Instruction, computation: Computation, module: Module) -> Work:
    shape = _first(instruction.shape)
    return factorization_work("cholesky", shape)


@rule("triangular-solve")
def _triangular_solve(instruction: Instruction, computation: Computation, module: Module) -> Work:
    a, b = (computation.operand(instruction, k).shape for k in (0, 1))
    return _product(instruction, computation, b.size * a.dims[-1] // 2)


def factorization_work(kind: str, shape: Shape) -> Work:
    """Leading-order FLOPs of a dense factorization of an [..., m, n] matrix (Golub and Van Loan).

    cholesky n^3/3, lu 2n^3/3 (square), qr 2mn^2 - 2n^3/3; four times that for complex numbers.
    """
    *batch, m, n = shape.dims
    small, large = min(m, n), max(m, n)
    count = {
        "cholesky": n**3 / 3,
        "lu": large * small**2 - small**3 / 3,
        "qr": 2 * large * small**2 - 2 * small**3 / 3,
    }[kind]
    each = math.prod(batch) * (4 if shape.is_complex else 1)
    return Work(flops={shape.dtype: round(count * each)})
