"""The colours of the product: one hue each for compute, memory and communication, told apart by the colour-blind.

From the palette of Okabe and Ito; readable on white and on black.
"""

from __future__ import annotations

COLOURS = {
    "compute": "#0072B2",
    "memory": "#D55E00",
    "communication": "#009E73",
    "measured": "#CC79A7",
    "neutral": "#888888",
}


def colour(tone: str) -> str:
    """The colour of a tone; grey for one without."""
    return COLOURS.get(tone, COLOURS["neutral"])
