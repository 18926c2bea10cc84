"""The same program with some inputs stored in a narrower dtype and widened only where they are used.

A rewriting of jax's record of the trace: no code of the notebook runs. What that would save is in `advice.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

#: Primitives that only rearrange: they do the same to narrow numbers.
_REARRANGING = frozenset(
    ["slice", "dynamic_slice", "squeeze", "reshape", "transpose", "gather", "broadcast_in_dim", "rev", "copy"]
)
#: Primitives that call one jaxpr on their operands -> the parameter that holds it.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}


@dataclass(frozen=True, slots=True)
class _Narrow:
    """A value stored narrow, and the dtype that the program means."""

    stored: Any
    dtype: Any

    def widened(self) -> Any:
        return self.stored.astype(self.dtype)


def with_narrow_inputs(program: ClosedJaxpr, wide: Mapping[int, Any]) -> Callable[..., list[Any]]:
    """A function of the program's flat inputs, those numbered in `wide` given narrow and widened to that dtype.

    They are widened inside the loops that use them, slice by slice, as one would write it.
    """

    def narrowed(*leaves: Any) -> list[Any]:
        given = [_Narrow(leaf, wide[k]) if k in wide else leaf for k, leaf in enumerate(leaves)]
        return [_wide(value) for value in _evaluated(program.jaxpr, program.consts, given)]

    return narrowed


def _wide(value: Any) -> Any:
    return value.widened() if isinstance(value, _Narrow) else value


def _evaluated(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The jaxpr's results, narrow values carried along as far as they only move."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for eqn in jaxpr.eqns:
        values = [read(variable) for variable in eqn.invars]
        known.update(zip(eqn.outvars, _applied(jaxpr, eqn, values), strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _applied(jaxpr: Any, eqn: Any, values: list[Any]) -> Sequence[Any]:
    name, params = eqn.primitive.name, eqn.params
    if not any(isinstance(value, _Narrow) for value in values):
        return _as_written(jaxpr, eqn, values)
    if name in _CALLS:
        called = params[_CALLS[name]]
        return _evaluated(getattr(called, "jaxpr", called), getattr(called, "consts", ()), values)
    if name == "scan":
        return _scanned(eqn, values)
    if name == "while":
        return _looped(params, values)
    first, *rest = values
    if name in _REARRANGING and isinstance(first, _Narrow) and not any(isinstance(v, _Narrow) for v in rest):
        return [_Narrow(eqn.primitive.bind(first.stored, *rest, **params), first.dtype)]
    return _as_written(jaxpr, eqn, [_wide(value) for value in values])


def _as_written(jaxpr: Any, eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The equation alone, as a program: `bind` would need to know each primitive's own conventions."""
    given = {v: value for v, value in zip(eqn.invars, values, strict=True) if not isinstance(v, Literal)}
    alone = jaxpr.replace(
        constvars=(),
        invars=tuple(given),
        outvars=list(eqn.outvars),
        eqns=[eqn],
        effects=eqn.effects,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    results: Sequence[Any] = jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())
    return results


def _stored(values: Sequence[Any]) -> list[Any]:
    return [value.stored if isinstance(value, _Narrow) else value for value in values]


def _again(values: Sequence[Any], stored: Sequence[Any]) -> Iterator[Any]:
    """`stored` marked narrow where `values` are."""
    for value, new in zip(values, stored, strict=True):
        yield _Narrow(new, value.dtype) if isinstance(value, _Narrow) else new


def _scanned(eqn: Any, values: list[Any]) -> list[Any]:
    params, body = eqn.params, eqn.params["jaxpr"]
    # Told by rank, since jax's versions name the counts differently: what is scanned has one dimension more.
    in_ranks = zip(eqn.invars, body.jaxpr.invars, strict=True)
    scanned = sum(outer.aval.ndim != inner.aval.ndim for outer, inner in in_ranks)
    out_ranks = zip(eqn.outvars, body.jaxpr.outvars, strict=True)
    carries = sum(outer.aval.ndim == inner.aval.ndim for outer, inner in out_ranks)
    carried = len(values) - scanned
    consts, start, xs = values[: carried - carries], values[carried - carries : carried], values[carried:]

    def step(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        results = _evaluated(body.jaxpr, body.consts, [*consts, *carry, *_again(xs, slices)])
        wide = [_wide(result) for result in results]
        return wide[:carries], wide[carries:]

    carry, ys = jax.lax.scan(
        step,
        [_wide(value) for value in start],
        _stored(xs),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carry, *ys]


def _looped(params: Mapping[str, Any], values: list[Any]) -> list[Any]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    asked, fixed = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    consts = values[asked:fixed]

    def goes_on(carry: list[Any]) -> Any:
        return _evaluated(condition.jaxpr, condition.consts, [*map(_wide, values[:asked]), *carry])[0]

    def step(carry: list[Any]) -> list[Any]:
        return [_wide(result) for result in _evaluated(body.jaxpr, body.consts, [*consts, *carry])]

    start = [_wide(value) for value in values[fixed:]]
    results: list[Any] = jax.lax.while_loop(goes_on, step, start)
    return results
