"""What is known of one chip: a frozen record whose every number carries its source.

Looking chips up is in `catalog.py`, measuring the host in `host.py`; nothing here reads files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jaxscale_magic.errors import ChipError

#: dtype suffixes that name a matmul precision other than the default (`jax.lax.Precision`).
PRECISIONS = ("high", "highest")


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

    def peak_flops(self, dtype: str) -> float:
        """FLOP/s at which this chip multiplies `dtype` ("bf16", "f32", "f32:highest", ...).

        A dtype without a unit of its own runs on another's, in one or several passes (`runs_as`).

        Raises:
            ChipError: no figure is known for it; the message says which are.
        """
        base, _, _precision = dtype.partition(":")
        for key in (dtype, base):
            if key in self.matrix_flops:
                return self.matrix_flops[key].value
            if key in self.runs_as:
                other, passes = self.runs_as[key]
                return self.peak_flops(other) / passes
        known = ", ".join(sorted(self.matrix_flops))
        raise ChipError(f"no matrix peak is known for {dtype} on {self.title}; known: {known}.")

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
