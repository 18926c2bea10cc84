"""What goes to a compiler and what comes back: frozen records of plain data, picklable, without jax.

Making a request out of a program is `export.py`; carrying it out is `worker.py` (here) and `worker_main.py` (there).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple


class MemoryUse(NamedTuple):
    """Bytes per device; temporaries are None where they would be another compiler's."""

    arguments: int
    outputs: int
    temporaries: int | None
    aliased: int
    peak: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshShape:
    """A mesh of devices without the devices: axis names, lengths, and whether each is Auto, Explicit or Manual."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileRequest:
    """One exported program and the machine to compile it for.

    Attributes:
        program: `jax.export` serialization, its arguments and results flattened to tuples.
        platform: "cpu", "tpu" or "cuda".
        topology: what the platform's compiler calls the slice; "" for the CPU.
        slices: TPU slices over DCN, or GPU nodes.
        devices: devices that the program is partitioned over.
        mesh: the mesh the program's shardings live on, or None.
        donated: flat numbers of the arguments whose buffers may be overwritten.
        options: XLA compiler options.
        config: jax configuration of the kernel that changes what is compiled.
        gpu: textual GpuTargetConfigProto; "" for others.
        partitioned: hand back the module as it stands after partitioning, before the platform's own passes.
        seconds: how long the compiler may take.
        memory_bytes: how much memory the compiler's process may hold.
    """

    program: bytes = field(repr=False)
    platform: str
    topology: str = ""
    slices: int = 1
    devices: int = 1
    mesh: MeshShape | None = None
    donated: tuple[int, ...] = ()
    options: Mapping[str, str | bool | int | float] = field(default_factory=dict)
    config: Mapping[str, str | bool] = field(default_factory=dict)
    gpu: str = field(default="", repr=False)
    partitioned: bool = False
    seconds: float = 1800.0
    memory_bytes: int | None = None

    def key(self) -> str:
        """A digest of everything that decides the result; limits do not."""
        decisive = []
        for each in fields(self):
            if each.name not in ("seconds", "memory_bytes"):
                value = getattr(self, each.name)
                decisive.append((each.name, sorted(value.items()) if isinstance(value, Mapping) else value))
        mesh = self.mesh and (self.mesh.names, self.mesh.sizes, self.mesh.types)
        plain = [(name, mesh if name == "mesh" else value) for name, value in decisive]
        return hashlib.sha256(repr(plain).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileResult:
    """What a compiler made of a request.

    Attributes:
        module: serialized HloModuleProto.
        compiler: name and version.
        memory: what it occupies on a device, or None where the compiler does not say.
        coordinates: place of every device on the torus, in the order of the mesh; slice last. Empty off TPUs.
        device_kind: what JAX calls the device.
        seconds: how long the compiler took.
        cached: whether it came from the cache.
    """

    module: bytes = field(repr=False)
    compiler: str
    memory: MemoryUse | None
    coordinates: tuple[tuple[int, ...], ...] = ()
    device_kind: str = ""
    seconds: float = 0.0
    cached: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why there is no result: the compiler's own words, and whether the process can go on."""

    message: str
    kind: str = "compiler"


def write_frame(stream: object, record: object) -> None:
    """Write one record: eight bytes of length, then its pickle."""
    data = pickle.dumps(record, protocol=5)
    stream.write(len(data).to_bytes(8, "little"))  # type: ignore[attr-defined]
    stream.write(data)  # type: ignore[attr-defined]
    stream.flush()  # type: ignore[attr-defined]


def read_frame(stream: object) -> object:
    """Read one record.

    Raises:
        EOFError: the other side is gone, or went in the middle of a record.
    """
    length = _exactly(stream, 8)
    return pickle.loads(_exactly(stream, int.from_bytes(length, "little")))


def _exactly(stream: object, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)  # type: ignore[attr-defined]
        if not part:
            raise EOFError("the other process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
