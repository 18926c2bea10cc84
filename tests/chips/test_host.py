import json
import os
import subprocess
import sys

import jax
import pytest

from jaxscale_magic.chips import host
from jaxscale_magic.chips.record import Chip

RATES = {"f32": 1e11, "bf16": 2e11, "f64": 5e10, "s8": 1e11, "memory": 3e10, "cache": 9e10}


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """One real calibration for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXSCALE_MAGIC_CACHE", str(tmp_path_factory.mktemp("calibration")))
        return host.host_chip(progress=False)


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """An empty cache folder, and calibrations that are counted instead of made."""
    made = []
    monkeypatch.setenv("JAXSCALE_MAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(host, "_known", {})
    monkeypatch.setattr(host, "_calibrate", lambda progress: made.append(1) or dict(RATES))
    return made


def new_process(monkeypatch):
    monkeypatch.setattr(host, "_known", {})


def files(tmp_path):
    return sorted((tmp_path / "cache").iterdir())


def test_the_host_is_measured(measured):
    assert isinstance(measured, Chip)
    assert (measured.name, measured.kind) == ("host", "cpu")
    assert "core" in measured.title
    assert {"f32", "bf16", "f64", "s8"} <= set(measured.matrix_flops)
    assert all(figure.value > 0 and figure.source for figure in measured.all_figures().values())
    assert measured.vector_flops.value == measured.peak_flops("f32")
    assert measured.cache_bandwidth.value >= measured.hbm_bandwidth.value
    assert measured.hbm_bytes is None or measured.hbm_bytes.value > 1e8
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("dtype", ["f32:highest", "f32:high", "tf32", "f16", "f8e4m3fn", "u8", "s4", "s32"])
def test_every_dtype_runs_as_something(measured, dtype):
    assert measured.peak_flops(dtype) > 0


def test_measured_once_a_process_and_once_a_machine(calls, monkeypatch, tmp_path):
    first = host.host_chip()
    assert host.host_chip() == first
    new_process(monkeypatch)
    assert host.host_chip() == first
    assert len(calls) == 1
    host.host_chip(refresh=True)
    assert len(calls) == 2
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: "null",
        lambda text: text.replace("rates", "rats"),
        lambda text: text.replace("100000000000.0", "NaN"),
        lambda text: text.replace("100000000000.0", "-1"),
        lambda text: text.replace("100000000000.0", '"fast"'),
        lambda text: text.replace(jax.__version__, "0.0.1"),
        lambda text: "\ud7ff\x00" * 50,
    ],
)
def test_a_file_that_is_no_calibration_is_replaced(calls, monkeypatch, tmp_path, damage):
    host.host_chip()
    (file,) = files(tmp_path)
    good = file.read_text("utf-8")
    file.write_text(damage(good), "utf-8")
    new_process(monkeypatch)
    assert host.host_chip().peak_flops("f32") == RATES["f32"]
    assert len(calls) == 2
    assert file.read_text("utf-8") == good


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [(jax, "__version__", "99.0"), (host, "_cores", lambda: 999), (host, "_model", lambda: "another CPU")],
)
def test_another_machine_or_version_is_measured_anew(calls, monkeypatch, tmp_path, where, name, value):
    host.host_chip()
    monkeypatch.setattr(where, name, value)
    host.host_chip()
    assert len(calls) == 2
    assert len(files(tmp_path)) == 2


def test_a_folder_that_cannot_be_made_costs_only_the_cache(calls, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAXSCALE_MAGIC_CACHE", str(tmp_path / "file" / "below"))
    chip = host.host_chip()
    assert "not kept" in chip.facts["not_cached"]
    assert "not kept" in chip.hbm_bandwidth.source
    host.host_chip()
    assert len(calls) == 1  # kept for the process all the same


def test_recalibration_keeps_the_larger_figures(calls, monkeypatch):
    host.host_chip()
    other = {**RATES, "f32": 5e10, "memory": 4e10}
    monkeypatch.setattr(host, "_calibrate", lambda progress: other)
    chip = host.recalibrate_host()
    assert (chip.peak_flops("f32"), chip.hbm_bandwidth.value) == (1e11, 4e10)
    new_process(monkeypatch)
    assert host.host_chip() == chip


def test_a_damaged_write_leaves_no_file_behind(calls, monkeypatch, tmp_path):
    def refuse(*args):
        raise PermissionError(13, "no")

    monkeypatch.setattr(os, "replace", refuse)
    assert host.host_chip().facts
    assert files(tmp_path) == []


def test_writers_at_once_leave_one_sound_file(tmp_path):
    program = (
        "from jaxscale_magic.chips import host\n"
        f"host._calibrate = lambda progress: {RATES!r}\n"
        "for _ in range(200): host.host_chip(refresh=True)\n"
    )
    environment = {**os.environ, "JAXSCALE_MAGIC_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["rates"] == RATES


def test_the_system_that_tells_nothing(calls, monkeypatch):
    monkeypatch.setattr(host, "_cache_bytes", lambda: (host.ASSUMED_CACHE, False))
    monkeypatch.setattr(host, "_memory_bytes", lambda: None)
    chip = host.host_chip()
    assert chip.cache_bytes.confidence == "low"
    assert chip.hbm_bytes is None
