"""The interactive roofline: a bqplot chart, a chip chooser, the verdict beside it, the full report below.

Only drawing and events live here: what is drawn comes from `roofline_figure.py`, words from
`roofline_text.py`, prices from `report.on(chip)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import bqplot
import ipywidgets
import numpy as np

from jaxscale_magic.chips import Chip, chips
from jaxscale_magic.report.html import report_html
from jaxscale_magic.report.palette import colour, theme_css
from jaxscale_magic.report.parts import Chart, Headline
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import COMMUNICATION, COMPUTE, MEMORY
from jaxscale_magic.widgets.roofline_figure import roofline_figure
from jaxscale_magic.widgets.roofline_marks import Dot, Limits, Line, RooflineFigure
from jaxscale_magic.widgets.roofline_text import headline

INK = "var(--jp-content-font-color1, #808080)"
MEASURED, FAINT = colour("measured"), colour("neutral")
#: Area in square pixels of a dot that takes all of the time, and the least share that is drawn as such.
WHOLE_AREA, LEAST_SHARE = 700, 0.06

_STYLE = f"""<style>
.jaxscale-hover .tooltiptext {{ text-align: left; padding: .3em .6em; }}
.jaxscale-roofline .widget-html-content {{ line-height: 1.4; }}
{theme_css("jaxscale-roofline")}
</style>"""


class RooflineView:
    """One report's chart, which re-prices on whatever chip is chosen.

    Attributes:
        box: the widget to show.
        chooser: the dropdown; its values are chip names, the report's own first.
        headline: the verdict on the chosen chip.
        figure: the chart; its marks are `roofs`, `slopes`, `ridge`, `ops`, `program`, `measured` and labels.
        details: the rest of the report on the chosen chip: lines, advice, figures, instructions.
        shown: what the chart shows now.
    """

    def __init__(self, report: RooflineReport, catalogue: Iterable[Chip] | None = None) -> None:
        """`catalogue` are the chips to choose from; every known one where it is not given."""
        self.report = report
        own = report.target.chip
        others = {chip.name: chip for chip in (chips() if catalogue is None else catalogue)}
        others.pop(own.name, None)
        self._chips = others
        self.chooser = ipywidgets.Dropdown(
            options=[(f"{own.title} (this report)", own.name), *((c.title, c.name) for c in others.values())],
            value=own.name,
            description="Priced on",
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="24em", max_width="100%"),
        )
        self.headline = ipywidgets.HTML(layout=ipywidgets.Layout(flex="1 1 26em", min_width="16em"))
        self.details = ipywidgets.HTML()
        self._build_marks()
        self.shown = self.show(report)
        self.chooser.observe(self._chosen, names="value")
        top = ipywidgets.HBox(
            [self.headline, self.chooser],
            layout=ipywidgets.Layout(flex_flow="row wrap", justify_content="space-between"),
        )
        self.box = ipywidgets.VBox([top, self.figure, ipywidgets.HTML(_STYLE + _legend()), self.details])
        self.box.add_class("jaxscale-roofline")

    def _build_marks(self) -> None:
        """The empty chart."""
        self.x_scale, self.y_scale = bqplot.LogScale(min=0.1, max=10), bqplot.LogScale(min=0.1, max=10)
        scales = {"x": self.x_scale, "y": self.y_scale}
        sized = {**scales, "size": bqplot.LinearScale(min=0, max=1)}

        def lines(stroke: str, **style: Any) -> Any:
            return bqplot.Lines(scales=scales, colors=[stroke], **style)

        def dots(**style: Any) -> Any:
            tooltip = bqplot.Tooltip(fields=["name"], show_labels=False)
            tooltip.add_class("jaxscale-hover")
            style = {"stroke": "white", "stroke_width": 1, **style}
            look = {"opacity": 0.97, "color": INK, "white-space": "pre-line", "max-width": "34em"}
            return bqplot.Scatter(
                x=[],
                y=[],
                display_names=False,
                names_unique=False,
                tooltip=tooltip,
                tooltip_style=look,
                **style,
            )

        def labels(fill: str, align: str, x: int, y: int, weight: str = "normal") -> Any:
            return bqplot.Label(
                x=[], y=[], text=[], scales=scales, colors=[fill], align=align, x_offset=x, y_offset=y,
                default_size=12, font_weight=weight, apply_clip=False,
            )  # fmt: skip

        self.roofs = lines(colour(COMPUTE), stroke_width=2.5)
        self.slopes = lines(colour(MEMORY), stroke_width=2.5, opacities=[1.0, 0.45])
        self.ridge = lines(FAINT, stroke_width=1.2, line_style="dashed")
        self.ops = dots(scales=sized, default_size=WHOLE_AREA, opacities=[0.6])
        self.program = dots(scales=scales, default_size=230, stroke_width=2)
        self.measured = dots(scales=scales, default_size=150, marker="diamond", colors=[MEASURED])
        self.roof_labels = labels(INK, "end", -4, -10)
        self.slope_labels = labels(INK, "start", 12, 8)
        self.ridge_label = labels(FAINT, "start", 5, -6)
        self.program_label = labels(INK, "end", -7, -13, "bold")
        self.measured_label = labels(MEASURED, "start", 12, 4, "bold")
        self.x_axis = bqplot.Axis(
            scale=self.x_scale,
            label="arithmetic intensity (FLOP/byte)",
            label_offset="32px",
            tick_format="~g",
        )
        self.y_axis = bqplot.Axis(scale=self.y_scale, label="FLOP/s", label_offset="44px", tick_format="~s")
        self.y_axis.orientation = "vertical"
        for axis in (self.x_axis, self.y_axis):
            axis.grid_lines, axis.grid_color, axis.label_color = "solid", "rgba(128, 128, 128, 0.22)", INK
        # Later marks lie on top: instructions (the biggest first), then the program, which is smaller than an
        # instruction that takes all of its time, so that each can be hovered.
        self.figure = bqplot.Figure(
            marks=[
                self.roofs, self.slopes, self.ridge, self.ops, self.program, self.measured,
                self.roof_labels, self.slope_labels, self.ridge_label,
                self.program_label, self.measured_label,
            ],
            axes=[self.x_axis, self.y_axis],
            fig_margin={"top": 14, "bottom": 50, "left": 66, "right": 24},
            padding_y=0.0,
            display_toolbar=False,
            layout=ipywidgets.Layout(width="100%", height="400px", min_width="20em"),
        )  # fmt: skip

    def _chosen(self, change: Any) -> None:
        chip = self._chips.get(change["new"])
        self.shown = self.show(self.report if chip is None else self.report.on(chip))

    def show(self, report: RooflineReport) -> RooflineFigure:
        """Draw `report`, in place and at once; the own chip's range stays in view for comparison."""
        own = roofline_figure(self.report).limits
        figure = roofline_figure(report, own)
        with ExitStack() as stack:
            for widget in (*self.figure.marks, self.x_scale, self.y_scale, self.x_axis, self.y_axis):
                stack.enter_context(widget.hold_sync())
            self._range(figure.limits)
            _draw_lines(self.roofs, figure.roofs)
            _draw_lines(self.slopes, figure.slopes)
            self._draw_ridge(figure)
            _draw_dots(self.program, [figure.program])
            _draw_dots(self.measured, [figure.measured], MEASURED)
            _draw_dots(self.ops, figure.ops)
            self._draw_labels(figure)
        notes = list(figure.notes)
        if report is not self.report and report.time.comms:
            notes.append(f"Communication time stays as priced for {self.report.target.chip.title}.")
        self.headline.value = headline(report, notes)
        self.details.value = report_html(report, leave_out=(Headline, Chart))
        return figure

    def _range(self, limits: Limits) -> None:
        self.x_scale.min, self.x_scale.max = 10.0**limits.left, 10.0**limits.right
        self.y_scale.min, self.y_scale.max = 10.0**limits.bottom, 10.0**limits.top
        self.x_axis.tick_values = [10.0**n for n in range(limits.left, limits.right + 1)]
        self.y_axis.tick_values = [10.0**n for n in range(limits.bottom, limits.top + 1)]

    def _draw_ridge(self, figure: RooflineFigure) -> None:
        bottom, x = 10.0**figure.limits.bottom, figure.ridge
        if x is None or not figure.limits.left <= np.log10(x) <= figure.limits.right:
            _draw_lines(self.ridge, [])
            _write(self.ridge_label, [])
            return
        speed = figure.slopes[0].y[0] / figure.slopes[0].x[0]
        _draw_lines(self.ridge, [Line(label="ridge", x=(x, x), y=(bottom, speed * x))])
        _write(self.ridge_label, [("ridge", x, bottom)])

    def _draw_labels(self, figure: RooflineFigure) -> None:
        """Names where nothing is in the way: above a roof, below a slope, beside a dot."""
        left, span = figure.limits.left, figure.limits.right - figure.limits.left
        program, measured = figure.program, figure.measured
        place = (np.log10(program.x) - left) / span if program is not None else 0.0
        far = place > 0.75  # then the roofs are named at their other end
        tall = figure.limits.top - figure.limits.bottom
        names, above = [], np.inf
        for line in figure.roofs:  # a roof close under another one is named below itself
            close = np.log10(above / line.y[0]) < 0.06 * tall
            names.append((line.label, line.x[0 if far else 1], line.y[0] * 10 ** (-0.065 * tall * close)))
            above = line.y[0]
        _write(self.roof_labels, names)
        self.roof_labels.align, self.roof_labels.x_offset = ("start", 8) if far else ("end", -4)
        ups = [10.0 ** ((0.12 + 0.2 * n) * span) for n in range(2)]
        named = zip(figure.slopes, ups, strict=False)
        _write(self.slope_labels, [(line.label, line.x[0] * up, line.y[0] * up) for line, up in named])

        _write(self.program_label, [] if program is None else [("program", program.x, program.y)])
        _write(self.measured_label, [] if measured is None else [("measured", measured.x, measured.y)])
        below = place < 0.15 or (program is not None and program.bound == COMMUNICATION and not far)
        side = self.program_label
        side.align, side.x_offset, side.y_offset = ("start", 14, 6) if below else ("end", -8, -13)
        side = self.measured_label
        side.align, side.x_offset = ("end", -12) if place > 0.85 else ("start", 12)


def _draw_lines(mark: Any, lines: Iterable[Line]) -> None:
    pairs = list(lines)
    mark.visible = bool(pairs)
    if pairs:
        mark.x, mark.y = np.array([line.x for line in pairs]), np.array([line.y for line in pairs])


def _draw_dots(mark: Any, dots: Iterable[Dot | None], fixed: str = "") -> None:
    present = [dot for dot in dots if dot is not None]
    mark.visible = bool(present)
    mark.x, mark.y = np.array([dot.x for dot in present]), np.array([dot.y for dot in present])
    mark.names = np.array([dot.hover for dot in present])
    if "size" in mark.scales:
        mark.size = np.array([max(dot.share, LEAST_SHARE) for dot in present])
    if present:
        mark.colors = [fixed or colour(dot.bound) for dot in present]


def _write(mark: Any, texts: list[tuple[str, float, float]]) -> None:
    mark.text = np.array([text for text, _, _ in texts])
    mark.x, mark.y = np.array([x for _, x, _ in texts]), np.array([y for _, _, y in texts])


def _legend() -> str:
    """What the colours and shapes mean."""
    entries = [("●", colour(name), f"{name}-bound") for name in (COMPUTE, MEMORY, COMMUNICATION)]
    entries.append(("◆", MEASURED, "measured"))
    spans = "".join(
        f'<span style="white-space:nowrap"><span style="color:{fill}">{shape}</span> {words}</span>'
        for shape, fill, words in entries
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:0 1.4em;color:var(--jp-content-font-color1,inherit)">'
        f"{spans}<span>small dots: the costliest instructions, area by share of time</span></div>"
    )
