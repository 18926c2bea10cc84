"""One call of a function as a traced program: its dynamic arguments, their names, its donation.

Cells are in `capture.py`, whose record this fills.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import jax

from jaxscale_magic.capture import Captured, is_abstract, is_gone, unshared_traces
from jaxscale_magic.capture_places import is_array
from jaxscale_magic.capture_purity import why_call_only_once
from jaxscale_magic.cell_errors import explain
from jaxscale_magic.errors import CellError
from jaxscale_magic.jax_internals import static_arguments
from jaxscale_magic.titles import call_title


def capture_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    """Trace one call. A jitted function keeps its own shardings, donation and static arguments.

    Of a function that is not jitted, arrays are inputs and everything else is a Python constant.

    Raises:
        CellError: the call cannot be traced.
    """
    once = why_call_only_once(function)
    title = call_title(
        function, [_described(arg) for arg in args] + [f"{k}={_described(v)}" for k, v in kwargs.items()]
    )
    labels = _call_labels(function, args, kwargs)
    for leaf in jax.tree.leaves((args, kwargs)):
        if is_gone(leaf):
            raise CellError(
                f"`{labels.get(id(leaf), 'an argument')}` is gone: an earlier call was given its memory "
                "(`donate_argnums`).",
                advice="Make it again, or keep what that call returned.",
            )
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
    places = _dynamic_places(program, args, given)
    dynamic = tuple(args[k] for k in places)
    keywords = {key: kwargs[key] for key in named}
    leaves = jax.tree.leaves((dynamic, keywords))
    structure = jax.tree.structure((dynamic, keywords))

    def retrace(specs: Sequence[Any]) -> Any:
        def again(*flat: Any) -> Any:
            positional, by_name = jax.tree.unflatten(structure, flat)
            merged = {**dict(enumerate(args)), **dict(zip(places, positional, strict=True))}
            return function(*merged.values(), **{**kwargs, **by_name})

        with unshared_traces(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return jax.jit(again).trace(*specs)

    return Captured(
        title=title,
        traced=traced,
        args=dynamic,
        kwargs=keywords,
        abstract=any(is_abstract(leaf) for leaf in leaves),
        names=tuple(labels.get(id(leaf), f"input {k}") for k, leaf in enumerate(leaves)),
        retrace=None if once else retrace,
        once=once,
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


def _dynamic_places(program: Any, args: tuple[Any, ...], given: tuple[Any, ...]) -> list[int]:
    """Which positional arguments are not static; `given` is what jax tells of them.

    Raises:
        CellError: jax does not tell which, and more than one reading is possible.
    """
    every = list(range(len(args)))
    if len(args) == len(given):
        return every
    told = static_arguments(program)
    if told is not None:
        static = {number % len(args) for number in told[0] if -len(args) <= number < len(args)}
        kept = [k for k in every if k not in static]
    else:  # a static argument holds no array
        kept = [k for k in every if any(is_array(leaf) for leaf in jax.tree.leaves(args[k]))]
    if len(kept) != len(given):
        raise CellError("it is not clear which arguments of this call are static.", advice="Pass them by name.")
    return kept


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
