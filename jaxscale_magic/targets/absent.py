"""Compiling a traced program for a machine that is not here, end to end: name → export → worker → module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jaxscale_magic.targets.compile import CompiledModule
from jaxscale_magic.targets.export import export_program
from jaxscale_magic.targets.gpu import describe_gpu
from jaxscale_magic.targets.install import find_compiler
from jaxscale_magic.targets.names import GENERATIONS, GPU_NODES, Destination, common_shapes, destination
from jaxscale_magic.targets.request import CompileRequest, CompileResult
from jaxscale_magic.targets.worker import compile_request

STANDS_IN = "CPU compiler standing in; `python -m jaxscale_magic install {platform}` for the real one"


def prepare(
    traced: Any,
    target: str | Destination,
    *,
    options: Mapping[str, str | bool | int | float] | None = None,
    stand_in: bool | None = None,
    seconds: float = 1800.0,
) -> tuple[CompileRequest, tuple[str, ...]]:
    """The request for `compile_request`, and notes on what the export left out. Nothing is compiled.

    Args:
        traced: a `jax.stages.Traced`; `ShapeDtypeStruct` inputs with shardings on an `AbstractMesh` need no devices.
        target: a name that `destination` understands.
        options: XLA compiler options.
        stand_in: let the CPU compiler partition it instead; None: where the real compiler is not installed.
        seconds: how long the compiler may take.

    Raises:
        TargetError: no such target, or the program cannot be exported for it.
    """
    where = destination(target)
    if stand_in is None:
        stand_in = find_compiler(where.platform) is None
    stand_in = stand_in and where.platform != "cpu"
    request, notes = export_program(traced, where, options=options, partitioned=stand_in)
    gpu = describe_gpu(where.chip) if where.platform == "cuda" and not stand_in else ""
    return replace(request, gpu=gpu, seconds=seconds), notes


def module_of(request: CompileRequest, result: CompileResult, target: str | Destination) -> CompiledModule:
    """A worker's result in the form that the rest of the package reads."""
    where = destination(target)
    return CompiledModule(
        module=result.module,
        fused=not request.partitioned,
        compiler=result.compiler,
        stands_in=STANDS_IN.format(platform=where.platform) if request.partitioned else "",
        devices=request.devices,
        memory=result.memory,
        executable=None,
        seconds=result.seconds,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A module compiled for an absent machine.

    Attributes:
        module: in the form that the rest of the package reads.
        where: what it was compiled for.
        request: what was asked; `request.mesh` is the mesh.
        result: what came back; `result.coordinates` places the mesh's devices on the torus.
        notes: what the export left out or replaced, and devices left idle.
    """

    module: CompiledModule
    where: Destination
    request: CompileRequest
    result: CompileResult
    notes: tuple[str, ...] = ()


def compile_for(
    traced: Any,
    target: str | Destination,
    *,
    options: Mapping[str, str | bool | int | float] | None = None,
    stand_in: bool | None = None,
    seconds: float = 1800.0,
) -> Compiled:
    """Compile a traced program for a machine that is not here.

    Args and errors: as `prepare`, and TargetError where the compiler refuses, dies, hangs or outgrows memory.
    """
    request, notes = prepare(traced, target, options=options, stand_in=stand_in, seconds=seconds)
    result = compile_request(request)
    where = destination(target)
    if request.devices < where.devices:
        notes = (*notes, f"{where.name} has {where.devices} devices; this program uses {request.devices} of them.")
    return Compiled(module=module_of(request, result, where), where=where, result=result, request=request, notes=notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Available:
    """A family of targets: how it is written, whether its compiler is here, and how to get it."""

    name: str
    example: str
    compiler: str
    command: str


def targets() -> tuple[Available, ...]:
    """Every family of targets; `compiler` is "" where it is missing, and `command` then installs it."""
    families = [("cpu", "cpu:8", "cpu")]
    for generation in GENERATIONS.values():
        largest = list(common_shapes(generation))[-1]
        families.append((generation.chip, f"{generation.chip}:{'x'.join(map(str, largest))}", "tpu"))
    families += [(chip, f"{chip}:{node}", "cuda") for chip, node in GPU_NODES.items()]
    rows = []
    for name, example, platform in families:
        found = find_compiler(platform)
        rows.append(
            Available(
                name=name,
                example=example,
                compiler=found.version if found else "",
                command="" if found else f"python -m jaxscale_magic install {platform}",
            )
        )
    return tuple(rows)
