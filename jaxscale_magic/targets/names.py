"""What a target's name means: `cpu:N`, `v5e:4x4`, `v5p:4x4x4*2`, `h100:8`, `h100:8*4` → `Destination`.

The shapes that a TPU generation can have are stated here as rules and tested against the TPU compiler itself.
Nothing is compiled or looked up on disk here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from jaxscale_magic.errors import TargetError, nearest

_FORM = re.compile(r"(?P<chip>[a-z0-9 _-]+?)(?::(?P<shape>\d+(?:x\d+)*))?(?:\*(?P<slices>\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A TPU generation as the TPU compiler knows it.

    Attributes:
        chip: name of the chip's record.
        topology: the compiler's word for it.
        rank: dimensions of the torus.
        pod: lengths of the largest pod's axes, in chips.
        devices_per_chip: JAX devices that a chip appears as.
    """

    chip: str
    topology: str
    rank: int
    pod: tuple[int, ...]
    devices_per_chip: int = 1


#: Pod sizes: Google Cloud TPU system architecture pages.
GENERATIONS = {
    generation.chip: generation
    for generation in (
        Generation(chip="v2", topology="v2", rank=2, pod=(16, 16), devices_per_chip=2),
        Generation(chip="v3", topology="v3", rank=2, pod=(32, 32), devices_per_chip=2),
        Generation(chip="v4", topology="v4", rank=3, pod=(16, 16, 16), devices_per_chip=2),
        Generation(chip="v5e", topology="v5e", rank=2, pod=(16, 16)),
        Generation(chip="v5p", topology="v5p", rank=3, pod=(16, 20, 28)),
        Generation(chip="v6e", topology="v6e", rank=2, pod=(16, 16)),
        Generation(chip="v7x", topology="tpu7x", rank=3, pod=(16, 24, 24), devices_per_chip=2),
    )
}

#: GPUs that the CUDA compiler can be given a description of -> GPUs of one NVLink domain.
GPU_NODES = {"a100": 8, "h100": 8, "h200": 8, "b200": 8, "gb200": 72}

_SPELLINGS = {
    "tpu v2": "v2",
    "tpu v3": "v3",
    "tpu v4": "v4",
    "v4p": "v4",
    "tpu v5 lite": "v5e",
    "v5 lite": "v5e",
    "v5litepod": "v5e",
    "tpu v5e": "v5e",
    "tpu v5": "v5p",
    "tpu v5p": "v5p",
    "tpu v6 lite": "v6e",
    "tpu v6e": "v6e",
    "tpu7x": "v7x",
    "tpu v7x": "v7x",
    "7x": "v7x",
    "ironwood": "v7x",
    "trillium": "v6e",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """What to compile for.

    Attributes:
        name: the name in its shortest full spelling, as in "v5e:4x4".
        platform: "cpu", "tpu" or "cuda": whose compiler.
        chip: the name of the chip's record; "host" for `cpu:N`.
        shape: chips along each axis of one slice (TPU), GPUs a node, or CPU devices.
        slices: TPU slices joined by the data-centre network, or GPU nodes.
        devices_per_chip: JAX devices that a chip appears as.
    """

    name: str
    platform: str
    chip: str
    shape: tuple[int, ...]
    slices: int = 1
    devices_per_chip: int = 1

    @property
    def chips(self) -> int:
        """Chips over all slices."""
        return math.prod(self.shape) * self.slices

    @property
    def devices(self) -> int:
        """JAX devices over all slices."""
        return self.chips * self.devices_per_chip

    @property
    def topology(self) -> str:
        """What the platform's compiler calls one slice ("v5e:4x4"), or nodes × GPUs ("1x1x8")."""
        if self.platform == "tpu":
            return f"{GENERATIONS[self.chip].topology}:{'x'.join(map(str, self.shape))}"
        return f"{self.slices}x1x{self.shape[0]}" if self.platform == "cuda" else ""


def destination(name: str | Destination) -> Destination:
    """What a target's name means.

    Args:
        name: such as "cpu:8", "v5e" (one chip), "v5p:4x4x4", "v5p:4x4x4*2" (two slices over DCN), "h100:8",
            "h100:8*4" (four nodes).

    Raises:
        TargetError: no such target, or a shape that it does not come in; the message lists those it does.
    """
    if isinstance(name, Destination):
        return name
    text = " ".join(name.strip().lower().replace("×", "x").split())
    form = _FORM.fullmatch(text)
    if form is None:
        raise TargetError(f"{name!r} is no target: write a chip and its shape, as in {_EXAMPLES}.")
    chip = _SPELLINGS.get(form["chip"], form["chip"])
    shape = tuple(int(n) for n in form["shape"].split("x")) if form["shape"] else ()
    slices = int(form["slices"] or 1)
    if slices < 1 or 0 in shape:
        raise TargetError(f"{name!r}: every length and the number of slices is at least 1.")
    if chip in ("cpu", "host"):
        return _cpu(name, shape, slices)
    if chip in GENERATIONS:
        return _tpu(name, GENERATIONS[chip], shape, slices)
    if chip in GPU_NODES:
        return _gpu(name, chip, shape, slices)
    known = ("cpu", *GENERATIONS, *GPU_NODES)
    close = ", ".join(nearest(chip, known))
    raise TargetError(
        f"{name!r}: no compiler targets a chip called {chip!r}; {close and 'nearest: '}{close}{close and '; '}"
        f"known: {', '.join(known)}. Write {_EXAMPLES}."
    )


_EXAMPLES = "cpu:8, v5e, v5e:4x4, v5p:4x4x4*2, h100:8 or h100:8*4"


def _cpu(name: str, shape: tuple[int, ...], slices: int) -> Destination:
    if len(shape) > 1 or slices > 1:
        raise TargetError(f"{name!r}: CPU devices have no shape; write cpu:N, as in cpu:8.")
    count = shape or (1,)
    return Destination(name=f"cpu:{count[0]}", platform="cpu", chip="host", shape=count)


def _tpu(name: str, generation: Generation, shape: tuple[int, ...], slices: int) -> Destination:
    shape = shape or (1,) * generation.rank
    if not is_shape(generation, shape):
        some = ", ".join("x".join(map(str, s)) for s in common_shapes(generation))
        raise TargetError(
            f"{name!r}: {generation.chip} has no slice of that shape. Its slices have {generation.rank} lengths, "
            f"the first two each 1 or even, up to {'x'.join(map(str, generation.pod))}; such as {some}."
        )
    return Destination(
        name=f"{generation.chip}:{'x'.join(map(str, shape))}" + (f"*{slices}" if slices > 1 else ""),
        platform="tpu",
        chip=generation.chip,
        shape=shape,
        slices=slices,
        devices_per_chip=generation.devices_per_chip,
    )


def _gpu(name: str, chip: str, shape: tuple[int, ...], slices: int) -> Destination:
    node = GPU_NODES[chip]
    count = shape or (1,)
    if len(count) > 1 or count[0] > node:
        raise TargetError(
            f"{name!r}: one NVLink domain holds 1 to {node} {chip.upper()}; write {chip}:{node} for one, "
            f"{chip}:{node}*4 for four of them."
        )
    return Destination(
        name=f"{chip}:{count[0]}" + (f"*{slices}" if slices > 1 else ""),
        platform="cuda",
        chip=chip,
        shape=count,
        slices=slices,
    )


def is_shape(generation: Generation, shape: tuple[int, ...]) -> bool:
    """Whether a slice can have that shape: hosts hold 2x2 chips, or a single row."""
    return (
        len(shape) == generation.rank
        and all(n == 1 or n % 2 == 0 for n in shape[:2])
        and all(n <= most for n, most in zip(sorted(shape), sorted(generation.pod), strict=True))
    )


def common_shapes(generation: Generation) -> Iterator[tuple[int, ...]]:
    """Slices whose lengths are powers of two, smallest first, each shape in ascending order."""
    lengths = [2**k for k in range(max(generation.pod).bit_length()) if 2**k <= max(generation.pod)]
    shapes = (s for s in product(lengths, repeat=generation.rank) if tuple(sorted(s)) == s)
    found = [s for s in shapes if is_shape(generation, s) and (max(s) <= 4 * min(s) or generation.rank == 2)]
    yield from sorted(found, key=lambda s: (math.prod(s), s))
