"""Whole programs on XLA:CPU, each with its FLOPs and compulsory bytes worked out by hand.

Both ways of reading are held to the same values: the final module, and the unfused one that stands in for
another chip. `K` is 1024; shapes are written rows x columns.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.fuse import fused_traffic
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.jax_internals import module_bytes
from jaxscale_magic.targets.compile import compile_here, compile_standing_in
from jaxscale_magic.useful_flops import useful_flops

f32, bf16, s8, i32, c64 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32, jnp.complex64


def array(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Program:
    name: str
    function: Any
    args: tuple
    flops: int  # of dots and convolutions
    min_bytes: int
    donate: tuple = ()


def layers(x, w):
    return jax.lax.scan(lambda c, wi: (jnp.tanh(c @ wi), None), x, w)[0]


def remat_layers(x, w):
    return jax.lax.scan(jax.checkpoint(lambda c, wi: (jnp.tanh(c @ wi), None)), x, w)[0]


def attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def conv(x, k, **options):
    return jax.lax.conv_general_dilated(x, k, dimension_numbers=("NCHW", "OIHW", "NCHW"), **options)


SQUARE = 2 * 512**3  # one 512 x 512 product
PROGRAMS = [
    # 2 * 1024^3; three arrays of 1024^2 * 2 B
    Program("matmul", lambda x, w: x @ w, (array(bf16, 1024, 1024),) * 2, 2 * 1024**3, 3 * 1024**2 * 2),
    # 2 * 2 * 1024 * 1024 * 4096; x, w1, w2 and the result: (1 + 4 + 4 + 1) * 4 MiB
    Program(
        "mlp",
        lambda x, w1, w2: jax.nn.relu(x @ w1) @ w2,
        (array(f32, 1024, 1024), array(f32, 1024, 4096), array(f32, 4096, 1024)),
        4 * 1024 * 1024 * 4096,
        10 * 4 * 1024**2,
    ),
    # ten layers; x, ten weights and the result of 1 MiB each
    Program("scan", layers, (array(f32, 512, 512), array(f32, 10, 512, 512)), 10 * SQUARE, 12 * 2**20),
    # forward, and two products a layer backward; x and weights in, gradients out: 1 + 10 + 10
    Program(
        "gradient of a scan",
        jax.grad(lambda w, x: layers(x, w).sum()),
        (array(f32, 10, 512, 512), array(f32, 512, 512)),
        30 * SQUARE,
        21 * 2**20,
    ),
    # the forward product once more
    Program(
        "rematerialised gradient",
        jax.grad(lambda w, x: remat_layers(x, w).sum()),
        (array(f32, 10, 512, 512), array(f32, 512, 512)),
        40 * SQUARE,
        21 * 2**20,
    ),
    Program("elementwise", lambda a, b: a + b, (array(f32, 1 << 20),) * 2, 0, 3 * 4 * 2**20),
    # 1024 rows of 512 * 2 B, read and written, and 1024 indices of 4 B
    Program(
        "row gather",
        lambda t, i: t[i],
        (array(bf16, 32000, 512), array(i32, 1024)),
        0,
        2 * 1024 * 512 * 2 + 4096,
    ),
    # 8192 elements read and written
    Program("slice", lambda t: t[4:8196], (array(f32, 1 << 22),), 0, 2 * 8192 * 4),
    # the same and a 4-byte index
    Program(
        "dynamic slice",
        lambda t, i: jax.lax.dynamic_slice(t, (i,), (8192,)),
        (array(f32, 1 << 22), array(i32)),
        0,
        2 * 8192 * 4 + 4,
    ),
    # only the update moves, in and out
    Program(
        "donated update",
        lambda t, u, i: jax.lax.dynamic_update_slice(t, u, (i,)),
        (array(f32, 1 << 22), array(f32, 8192), array(i32)),
        0,
        2 * 8192 * 4 + 4,
        donate=(0,),
    ),
    # not donated: the whole table is copied, read and written
    Program(
        "update of a kept array",
        lambda t, u, i: jax.lax.dynamic_update_slice(t, u, (i,)),
        (array(f32, 1 << 22), array(f32, 8192), array(i32)),
        0,
        2 * 4 * 2**22 + 8192 * 4 + 4,
    ),
    # weights are one byte each: 64*4096*2 + 4096*16384 + 64*16384*2
    Program(
        "int8 weights",
        lambda x, w: x @ w.astype(bf16),
        (array(bf16, 64, 4096), array(s8, 4096, 16384)),
        2 * 64 * 4096 * 16384,
        64 * 4096 * 2 + 4096 * 16384 + 64 * 16384 * 2,
    ),
    # two products of 2 * b*h * s*s*d; q, k, v and the result of 2 MiB each
    Program(
        "attention",
        attention,
        (array(bf16, 2, 1024, 8, 64),) * 3,
        2 * 2 * 2 * 8 * 1024 * 1024 * 64,
        4 * 2 * 1024 * 8 * 64 * 2,
    ),
    # four real products
    Program("complex", lambda x: x @ x, (array(c64, 256, 256),), 8 * 256**3, 2 * 256 * 256 * 8),
    # batch of 4
    Program(
        "batched",
        lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
        (array(f32, 4, 32, 64), array(f32, 4, 64, 16)),
        2 * 4 * 32 * 64 * 16,
        4 * 4 * (32 * 64 + 64 * 16 + 32 * 16),
    ),
    # 30 x 30 positions, 9 taps, 3 -> 16 features, 8 images
    Program(
        "convolution, valid",
        lambda x, k: conv(x, k, window_strides=(1, 1), padding="VALID"),
        (array(f32, 8, 3, 32, 32), array(f32, 16, 3, 3, 3)),
        2 * 8 * 16 * 3 * (30 * 3) ** 2,
        4 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 30 * 30),
    ),
    # SAME: one row of taps at each edge falls on padding: 32 * 3 - 2 pairs a dimension
    Program(
        "convolution, same",
        lambda x, k: conv(x, k, window_strides=(1, 1), padding="SAME"),
        (array(f32, 8, 3, 32, 32), array(f32, 16, 3, 3, 3)),
        2 * 8 * 16 * 3 * (32 * 3 - 2) ** 2,
        4 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 32 * 32),
    ),
    # SAME with stride 2 pads one at the high end: 16 * 3 - 1 pairs
    Program(
        "convolution, strided",
        lambda x, k: conv(x, k, window_strides=(2, 2), padding="SAME"),
        (array(f32, 8, 3, 32, 32), array(f32, 16, 3, 3, 3)),
        2 * 8 * 16 * 3 * (16 * 3 - 1) ** 2,
        4 * (8 * 3 * 32 * 32 + 16 * 27 + 8 * 16 * 16 * 16),
    ),
    # depthwise: each feature meets one of 3 inputs
    Program(
        "convolution, grouped",
        lambda x, k: conv(x, k, window_strides=(1, 1), padding="VALID", feature_group_count=3),
        (array(f32, 8, 3, 32, 32), array(f32, 3, 1, 3, 3)),
        2 * 8 * 3 * 1 * (30 * 3) ** 2,
        4 * (8 * 3 * 32 * 32 + 27 + 8 * 3 * 30 * 30),
    ),
    # a cache that is donated and written one row a step: ten rows of 256 B, the row and the ten indices read
    Program(
        "cache rows in a loop",
        lambda cache, row: jax.lax.fori_loop(0, 10, lambda i, c: jax.lax.dynamic_update_slice(c, row, (i, 0)), cache),
        (array(f32, 1000, 64), array(f32, 1, 64)),
        0,
        10 * 256 + 256,
        donate=(0,),
    ),
    # an unused argument counts nothing
    Program("unused", lambda x, y: x * 2, (array(f32, 1024), array(f32, 1 << 20)), 0, 2 * 4096),
    # reads its argument once, writes one number
    Program("sum", lambda x: x.sum(), (array(f32, 1 << 20),), 0, 4 * 2**20 + 4),
]


@pytest.fixture(params=PROGRAMS, ids=lambda p: p.name)
def program(request):
    return request.param


@pytest.mark.parametrize("stands_in", [False, True], ids=["final module", "stand-in"])
def test_flops_and_compulsory_bytes_are_exact(program, stands_in):
    traced = jax.jit(program.function, donate_argnums=program.donate).trace(*program.args)
    if stands_in:
        compiled = compile_standing_in(traced, "TPU v5e")
        cost, ops = count_module(read_module(compiled.module), traffic=fused_traffic())
    else:
        cost, ops = count_module(read_module(compile_here(traced).module))
    assert cost.work.matrix_flops == program.flops
    assert cost.min_hbm_bytes == program.min_bytes
    assert cost.hbm_bytes >= cost.min_hbm_bytes * 0.99
    assert cost.unmodelled == ()
    assert sum(op.work.hbm_bytes for op in ops) == cost.hbm_bytes
    assert useful_flops(traced.jaxpr) == program.flops


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("matmul", 3 * 1024**2 * 2),
        ("int8 weights", 64 * 4096 * 2 + 4096 * 16384 + 64 * 16384 * 2),  # converted inside the product
        ("row gather", 2 * 1024 * 512 * 2 + 4096),
        ("elementwise", 3 * 4 * 2**20),
        # relu is computed where h is used: h (16 MiB) is written once and read once
        ("mlp", (1 + 4 + 4 + 4 + 4 + 1) * 4 * 2**20),
    ],
)
def test_a_fusing_compiler_moves_what_the_hand_says(name, moved):
    (program,) = [p for p in PROGRAMS if p.name == name]
    compiled = compile_standing_in(jax.jit(program.function).trace(*program.args), "TPU v5e")
    cost, _ = count_module(read_module(compiled.module), traffic=fused_traffic())
    assert cost.hbm_bytes == moved


def test_bf16_stays_bf16_for_another_chip():
    compiled = compile_standing_in(
        jax.jit(lambda x, w: x @ w).trace(array(bf16, 64, 64), array(bf16, 64, 64)), "TPU v5e"
    )
    cost, _ = count_module(read_module(compiled.module), traffic=fused_traffic())
    assert cost.flops == {"bf16": 2 * 64**3}


def test_precision_asked_for_is_kept_apart():
    def product(x, w):
        return jnp.dot(x, w, precision="highest")

    compiled = compile_standing_in(jax.jit(product).trace(array(f32, 64, 64), array(f32, 64, 64)), "TPU v5e")
    cost, _ = count_module(read_module(compiled.module), traffic=fused_traffic())
    assert cost.flops == {"f32:highest": 2 * 64**3}


def test_the_dearest_branch_is_counted_and_said():
    def either(p, x):
        return jax.lax.cond(p, lambda x: x @ x, lambda x: x + 1, x)

    traced = jax.jit(either).trace(array(jnp.bool_), array(f32, 64, 64))
    cost, _ = count_module(read_module(compile_here(traced).module))
    assert cost.flops == {"f32": 2 * 64**3}
    assert any("dearest" in note for note in cost.notes)


def test_an_unknown_custom_call_is_listed_not_counted_as_nothing():
    cost, _ = count_module(read_module(compile_here(jax.jit(jnp.linalg.svd).trace(array(f32, 64, 64))).module))
    assert [entry.name for entry in cost.unmodelled] == ["lapack_sgesdd_ffi"]
    assert "unknown" in cost.unmodelled[0].reason


def test_cholesky_is_a_third_of_n_cubed():
    traced = jax.jit(jnp.linalg.cholesky).trace(array(f32, 512, 512))
    cost, _ = count_module(read_module(compile_here(traced).module))
    assert cost.work.matrix_flops == round(512**3 / 3)


@pytest.mark.parametrize("function", [lambda x: jnp.cumsum(x, 1), lambda x: jnp.cumsum(x, 0)])
def test_a_cumulative_sum_is_one_addition_an_element(function):
    traced = jax.jit(function).trace(array(f32, 1024, 1024))
    cost, _ = count_module(read_module(compile_standing_in(traced, "TPU v5e").module), traffic=fused_traffic())
    assert cost.vector_flops == 1024 * 1023


def test_lines_add_up_to_the_whole():
    def two_lines(x, w):
        h = x @ w
        return jnp.tanh(h) @ w

    cost, ops = count_module(
        read_module(compile_here(jax.jit(two_lines).trace(array(f32, 64, 64), array(f32, 64, 64))).module)
    )
    by_line: dict[str, int] = {}
    for op in ops:
        for source, work in op.lines:
            by_line[source.text] = by_line.get(source.text, 0) + work.matrix_flops
    assert by_line["h = x @ w"] == by_line["return jnp.tanh(h) @ w"] == 2 * 64**3
    assert sum(work.hbm_bytes for op in ops for _, work in op.lines) == cost.hbm_bytes


def _cost(function, *args, donate=()):
    compiled = jax.jit(function, donate_argnums=donate).lower(*args).compile()
    return count_module(read_module(module_bytes(compiled)))[0]


def test_an_array_that_a_function_closes_over_is_read():
    # 4 KB of x, 4 MiB of weights inside the function, 4 KB of result.
    weights = jax.random.normal(jax.random.key(0), (1024, 1024))
    cost = _cost(lambda x: x @ weights, jax.ShapeDtypeStruct((1, 1024), jnp.float32))
    assert cost.min_hbm_bytes == 4 * (1024 + 1024**2 + 1024)
    assert cost.hbm_bytes >= cost.min_hbm_bytes


def test_results_are_counted_once_and_arguments_handed_on_never():
    x = jax.ShapeDtypeStruct((1024,), jnp.float32)

    def same(x):
        z = x + 1
        return z, z

    assert _cost(same, x).min_hbm_bytes == 2 * 4096  # x in, z out
    assert _cost(lambda x: (x, x + 1), x).min_hbm_bytes == 2 * 4096
    assert _cost(lambda x: x, x).min_hbm_bytes == 0


def test_slices_of_one_size_are_parts_of_their_own():
    # Three thirds of h are read: all of it, once. As stand-in, where the fusion is modelled.
    h = jax.ShapeDtypeStruct((1024, 1536), jnp.float32)
    traced = jax.jit(lambda h: h[:, :512] * h[:, 512:1024] + h[:, 1024:]).trace(h)
    cost, _ = count_module(read_module(compile_standing_in(traced, "a chip").module), (), fused_traffic())
    assert cost.hbm_bytes == 4 * (1024 * 1536 + 1024 * 512)


@pytest.mark.parametrize(
    ("dtype", "wide", "counted"),
    [(jnp.float8_e4m3fn, jnp.float32, "f8e4m3fn"), (jnp.int8, jnp.int32, "s8"), (jnp.bfloat16, jnp.float32, "bf16")],
)
def test_products_are_counted_by_what_is_multiplied(dtype, wide, counted):
    traced = jax.jit(lambda a, b: jnp.einsum("bd,bdf->bf", a, b, preferred_element_type=wide)).trace(
        jax.ShapeDtypeStruct((8, 64), dtype), jax.ShapeDtypeStruct((8, 64, 32), dtype)
    )
    cost, _ = count_module(read_module(compile_standing_in(traced, "a chip").module), (), fused_traffic())
    assert cost.flops == {counted: 2 * 8 * 64 * 32}
