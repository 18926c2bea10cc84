"""What counts as the batch of a program: the dimension that the user names, or the likeliest one.

What a larger batch would bring is in `advice.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxscale_magic.capture import Captured
from jaxscale_magic.errors import JaxscaleError

#: Inputs that are tried as the batch.
MOST_BATCH_TRIALS = 16


@dataclass(frozen=True, slots=True)
class Batch:
    """What counts as the batch: one dimension of one input, and inputs whose rows go with it.

    Attributes:
        leaf, dim: flat input and its dimension.
        others: flat inputs whose dimension 0 is resized together with it.
        asked: whether the user named it.
    """

    leaf: int
    dim: int = 0
    others: tuple[int, ...] = ()
    asked: bool = False

    def resized(self, specs: Sequence[jax.ShapeDtypeStruct], size: int) -> list[jax.ShapeDtypeStruct]:
        """The inputs at another batch."""
        return [
            _resized(spec, self.dim if k == self.leaf else 0, size) if k == self.leaf or k in self.others else spec
            for k, spec in enumerate(specs)
        ]


def _resized(spec: jax.ShapeDtypeStruct, dim: int, size: int) -> jax.ShapeDtypeStruct:
    shape = (*spec.shape[:dim], size, *spec.shape[dim + 1 :])
    return jax.ShapeDtypeStruct(shape, spec.dtype, sharding=spec.sharding)


def named_dimension(wanted: str, names: Sequence[str], specs: Sequence[jax.ShapeDtypeStruct]) -> tuple[int, int]:
    """(flat input, dimension) that `wanted` names: "x", or "x[1]" for its second dimension.

    Raises:
        JaxscaleError: it names no input, or a dimension that the input does not have.
    """
    asked = f"--batch {wanted} (in Python batch={wanted!r})"
    for k, name in enumerate(names):
        rank = len(specs[k].shape)
        if wanted == name and rank:
            return k, 0
        if wanted == name or (wanted.startswith(name + "[") and wanted.endswith("]")):
            number = wanted[len(name) + 1 : -1]
            if number.isdecimal() and number.isascii() and int(number) < rank:
                return k, int(number)
            if not rank:
                raise JaxscaleError(f"{asked}: `{name}` is a single number and has no dimension.")
            which = f"write {name}[0]" + (f" to {name}[{rank - 1}]" if rank > 1 else "")
            raise JaxscaleError(f"{asked}: `{name}` has {rank} dimension{'s'[: rank - 1]}; {which}.")
    known = ", ".join(names) or "none"
    raise JaxscaleError(f"{asked}: no such input; this program's inputs are {known}.")


def find_batch(captured: Captured, specs: Sequence[jax.ShapeDtypeStruct], wanted: str | None) -> Batch | None:
    """What counts as the batch: what `wanted` names, else the first input whose rows can be doubled.

    Doubling must trace and change what is computed: weights are tied to other inputs, or change nothing. Arrays of
    their own come before those inside containers, which mostly hold parameters.
    """
    if wanted is not None:
        leaf, dim = named_dimension(wanted, captured.names, specs)
        return _resizable(captured, specs, leaf, dim, asked=True) or Batch(leaf, dim, asked=True)
    order = sorted(range(len(specs)), key=lambda k: not captured.names[k].isidentifier())
    candidates = (k for k in order[:MOST_BATCH_TRIALS] if specs[k].shape and specs[k].shape[0])
    return next((batch for k in candidates if (batch := _resizable(captured, specs, k, 0))), None)


def _resizable(
    captured: Captured, specs: Sequence[jax.ShapeDtypeStruct], leaf: int, dim: int, *, asked: bool = False
) -> Batch | None:
    """The batch of this input's dimension alone, or with all inputs that have as many rows; None where neither is."""
    if captured.retrace is None:
        return None
    before = _computed_shapes(captured.traced)
    size = specs[leaf].shape[dim]
    for others in dict.fromkeys([(), _alike(specs, leaf, dim)]):
        batch = Batch(leaf, dim, others, asked)
        try:
            traced = captured.retrace(batch.resized(specs, 2 * size))
        except Exception:  # it is tied to another input's size
            continue
        if _computed_shapes(traced) != before:
            return batch
    return None


def _alike(specs: Sequence[jax.ShapeDtypeStruct], leaf: int, dim: int) -> tuple[int, ...]:
    """The other inputs with as many rows."""
    size = specs[leaf].shape[dim]
    return tuple(k for k, spec in enumerate(specs) if k != leaf and spec.shape[:1] == (size,))


def _computed_shapes(traced: Any) -> list[Any]:
    return [v.aval.shape for eqn in traced.jaxpr.jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "shape")]
