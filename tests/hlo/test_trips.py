"""How often loops run: the arithmetic by a table, the reading through real compiled loops."""

import jax
import jax.numpy as jnp
import pytest

from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.hlo.scalars import Scope, Tape
from jaxscale_magic.hlo.trips import count_steps, trip_count
from jaxscale_magic.jax_internals import module_bytes, text_to_module_bytes


@pytest.mark.parametrize(
    ("start", "step", "direction", "limit", "trips"),
    [
        (0, 1, "LT", 10, 10),  # for (i = 0; i < 10; i++)
        (0, 2, "LT", 8, 4),  # unrolled collective matmul: 0, 2, 4, 6
        (0, 3, "LT", 10, 4),  # 0, 3, 6, 9
        (0, 1, "LE", 10, 11),
        (10, -1, "GT", 0, 10),
        (10, -1, "GE", 0, 11),
        (10, -3, "GT", 0, 4),  # 10, 7, 4, 1
        (0, 1, "NE", 7, 7),
        (8, -2, "NE", 0, 4),
        (5, 1, "LT", 5, 0),
        (5, 1, "EQ", 5, 1),
        (4, 1, "EQ", 5, 0),
        (0, -1, "LT", 10, None),  # never ends before it wraps
        (0, 2, "NE", 7, None),  # steps over it
    ],
)
def test_steps_until_the_comparison_fails(start, step, direction, limit, trips):
    assert count_steps(start, step, direction, limit) == trips


LOOP = """HloModule loop
body {{
  state = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[8,8] get-tuple-element(state), index=1
  one = s32[] constant({step})
  next = s32[] {op}(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT out = (s32[], f32[8,8]) tuple(next, y)
}}
condition {{
  state = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  limit = s32[] constant({limit})
  ROOT go = pred[] compare({operands}), direction={direction}
}}
ENTRY main {{
  x = f32[8,8] parameter(0)
  start = s32[] constant({start})
  state = (s32[], f32[8,8]) tuple(start, x)
  loop = (s32[], f32[8,8]) while(state), condition=condition, body=body
  ROOT y = f32[8,8] get-tuple-element(loop), index=1
}}
"""


@pytest.mark.parametrize(
    ("start", "op", "step", "operands", "direction", "limit", "trips"),
    [
        (0, "add", 1, "i, limit", "LT", 10, 10),
        (0, "add", 2, "i, limit", "LT", 8, 4),
        (10, "subtract", 1, "i, limit", "GT", 0, 10),
        (0, "add", 1, "limit, i", "GT", 10, 10),  # the bound on the left
        (0, "add", 1, "limit, i", "GE", 10, 11),
        (3, "add", 1, "i, limit", "NE", 9, 6),
    ],
)
def test_trips_are_derived_where_the_compiler_does_not_print_them(start, op, step, operands, direction, limit, trips):
    text = LOOP.format(start=start, op=op, step=step, operands=operands, direction=direction, limit=limit)
    module = read_module(text_to_module_bytes(text))
    (loop,) = [i for i in module.entry if i.opcode == "while"]
    assert trip_count(loop, module.entry, module) == trips
    cost, _ = count_module(module)
    assert cost.flops == {"f32": 2 * 8**3 * trips}


def test_a_loop_that_data_ends_is_counted_per_iteration_and_said():
    def until_large(x):
        return jax.lax.while_loop(lambda c: c.sum() < 1e6, lambda c: c @ c, x)

    compiled = jax.jit(until_large).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32)).compile()
    cost, _ = count_module(read_module(module_bytes(compiled)))
    assert cost.flops == {"f32": 2 * 64**3}
    (note,) = cost.notes
    assert "per iteration" in note
    assert " of line " in note


def test_nested_loops_multiply():
    def nested(x):
        def inner(c, _):
            return c @ c, None

        def outer(c, _):
            return jax.lax.scan(inner, c, None, length=3)[0], None

        return jax.lax.scan(outer, x, None, length=5)[0]

    compiled = jax.jit(nested).lower(jax.ShapeDtypeStruct((16, 16), jnp.float32)).compile()
    cost, _ = count_module(read_module(module_bytes(compiled)))
    assert cost.flops == {"f32": 15 * 2 * 16**3}


def _dots_in(loop, *args):
    """FLOPs of a compiled loop of 16³ products (8192 each), as a count of its trips."""
    compiled = jax.jit(loop).lower(jax.ShapeDtypeStruct((16, 16), jnp.float32), *args).compile()
    cost, _ = count_module(read_module(module_bytes(compiled)))
    assert cost.notes == ()
    return cost.flops["f32"] / 8192


def _counting(start, goes_on, step):
    """A loop with a counter of its own beside the array."""

    def loop(x):
        return jax.lax.while_loop(lambda c: goes_on(c[0]), lambda c: (step(c[0]), c[1] @ c[1]), (start, x))[1]

    return loop


@pytest.mark.parametrize(
    ("start", "goes_on", "step", "trips"),
    [
        # 1, 2, 4, ..., 512: ten values below 1000.
        (jnp.int32(1), lambda i: i < 1000, lambda i: i * 2, 10),
        # 1000, 500, 250, 125, 62, 31, 15, 7, 3, 1: ten values above 0.
        (jnp.int32(1000), lambda i: i > 0, lambda i: i // 2, 10),
        # 27's Collatz sequence takes 111 steps to 1.
        (jnp.int32(27), lambda i: i != 1, lambda i: jnp.where(i % 2 == 0, i // 2, 3 * i + 1), 111),
        # Ten additions of f32(0.1) give 1.0000001, nine 0.9: 0, 0.1, ..., 0.9000001 are below 1.
        (jnp.float32(0), lambda t: t < 1, lambda t: t + jnp.float32(0.1), 10),
        # In f16, 2048 + 1 is 2048: 0, 64, ..., 1984.
        (jnp.float16(0), lambda t: t < 2048, lambda t: t + jnp.float16(64), 32),
        (jnp.bfloat16(1), lambda t: t < 100, lambda t: t * jnp.bfloat16(3), 5),  # 1, 3, 9, 27, 81
        # u8 wraps round: 250, 251, ..., 255, 0.
        (jnp.uint8(250), lambda i: i != 0, lambda i: i + jnp.uint8(1), 6),
        ((jnp.int32(0), jnp.int32(0)), lambda c: (c[0] < 10) & (c[1] < 12), lambda c: (c[0] + 1, c[1] + 3), 4),
    ],
    ids=["doubling", "halving", "collatz", "f32", "f16", "bf16", "wrapping", "two-tests"],
)
def test_a_counter_of_unequal_steps_is_followed(start, goes_on, step, trips):
    assert _dots_in(_counting(start, goes_on, step)) == trips


def test_a_loop_that_goes_on_for_ever_is_counted_per_iteration():
    loop = _counting(jnp.int32(1), lambda i: i > 0, lambda i: i ^ 2)
    compiled = jax.jit(loop).lower(jax.ShapeDtypeStruct((16, 16), jnp.float32)).compile()
    cost, _ = count_module(read_module(module_bytes(compiled)))
    assert cost.flops == {"f32": 8192}
    assert "per iteration" in cost.notes[0]


@pytest.mark.parametrize(
    ("opcode", "left", "right", "value"),
    [
        ("divide", -7, 2, -3),  # towards zero
        ("remainder", -7, 2, -1),  # the dividend's sign
        ("maximum", -7, 2, 2),
        ("shift-right-arithmetic", -7, 1, -4),
        ("shift-right-arithmetic", -7, 40, -1),
        ("shift-right-logical", -1, 28, 15),
        ("shift-left", 3, 31, -(2**31)),
        ("shift-left", 3, 32, 0),
    ],
)
def test_integers_divide_and_shift_as_xla_does(opcode, left, right, value):
    text = f"""HloModule m
ENTRY main {{
  a = s32[] constant({left})
  b = s32[] constant({right})
  ROOT c = s32[] {opcode}(a, b)
}}"""
    module = read_module(text_to_module_bytes(text))
    tape = Tape(module)
    step = tape.scalar(Scope(module.entry), module.entry.root)
    assert tape.run({})[step] == value
