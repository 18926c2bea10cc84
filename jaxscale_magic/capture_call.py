"""One call of a function as a traced program: its dynamic arguments, their names, its donation.

Cells are in `capture.py`, whose record this fills.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxscale_magic.capture import Captured, is_abstract, is_array, unshared_traces
from jaxscale_magic.cell_errors import explain
from jaxscale_magic.errors import CellError


def capture_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    """Trace one call. A jitted function keeps its own shardings, donation and static arguments.

    Of a function that is not jitted, arrays are inputs and everything else is a Python constant.

    Raises:
        CellError: the call cannot be traced.
    """
    name = getattr(function, "__name__", type(function).__name__)
    title = f"{name}({', '.join(_described(arg) for arg in args)})"
    labels = _call_labels(function, args, kwargs)
    program: Any = function
    if not (hasattr(function, "trace") and hasattr(function, "lower")):
        function, args, kwargs = _arrays_only(function, args, kwargs)
        program = jax.jit(function)
    try:
        with unshared_traces():
            traced = program.trace(*args, **kwargs)
    except Exception as error:
        raise explain(error, "", (), {}) from error
    given, named = traced.args_info
    dynamic = _dynamic_arguments(args, given)
    keywords = {key: kwargs[key] for key in named}
    leaves = jax.tree.leaves((dynamic, keywords))
    structure = jax.tree.structure((dynamic, keywords))
    static = [k for k, arg in enumerate(args) if not any(arg is d for d in dynamic)]

    def retrace(specs: Sequence[Any], casts: dict[int, Any]) -> Any:
        def again(*flat: Any) -> Any:
            cast = [x.astype(casts[k]) if k in casts else x for k, x in enumerate(flat)]
            positional, by_name = jax.tree.unflatten(structure, cast)
            rest = iter(positional)
            merged = [args[k] if k in static else next(rest) for k in range(len(args))]
            return function(*merged, **{**kwargs, **by_name})

        return jax.jit(again).trace(*specs)

    return Captured(
        title=title,
        traced=traced,
        args=dynamic,
        kwargs=keywords,
        abstract=any(is_abstract(leaf) for leaf in leaves),
        names=tuple(labels.get(id(leaf), f"input {k}") for k, leaf in enumerate(leaves)),
        retrace=retrace,
    )


def _arrays_only(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The call with everything that is no array bound as a constant: (function, (leaves,), {})."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    arrays = [k for k, leaf in enumerate(leaves) if is_array(leaf)]

    def call(*given: Any) -> Any:
        replaced = dict(zip(arrays, given, strict=True))
        positional, named = jax.tree.unflatten(structure, [replaced.get(k, leaf) for k, leaf in enumerate(leaves)])
        return function(*positional, **named)

    call.__name__ = getattr(function, "__name__", "call")
    return call, tuple(leaves[k] for k in arrays), {}


def _dynamic_arguments(args: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments that are not static: jax tells only what is left of them."""
    if len(args) == len(given):
        return args
    kept = list(args)
    for arg in args:  # a static argument holds no array
        if len(kept) > len(given) and not any(is_array(leaf) for leaf in jax.tree.leaves(arg)):
            kept = [other for other in kept if other is not arg]
    if len(kept) != len(given):
        raise CellError("it is not clear which arguments of this call are static.", advice="Pass them by name.")
    return tuple(kept)


def _described(arg: Any) -> str:
    if is_array(arg):
        return f"{arg.dtype}{list(arg.shape)}"
    text = type(arg).__name__ if jax.tree.leaves(arg) and not isinstance(arg, (int, float, str, bool)) else repr(arg)
    return text if len(text) <= 40 else text[:37] + "..."


def _call_labels(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, str]:
    """A label for each leaf of a call's arguments, by identity, after the function's own parameters."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"argument {number}": arg for number, arg in enumerate(args)} | kwargs
    return {
        id(leaf): name + jax.tree_util.keystr(path)
        for name, value in bound.items()
        for path, leaf in jax.tree_util.tree_leaves_with_path(value)
    }
