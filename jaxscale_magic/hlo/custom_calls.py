"""What is known of custom calls: a table from target name to the work behind it. Any other is unmodelled."""

from __future__ import annotations

import re
from collections.abc import Callable

from jaxscale_magic.cost import Work
from jaxscale_magic.hlo.flops import factorization_work
from jaxscale_magic.hlo.graph import Computation, Instruction, Shape

Model = Callable[[Instruction, Computation], Work]


def _largest(instruction: Instruction, computation: Computation) -> Shape:
    shapes = [computation.operand(instruction, k).shape for k in range(len(instruction.operands))]
    return max((s for s in shapes if len(s.dims) >= 2), key=lambda s: s.size, default=Shape("f32", (1, 1), 32))


def _factorization(kind: str) -> Model:
    return lambda instruction, computation: factorization_work(kind, _largest(instruction, computation))


def _triangular_solve(instruction: Instruction, computation: Computation) -> Work:
    a, b = (computation.operand(instruction, k).shape for k in (0, 1))
    each = 4 if a.is_complex else 1
    return Work(flops={a.dtype: each * b.size * min(a.dims[-2:])})


def _free(instruction: Instruction, computation: Computation) -> Work:
    return Work()


#: Target name, as a pattern that must match whole -> its work.
CUSTOM_CALLS: dict[str, Model] = {
    r"lapack_[sdcz](potrf)(_ffi)?": _factorization("cholesky"),
    r"lapack_[sdcz](getrf)(_ffi)?": _factorization("lu"),
    r"lapack_[sdcz](geqrf)(_ffi)?": _factorization("qr"),
    r"(blas|lapack)_[sdcz]trsm(_ffi)?": _triangular_solve,
    # Comparisons and moves: no floating-point arithmetic.
    r"TopK|__gpu\$TopK": _free,
    # Annotations of the partitioner and the layout: no instruction behind them.
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement|AllocateBuffer|ConcatBitcast": _free,
    r"LayoutConstraint|xla\.sdy\..*|MoveToHost|MoveToDevice|AssumeGatherIndicesInBound": _free,
}


def custom_call_work(instruction: Instruction, computation: Computation) -> Work | None:
    """FLOPs of a custom call, or None where they are unknown."""
    target = instruction.proto.custom_call_target
    for pattern, model in CUSTOM_CALLS.items():
        if re.fullmatch(pattern, target):
            return model(instruction, computation)
    return None
