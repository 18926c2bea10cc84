"""What to call what was analysed, in few words: a cell by its code, a call by its function and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: How the docstring that a jax transformation gives its result begins -> how people write the transformation.
_TRANSFORMATIONS = {
    "Gradient of ": "grad",
    "Value and gradient of ": "value_and_grad",
    "Vectorized version of ": "vmap",
    "Jacobian of ": "jacobian",
}


def cell_title(lines: Sequence[str]) -> str:
    """A cell's first line of code, and how many more there are: "h = f(x) … (3 lines)".

    Args:
        lines: the cell's text; blank lines and comments are not counted.
    """
    code = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    if len(code) < 2:
        return "".join(code)
    return f"{code[0]} … ({len(code)} lines)"


def call_title(function: Callable[..., Any], arguments: Sequence[str]) -> str:
    """A call by its function's name and its arguments' descriptions: "grad(loss)(float32[3])"."""
    return f"{function_name(function)}({', '.join(arguments)})"


def function_name(function: Callable[..., Any], depth: int = 8) -> str:
    """A function's name; of one that jax transformed, the transformation around it: "grad(loss)".

    jax gives the result of `grad` and its like the name of the function inside (kept in `__wrapped__`) and a
    docstring of its own; `jit` keeps both as they are.
    """
    inner = getattr(function, "__wrapped__", None)
    if inner is not None and depth:
        within, said = function_name(inner, depth - 1), str(getattr(function, "__doc__", None) or "")
        if said == getattr(inner, "__doc__", None):
            return within
        return next((f"{name}({within})" for start, name in _TRANSFORMATIONS.items() if said.startswith(start)), within)
    if hasattr(function, "func") and depth:  # functools.partial
        return f"partial({function_name(function.func, depth - 1)})"
    name = getattr(function, "__name__", None) or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)
