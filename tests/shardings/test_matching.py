"""Plans on a program: which rule holds for which array, and every refusal with its numbers."""

import pytest
from jax.sharding import PartitionSpec as P

from jaxscale_magic.errors import JaxscaleError
from jaxscale_magic.shardings.matching import axes_of, fits, match_inputs, match_outputs
from jaxscale_magic.shardings.notation import plans_in_cell

MESH = {"data": 4, "model": 2}
LABELS = ("x", "params['layers'][0]['w1']", "params['layers'][0]['b']", "params['out'].w1")
SHAPES = ((8, 16), (16, 32), (32,), (16, 32))


def matched(text, mesh=MESH, labels=LABELS, shapes=SHAPES):
    (plan,) = plans_in_cell([f"#: p {text}"])
    return match_inputs(plan, labels, shapes, mesh)


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("x[data,-]", (P("data", None), None, None, None)),
        ("x[data+model,-]", (P(("data", "model"), None), None, None, None)),
        ("x[-,?]", (P(None, P.UNCONSTRAINED), None, None, None)),
        ("params.layers.0.w1[-,model]", (None, P(None, "model"), None, None)),
        ("params['layers'][0]['w1'][-,model]", None),
        ("params.*.w1[-,model]", (None, P(None, "model"), None, P(None, "model"))),
        ("params.*w1[-,model] params.out.w1[data,-]", (None, P(None, "model"), None, P("data", None))),
        ("params[...]", (None, P(None, None), P(None), P(None, None))),
        ("params[...,model] x[...]", (P(None, None), P(None, "model"), P("model"), P(None, "model"))),
        ("*[...] x[data,...]", (P("data", None), P(None, None), P(None), P(None, None))),
    ],
)
def test_which_rule_holds(text, specs):
    if specs is None:  # brackets are for axes
        with pytest.raises(JaxscaleError):
            matched(text)
    else:
        assert matched(text) == specs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y[data,-]", "no array is named 'y'"),
        ("parms.*.w1[-,model]", "Did you mean params"),
        ("x[dat,-]", "Did you mean 'data'"),
        ("x[zz,-]", "data=4, model=2"),
        ("x[data,data]", "axis 'data' shards dimension 0 and dimension 1"),
        ("x[data+data,-]", "axis 'data' shards dimension 0 and dimension 0"),
        ("x[data]", r"x\[8, 16\]: it has 2 dimensions, x\[data\] names 1"),
        ("x[data,-,-]", "names 3"),
        ("x[...,-,...]", "two `...`"),
        ("params.*.b[data,model]", "it has 1 dimension, "),
    ],
)
def test_refusals_name_the_array_and_the_numbers(text, words):
    with pytest.raises(JaxscaleError, match=words):
        matched(text)


def test_a_dimension_that_is_not_divided():
    with pytest.raises(JaxscaleError, match=r"x\[6, 16\]: dimension 0 has length 6, which data = 4 does not divide"):
        matched("x[data,-]", labels=("x",), shapes=((6, 16),))
    with pytest.raises(JaxscaleError, match=r"length 4, which data\+model = 8"):
        matched("x[data+model]", labels=("x",), shapes=((4,),))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x[B_data, D]", P("data", None)),
        ("x[B_{data,model}, D]", P(("data", "model"), None)),
        ("x[B_data+model, D]", P(("data", "model"), None)),
        ("x[B, D_model]", P(None, "model")),
    ],
)
def test_the_books_notation(text, spec):
    assert matched(text)[0] == spec


@pytest.mark.parametrize(
    ("entry", "axes"),
    [("I_XY", ("X", "Y")), ("I_X", ("X",)), ("I", ()), ("I_Q", None), ("I_{X,Y}", ("X", "Y")), ("Y", ("Y",))],
)
def test_axes_of_single_letters(entry, axes):
    assert axes_of(entry, {"X": 4, "Y": 2}, book=True) == axes


def test_an_axis_with_an_underscore_is_an_axis():
    assert matched("x[data_parallel,-]", mesh={"data_parallel": 4})[0] == P("data_parallel", None)


def test_outputs_have_rules_of_their_own():
    (plan,) = plans_in_cell(["#: p x[data,-] -> y[-,model]"])
    assert match_outputs(plan, ("y", "z"), ((8, 4), (3,)), MESH) == (P(None, "model"), None)


@pytest.mark.parametrize(
    ("pattern", "path", "fitting"),
    [
        ("params", "params.a.b", True),
        ("params.a", "params.a.b", True),
        ("params.a", "params.ab", False),
        ("*.w", "params.a.w", True),
        ("params.?.w", "params.1.w", True),
        ("w", "params.w", False),
    ],
)
def test_patterns(pattern, path, fitting):
    assert fits(pattern, path) is fitting
