"""FLOPs as written: matmuls and convolutions of the traced program, scan lengths applied.

Held against the compiled module's count, it tells work that the compiler dropped, folded or repeated. What the
module really does is counted in `hlo/`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any


def useful_flops(jaxpr: Any) -> int | None:
    """Matrix FLOPs of a (closed) jaxpr; None where a data-dependent loop holds some, or a kernel hides them."""
    total = 0
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name = eqn.primitive.name
        if name == "dot_general":
            total += _dot(eqn)
        elif name == "conv_general_dilated":
            total += _convolution(eqn)
        elif name == "cond":
            branches = [useful_flops(branch) for branch in eqn.params["branches"]]
            if any(flops is None for flops in branches):
                return None
            total += max(flops for flops in branches if flops is not None)
        elif name == "pallas_call":
            return None
        else:
            inside = [useful_flops(inner) for inner in _inner_jaxprs(eqn)]
            if any(flops is None for flops in inside) or (name == "while" and any(inside)):
                return None
            total += (
                eqn.params.get("length", 1) * sum(f for f in inside if f)
                if name == "scan"
                else sum(f for f in inside if f)
            )
    return total


def _inner_jaxprs(eqn: Any) -> Iterator[Any]:
    if eqn.primitive.name == "custom_linear_solve":  # the same solver four times over, of which one runs
        yield eqn.params["jaxprs"].solve
        return
    for key, value in eqn.params.items():
        if key in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd"):
            continue
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                yield item


def _dot(eqn: Any) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    left, right = (v.aval for v in eqn.invars[:2])
    depth = math.prod(left.shape[d] for d in contracted)
    each = 8 if "complex" in f"{left.dtype}{right.dtype}" else 2
    total: int = each * math.prod(eqn.outvars[0].aval.shape) * depth
    return total


def _convolution(eqn: Any) -> int:
    from jaxscale_magic.hlo.flops import taps_on_elements

    numbers = eqn.params["dimension_numbers"]
    left, right, out = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape, eqn.outvars[0].aval.shape
    spatial = 1
    for d, (i, k, o) in enumerate(zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)):
        spatial *= taps_on_elements(
            out=out[o],
            size=left[i],
            window=right[k],
            stride=eqn.params["window_strides"][d],
            low=eqn.params["padding"][d][0],
            dilation=eqn.params["rhs_dilation"][d],
            base_dilation=eqn.params["lhs_dilation"][d],
        )
    batch, features = out[numbers.out_spec[0]], out[numbers.out_spec[1]]
    total: int = 2 * batch * features * right[numbers.rhs_spec[1]] * spatial
    return total
