"""Chips: shipped figures against constants worked out by hand, finding by name, user files good and bad.

Where no other origin is given, a right value is the quotient of the two published numbers named beside it, or
what the book "How to Scale Your Model" prints for it.
"""

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jaxscale_magic.chips import catalog, chip, chip_for_device_kind, chips, load_chips
from jaxscale_magic.chips.record import Chip, Figure
from jaxscale_magic.errors import ChipError

FOLDER = Path(catalog.__file__).parent
FILES = {name: tomllib.loads((FOLDER / name).read_text()) for name in ("tpu.toml", "gpu.toml")}
SECTIONS = [(file, name) for file, entries in FILES.items() for name in entries if name != "sources"]
NAMES = [name for _, name in SECTIONS]


@pytest.fixture(autouse=True)
def forget_loaded():
    """User files are known for one test only."""
    yield
    catalog._loaded.clear()
    catalog._loaded_sources.clear()


@pytest.fixture
def toml(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


# --- the figures shipped ------------------------------------------------------------------------------------


def raw_figures(entry):
    """(key, inline table) of every figure of a section, as the file has it."""
    for key, value in entry.items():
        if key in ("matrix_flops", "figures"):
            yield from ((f"{key}.{name}", each) for name, each in value.items())
        elif key in ("vector_flops", "hbm_bytes", "hbm_bandwidth"):
            yield key, value


@pytest.mark.parametrize(("file", "name"), SECTIONS)
def test_every_number_has_a_source_that_the_file_describes(file, name):
    described = FILES[file]["sources"]
    figures = dict(raw_figures(FILES[file][name]))
    assert {"hbm_bandwidth", "hbm_bytes"} <= set(figures)
    for key, figure in figures.items():
        assert set(figure["source"].split(", ")) <= set(described), key
        assert set(figure.get("alternatives", {})) <= set(described), key


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_positive_and_finite(name):
    for path, figure in chip(name).all_figures().items():
        for value in (figure.value, *figure.alternatives.values()):
            assert 0 < value < math.inf, path
        assert figure.source, path


@pytest.mark.parametrize("name", NAMES)
def test_an_alternative_is_another_value_of_the_same_size(name):
    # A slipped exponent shows as a ratio far from 1; the widest honest disagreement is H100's PCIe, 1.9.
    for path, figure in chip(name).all_figures().items():
        for value in figure.alternatives.values():
            assert value != figure.value, path
            assert 0.5 < value / figure.value < 2, path


def test_a_source_key_means_the_same_in_both_files():
    tpu, gpu = (entries["sources"] for entries in FILES.values())
    assert {key: tpu[key] for key in tpu.keys() & gpu.keys()} == {key: gpu[key] for key in tpu.keys() & gpu.keys()}


def test_every_source_described_is_cited():
    for entries in FILES.values():
        cited = set()
        for name, entry in entries.items():
            if name != "sources":
                for _, figure in raw_figures(entry):
                    cited |= {*figure["source"].split(", "), *figure.get("alternatives", {})}
        assert cited == set(entries["sources"])


def test_no_two_chips_share_a_spelling():
    spellings = [text for each in chips() for text in {*catalog._spellings(each)}]
    assert len(spellings) == len(set(spellings))


# --- constants derived from them ----------------------------------------------------------------------------

#: chip -> bf16 FLOP/s over HBM, over one wrapped ICI axis (two links), over all links, over PCIe, over DCN.
#: Each is bf16 peak / bandwidth with the book's numbers, rounded to a whole FLOP/byte, such as for v5p
#: 4.59e14 / 2.8e12 = 164, / (2 x 9e10) = 2550, / (6 x 9e10) = 850, / 1.6e10 = 28688, / 6.25e9 = 73440.
#: The book prints 240 (v5e), 2550, 850 and 73,440 (v5p) and 2200 (v5e, rounded).
DERIVED = {
    "v3": (156, 700, 350, 8750, 22400),
    "v4": (229, 3056, 1019, 17188, 44000),
    "v5p": (164, 2550, 850, 28688, 73440),
    "v5e": (240, 2189, 1094, 12313, 63040),
    "v6e": (575, 5111, 2556, 28750, 73600),
    "v7x": (311, 12778, 4259, 143750, 184000),
}


@pytest.mark.parametrize(("name", "right"), DERIVED.items())
def test_tpu_intensities(name, right):
    found = chip(name)
    peak, link = found.peak_flops("bf16"), found.figure("ici_link_bandwidth").value
    links = found.facts["ici_links"]
    got = (
        found.ridge("bf16"),
        peak / (2 * link),
        peak / (links * link),
        peak / found.figure("pcie_bandwidth").value,
        peak / found.figure("dcn_bandwidth").value,
    )
    assert got == pytest.approx(right, abs=0.51)
    assert links == 2 * found.facts["torus_rank"]  # a link each way on every axis


@pytest.mark.parametrize(
    ("name", "dtype", "right"),
    [
        ("v100", "f16", 139),  # 125e12 / 0.9e12
        ("a100", "bf16", 156),  # 312e12 / 2.0e12
        ("h100", "bf16", 295.5),  # 990e12 / 3.35e12; the book prints 295
        ("h100", "f8", 591),  # 1979e12 / 3.35e12; the book prints 590
        ("h200", "bf16", 206),  # 990e12 / 4.8e12
        ("b200", "bf16", 281),  # 2250e12 / 8e12; printed in the book
        ("b200", "f8", 562.5),  # 4500e12 / 8e12; the book prints 562
        ("gb200", "bf16", 315),  # 2500e12 / 7.93e12
        ("b300", "bf16", 281),  # 2250e12 / 8e12
        ("gb300", "bf16", 312.5),  # 2500e12 / 8e12
        ("mi300x", "bf16", 247),  # 1307.4e12 / 5.3e12
    ],
)
def test_gpu_intensities(name, dtype, right):
    assert chip(name).ridge(dtype) == pytest.approx(right, abs=0.51)


def test_one_teraflop_on_h100_and_v6e():
    # The book prints 1.01 ms and 1.1 ms; 1e12 / 9.9e14 = 1.010 ms, 1e12 / 9.2e14 = 1.087 ms.
    assert 1e12 / chip("h100").peak_flops("bf16") == pytest.approx(1.010e-3, rel=0.001)
    assert 1e12 / chip("v6e").peak_flops("bf16") == pytest.approx(1.087e-3, rel=0.001)


def test_v5e_intensity_by_edition():
    # 1.97e14 / 8.2e11 = 240.2 and, with the first edition's bandwidth, 1.97e14 / 8.1e11 = 243.2.
    assert chip("v5e").ridge("bf16") == pytest.approx(240.2, abs=0.05)
    assert chip("v5e", edition="S").ridge("bf16") == pytest.approx(243.2, abs=0.05)


def test_v5e_matrix_unit_from_its_dimensions():
    # 8 rows through a 128 x 128 array every 8 cycles: 4 arrays x 2 x 128 x 128 x 1.5e9 = 1.966e14.
    facts, clock = chip("v5e").facts, chip("v5e").figure("clock").value
    rows, columns = facts["mxu_shape"]
    peak = 2 * rows * columns * clock * facts["mxus_per_core"] * facts["cores"]
    assert chip("v5e").peak_flops("bf16") == pytest.approx(peak, rel=0.005)


def test_v5p_matrix_unit_from_its_dimensions():
    # 2 cores x 4 arrays x 2 x 128 x 128 x 1.75e9 = 4.588e14.
    facts, clock = chip("v5p").facts, chip("v5p").figure("clock").value
    assert chip("v5p").peak_flops("bf16") == pytest.approx(2 * 4 * 2 * 128 * 128 * 1.75e9, rel=0.001)
    assert (facts["cores"], facts["mxus_per_core"], clock) == (2, 4, 1.75e9)


def test_v5p_vector_unit():
    # 2 cores x 8 x 128 lanes x 4 ALUs x 1.75 GHz = 1.434e13; over HBM 1.4e13 / 2.8e12 = 5 FLOP/byte.
    found = chip("v5p")
    assert found.vector_flops.value == pytest.approx(2 * 8 * 128 * 4 * 1.75e9, rel=0.03)
    assert found.vector_flops.value / found.hbm_bandwidth.value == pytest.approx(5)
    assert found.figure("vreg_bytes").value == 2 * 64 * 8 * 128 * 4


@pytest.mark.parametrize(
    ("name", "chips_in_pod", "peak", "hbm"),
    [
        ("v5e", 256, 5.043e16, 4.096e12),  # 256 x 1.97e14, 256 x 16e9; the book prints 5.1e16 and 4 TB
        (
            "v5p",
            8960,
            4.113e18,
            860.16e12,
        ),  # 8960 x 4.59e14, 8960 x 96e9; the book prints 4 exaFLOP/s, 860 TB
    ],
)
def test_pods(name, chips_in_pod, peak, hbm):
    found = chip(name)
    assert math.prod(found.facts["pod_shape"]) == found.facts["pod_chips"] == chips_in_pod
    assert chips_in_pod * found.peak_flops("bf16") == pytest.approx(peak, rel=0.001)
    assert chips_in_pod * found.hbm_bytes.value == pytest.approx(hbm, rel=0.001)


@pytest.mark.parametrize(("name", "right"), [("v3", 1e5), ("v4", 4.5e4), ("v5e", 4.5e4), ("v5p", 9e4), ("v6e", 9e4)])
def test_bytes_that_hide_a_hop(name, right):
    # One way over a link in the 1 us that a hop takes: 45 kB at 4.5e10 bytes/s.
    found = chip(name)
    assert found.figure("ici_link_bandwidth").value * found.figure("hop_latency").value == pytest.approx(right)


def test_streaming_200e9_parameters_on_32_v4():
    # 2 x 200e9 / (32 x 1.23e12) = 10.16 ms, with the bandwidth of JAX's table, as the book works it.
    found = chip("v4", edition="JAX")
    assert 2 * 200e9 / (32 * found.hbm_bandwidth.value) == pytest.approx(10.16e-3, rel=0.001)


def test_v5e_vmem_needs_an_intensity_of_about_eleven():
    # 22 times HBM: 240.2 / 22 = 10.9.
    found = chip("v5e")
    assert found.peak_flops("bf16") / found.figure("vmem_bandwidth").value == pytest.approx(10.9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "per_node", "beyond"),
    [
        ("h100", 2200, 2475),  # 990e12 / 450e9, 990e12 / 400e9
        ("b200", 2500, 5625),  # 2250e12 / 900e9, 2250e12 / 400e9
    ],
)
def test_gpu_network_intensities(name, per_node, beyond):
    found = chip(name)
    peak = found.peak_flops("bf16")
    assert peak / found.figure("nvlink_bandwidth").value == pytest.approx(per_node)
    assert peak / found.figure("scale_out_node_bandwidth").value == pytest.approx(beyond)


@pytest.mark.parametrize("name", ["h100", "h200", "b200", "gb200", "b300"])
def test_a_node_sends_what_its_gpus_send(name):
    found = chip(name)
    of_all = found.facts["node_size"] * found.figure("scale_out_bandwidth").value
    assert of_all == pytest.approx(found.figure("scale_out_node_bandwidth").value)


def test_h100_vector_rate_from_its_lanes():
    # 132 SMs x 128 lanes x 2 x 1.98 GHz = 6.69e13; the book prints 33.5e12, a multiply-add counted once.
    found = chip("h100")
    lanes = found.facts["sms"] * 128
    assert lanes == 16896
    assert found.vector_flops.value == pytest.approx(2 * lanes * found.figure("clock").value, rel=0.001)


# --- peaks by dtype -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "right"),
    [
        ("v5e", "bf16", 1.97e14),
        ("v5e", "f32", 1.97e14),  # one bf16 pass at the default precision
        ("v5e", "f32:high", 1.97e14 / 3),
        ("v5e", "f32:highest", 1.97e14 / 6),
        ("v5e", "f16", 1.97e14),
        ("v5e", "s8", 3.94e14),
        ("v5e", "u8", 3.94e14),
        ("v5e", "u4", 7.88e14),
        ("v5e", "f8e4m3fn", 1.97e14),  # no fp8 mode: widened
        ("v6e", "f8e5m2", 9.2e14),
        ("v4", "s8", 2.75e14),  # no int8 mode that sources agree on
        ("v4", "s4", 2.75e14),
        ("v3", "u8", 1.4e14),
        ("v7x", "s8", 2.3e15),  # what the book prints under int8 is fp8
        ("v7x", "f8e4m3fn", 4.61e15),
        ("h100", "f16", 9.9e14),
        ("h100", "f32", 4.947e14),  # TF32 at the default precision
        ("h100", "f32:high", 4.947e14),
        ("h100", "f32:highest", 6.69e13),
        ("h100", "f64", 6.69e13),
        ("a100", "f32", 1.56e14),
        ("a100", "f8e4m3fn", 3.12e14),
        ("b200", "f4e2m1fn", 9e15),
        ("v100", "bf16", 1.57e13),  # no bf16 mode: widened to f32, which has the vector rate
        ("v100", "f32:highest", 1.57e13),
        ("mi300x", "f32:high", 1.634e14),
        ("mi300x", "f8e4m3fnuz", 2.6149e15),
    ],
)
def test_peaks(name, dtype, right):
    assert chip(name).peak_flops(dtype) == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "dtype", "right"),
    [
        ("v5e", "bf16", ("bf16", 1)),
        ("v5e", "f32:highest", ("bf16", 6)),
        ("v5e", "f8e5m2", ("bf16", 1)),
        ("h100", "f32", ("tf32", 1)),
        ("h100", "f32:highest", ("f32:highest", 1)),
        ("h100", "u8", ("s8", 1)),
    ],
)
def test_whose_unit_does_the_work(name, dtype, right):
    assert chip(name).unit(dtype) == right


@pytest.mark.parametrize(("name", "dtype"), [("v5e", "f64"), ("b300", "s8"), ("h100", "s4"), ("v5e", "s32")])
def test_a_peak_nobody_gives_is_refused_with_those_known(name, dtype):
    with pytest.raises(ChipError, match=f"no matrix peak is known for {dtype} .*known: .*bf16"):
        chip(name).peak_flops(dtype)


def test_units_that_lead_in_a_circle_are_refused():
    sure = Figure(value=1.0, source="here")
    circle = Chip(
        name="c",
        title="c",
        kind="tpu",
        matrix_flops={"bf16": sure},
        hbm_bandwidth=sure,
        runs_as={"s8": ("s4", 1), "s4": ("s8", 1)},
    )
    with pytest.raises(ChipError, match="no matrix peak is known for s8"):
        circle.peak_flops("s8")


@pytest.mark.parametrize(("name", "devices"), [("v2", 2), ("v3", 2), ("v4", 2), ("v7x", 2), ("v5e", 1), ("v5p", 1)])
def test_figures_of_one_jax_device(name, devices):
    whole, one = chip(name), chip(name).per_device()
    assert whole.devices_per_chip == devices
    assert one.peak_flops("bf16") == whole.peak_flops("bf16") / devices
    assert one.hbm_bytes.value == whole.hbm_bytes.value / devices
    assert one.hbm_bandwidth.value == whole.hbm_bandwidth.value / devices
    assert one.ridge("bf16") == whole.ridge("bf16")
    assert one.per_device() == one


# --- finding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "right"),
    [
        ("v5e", "v5e"),
        ("V5E", "v5e"),
        (" v5litepod ", "v5e"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("tpu v6 lite", "v6e"),
        ("v4p", "v4"),
        ("TPU7x", "v7x"),
        ("h100", "h100"),
        ("H100-SXM", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("gb200 nvl72", "gb200"),
        ("MI300X", "mi300x"),
    ],
)
def test_a_chip_by_name_alias_or_device_kind(spelling, right):
    assert chip(spelling).name == right


def test_a_chip_is_its_own_name():
    assert chip(chip("v5e")) is chip("v5e")


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("TPU v2", "v2"),
        ("TPU v3", "v3"),
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("TPU7x", "v7x"),
        ("TPU8i", "tpu8i"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B200 180GB", "b200"),  # by its beginning
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA H100 PCIe", None),  # lower rates than the SXM module
        ("NVIDIA H200 NVL", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),  # a seventh of one
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA B2000", None),
        ("TPU v4 lite", None),
        ("TPU v5 something", None),
        ("cpu", None),
        ("", None),
    ],
)
def test_device_kinds(kind, right):
    found = chip_for_device_kind(kind)
    assert (found and found.name) == right


@pytest.mark.parametrize(("wrong", "near"), [("v5x", "v5e"), ("h10", "h100"), ("mi30", "mi300x"), ("b20", "b200")])
def test_an_unknown_chip_is_refused_with_the_nearest(wrong, near):
    with pytest.raises(ChipError, match=rf"no chip is called '{wrong}'; nearest: .*{near}.*load_chips"):
        chip(wrong)


def test_a_chip_like_no_other_is_refused_with_all():
    with pytest.raises(ChipError, match=r"no chip is called '@@@@'; known: v2, v3, .*mi300x, host"):
        chip("@@@@")


def test_importing_the_chips_stays_light():
    code = "import sys; from jaxscale_magic.chips import chip; chip('v5e'); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "pandas", "IPython"} & set(run.stdout.split())


# --- editions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "edition", "path", "right"),
    [
        ("v5e", "S", "hbm_bandwidth", 8.1e11),
        ("v5e", "S", "figures.pcie_bandwidth", 1.5e10),
        ("v5e", "S", "matrix_flops.bf16", 1.97e14),  # the same in both
        ("v5e", "GC", "hbm_bandwidth", 8.19e11),
        ("v5e", "GC", "figures.ici_link_bandwidth", 5e10),
        ("v5e", "GC", "matrix_flops.s8", 3.93e14),
        ("v5e", "N", "hbm_bandwidth", 8.2e11),  # the default's own
        ("v5p", "JAX", "hbm_bandwidth", 2.46e12),
        ("v5p", "GC", "hbm_bytes", 95 * 2**30),
        ("v7x", "GC", "hbm_bytes", 192 * 2**30),
        ("v3", "GC", "matrix_flops.bf16", 1.23e14),
        ("h100", "S", "matrix_flops.bf16", 9.9e14),  # a known edition that has nothing else to say
        ("b200", "N", "matrix_flops.bf16", 2.3e15),
    ],
)
def test_editions(name, edition, path, right):
    found = chip(name, edition=edition)
    assert found.all_figures()[path].value == right
    assert found.facts["edition"] == edition
    assert "edition" not in chip(name).facts


def test_an_edition_changes_the_source_with_the_value():
    assert "first edition" in chip("v5e", edition="S").hbm_bandwidth.source
    assert "current text" in chip("v5e").hbm_bandwidth.source


def test_an_edition_of_a_record():
    assert chip(chip("v4").per_device(), edition="JAX").hbm_bandwidth.value == 1.23e12 / 2


def test_an_unknown_edition_is_refused_with_those_known():
    with pytest.raises(ChipError, match=r"no edition 'Q' is known; TPU v5e has other figures by: GC, JAX, S;.*VD"):
        chip("v5e", edition="Q")


# --- files of a user ----------------------------------------------------------------------------------------

WHOLE = """
[sources]
LAB = "measured in our laboratory"

[npu]
title = "Our NPU"
kind = "tpu"
aliases = ["the-npu"]
device_kinds = ["NPU 1"]
devices_per_chip = 2
hbm_bandwidth = { value = 2e12, source = "LAB", alternatives.LAB2 = 1e12, note = "warm", confidence = "low" }
hbm_bytes = { value = 64000000000, source = "a slide" }
[npu.matrix_flops]
bf16 = 1e14
[npu.runs_as]
f32 = ["bf16", 3]
[npu.figures]
clock = 1e9
[npu.facts]
cores = 2
"""


def test_a_whole_chip(toml):
    (found,) = load_chips(toml(WHOLE))
    assert chip("npu") == chip("THE-NPU") == chip("NPU 1") == chip_for_device_kind("NPU 1") == found
    assert chips()[-1] == found
    assert found.hbm_bandwidth == Figure(
        value=2e12,
        source="measured in our laboratory",
        note="warm",
        confidence="low",
        alternatives={"LAB2": 1e12},
    )
    assert found.hbm_bytes.source == "a slide"
    assert found.matrix_flops["bf16"] == Figure(value=1e14, source="user file mine.toml")
    assert found.peak_flops("f32") == pytest.approx(1e14 / 3)
    assert (found.title, found.devices_per_chip, found.facts) == ("Our NPU", 2, {"cores": 2})
    assert chip("npu", edition="LAB2").hbm_bandwidth.value == 1e12


def test_what_if_memory_were_twice_as_fast(toml):
    (found,) = load_chips(toml('[v5e-fast]\nbase = "v5e"\nhbm_bandwidth = 1.64e12'))
    assert found.hbm_bandwidth == Figure(value=1.64e12, source="user file mine.toml")
    assert found.ridge("bf16") == pytest.approx(chip("v5e").ridge("bf16") / 2)
    assert found.figures == chip("v5e").figures
    assert (found.name, found.title, found.aliases) == ("v5e-fast", "v5e-fast", ())
    assert chip("v5e").hbm_bandwidth.value == 8.2e11
    assert chip_for_device_kind("TPU v5 lite").name == "v5e"


def test_entries_are_added_to_the_base(toml):
    text = '[x]\nbase = "v5e"\n[x.matrix_flops]\nf8 = 5e14\n[x.figures]\nfan_speed = 3\n[x.facts]\nplace = "lab"'
    (found,) = load_chips(toml(text))
    assert (found.peak_flops("f8"), found.peak_flops("bf16")) == (5e14, 1.97e14)
    assert set(found.figures) == {*chip("v5e").figures, "fan_speed"}
    assert found.facts == {**chip("v5e").facts, "place": "lab"}


def test_a_base_in_the_same_file(toml):
    _, second = load_chips(toml('[a]\nbase = "h100"\nhbm_bytes = 1e11\n[b]\nbase = "a"\nhbm_bandwidth = 5e12'))
    assert (second.hbm_bytes.value, second.hbm_bandwidth.value) == (1e11, 5e12)


def test_loading_again_takes_the_new_values(toml):
    load_chips(toml('[x]\nbase = "v5e"\nhbm_bandwidth = 1e12'))
    load_chips(toml('[x]\nbase = "v5e"\nhbm_bandwidth = 2e12'))
    assert chip("x").hbm_bandwidth.value == 2e12
    assert [each.name for each in chips()].count("x") == 1


def test_replacing_a_shipped_chip(toml):
    path = toml('[v5e]\nreplaces = true\nbase = "v5e"\nhbm_bandwidth = 1e12')
    load_chips(path)
    load_chips(path)
    assert chip("v5litepod").hbm_bandwidth.value == 1e12
    assert chip_for_device_kind("TPU v5 lite").hbm_bandwidth.value == 1e12
    assert [each.name for each in chips()].count("v5e") == 1


def test_taking_the_device_kind_of_another(toml):
    load_chips(toml('[lab]\nreplaces = true\nbase = "v5e"\ndevice_kinds = ["TPU v5 lite"]'))
    assert chip_for_device_kind("TPU v5 lite").name == "lab"
    assert chip("v5e").name == "v5e"


GOOD = 'kind = "gpu"\nhbm_bandwidth = 1e12\nmatrix_flops = { bf16 = 1e14 }\n'
BAD = [
    # text of the file, what the sentence says
    ("[x", "mine.toml is not valid TOML"),
    ("[x]\nbas = 'v5e'", r"\[x\]: unknown key 'bas'; did you mean 'base'\? Known here: .*base"),
    ("x = 1", r"\[x\]: a table is needed, not 1"),
    (
        "[x]\n" + GOOD + "hbm_bandwith = 1",
        r"\[x\]: unknown key 'hbm_bandwith'; did you mean 'hbm_bandwidth'\? Known here: .*hbm_bandwidth",
    ),
    ('[x]\nkind = "gpu"\nmatrix_flops = { bf16 = 1e14 }', r"\[x\], hbm_bandwidth: missing"),
    ("[x]\nhbm_bandwidth = 1e12\nmatrix_flops = { bf16 = 1e14 }", r"\[x\], kind: missing"),
    ('[x]\nkind = "gpu"\nhbm_bandwidth = 1e12', r"\[x\], matrix_flops: missing"),
    ("[x]\n" + GOOD.replace("gpu", "fpga"), r"kind: one of tpu, gpu, cpu is needed, not 'fpga'"),
    ("[x]\n" + GOOD.replace("1e12", "-1e12"), r"hbm_bandwidth: a positive number, .*not -1000000000000"),
    ("[x]\n" + GOOD.replace("1e12", "0"), r"hbm_bandwidth: a positive number, .*not 0"),
    ("[x]\n" + GOOD.replace("1e12", "nan"), r"hbm_bandwidth: a positive number, .*not nan"),
    ("[x]\n" + GOOD.replace("1e12", "inf"), r"hbm_bandwidth: a positive number, .*not inf"),
    ("[x]\n" + GOOD.replace("1e12", "1" + "0" * 400), r"hbm_bandwidth: a positive number"),
    ("[x]\n" + GOOD.replace("1e12", "true"), r"hbm_bandwidth: a positive number, .*not True"),
    ("[x]\n" + GOOD.replace("1e12", '"fast"'), r"hbm_bandwidth: a positive number, .*not 'fast'"),
    (
        "[x]\n" + GOOD.replace("1e12", "{ valeu = 1 }"),
        r"hbm_bandwidth: unknown key 'valeu'; did you mean 'value'\? Known here: .*value",
    ),
    ("[x]\n" + GOOD.replace("1e12", '{ source = "S" }'), r"hbm_bandwidth: a positive number, .*not None"),
    ("[x]\n" + GOOD.replace("1e12", '{ value = 1, confidence = "so so" }'), r'"high" or "low" is needed'),
    (
        "[x]\n" + GOOD.replace("1e12", "{ value = 1, alternatives = { S = -1 } }"),
        r"alternatives\.S: a positive",
    ),
    ("[x]\n" + GOOD.replace("1e12", "{ value = 1, source = 3 }"), r"hbm_bandwidth: a text is needed, not 3"),
    (
        "[x]\n" + GOOD.replace("bf16", "bfloat16"),
        r"matrix_flops: unknown key 'bfloat16'; did you mean 'bf16'\? Known here: .*bf16",
    ),
    ("[x]\n" + GOOD.replace("{ bf16 = 1e14 }", "1e14"), r"matrix_flops: a table is needed"),
    ("[x]\n" + GOOD + 'runs_as = { f32 = "bf16" }', r"runs_as\.f32: a pair such as"),
    ("[x]\n" + GOOD + 'runs_as = { f32 = ["bf16", 0] }', r"runs_as\.f32: a positive number"),
    ("[x]\n" + GOOD + 'runs_as = { f32 = ["s8", 1] }', r"runs_as\.f32: it leads to no figure"),
    (
        "[x]\n" + GOOD + 'runs_as = { s8 = ["s4", 1], s4 = ["s8", 1] }',
        r"runs_as\.s[48]: it leads to no figure",
    ),
    ("[x]\n" + GOOD + "devices_per_chip = 1.5", r"devices_per_chip: a whole number of at least 1 is needed"),
    ("[x]\n" + GOOD + "devices_per_chip = 0", r"devices_per_chip: a whole number"),
    ("[x]\n" + GOOD + 'aliases = "y"', r"aliases: a list of texts is needed, not 'y'"),
    ("[x]\n" + GOOD + "aliases = [3]", r"aliases: a text is needed, not 3"),
    ("[x]\n" + GOOD + 'title = ""', r"title: a text is needed"),
    ("[x]\n" + GOOD + "facts = 3", r"facts: a table is needed"),
    ("[x]\n" + GOOD + "figures = { clock = -1 }", r"figures\.clock: a positive number"),
    ('[x]\nbase = "v5x"', r"\[x\], base: no chip is called 'v5x'; nearest: .*v5e"),
    ("[x]\nbase = 5", r"base: a text is needed, not 5"),
    ("[v5e]\n" + GOOD, r"\[v5e\]: 'v5e' means TPU v5e; .*replaces = true"),
    ("[V5E]\n" + GOOD, r"\[V5E\]: 'v5e' means TPU v5e"),
    ("[x]\n" + GOOD + 'aliases = ["V5LitePod"]', r"'v5litepod' means TPU v5e"),
    ("[x]\n" + GOOD + 'device_kinds = ["TPU v5 lite"]', r"'tpu v5 lite' means TPU v5e"),
    ("[x]\n" + GOOD + "[y]\n" + GOOD + 'aliases = ["x"]', r"\[y\]: 'x' means x"),
    ("[host]\nreplaces = true\n" + GOOD, r"\[host\]: 'host' means the machine that is here"),
    ("[x]\nreplaces = 1\n" + GOOD, r"replaces: true or false is needed, not 1"),
    ("[sources]\nA = 3\n[x]\n" + GOOD, r"\[sources\], A: a text is needed"),
    ("[good]\n" + GOOD + "[x]\n", r"\[x\], kind: missing"),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_what_is_wrong_in_a_file_is_named(toml, text, says):
    before = chips()
    with pytest.raises(ChipError, match=says) as caught:
        load_chips(toml(text))
    assert "mine.toml" in str(caught.value)
    assert chips() == before


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ChipError, match=r"none\.toml cannot be read: No such file"):
        load_chips(tmp_path / "none.toml")
    with pytest.raises(ChipError, match="cannot be read"):
        load_chips(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ChipError, match=r"bytes\.toml is not valid TOML"):
        load_chips(tmp_path / "bytes.toml")


def test_a_path_with_nul_is_one_sentence():
    with pytest.raises(ChipError, match="NUL"):
        load_chips("a\0b")
