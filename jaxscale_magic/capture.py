"""The cell is the function: its source becomes a traceable program whose inputs are the notebook's arrays.

The cell runs once, in the notebook's own namespace, with its input arrays exchanged for tracers
(`capture_places.py`); afterwards everything is put back, and only `Captured.bind` makes the results land. Single
calls are in `capture_call.py`; what goes wrong is put into a sentence by `cell_errors.py`.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import types
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jaxscale_magic.capture_names import names_read
from jaxscale_magic.capture_places import Outcome, Places
from jaxscale_magic.capture_program import Program, assemble
from jaxscale_magic.capture_purity import why_only_once
from jaxscale_magic.cell_errors import PrintsTracer, explain, refuse_syntax
from jaxscale_magic.errors import CellError
from jaxscale_magic.jax_internals import tracers_refuse_text
from jaxscale_magic.titles import cell_title

#: Part of the key of jax's trace caches while a cell is traced, so that no trace made here is ever reused
#: outside, where its tracers would be dead.
_trace_context: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A parsed cell. Lines are counted as the notebook shows them: the magic's own line is line 1.

    Attributes:
        filename: the name under which it is compiled, and under which linecache knows it.
        source: the text, the magic's line replaced by an empty one.
        body: code of all statements but a last expression.
        last: code of the last expression, or None.
        shows_last: whether the last expression's value is displayed (no `;` behind it).
        tree: the syntax tree.
    """

    filename: str
    source: str
    body: types.CodeType
    last: types.CodeType | None
    shows_last: bool
    tree: ast.Module

    @property
    def lines(self) -> tuple[str, ...]:
        """The text, line by line."""
        return tuple(self.source.split("\n"))


def parse_cell(text: str, *, filename: str = "<cell>", first_line: int = 2, flags: int = 0) -> Cell:
    """Parse a cell's text, whose first line is shown as line `first_line`.

    Args:
        text: the cell below the magic's line.
        filename: under which name its lines are known.
        first_line: the number of its first line.
        flags: compiler flags of the notebook, such as a `from __future__ import` of an earlier cell.

    Raises:
        CellError: it is empty, holds only comments, IPython syntax or `await`, or is no Python.
    """
    source = "\n" * (first_line - 1) + text
    tree = refuse_syntax(source, filename, flags)
    last: types.CodeType | None = None
    body = tree
    if isinstance(tree.body[-1], ast.Expr):
        body = ast.Module(body=tree.body[:-1], type_ignores=[])
        last = compile(ast.Expression(tree.body[-1].value), filename, "eval", flags, dont_inherit=True)
    return Cell(
        filename=filename,
        source=source,
        body=compile(body, filename, "exec", flags, dont_inherit=True),
        last=last,
        shows_last=last is not None and not _ends_with_semicolon(source, tree),
        tree=tree,
    )


def _ends_with_semicolon(source: str, tree: ast.Module) -> bool:
    end = tree.body[-1]
    lines = source.split("\n")
    rest = [lines[(end.end_lineno or 1) - 1].encode()[end.end_col_offset or 0 :].decode()]
    return any(line.strip().startswith(";") for line in rest)


def is_abstract(leaf: Any) -> bool:
    """Whether a leaf has a shape and no numbers."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


def is_gone(leaf: Any) -> bool:
    """Whether an array's memory was given to an earlier call."""
    return isinstance(leaf, jax.Array) and leaf.is_deleted()


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """A traced program, ready to compile.

    Attributes:
        title: what to call it.
        traced: jax's own record of the trace (`.jaxpr`, `.lower()`).
        args, kwargs: what the compiled program is called with; arrays or their descriptions.
        abstract: some input has no numbers, so the program can be analysed but not run.
        files: names under which its own source is known, for finding lines.
        source_lines: that source.
        names: a label for each flat input, such as "params['w1']".
        bind: takes the program's outputs (or their shapes) and makes its names land; returns the value of
            the last expression.
        shows_last: whether that value is to be displayed.
        retrace: flat input descriptions -> the program traced again at other sizes or dtypes. Nothing lands,
            nothing is printed; raises whatever tracing raises. None where running the code again could be noticed.
        once: why it cannot be traced again, a clause such as "`next` takes what it finds"; "" where it can.
    """

    title: str
    traced: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    abstract: bool
    files: tuple[str, ...] = ()
    source_lines: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    bind: Callable[[Any], Any] = field(default=lambda outputs: outputs)
    shows_last: bool = False
    retrace: Callable[[Sequence[Any]], Any] | None = None
    once: str = ""

    @property
    def leaves(self) -> list[Any]:
        """The inputs, flat."""
        return jax.tree.leaves((self.args, self.kwargs))


def capture_cell(cell: Cell, namespace: MutableMapping[str, Any], *, title: str = "") -> Captured:
    """Trace `cell` with the arrays of `namespace` that it reads as inputs. `namespace` is left as it was.

    Raises:
        CellError: the cell cannot be traced; says which line and what to write instead.
    """
    run = _CellRun(cell, namespace)
    program = run.program
    codes = [code for code in (cell.body, cell.last) if code is not None]
    once = why_only_once(codes, namespace)
    return Captured(
        title=title or cell_title(cell.lines),
        traced=program.traced,
        args=program.leaves,
        abstract=any(is_abstract(leaf) for leaf in program.leaves),
        files=(cell.filename,),
        source_lines=cell.lines,
        names=program.names,
        bind=run.bind,
        shows_last=cell.shows_last,
        retrace=None if once else run.retrace,
        once=once,
    )


class _CellRun:
    """One cell in one namespace: traces it once, keeps what it left behind, binds it."""

    def __init__(self, cell: Cell, namespace: MutableMapping[str, Any]) -> None:
        self._cell = cell
        self._namespace = namespace
        self._places = Places(names_read(cell.source, cell.tree, namespace), namespace)
        arrays = self._places.arrays
        # numpy's arrays stay numpy's: what the cell does to them with numpy is done as always, and what reaches
        # jax becomes a constant of the trace, which `assemble` makes an input again.
        self._constants = [entry for entry in arrays.values() if isinstance(entry[1], np.ndarray)]
        traced = {key: entry for key, entry in arrays.items() if not isinstance(entry[1], np.ndarray)}
        self.program, self._outcome = self._trace_for_good(traced)

    def _trace_for_good(self, arrays: dict[int, tuple[str, Any]]) -> tuple[Program, Outcome]:
        contents = self._places.numpy_contents() if _stores_into_parts(self._cell.tree) else []
        leaves = [array for _, array in arrays.values()]
        gone = {k: jax.ShapeDtypeStruct(a.shape, a.dtype) for k, a in enumerate(leaves) if is_gone(a)}
        leaves = [gone.get(k, leaf) for k, leaf in enumerate(leaves)]
        others = _live_tracers()
        try:
            traced, outcome = self._trace(leaves, list(arrays))
            _refuse_leaks(others)
        except BaseException as error:
            for array, content in contents:
                array[...] = content
            if isinstance(error, CellError) or not isinstance(error, (Exception, PrintsTracer)):
                raise
            raise explain(error, self._cell.filename, self._cell.lines, self._namespace) from error
        if not outcome.pending:
            line = self._cell.tree.body[-1].lineno
            raise CellError(
                "the cell computes no array with jax, so there is nothing to analyse.",
                advice="Assign a result, as in `y = f(x)`, or end with the expression to compute."
                + (" What numpy computes is not seen: use `jnp.asarray`." if self._constants else ""),
                line=line,
                text=self._cell.lines[line - 1],
            )
        program = assemble(traced, leaves, [label for label, _ in arrays.values()], self._constants)
        for name, leaf in zip(program.names, program.leaves, strict=True):
            if any(leaf is described for described in gone.values()):
                raise CellError(
                    f"`{name}` is gone: an earlier call was given its memory (`donate_argnums`).",
                    advice="Make it again, or keep what that call returned.",
                )
        return program, outcome

    def _trace(self, leaves: Sequence[Any], keys: Sequence[int | None]) -> tuple[Any, Outcome]:
        """jax's record of the cell run on tracers for `leaves`, and what it left behind.

        Args:
            leaves: flat inputs, or descriptions of them.
            keys: which array of the notebook each stands for; None for one that stays what it is.
        """
        outcome = Outcome()

        def cell(*given: Any) -> list[Any]:
            nonlocal outcome
            inputs = {key: leaf for key, leaf in zip(keys, given, strict=True) if key is not None}
            with tracers_refuse_text(self._namespace, PrintsTracer):
                outcome = self._places.run(inputs, self._execute)
            _refuse_hidden(outcome)
            results, outcome.tracers = outcome.tracers, []
            return results

        with unshared_traces():
            traced = jax.jit(cell).trace(*leaves)
        return traced, outcome

    def _execute(self) -> Any:
        """Run the cell's code; returns the value of its last expression."""
        namespace: Any = self._namespace
        exec(self._cell.body, namespace)
        return eval(self._cell.last, namespace) if self._cell.last else None

    def retrace(self, specs: Sequence[Any]) -> Any:
        """The cell traced at other sizes or dtypes of `program`'s inputs; nothing of it lands."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            traced, _ = self._trace(list(specs), self.program.keys)
        return assemble(traced, list(specs), self.program.names, ()).traced

    def bind(self, outputs: Sequence[Any]) -> Any:
        """Make the cell's names land with `outputs` as the traced leaves; returns the last expression's value."""
        return self._places.land(self._outcome, outputs)


def _refuse_leaks(others: set[int]) -> None:
    """Refuse tracers that are alive after the trace: somewhere that the notebook's names do not lead to.

    jax's own caches of traces keep some too, which do no harm: see `unshared_traces`.
    """
    if not _live_tracers() - others:
        return
    gc.collect()
    left = [x for x in gc.get_objects() if issubclass(type(x), jax.core.Tracer) and id(x) not in others]
    keepers = {
        id(owner): owner for tracer in left for owner in gc.get_referrers(tracer) if _keeps(owner, left)
    }.values()
    for owner in keepers:
        if hasattr(owner, "cache_clear"):  # functools.cache: what it keeps would be handed out, dead
            owner.cache_clear()
    if keepers:
        kinds = sorted({type(owner).__name__ for owner in keepers})
        raise CellError(
            f"an array of this cell is kept where it would be dead afterwards (in a {', a '.join(kinds)}).",
            advice="Return it from the function that makes it, and assign it in the cell.",
        )


def _live_tracers() -> set[int]:
    return {id(x) for x in gc.get_objects() if issubclass(type(x), jax.core.Tracer)}  # no __class__ is asked


def _keeps(owner: Any, asking: Any) -> bool:
    """Whether an object that refers to a tracer is none of jax's, and no frame."""
    if owner is asking or isinstance(owner, types.FrameType) or _is_jaxs(owner):
        return False
    if type(owner) in (list, tuple, dict):
        return not any(_is_jaxs(outer) or type(outer) is tuple for outer in gc.get_referrers(owner))
    return True


def _is_jaxs(owner: Any) -> bool:
    return type(owner).__module__.partition(".")[0] in ("jax", "jaxlib")


def _refuse_hidden(outcome: Outcome) -> None:
    """Refuse what landing cannot make right: a tracer out of reach, a tracer's text."""
    if outcome.hidden is not None:
        path, kind = outcome.hidden
        raise CellError(
            f"`{path}` is a {kind} that keeps an array of this cell where it cannot be replaced.",
            advice="Assign the array to a name of its own.",
        )
    if outcome.text:
        raise CellError(
            f"`{outcome.text}` is a text with an array in it, but while a cell is analysed its arrays have only "
            "shapes.",
            advice="Make the text in the next cell.",
        )


def _stores_into_parts(tree: ast.Module) -> bool:
    """Whether a cell may change an array in place: `a[i] = ...`, `a += ...`, `out=a`."""
    return any(
        isinstance(node, ast.AugAssign)
        or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.keyword) and node.arg == "out")
        for node in ast.walk(tree)
    )


@contextmanager
def unshared_traces() -> Iterator[None]:
    """Keep what is traced in this block out of every other trace's caches."""
    global _trace_context
    if _trace_context is None:
        _trace_context = jax.make_user_context()
    with _trace_context(object()):
        yield
