"""Whether running code a second time could be noticed: by an iterator that moves on, a file, a random stream.

Judged from bytecode and the values behind its names, before anything runs twice; in doubt, it could.
"""

from __future__ import annotations

import builtins
import collections.abc
import dis
import functools
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

#: Packages whose functions give the same again and change nothing elsewhere.
_PURE_PACKAGES = """
    jax jaxlib numpy scipy math cmath functools itertools operator collections dataclasses typing types
    abc enum contextlib copy string re einops flax equinox optax haiku chex jaxtyping diffrax lineax
    distrax ml_dtypes typing_extensions builtins __future__
"""
PURE_PACKAGES = frozenset(_PURE_PACKAGES.split())
#: Parts of those packages that are not so, and built-in functions.
IMPURE_MODULES = frozenset(["numpy.random", "numpy.ctypeslib", "scipy.io"])
_IMPURE_NAMES = """
    open input next exec eval compile __import__ breakpoint exit quit help get_ipython save savez
    savez_compressed savetxt load loadtxt fromfile memmap tofile device_put_replicated
"""
IMPURE_NAMES = frozenset(_IMPURE_NAMES.split())
#: Functions looked through before giving up.
_MOST_FUNCTIONS = 10_000


def why_only_once(codes: Sequence[types.CodeType], namespace: Mapping[str, Any]) -> str:
    """Why code must not run twice, as a clause ("it calls `next`"); "" where nobody would notice.

    Args:
        codes: the code, whose global names are those of `namespace`.
        namespace: the notebook's names.
    """
    pending: list[tuple[types.CodeType, Mapping[str, Any]]] = [(code, namespace) for code in codes]
    seen: set[int] = set()
    while pending:
        code, names = pending.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        if len(seen) > _MOST_FUNCTIONS:
            return "it calls too many functions to look through"
        pending += [(inner, names) for inner in code.co_consts if isinstance(inner, types.CodeType)]
        for name, value in _used(code, names):
            reason, functions = _judge(name, value)
            if reason:
                return reason
            pending += [(function.__code__, function.__globals__) for function in functions]
    return ""


def why_call_only_once(function: Any) -> str:
    """As `why_only_once`, for calling `function`."""
    reason, functions = _judge(getattr(function, "__name__", "it"), function)
    for found in functions:
        reason = reason or why_only_once([found.__code__], found.__globals__)
    return reason


def _used(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The dotted global names that code loads, as far as they can be followed, with what is there."""
    path, value, known = "", None, False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if known:
                yield path, value
            path = str(step.argval)
            known = path in names or hasattr(builtins, path)
            value = names[path] if path in names else getattr(builtins, path, None)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and known and isinstance(value, (types.ModuleType, type)):
            path += f".{step.argval}"
            known = hasattr(value, step.argval)
            value = getattr(value, step.argval, None)
        elif step.opname == "IMPORT_NAME":
            yield str(step.argval), types.ModuleType(str(step.argval))
        elif known:
            yield path, value
            known = False
    if known:
        yield path, value


def _judge(name: str, value: Any) -> tuple[str, list[types.FunctionType]]:
    """(why using `value` cannot be repeated or "", the functions that using it may run)."""
    functions: list[types.FunctionType] = []
    pending = [value]
    seen: set[int] = set()
    while pending and len(seen) < _MOST_FUNCTIONS:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, (list, tuple, set, frozenset, collections.deque)):
            pending += item
            continue
        if isinstance(item, dict):
            pending += item.values()
            continue
        if _is_plain(item):
            continue
        own, parts = _parts(item)
        if own is None:
            return f"it uses `{name}`, " + (_described(item) if item is value else f"and in it {_described(item)}"), []
        functions += own
        pending += parts
    return "", functions


def _is_plain(item: Any) -> bool:
    atoms = (int, float, complex, str, bytes, type(None), type(...), np.generic, np.ndarray, np.dtype, range, slice)
    return isinstance(item, (*atoms, jax.Array, jax.ShapeDtypeStruct, jax.sharding.Sharding, jax.sharding.Mesh))


def _parts(item: Any) -> tuple[list[types.FunctionType] | None, list[Any]]:
    """(functions that `item` runs, or None where it is not known to be harmless; what else to look at)."""
    if isinstance(item, types.ModuleType):
        return ([] if _is_pure(item.__name__) else None), []
    if getattr(item, "__name__", "") in IMPURE_NAMES and callable(item):
        return None, []
    if isinstance(item, types.FunctionType):
        if _is_pure(item.__module__ or ""):
            return [], []
        return [item], [c.cell_contents for c in item.__closure__ or () if _filled(c)]
    if isinstance(item, types.MethodType):
        return [], [item.__func__, item.__self__]
    if isinstance(item, (functools.partial, jax.tree_util.Partial)):
        return [], [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, (collections.abc.Iterator, np.random.Generator)):
        return None, []
    if isinstance(item, (property, staticmethod, classmethod)):
        return [], [part for part in (getattr(item, "fget", None), getattr(item, "__func__", None)) if part]
    if isinstance(item, type):
        return [], [] if _is_pure(item.__module__) else [
            part for part in vars(item).values() if callable(part) or isinstance(part, property)
        ]
    if isinstance(item, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        owner = getattr(item, "__self__", None)
        made_by = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__module__
        return ([] if _is_pure(getattr(item, "__module__", None) or made_by) else None), []
    wrapped = inspect.unwrap(item) if callable(item) and hasattr(item, "__wrapped__") else item
    if wrapped is not item:
        return [], [wrapped]
    if _is_pure(type(item).__module__):
        return [], []
    if hasattr(item, "__dict__"):
        return [], [type(item), *vars(item).values()]
    return None, []


def _is_pure(module: str) -> bool:
    return module.partition(".")[0] in PURE_PACKAGES and not any(
        module == impure or module.startswith(impure + ".") for impure in IMPURE_MODULES
    )


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def _described(item: Any) -> str:
    if isinstance(item, types.ModuleType):
        return f"the module {item.__name__}"
    kind = type(item).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
