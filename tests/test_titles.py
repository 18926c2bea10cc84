"""What an analysed cell or call is called."""

import functools

import jax
import jax.numpy as jnp
import pytest

from jaxscale_magic.titles import call_title, cell_title, function_name


def loss(w):
    return jnp.sum(w**2)


def documented(w):
    """Gradient of nothing at all."""
    return w


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (["", "y = x @ w"], "y = x @ w"),
        (["", "# two layers", "h = x @ w1", "", "y = h @ w2"], "h = x @ w1 … (2 lines)"),
        (["", "  # only this"], ""),
        ([], ""),
    ],
)
def test_a_cell_is_called_by_its_code(lines, title):
    assert cell_title(lines) == title


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (loss, "loss"),
        (jax.jit(loss), "loss"),
        (jax.grad(loss), "grad(loss)"),
        (jax.jit(jax.grad(loss)), "grad(loss)"),
        (jax.value_and_grad(loss), "value_and_grad(loss)"),
        (jax.vmap(jax.grad(loss)), "vmap(grad(loss))"),
        (jax.jit(documented), "documented"),
        (jax.grad(documented), "grad(documented)"),
        (functools.partial(loss), "partial(loss)"),
        (lambda w: w, "lambda"),
    ],
)
def test_a_function_is_called_by_its_name_and_what_transforms_it(function, name):
    assert function_name(function) == name


def test_a_call_is_called_by_function_and_arguments():
    assert call_title(jax.grad(loss), ["float32[3]", "2"]) == "grad(loss)(float32[3], 2)"
