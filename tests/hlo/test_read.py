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
