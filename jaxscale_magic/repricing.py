"""The same program compiled and priced again, changed in one way: what the rules of `advice.py` ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jaxscale_magic.advice import Situation
from jaxscale_magic.batch import find_batch
from jaxscale_magic.capture import Captured
from jaxscale_magic.judging import Judged, devices_of, judge
from jaxscale_magic.narrowing import with_narrow_inputs
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Verdict, price
from jaxscale_magic.targets.aim import Aim

#: Seconds that re-tracing for advice may take in all, and how many programs it may compile.
SECONDS = 5.0
COMPILES = 40


def situation(
    report: RooflineReport, captured: Captured, judged: Judged, aim: Aim | None, batch: str | None
) -> Situation:
    """What the rules of advice get: the priced program, and the means to price it changed.

    Args:
        report: the program as it is.
        captured: how it was traced.
        judged: how it was compiled.
        aim: what it is held against; None for the devices that are here.
        batch: the input's dimension that the user calls the batch, or None.

    Raises:
        JaxscaleError: `batch` names no input.
    """
    specs = input_specs(captured)
    deadline = time.perf_counter() + SECONDS
    left = COMPILES

    def priced(trace: Callable[[], Any]) -> Verdict | None:
        nonlocal left
        if left == 0 or time.perf_counter() + judged.module.seconds > deadline:
            return None
        left -= 1
        try:
            cost, ops = judge(trace(), aim, devices_of(captured.leaves)).count(report.target.chip, captured.files)
        except Exception:  # the program does not trace or compile at this size or dtype: nothing to advise
            return None
        return price(cost, ops, report.target.chip)

    def reprice(changed: Sequence[Any]) -> Verdict | None:
        retrace = captured.retrace
        return priced(lambda: retrace(changed)) if retrace is not None else None

    def store(narrow: Mapping[int, Any]) -> Verdict | None:
        program = with_narrow_inputs(captured.traced.jaxpr, {k: specs[k].dtype for k in narrow})
        changed = [
            jax.ShapeDtypeStruct(s.shape, narrow.get(k, s.dtype), sharding=s.sharding) for k, s in enumerate(specs)
        ]
        return priced(lambda: jax.jit(program).trace(*changed))

    return Situation(
        cost=report.cost,
        verdict=report.verdict,
        measured=report.measured,
        names=captured.names,
        specs=specs,
        batch=find_batch(captured, specs, batch),
        reprice=reprice,
        store=store,
    )


def input_specs(captured: Captured) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shape and dtype of each flat input, and its sharding where it lies on several devices."""
    shardings = [getattr(leaf, "sharding", None) for leaf in captured.leaves]
    return tuple(
        jax.ShapeDtypeStruct(
            v.aval.shape,
            v.aval.dtype,
            sharding=sharding if sharding is not None and sharding.num_devices > 1 else None,
        )
        for v, sharding in zip(captured.traced.jaxpr.jaxpr.invars, shardings, strict=True)
    )
