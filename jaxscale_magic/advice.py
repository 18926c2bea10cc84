"""What would help, each with a number: rules that re-price the same program changed in one way.

A rule is a function registered by name; it gets a `Situation` and returns an `Advice`, or None where nothing
helps. Tracing and compiling happen behind `Situation.reprice`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jaxscale_magic.batch import Batch
from jaxscale_magic.cost import Cost
from jaxscale_magic.quantity import seconds as in_seconds
from jaxscale_magic.roofline import COMPUTE, MEMORY, Verdict
from jaxscale_magic.timing import Measured

#: A change that saves less than this share of the time is not worth a sentence.
WORTH = 0.1
#: No batch beyond this is proposed.
LARGEST_BATCH = 2**24


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """One thing that would help, with the number it was re-priced to.

    Attributes:
        rule: the rule's registered name.
        text: one or two sentences, the number included.
        saves: seconds saved at the roof, or None where the rule is about a crossing, not a saving.
        value: the rule's own number (such as the crossing batch), or None.
    """

    rule: str
    text: str
    saves: float | None = None
    value: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """A priced program and the means to price it changed.

    Attributes:
        cost, verdict: as it is now.
        measured: what a run took, or None.
        names: a label for each flat input.
        specs: shape and dtype of each flat input.
        batch: what counts as the batch, or None.
        reprice: specs -> the verdict on the program traced so, or None where it cannot be traced or no time is
            left.
        store: {flat input: dtype} -> the verdict on the program with these inputs stored so and widened where they
            are used, or None as above.
    """

    cost: Cost
    verdict: Verdict
    measured: Measured | None
    names: tuple[str, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    batch: Batch | None
    reprice: Callable[[Sequence[Any]], Verdict | None]
    store: Callable[[Mapping[int, Any]], Verdict | None]


Rule = Callable[[Situation], Advice | None]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a rule under its function's name."""
    RULES[function.__name__] = function
    return function


def advise(situation: Situation) -> tuple[Advice, ...]:
    """Every rule's advice, the largest saving first, crossings after savings."""
    found = [advice for apply in RULES.values() if (advice := apply(situation)) is not None]
    return tuple(sorted(found, key=lambda advice: -(advice.saves or 0.0)))


def roof_time(verdict: Verdict) -> float:
    """Seconds at the program's own roof, by the bytes that the module moves."""
    return max(verdict.times.compute or 0.0, verdict.times.memory, verdict.times.comms or 0.0)


def _excess(verdict: Verdict) -> float:
    """Memory time minus compute time: positive where the program is memory-bound."""
    return verdict.times.memory - (verdict.times.compute or 0.0)


@rule
def batch_crossing(situation: Situation) -> Advice | None:
    """The smallest batch at which the program is compute-bound, found by re-tracing at other sizes."""
    verdict, batch = situation.verdict, situation.batch
    if batch is None:
        return None
    now = situation.specs[batch.leaf].shape[batch.dim]
    if now < 1 or not verdict.times.compute or verdict.bound not in (COMPUTE, MEMORY):
        return _no_crossing(situation, "compute and memory time are not both known and above the others")
    seen: dict[int, Verdict | None] = {now: verdict}

    def excess(size: int) -> float | None:
        if size not in seen:
            seen[size] = situation.reprice(batch.resized(situation.specs, size))
        found = seen[size]
        return None if found is None else _excess(found)

    crossing = find_crossing(excess, now)
    at = seen.get(crossing) if crossing is not None else None
    if crossing is None or at is None:
        unknown = next((size for size, found in seen.items() if found is None), None)
        return _no_crossing(
            situation,
            "memory time stays above compute time at every size tried"
            if unknown is None
            else f"it cannot be traced and priced with {unknown} instead of {now}",
        )
    name = _batch_name(situation)
    if crossing > now:
        text = (
            f"Compute-bound from {name} = {crossing} on (now {now}): an item then takes "
            f"{in_seconds(roof_time(at) / crossing)} instead of {in_seconds(roof_time(verdict) / now)}."
        )
    elif crossing < now:
        text = f"It stays compute-bound down to {name} = {crossing} (now {now}); below that, memory limits it."
    else:
        text = f"{name[0].upper()}{name[1:]} = {now} is just where it becomes compute-bound."
    return Advice(rule="batch_crossing", text=text, value=float(crossing))


def _batch_name(situation: Situation) -> str:
    assert situation.batch is not None
    leaf, dim = situation.names[situation.batch.leaf], situation.batch.dim
    return f"{leaf}'s dimension {dim}" if dim else f"batch ({leaf}'s rows)"


def _no_crossing(situation: Situation, why: str) -> Advice | None:
    """What to say where no batch crosses: nothing, unless the user asked for it."""
    if situation.batch is None or not situation.batch.asked:
        return None
    return Advice(rule="batch_crossing", text=f"No crossing was found for the {_batch_name(situation)}: {why}.")


def find_crossing(excess: Callable[[int], float | None], start: int) -> int | None:
    """The smallest whole number at which `excess` is no longer positive.

    `excess` falls with its argument and is close to linear (bytes and FLOPs are, in the batch), so the secant
    finds it in a few evaluations; the last step is checked on both neighbours.

    Args:
        excess: value at a whole number of at least 1, or None where it cannot be had.
        start: where to begin.

    Returns:
        The crossing, or None where there is none up to `LARGEST_BATCH` or evaluations ran out.
    """
    here = excess(start)
    if here is None:
        return None
    low, high = (start, None) if here > 0 else (None, start)
    f_low, f_high = here, here
    step = start
    while low is None or high is None:
        if high is None:
            assert low is not None
            step *= 2
            candidate = min(step, LARGEST_BATCH)
            value = excess(candidate)
            if value is None or (value > 0 and candidate == LARGEST_BATCH):
                return None
            if value > 0:
                slope = (value - f_low) / (candidate - low)
                if slope >= 0:  # no batch brings memory time below compute time
                    return None
                low, f_low = candidate, value
                step = max(candidate, min(LARGEST_BATCH // 2, math.ceil((candidate - value / slope) * 0.51)))
            else:
                high, f_high = candidate, value
        else:
            candidate = high // 2
            if candidate < 1:
                return 1
            value = excess(candidate)
            if value is None:
                return None
            if value > 0:
                low, f_low = candidate, value
            else:
                high, f_high = candidate, value
    halve = False
    while high - low > 1:
        if halve or f_low == f_high:
            candidate = (low + high) // 2
        else:
            candidate = math.ceil(low + f_low * (high - low) / (f_low - f_high))
            candidate = min(max(candidate, low + 1), high - 1)
        value = excess(candidate)
        if value is None:
            return None
        width = high - low
        if value > 0:
            low, f_low = candidate, value
        else:
            high, f_high = candidate, value
        halve = high - low > width / 2 and not halve
    return high


def _saving(rule_name: str, situation: Situation, changed: Verdict | None, what: str) -> Advice | None:
    """Advice for a change, where it saves enough to be worth a sentence."""
    if changed is None:
        return None
    before, after = roof_time(situation.verdict), roof_time(changed)
    taken = situation.measured.minimum if situation.measured else before
    if not before or before - after < WORTH * max(before, taken):
        return None
    bound = "" if changed.bound == situation.verdict.bound else f" and {changed.bound}-bound"
    text = f"{what}: {in_seconds(after)} instead of {in_seconds(before)}, {before / after:.2g} × as fast{bound}."
    return Advice(rule=rule_name, text=text, saves=before - after)


@rule
def int8_weights(situation: Situation) -> Advice | None:
    """Weights stored in int8 and converted where they are multiplied, for a memory-bound matmul."""
    batch = situation.batch
    if situation.verdict.bound != MEMORY or not situation.cost.flops or batch is None:
        return None  # without a batch, what is a weight is not known
    weights = [
        k
        for k, spec in enumerate(situation.specs)
        if k != batch.leaf
        and k not in batch.others
        and len(spec.shape) >= 2
        and jnp.issubdtype(spec.dtype, jnp.floating)
        and jnp.dtype(spec.dtype).itemsize > 1
    ]
    stored = sum(math.prod(situation.specs[k].shape) * situation.specs[k].dtype.itemsize for k in weights)
    if not weights or stored < WORTH * situation.cost.min_hbm_bytes:
        return None
    changed = situation.store(dict.fromkeys(weights, jnp.int8))
    named = ", ".join(situation.names[k] for k in weights[:3]) + (", …" if len(weights) > 3 else "")
    return _saving("int8_weights", situation, changed, f"With {named} stored in int8")


@rule
def bf16_inputs(situation: Situation) -> Advice | None:
    """f32 inputs given as bf16."""
    wide = [k for k, spec in enumerate(situation.specs) if spec.dtype == jnp.float32]
    if not wide:
        return None
    specs = [
        jax.ShapeDtypeStruct(spec.shape, jnp.bfloat16) if k in wide else spec for k, spec in enumerate(situation.specs)
    ]
    return _saving("bf16_inputs", situation, situation.reprice(specs), "With bf16 inputs instead of f32")


@rule
def launch_overhead(situation: Situation) -> Advice | None:
    """A program so small that launching it takes longer than running it."""
    measured = situation.measured
    if measured is None or measured.dispatch < 0.5 * measured.minimum:
        return None
    return Advice(
        rule="launch_overhead",
        text=f"Launching takes {in_seconds(min(measured.dispatch, measured.minimum))} of the "
        f"{in_seconds(measured.minimum)} measured: do more in one call (a larger batch, `vmap`, or the loop "
        "around it inside `jit`).",
        saves=None,
        value=measured.dispatch,
    )
