"""The one file that touches private names of jax and jaxlib. Everything else asks here.

Each function says what it replaces, so that a public way can take its place the day there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state

from jaxscale_magic.errors import ModuleError


def module_bytes(compiled: Any) -> bytes:
    """The optimized module of a `jax.stages.Compiled`, serialized as an HloModuleProto.

    Raises:
        ModuleError: the backend does not hand its module out.
    """
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except Exception as error:
        raise ModuleError(f"this backend does not hand out its compiled module: {error}.") from error
    if len(modules) != 1:
        raise ModuleError(f"the executable holds {len(modules)} modules; exactly one can be read.")
    data: bytes = modules[0].as_serialized_hlo_module_proto()
    return data


def text_to_module_bytes(text: str) -> bytes:
    """HLO text, as `--xla_dump_to` writes it, serialized as an HloModuleProto.

    Raises:
        ModuleError: XLA's parser refuses the text.
    """
    from jaxlib import _hlo  # type: ignore[attr-defined]

    try:
        data: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except Exception as error:
        raise ModuleError(f"XLA cannot read this HLO text: {error}") from error
    return data


def backend_version(platform: str) -> str:
    """What runs on a platform, in words: "XLA:CPU, jaxlib 0.10.2"."""
    from importlib.metadata import version

    names = {"cpu": "XLA:CPU", "gpu": "XLA:GPU", "cuda": "XLA:GPU", "tpu": "XLA:TPU"}
    return f"{names.get(platform, platform)}, jaxlib {version('jaxlib')}"


#: Packages whose code writes an object out because the user asked it to.
_WRITERS = frozenset(["IPython", "logging", "pprint", "rich", "string", "textwrap", "tqdm", "warnings"])


@contextmanager
def tracers_refuse_text(namespace: Mapping[str, Any], error: type[BaseException]) -> Iterator[None]:
    """Raise `error` where the notebook's own code asks for the text of an array traced in this block.

    A tracer's text is never what was wanted ("JitTracer(float32[8])"). jax's messages and tracers of an inner
    `jit` or `vmap`, which print like that without this package too, are left alone. There is no public hook.
    """
    here = get_opaque_trace_state(convention="flax")
    tracer: Any = jax.core.Tracer
    original = tracer.__repr__

    def refuse(self: Any) -> str:
        asker = sys._getframe(1).f_globals
        package = str(asker.get("__name__", "")).partition(".")[0]
        if (asker is namespace or package in _WRITERS) and here == get_opaque_trace_state(convention="flax"):
            raise error
        text: str = original(self)
        return text

    tracer.__repr__ = refuse
    try:
        yield
    finally:
        tracer.__repr__ = original


def static_arguments(jitted: Any) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """(positions, names) of a jitted function's static arguments; None where jax does not tell."""
    info: Any = getattr(jitted, "_jit_info", None)
    try:
        return tuple(info.static_argnums), tuple(info.static_argnames)
    except (AttributeError, TypeError):
        return None


def traced_compiler_options(traced: Any) -> dict[str, Any]:
    """The `compiler_options` that a traced function's own `jit` was given; no public attribute holds them."""
    pairs = getattr(traced, "_params", {}).get("compiler_options_kvs", ())
    return dict(pairs)


def traced_meshes(traced: Any) -> list[Any]:
    """Every mesh that a traced function's arguments, results, constraints and shard_maps name, arguments first.

    `jax.stages.Traced` does not show the shardings of its arguments.
    """
    parameters = getattr(traced, "_params", {})
    shardings = [getattr(meta, "sharding", None) for meta in getattr(traced, "_meta_tys_flat", ())]
    shardings += [*parameters.get("in_shardings", ()), *parameters.get("out_shardings", ())]
    shardings += [getattr(aval, "sharding", None) for aval in traced.jaxpr.in_avals]
    found = [getattr(sharding, "mesh", None) for sharding in shardings]
    found.append(parameters.get("ctx_mesh"))
    pending, seen = [traced.jaxpr.jaxpr], set()
    while pending:
        jaxpr = pending.pop()
        if id(jaxpr) in seen:
            continue
        seen.add(id(jaxpr))
        for equation in jaxpr.eqns:
            given = equation.params
            found += [given.get("mesh"), getattr(given.get("sharding"), "mesh", None)]
            for value in given.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if hasattr(inner, "eqns"):
                        pending.append(inner)
    return [mesh for mesh in found if getattr(mesh, "axis_names", ())]


def traced_shardings(traced: Any) -> list[Any]:
    """The sharding of each flat argument of a traced function where one is given, else None."""
    given = list(getattr(traced, "_params", {}).get("in_shardings", ()))
    metas = list(getattr(traced, "_meta_tys_flat", ()))
    count = len(traced.jaxpr.in_avals)
    found: list[Any] = []
    for index in range(count):
        options = [given[index]] if len(given) == count else []
        options += [getattr(metas[index], "sharding", None)] if len(metas) == count else []
        found.append(next((s for s in options if getattr(s, "mesh", None) is not None), None))
    return found
