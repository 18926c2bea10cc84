"""Numbers as people read them: engineering units for seconds, bytes, FLOPs and rates. Text only, no colours."""

from __future__ import annotations

import math

#: Decimal prefixes by power of a thousand.
_PREFIXES = {
    -5: "f",
    -4: "p",
    -3: "n",
    -2: "µ",
    -1: "m",
    0: "",
    1: "k",
    2: "M",
    3: "G",
    4: "T",
    5: "P",
    6: "E",
    7: "Z",
}
UNKNOWN = "unknown"


def engineering(value: float | None, unit: str, *, digits: int = 3) -> str:
    """A value with a decimal prefix, to so many significant digits: 6291456, "B" -> "6.29 MB"."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value == 0 or math.isinf(value):
        return f"{value:.0f} {unit}"
    power = math.floor(math.log10(abs(value)) / 3)
    scaled = value / 1000.0**power
    if float(f"{abs(scaled):.{digits - 1}e}") >= 1000:  # 999.6 rounds up to the next prefix
        power, scaled = power + 1, scaled / 1000
    power = min(max(power, min(_PREFIXES)), max(_PREFIXES))
    scaled = value / 1000.0**power
    whole = math.floor(math.log10(abs(scaled))) + 1 if abs(scaled) >= 1 else 1
    return f"{scaled:.{max(0, digits - whole)}f} {_PREFIXES[power]}{unit}"


def seconds(value: float | None) -> str:
    """Time, as in 12.3 µs."""
    return engineering(value, "s")


def nbytes(value: float | None) -> str:
    """Size in decimal units, as in 6.29 MB."""
    whole = value is not None and not math.isnan(value) and abs(value) < 999.5
    return f"{value:.0f} B" if whole else engineering(value, "B")


def flops(value: float | None) -> str:
    """Work, as in 17.2 GFLOP."""
    return "0 FLOP" if value == 0 else engineering(value, "FLOP")


def flop_rate(value: float | None) -> str:
    """Rate of work, as in 197 TFLOP/s."""
    return engineering(value, "FLOP/s")


def byte_rate(value: float | None) -> str:
    """Bandwidth, as in 820 GB/s."""
    return engineering(value, "B/s")


def intensity(value: float | None) -> str:
    """Arithmetic intensity: "240 FLOP/B"."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{value:.3g} FLOP/B" if value < 999.5 else f"{value:,.0f} FLOP/B"


def percent(value: float | None) -> str:
    """A share: 0.123 -> "12 %"; small ones keep a digit."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{100 * value:.0f} %" if value >= 0.095 or value == 0 else f"{100 * value:.2g} %"
