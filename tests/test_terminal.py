"""`python -m jaxscale_magic` as a person in a terminal runs it."""

import subprocess
import sys

from jaxscale_magic.__main__ import main


def test_the_demo_prints_both_reports_and_writes_a_page(tmp_path):
    page = tmp_path / "report.html"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "jaxscale_magic", "demo", "--html", str(page)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "MEMORY-BOUND ON TPU V5E" in done.stdout
    assert "COMPUTE-BOUND ON" in done.stdout
    assert "h @ w2" in done.stdout  # the costliest lines are quoted
    assert str(page) in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= max(80, len(str(page)) + 25)
    assert "\x1b[" not in done.stdout
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") >= 2
    assert "<script" not in html


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    assert main(["demo", "--html", str(tmp_path / "no" / "such" / "report.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_every_chip_is_listed(capsys):
    assert main(["chips"]) == 0
    listed = capsys.readouterr().out
    for name in ("v5e", "v5p", "h100", "mi300x"):
        assert name in listed


def test_the_calibration_is_shown(capsys):
    assert main(["calibrate"]) == 0
    shown = capsys.readouterr().out
    for words in ("f32", "bf16", "GFLOP/s", "main memory", "cache"):
        assert words in shown
