import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxscale_magic.errors import JaxscaleError
from jaxscale_magic.timing import Effort, Measured, dispatch_seconds, measure

MIB_OF_F32 = 1 << 18


class Clock:
    """Goes forward only when a program runs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Counted:
    """A compiled program that counts its calls; each takes `seconds` of the fake clock."""

    def __init__(self, compiled, clock, seconds=0.1, interrupt_at=None):
        self.compiled, self.clock, self.seconds = compiled, clock, seconds
        self.interrupt_at, self.calls = interrupt_at, 0

    def __getattr__(self, name):
        return getattr(self.compiled, name)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        self.clock.now += self.seconds
        return self.compiled(*args, **kwargs)


def built(function, *args, **options):
    traced = jax.jit(function, **options).trace(*args)
    return traced.lower().compile(), traced


def timed(function, *args, effort=Effort(repeats=2, loops=1), **options):  # noqa: B008
    return measure(*built(function, *args, **options), args, {}, effort)


def counted(seconds, *, interrupt_at=None, **effort):
    clock, x = Clock(), jnp.ones(4)
    compiled, traced = built(lambda x: x + 1, x)
    program = Counted(compiled, clock, seconds, interrupt_at)
    first_run = effort.pop("first_run", None)
    given = Effort(progress=False, **effort)
    return measure(program, traced, (x,), {}, given, first_run=first_run, clock=clock), program


@pytest.mark.parametrize("size", [4, MIB_OF_F32, 2 * MIB_OF_F32])
def test_figures_are_in_order(size):
    measured = timed(lambda x: x * 2, jnp.ones(size), effort=Effort(repeats=7, loops=2))
    assert isinstance(measured, Measured)
    assert 0 < measured.minimum <= measured.median
    assert measured.spread >= 0
    assert (measured.runs, measured.loops) == (7, 2)
    assert (measured.fresh_outputs is not None) == (size >= MIB_OF_F32)


def test_every_output_is_waited_for():
    # 4 * 2 * 1024**3 FLOPs take milliseconds on any machine, handing them to the runtime microseconds.
    measured = timed(lambda x: (x[0, 0], x @ x @ x @ x @ x), jnp.ones((1024, 1024)))
    assert measured.minimum > measured.dispatch
    assert measured.dispatch == dispatch_seconds(jax.devices()[0]) > 0


@pytest.mark.parametrize(("loops", "repeats"), [(1, 1), (3, 4), (10, 2)])
def test_n_and_r_are_honoured(loops, repeats):
    measured, program = counted(0.1, loops=loops, repeats=repeats, budget=1.0)
    assert (measured.loops, measured.runs) == (loops, repeats)
    assert program.calls == loops * repeats + 2  # one to warm up, one to see how long it takes
    assert measured.minimum == pytest.approx(0.1)


@pytest.mark.parametrize("option", [{"loops": 0}, {"repeats": 0}, {"repeats": -1}])
def test_counts_below_one_are_refused(option):
    with pytest.raises(JaxscaleError, match="at least 1"):
        counted(0.1, **option)


@pytest.mark.parametrize(
    ("seconds", "budget", "samples"),
    [(0.1, 1.0, 10), (0.3, 1.0, 3), (0.9, 1.0, 1), (5.0, 1.0, 1)],
)
def test_the_budget_is_kept(seconds, budget, samples):
    measured, program = counted(seconds, budget=budget)
    assert samples - 1 <= measured.runs <= samples or measured.runs == 1
    assert measured.runs * measured.loops * seconds <= max(budget, seconds) * 1.001
    assert program.calls <= measured.runs + 2


def test_a_program_known_to_be_slow_runs_once_more():
    measured, program = counted(5.0, budget=1.0, first_run=5.0)
    assert (measured.runs, program.calls) == (1, 1)


def test_fast_programs_are_called_several_times_a_sample():
    measured, _ = counted(1e-5, budget=1.0)
    assert measured.loops >= 100
    assert measured.runs >= 5


def test_an_interrupt_keeps_what_was_measured():
    measured, _ = counted(0.1, loops=1, repeats=50, interrupt_at=6)
    assert measured.runs == 3  # two calls came before the samples
    assert "interrupted" in measured.notes[0]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupt_before_the_first_sample_is_passed_on(at):
    with pytest.raises(KeyboardInterrupt):
        counted(0.1, loops=1, repeats=50, interrupt_at=at)


@pytest.mark.parametrize("size", [8, MIB_OF_F32])
def test_donated_inputs_survive(size):
    x, y = jnp.ones(size), jnp.ones(size)
    measured = timed(lambda x, y: (x + y, x - y), x, y, donate_argnums=0)
    assert measured.runs == 2
    assert float(x.sum()) == float(y.sum()) == size


def test_a_deleted_input_is_named():
    x, y = jnp.ones(4), jnp.ones(4)
    compiled, traced = built(lambda d: d["a"] + d["b"], {"a": x, "b": y})
    y.delete()
    with pytest.raises(JaxscaleError, match=r"\['b'\].*gone"):
        measure(compiled, traced, ({"a": x, "b": y},), {}, Effort())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x, y + 1),  # an input handed through
        lambda x, y: (x.reshape(x.shape), y),  # nothing else
        lambda x, y: (lambda z: (z, z, x))(x + y),  # one result twice
        lambda x, y: (x + y, y + x, jnp.zeros_like(x)),  # equal results and a constant
        jax.jit(lambda x, y: (jax.jit(lambda z: z)(x), x + y)),  # handed through by an inner function
    ],
)
def test_recycling_never_consumes_the_callers_arrays(function):
    x, y = jnp.ones(MIB_OF_F32), jnp.full(MIB_OF_F32, 2.0)
    measured = timed(function, x, y, effort=Effort(repeats=3, loops=2))
    assert measured.runs == 3
    assert (float(x.sum()), float(y.sum())) == (MIB_OF_F32, 2 * MIB_OF_F32)


def test_recycling_that_fails_is_told():
    x = jnp.ones(MIB_OF_F32)
    compiled, traced = built(lambda x: x + 1, x)

    class Broken:
        jaxpr = dataclasses.make_dataclass("Jaxpr", [])()

    measured = measure(compiled, Broken(), (x,), {}, Effort(repeats=2))
    assert measured.fresh_outputs is None
    assert "recycling it failed" in measured.notes[0]
    assert measured.runs == 2
    assert traced is not None


@pytest.mark.parametrize("large", [False, True])
def test_keys_numpy_inputs_and_unused_ones(large):
    size = MIB_OF_F32 if large else 4

    def draw(key, scale, unused):
        return jax.random.split(key), jax.random.normal(key, (size,)) * scale

    args = (jax.random.key(0), np.ones(size, np.float32), np.ones(3, np.float32))
    assert timed(draw, *args).runs == 2
    assert timed(draw, *args, donate_argnums=1).runs == 2


def test_no_outputs_and_no_inputs():
    assert "no outputs" in timed(lambda x: None, jnp.ones(3)).notes[0]
    assert timed(lambda: None).runs == 2
    assert timed(lambda: jnp.zeros(MIB_OF_F32)).fresh_outputs is not None


def test_committed_and_sharded_inputs():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = NamedSharding(mesh, PartitionSpec("x"))
    x = jax.device_put(np.ones((len(jax.devices()) * 512, 1024), np.float32), rows)
    compiled, traced = built(lambda x: x * 2, x)
    assert measure(compiled, traced, (x,), {}, Effort(repeats=2)).fresh_outputs is not None
    assert measure(compiled, traced, (np.asarray(x),), {}, Effort(repeats=2)).runs == 2  # moved once


def test_keyword_arguments():
    x = jnp.ones(4)
    traced = jax.jit(lambda x, *, y: x + y).trace(x, y=x)
    assert measure(traced.lower().compile(), traced, (x,), {"y": x}, Effort(repeats=1)).runs == 1


def test_the_same_array_given_twice_still_recycles_the_output():
    a = jnp.ones(1 << 20)
    traced = jax.jit(lambda x, y: x + y).trace(a, a)
    measured = measure(traced.lower().compile(), traced, (a, a), {}, Effort(repeats=3))
    assert measured.fresh_outputs is not None
