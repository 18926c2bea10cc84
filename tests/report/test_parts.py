"""What a report says: which bytes a time is of, what shares are shares of, which rates make the ridge."""

import dataclasses
import re

import pytest
from sample_reports import CHIP, OPS, figure, full, op, report

from jaxscale_magic.cost import Collective, OpCost, Source, Work
from jaxscale_magic.report.build import build, limits
from jaxscale_magic.report.figures import ridge_words
from jaxscale_magic.report.parts import Bars, Table
from jaxscale_magic.report.tables import costliest_lines, instructions


def percents(table):
    return [float(row[table.columns.index("share")].removesuffix(" %")) for row in table.rows]


def test_a_lower_bound_below_the_memory_bar_is_explained():
    # 20 GB scheduled: 20 ms; 1 GB compulsory: 1 ms; 1e12 FLOP at 1e14: 10 ms
    sample = report((op("dot", 2, flops=10**12, nbytes=2 * 10**10),), min_bytes=10**9)
    said = "at least 10.0 ms with the fewest bytes possible, 20.0 ms with the bytes that it moves as compiled"
    assert limits(sample) == said
    (bars,) = (part for part in build(sample) if isinstance(part, Bars))
    assert [(bar.label, bar.value, bar.of) for bar in bars.bars] == [
        ("compute", "10.0 ms", "1.00 TFLOP"),
        ("memory, scheduled bytes", "20.0 ms", "20.0 GB"),
        ("memory, compulsory bytes", "1.00 ms", "1.00 GB"),
    ]


def test_equal_byte_figures_are_one_bar():
    (bars,) = (part for part in build(report()) if isinstance(part, Bars))
    assert [bar.label for bar in bars.bars] == ["compute", "memory"]
    assert limits(report()) == "at least 10.0 ms"


def test_shares_of_lines_and_instructions_have_one_denominator():
    # One fusion of two lines takes max(compute 10 ms, memory 4 ms) = 10 ms. Alone its lines would take 10 ms
    # (compute) and 4 ms (memory), 14 ms in all: of the 10 ms they get 10 × 10/14 and 10 × 4/14. A copy from no
    # line takes 10 ms more: of the 20 ms in all the lines have 36 %, 14 %, and what comes from no line 50 %.
    first, second = (Source(file="cell", line=k, text=f"line {k}") for k in (2, 3))
    works = Work(flops={"bf16": 10**12}), Work(hbm_bytes=4 * 10**9)
    fusion = OpCost(
        name="fusion", opcode="fusion", label="fusion", source=first, count=1, work=works[0] + works[1],
        lines=((first, works[0]), (second, works[1])),
    )  # fmt: skip
    copy = OpCost(name="copy", opcode="copy", label="copy", source=None, count=1, work=Work(hbm_bytes=10**10))
    sample = report((fusion, copy))
    assert [line.time for line in sample.lines] == pytest.approx([0.01 * 10 / 14, 0.01 * 4 / 14])
    lines, ops = costliest_lines(sample), instructions(sample)
    assert percents(lines) == [36, 14, 50]
    assert lines.rows[-1][1] == "(instructions from no line of yours)"
    assert percents(ops) == [50, 50]
    assert "20.0 ms" in lines.title
    assert "20.0 ms" in ops.title


def test_rows_too_small_to_matter_are_one_row():
    # 10 GB takes 10 ms; each of five copies of 10 kB takes 10 ns, a millionth of that
    small = tuple(op(f"copy {k}", 3 + k, nbytes=10**4) for k in range(5))
    sample = report((op("dot", 2, nbytes=10**10), *small))
    table = instructions(sample)
    assert [row[0] for row in table.rows] == ["dot", "(5 others)"]
    assert table.rows[1][3:6] == ("50.0 kB", "50.0 ns", "0.0005 %")
    assert [row[1] for row in costliest_lines(sample).rows] == ["dot"]  # below 0.01 % together


@pytest.mark.parametrize(
    ("ops", "chip", "words"),
    [
        (OPS, CHIP, "100 FLOP/B = 100 TFLOP/s (bf16 peak) ÷ 1.00 TB/s (HBM)"),
        # 2 GFLOP elementwise at 1 TFLOP/s take longer than the product: (1e9 + 2e9) FLOP / 2 ms = 1.5 TFLOP/s
        (
            (OpCost(name="f", opcode="fusion", label="f", count=1,
                    work=Work(flops={"bf16": 10**9}, vector_flops=2 * 10**9, hbm_bytes=10**9)),),
            CHIP,
            "1.5 FLOP/B = 1.50 TFLOP/s (vector unit; products run beside) ÷ 1.00 TB/s (HBM)",
        ),
        # 4 GB of which 1 GB fits the cache: 4e9 × (0.25/4e12 + 0.75/1e12) = 3.25 ms, so 1.23 TB/s
        (
            OPS,
            dataclasses.replace(CHIP, kind="cpu", cache_bytes=figure(1e9), cache_bandwidth=figure(4e12)),
            "81.2 FLOP/B = 100 TFLOP/s (bf16 peak) ÷ 1.23 TB/s (25 % from cache, the rest from main memory)",
        ),
        ((op("copy", 2),), CHIP, "none: it takes both FLOPs and bytes"),
    ],
)  # fmt: skip
def test_the_ridge_names_its_two_rates(ops, chip, words):
    assert ridge_words(report(ops).on(chip)).startswith(words)


def absent(sample, **times):
    """The report with some times absent."""
    verdict = dataclasses.replace(sample.verdict, times=dataclasses.replace(sample.time, **times))
    return dataclasses.replace(sample, verdict=verdict)


def test_absent_times_are_unknown_in_every_rendering():
    sample = absent(full(), compute=None, memory=None, min_memory=None, comms=None, lower=None, upper=None,
                    scheduled=None)  # fmt: skip
    collective = Collective(kind="all-reduce", dtype="bf16", bytes=1, count=1)
    sample = dataclasses.replace(sample, cost=dataclasses.replace(sample.cost, collectives=(collective,)))
    assert sample.share_of_bound is None
    text = str(sample)
    assert "the least time is unknown" in text
    for name in ("memory", "communication", "lower", "scheduled", "upper"):
        assert re.search(rf"{name}\b.*\s+unknown", text), name
    assert "unknown" in sample.to_html()
    assert "unknown" in sample.to_markdown()
    assert sample.to_dict()["time"]["lower"] is None


def test_without_a_compute_time_the_verdict_says_so():
    text = str(absent(full(), compute=None))
    assert "AS FAR AS CAN BE TOLD: ITS COMPUTE TIME IS UNKNOWN" in text
    assert "ridge            unknown, since the compute time is" in text


def test_advice_is_a_list_in_every_rendering():
    assert "- Twice the batch would help." in full().to_markdown()
    assert "<li><bdi>Twice the batch would help.</bdi></li>" in full().to_html()
    assert "→ Twice the batch would help." in str(full())


def test_the_tables_read_where_styles_and_pictures_are_stripped():
    bare = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<details>|</details>", "", full().to_html(), flags=re.S)
    bare = re.sub(r' (style|class|title)="[^"]*"', "", bare)
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))
    for said in ("Compute-bound on Round Numbers", "at least 10.0 ms", "compute 10.0 ms 1.00 TFLOP", "memory 4.00 ms"):
        assert said in words


def test_tables_have_as_many_cells_as_columns():
    for part in (costliest_lines(full()), instructions(full())):
        assert isinstance(part, Table)
        assert {len(row) for row in part.rows} == {len(part.columns)}
        assert len(part.tones) == len(part.rows)
