"""What no export carries: calls back into Python. Prints are dropped, results are replaced by their shapes.

A rewrite of the jaxpr, nothing else; a program without callbacks is handed back as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from jaxscale_magic.jax_internals import traced_shardings

#: Primitives that call back into Python -> what they are in the words of the user's code.
CALLBACKS = {
    "debug_callback": "jax.debug.print or jax.debug.callback",
    "debug_print": "jax.debug.print",
    "pure_callback": "jax.pure_callback",
    "io_callback": "jax.experimental.io_callback",
}


def _inner(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, (tuple, list)) else (value,):
        inner = getattr(each, "jaxpr", each)
        if hasattr(inner, "eqns"):
            yield inner


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in _inner(value):
                yield from _equations(inner)


def foreign_targets(closed: Any) -> list[str]:
    """Names of the custom calls that the program itself makes through `jax.ffi`, and those of Pallas kernels."""
    names = {"tpu_custom_call", "mosaic_gpu_v2", "__gpu$xla.gpu.triton"}
    for equation in _equations(closed.jaxpr):
        if equation.primitive.name == "ffi_call":
            names.add(str(equation.params["target_name"]))
    return sorted(names)


def without_callbacks(traced: Any) -> tuple[Any, tuple[str, ...]]:
    """The program without calls back into Python, and a note for each kind left out.

    Values that a callback would return become arrays of the same shape behind an optimization barrier, so that
    the work on them stays. Shardings of the arguments and donation are kept.
    """
    found = [e.primitive.name for e in _equations(traced.jaxpr.jaxpr) if e.primitive.name in CALLBACKS]
    if not found:
        return traced, ()
    notes = []
    for name in dict.fromkeys(found):
        gives = any(e.outvars for e in _equations(traced.jaxpr.jaxpr) if e.primitive.name == name)
        what = "its results are arrays of the same shape" if gives else "it is left out"
        notes.append(f"{CALLBACKS[name]} runs on the host and cannot be compiled for an absent chip: {what}.")
    closed = _rewritten_closed(traced.jaxpr)
    infos = jax.tree.leaves(traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    donated = [k for k, info in enumerate(infos) if info.donated]
    function: Callable[..., Any] = jaxpr_as_fun(closed)
    function.__name__ = traced.fun_name
    specs = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval, sharding in zip(closed.in_avals, traced_shardings(traced), strict=True)
    ]
    return jax.jit(function, donate_argnums=donated, keep_unused=True).trace(*specs), tuple(notes)


def _rewritten_closed(closed: Any) -> ClosedJaxpr:
    return ClosedJaxpr(_rewritten(closed.jaxpr), closed.consts)


def _rewritten(jaxpr: Any) -> Jaxpr:
    equations = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in CALLBACKS:
            equations += _shapes_only(equation)
            continue
        changed = {key: _rewritten_parameter(value) for key, value in equation.params.items()}
        effects = {e for e in equation.effects if not _is_callback_effect(e)}
        equations.append(equation.replace(params=changed, effects=effects))
    rewritten: Jaxpr = jaxpr.replace(eqns=equations, effects={e for e in jaxpr.effects if not _is_callback_effect(e)})
    return rewritten


def _is_callback_effect(effect: Any) -> bool:
    return any(word in type(effect).__name__ for word in ("Debug", "IO", "Callback"))


def _rewritten_parameter(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _rewritten_closed(value)
    if hasattr(value, "eqns"):
        return _rewritten(value)
    if isinstance(value, (tuple, list)) and any(hasattr(getattr(v, "jaxpr", v), "eqns") for v in value):
        return type(value)(_rewritten_parameter(each) for each in value)
    return value


def _shapes_only(equation: Any) -> list[Any]:
    """Equations that bind the results of a callback to arrays which no compiler pass can see through."""
    if not equation.outvars:
        return []
    avals = [v.aval for v in equation.outvars]

    def opaque() -> Any:
        zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in avals]
        return jax.lax.optimization_barrier(zeros)

    made = jax.make_jaxpr(lambda: jax.jit(opaque)())()
    (call,) = made.jaxpr.eqns
    return [call.replace(outvars=list(equation.outvars))]
