"""Times, bound, intensity and ridge of hand-made work on a hand-made chip."""

import pytest

from jaxscale_magic.chips.record import Chip, Figure
from jaxscale_magic.cost import Collective, Cost, OpCost, Source, Work
from jaxscale_magic.roofline import memory_time, price


def figure(value):
    return Figure(value=value, source="made up")


CHIP = Chip(
    name="round",
    title="Round Numbers",
    kind="tpu",
    matrix_flops={"bf16": figure(100e12), "s8": figure(200e12)},
    vector_flops=figure(1e12),
    hbm_bytes=figure(16e9),
    hbm_bandwidth=figure(1e12),
    runs_as={"f32": ("bf16", 1), "f32:highest": ("bf16", 6)},
)


def cost(work, min_bytes=None, **more):
    return Cost(work=work, min_hbm_bytes=work.hbm_bytes if min_bytes is None else min_bytes, **more)


@pytest.mark.parametrize(
    ("work", "compute", "memory", "bound"),
    [
        (Work(flops={"bf16": 10**12}, hbm_bytes=10**9), 0.01, 0.001, "compute"),
        (Work(flops={"bf16": 10**12}, hbm_bytes=10**11), 0.01, 0.1, "memory"),
        # 1e12 / 1e14 + 1e12 / 2e14
        (Work(flops={"bf16": 10**12, "s8": 10**12}, hbm_bytes=10**9), 0.015, 0.001, "compute"),
        # f32 in one bf16 pass, at highest precision in six
        (Work(flops={"f32": 10**12}, hbm_bytes=10**9), 0.01, 0.001, "compute"),
        (Work(flops={"f32:highest": 10**12}, hbm_bytes=10**9), 0.06, 0.001, "compute"),
        # matrix and vector unit work side by side: the busier one counts
        (Work(flops={"bf16": 10**12}, vector_flops=10**11, hbm_bytes=10**9), 0.1, 0.001, "compute"),
        (Work(vector_flops=10**9, hbm_bytes=12 * 10**9), 0.001, 0.012, "memory"),
    ],
)
def test_times_and_bound(work, compute, memory, bound):
    verdict = price(cost(work), [], CHIP)
    assert verdict.times.compute == pytest.approx(compute)
    assert verdict.times.memory == pytest.approx(memory)
    assert verdict.bound == bound
    assert verdict.times.lower == pytest.approx(max(compute, memory))
    assert verdict.times.upper == pytest.approx(compute + memory)


def test_intensity_against_the_ridge_decides():
    verdict = price(cost(Work(flops={"bf16": 99 * 10**9}, hbm_bytes=10**9)), [], CHIP)
    assert verdict.intensity == pytest.approx(99)
    assert verdict.ridge == pytest.approx(100)  # 1e14 / 1e12
    assert verdict.bound == "memory"


def test_the_verdict_may_flip_between_the_two_byte_figures():
    verdict = price(cost(Work(flops={"bf16": 10**12}, hbm_bytes=2 * 10**10), min_bytes=10**9), [], CHIP)
    assert (verdict.bound, verdict.min_bound) == ("memory", "compute")
    # No run can beat the compulsory bytes, whatever this compiler moves.
    assert verdict.times.lower == pytest.approx(0.01)


def test_an_unknown_peak_is_absent_not_zero():
    verdict = price(cost(Work(flops={"f64": 10**12}, hbm_bytes=10**9)), [], CHIP)
    assert verdict.times.compute is None
    assert verdict.ridge is None
    assert any("absent" in note and "f64" in note for note in verdict.notes)


def test_collectives_without_a_price_make_communication_absent():
    gather = Collective(kind="all-gather", dtype="bf16", bytes=10**6, count=10)
    verdict = price(cost(Work(hbm_bytes=10**9), collectives=(gather,)), [], CHIP)
    assert verdict.times.comms is None
    assert any("10 collectives" in note for note in verdict.notes)


def test_a_program_that_does_nothing_has_no_intensity():
    verdict = price(cost(Work()), [], CHIP)
    assert verdict.intensity is None
    assert verdict.times.lower == 0.0


def op(name, work, line):
    return OpCost(name=name, opcode=name, label=name, source=Source(file="cell", line=line), work=work)


def test_lines_and_ops_are_ranked_by_their_own_roof():
    ops = [
        op("small", Work(hbm_bytes=10**9), 1),  # 1 ms
        op("dot", Work(flops={"bf16": 10**12}, hbm_bytes=10**9), 2),  # 10 ms
        op("copy", Work(hbm_bytes=8 * 10**9), 1),  # 8 ms
    ]
    verdict = price(cost(Work(flops={"bf16": 10**12}, hbm_bytes=10 * 10**9)), ops, CHIP)
    assert [o.label for o in verdict.ops] == ["dot", "copy", "small"]
    assert [o.bound for o in verdict.ops] == ["compute", "memory", "memory"]
    assert [o.share for o in verdict.ops] == pytest.approx([10 / 19, 8 / 19, 1 / 19])
    assert [(line.source.line, line.time) for line in verdict.lines] == [
        (2, pytest.approx(0.010)),
        (1, pytest.approx(0.009)),
    ]
    assert verdict.times.scheduled == pytest.approx(0.019)


CACHED = Chip(
    name="cached",
    title="Cached",
    kind="cpu",
    matrix_flops={},
    hbm_bandwidth=figure(1e10),
    cache_bytes=figure(1e6),
    cache_bandwidth=figure(1e11),
)


@pytest.mark.parametrize(
    ("nbytes", "working_set", "seconds"),
    [
        (10**6, 10**6, 1e-5),  # all of it in the cache
        (10**7, 10**6, 1e-4),  # ten passes over it
        (4 * 10**6, 4 * 10**6, 0.25 * 4e6 / 1e11 + 0.75 * 4e6 / 1e10),  # a quarter stays from the last run
    ],
)
def test_a_cache_serves_the_part_that_fits(nbytes, working_set, seconds):
    assert memory_time(nbytes, CACHED, working_set) == pytest.approx(seconds)


def test_work_adds_and_scales():
    a = Work(flops={"bf16": 1, "f32": 2}, vector_flops=3, transcendentals=1, hbm_bytes=4)
    b = Work(flops={"bf16": 10}, hbm_bytes=1)
    assert a + b == Work(flops={"bf16": 11, "f32": 2}, vector_flops=3, transcendentals=1, hbm_bytes=5)
    assert a * 3 == Work(flops={"bf16": 3, "f32": 6}, vector_flops=9, transcendentals=3, hbm_bytes=12)
