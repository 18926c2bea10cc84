"""Plans as they are written: `#:` lines, mappings and sequences, and what is refused."""

import jax
import pytest
from jax.sharding import PartitionSpec as P

from jaxscale_magic.errors import CellError, JaxscaleError
from jaxscale_magic.shardings.notation import Plan, Rule, dotted, plan_from_specs, plans_in_cell


def written(line):
    (plan,) = plans_in_cell(["%%shardcost", line])
    return plan.name, str(plan)


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        ("#: dp    x[data,-]  w1[-,-]", "dp", "x[data,-]  w1[-,-]"),
        ("#:tp x[ - , model ]", "tp", "x[-,model]"),
        ("   #: fsdp x[data, None ]", "fsdp", "x[data,None]"),
        ("#: two x[data+model,-]", "two", "x[data+model,-]"),
        ("#: tree params.*.w1[-,model]", "tree", "params.*.w1[-,model]"),
        ("#: out x[data,-] -> y[data,-]", "out", "x[data,-]  -> y[data,-]"),
        ("#: book x[B_data, D], w[D, F_{X,Y}]", "book", "x[B_data,D]  w[D,F_{X,Y}]"),
        ("#: scalar s[]", "scalar", "s[]"),
        ("#: rest w[...,model]", "rest", "w[...,model]"),
        ("#: none", "none", ""),
    ],
)
def test_a_line(line, name, text):
    assert written(line) == (name, text)


def test_other_lines_are_no_plans():
    assert plans_in_cell(["# a comment", "y = x  #: not at the start", ""]) == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#:", "begins with its name"),
        ("#: x[data,-]", "begins with its name"),
        ("#: dp x", "`x` is no array"),
        ("#: dp x[data", "no array with its axes"),
        ("#: dp x[data,-] w2", "`w2` is no array"),
    ],
)
def test_what_is_no_plan_says_its_line(line, words):
    with pytest.raises(CellError, match=words) as caught:
        plans_in_cell(["%%shardcost", "", line])
    assert caught.value.line == 3


def test_two_plans_of_one_name():
    with pytest.raises(CellError, match="two plans named 'dp'"):
        plans_in_cell(["#: dp x[-]", "#: dp x[data]"])


MESH = jax.sharding.AbstractMesh((2, 2), ("data", "model"))


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        ({"w": P(None, "model")}, "w[-,model,...]"),
        ({"w": P(("data", "model"))}, "w[data+model,...]"),
        ({"w": P(P.UNCONSTRAINED, "model")}, "w[?,model,...]"),
        ({"w": None}, "w[...]"),
        ({"w": jax.sharding.NamedSharding(MESH, P("data"))}, "w[data,...]"),
        ({"p.*.w": P("data")}, "p.*.w[data,...]"),
        ({"p": {"a": P("data"), "b": [None, P("model")]}}, "p.a[data,...]  p.b.0[...]  p.b.1[model,...]"),
        ([P("data"), None], "x[data,...]  w[...]"),
        ((P("data"),), "x[data,...]"),
        (Plan(name="n", inputs=(Rule("x", ("data",)),)), "x[data]"),
    ],
)
def test_plans_given_in_python(specs, text):
    assert str(plan_from_specs("n", specs, ("x", "w"))) == text


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (P("data"), "must map names"),
        ("data", "must map names"),
        ({"w": "model"}, r"write PartitionSpec\('model'\)"),
        ({"w": 3}, "no PartitionSpec"),
        ([P(), P(), P()], "3 specs for 2 arguments"),
    ],
)
def test_what_is_no_plan_in_python(specs, words):
    with pytest.raises(JaxscaleError, match=words):
        plan_from_specs("n", specs, ("x", "w"))


@pytest.mark.parametrize(
    ("label", "path"),
    [("x", "x"), ("params['w1']", "params.w1"), ("p['a'][0].b", "p.a.0.b"), ('p["a b"]', "p.a b"), ("p[3]", "p.3")],
)
def test_paths(label, path):
    assert dotted(label) == path
