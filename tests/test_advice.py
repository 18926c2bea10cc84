"""Advice: the crossing search by a table, and each rule on programs whose answer is known by hand."""

import jax
import jax.numpy as jnp
import pytest

import jaxscale_magic as jm
from jaxscale_magic.advice import find_crossing
from jaxscale_magic.batch import find_batch
from jaxscale_magic.capture_call import capture_call


@pytest.mark.parametrize("start", [1, 2, 7, 100, 255, 256, 257, 1000, 100_000])
@pytest.mark.parametrize("crossing", [2, 3, 255, 256, 1001, 65_537])
def test_the_crossing_is_found_from_anywhere(start, crossing):
    asked = []

    def excess(batch):
        asked.append(batch)
        return (crossing - 0.5) - batch

    assert find_crossing(excess, start) == crossing
    assert len(asked) < 30


def test_a_kink_in_the_line_does_not_matter():
    # A cache that stops helping at 100 makes memory time jump.
    def excess(batch):
        return 500 - batch if batch > 100 else 50 - 0.1 * batch

    assert find_crossing(excess, 4) == 500


def test_no_crossing_where_memory_grows_as_fast():
    assert find_crossing(lambda batch: 1.0 * batch, 16) is None
    assert find_crossing(lambda batch: 1.0, 16) is None


def test_always_compute_bound_crosses_at_one():
    assert find_crossing(lambda batch: -1.0, 16) == 1


def test_no_answer_where_the_program_cannot_be_traced():
    assert find_crossing(lambda batch: None if batch != 8 else 1.0, 8) is None


def matmul(x, w):
    return x @ w


def shapes(batch, depth=8192, width=8192, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct((batch, depth), dtype), jax.ShapeDtypeStruct((depth, width), dtype)


def rules(report):
    return {advice.rule: advice for advice in report.advice}


# bf16 [B, 8192] @ [8192, 8192] on a v5e (1.97e14 FLOP/s, 8.2e11 B/s). With D = F = 8192:
# B = (2DF/W) / (2DF/C - (2D + 2F)/W) = 255.2, so 256 rows are the first that are compute-bound.
@pytest.mark.parametrize(("batch", "bound"), [(128, "memory"), (1024, "compute"), (256, "compute"), (255, "memory")])
def test_the_batch_that_leaves_the_memory_roof(batch, bound):
    report = jm.roofline(matmul, *shapes(batch), on="v5e")
    assert report.bound == bound
    advice = rules(report)["batch_crossing"]
    assert advice.value == 256
    assert "256" in advice.text


def test_the_batch_may_be_named():
    def scores(w, x):
        return x @ w

    x, w = shapes(128)
    report = jm.roofline(scores, w, x, on="v5e", batch="x")
    assert rules(report)["batch_crossing"].value == 256
    with pytest.raises(jm.JaxscaleError, match="no such input"):
        jm.roofline(scores, w, x, on="v5e", batch="z")
    with pytest.raises(jm.JaxscaleError, match=r"x\[0\] to x\[1\]"):
        jm.roofline(scores, w, x, on="v5e", batch="x[2]")


def test_inputs_of_the_same_length_grow_together():
    def masked(x, mask, w):
        return (x * mask[:, None]) @ w

    x, w = shapes(128)
    report = jm.roofline(masked, x, jax.ShapeDtypeStruct((128,), jnp.bfloat16), w, on="v5e")
    assert rules(report)["batch_crossing"].value == pytest.approx(256, abs=1)


def test_int8_weights_halve_a_weight_bound_matmul():
    report = jm.roofline(matmul, *shapes(16), on="v5e")
    advice = rules(report)["int8_weights"]
    # 8192^2 weights of 2 B against 1 B; 16 rows of 8192 in and out, 2 B each: 1.343e8 + 5e5, 6.71e7 + 5e5.
    before, after = (8192**2 * b + 2 * 16 * 8192 * 2 for b in (2, 1))
    assert advice.saves == pytest.approx((before - after) / 8.2e11, rel=1e-6)


def test_no_int8_advice_for_a_compute_bound_matmul():
    assert "int8_weights" not in rules(jm.roofline(matmul, *shapes(4096), on="v5e"))


def test_bf16_inputs_halve_the_bytes_of_f32():
    report = jm.roofline(matmul, *shapes(16, dtype=jnp.float32), on="v5e")
    nbytes = 8192**2 * 4 + 2 * 16 * 8192 * 4
    assert rules(report)["bf16_inputs"].saves == pytest.approx(nbytes / 2 / 8.2e11, rel=1e-6)
    assert "bf16_inputs" not in rules(jm.roofline(matmul, *shapes(16), on="v5e"))


def test_nothing_is_advised_where_nothing_helps():
    report = jm.roofline(lambda a, b: a + b, *(jax.ShapeDtypeStruct((1 << 20,), jnp.bfloat16),) * 2, on="v5e")
    assert report.advice == ()


def test_a_tiny_program_is_told_that_launching_outweighs_it():
    report = jm.roofline(lambda a: a + 1, jnp.ones(8))
    advice = rules(report)["launch_overhead"]
    assert "Launching takes" in advice.text


def dict_first(params, x, labels):
    return ((x @ params["w"] + params["b"] - labels) ** 2).mean()


@pytest.mark.parametrize(
    ("function", "args", "batch"),
    [  # which inputs' rows can be doubled: never the weights'
        (matmul, shapes(64), "x"),
        (lambda w, x: x @ w, shapes(64)[::-1], "x"),
        (lambda p, x: jnp.tanh(x @ p["w"] + p["b"]), ({"w": (32, 8), "b": (8,)}, (4, 32)), "x"),
        (dict_first, ({"w": (32, 8), "b": (8,)}, (4, 32), (4, 8)), "x and labels"),
        (lambda table, tokens: table[tokens] * 2, ((100, 16), "tokens"), "tokens"),
        (lambda w, x: jax.lax.scan(lambda c, wi: (c @ wi, None), x, w)[0], ((10, 32, 32), (4, 32)), "x"),
    ],
)
def test_the_batch_is_never_the_weights(function, args, batch):
    def spec(shape):
        return jax.ShapeDtypeStruct((7,), jnp.int32) if shape == "tokens" else jax.ShapeDtypeStruct(shape, jnp.float32)

    if not isinstance(args[0], jax.ShapeDtypeStruct):
        args = jax.tree.map(
            spec, args, is_leaf=lambda a: isinstance(a, str) or (type(a) is tuple and type(a[0]) is int)
        )
    captured = capture_call(function, tuple(args), {})
    specs = captured.leaves
    found = find_batch(captured, specs, None)
    named = [captured.names[k] for k in (found.leaf, *found.others)]
    assert " and ".join(named) == batch


def test_a_named_batch_without_a_crossing_says_so():
    report = jm.roofline(lambda x: x + 1, jax.ShapeDtypeStruct((64, 64), jnp.float32), on="v5e", batch="x")
    assert "No crossing" in rules(report)["batch_crossing"].text


@pytest.mark.parametrize(
    "loop",
    [
        lambda x, w: jax.lax.scan(lambda c, wi: (c @ wi, None), x, w)[0],
        lambda x, w: jax.lax.fori_loop(0, 8, lambda i, c: c @ w[i], x),
        jax.jit(lambda x, w: jax.lax.scan(jax.checkpoint(lambda c, wi: (c @ wi, None)), x, w)[0]),
    ],
    ids=["scan", "fori_loop", "checkpointed"],
)
def test_int8_weights_of_a_loop_are_widened_inside_it(loop):
    # Eight bf16 matrices of 4096 x 4096 dominate: half the bytes, half the time.
    x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((16, 4096), (8, 4096, 4096)))
    report = jm.roofline(loop, x, w, on="v5e")
    saved = rules(report)["int8_weights"].saves
    assert saved == pytest.approx(8 * 4096 * 4096 / 8.2e11, rel=0.02)
