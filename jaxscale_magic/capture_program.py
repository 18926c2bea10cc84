"""A traced cell as the program that is compiled: its inputs are what it uses, nothing large stays a constant.

Works on jax's record of the trace alone; no code of the notebook runs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

#: Constants from this size up become inputs: a compiler would otherwise be handed their numbers.
LARGE_CONSTANT = 1024


@dataclass(frozen=True, slots=True)
class Program:
    """What is compiled.

    Attributes:
        traced: jax's record, with the inputs below.
        leaves: the flat inputs.
        names: a label for each.
        keys: which array of the notebook each is (its id), or None for a constant made in the cell.
    """

    traced: Any
    leaves: tuple[Any, ...]
    names: tuple[str, ...]
    keys: tuple[int | None, ...]


def assemble(traced: Any, leaves: Sequence[Any], names: Sequence[str], constants: Sequence[tuple[str, Any]]) -> Program:
    """The program of a trace.

    Inputs that it does not use are dropped, large constants become inputs, and what the cell donates to a jitted
    function of its own is donated.

    Args:
        traced: jax's record of the trace, called with `leaves`.
        leaves, names: its flat inputs and a label for each.
        constants: (label, array) of the numpy arrays that the cell may have used.
    """
    jaxpr = traced.jaxpr.jaxpr
    held = list(traced.jaxpr.consts)
    large = [k for k, value in enumerate(held) if getattr(value, "nbytes", 0) >= LARGE_CONSTANT]
    used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.outvars}
    kept = [k for k, variable in enumerate(jaxpr.invars) if id(variable) in used]
    donated = _donated(jaxpr, kept)
    labelled = [_label(held[k], constants) for k in large]
    names = [names[k] for k in kept] + [label for label, _ in labelled]
    keys = [id(leaves[k]) for k in kept] + [key for _, key in labelled]
    inputs = [leaves[k] for k in kept] + [_array(held[k]) for k in large]
    if not large and not donated and len(kept) == len(leaves):
        return Program(traced, tuple(inputs), tuple(names), tuple(keys))

    def cell(*given: Any) -> Any:
        consts, arguments = list(held), [None] * len(leaves)
        for place, value in zip(kept, given, strict=False):
            arguments[place] = value
        for place, value in zip(large, given[len(kept) :], strict=True):
            consts[place] = value
        return jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))(*arguments)

    again = jax.jit(cell, donate_argnums=donated).trace(*inputs)
    return Program(again, tuple(inputs), tuple(names), tuple(keys))


def _array(constant: Any) -> Any:
    return constant if isinstance(constant, jax.Array) else np.asarray(constant)


def _label(constant: Any, known: Sequence[tuple[str, Any]]) -> tuple[str, int | None]:
    """The name of a constant: that of the array whose memory or, failing that, whose only shape it has."""
    array = _array(constant)
    if isinstance(array, np.ndarray):
        same = [(n, a) for n, a in known if isinstance(a, np.ndarray) and np.may_share_memory(a, array)]
        alike = [(n, a) for n, a in known if a.shape == array.shape]
        for found in (same, alike):
            if len(found) == 1:
                return found[0][0], id(found[0][1])
    return f"a constant {array.dtype}{list(array.shape)}", None


def _donated(jaxpr: Any, kept: Sequence[int]) -> tuple[int, ...]:
    """Which kept inputs go, as their only use, into a donated argument of a jitted function."""
    uses: dict[int, list[bool]] = {}
    for eqn in jaxpr.eqns:
        donates = eqn.params.get("donated_invars") or (False,) * len(eqn.invars)
        for variable, gives in zip(eqn.invars, donates, strict=True):
            uses.setdefault(id(variable), []).append(gives)
    for variable in jaxpr.outvars:
        uses.setdefault(id(variable), []).append(False)
    return tuple(n for n, k in enumerate(kept) if uses.get(id(jaxpr.invars[k])) == [True])
