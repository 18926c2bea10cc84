"""The public functions: calls, modules made elsewhere, and what the report warns of."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import pytest

import jaxscale_magic as jm
from jaxscale_magic import analysis
from jaxscale_magic.errors import ChipError, ModuleError, TargetError
from jaxscale_magic.jax_internals import module_bytes
from jaxscale_magic.useful_flops import useful_flops

HOST = importlib.import_module("jaxscale_magic.chips.host")


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def product(x, w):
    return x @ w


@pytest.fixture(scope="module")
def compiled():
    return jax.jit(product).lower(array(64, 32), array(32, 16)).compile()


def test_a_module_made_elsewhere_as_bytes_text_and_file(compiled, tmp_path):
    text, data = compiled.as_text(), module_bytes(compiled)
    (tmp_path / "module.txt").write_text(text)
    (tmp_path / "module.pb").write_bytes(data)
    for module in (text, data, tmp_path / "module.txt", str(tmp_path / "module.pb")):
        report = jm.analyze_hlo(module, on="v5e")
        assert report.cost.flops == {"f32": 2 * 64 * 32 * 16}
        assert report.cost.min_hbm_bytes == 4 * (64 * 32 + 32 * 16 + 64 * 16)
        assert report.target.chip.name == "v5e"
        assert report.measured is None


@pytest.mark.parametrize("module", ["no/such/file.txt", b"rubbish", "HloModule nonsense {", "x" * 10_000, "\0"])
def test_what_is_no_module_is_one_sentence(module):
    with pytest.raises(ModuleError) as caught:
        jm.analyze_hlo(module, on="v5e")
    assert len(str(caught.value)) < 1000


def test_an_unknown_chip_names_the_nearest():
    with pytest.raises(ChipError, match="v5e"):
        jm.roofline(product, array(8, 8), array(8, 8), on="v5ee")


def test_a_call_with_keywords_pytrees_and_constants():
    def loss(params, x, *, scale, mode):
        assert mode == "train"
        return ((x @ params["w"]) * scale).sum()

    report = jm.roofline(loss, {"w": jnp.ones((8, 4)), "name": "n"}, jnp.ones((2, 8)), scale=2.0, mode="train")
    assert report.cost.flops == {"f32": 2 * 2 * 8 * 4}
    assert report.measured is not None


def test_a_python_if_in_a_function_is_explained():
    def branch(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(jm.JaxscaleError, match=r"jnp\.where"):
        jm.roofline(branch, jnp.ones(3))


def test_a_measurement_faster_than_possible_is_said_loudly(monkeypatch):
    host = jm.chip("host")
    slow = dataclasses.replace(
        host,
        matrix_flops={d: dataclasses.replace(f, value=1e6) for d, f in host.matrix_flops.items()},
    )
    monkeypatch.setattr(analysis, "_chip_here", lambda: slow)
    monkeypatch.setattr(HOST, "recalibrate_host", lambda: slow)
    report = jm.roofline(product, jnp.ones((64, 64)), jnp.ones((64, 64)))
    assert report.notes[0].startswith("MEASURED FASTER THAN POSSIBLE")
    assert "MEASURED FASTER" in str(report)


def test_a_busy_calibration_is_taken_again(monkeypatch):
    host = jm.chip("host")
    slow = dataclasses.replace(
        host, matrix_flops={d: dataclasses.replace(f, value=1e6) for d, f in host.matrix_flops.items()}
    )
    monkeypatch.setattr(analysis, "_chip_here", lambda: slow)
    monkeypatch.setattr(HOST, "recalibrate_host", lambda: host)
    report = jm.roofline(product, jnp.ones((64, 64)), jnp.ones((64, 64)))
    assert report.share_of_bound <= 1.02
    assert not any("FASTER" in note for note in report.notes)


def test_results_stay_where_timing_fails(monkeypatch):
    def fail(*_args, **_options):
        raise MemoryError("no room for another set of buffers")

    monkeypatch.setattr(analysis, "measure", fail)
    report = jm.roofline(product, jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert report.measured is None
    assert any("no room for another set" in note for note in report.notes)


def test_what_the_compiler_refuses_is_in_its_own_words():
    def impossible(x):
        return jax.lax.reshape(x, (2**62,)) if x.size < 0 else jax.ffi.ffi_call("no_such_target", x)(x)

    with pytest.raises(TargetError, match="no_such_target"):
        jm.roofline(impossible, jnp.ones(3))


def test_an_accelerator_that_nobody_described(monkeypatch):
    class Odd:
        platform, device_kind = "tpu", "TPU v99"

    monkeypatch.setattr(jax, "devices", lambda *_: [Odd()])
    with pytest.raises(ChipError, match="TPU v99"):
        analysis._chip_here()


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (lambda x: x @ x, 2 * 8**3),
        (lambda x: jax.lax.scan(lambda c, _: (c @ c, None), x, None, length=5)[0], 10 * 8**3),
        (lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x), 2 * 8**3),
        (jax.checkpoint(lambda x: x @ x), 2 * 8**3),
        (lambda x: jax.jit(lambda x: x @ x)(x), 2 * 8**3),
        (jax.grad(lambda x: jnp.sum(x @ x)), 3 * 2 * 8**3),  # forward, and the product with each side's gradient
        (lambda x: x + 1, 0),
        (lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ c, x), None),  # nobody knows how often
    ],
)
def test_flops_as_written(function, flops):
    assert useful_flops(jax.jit(function).trace(array(8, 8)).jaxpr) == flops


@pytest.mark.parametrize("form", ["text", "file", "bytes"])
def test_a_program_before_compiling_is_refused_with_what_to_give(tmp_path, form):
    traced = jax.jit(lambda x: x @ x).trace(jax.ShapeDtypeStruct((8, 8), "float32"))
    module = traced.lower().as_text()
    if form == "file":
        (tmp_path / "f.mlir").write_text(module)
        module = tmp_path / "f.mlir"
    elif form == "bytes":
        module = jax.export.export(jax.jit(lambda x: x @ x))(*traced.in_avals[0]).mlir_module_serialized
    with pytest.raises(ModuleError, match=r"StableHLO.*compile\(\)\.as_text\(\)"):
        jm.analyze_hlo(module, on="v5e")
