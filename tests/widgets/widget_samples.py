"""Small chips and programs whose every figure can be worked out in the head."""

from __future__ import annotations

from collections.abc import Mapping

from jaxscale_magic.chips.record import Chip, Figure
from jaxscale_magic.cost import Collective, Cost, OpCost, Source, Work
from jaxscale_magic.report.record import Measured, RooflineReport, Target
from jaxscale_magic.roofline import price

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'single' <img src=x onerror=alert(2)>"


def figure(value: float) -> Figure:
    return Figure(value=value, source="made up")


def chip(
    name: str = "one",
    *,
    peaks: Mapping[str, float] | None = None,
    bandwidth: float = 1e9,
    vector: float | None = None,
    title: str = "",
    devices: int = 1,
    cache: tuple[float, float] | None = None,
) -> Chip:
    """A chip of 100 GFLOP/s in bf16 and 1 GB/s: its ridge is at 100 FLOP/byte."""
    return Chip(
        name=name,
        title=title or f"Chip {name}",
        kind="tpu",
        devices_per_chip=devices,
        matrix_flops={d: figure(v) for d, v in ({"bf16": 1e11} if peaks is None else peaks).items()},
        vector_flops=figure(vector) if vector else None,
        hbm_bandwidth=figure(bandwidth),
        cache_bytes=figure(cache[0]) if cache else None,
        cache_bandwidth=figure(cache[1]) if cache else None,
    )


def op(label: str, flops: int, nbytes: int, *, dtype: str = "bf16", vector: int = 0, count: int = 1) -> OpCost:
    return OpCost(
        name=label,
        opcode="fusion",
        label=label,
        source=Source(file="<cell>", line=3, text=f"y = {label}"),
        count=count,
        work=Work(flops={dtype: flops} if flops else {}, vector_flops=vector, hbm_bytes=nbytes),
    )


def report(
    ops: tuple[OpCost, ...] = (),
    on: Chip | None = None,
    *,
    measured: float | None = None,
    collectives: tuple[Collective, ...] = (),
    title: str = "y = x @ w",
    min_bytes: int | None = None,
) -> RooflineReport:
    on = on or chip()
    work = sum((o.work for o in ops), Work())
    cost = Cost(
        work=work,
        min_hbm_bytes=work.hbm_bytes if min_bytes is None else min_bytes,
        collectives=collectives,
    )
    return RooflineReport(
        title=title,
        target=Target(name=on.name, chip=on, compiler="XLA"),
        cost=cost,
        module_ops=ops,
        verdict=price(cost, ops, on),
        measured=None if measured is None else Measured(minimum=measured, median=measured, spread=0.0, runs=7),
    )
