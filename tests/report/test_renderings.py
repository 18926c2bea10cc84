"""One description, several renderings: what each must say, and that nothing in a report can break one."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest
from sample_reports import CHIP, HOSTILE, OPS, full, op, report

from jaxscale_magic.errors import JaxscaleError
from jaxscale_magic.report.bundle import mimebundle
from jaxscale_magic.report.html import report_page
from jaxscale_magic.timing import Measured

VOID = {"meta", "hr", "br", "img", "line", "rect"}


class Page(HTMLParser):
    """Collects tags, attributes and text; complains of tags that do not balance."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def plain(text):
    """Text without the line breaks and bars that only one rendering has."""
    return re.sub(r"\s+", " ", text)


SAID = [
    "ompute-bound on Round Numbers",
    "10.0 ms",  # compute
    "4.00 ms",  # memory
    "12.5 ms",  # measured
    "80 % of what the chip allows",  # 10 / 12.5
    "h = x @ w",
    "77 %",  # the dot's 10 ms of 13 ms
    "4.00 GB scheduled",
    "250 FLOP/B of scheduled bytes",  # 1e12 / 4e9
    "100 FLOP/B = 100 TFLOP/s (bf16 peak) ÷ 1.00 TB/s (HBM)",  # 1e14 / 1e12
    "Twice the batch would help.",
    "Something to know.",
    "mystery_call",
    "It does not fit: it needs 20.0 GB of memory, and the device has 16.0 GB.",
    "20.0 ms, where each run allocates its outputs anew",
    "80.0 TFLOP/s and 320 GB/s",  # 1e12 / 12.5 ms, 4e9 / 12.5 ms
    "One multiply-add counts as two FLOPs",
]


@pytest.mark.parametrize("said", SAID)
def test_text_and_html_say_the_same(said):
    text = plain(str(full()))
    if said.startswith("ompute"):
        said, text = said.upper(), text.upper()
    assert said in text
    html = plain(Page(full().to_html()).text)
    assert said.lower() in html.lower()


def test_text_fits_eighty_columns_and_has_no_colour_codes():
    for sample in (full(), report(), report(title="x" * 500)):
        lines = str(sample).splitlines()
        assert max(map(len, lines)) <= 80
        assert "\x1b" not in str(sample)


def test_html_needs_nothing_from_elsewhere_and_runs_nothing():
    html = full().to_html()
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(page.tags)
    assert not any(name.startswith("on") or name in ("src", "href") for name, _ in page.attributes)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert len(html) < 200_000


def test_the_picture_has_words_for_those_who_do_not_see_it():
    page = Page(full().to_html())
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert any("bf16 100 TFLOP/s" in label and "1.00 TB/s" in label for label in labels)


def test_a_whole_page_names_its_encoding():
    page = report_page(full())
    assert page.startswith("<!DOCTYPE html>")
    assert 'charset="utf-8"' in page
    Page(page.removeprefix("<!DOCTYPE html>"))


@pytest.mark.parametrize("name", HOSTILE, ids=lambda s: ascii(s)[:20])
def test_hostile_names_stay_text_everywhere(name):
    sample = report(
        (op(name, 2, flops=10**12, nbytes=10**9, text=name), op(name, 3)), title=name, notes=(name,), stands_in=name
    )
    html = report_page(sample)
    page = Page(html.removeprefix("<!DOCTYPE html>"))
    assert not {"script", "img"} & set(page.tags)
    assert not any(key.startswith("on") for key, _ in page.attributes)
    assert len(html.encode("utf-8")) < 200_000
    text = str(sample)
    text.encode("utf-8")
    assert max(map(len, text.splitlines())) <= 80
    for harmful in ("\x1b", "\x07", "\x00", "\u202e", "\u2066"):
        assert harmful not in text
        assert harmful not in html
    markdown = sample.to_markdown()
    markdown.encode("utf-8")
    assert "<script" not in markdown
    assert "<img" not in markdown
    assert "](javascript" not in markdown
    json.loads(sample.to_json())


def test_the_two_byte_figures_may_disagree_and_that_is_said():
    sample = report((op("dot", 2, flops=10**12, nbytes=2 * 10**10),), min_bytes=10**9)
    assert (sample.bound, sample.verdict.min_bound) == ("memory", "compute")
    assert "two byte figures disagree" in str(sample)
    assert "two byte figures disagree" in plain(Page(sample.to_html()).text)


def test_absent_figures_are_unknown_not_zero():
    sample = report((op("dot", 2),))
    odd = dataclasses.replace(OPS[0], work=dataclasses.replace(OPS[0].work, flops={"f64": 10**12}))
    assert sample.time.compute == 0.0
    unpriced = report((odd,))
    assert unpriced.to_dict()["time"]["compute"] is None
    assert re.search(r"compute\s+unknown", str(unpriced))


@pytest.mark.parametrize("sample", [report(()), report((op("copy", 2, nbytes=0),)), report((op("copy", 2),))])
def test_programs_without_work_render(sample):
    Page(sample.to_html())
    assert str(sample)
    json.loads(sample.to_json())


def test_a_measurement_of_zero_seconds_renders():
    sample = report(measured=Measured(minimum=0.0, median=0.0, spread=0.0, runs=1))
    Page(sample.to_html())
    assert str(sample)
    assert sample.share_of_bound is None


def test_dict_and_json_hold_the_exact_figures():
    data = json.loads(full().to_json())
    assert data["bound"] == "compute"
    assert data["cost"]["flops"] == {"bf16": 10**12}
    assert data["cost"]["hbm_bytes"] == 4 * 10**9
    assert data["time"]["lower"] == pytest.approx(0.01)
    assert data["measured"]["minimum"] == 0.0125
    assert data["share_of_bound"] == pytest.approx(0.8)
    assert data["fit"]["fits"] is False
    assert [line["line"] for line in data["lines"]] == [2, 3]


def test_pandas():
    frame = full().to_pandas()
    assert list(frame["label"]) == ["dot", "copy"]
    assert list(frame["bound"]) == ["compute", "memory"]
    assert frame["share"].sum() == pytest.approx(1)
    assert list(full().to_pandas(by="line")["line"]) == [2, 3]
    with pytest.raises(JaxscaleError, match="by='op' or by='line'"):
        full().to_pandas(by="layer")


@pytest.mark.parametrize(
    ("ending", "start"), [(".html", "<!DOCTYPE"), (".json", "{"), (".md", "###"), (".txt", "COMP"), (".svg", "<svg")]
)
def test_saving(tmp_path, ending, start):
    path = full().save(tmp_path / f"report{ending}")
    assert path.read_text(encoding="utf-8").startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_saved_is_one_sentence(tmp_path):
    with pytest.raises(JaxscaleError, match=r"\.html, \.json, \.md, \.txt, \.svg"):
        full().save(tmp_path / "report.pdf")
    with pytest.raises(JaxscaleError, match="cannot be written"):
        full().save(tmp_path / "missing" / "report.html")


def test_the_bundle_has_text_and_html_without_a_kernel():
    bundle = mimebundle(full())
    assert set(bundle) == {"text/plain", "text/html"}


def test_another_chip_is_priced_at_once():
    faster = dataclasses.replace(CHIP, name="twice", title="Twice", hbm_bandwidth=CHIP.matrix_flops["bf16"])
    other = full().on(faster)
    assert other.target.name == "twice"
    assert other.measured is None
    assert other.advice == ()
    assert other.time.memory == pytest.approx(4e9 / 100e12)
