"""Measuring a compiled program on the devices that are here: blocked on every output, repeated, summarised.

What it should take is in `roofline.py`; calibrating the machine is in `chips/host.py`.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from jaxscale_magic.errors import JaxscaleError

#: A sample lasts at least this many seconds, and this many launches.
SAMPLE_SECONDS, SAMPLE_LAUNCHES = 1e-3, 10
#: Samples that the budget should hold, the most that are taken, and the seconds from which a bar is shown.
FEWEST_SAMPLES, MOST_SAMPLES, BAR_SECONDS = 5, 200, 2.0
#: Outputs of this size in all are recycled on a CPU, one by one from the second figure up.
RECYCLED_BYTES, LARGE_OUTPUT = 1 << 20, 1 << 16
#: Share of the budget for recycled outputs; temporaries from this size up are mapped anew by every run.
RECYCLED_SHARE, MAPPED_BYTES = 0.7, 32 << 20

#: Typed here, since jax leaves it untyped.
_wait: Callable[[Any], Any] = jax.block_until_ready
Clock = Callable[[], float]
#: Runs the program once and returns the seconds of the blocked call alone, read from the clock given.
Run = Callable[[Clock], float]


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
    """Calls a sample, samples (None: chosen), seconds in all, and whether to show a bar (None: if long)."""

    loops: int | None = None
    repeats: int | None = None
    budget: float = 2.0
    progress: bool | None = None


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Flat inputs on their devices; those in `donated` are copied for every call."""

    leaves: tuple[Any, ...]
    structure: Any
    donated: frozenset[int]

    def renewed(self) -> list[Any]:
        copies = _wait({k: jnp.copy(self.leaves[k]) for k in self.donated})
        return [copies.get(k, leaf) for k, leaf in enumerate(self.leaves)]


def measure(
    compiled: Any,
    traced: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    effort: Effort,
    *,
    first_run: float | None = None,
    clock: Clock = time.perf_counter,
) -> Measured:
    """Time a compiled program on its own inputs, in its steady state.

    Every call is blocked on all of its outputs before the next begins: calls in flight would overlap, and
    their mean could be shorter than one takes. On a CPU with large outputs, a second executable of the same
    program writes into the buffers of the run before; an ordinary call, whose new memory the system maps page
    by page, is `Measured.fresh_outputs`. Memory for the program's temporaries is not recycled.

    Args:
        compiled: the `jax.stages.Compiled` to run.
        traced: the `jax.stages.Traced` that it comes from; None times it with outputs allocated anew.
        args, kwargs: its inputs, put where the program wants them once. Donated ones are copied for every
            call, untimed; the caller's arrays stay whole.
        effort: how much to measure.
        first_run: seconds of a run just made: the program is warm then, and a slow one needs no other.
        clock: seconds, for tests.

    Raises:
        JaxscaleError: an input was donated to an earlier call and is gone, or a count is below 1.
        KeyboardInterrupt: before the first sample was complete; later it ends timing, with a note.
    """
    for option, count in (("-n", effort.loops), ("-r", effort.repeats)):
        if count is not None and count < 1:
            raise JaxscaleError(f"{option} {count}: at least 1 is needed.")
    inputs = _placed(compiled, args, kwargs)
    devices = _devices(compiled)
    launch, notes = dispatch_seconds(*devices), _known_notes(compiled, devices)
    plain, recycled = _plain_run(compiled, inputs), None
    once = first_run if first_run is not None and first_run > effort.budget else plain(clock)
    slow = once > effort.budget
    total = sum(_nbytes(shape) for shape in jax.tree.leaves(compiled.out_info))
    if traced is not None and devices[0].platform == "cpu" and total >= RECYCLED_BYTES:
        if slow:
            notes.append("One run takes longer than the budget: its outputs were in newly allocated memory.")
        else:
            recycled, trouble = _try_recycled(compiled, traced.jaxpr, inputs)
            notes += trouble
    if slow:
        effort = replace(effort, loops=effort.loops or 1, repeats=effort.repeats or 1)
    if recycled is None:
        once = once if slow or first_run is not None else plain(clock)
        return _summary(_sampled(plain, effort, once, launch, clock), None, launch, notes)
    main = replace(effort, budget=effort.budget * RECYCLED_SHARE)
    samples = _sampled(recycled, main, recycled(clock), launch, clock)
    del recycled  # and with it the buffers it holds
    if samples.stopped:
        return _summary(samples, None, launch, notes)
    try:
        rest = replace(effort, budget=effort.budget * (1 - RECYCLED_SHARE))
        fresh = _sampled(plain, rest, plain(clock), launch, clock)
    except KeyboardInterrupt:
        return _summary(replace(samples, stopped=True), None, launch, notes)
    as_called = statistics.median(fresh.seconds)
    faster = fresh if as_called < statistics.median(samples.seconds) else samples
    return _summary(replace(faster, stopped=fresh.stopped), as_called, launch, notes)


@functools.cache
def dispatch_seconds(*devices: Any) -> float:
    """Seconds from calling the smallest program to its result, on these devices; measured once a process."""
    spec: Any = jax.sharding.PartitionSpec
    one, mesh = len(devices) == 1, Mesh(np.array(devices), ("all",))
    where = SingleDeviceSharding(devices[0]) if one else NamedSharding(mesh, spec())
    number = jax.device_put(np.float32(0), where)
    trivial = jax.jit(lambda x: x + 1).lower(number).compile()
    run = _plain_run(trivial, _Inputs((number,), jax.tree.structure(((number,), {})), frozenset()))
    return min(run(time.perf_counter) for _ in range(200))


def _placed(compiled: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> _Inputs:
    """The inputs where the program wants them, moved once."""
    flat, structure = jax.tree_util.tree_flatten_with_path((tuple(args), kwargs))
    shardings = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda x: x is None)
    infos = jax.tree.leaves(compiled.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    leaves = []
    for k, (path, leaf) in enumerate(flat):
        here = isinstance(leaf, jax.Array)
        if here and leaf.is_deleted():
            where = jax.tree_util.keystr(path[1:])
            raise JaxscaleError(f"input {where} is gone, donated to an earlier call; make it again first.")
        wanted = shardings[k] if len(shardings) == len(flat) else None
        there = here and (wanted is None or leaf.sharding.is_equivalent_to(wanted, leaf.ndim))
        leaves.append(leaf if there else jax.device_put(leaf, wanted))
    donated = frozenset(k for k, info in enumerate(infos) if info.donated)
    return _Inputs(tuple(_wait(leaves)), structure, donated)


def _devices(compiled: Any) -> tuple[Any, ...]:
    """The devices a program runs on, by id; the default one where it has neither inputs nor outputs."""
    for sharding in jax.tree.leaves((compiled.output_shardings, compiled.input_shardings)):
        if hasattr(sharding, "device_set"):
            return tuple(sorted(sharding.device_set, key=lambda device: device.id))
    return (jax.devices()[0],)


def _nbytes(described: Any) -> int:
    """Bytes of an array or its description; 0 where it holds no plain numbers (keys)."""
    if jnp.issubdtype(described.dtype, jax.dtypes.extended):
        return 0
    return int(described.size * described.dtype.itemsize)


def _known_notes(compiled: Any, devices: Sequence[Any]) -> list[str]:
    """What the program alone tells of how it will be timed."""
    if not jax.tree.leaves(compiled.out_info):
        return ["The program has no outputs to wait for: only its launch was timed."]
    try:
        temporaries = compiled.memory_analysis().temp_size_in_bytes
    except Exception:  # not every backend tells, and each says so in its own way
        return []
    if temporaries < MAPPED_BYTES or devices[0].platform != "cpu":
        return []
    return [f"Every run allocates {temporaries / 2**20:.0f} MiB of temporaries anew; the time includes it."]


def _plain_run(compiled: Any, inputs: _Inputs) -> Run:
    """The program as compiled: every run allocates its outputs, and drops them when the clock has stopped."""

    def run(clock: Clock) -> float:
        args, kwargs = jax.tree.unflatten(inputs.structure, inputs.renewed())
        start = clock()
        outputs = _wait(compiled(*args, **kwargs))
        seconds = clock() - start
        del outputs
        return seconds

    return run


def _try_recycled(compiled: Any, jaxpr: Any, inputs: _Inputs) -> tuple[Run | None, list[str]]:
    """A run that recycles outputs; where that fails, None and why."""
    try:
        return _recycled_run(compiled, jaxpr, inputs), []
    except Exception as error:  # compiler, allocator and tracing all raise types of their own
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        return None, [f"Outputs were in newly allocated memory; recycling it failed: {reason[:200]}"]


def _recycled_run(compiled: Any, jaxpr: Any, inputs: _Inputs) -> Run | None:
    """The same program with one more donated input for each large output; None where that gains nothing."""
    shapes, shardings = (jax.tree.leaves(each) for each in (compiled.out_info, compiled.output_shardings))
    chosen = _recyclable(jaxpr, shapes, inputs)
    if not chosen or len(shardings) != len(shapes):
        return None
    function, count = jaxpr_as_fun(jaxpr), len(chosen)

    def with_spares(*flat: Any) -> Any:
        return function(*flat[count:])

    donated = (*range(count), *(count + k for k in sorted(inputs.donated)))
    spares = [jnp.zeros(shapes[k].shape, shapes[k].dtype, device=shardings[k]) for k in chosen]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        jitted = jax.jit(with_spares, donate_argnums=donated, keep_unused=True, out_shardings=shardings)
        recycling = jitted.lower(*spares, *inputs.leaves).compile()
    held = [_wait(recycling(*spares, *inputs.renewed()))]
    if _overlap(held[0], inputs.leaves):  # donating such an output would consume the caller's own array
        return None

    def run(clock: Clock) -> float:
        outputs = held.pop()
        flat = [*(outputs[k] for k in chosen), *inputs.renewed()]
        start = clock()
        outputs = _wait(recycling(*flat))
        seconds = clock() - start
        held.append(outputs)
        return seconds

    return run


def _recyclable(jaxpr: Any, shapes: Sequence[Any], inputs: _Inputs) -> list[int]:
    """Flat numbers of outputs to give a spare: large, no input handed through, not aliased to one already."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    seen = {id(var) for var in inner.invars}
    taken = [(inputs.leaves[k].shape, inputs.leaves[k].dtype) for k in sorted(inputs.donated)]
    chosen = []
    for k, (var, shape) in enumerate(zip(inner.outvars, shapes, strict=True)):
        if (shape.shape, shape.dtype) in taken:
            taken.remove((shape.shape, shape.dtype))
        elif _nbytes(shape) >= LARGE_OUTPUT and id(var) not in seen:
            chosen.append(k)
        seen.add(id(var))
    return chosen


def _overlap(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether an output lies in the buffer of another, or of an input; the same input may be given twice."""

    def places(arrays: Sequence[Any]) -> list[int]:
        alive = [x for x in arrays if not x.is_deleted() and _nbytes(x)]
        return [shard.data.unsafe_buffer_pointer() for x in alive for shard in x.addressable_shards]

    found = places(outputs)
    return len(found) != len(set(found)) or not set(found).isdisjoint(places(inputs))


@dataclass(frozen=True, slots=True)
class _Samples:
    """Seconds a call, one for each sample; `stopped` by the user before the end."""

    seconds: tuple[float, ...]
    loops: int
    stopped: bool = False


def _sampled(run: Run, effort: Effort, once: float, launch: float, clock: Clock) -> _Samples:
    """Samples of `run`, one call of which takes about `once` seconds; an interrupt before any is raised."""
    once = max(once, 1e-9)
    enough = max(SAMPLE_SECONDS, SAMPLE_LAUNCHES * launch) / once
    loops = effort.loops or max(1, int(min(enough + 1, effort.budget / FEWEST_SAMPLES / once)))
    expected = effort.repeats or int(min(max(effort.budget / (loops * once), 1), MOST_SAMPLES))
    long = expected * loops * once > BAR_SECONDS
    samples: list[float] = []
    deadline = clock() + effort.budget
    collecting = gc.isenabled()
    gc.disable()
    try:
        with _bar(expected, long if effort.progress is None else effort.progress) as advance:
            while len(samples) < (effort.repeats or MOST_SAMPLES):
                if samples and not effort.repeats and clock() + samples[-1] * loops > deadline:
                    break
                samples.append(sum(run(clock) for _ in range(loops)) / loops)
                advance()
    except KeyboardInterrupt:
        if not samples:
            raise
        return _Samples(tuple(samples), loops, stopped=True)
    finally:
        if collecting:
            gc.enable()
    return _Samples(tuple(samples), loops)


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[], Any]]:
    if not shown:
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="timing", unit="sample", leave=False) as bar:
        yield bar.update


def _summary(samples: _Samples, fresh: float | None, launch: float, notes: list[str]) -> Measured:
    seconds = samples.seconds
    low, high = np.percentile(seconds, [25, 75])
    if samples.stopped:
        notes = [*notes, f"Timing was interrupted; {len(seconds)} samples were taken by then."]
    return Measured(
        minimum=min(seconds),
        median=statistics.median(seconds),
        spread=float(high - low),
        runs=len(seconds),
        loops=samples.loops,
        dispatch=launch,
        fresh_outputs=fresh,
        notes=tuple(notes),
    )
