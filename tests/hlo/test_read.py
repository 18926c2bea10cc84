"""Reading modules: text and bytes give the same graph; damaged bytes give one clear error."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxscale_magic.errors import ModuleError
from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.hlo.schema import message
from jaxscale_magic.jax_internals import module_bytes, text_to_module_bytes


def compiled_mlp():
    def mlp(x, w):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0]

    shape = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    return jax.jit(mlp).lower(shape, shape).compile()


@pytest.fixture(scope="module")
def compiled():
    return compiled_mlp()


@pytest.fixture(scope="module")
def data(compiled):
    return module_bytes(compiled)


def test_text_and_bytes_agree(compiled, data):
    from_bytes, from_text = read_module(data), read_module(text_to_module_bytes(compiled.as_text()))
    assert from_bytes.instruction_count == from_text.instruction_count
    assert count_module(from_bytes)[0].flops == count_module(from_text)[0].flops == {"f32": 3 * 2 * 32**3}


def test_a_module_wrapped_in_an_hlo_proto_reads_the_same(data):
    wrapped = message("HloProto")()
    wrapped.hlo_module.ParseFromString(data)
    assert read_module(wrapped.SerializeToString()).instruction_count == read_module(data).instruction_count


@pytest.mark.parametrize("rubbish", [b"", b"\x00", b"HloModule", b"\xff" * 100, b"PK\x03\x04" * 50])
def test_what_is_no_module_is_refused(rubbish):
    with pytest.raises(ModuleError):
        read_module(rubbish)


DATA = module_bytes(compiled_mlp())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(end=st.integers(0, len(DATA) - 1))
def test_a_cut_module_is_refused_or_whole(end):
    try:
        module = read_module(DATA[:end])
    except ModuleError:
        return
    # What was cut off lies behind the graph (device assignment, frontend attributes).
    assert count_module(module)[0].flops == {"f32": 3 * 2 * 32**3}


def test_bad_text_says_what_xla_says():
    with pytest.raises(ModuleError, match="cannot read this HLO text"):
        text_to_module_bytes("HloModule nonsense {")


def fusions(*bodies):
    """A chain of fusions over f32[8]: each body is the text behind `p` in a computation of its own."""
    computations = "\n".join(f"f{k} {{\n p = f32[8] parameter(0)\n {body}\n}}" for k, body in enumerate(bodies))
    calls, last = [], "p"
    for k in range(len(bodies)):
        root = "ROOT " if k == len(bodies) - 1 else ""
        calls.append(f" {root}x{k} = f32[8] fusion({last}), kind=kLoop, calls=f{k}")
        last = f"x{k}"
    return f"HloModule m\n{computations}\nENTRY e {{\n p = f32[8] parameter(0)\n" + "\n".join(calls) + "\n}\n"


def read_text(text):
    module = read_module(text_to_module_bytes(text))
    return module, {computation.name: computation for computation in module.computations.values()}


def added_on(line):
    return f'ROOT a = f32[8] add(p, p), metadata={{source_file="a.py" source_line={line}}}'


def test_equal_fusions_have_one_pattern_and_their_own_lines():
    module, named = read_text(fusions(added_on(1), added_on(2)))
    assert named["f1"].pattern is named["f0"].pattern is not named["e"]
    _, ops = count_module(module)
    # 8 additions; 8 floats of 4 bytes in and 8 out.
    lines = [(op.name, {line.line: work.vector_flops for line, work in op.lines if line}) for op in ops]
    assert lines == [("x0", {1: 8}), ("x1", {2: 8})]
    assert [op.work.hbm_bytes for op in ops] == [64, 64]
    assert [i.proto.metadata.source_line for i in named["f1"]] == [0, 2]


@pytest.mark.parametrize(
    "bodies",
    [
        ("ROOT a = f32[8] add(p, p)", "ROOT a = f32[8] multiply(p, p)"),
        ("ROOT a = f32[8] add(p, p)", "b = f32[8] negate(p)\n ROOT a = f32[8] add(p, b)"),
        ("b = f32[8] negate(p)\n ROOT a = f32[8] add(b, p)", "b = f32[8] negate(p)\n ROOT a = f32[8] add(b, b)"),
        (
            "c = f32[] constant(1)\n ROOT a = f32[8] broadcast(c)",
            "c = f32[] constant(2)\n ROOT a = f32[8] broadcast(c)",
        ),
        ("ROOT a = f32[8] slice(p), slice={[0:8]}", "ROOT a = f32[8] copy(p)"),
    ],
    ids=["opcode", "length", "operands", "constant", "moves"],
)
def test_different_fusions_have_different_patterns(bodies):
    _, named = read_text(fusions(*bodies))
    assert named["f1"].pattern is named["f1"] is not named["f0"].pattern


def nested(*inner):
    """Fusions whose bodies are one call each, of computations that differ as told."""
    defined = "".join(
        f"n{k} {{\n p = f32[8] parameter(0)\n ROOT a = f32[8] {opcode}(p)\n}}\n" for k, opcode in enumerate(inner)
    )
    text = fusions(*(f"ROOT a = f32[8] fusion(p), kind=kLoop, calls=n{k}" for k in range(len(inner))))
    return text.replace("HloModule m\n", "HloModule m\n" + defined)


@pytest.mark.parametrize(
    ("inner", "alike", "flops", "transcendentals"),
    [(("negate", "negate"), True, 16, 0), (("negate", "tanh"), False, 16, 8), (("negate", "copy"), False, 8, 0)],
)
def test_what_a_fusion_calls_is_part_of_its_structure(inner, alike, flops, transcendentals):
    module, named = read_text(nested(*inner))
    assert (named["f0"].pattern is named["f1"].pattern) is alike
    cost, _ = count_module(module)
    assert (cost.work.vector_flops, cost.work.transcendentals) == (flops, transcendentals)


def dangling_root(module):
    module.computations[0].root_id += 1000


def dangling_operand(module):
    next(i for i in module.computations[0].instructions if i.operand_ids).operand_ids[0] += 1000


def dangling_callee(module):
    next(i for i in module.computations[-1].instructions if i.opcode == "fusion").called_computation_ids[0] += 1000


def dangling_entry(module):
    module.entry_computation_id += 1000


@pytest.mark.parametrize("damage", [dangling_root, dangling_operand, dangling_callee, dangling_entry])
def test_references_that_lead_nowhere_are_refused(damage):
    module = message("Module").FromString(text_to_module_bytes(fusions(added_on(1), added_on(2))))
    damage(module)
    with pytest.raises(ModuleError):
        read_module(module.SerializeToString())
