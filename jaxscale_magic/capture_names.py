"""Which names a cell reads: its own, and those that the functions it calls read from the notebook.

Text and namespaces only; nothing is traced or run here.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import symtable
import types
from collections.abc import Iterator, Mapping
from typing import Any


def names_read(source: str, tree: ast.Module, namespace: Mapping[str, Any]) -> list[str]:
    """Names of `namespace` that the cell, or a function of the notebook that it reaches, may read.

    A name that the cell always binds before it reads it is left out.
    """
    found: dict[str, None] = {}
    pending = [name for name in _own_reads(source, tree) if name in namespace]
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        found[name] = None
        for function in _functions_behind(namespace[name], namespace):
            pending += [read for read in _globals_read(function.__code__) if read in namespace]
    return list(found)


def _own_reads(source: str, tree: ast.Module) -> list[str]:
    """Global names that the cell reads before it binds them, in order of first use."""
    globally = _global_names(symtable.symtable(source, "<cell>", "exec"))
    reads: dict[str, None] = {}
    bound: set[str] = set()
    for statement in tree.body:
        nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
            loaded = isinstance(node.ctx, ast.Load) or _is_augmented(node, statement)
            if loaded and node.id in globally and node.id not in bound:
                reads[node.id] = None
        bound |= _surely_bound(statement)
    return list(reads)


def _global_names(table: symtable.SymbolTable) -> set[str]:
    """Names that some scope of the cell looks up in the notebook."""
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if table.get_type() == "module" or (symbol.is_global() and symbol.is_referenced())
    }
    for child in table.get_children():
        names |= _global_names(child)
    return names


def _is_augmented(node: ast.Name, statement: ast.stmt) -> bool:
    return any(isinstance(inner, ast.AugAssign) and inner.target is node for inner in ast.walk(statement))


def _surely_bound(statement: ast.stmt) -> set[str]:
    """Names that a statement binds whenever it runs; a branch or a loop may bind nothing."""
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign():
            targets = list(statement.targets)
        case ast.AnnAssign() if statement.value is not None:
            targets = [statement.target]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _functions_behind(value: Any, namespace: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """The notebook's own functions that calling `value` may run: through jit, partial, methods and closures."""
    seen: set[int] = set()
    pending = [value]
    while pending and len(seen) < 10_000:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, types.FunctionType):
            if item.__globals__ is namespace:
                yield item
            pending += [cell.cell_contents for cell in item.__closure__ or () if _filled(cell)]
            pending += [getattr(item, "__wrapped__", None)]
        elif isinstance(item, functools.partial):
            pending += [item.func, *item.args, *item.keywords.values()]
        elif inspect.ismethod(item):
            pending += [item.__func__, item.__self__]
        elif isinstance(item, type):
            if item.__module__ == namespace.get("__name__"):
                pending += [part for part in vars(item).values() if callable(part) or isinstance(part, property)]
        elif isinstance(item, property):
            pending += [item.fget]
        elif isinstance(item, (list, tuple)):
            pending += [part for part in item if callable(part)]
        elif isinstance(item, dict):
            pending += [part for part in item.values() if callable(part)]
        elif item is not None and not isinstance(item, (int, float, str, bytes, types.ModuleType)):
            pending += [getattr(item, "__wrapped__", None), getattr(item, "fun", None), type(item)]


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def _globals_read(code: types.CodeType) -> list[str]:
    """Global names that a function's code, or a function inside it, loads."""
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _globals_read(constant)
    return names
