"""What goes wrong in a cell, in one sentence each: which line, what is wrong, what to write instead.

A table from exception to sentence; capturing itself is in `capture.py`.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jaxscale_magic.errors import CellError, JaxscaleError, nearest
from jaxscale_magic.user_files import is_library

Sentence = tuple[str, str]


class PrintsTracer(BaseException):
    """The cell writes out an array that has no numbers while the cell is traced.

    No `Exception`: IPython's `display` and the cell's own `except` would swallow it.
    """


def refuse_syntax(source: str, filename: str, flags: int = 0) -> ast.Module:
    """The syntax tree of a cell that can be traced.

    Raises:
        CellError: empty, comments only, IPython syntax, `await`, or no Python.
    """
    lines = source.split("\n")
    if not source.strip():
        raise CellError("the cell is empty.", advice="Write the code to analyse below the magic's line.")
    try:
        tree = ast.parse(source, filename)
    except SyntaxError as error:
        line = error.lineno or 1
        text = _line(lines, line)
        raise _ipython_syntax(lines, line) or CellError(
            f"this is no Python: {error.msg}.", advice="", line=line, text=text
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nested too deeply for the parser
        raise CellError(f"this is no Python: {error}.") from error
    if not tree.body:
        raise CellError("the cell holds only comments.", advice="Write the code to analyse below the magic's line.")
    for node in ast.walk(tree):
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) and not _inside_async(tree, node):
            raise CellError(
                "a traced cell cannot `await`.",
                advice="Await in a cell before, and use the result here.",
                line=node.lineno,
                text=_line(lines, node.lineno),
            )
    try:
        compile(tree, filename, "exec", flags, dont_inherit=True)
    except SyntaxError as error:  # `return` or `yield` outside a function
        line = error.lineno or 1
        raise CellError(f"{error.msg}.", line=line, text=_line(lines, line)) from error
    return tree


def _inside_async(tree: ast.Module, node: ast.AST) -> bool:
    return any(
        isinstance(outer, ast.AsyncFunctionDef) and any(inner is node for inner in ast.walk(outer))
        for outer in ast.walk(tree)
    )


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if 1 <= number <= len(lines) else ""


#: What a line of IPython's own looks like, and how to call it.
_IPYTHON = (
    (re.compile(r"^\s*(?:[\w, ]+=\s*)?!"), "a shell command (`!`)"),
    (re.compile(r"^\s*(?:[\w, ]+=\s*)?%"), "a magic (`%`)"),
    (re.compile(r"^\s*\?|\?\s*$"), "a help request (`?`)"),
)


def _ipython_syntax(lines: Sequence[str], failed: int) -> CellError | None:
    """The refusal of a line that only IPython understands, where that is what failed."""
    for number in [failed, *range(1, len(lines) + 1)]:
        text = _line(lines, number)
        for pattern, what in _IPYTHON:
            if pattern.search(text) and not text.lstrip().startswith("#"):
                return CellError(
                    f"{what} cannot be traced.",
                    advice="Move it to a cell of its own.",
                    line=number,
                    text=text,
                )
    return None


def _undefined(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    name = getattr(error, "name", None) or ""
    near = nearest(name, [n for n in namespace if not n.startswith("_")], limit=2) if name else []
    maybe = f"Did you mean {' or '.join(f'`{n}`' for n in near)}? " if near else ""
    return f"`{name}` is not defined.", maybe + "Run the cell that defines it first."


def _no_number(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        "this needs an array's number, but while code is analysed its arrays have only shapes.",
        'Print with `jax.debug.print("{}", value)`, or move this line to the next cell.',
    )


def _numpy_function(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        "a numpy function got a traced array.",
        "Use its `jnp` counterpart, or compute it in a cell before.",
    )


def _python_branch(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        "a Python `if`, `while`, `and`, `or` or `not` asks for the value of a traced array.",
        "Write `jnp.where(condition, a, b)`, `jax.lax.cond` or `jax.lax.while_loop`.",
    )


def _python_integer(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        "a Python integer is needed here (an index, a length, a `range`), but this is a traced array.",
        "Make it a plain `int` in a cell before, or use `jax.lax.fori_loop` or `jnp` indexing.",
    )


def _boolean_index(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        "indexing with a traced mask has a result whose size is not known.",
        "Write `jnp.where(mask, x, 0)` or pass `size=` to `jnp.nonzero`.",
    )


def _in_place(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return "arrays cannot be changed in place.", "Write `x = x.at[index].set(value)`."


def _waits(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return "there is nothing to wait for while code is analysed.", "Leave it out: the magic waits for every result."


def _unbound_axis(error: BaseException, namespace: Mapping[str, Any]) -> Sentence:
    return (
        f"{_first_line(error)}",
        "Collectives by axis name need `jax.shard_map` over a mesh around them.",
    )


#: (exception type, pattern in its message, sentence); the first that fits is used.
EXPLANATIONS: tuple[tuple[type[BaseException], str, Callable[..., Sentence]], ...] = (
    (NameError, r"unbound axis name", _unbound_axis),
    (NameError, r"", _undefined),
    (PrintsTracer, r"", _no_number),
    (jax.errors.TracerBoolConversionError, r"", _python_branch),
    (jax.errors.NonConcreteBooleanIndexError, r"", _boolean_index),
    (jax.errors.TracerIntegerConversionError, r"", _python_integer),
    (jax.errors.TracerArrayConversionError, r"", _numpy_function),
    (jax.errors.ConcretizationTypeError, r"", _no_number),
    (AttributeError, r"block_until_ready|copy_to_host_async", _waits),
    (TypeError, r"Tracer\.?_*_?_?format__|unsupported format string", _no_number),
    (TypeError, r"does not support item assignment|immutable", _in_place),
)


def explain(error: BaseException, filename: str, lines: Sequence[str], namespace: Mapping[str, Any]) -> CellError:
    """The `CellError` for an exception that code raised while it was traced.

    Args:
        error: what was raised.
        filename: the name under which the cell's lines are known; "" for a call, whose line is looked up in the
            user's own file.
        lines: the cell's text.
        namespace: the notebook's names, for guessing at a misspelt one.
    """
    if isinstance(error, CellError):  # in a sentence already
        return error
    line = _cell_line(error, filename)
    for kind, pattern, sentence in EXPLANATIONS:
        if isinstance(error, kind) and re.search(pattern, str(error)):
            reason, advice = sentence(error, namespace)
            break
    else:
        said = _first_line(error)
        name = "" if isinstance(error, JaxscaleError) else type(error).__name__
        reason, advice = ": ".join(filter(None, (name, said))) if said else f"{name or 'it failed'}.", ""
    return CellError(reason, advice=advice, line=line, text=_line(lines, line or 0) if filename else _own_code(error))


def _first_line(error: BaseException) -> str:
    """The first sentence of a message, of a length one reads."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return text if len(text) <= 300 else text[:297] + "..."


def _own_code(error: BaseException) -> str:
    """The innermost line of a file of the user's in the error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.line or "" for frame in reversed(frames) if not is_library(frame.filename)), "")


def _cell_line(error: BaseException, filename: str) -> int | None:
    """The innermost line of the cell in the error's traceback."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
