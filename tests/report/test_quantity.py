"""Numbers as people read them."""

import pytest

from jaxscale_magic import quantity as q


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.0, "1.00 s"),
        (0.0123, "12.3 ms"),
        (1.234e-5, "12.3 µs"),
        (9.996e-4, "1.00 ms"),  # rounds up across the prefix
        (5.5e-10, "550 ps"),
        (123.4, "123 s"),
        (None, "unknown"),
        (float("nan"), "unknown"),
        (1e-30, "0.00 fs"),
    ],
)
def test_seconds(value, text):
    assert q.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (17, "17 B"),
        (999, "999 B"),
        (999.7, "1.00 kB"),  # rounds up across the prefix
        (1000, "1.00 kB"),
        (6291456, "6.29 MB"),
        (10**15, "1.00 PB"),
        (None, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_bytes_are_decimal(value, text):
    assert q.nbytes(value) == text


def test_rates_and_shares():
    assert q.flops(17_179_869_184) == "17.2 GFLOP"
    assert q.flop_rate(1.97e14) == "197 TFLOP/s"
    assert q.byte_rate(8.2e11) == "820 GB/s"
    assert q.intensity(240.24) == "240 FLOP/B"
    assert q.intensity(12345.6) == "12,346 FLOP/B"
    assert q.intensity(None) == q.intensity(float("nan")) == "unknown"
    assert q.intensity(999.7) == "1,000 FLOP/B"
    assert q.percent(float("nan")) == "unknown"
    assert [q.percent(x) for x in (0, 0.0012, 0.05, 0.5, 1.0, None)] == [
        "0 %",
        "0.12 %",
        "5 %",
        "50 %",
        "100 %",
        "unknown",
    ]
