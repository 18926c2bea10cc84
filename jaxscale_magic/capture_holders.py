"""Where a Python value keeps its parts, and how to put other parts there: one table entry a kind of object.

Reading and writing of single objects only; walking from the notebook's names is in `capture_places.py`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

#: What an object holds: how the place is written in Python (".w", "[0]") -> the value there.
Parts = dict[Any, Any]
#: Marks a place, as (STATIC, name), whose value jax takes for a constant of the pytree.
STATIC = object()


class Kind(NamedTuple):
    """One kind of object with parts.

    Attributes:
        name: what to call it.
        read: object -> its parts.
        write: puts parts into the object, or None where it cannot be changed.
        rebuild: (object, parts) -> another object of the kind with these parts; None where none can be made.
    """

    name: str
    read: Callable[[Any], Parts]
    write: Callable[[Any, Parts], None] | None = None
    rebuild: Callable[[Any, Parts], Any] | None = None


def _read_sequence(value: Any) -> Parts:
    return dict(enumerate(value))


def _write_list(value: list[Any], parts: Parts) -> None:
    value[:] = parts.values()


def _write_dict(value: dict[Any, Any], parts: Parts) -> None:
    if list(value) != list(parts):  # keep the order that the parts have
        value.clear()
    for key, part in parts.items():
        value[key] = part


def _write_deque(value: collections.deque[Any], parts: Parts) -> None:
    value.clear()
    value.extend(parts.values())


def _write_set(value: set[Any], parts: Parts) -> None:
    value.clear()
    value.update(parts.values())


def _rebuild_tuple(value: tuple[Any, ...], parts: Parts) -> Any:
    kind: Any = type(value)
    return kind._make(parts.values()) if hasattr(kind, "_make") else kind(parts.values())


def _write_objects(value: np.ndarray[Any, Any], parts: Parts) -> None:
    for number, part in parts.items():
        value.flat[number] = part


def _read_partial(value: functools.partial[Any]) -> Parts:
    positional: Parts = {f".args[{k}]": part for k, part in enumerate(value.args)}
    return {".func": value.func} | positional | {(".keywords", key): part for key, part in value.keywords.items()}


def _write_partial(value: Any, parts: Parts) -> None:
    args = tuple(part for place, part in parts.items() if isinstance(place, str) and place.startswith(".args"))
    keywords = {place[1]: part for place, part in parts.items() if isinstance(place, tuple)}
    value.__setstate__((parts[".func"], args, keywords, vars(value)))


def _read_function(value: types.FunctionType) -> Parts:
    parts: Parts = {("cell", k): cell.cell_contents for k, cell in enumerate(value.__closure__ or ()) if _filled(cell)}
    parts |= {("default", k): part for k, part in enumerate(value.__defaults__ or ())}
    parts |= {("kwdefault", key): part for key, part in (value.__kwdefaults__ or {}).items()}
    return parts | {("attribute", key): part for key, part in vars(value).items()}


def _write_function(value: types.FunctionType, parts: Parts) -> None:
    defaults = []
    attributes = {}
    for (where, key), part in parts.items():
        if where == "cell":
            (value.__closure__ or ())[key].cell_contents = part
        elif where == "default":
            defaults.append(part)
        elif where == "kwdefault":
            (value.__kwdefaults__ or {})[key] = part
        else:
            attributes[key] = part
    if defaults:
        value.__defaults__ = tuple(defaults)
    _write_dict(vars(value), attributes)


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def _slots(value: Any) -> Iterator[str]:
    for base in type(value).__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                yield f"_{base.__name__.lstrip('_')}{name}" if name[:2] == "__" != name[-2:] else name


def _read_attributes(value: Any) -> Parts:
    own: Parts = {name: getattr(value, name) for name in _slots(value) if hasattr(value, name)}
    return own | getattr(value, "__dict__", {})


def _write_attributes(value: Any, parts: Parts) -> None:
    # Past the class's own __setattr__, which a frozen dataclass or a module of a library refuses.
    own = getattr(value, "__dict__", {})
    slots = set(_slots(value))
    _write_dict(own, {name: part for name, part in parts.items() if name not in slots})
    for name in slots:
        if name in parts:
            object.__setattr__(value, name, parts[name])
        elif hasattr(value, name):
            object.__delattr__(value, name)


def _read_class(value: type) -> Parts:
    return {name: part for name, part in vars(value).items() if not (name[:2] == name[-2:] == "__")}


def _write_class(value: type, parts: Parts) -> None:
    for name in _read_class(value):
        if name not in parts:
            type.__delattr__(value, name)
    for name, part in parts.items():
        if vars(value).get(name) is not part:
            type.__setattr__(value, name, part)


def _one_level(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda part: part is not value)


def _read_registered(value: Any) -> Parts:
    return {jax.tree_util.keystr(path): part for path, part in _one_level(value)[0]}


def _read_children(value: Any) -> Parts:
    children = {id(part) for _, part in _one_level(value)[0]}
    return {name if id(part) in children else (STATIC, name): part for name, part in _read_attributes(value).items()}


def _write_children(value: Any, parts: Parts) -> None:
    _write_attributes(value, {p[1] if isinstance(p, tuple) and p[0] is STATIC else p: x for p, x in parts.items()})


def _rebuild_registered(value: Any, parts: Parts) -> Any:
    return jax.tree_util.tree_unflatten(_one_level(value)[1], list(parts.values()))


def _read_opaque(value: Any) -> Parts:
    return {(k,): part for k, part in enumerate(gc.get_referents(value)) if part is not type(value)}


LIST = Kind("list", _read_sequence, _write_list)
DICT = Kind("dict", dict, _write_dict)
DEQUE = Kind("deque", _read_sequence, _write_deque)
SET = Kind("set", _read_sequence, _write_set)
TUPLE = Kind("tuple", _read_sequence, rebuild=_rebuild_tuple)
OBJECTS = Kind("array of objects", lambda value: dict(enumerate(value.flat)), _write_objects)
PARTIAL = Kind("functools.partial", _read_partial, _write_partial)
FUNCTION = Kind("function", _read_function, _write_function)
METHOD = Kind("method", lambda value: {".__self__": value.__self__, ".__func__": value.__func__})
ATTRIBUTES = Kind("object", _read_attributes, _write_attributes)
CHILDREN = Kind("registered pytree", _read_children, _write_children)
CLASS = Kind("class", _read_class, _write_class)
REGISTERED = Kind("registered pytree", _read_registered, rebuild=_rebuild_registered)
WRAPPER = Kind("wrapped function", lambda value: {".__wrapped__": value.__wrapped__})
OPAQUE = Kind("object", _read_opaque)

#: Types with parts -> their kind; subclasses included, the first that fits.
BUILT_IN: tuple[tuple[type | tuple[type, ...], Kind], ...] = (
    (list, LIST),
    (dict, DICT),
    (tuple, TUPLE),
    (collections.deque, DEQUE),
    (set, SET),
    (functools.partial, PARTIAL),
    (types.FunctionType, FUNCTION),
    (types.MethodType, METHOD),
)
#: Types without parts that could hold an array of the notebook's.
ATOMS = (
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    type(None),
    type(...),
    range,
    slice,
    np.generic,
    np.dtype,
    jax.Array,
    jax.ShapeDtypeStruct,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.FrameType,
    types.TracebackType,
    jax.sharding.Sharding,
    jax.sharding.Mesh,
    jax.sharding.PartitionSpec,
    jax.Device,
)
#: Packages whose objects keep no array of a cell; walking them leads into the machinery.
_MACHINERY_NAMES = """
    jax jaxlib numpy IPython ipykernel traitlets ipywidgets bqplot comm tornado zmq asyncio threading
    concurrent logging multiprocessing weakref _thread _io io _weakref importlib _frozen_importlib
    jaxscale_magic
"""
_MACHINERY = frozenset(_MACHINERY_NAMES.split())


def kind_of(value: Any, notebook: str) -> Kind | None:
    """How to read and write `value`'s parts; None for what has none.

    Args:
        value: anything but an array.
        notebook: the `__name__` of the notebook's namespace.
    """
    if isinstance(value, ATOMS):
        return None
    if isinstance(value, np.ndarray):
        return OBJECTS if value.dtype == object else None
    for types_, kind in BUILT_IN:
        if isinstance(value, types_):
            return kind
    if callable(value) and not isinstance(value, type) and _package(value) in ("jax", "jaxlib", "functools"):
        return WRAPPER if hasattr(value, "__wrapped__") else ATTRIBUTES if _has_attributes(value) else None
    if isinstance(value, type):
        return CLASS if value.__module__ == notebook else None
    if is_registered(value):
        return CHILDREN if _children_are_attributes(value) else REGISTERED
    if _package(value) in _MACHINERY:
        return None
    return ATTRIBUTES if _has_attributes(value) else OPAQUE


def is_registered(value: Any) -> bool:
    """Whether jax knows the parts of `value`: a container, a registered dataclass, a library's module."""
    return not jax.tree_util.all_leaves([value])


def is_notebooks_own(value: Any, notebook: str) -> bool:
    """Whether an object's class, or a function, was defined in the notebook, or it is a dataclass."""
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__") == notebook
    return type(value).__module__ == notebook or dataclasses.is_dataclass(value)


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _has_attributes(value: Any) -> bool:
    return hasattr(value, "__dict__") or any(True for _ in _slots(value))


def _children_are_attributes(value: Any) -> bool:
    """Whether jax's children of a registered object are just its attributes, so that they can be put back there."""
    if not _has_attributes(value):
        return False
    held = {id(part) for part in _read_attributes(value).values()}
    return all(id(part) in held for _, part in _one_level(value)[0])
