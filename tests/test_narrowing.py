"""Programs with narrow inputs compute what they computed, whatever the inputs pass through."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxscale_magic.narrowing import with_narrow_inputs

x = jnp.arange(12.0).reshape(3, 4)
w = jnp.arange(32.0).reshape(2, 4, 4) % 7 - 3


@jax.custom_jvp
def doubled(a):
    return 2 * a


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * tangents[0]))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: x @ w[0] + w[1].sum(),
        lambda x, w: jax.lax.scan(lambda c, wi: (c @ wi, c.sum()), x, w),
        lambda x, w: jax.lax.scan(lambda c, xi: (c + xi @ w[0], None), jnp.zeros(4), x),
        lambda x, w: jax.lax.fori_loop(0, 2, lambda i, c: c @ w[i], x),
        lambda x, w: jax.lax.while_loop(lambda c: c.sum() < w.sum() + 9, lambda c: c + abs(w[0, 0]), x),
        lambda x, w: jax.jit(lambda a: a.T.reshape(-1))(w[0]) @ x.sum(0).repeat(4),
        lambda x, w: jax.lax.cond(x.sum() > 0, lambda a: a @ w[0], lambda a: a @ w[1], x),
        lambda x, w: jax.checkpoint(lambda a, b: jnp.sin(a @ b[1]))(x, w),
        lambda x, w: doubled(w)[0] @ x.T,
        lambda x, w: jax.grad(lambda a: (x @ a[0]).sum())(w),
        lambda x, w: (w, x),
        lambda x, w: jax.vmap(lambda a: x @ a)(w),
        lambda x, w: w[jnp.array([1, 0, 1])],
    ],
)
def test_the_results_are_the_same(program):
    wide = jax.jit(program).trace(x, w).jaxpr
    narrow = with_narrow_inputs(wide, {1: jnp.float32})
    expected, got = jax.tree.leaves(program(x, w)), jax.jit(narrow)(x, w.astype(jnp.int8))
    for one, other in zip(expected, got, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)
