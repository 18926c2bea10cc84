"""A traced program → the portable part of a `CompileRequest`: StableHLO, shardings, donation, options.

Nothing is allocated and no device is touched. What cannot travel (host callbacks, debug prints) is taken out by
`callbacks.py` beforehand and told in a note.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.export

from jaxscale_magic.errors import TargetError
from jaxscale_magic.jax_internals import traced_compiler_options, traced_meshes
from jaxscale_magic.targets.callbacks import foreign_targets, without_callbacks
from jaxscale_magic.targets.names import Destination
from jaxscale_magic.targets.request import CompileRequest, MeshShape

#: Settings of the kernel that change what a compiler makes of a program that is lowered already.
_CONFIG = ("jax_enable_x64", "jax_default_matmul_precision", "jax_exec_time_optimization_effort")


class _AlreadyTraced:
    """A `jax.stages.Wrapped` whose trace is at hand, so that the export is of exactly that trace."""

    def __init__(self, traced: Any) -> None:
        self._traced = traced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("only its trace is wanted")

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return self._traced

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        return self._traced.lower(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        return self._traced.out_info


def export_program(
    traced: Any,
    where: Destination,
    *,
    options: Mapping[str, str | bool | int | float] | None = None,
    partitioned: bool = False,
) -> tuple[CompileRequest, tuple[str, ...]]:
    """The request that compiles a traced program for a destination, and notes on what was left out of it.

    Args:
        traced: a `jax.stages.Traced`; its inputs' shardings may live on an `AbstractMesh`.
        where: what to compile for.
        options: XLA compiler options, on top of those of the program's own `jit`.
        partitioned: ask for the CPU compiler's module after partitioning, as a stand-in.

    Raises:
        TargetError: it cannot be exported, or is partitioned over another number of devices.
    """
    platform = "cpu" if partitioned else where.platform
    mesh = mesh_of(traced)
    donated = tuple(k for k, info in enumerate(_leaves(traced.args_info)) if info.donated)
    own_options = traced_compiler_options(traced)
    traced, notes = without_callbacks(traced)
    try:
        exported = jax.export.export(
            _AlreadyTraced(traced), platforms=[platform], disabled_checks=_custom_calls(traced)
        )()
        flat = jax.tree.structure(((0,) * len(exported.in_avals), {}))
        results = jax.tree.structure((0,) * len(exported.out_avals))
        exported = dataclasses.replace(exported, in_tree=flat, out_tree=results)
        program = bytes(exported.serialize())
    except Exception as error:
        raise TargetError(f"this program cannot be exported for {where.name}: {first_line(error)}") from error
    devices = exported.nr_devices
    if devices > where.devices:
        raise TargetError(
            f"this program is partitioned over {devices} devices, and {where.name} has {where.devices}; "
            "name a larger target, or a smaller mesh."
        )
    request = CompileRequest(
        program=program,
        platform=platform,
        topology="" if platform == "cpu" else where.topology,
        slices=where.slices,
        devices=devices,
        mesh=mesh if devices > 1 else None,
        donated=donated,
        options={**own_options, **(options or {})},
        config={name: value for name in _CONFIG if (value := getattr(jax.config, name, None)) not in (None, 0.0)},
        partitioned=partitioned,
    )
    return request, notes


def _leaves(info: Any) -> list[Any]:
    return jax.tree.leaves(info, is_leaf=lambda x: hasattr(x, "donated"))


def mesh_of(traced: Any) -> MeshShape | None:
    """The mesh of the program's shardings: the arguments' own, else that of its constraints; None without one."""
    for mesh in traced_meshes(traced):
        types = [kind.name for kind in getattr(mesh, "axis_types", None) or ()]
        return MeshShape(
            names=tuple(map(str, mesh.axis_names)),
            sizes=tuple(int(n) for n in mesh.axis_sizes),
            types=tuple(types or ["Auto"] * len(mesh.axis_names)),
        )
    return None


def _custom_calls(traced: Any) -> list[jax.export.DisabledSafetyCheck]:
    """Permission for every custom call: whether it exists is for the target's compiler to say."""
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in foreign_targets(traced.jaxpr)]


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
