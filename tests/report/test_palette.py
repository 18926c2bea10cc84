"""Colours: enough contrast on every page, and told apart by the colour-blind."""

import itertools
import math

import pytest

from jaxscale_magic.report.palette import DARK, DARK_PAGES, LIGHT, LIGHT_PAGES, colour, theme_css


def linear(colour):
    """sRGB hex -> linear red, green, blue (IEC 61966-2-1)."""
    values = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def contrast(one, other):
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05) of the relative luminances."""
    a, b = (sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, other))
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_the_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)  # the standard's well-known near miss


@pytest.mark.parametrize(
    ("tone", "ink", "page"),
    [(tone, ink, page) for colours, pages in ((LIGHT, LIGHT_PAGES), (DARK, DARK_PAGES))
     for tone, ink in colours.items() for page in pages],
)  # fmt: skip
def test_text_in_every_colour_can_be_read_on_every_page(tone, ink, page):
    assert contrast(ink, page) >= 4.5


@pytest.mark.parametrize("tone", LIGHT)
@pytest.mark.parametrize("page", DARK_PAGES)
def test_marks_are_seen_on_dark_pages_that_strip_styles(tone, page):
    assert contrast(LIGHT[tone], page) >= 2.5  # only marks then: words take the page's own colour


# What people without one kind of cone see, in linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.
SIGHT = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "full": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}


def lab(rgb):
    """Linear RGB -> CIELAB under D65."""
    m = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
    xyz = [sum(a * max(v, 0) for a, v in zip(row, rgb, strict=True)) for row in m]
    f = [
        t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in (v / w for v, w in zip(xyz, (0.95047, 1.0, 1.08883), strict=True))
    ]
    return (116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2]))


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_three_bounds_differ_to_every_eye(sight, colours):
    seen = {
        tone: lab([sum(a * v for a, v in zip(row, linear(colours[tone]), strict=True)) for row in SIGHT[sight]])
        for tone in ("compute", "memory", "communication")
    }
    for one, other in itertools.combinations(seen, 2):  # 2.3 is the least difference that is noticed
        assert math.dist(seen[one], seen[other]) > 20, (one, other)


def test_every_tone_has_a_colour_in_every_theme():
    assert set(LIGHT) == set(DARK)
    assert colour("compute") == "var(--jaxscale-compute,#0067A8)"
    assert colour("no such tone") == colour("neutral")
    rules = theme_css("x")
    assert all(value in rules for value in (*LIGHT.values(), *DARK.values()))
    assert "prefers-color-scheme" not in rules  # a light notebook on a dark system stays light
    assert "prefers-color-scheme" in theme_css("x", own_page=True)
