"""The compiler's own process: requests in over stdin, results out, one at a time. Runs under any interpreter with jax.

It may run where this package is not installed, so it imports only `request.py`, `jax_internals.py`, jax and the
standard library. Starting it, limits and renewal are `worker.py`'s business.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from jaxscale_magic.targets.request import (
    CompileRequest,
    CompileResult,
    Failure,
    MemoryUse,
    MeshShape,
    read_frame,
    write_frame,
)

#: The last pass before XLA:CPU widens bf16 to f32: partitioned, calls inlined, not fused yet.
PARTITIONED_PASS = "call-inliner"


def main() -> None:
    """Serve until the other side closes its end."""
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a compiler prints goes where its errors go, never between two frames
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            request = read_frame(requests)
        except EOFError:
            return
        try:
            answer: CompileResult | Failure = serve(request)  # type: ignore[arg-type]
        except Exception as error:  # whatever the compiler raises is for the notebook to read
            answer = Failure(message=f"{type(error).__name__}: {error}"[:20_000])
        write_frame(results, answer)


def _leave_with_parent(parent: int) -> None:
    """End when the notebook's process has gone, however it went."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def serve(request: CompileRequest) -> CompileResult:
    """Compile one request with the compiler that this process holds."""
    import jax
    import jax.export

    from jaxscale_magic.jax_internals import module_bytes

    for name, value in request.config.items():
        jax.config.update(name, value)
    exported = jax.export.deserialize(bytearray(request.program))
    devices = _devices(request)
    mesh = _mesh(request, devices)
    if mesh is None:
        order = list(devices[: request.devices])
        everywhere: Any = jax.sharding.SingleDeviceSharding(order[0])
        shardings = [everywhere] * len(exported.in_avals)
        results: Any = None
    else:
        order = list(mesh.devices.flat)
        replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        shardings = [s if s is not None else replicated for s in exported.in_shardings_jax(mesh)]
        results = exported.out_shardings_jax(mesh)

    def program(*args: Any) -> Any:
        return exported.call(*args)

    program.__name__ = program.__qualname__ = exported.fun_name
    args = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)
        for aval, sharding in zip(exported.in_avals, shardings, strict=True)
    ]
    jitted: Any = jax.jit(program, donate_argnums=request.donated, keep_unused=True)
    if results is not None and any(r is not None for r in results):
        jitted = jax.jit(program, donate_argnums=request.donated, keep_unused=True, out_shardings=tuple(results))
    with _in_mesh(mesh), tempfile.TemporaryDirectory(prefix="jaxscale-magic-") as folder:
        lowered = jitted.lower(*args)
        options = dict(request.options)
        if request.partitioned:
            options |= {
                "xla_dump_to": folder,
                "xla_dump_hlo_pass_re": PARTITIONED_PASS,
                "xla_dump_hlo_as_proto": True,
                "xla_dump_hlo_as_text": False,
            }
        start = time.perf_counter()
        compiled = lowered.compile(compiler_options=options or None)
        seconds = time.perf_counter() - start
        module = _dumped(folder) if request.partitioned else module_bytes(compiled)
    return CompileResult(
        module=module,
        compiler=compiler_version(request.platform),
        memory=memory_use(compiled, temporaries_count=not request.partitioned),
        coordinates=tuple(_place(device) for device in order) if request.platform == "tpu" else (),
        device_kind=order[0].device_kind,
        seconds=seconds,
    )


def _in_mesh(mesh: Any) -> contextlib.AbstractContextManager[Any]:
    """Explicit axes are looked up in the context, not only in the arguments."""
    import jax

    return contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh)


def _devices(request: CompileRequest) -> Sequence[Any]:
    import jax

    if request.platform == "cpu":
        return jax.devices("cpu")
    from jax.experimental import topologies

    if request.platform == "tpu":
        extra: dict[str, Any] = {"num_slices": request.slices} if request.slices > 1 else {}
        return topologies.get_topology_desc(request.topology, platform="tpu", **extra).devices
    described = topologies.get_topology_desc(
        "jaxscale-magic", platform="cuda", target_config=request.gpu, topology=request.topology
    )
    return described.devices


def _place(device: Any) -> tuple[int, ...]:
    coordinates = tuple(int(c) for c in getattr(device, "coords", ()))
    core = int(getattr(device, "core_on_chip", 0) or 0)
    return (*coordinates, core, int(getattr(device, "slice_index", 0) or 0))


def _mesh(request: CompileRequest, devices: Sequence[Any]) -> Any:
    """The request's mesh laid over the devices as JAX itself lays it: axes along the torus, slices outermost."""
    import numpy as np
    from jax.experimental import mesh_utils
    from jax.sharding import AxisType, Mesh

    shape = request.mesh
    if shape is None:
        if request.devices == 1:
            return None
        shape = MeshShape(names=("devices",), sizes=(request.devices,), types=("Auto",))
    devices = list(devices[: math.prod(shape.sizes)])
    if request.platform == "tpu" and request.slices > 1:
        inner, outer = _over_slices(shape.sizes, request.slices)
        laid = mesh_utils.create_hybrid_device_mesh(inner, outer, devices, allow_split_physical_axes=True)
    elif request.platform == "tpu":
        laid = mesh_utils.create_device_mesh(shape.sizes, devices, allow_split_physical_axes=True)
    else:
        laid = np.asarray(devices, dtype=object).reshape(shape.sizes)
    return Mesh(laid, shape.names, axis_types=tuple(AxisType[t] for t in shape.types))


def _over_slices(sizes: Sequence[int], slices: int) -> tuple[list[int], list[int]]:
    """Mesh lengths inside a slice and across slices: the leading axes cross first, as data parallelism does."""
    inner, outer, left = list(sizes), [1] * len(sizes), slices
    for index, size in enumerate(sizes):
        crossing = math.gcd(size, left)
        inner[index], outer[index], left = size // crossing, crossing, left // crossing
    if left != 1:
        raise ValueError(f"a mesh of {'x'.join(map(str, sizes))} cannot be laid over {slices} slices")
    return inner, outer


def _dumped(folder: str) -> bytes:
    """The module after the partitioning passes, as the compiler left it in a folder."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".pb"))
    wanted = [name for name in names if f".after_{PARTITIONED_PASS}." in name]
    wanted = wanted or [name for name in names if name.endswith("before_optimizations.hlo.pb")]
    if not wanted:
        raise RuntimeError(f"XLA:CPU left no module behind; this jaxlib has no {PARTITIONED_PASS} pass")
    with open(os.path.join(folder, wanted[-1]), "rb") as file:
        return file.read()


def memory_use(compiled: Any, *, temporaries_count: bool = True) -> MemoryUse | None:
    """The compiler's own account of memory, or None where it gives none.

    Without the temporaries where another compiler stands in: it widens and stores what the chip's would not.
    """
    try:
        stats = compiled.memory_analysis()
        arguments, outputs = stats.argument_size_in_bytes, stats.output_size_in_bytes
        temporaries, aliased = stats.temp_size_in_bytes, stats.alias_size_in_bytes
    except Exception:  # backends differ in what they implement, and in how they say so
        return None
    least = arguments + outputs - aliased
    peak = max(least + temporaries, getattr(stats, "peak_memory_in_bytes", 0)) if temporaries_count else least
    return MemoryUse(arguments, outputs, temporaries if temporaries_count else None, aliased, peak)


def compiler_version(platform: str) -> str:
    """Which compiler this process holds, in words: "XLA:TPU, libtpu 0.0.42.1, jax 0.10.2"."""
    jaxlib = f"jaxlib {importlib.metadata.version('jaxlib')}"
    title, packages = {
        "tpu": ("XLA:TPU", ("libtpu", "libtpu-nightly")),
        "cuda": ("XLA:GPU", ("jax-cuda13-pjrt", "jax-cuda12-pjrt")),
    }.get(platform, ("XLA:CPU", ()))
    return ", ".join([title, *_versions(packages), jaxlib])


def _versions(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{package} {importlib.metadata.version(package)}"
            return


if __name__ == "__main__":
    main()
    sys.exit(0)
