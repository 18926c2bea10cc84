"""`%%roofline` in a real IPython shell: what lands, what is shown, what fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from IPython.testing.globalipapp import start_ipython
from IPython.utils.capture import capture_output

from jaxscale_magic.magics import split_options
from jaxscale_magic.report.record import RooflineReport


@pytest.fixture(scope="module")
def shell():
    shell = start_ipython()
    shell.run_line_magic("load_ext", "jaxscale_magic")
    return shell


@pytest.fixture
def notebook(shell):
    shell.reset(new_session=False)
    shell.run_cell("import jax, jax.numpy as jnp")
    return shell


def run(shell, cell):
    """Run a cell as the notebook does; returns (result, captured output)."""
    with capture_output() as output:
        result = shell.run_cell(cell, store_history=True)
    return result, output


def report_of(shell):
    report = shell.user_ns["report"]
    assert isinstance(report, RooflineReport)
    return report


def test_an_mlp_from_a_cell_to_a_verdict(notebook):
    run(
        notebook,
        "k = jax.random.split(jax.random.key(0), 3)\n"
        "shapes = (1024, 1024), (1024, 4096), (4096, 1024)\n"
        "x, w1, w2 = (jax.random.normal(k, s) for k, s in zip(k, shapes))",
    )
    result, output = run(notebook, "%%roofline -v report\ny = jax.nn.relu(x @ w1) @ w2")
    result.raise_error()
    report = report_of(notebook)
    assert report.cost.flops == {"f32": 2 * 2 * 1024 * 1024 * 4096}  # 1.718e10
    assert report.bound == "compute"
    assert report.measured.minimum >= 0.98 * report.time.lower
    space = notebook.user_ns
    np.testing.assert_allclose(space["y"], jax.nn.relu(space["x"] @ space["w1"]) @ space["w2"], rtol=1e-3, atol=1e-2)
    (shown,) = output.outputs
    assert {"text/plain", "text/html"} <= set(shown.data)
    assert "compute" in shown.data["text/plain"]
    assert report.lines[0].source.text == "y = jax.nn.relu(x @ w1) @ w2"
    assert report.lines[0].source.line == 2


def test_a_scan_of_ten_layers(notebook):
    run(notebook, "x = jnp.ones((512, 512)); w = jnp.ones((10, 512, 512))")
    run(
        notebook,
        "%%roofline -v report --no-advice\n"
        "def layer(c, wi):\n    return jnp.tanh(c @ wi), None\ny, _ = jax.lax.scan(layer, x, w)",
    )
    assert report_of(notebook).cost.flops == {"f32": 10 * 2 * 512**3}  # 2.684e9
    assert notebook.user_ns["layer"](notebook.user_ns["x"], notebook.user_ns["w"][0])[0].shape == (512, 512)


def test_a_large_elementwise_sum(notebook):
    run(notebook, "a = jnp.ones(64_000_000); b = jnp.ones(64_000_000)")
    run(notebook, "%%roofline -v report --no-advice\nc = a + b")
    report = report_of(notebook)
    assert report.bound == "memory"
    assert report.cost.min_hbm_bytes == 3 * 4 * 64_000_000
    assert notebook.user_ns["c"].shape == (64_000_000,)
    bandwidth = report.cost.min_hbm_bytes / report.measured.minimum
    assert bandwidth <= 1.02 * report.target.chip.hbm_bandwidth.value


def test_the_last_expression_is_displayed_as_always(notebook):
    run(notebook, "x = jnp.ones((4, 4))")
    run(notebook, "%%roofline --no-advice\ny = x * 2\ny.sum()")
    assert notebook.user_ns["_"] == 32
    run(notebook, "%%roofline --no-advice -q\ny.sum() + 1;")
    assert notebook.user_ns["_"] == 32


def test_quiet_and_output(notebook):
    run(notebook, "x = jnp.ones((4, 4))")
    result, output = run(notebook, "%roofline -q -o --no-advice x @ x")
    assert isinstance(result.result, RooflineReport)
    result, output = run(notebook, "%%roofline -q --no-advice\ny = x @ x")
    assert output.outputs == []
    assert output.stdout == ""


def test_a_returned_report_is_shown_once(notebook):
    run(notebook, "x = jnp.ones((4, 4))")
    result, output = run(notebook, "%roofline -o --no-advice x @ x")
    assert isinstance(result.result, RooflineReport)
    assert output.stdout.count("MEMORY-BOUND") == 1
    assert output.outputs == []


def test_a_line_shows_its_report_and_not_its_value(notebook):
    run(notebook, "x = jnp.ones((4, 4))\n_ = 'before'")
    run(notebook, "%roofline -q --no-advice x @ x")
    assert notebook.user_ns["_"] == "before"


def test_an_interrupt_while_timing_keeps_the_results(notebook, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxscale_magic.analysis.measure", interrupted)
    run(notebook, "x = jnp.ones((4, 4))")
    result, _ = run(notebook, "%%roofline --no-advice\ny = x + 1")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert notebook.user_ns["y"].sum() == 32


def test_a_future_import_of_an_earlier_cell_holds(notebook):
    run(notebook, "from __future__ import annotations\nx = jnp.ones((4, 4))")
    result, _ = run(notebook, "%%roofline -q --no-advice\ndef f(a: NotDefinedAnywhere): return a * 2\ny = f(x)")
    result.raise_error()
    assert notebook.user_ns["f"].__annotations__ == {"a": "NotDefinedAnywhere"}


def test_counts_of_timing_that_are_not_heeded_are_said(notebook):
    run(notebook, "x = jnp.ones((4, 4))")
    run(notebook, "%%roofline --on v5e -n 3 -v report --no-advice\ny = x + 1")
    assert any("-n and -r do nothing" in note for note in report_of(notebook).notes)


def test_code_that_runs_once_says_what_is_missing(notebook):
    run(notebook, "x = jnp.ones((4, 4)); it = iter(range(3))")
    run(notebook, "%%roofline --on v5e -v report\ny = x * next(it)")
    assert next(notebook.user_ns["it"]) == 1
    assert any("`next`" in note and "not tried" in note for note in report_of(notebook).notes)


def test_one_call_of_a_jitted_function_leaves_its_donated_input_alone(notebook):
    run(
        notebook,
        "import functools\n@functools.partial(jax.jit, donate_argnums=0, static_argnums=2)\n"
        "def step(p, g, n):\n    return p - n * g\np = jnp.ones(1000); g = jnp.ones(1000)",
    )
    result, _ = run(notebook, "%roofline -v report --no-advice step(p, g, 3)")
    result.raise_error()
    assert not notebook.user_ns["p"].is_deleted()
    report = report_of(notebook)
    assert report.fit.aliased == 4000
    assert report.title.startswith("step(float32[1000], float32[1000], 3")
    assert report.measured is not None


def test_405_billion_parameters_on_this_machine(notebook):
    run(
        notebook,
        "w = jax.ShapeDtypeStruct((126, 16384, 196_000), jnp.bfloat16)\n"
        "x = jax.ShapeDtypeStruct((8, 16384), jnp.bfloat16)",
    )
    result, _ = run(notebook, "%%roofline --on v5e -v report --no-advice\ny = jnp.einsum('bd,ldf->lbf', x, w)")
    result.raise_error()
    report = report_of(notebook)
    assert report.cost.flops == {"bf16": 2 * 126 * 8 * 16384 * 196_000}
    assert report.fit.fits is False
    assert report.measured is None
    assert notebook.user_ns["y"] == jax.ShapeDtypeStruct((126, 8, 196_000), jnp.bfloat16)
    assert any("Not run" in note for note in report.notes)


def test_another_chip_runs_the_cell_here_and_times_nothing(notebook):
    run(notebook, "x = jnp.ones((128, 256), jnp.bfloat16); w = jnp.ones((256, 256), jnp.bfloat16)")
    run(notebook, "%%roofline --on v5e -v report\ny = x @ w")
    report = report_of(notebook)
    assert notebook.user_ns["y"].shape == (128, 256)
    assert report.measured is None
    assert report.target.chip.name == "v5e"
    assert "stands in" in report.target.stands_in


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%roofline\ny = nowhere + 1", ["line 2", "`nowhere` is not defined"]),
        ("%%roofline\ny = x + 1\nprint(y)", ["line 3", "jax.debug.print"]),
        ("%%roofline\nif x.sum() > 0:\n    y = x", ["line 2", "jnp.where"]),
        ("%%roofline\n\ny = x @ jnp.ones((3, 3))", ["line 3", "contracting dimensions"]),
        ("%%roofline --on v5x\ny = x + 1", ["v5x", "v5e"]),
        ("%%roofline --fast\ny = x + 1", ["--fast"]),
        ("%%roofline -n 0\ny = x + 1", ["-n", "at least 1"]),
        ("%%roofline -n many\ny = x + 1", ["-n", "many"]),
        ("%%roofline --batch z\ny = x + 1", ["no such input", "x"]),
        ("%%roofline --batch x[²]\ny = x + 1", ["`x` has 2 dimensions", "x[0] to x[1]"]),
        ("%%roofline --batch x[2]\ny = x + 1", ["`x` has 2 dimensions", "x[0] to x[1]"]),
        ("%%roofline --batch 'x\ny = x + 1", ["No closing quotation"]),
        ("%%roofline -v class\ny = x + 1", ["-v needs a variable name", "class"]),
        ("%%roofline\ny = jax.pure_callback(lambda v: 1 / 0, x, x)", ["running it failed", "ZeroDivisionError"]),
        ("%%roofline\n", ["empty"]),
        ("%%roofline\n# nothing yet", ["only comments"]),
        ("%%roofline\nn = 3", ["line 2", "computes no array"]),
        ("%%roofline x\ny = x + 1", ["lines below"]),
        ("%%roofline\n!ls", ["line 2", "shell command"]),
        ("%roofline", ["empty"]),
        ("%roofline step(x)", ["`step` is not defined"]),
    ],
)
def test_bad_input_fails_the_cell_with_a_short_message(notebook, cell, words):
    run(notebook, "x = jnp.ones((4, 4)); y = 'old'")
    before = {k: v for k, v in notebook.user_ns.items() if not k.startswith("_") and k not in ("In", "Out")}
    result, output = run(notebook, cell)
    assert not result.success
    message = output.stdout + output.stderr
    for word in words:
        assert word in message
    assert "Traceback" not in message
    assert len(message.splitlines()) <= 3
    after = {k: v for k, v in notebook.user_ns.items() if not k.startswith("_") and k not in ("In", "Out")}
    assert after == before


@pytest.mark.parametrize(
    ("line", "options", "code"),
    [
        ("", "", ""),
        ("f(x)", "", "f(x)"),
        ("--on v5e f(x, -1)", "--on v5e", "f(x, -1)"),
        ("-q -o f('-r', x)", "-q -o", "f('-r', x)"),
        ("--on 'my chip' -n 3 f(x)", "--on 'my chip' -n 3", "f(x)"),
        ("-x", "-x", ""),
    ],
)
def test_options_are_split_from_code(line, options, code):
    assert split_options(line) == (options, code)


def test_the_manual_is_one_question_mark_away(shell):
    text = shell.find_line_magic("roofline").__doc__
    for word in ("--on CHIP", "-n N", "--batch NAME", "%%roofline --on v5e", "ShapeDtypeStruct"):
        assert word in text


def test_constants_folded_away_are_said(notebook):
    result, _ = run(notebook, "%%roofline -v report\ny = jnp.sin(2.0) * jnp.ones(())")
    result.raise_error()
    assert any("Nothing is left to run" in note for note in report_of(notebook).notes)


def test_dead_code_is_said(notebook):
    run(notebook, "x = jnp.ones((64, 64))\n@jax.jit\ndef f(x):\n    y = x @ x\n    return x + 1")
    result, _ = run(notebook, "%roofline -v report --no-advice f(x)")
    result.raise_error()
    report = report_of(notebook)
    assert report.cost.flops == {}
    assert any("dropped work" in note for note in report.notes)


def test_a_program_that_prints_is_run_once_and_not_timed(notebook, capsys):
    run(notebook, "x = jnp.ones(3)")
    result, output = run(notebook, "%%roofline -v report\njax.debug.print('seen {}', x.sum())\ny = x + 1")
    result.raise_error()
    jax.effects_barrier()
    assert report_of(notebook).measured is None
    assert any("Not timed" in note for note in report_of(notebook).notes)
    assert (output.stdout + capsys.readouterr().out).count("seen 3") == 1
