"""The cell is the function: its source becomes a traceable program whose inputs are the notebook's arrays.

The cell runs once, in the notebook's own namespace, with its input arrays replaced by tracers; afterwards every
name is put back, and only `Captured.bind` makes the results land. Single calls are in `capture_call.py`; what goes
wrong is put into a sentence by `cell_errors.py`.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import io
import types
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jaxscale_magic.capture_names import names_read
from jaxscale_magic.cell_errors import PrintsTracer, explain, refuse_syntax
from jaxscale_magic.errors import CellError

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
        return tuple(self.source.splitlines())


def parse_cell(text: str, *, filename: str = "<cell>", first_line: int = 2) -> Cell:
    """Parse a cell's text, whose first line is shown as line `first_line`.

    Raises:
        CellError: it is empty, holds only comments, IPython syntax or `await`, or is no Python.
    """
    source = "\n" * (first_line - 1) + text
    tree = refuse_syntax(source, filename)
    last: types.CodeType | None = None
    body = tree
    if isinstance(tree.body[-1], ast.Expr):
        body = ast.Module(body=tree.body[:-1], type_ignores=[])
        last = compile(ast.Expression(tree.body[-1].value), filename, "eval", dont_inherit=True)
    return Cell(
        filename=filename,
        source=source,
        body=compile(body, filename, "exec", dont_inherit=True),
        last=last,
        shows_last=last is not None and not _ends_with_semicolon(source, tree),
        tree=tree,
    )


def _ends_with_semicolon(source: str, tree: ast.Module) -> bool:
    end = tree.body[-1]
    lines = source.splitlines()
    rest = [lines[(end.end_lineno or 1) - 1].encode()[end.end_col_offset or 0 :].decode()]
    return any(line.strip().startswith(";") for line in rest)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an input: an array with numbers in it, or the description of one."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "biufcV" and leaf.dtype.names is None
    return isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))


def is_abstract(leaf: Any) -> bool:
    """Whether a leaf has a shape and no numbers."""
    return isinstance(leaf, jax.ShapeDtypeStruct)


@dataclass(frozen=True, slots=True)
class _Input:
    """One name that holds arrays: the whole value, flattened, and which leaves are arrays."""

    name: str
    leaves: tuple[Any, ...]
    structure: Any
    arrays: tuple[int, ...]

    def rebuilt(self, replaced: dict[int, Any]) -> Any:
        """The value with some leaves replaced: a new container of the same kind."""
        return jax.tree.unflatten(self.structure, [replaced.get(k, x) for k, x in enumerate(self.leaves)])


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
        retrace: (flat input descriptions, {flat number: dtype to convert it to inside}) -> the program traced
            again at other sizes or dtypes. Nothing lands, nothing is printed; raises whatever tracing raises.
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
    retrace: Callable[[Sequence[Any], dict[int, Any]], Any] | None = None

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
    traced = run.trace()
    if run.drop_unused(traced):
        traced = run.trace()
    leaves = run.array_leaves()
    code = next((line.strip() for line in cell.lines if line.strip() and not line.strip().startswith("#")), "")
    return Captured(
        title=title or code,
        traced=traced,
        args=(leaves,),
        abstract=any(is_abstract(leaf) for leaf in leaves),
        files=(cell.filename,),
        source_lines=cell.lines,
        names=tuple(run.leaf_names()),
        bind=run.bind,
        shows_last=cell.shows_last,
        retrace=run.retrace,
    )


class _CellRun:
    """One cell in one namespace: traces it, remembers its outputs, binds them."""

    def __init__(self, cell: Cell, namespace: MutableMapping[str, Any]) -> None:
        self._cell = cell
        self._namespace = namespace
        self._inputs = [
            entry
            for name in names_read(cell.source, cell.tree, namespace)
            if (entry := _as_input(name, namespace[name])) is not None
        ]
        # What a trace leaves behind for `bind`.
        self._structure: Any = None
        self._static: dict[int, Any] = {}
        self._deleted: list[str] = []
        self._mutated: set[str] = set()
        self._retracing = False

    def array_leaves(self) -> list[Any]:
        """The inputs' array leaves, flat, in order."""
        return [entry.leaves[k] for entry in self._inputs for k in entry.arrays]

    def leaf_names(self) -> Iterator[str]:
        """A label for each of `array_leaves`."""
        for entry in self._inputs:
            value = jax.tree.unflatten(entry.structure, range(len(entry.leaves)))
            labels = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(value)]
            for k in entry.arrays:
                yield entry.name + labels[k]

    def trace(self) -> Any:
        """Run the cell on tracers."""
        try:
            with unshared_traces():
                traced = jax.jit(self._run).trace(self.array_leaves())
        except CellError:
            raise
        except Exception as error:
            raise explain(error, self._cell.filename, self._cell.lines, self._namespace) from error
        if not traced.jaxpr.jaxpr.outvars:
            line = self._cell.tree.body[-1].lineno
            raise CellError(
                "the cell computes no array, so there is nothing to analyse.",
                advice="Assign a result, as in `y = f(x)`, or end with the expression to compute.",
                line=line,
                text=self._cell.lines[line - 1],
            )
        return traced

    def drop_unused(self, traced: Any) -> bool:
        """Forget inputs that have no numbers and that the cell turned out not to use; whether there were any."""
        jaxpr = traced.jaxpr.jaxpr
        used = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.outvars}
        variables = iter(jaxpr.invars)
        kept: list[_Input] = []
        for entry in self._inputs:
            arrays = tuple(k for k in entry.arrays if id(next(variables)) in used or not is_abstract(entry.leaves[k]))
            kept.append(_Input(entry.name, entry.leaves, entry.structure, arrays))
        dropped = [e.arrays for e in kept] != [e.arrays for e in self._inputs]
        self._inputs = [entry for entry in kept if entry.arrays]
        return dropped

    def retrace(self, specs: Sequence[Any], casts: dict[int, Any]) -> Any:
        """The cell traced at other sizes or dtypes, by a copy that forgets its outputs."""
        other = copy.copy(self)
        other._retracing = True

        def again(leaves: Sequence[Any]) -> list[Any]:
            return other._run([x.astype(casts[k]) if k in casts else x for k, x in enumerate(leaves)])

        with unshared_traces(), contextlib.redirect_stdout(io.StringIO()):
            return jax.jit(again).trace(list(specs))

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        """The traced function: array leaves in, traced leaves of every output out."""
        given = iter(leaves)
        swapped = {entry.name: entry.rebuilt({k: next(given) for k in entry.arrays}) for entry in self._inputs}
        before_leaves = {name: jax.tree.flatten(value) for name, value in swapped.items()}
        with _swapped_in(self._namespace, swapped, undo=self._retracing) as before:
            exec(self._cell.body, self._namespace)  # type: ignore[arg-type]
            last = eval(self._cell.last, self._namespace) if self._cell.last else None  # type: ignore[arg-type]
            bound = {
                name: value
                for name, value in self._namespace.items()
                if name not in before or before[name] is not value
            }
            self._deleted = [name for name in before if name not in self._namespace]
        self._mutated = {
            name
            for name, value in swapped.items()
            if name not in bound and not _same_leaves(before_leaves[name], jax.tree.flatten(value))
        }
        bound |= {name: swapped[name] for name in self._mutated}
        return self._split((bound, last))

    def _split(self, outputs: Any) -> list[Any]:
        """Keep what is plain Python, return what is traced."""
        leaves, self._structure = jax.tree.flatten(outputs)
        self._static = {k: leaf for k, leaf in enumerate(leaves) if not isinstance(leaf, jax.core.Tracer)}
        for name, value in outputs[0].items():
            for leaf in jax.tree.leaves(value):
                if not isinstance(leaf, jax.core.Tracer) and _holds_tracer(leaf):
                    raise CellError(
                        f"`{name}` is a {type(leaf).__name__} that keeps an array of this cell where jax cannot "
                        "see it.",
                        advice="Return the array under a name of its own, or register the class with "
                        "jax.tree_util.register_dataclass.",
                    )
        return [leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer)]

    def bind(self, outputs: Sequence[Any]) -> Any:
        """Make the cell's names land with `outputs` as the traced leaves; returns the last expression's value."""
        given = iter(outputs)
        count = self._structure.num_leaves
        leaves = [self._static[k] if k in self._static else next(given) for k in range(count)]
        bound, last = jax.tree.unflatten(self._structure, leaves)
        for name in self._deleted:
            self._namespace.pop(name, None)
        for name, value in bound.items():
            old: Any = self._namespace.get(name)
            if name in self._mutated and type(old) is type(value) and isinstance(old, dict):
                old.clear()
                old.update(value)
            elif name in self._mutated and type(old) is type(value) and isinstance(old, list):
                old[:] = value
            else:
                self._namespace[name] = value
        return last


def _as_input(name: str, value: Any) -> _Input | None:
    leaves, structure = jax.tree.flatten(value)
    arrays = tuple(k for k, leaf in enumerate(leaves) if is_array(leaf))
    return _Input(name, tuple(leaves), structure, arrays) if arrays else None


def _same_leaves(one: tuple[list[Any], Any], other: tuple[list[Any], Any]) -> bool:
    return one[1] == other[1] and all(a is b for a, b in zip(one[0], other[0], strict=True))


@contextmanager
def unshared_traces() -> Iterator[None]:
    """Keep what is traced in this block out of every other trace's caches."""
    global _trace_context
    if _trace_context is None:
        _trace_context = jax.make_user_context()
    with _trace_context(object()):
        yield


@contextmanager
def _swapped_in(
    namespace: MutableMapping[str, Any], swapped: dict[str, Any], *, undo: bool
) -> Iterator[dict[str, Any]]:
    """Put `swapped` into the namespace, and every name back afterwards.

    What the block changed inside the notebook's own lists, dicts and sets is undone too where it fails, where it
    left tracers there, or where `undo` asks for it.

    Yields:
        The namespace as the cell finds it.
    """
    saved = dict(namespace)
    contents = {
        name: value.copy()
        for name, value in saved.items()
        if isinstance(value, (list, dict, set)) and value is not namespace and not _is_history(name)
    }
    namespace.update(swapped)
    if "print" not in saved:
        namespace["print"] = _print
    failed = True
    try:
        yield dict(namespace)
        failed = False
    finally:
        for name in [name for name in namespace if name not in saved]:
            del namespace[name]
        namespace.update(saved)
        _restore(saved, contents, failed or undo)


def _restore(saved: dict[str, Any], contents: dict[str, Any], failed: bool) -> None:
    """Undo changes to the notebook's own lists, dicts and sets where the cell failed or put tracers in."""
    for name, old in contents.items():
        value = saved[name]
        if len(value) == len(old) and all(a is b for a, b in zip(_members(value), _members(old), strict=True)):
            continue
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(list(_members(value))))
        if failed or traced:
            if isinstance(value, list):
                value[:] = old
            else:
                value.clear()
                value.update(old)
        if traced and not failed:
            raise CellError(
                f"a traced array is put into `{name}` in place.",
                advice=f"Make a new one instead, as in `{name} = {name} + [value]`.",
            )


def _is_history(name: str) -> bool:
    """Whether IPython, not the user, keeps this container."""
    return name.startswith("_") or name in ("In", "Out")


def _members(container: Any) -> list[Any]:
    return list(container.values()) if isinstance(container, dict) else list(container)


def _print(*values: Any, **options: Any) -> None:
    """`print` while a cell is traced: refuses what has no number yet."""
    for value in values:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)) or (
            isinstance(value, str) and ("Tracer(" in value or "Traced<" in value)
        ):
            raise PrintsTracer
    builtins.print(*values, **options)


def _holds_tracer(value: Any, depth: int = 4) -> bool:
    """Whether an object that jax takes for a leaf keeps a tracer in an attribute, closure or container."""
    if isinstance(value, jax.core.Tracer):
        return True
    if depth == 0 or isinstance(value, (int, float, str, bytes, np.ndarray, jax.Array, types.ModuleType)):
        return False
    parts: list[Any] = []
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                parts.append(cell.cell_contents)
            except ValueError:
                continue
        parts += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, (list, tuple, set)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    elif not isinstance(value, type):
        parts = list(getattr(value, "__dict__", {}).values())
        parts += [getattr(value, "func", None), *getattr(value, "args", ())] if hasattr(value, "keywords") else []
    return any(_holds_tracer(part, depth - 1) for part in parts)
