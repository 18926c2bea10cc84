"""The cell is the function: what it reads, what lands, what is refused, and that nothing leaks."""

import functools

import equinox as eqx
import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxscale_magic.capture import capture_cell, parse_cell
from jaxscale_magic.capture_call import capture_call
from jaxscale_magic.errors import CellError


def notebook(**names):
    """A namespace like a notebook's, with the usual imports."""
    return {"__name__": "__main__", "jax": jax, "jnp": jnp, "np": np, **names}


def define(namespace, source):
    exec(source, namespace)


def run(source, namespace):
    """Capture, run and bind a cell, as the magic does; returns (captured, last value)."""
    captured = capture_cell(parse_cell(source, filename="<cell>"), namespace)
    outputs = captured.traced.lower().compile()(*captured.args, **captured.kwargs)
    return captured, captured.bind(outputs)


x = jnp.arange(32.0).reshape(4, 8) / 32
w = jnp.eye(8)


def test_variables_land_and_the_last_expression_comes_back():
    space = notebook(x=x, w=w)
    captured, last = run("y = x @ w\nname = 'kept'\ny.sum()", space)
    assert captured.names == ("x", "w")
    np.testing.assert_array_equal(space["y"], x)
    assert space["name"] == "kept"
    assert last == x.sum()
    assert captured.shows_last


@pytest.mark.parametrize(
    ("source", "inputs"),
    [
        ("y = x + 1", ("x",)),
        ("x = x + 1", ("x",)),
        ("x += 1", ("x",)),
        ("x = jnp.ones(3)\ny = x", ()),  # bound before it is read
        ("y = [x * i for i in range(2)]", ("x",)),
        ("def f(w): return w + 1\ny = f(x)", ("x",)),  # w is f's own
        ("def f(a): return a @ w\ny = f(x)", ("w", "x")),
        ("for i in range(2):\n    x = x + i", ("x",)),
        ("y = f(x)", ("x", "w")),  # the notebook's f reads w
        ("y = g(x)", ("x", "w")),  # so does a jitted one
        ("y = h(x)", ("x", "w")),  # and a partial one
        ("y = x + 1; del x", ("x",)),
    ],
)
def test_inputs_are_the_arrays_that_are_read(source, inputs):
    space = notebook(x=x, w=w, unused=w)
    define(space, "def f(a): return a @ w\ng = jax.jit(f)\nimport functools\nh = functools.partial(f)")
    captured, _ = run(source, space)
    assert captured.names == inputs


def test_a_cell_may_be_run_again_and_its_functions_outlive_it():
    space = notebook(x=x, w=w)
    define(space, "def body(c, _): return jnp.tanh(c @ w), None\nf = jax.jit(lambda a: a @ w)")
    source = (
        "def local(a): return a @ w\n"
        "y, _ = jax.lax.scan(body, x, None, length=3)\n"
        "z = f(x) + local(x) + jax.checkpoint(local)(x)"
    )
    for _ in range(2):
        run(source, space)
    # Traces made inside are not reused outside, where their tracers are dead.
    np.testing.assert_allclose(space["f"](x), x)
    np.testing.assert_allclose(space["local"](x), x)
    np.testing.assert_allclose(jax.lax.scan(space["body"], x, None, length=3)[0], space["y"], rtol=1e-6)


def test_a_change_of_an_input_reaches_the_next_run():
    space = notebook(x=x, w=w)
    define(space, "def f(a): return a @ w")
    run("y = f(x)", space)
    space["w"] = 2 * w
    run("y = f(x)", space)
    np.testing.assert_array_equal(space["y"], 2 * x)


@flax.struct.dataclass
class State:
    weights: jax.Array
    step: int = flax.struct.field(pytree_node=False)


class Linear(eqx.Module):
    weights: jax.Array
    name: str = "linear"

    def __call__(self, a):
        return a @ self.weights


@pytest.mark.parametrize(
    ("value", "source", "name"),
    [
        ({"w": w, "rate": 0.5}, "y = x @ value['w'] * value['rate']", "value['w']"),
        ([w, None, "text"], "y = x @ value[0]", "value[0]"),
        (State(weights=w, step=3), "y = x @ value.weights * value.step", "value.weights"),
        (Linear(w), "y = value(x)", "value.weights"),
        (jax.tree_util.Partial(jnp.matmul, x), "y = value(jnp.eye(8)) + x", "value"),
    ],
)
def test_pytrees_of_any_registered_kind(value, source, name):
    space = notebook(x=x, value=value)
    captured, _ = run(source, space)
    assert any(label.startswith(name) for label in captured.names)
    assert space["y"].shape == (4, 8)


def test_results_may_be_pytrees_with_plain_python_inside():
    space = notebook(x=x)
    run("out = {'y': x + 1, 'n': 3, 'who': 'me'}\nstate = (x, [x * 2])", space)
    assert space["out"]["n"] == 3
    assert space["out"]["who"] == "me"
    np.testing.assert_array_equal(space["state"][1][0], 2 * x)


def test_random_keys():
    space = notebook(key=jax.random.key(0), old=jax.random.PRNGKey(1))
    run(
        "a = jax.random.normal(key, (3,))\nkey, sub = jax.random.split(key)\nb = jax.random.normal(old, (3,))",
        space,
    )
    np.testing.assert_array_equal(space["a"], jax.random.normal(jax.random.key(0), (3,)))
    assert jnp.issubdtype(space["sub"].dtype, jax.dtypes.prng_key)


def test_changing_a_dict_of_parameters_in_place_changes_that_dict():
    params = {"w": w}
    space = notebook(params=params)
    run("params['w'] = params['w'] * 2", space)
    assert space["params"] is params
    np.testing.assert_array_equal(params["w"], 2 * w)


def test_shapes_without_numbers_are_analysed_and_land_as_shapes():
    big = jax.ShapeDtypeStruct((1 << 20, 1 << 20), jnp.bfloat16)  # 2 TB
    space = notebook(big=big, params={"w": big})
    captured = capture_cell(parse_cell("y = big @ params['w']"), space)
    assert captured.abstract
    captured.bind([jax.ShapeDtypeStruct(s.shape, s.dtype) for s in jax.tree.leaves(captured.traced.out_info)])
    assert space["y"] == big


def test_a_leftover_shape_that_is_not_used_does_not_matter():
    space = notebook(x=x, y=jax.ShapeDtypeStruct((3,), jnp.float32))
    captured, _ = run("if True:\n    y = x + 1\nz = y", space)
    assert not captured.abstract
    assert captured.names == ("x",)


ADVICE = {  # cell -> (line, words of the message)
    "y = undefined_name + 1": (2, ["`undefined_name` is not defined", "Run the cell"]),
    "y = weigths @ x": (2, ["Did you mean `weights`"]),
    "y = x + 1\nprint(y)": (3, ["only shapes", "jax.debug.print"]),
    "print(f'{x.sum():.3f}')": (2, ["jax.debug.print"]),
    "print(f'loss {x.sum()}')": (2, ["jax.debug.print"]),
    "y = float(x.sum())": (2, ["jax.debug.print", "next cell"]),
    "y = 1\nif x.sum() > 0:\n    y = x": (3, ["Python `if`", "jnp.where"]),
    "while x.sum() > 0:\n    x = x - 1": (2, ["jax.lax.while_loop"]),
    "y = x @ x": (2, ["contracting dimensions", "(8,)", "(4,)"]),
    "y = np.sin(x)": (2, ["numpy function", "jnp"]),
    "x[0] = 1": (2, ["in place", ".at["]),
    "y = x[x > 0]": (2, ["mask", "jnp.where"]),
    "y = jnp.zeros(x.sum().astype(int))": (2, []),
    "y = jax.lax.psum(x, 'data')": (2, ["data", "shard_map"]),
    "y = (x + 1).block_until_ready()": (2, ["Leave it out"]),
    "assert x.shape == (9,)": (2, ["AssertionError."]),
    "n = 3": (2, ["computes no array"]),
    "": (None, ["empty"]),
    "   \n\n": (None, ["empty"]),
    "# only words\n# and more": (None, ["only comments"]),
    "y = x\n!ls": (3, ["shell command", "cell of its own"]),
    "files = !ls": (2, ["shell command"]),
    "%time y = x + 1": (2, ["magic"]),
    "x?": (2, ["help"]),
    "y = await x": (2, ["await"]),
    "async with x: pass": (2, ["await"]),
    "y = (x +": (2, ["no Python"]),
    "return x": (2, ["outside function"]),
    "y = x": (2, ["computes no array"]),
    "y = numbers + 1": (2, ["computes no array", "jnp.asarray"]),
    "y = gone + 1": (None, ["`gone` is gone", "donate_argnums"]),
    "y = x" + " + x" * 20_000: (None, ["no Python"]),
}


@pytest.mark.parametrize("source", ADVICE)
def test_what_cannot_be_traced_says_where_and_what_instead(source):
    line, words = ADVICE[source]
    gone = jnp.ones(3)
    gone.delete()
    space = notebook(x=x, weights=w, numbers=np.arange(3), gone=gone)
    before = dict(space)
    with pytest.raises(CellError) as caught:
        run(source, space)
    assert caught.value.line == line
    if line is not None:
        assert caught.value.text == source.splitlines()[line - 2].strip()
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 500
    # Nothing of the notebook changed.
    assert space.keys() - {"__builtins__"} == before.keys()
    assert all(space[name] is before[name] for name in before)


def test_a_failing_cell_leaves_containers_as_they_were():
    space = notebook(x=x, log=["old"], seen={"a": 1})
    with pytest.raises(CellError):
        run("log.append('new')\nseen['b'] = 2\ny = x @ x", space)
    assert space["log"] == ["old"]
    assert space["seen"] == {"a": 1}


def test_a_name_that_shadows_print_lands():
    space = notebook(x=x)
    run("print = 3\ny = x + 1", space)
    assert space["print"] == 3


def test_plain_prints_happen_once(capsys):
    space = notebook(x=x)
    captured, _ = run("print('hello', 3)\ny = x + 1", space)
    captured.retrace([jax.ShapeDtypeStruct((2, 8), jnp.float32)])
    assert capsys.readouterr().out == "hello 3\n"
    assert "print" not in space


def test_the_semicolon_hides_the_last_value():
    assert not capture_cell(parse_cell("x + 1;"), notebook(x=x)).shows_last
    assert capture_cell(parse_cell("x + 1"), notebook(x=x)).shows_last
    assert capture_cell(parse_cell("x + 1  # ; a comment"), notebook(x=x)).shows_last


def test_lines_are_counted_as_the_notebook_shows_them():
    space = notebook(x=x)
    captured = capture_cell(parse_cell("\ny = x + 1\n", filename="<my cell>"), space)
    text = captured.traced.lower().as_text(debug_info=True)
    assert '"<my cell>":3' in text  # the magic is line 1, an empty line is 2


def test_a_call_keeps_donation_and_static_arguments():
    @functools.partial(jax.jit, static_argnums=1, donate_argnums=0, static_argnames="mode")
    def f(a, n, b, *, mode="fast"):
        assert isinstance(n, int)
        assert mode == "slow"
        return a * n + b

    captured = capture_call(f, (x, 3, x), {"mode": "slow"})
    assert captured.names == ("a", "b") or len(captured.names) == 2
    assert len(captured.args) == 2
    donated = [leaf.donated for leaf in jax.tree.leaves(captured.traced.args_info)]
    assert donated == [True, False]
    compiled = captured.traced.lower().compile()
    np.testing.assert_array_equal(compiled(jnp.copy(x), x, **captured.kwargs), 4 * x)


def test_a_call_of_a_plain_function_takes_everything_but_arrays_as_constants():
    def f(a, n, options):
        return a * n if options["double"] else a

    captured = capture_call(f, (x, 2, {"double": True}), {})
    assert len(captured.leaves) == 1
    np.testing.assert_array_equal(captured.traced.lower().compile()(*captured.args), 2 * x)


def test_a_call_that_fails_names_the_users_own_line():
    def f(a, b):
        return a @ b  # does not fit

    with pytest.raises(CellError, match=r"`return a @ b  # does not fit`: TypeError: dot_general") as caught:
        capture_call(f, (x, x), {})
    assert caught.value.line is None
