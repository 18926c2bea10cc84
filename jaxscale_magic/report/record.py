"""The report: one frozen record of everything found about one program on one chip.

It explains itself (`str(report)` is the answer) and renders itself through the sibling files; it computes
nothing but re-pricing on another chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxscale_magic.advice import Advice
from jaxscale_magic.chips.record import Chip
from jaxscale_magic.cost import Cost, OpCost
from jaxscale_magic.roofline import Priced, Times, Verdict, price
from jaxscale_magic.timing import Measured

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a program was compiled for.

    Attributes:
        name: as asked for: "v5e", "h100", or "host" for the devices that are here.
        chip: its figures.
        devices: how many devices the program runs on.
        compiler: which compiler made the module, in words ("XLA:CPU 0.10.2").
        stands_in: why that is not the chip's own compiler; "" where it is.
        here: the devices are present, so the program can be run and timed.
    """

    name: str
    chip: Chip
    devices: int = 1
    compiler: str = ""
    stands_in: str = ""
    here: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """Does it fit: bytes per device.

    Attributes:
        arguments, outputs: of the compiled program.
        temporaries: what it needs beside them; None where another compiler stood in.
        aliased: outputs that reuse the memory of donated arguments.
        peak: arguments + outputs + temporaries - aliased, or the compiler's own peak where larger; without the
            temporaries where they are not known.
        capacity: the device's memory, or None where unknown.
    """

    arguments: int
    outputs: int
    temporaries: int | None
    aliased: int
    peak: int
    capacity: int | None

    @property
    def fits(self) -> bool | None:
        """Whether `peak` is within `capacity`; None where the capacity is unknown."""
        return None if self.capacity is None else self.peak <= self.capacity


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineReport:
    """Everything about one program on one chip. SI units, per device.

    Attributes:
        title: what was analysed: the cell's first line of code, or the call.
        target: chip and compiler.
        cost: counted from the compiled module.
        module_ops: the module's scheduled instructions with their unpriced work.
        verdict: `cost` priced on `target.chip`.
        fit: memory per device, or None where the compiler tells nothing.
        measured: None where the target's devices are not here, or the inputs are shapes only.
        advice: dearest saving first; empty where nothing helps.
        notes: warnings, most important first.
        source_lines: the cell's own text, so that lines can be quoted.
    """

    title: str
    target: Target
    cost: Cost
    module_ops: tuple[OpCost, ...]
    verdict: Verdict
    fit: Fit | None = None
    measured: Measured | None = None
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    source_lines: tuple[str, ...] = field(default=(), repr=False)

    @property
    def time(self) -> Times:
        """Compute, memory, comms, lower, upper and scheduled seconds."""
        return self.verdict.times

    @property
    def bound(self) -> str:
        """What limits it, "compute", "memory" or "communication", by the bytes the module really moves."""
        return self.verdict.bound

    @property
    def intensity(self) -> float | None:
        """FLOP per scheduled byte."""
        return self.verdict.intensity

    @property
    def ridge(self) -> float | None:
        """FLOP/byte at which compute and memory time would be equal for this program."""
        return self.verdict.ridge

    @property
    def ops(self) -> tuple[Priced, ...]:
        """Scheduled instructions, dearest first."""
        return self.verdict.ops

    @property
    def lines(self) -> tuple[Priced, ...]:
        """Source lines, dearest first."""
        return self.verdict.lines

    @property
    def share_of_bound(self) -> float | None:
        """Lower bound / measured minimum: 1.0 is as fast as the chip allows. None where either is absent."""
        if self.measured is None or not self.measured.minimum or self.time.lower is None:
            return None
        return self.time.lower / self.measured.minimum

    def on(self, chip: Chip) -> RooflineReport:
        """The same module priced on another chip: a what-if without compiling again, measurement and advice
        dropped, since they belong to the chip they were made for.
        """
        fit = self.fit
        if fit is not None:
            capacity = chip.per_device().hbm_bytes
            fit = replace(fit, capacity=int(capacity.value) if capacity else None)
        target = replace(
            self.target,
            name=chip.name,
            chip=chip,
            here=False,
            stands_in=f"priced from the module that {self.target.compiler or 'another compiler'} made",
        )
        return replace(
            self,
            target=target,
            verdict=price(self.cost, self.module_ops, chip),
            fit=fit,
            measured=None,
            advice=(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts; figures that are absent are None."""
        from jaxscale_magic.report.data import report_dict

        return report_dict(self)

    def to_json(self, *, indent: int | None = 2) -> str:
        """`to_dict()` as JSON text."""
        from jaxscale_magic.report.data import report_json

        return report_json(self, indent=indent)

    def to_pandas(self, *, by: str = "op") -> pandas.DataFrame:
        """One row an instruction (`by="op"`) or a source line (`by="line"`), dearest first."""
        from jaxscale_magic.report.data import report_frame

        return report_frame(self, by=by)

    def to_html(self) -> str:
        """A self-contained fragment: verdict, bars, chart, tables, advice; no script."""
        from jaxscale_magic.report.html import report_html

        return report_html(self)

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from jaxscale_magic.report.text import report_markdown

        return report_markdown(self)

    def save(self, path: str | Path) -> Path:
        """Write the report as .html, .json, .md or .txt, or its picture as .svg, by the path's ending."""
        from jaxscale_magic.report.data import save_report

        return save_report(self, path)

    def widget(self) -> Any:
        """The interactive roofline (needs ipywidgets and bqplot)."""
        from jaxscale_magic.widgets import roofline_widget

        return roofline_widget(self)

    def __str__(self) -> str:
        from jaxscale_magic.report.text import report_text

        return report_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **kwargs: Any) -> Mapping[str, Any]:
        from jaxscale_magic.report.bundle import mimebundle

        return mimebundle(self)
