"""Compile a traced program with the compiler at hand and hand its module back as bytes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from jaxscale_magic.errors import TargetError
from jaxscale_magic.jax_internals import backend_version, module_bytes
from jaxscale_magic.targets.request import MemoryUse

#: The last pass before XLA:CPU widens bf16 to f32: partitioned, calls inlined, not fused yet.
_STANDIN_PASS = "call-inliner"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledModule:
    """What a compiler made of a program.

    Attributes:
        module: serialized HloModuleProto.
        fused: whether the compiler has fused it; if not, its traffic must be modelled.
        compiler: which compiler, in words.
        stands_in: why that is not the chip's own; "" where it is.
        devices: how many devices the program is partitioned over.
        memory: what it occupies, or None where the compiler does not say.
        executable: the `jax.stages.Compiled`, where it can run here.
        seconds: how long compiling took.
    """

    module: bytes
    fused: bool
    compiler: str
    stands_in: str
    devices: int
    memory: MemoryUse | None
    executable: Any
    seconds: float


def compile_here(traced: Any) -> CompiledModule:
    """Compile for the devices that are here.

    Raises:
        TargetError: the compiler refuses the program; its own words are in the message.
    """
    start = time.perf_counter()
    try:
        executable = traced.lower().compile()
    except Exception as error:
        raise TargetError(f"the compiler refuses this program: {_first_line(error)}") from error
    seconds = time.perf_counter() - start
    platform = jax.default_backend()
    return CompiledModule(
        module=module_bytes(executable),
        fused=True,
        compiler=backend_version(platform),
        stands_in="",
        devices=_device_count(executable),
        memory=_memory(executable),
        executable=executable,
        seconds=seconds,
    )


def compile_standing_in(traced: Any, chip_title: str) -> CompiledModule:
    """The program as XLA:CPU has it before anything CPU-specific is done to it, for another chip's figures.

    Raises:
        TargetError: the compiler refuses the program, or left no module behind.
    """
    start = time.perf_counter()
    closed = traced.jaxpr
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    function = jaxpr_as_fun(closed)
    with tempfile.TemporaryDirectory(prefix="jaxscale-magic-") as folder:
        options: dict[str, str | bool] = {
            "xla_dump_to": folder,
            "xla_dump_hlo_pass_re": _STANDIN_PASS,
            "xla_dump_hlo_as_proto": True,
            "xla_dump_hlo_as_text": False,
        }
        try:
            with jax.default_device(jax.devices("cpu")[0]):
                jitted = jax.jit(function, keep_unused=True, donate_argnums=_donated(traced))
                executable = jitted.lower(*shapes).compile(compiler_options=options)
            data = _dumped(folder)
        except OSError as error:
            raise TargetError(f"the compiler's module cannot be written to {folder}: {error}") from error
        except Exception as error:
            raise TargetError(f"the compiler refuses this program: {_first_line(error)}") from error
    if data is None:
        raise TargetError("XLA:CPU left no module behind; this version of jaxlib has no call-inliner pass.")
    return CompiledModule(
        module=data,
        fused=False,
        compiler=backend_version("cpu"),
        stands_in=f"the CPU compiler stands in for {chip_title}'s own: FLOPs and compulsory bytes are exact, "
        "scheduled bytes assume that elementwise work is fused into its neighbours",
        devices=1,
        memory=_memory(executable, temporaries_count=False),
        executable=None,
        seconds=time.perf_counter() - start,
    )


def _dumped(folder: str) -> bytes | None:
    marker = f".after_{_STANDIN_PASS}."
    names = sorted(name for name in os.listdir(folder) if marker in name and name.endswith(".pb"))
    names = names or sorted(name for name in os.listdir(folder) if name.endswith("before_optimizations.hlo.pb"))
    if not names:
        return None
    with open(os.path.join(folder, names[0]), "rb") as file:
        return file.read()


def _donated(traced: Any) -> Sequence[int]:
    """Flat numbers of the donated inputs."""
    leaves = jax.tree.leaves(traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    return [k for k, leaf in enumerate(leaves) if leaf.donated]


def _device_count(executable: Any) -> int:
    shardings = jax.tree.leaves((executable.input_shardings, executable.output_shardings))
    return max((len(s.device_set) for s in shardings if hasattr(s, "device_set")), default=1)


def _memory(executable: Any, *, temporaries_count: bool = True) -> MemoryUse | None:
    """The compiler's own account of memory, or None where it gives none.

    Without the temporaries where another compiler stands in: it widens and stores what the chip's would not.
    """
    try:
        stats = executable.memory_analysis()
        arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
        temporaries, aliased = stats.temp_size_in_bytes, stats.alias_size_in_bytes
    except Exception:  # backends differ in what they implement, and in how they say so
        return None
    least = arguments + outputs - aliased
    peak = max(least + temporaries, getattr(stats, "peak_memory_in_bytes", 0)) if temporaries_count else least
    return MemoryUse(arguments, outputs, temporaries if temporaries_count else None, aliased, peak)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
