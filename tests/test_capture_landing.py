"""What lands is what would land without the magic: same values, same objects, same order, run once.

Each case runs three texts twice, once as plain Python and once with the cell captured, and compares the probe.
"""

import collections
import dataclasses
import functools

import equinox as eqx
import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxscale_magic.capture import capture_cell, parse_cell
from jaxscale_magic.errors import CellError


def notebook():
    """A namespace like a notebook's; `x` is an array of three."""
    return {
        "__name__": "__main__",
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "functools": functools,
        "collections": collections,
        "dataclasses": dataclasses,
        "eqx": eqx,
        "flax": flax,
        "x": jnp.arange(3.0),
    }


def captured_run(source, space):
    """Capture, run and bind, as the magic does."""
    captured = capture_cell(parse_cell(source, filename="<cell>"), space)
    outputs = captured.traced.lower().compile()(*captured.args, **captured.kwargs)
    captured.bind(outputs)
    return captured


CASES = {  # name: (setup, cell, probe)
    "order of a dict that lands": ("", "d = {'b': x * 2, 'a': x * 3}", "list(d)"),
    "order of a dict that is read": (
        "w = {'z': jnp.array([[2.0, 0], [1, 1]]), 'a': jnp.array([[0.0, 1], [3, 4]])}",
        "y = jnp.eye(2)\nfor m in w.values(): y = y @ m",
        "y.tolist(), list(w)",
    ),
    "keys of several kinds": ("d = {1: x, 'b': 2.0}", "e = {1: d[1] * d['b'], 'c': 1, None: 3}", "e, d"),
    "a default dict": ("", "d = collections.defaultdict(list)\nd['k'].append(x + 1)", "d['k'], d['new'], type(d)"),
    "an ordered dict": ("", "d = collections.OrderedDict(b=x + 1, a=1)\nd.move_to_end('b')", "d"),
    "two names for one dict": ("d1 = {'w': x}\nd2 = d1", "d1['w'] = x * 2\nz = d2['w'] + 0", "z, d1, d2, d1 is d2"),
    "two names for one new list": ("", "a = b = []\ny = x + 1\na.append(y)", "a, a is b"),
    "a part of a dict that has a name of its own": (
        "p = {'l': {'w': x}}\ninner = p['l']",
        "p['l']['w'] = x * 2",
        "p, inner is p['l']",
    ),
    "an old value kept": ("p = {'w': x}", "old = p\np = {'w': x * 2}", "old, p"),
    "the very array": ("first = x", "second = x\ny = x + 1", "second is first"),
    "a method of a list": ("", "h = []\npush = h.append\ny = x + 1", "push(1), h"),
    "a list of plain numbers": ("log = []", "log.append('hi')\ny = x + 1", "log"),
    "a list of results": ("losses = [0.5]", "losses.append(x.sum())", "losses"),
    "a nested dict": ("c = {'a': {}}", "c['a']['v'] = x * 2", "c"),
    "a set of names": ("s = {'a'}", "s.add('b')\ny = x + 1", "s"),
    "a double-ended queue": ("", "q = collections.deque([x * 2], maxlen=1)", "q, q.maxlen"),
    "a named tuple": ("", "NT = collections.namedtuple('NT', 'a b')\nq = NT(x, x * 2)", "q.b, type(q).__name__"),
    "one tuple under two names": ("", "t = (x + 1, 'n')\nu = t", "t, t is u"),
    "an attribute of a new object": ("class O: pass", "o = O()\no.v = x * 2", "o.v"),
    "an attribute of an old object": ("class O: pass\no = O()", "o.v = x * 2", "o.v"),
    "an attribute of an old class": ("class D: pass", "D.w = x * 2", "D.w"),
    "an attribute of a new class": ("", "class C:\n    w = x * 2", "C.w"),
    "a class changed through its object": (
        "class D:\n    def keep(self, v): type(self).v = v\nd = D()",
        "d.keep(x * 2)",
        "D.v",
    ),
    "slots": ("class S:\n    __slots__ = ('v',)", "s = S()\ns.v = x * 2", "s.v"),
    "an array in an object of a plain class": (
        "class M:\n    def __init__(self): self.w = jnp.eye(3)\nm = M()",
        "y = x @ m.w\nm.w = m.w * 2",
        "y, m.w",
    ),
    "a plain dataclass": ("", "@dataclasses.dataclass\nclass P:\n    a: object\np = P(x * 2)", "p.a"),
    "a frozen dataclass": ("", "@dataclasses.dataclass(frozen=True)\nclass P:\n    a: object\np = P(x * 2)", "p.a"),
    "a registered dataclass": (
        "@jax.tree_util.register_dataclass\n@dataclasses.dataclass\nclass P:\n    a: object\np = P(x)",
        "q = p\np = P(p.a * 2)",
        "p.a, q.a",
    ),
    "a frozen dict of flax": ("f = flax.core.freeze({'w': x})", "g = f.copy({'v': f['w'] * 2})", "g.unfreeze()"),
    "a module of equinox": (
        "class L(eqx.Module):\n    w: jax.Array\n    n: str = eqx.field(static=True)\nl = L(jnp.eye(3), 'me')",
        "y = x @ l.w\nl2 = eqx.tree_at(lambda l: l.w, l, l.w * 2)",
        "y, l2.w, l2.n",
    ),
    "a closure": ("", "f = (lambda v: lambda: v)(x + 1)", "f()"),
    "a function's default and attribute": ("", "def f(a=x * 2): return a + f.c\nf.c = x", "f()"),
    "a partial call": ("def add(a, b): return a + b", "p = functools.partial(add, b=x * 2)\ny = p(1.0)", "p(1.0), y"),
    "a jitted partial call": (
        "def add(a, b): return a + b",
        "p = jax.jit(functools.partial(add, x * 2))\ny = p(1.0)",
        "p(1.0)",
    ),
    "a bound method": ("class M:\n    def go(s): return s.v + 1", "m = M()\nm.v = x * 2\ngo = m.go", "go()"),
    "an iterator over results": ("", "it = iter([x * 2, x * 3])", "next(it), next(it)"),
    "a generator": ("ws = [x, x]", "g = (w * 2 for w in ws)\ny = x + 1", "list(g)"),
    "an array of objects": ("", "o = np.empty(2, object)\no[0] = x * 2\no[1] = 'n'", "o[0], o[1]"),
    "a cache of the user's": (
        "C = {}\ndef get(n):\n    if n not in C: C[n] = jnp.arange(n) * 1.0\n    return C[n]",
        "y = get(3) + x",
        "y, get(3)",
    ),
    "a linearization": ("", "y, f = jax.linearize(jnp.sin, x)", "y, f(x)"),
    "a pullback": ("", "y, f = jax.vjp(jnp.sin, x)", "f(x)"),
    "a gradient with a rule of its own": (
        "@jax.custom_vjp\ndef c(a): return a * 2\nc.defvjp(lambda a: (a * 2, a), lambda r, g: (g * 3 * r,))",
        "y = jax.grad(lambda a: c(a).sum())(x)",
        "y, jax.grad(lambda a: c(a).sum())(x)",
    ),
    "64-bit integers of numpy": ("a = np.array([2**40])", "b = a + 1\ny = x + 1", "b, b.dtype"),
    "64-bit floats of numpy": ("a = np.array([1 + 1e-12])", "b = a - 1\ny = x + 1", "b, type(b)"),
    "a masked array": ("m = np.ma.array([1.0, 2, 3], mask=[0, 1, 0])", "b = m.sum()\ny = x + 1", "b"),
    "numpy in place": ("a = np.ones(3)\nb = a", "a += 1\na[0] = 7\ny = x + a", "a, b, b is a, y"),
    "numpy as an index": ("i = np.array([2, 0])", "y = [int(k) for k in i]\nz = x[i]", "y, z"),
    "numpy into jax": ("a = np.arange(512.0)", "y = jnp.sin(a) + 1", "y"),
    "a name of a built-in": ("", "sum = x.sum()\nlist = [x]", "sum, list"),
    "print under another name": ("", "p = print\ny = x + 1", "p is print"),
    "a global inside a function": ("", "def f():\n    global g\n    g = x * 2\nf()\ny = g + 1", "g, y"),
    "names in loops and handlers": (
        "",
        "acc = []\nfor i in range(3):\n    try:\n        acc.append(x * i)\n        if i == 1: raise ValueError\n"
        "    except ValueError: pass\n    finally: last = i\ny = acc[-1]",
        "acc, i, last",
    ),
    "a name that goes": ("t = x", "y = t + 1\ndel t", "'t' in globals()"),
    "a number of a weak type": ("k = jnp.asarray(2.0)", "y = k * x.astype(jnp.bfloat16)", "y.dtype"),
    "a random key": ("key = jax.random.key(0)", "key, s = jax.random.split(key)\ny = jax.random.normal(s, (3,))", "y"),
}


def comparable(value):
    """A value with every array as (type, dtype, numbers)."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return type(value).__name__, str(value.dtype), np.asarray(value).tolist()
    if isinstance(value, dict):
        return [(k, comparable(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return [comparable(v) for v in value]
    return value


@pytest.mark.parametrize("name", CASES)
def test_it_lands_as_without_the_magic(name):
    setup, cell, probe = CASES[name]
    plain, magic = notebook(), notebook()
    for space in (plain, magic):
        exec(setup, space)
    exec(cell, plain)
    captured_run(cell, magic)
    assert comparable(eval(probe, magic)) == comparable(eval(probe, plain))


ONCE = {  # cell -> words of why it is not run again
    "k = next(it)\ny = x * k": "`next`",
    "k = rng.normal()\ny = x * k": "`rng`, a Generator",
    "k = np.random.normal()\ny = x * k": "`np.random",
    "with open(path, 'a') as f: f.write('x')\ny = x + 1": "`open`",
    "y = x * draw()": "random",
    "import time\ny = x * time.time()": "time",
}


@pytest.mark.parametrize("cell", ONCE)
def test_code_whose_second_run_could_be_noticed_runs_once(cell, tmp_path):
    space = notebook() | {"it": iter(range(9)), "rng": np.random.default_rng(0), "path": str(tmp_path / "log")}
    exec("import random\ndef draw(): return random.random()", space)
    captured = captured_run(cell, space)
    assert captured.retrace is None
    assert ONCE[cell] in captured.once
    assert next(space["it"]) == (1 if "next" in cell else 0)


@pytest.mark.parametrize(
    "cell",
    [
        "count['n'] += 1\ny = x + 1",
        "o.n += 1\ny = x + 1",
        "log['a'].append(1)\ny = x + 1",
        "D.n += 1\ny = x + 1",
        "y = f(x)",
    ],
)
def test_tracing_again_changes_nothing(cell):
    space = notebook()
    exec(
        "class D: n = 0\no = D()\ncount = {'n': 0}\nlog = {'a': []}\ndef f(a):\n    o.n += 1\n    return a * o.n", space
    )
    captured = captured_run(cell, space)
    state = (space["count"]["n"], space["o"].n, space["D"].n, len(space["log"]["a"]))
    again = captured.retrace([jax.ShapeDtypeStruct((7,), jnp.float32)])
    assert jax.tree.leaves(again.out_info)[0].shape == (7,)
    assert sum(state) >= 1
    assert (space["count"]["n"], space["o"].n, space["D"].n, len(space["log"]["a"])) == state


REFUSED = {  # (setup, cell) -> words of the message
    ("@functools.lru_cache\ndef f(n): return jnp.arange(n) * 1.0", "y = f(3) + x"): "_lru_cache_wrapper",
    ("import types\nm = types.ModuleType('m')", "m.v = x * 2\ny = x + 1"): "kept where it would be dead",
    ("", "def g():\n    v = x * 2\n    yield 1\n    yield v\ni = g()\nnext(i)\ny = x + 1"): "`i` is a generator",
    ("", "s = str((x * 2).shape) + f'{x}'"): "only shapes",
    ("", "s = 'loss %s' % x.sum()\ny = x + 1"): "only shapes",
    ("", "t = repr([x])\ny = x + 1"): "only shapes",
}


@pytest.mark.parametrize(("setup", "cell"), REFUSED)
def test_a_result_that_would_be_dead_is_refused(setup, cell):
    space = notebook()
    exec(setup, space)
    before = dict(space)
    with pytest.raises(CellError) as caught:
        captured_run(cell, space)
    assert REFUSED[setup, cell] in str(caught.value)
    assert all(space[name] is before[name] for name in before)
    assert space.keys() == before.keys()
    if "lru" in setup:  # what the cache kept is gone too
        np.testing.assert_array_equal(space["f"](3) + 1, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("setup", "cell"),
    [
        ("a = np.ones(3)", "a += 1\ny = x @ jnp.eye(4)"),
        ("a = {'l': [x]}", "a['l'].append(x * 2)\ny = x @ jnp.eye(4)"),
        ("class O: v = 1\na = O()", "a.v = x * 2\ny = x @ jnp.eye(4)"),
        ("class O: v = 1\na = O()", "O.v = x * 2\ny = x @ jnp.eye(4)"),
        ("a = collections.deque([1])", "a.append(x)\ny = x @ jnp.eye(4)"),
        ("def a(): return a.c\na.c = 1", "a.c = x * 2\ny = x @ jnp.eye(4)"),
    ],
)
def test_a_failing_cell_leaves_everything_as_it_was(setup, cell):
    untouched, space = notebook(), notebook()
    exec(setup, untouched)
    exec(setup, space)
    with pytest.raises(CellError):
        captured_run(cell, space)
    probe = "{**vars(a), **vars(O)}['v']" if "class" in setup else "a.c" if "def" in setup else "a"
    assert comparable(eval(probe, space)) == comparable(eval(probe, untouched))


def test_an_input_under_two_names_is_one_input():
    space = notebook() | {"d": {}}
    space["d"]["k"] = space["z"] = space["x"]
    captured = captured_run("y = x + z + d['k']", space)
    assert captured.names == ("x",)


def test_what_numpy_holds_becomes_an_input_where_jax_uses_it():
    space = notebook() | {"a": np.ones((64, 64), np.float32), "small": np.float32(2)}
    captured = captured_run("y = jnp.dot(a, a) * small", space)
    assert captured.names == ("a",)
    assert captured.traced.jaxpr.consts == [] or len(captured.traced.jaxpr.consts) == 0


def test_a_donated_argument_inside_a_cell_is_donated():
    # The state is updated in its own buffer, as it is without the magic.
    space = notebook() | {"s": jnp.zeros((256, 256)), "g": jnp.ones((256,))}
    exec("step = jax.jit(lambda s, g: s.at[3].set(g), donate_argnums=0)", space)
    captured = captured_run("s = step(s, g)", space)
    donated = [info.donated for info in jax.tree.leaves(captured.traced.args_info)]
    assert dict(zip(captured.names, donated, strict=True)) == {"s": True, "g": False}
