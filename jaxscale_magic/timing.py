"""Measuring a compiled program on the devices that are here: warmed up, blocked on every output, repeated.

What it should take is in `roofline.py`; calibrating the machine is in `chips/host.py`.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from jaxscale_magic.errors import JaxscaleError

#: One sample lasts at least this long, so that the clock's own steps do not show.
SAMPLE_SECONDS = 1e-3
#: No more samples than this are taken, and a bar is shown where timing takes longer than that.
MOST_SAMPLES, BAR_SECONDS = 200, 2.0
#: Outputs of this size and more are written into recycled buffers on a CPU, where fresh pages cost page faults.
RECYCLED_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Wall-clock seconds of one run, blocked on every output.

    Attributes:
        minimum, median: over `runs` timed samples.
        spread: interquartile range.
        runs: samples; each is `loops` calls, divided by `loops`.
        loops: calls a sample.
        dispatch: seconds that launching any program costs here, contained in the figures above.
        fresh_outputs: median seconds where every run allocates its outputs anew, as an ordinary call does
            (page faults on a CPU); None where that is how it was measured anyway.
        notes: what a reader must know of the measurement.
    """

    minimum: float
    median: float
    spread: float
    runs: int
    loops: int = 1
    dispatch: float = 0.0
    fresh_outputs: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How much to measure: calls a sample, samples (None: chosen), and seconds in all."""

    loops: int | None = None
    repeats: int | None = None
    budget: float = 2.0


#: Something that prepares `n` calls outside the timed region and hands back what runs them, blocked.
Prepare = Callable[[int], Callable[[], None]]


def measure(
    compiled: Any,
    traced: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    effort: Effort,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Time a compiled program on its own inputs.

    Args:
        compiled: the `jax.stages.Compiled` to run.
        traced: the `jax.stages.Traced` that it comes from.
        args, kwargs: its inputs. Donated ones are copied for every call; the caller's arrays stay whole.
        effort: how much to measure.
        clock: seconds, for tests.

    Raises:
        JaxscaleError: an input was donated to another program already.
    """
    leaves, structure = jax.tree.flatten((tuple(args), kwargs))
    if any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves):
        raise JaxscaleError("an input was donated to another program and is gone; make it again first.")
    leaves = [_on_device(leaf) for leaf in leaves]
    infos = jax.tree.leaves(traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    donated = [k for k, info in enumerate(infos) if info.donated]
    plain = _plain_calls(compiled, leaves, structure, donated)
    dispatch = dispatch_seconds(next(iter(leaves[0].devices())) if leaves else jax.devices()[0])
    recycling = None if donated else _recycled_calls(traced, leaves)
    if recycling is None:
        return replace(repeat(plain, effort, clock), dispatch=dispatch)
    fresh = repeat(plain, Effort(loops=1, repeats=3, budget=effort.budget / 2), clock)
    measured = repeat(recycling, effort, clock)
    return replace(measured, dispatch=dispatch, fresh_outputs=fresh.median)


def _on_device(leaf: Any) -> Any:
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def _plain_calls(compiled: Any, leaves: list[Any], structure: Any, donated: Sequence[int]) -> Prepare:
    """Ordinary calls; donated inputs are renewed before the clock starts."""

    def inputs() -> Any:
        given = [jnp.copy(leaf) if k in donated else leaf for k, leaf in enumerate(leaves)]
        return jax.tree.unflatten(structure, given)

    def prepare(calls: int) -> Callable[[], None]:
        prepared = [inputs() for _ in range(calls)] if donated else [inputs()] * calls
        jax.block_until_ready(prepared)

        def run() -> None:
            for args, kwargs in prepared:
                jax.block_until_ready(compiled(*args, **kwargs))

        return run

    return prepare


def _recycled_calls(traced: Any, leaves: list[Any]) -> Prepare | None:
    """Calls that write large outputs into the buffers of the run before; None where that changes nothing.

    Large outputs are given buffers through arguments that are donated and otherwise unused.
    """
    outputs = jax.tree.leaves(traced.out_info)
    large = [
        k
        for k, output in enumerate(outputs)
        if not jnp.issubdtype(output.dtype, jax.dtypes.extended)
        and math.prod(output.shape) * output.dtype.itemsize >= RECYCLED_BYTES
    ]
    if not large or jax.default_backend() != "cpu" or any(len(leaf.devices()) > 1 for leaf in leaves):
        return None
    function = jaxpr_as_fun(traced.jaxpr)

    def with_spares(spares: list[Any], given: list[Any]) -> Any:
        return function(*given)

    spares = [jnp.zeros(outputs[k].shape, outputs[k].dtype) for k in large]
    try:
        recycling = jax.jit(with_spares, donate_argnums=0, keep_unused=True).lower(spares, leaves).compile()
        made = jax.block_until_ready(recycling(spares, leaves))
    except Exception:  # memory for a second set of outputs may not be there: ordinary calls are timed then
        return None
    state = [[made[k] for k in large]]

    def prepare(calls: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(calls):
                results = jax.block_until_ready(recycling(state[0], leaves))
                state[0] = [results[k] for k in large]

        return run

    return prepare


def repeat(prepare: Prepare, effort: Effort, clock: Callable[[], float]) -> Measured:
    """Warm up, choose calls a sample, and sample until the budget is spent.

    At least one sample is taken, whatever it costs; an interrupt ends it, and what was measured so far counts.
    """

    def timed(calls: int) -> float:
        run = prepare(calls)
        start = clock()
        run()
        return (clock() - start) / calls

    timed(1)
    once = timed(1)
    loops = effort.loops or max(1, math.ceil(SAMPLE_SECONDS / max(once, 1e-9)))
    wanted = effort.repeats or max(1, min(MOST_SAMPLES, int(effort.budget / max(once * loops, 1e-9))))
    samples: list[float] = []
    notes: tuple[str, ...] = ()
    start = clock()
    try:
        for _ in _with_bar(wanted, once * loops * wanted):
            samples.append(timed(loops))
            if effort.repeats is None and clock() - start > effort.budget:
                break
    except KeyboardInterrupt:
        if not samples:
            raise
        notes = (f"Interrupted after {len(samples)} of {wanted} samples.",)
    return Measured(
        minimum=min(samples),
        median=median(samples),
        spread=interquartile_range(samples),
        runs=len(samples),
        loops=loops,
        notes=notes,
    )


def interquartile_range(samples: Sequence[float]) -> float:
    """The distance between the quartiles, by linear interpolation; 0 for one sample."""
    ordered = sorted(samples)

    def quantile(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return quantile(0.75) - quantile(0.25)


def _with_bar(samples: int, expected: float) -> Any:
    if expected <= BAR_SECONDS:
        return range(samples)
    from tqdm.auto import tqdm

    return tqdm(range(samples), desc="timing", leave=False)


@functools.cache
def dispatch_seconds(device: Any) -> float:
    """Seconds from calling the smallest program to its result, on one device; measured once a process."""
    with jax.default_device(device):
        number = jax.device_put(jnp.float32(0), device)
        trivial = jax.jit(lambda x: x + 1).lower(number).compile()
        jax.block_until_ready(trivial(number))
        times = []
        for _ in range(100):
            start = time.perf_counter()
            jax.block_until_ready(trivial(number))
            times.append(time.perf_counter() - start)
    return min(times)
