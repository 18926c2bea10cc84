"""The roofline picture as inline SVG: log-log, roofs, dots. Axes and text take the page's own colour."""

from __future__ import annotations

import math

from jaxscale_magic import quantity as q
from jaxscale_magic.report.escaping import for_html
from jaxscale_magic.report.palette import paint
from jaxscale_magic.report.parts import Chart, Dot

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 14, 44


def chart_svg(chart: Chart) -> str:
    """The picture, with a title and a description for those who do not see it."""
    scale = _Scale(chart)
    pieces = [*_grid(scale), *_roofs(chart, scale), *_dots(chart, scale)]
    label = for_html(_description(chart), limit=600)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{label}" font-size="11" font-family="sans-serif" style="max-width:100%;height:auto">'
        f"<title>{for_html(chart.title)}</title>" + "".join(pieces) + "</svg>"
    )


def chart_file(chart: Chart) -> str:
    """The picture as a file of its own: dark on white, since it cannot know the page that it is put on."""
    head, tail = chart_svg(chart).split(">", 1)
    return f'{head} color="#222222"><rect width="100%" height="100%" fill="#FFFFFF"/>{tail}\n'


def _description(chart: Chart) -> str:
    program = chart.dots[0]
    return (
        f"{chart.title}: "
        + ", ".join(f"{name} {q.byte_rate(rate)}" for name, rate in chart.slopes)
        + "; roofs "
        + ", ".join(f"{name} {q.flop_rate(rate)}" for name, rate in chart.roofs)
        + f". {program.label}: {q.intensity(program.intensity)}, {q.flop_rate(program.rate)}."
    )


class _Scale:
    """Where values lie in the picture; whole decades on both axes."""

    def __init__(self, chart: Chart) -> None:
        peak = max(rate for _, rate in chart.roofs)
        ridges = [rate / bandwidth for _, rate in chart.roofs for _, bandwidth in chart.slopes]
        intensities = [dot.intensity for dot in chart.dots] + ridges
        rates = [dot.rate for dot in chart.dots] + [peak]
        self.x0 = math.floor(min(math.log10(min(intensities)) - 0.1, math.log10(max(ridges)) - 2))
        self.x1 = math.ceil(math.log10(max(intensities)) + 0.3)
        self.y1 = math.ceil(math.log10(peak) + 0.1)
        self.y0 = min(math.floor(math.log10(min(rates)) - 0.1), self.y1 - 2)

    def x(self, intensity: float) -> float:
        """Horizontal place of an arithmetic intensity."""
        part = (math.log10(intensity) - self.x0) / (self.x1 - self.x0)
        return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, rate: float) -> float:
        """Vertical place of a rate."""
        part = (math.log10(rate) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - min(max(part, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)


def _grid(scale: _Scale) -> list[str]:
    pieces = []
    stride = max(1, math.ceil((scale.x1 - scale.x0) / 8))
    for power in range(scale.x0, scale.x1 + 1, stride):
        x = scale.x(10.0**power)
        pieces.append(_line(x, TOP, x, HEIGHT - BOTTOM, opacity=0.12))
        pieces.append(_text(x, HEIGHT - BOTTOM + 15, f"{10.0**power:g}", anchor="middle"))
    stride = max(1, math.ceil((scale.y1 - scale.y0) / 6))
    for power in range(scale.y0, scale.y1 + 1, stride):
        y = scale.y(10.0**power)
        pieces.append(_line(LEFT, y, WIDTH - RIGHT, y, opacity=0.12))
        pieces.append(_text(LEFT - 6, y + 4, q.engineering(10.0**power, "", digits=1).strip(), anchor="end"))
    pieces.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "arithmetic intensity, FLOP/byte", anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    pieces.append(
        f'<text x="14" y="{middle:.0f}" fill="currentColor" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle:.0f})">FLOP/s</text>'
    )
    return pieces


def _roofs(chart: Chart, scale: _Scale) -> list[str]:
    pieces = []
    peak = max(rate for _, rate in chart.roofs)
    for slope in chart.slopes:
        pieces += _slope(*slope, peak, scale, labelled=slope is chart.slopes[0] or len(chart.slopes) < 3)
    bandwidth = chart.slopes[0][1]
    taken: list[float] = []
    for name, rate in sorted(chart.roofs, key=lambda roof: -roof[1]):
        y = scale.y(rate)
        pieces.append(_line(scale.x(rate / bandwidth), y, WIDTH - RIGHT, y, tone="compute", width=1.8))
        below = any(abs(y - other) < 13 for other in taken)
        if sum(abs(y - other) < 26 for other in taken) < 2:
            place = y + 13 if below else y - 5
            pieces.append(_text(WIDTH - RIGHT, place, f"{name} {q.flop_rate(rate)}", anchor="end"))
        taken.append(y)
    return pieces


def _slope(name: str, bandwidth: float, peak: float, scale: _Scale, *, labelled: bool) -> list[str]:
    """A memory's bandwidth as a line up to the highest roof, with its figure along it."""
    ridge = peak / bandwidth
    low = max(10.0**scale.x0, 10.0**scale.y0 / bandwidth)
    x, y = scale.x(low), scale.y(low * bandwidth)
    far_x, far_y = scale.x(ridge), scale.y(peak)
    pieces = [_line(x, y, far_x, far_y, tone="memory", width=1.8, opacity=1 if name == "memory" else 0.5)]
    if labelled:
        angle = math.degrees(math.atan2(far_y - y, far_x - x))
        mid_x, mid_y = x + 0.4 * (far_x - x), y + 0.4 * (far_y - y)
        pieces.append(
            f'<text x="{mid_x:.1f}" y="{mid_y - 6:.1f}" fill="currentColor" text-anchor="middle" '
            f'transform="rotate({angle:.1f} {mid_x:.1f} {mid_y - 6:.1f})">{name} {q.byte_rate(bandwidth)}</text>'
        )
    return pieces


def _dots(chart: Chart, scale: _Scale) -> list[str]:
    pieces = []
    for dot in reversed(chart.dots):  # the program is drawn last, on top
        whole = dot.label in ("measured", "the program at its roof")
        radius = 6.5 if whole else 2 + 5 * math.sqrt(dot.share)
        x, y = scale.x(dot.intensity), scale.y(dot.rate)
        style = paint(dot.tone) if whole else paint(dot.tone, "fill", "stroke") + ' fill-opacity="0.35"'
        pieces.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {style}>'
            f"<title>{for_html(_hover(dot))}</title></circle>"
        )
    measured = [dot for dot in chart.dots if dot.label == "measured"]
    for dot in measured:
        pieces.append(_text(scale.x(dot.intensity) - 10, scale.y(dot.rate) + 14, "measured", anchor="end"))
    return pieces


def _hover(dot: Dot) -> str:
    share = "" if dot.share >= 1 else f", {q.percent(dot.share)} of the time"
    return f"{dot.label}: {q.intensity(dot.intensity)}, {q.flop_rate(dot.rate)}{share}"


def _line(x1: float, y1: float, x2: float, y2: float, *, tone: str = "", width: float = 1, opacity: float = 1) -> str:
    stroke = paint(tone, "stroke") if tone else 'stroke="currentColor"'
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {stroke} '
        f'stroke-width="{width:g}" stroke-opacity="{opacity:g}"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" text-anchor="{anchor}">{for_html(text)}</text>'
