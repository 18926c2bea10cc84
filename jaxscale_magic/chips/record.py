"""What is known of one chip: a frozen record whose every number carries its source.

Looking chips up is in `catalog.py`, measuring the host in `host.py`; nothing here reads files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jaxscale_magic.errors import ChipError

#: dtype suffixes that name a matmul precision other than the default (`jax.lax.Precision`).
PRECISIONS = ("high", "highest")
#: dtype -> the one under which records hold its figure: hardware has one rate for all of a family.
DTYPE_FAMILY = {
    "u8": "s8",
    "u4": "s4",
    "f8e5m2": "f8",
    "f8e5m2fnuz": "f8",
    "f8e4m3": "f8",
    "f8e4m3fn": "f8",
    "f8e4m3fnuz": "f8",
    "f8e4m3b11fnuz": "f8",
    "f8e3m4": "f8",
    "f8e8m0fnu": "f8",
    "f4e2m1fn": "f4",
    # Complex products are counted in real FLOPs.
    "c64": "f32",
    "c128": "f64",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number of a data sheet: SI value, where it was read, and how sure it is.

    Attributes:
        value: in SI units (FLOP/s, bytes, bytes/s, seconds).
        source: who says so.
        note: a conflict or a condition worth telling; may be empty.
        confidence: "high", or "low" where sources disagree or the value is inferred.
        alternatives: edition or source name -> the value it gives instead.
    """

    value: float
    source: str
    note: str = ""
    confidence: str = "high"
    alternatives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One chip; figures are per chip unless `per_device()` made them per JAX device.

    Attributes:
        name: the short name, as in `--on v5e`.
        title: the full name for people, as in "TPU v5e".
        kind: "tpu", "gpu" or "cpu".
        aliases: other spellings that `chip()` accepts (lower case).
        device_kinds: the `jax.Device.device_kind` strings that mean this chip.
        devices_per_chip: how many JAX devices one chip appears as.
        matrix_flops: dtype -> dense FLOP/s of the matrix unit ("bf16", "f32", "s8", "f8", ...).
        vector_flops: FLOP/s of the vector unit in f32, or None where nobody publishes it.
        hbm_bytes: capacity of the main memory.
        hbm_bandwidth: bytes/s of the main memory.
        cache_bytes, cache_bandwidth: a last-level cache that serves repeated runs (host CPU only).
        runs_as: dtype[:precision] -> (dtype whose unit does the work, passes needed).
        figures: every other figure by name (network, PCIe, VMEM, clock, ...), same units.
        facts: plain words and counts that are no rates (torus rank, pod shape, wrap rule, ...).
    """

    name: str
    title: str
    kind: str
    aliases: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    devices_per_chip: int = 1
    matrix_flops: Mapping[str, Figure]
    vector_flops: Figure | None = None
    hbm_bytes: Figure | None = None
    hbm_bandwidth: Figure
    cache_bytes: Figure | None = None
    cache_bandwidth: Figure | None = None
    runs_as: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    def unit(self, dtype: str) -> tuple[str, float]:
        """The key of `matrix_flops` that multiplies `dtype`, and the passes needed: 1.0 on a unit of its own.

        A dtype without a unit of its own runs on another's, in one or several passes (`runs_as`); the most
        exact spelling decides ("f32:highest", then "f32"), then the family's ("f8" for "f8e4m3fn").

        Raises:
            ChipError: no figure is known for it; the message says which are.
        """
        key, passes = dtype, 1.0
        for _ in range(len(self.runs_as) + 1):
            base = key.partition(":")[0]
            for spelling in (key, base, DTYPE_FAMILY.get(base, base)):
                if spelling in self.matrix_flops:
                    return spelling, passes
                if spelling in self.runs_as:
                    key, more = self.runs_as[spelling]
                    passes *= more
                    break
            else:
                break
        known = ", ".join(sorted(self.matrix_flops))
        raise ChipError(f"no matrix peak is known for {dtype} on {self.title}; known: {known}.")

    def peak_flops(self, dtype: str) -> float:
        """FLOP/s at which this chip multiplies `dtype` ("bf16", "f32", "f32:highest", ...); see `unit`.

        Raises:
            ChipError: no figure is known for it; the message says which are.
        """
        key, passes = self.unit(dtype)
        return self.matrix_flops[key].value / passes

    def figure(self, name: str) -> Figure:
        """A further figure by name, such as "ici_link_bandwidth".

        Raises:
            ChipError: this chip's record does not hold it.
        """
        try:
            return self.figures[name]
        except KeyError:
            known = ", ".join(sorted(self.figures)) or "none"
            raise ChipError(f"{self.title} has no figure {name!r}; it has: {known}.") from None

    def ridge(self, dtype: str) -> float:
        """Arithmetic intensity (FLOP/byte) at which compute and memory time are equal."""
        return self.peak_flops(dtype) / self.hbm_bandwidth.value

    def all_figures(self) -> dict[str, Figure]:
        """Every figure of the record by its path: "hbm_bandwidth", "matrix_flops.bf16", "figures.clock"."""
        found: dict[str, Figure] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Figure):
                found[each.name] = value
            elif each.name in ("matrix_flops", "figures"):
                found |= {f"{each.name}.{key}": figure for key, figure in value.items()}
        return found

    def in_edition(self, edition: str, source: str) -> Chip:
        """The same chip by another source: figures with an alternative of that name take its value."""
        picked = {
            path: replace(figure, value=figure.alternatives[edition], source=source)
            if edition in figure.alternatives
            else figure
            for path, figure in self.all_figures().items()
        }
        changed: dict[str, Any] = {path: figure for path, figure in picked.items() if "." not in path}
        for group in ("matrix_flops", "figures"):
            changed[group] = {key: picked[f"{group}.{key}"] for key in getattr(self, group)}
        return replace(self, facts={**self.facts, "edition": edition}, **changed)

    def per_device(self) -> Chip:
        """The same chip with rates and capacities divided by `devices_per_chip`."""
        n = self.devices_per_chip
        if n == 1:
            return self

        def share(figure: Figure | None) -> Figure | None:
            if figure is None:
                return None
            return replace(
                figure,
                value=figure.value / n,
                alternatives={k: v / n for k, v in figure.alternatives.items()},
            )

        bandwidth = share(self.hbm_bandwidth)
        assert bandwidth is not None
        return replace(
            self,
            devices_per_chip=1,
            matrix_flops={d: replace(f, value=f.value / n) for d, f in self.matrix_flops.items()},
            vector_flops=share(self.vector_flops),
            hbm_bytes=share(self.hbm_bytes),
            hbm_bandwidth=bandwidth,
        )
