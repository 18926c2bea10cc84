"""The errors a person sees. Each is one sentence that names the thing, the place and what to write instead.

Nothing is caught here: rooms raise these, `magics.py` shows them; the box in a notebook is in `report/error_box.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class JaxscaleError(Exception):
    """Anything this package refuses, with a sentence that says what would be right."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the sentence, without a traceback through this package."""
        return [f"{type(self).__name__}: {self}"]


class CellError(JaxscaleError):
    """Code that cannot be analysed: a notebook cell, a `%roofline` line or a call.

    Attributes:
        reason: what is wrong, one sentence.
        advice: what to write instead, one sentence; may be empty.
        line: the line as the notebook counts it (a cell magic's own is line 1), or None.
        text: that line's source, or "".
        boxed: a notebook already shows the line and the advice (`report.error_box.show_error`), so that the
            traceback need not.
    """

    def __init__(self, reason: str, *, advice: str = "", line: int | None = None, text: str = "") -> None:
        self.reason = reason
        self.advice = advice
        self.line = line
        self.text = text.strip()
        self.boxed = False
        where, quoted = self.where, f"`{self.text}`" if self.text else ""
        place = f"{where} ({quoted})" if where and quoted else where or quoted
        super().__init__((f"{place}: " if place else "") + reason + (f" {advice}" if advice else ""))

    @property
    def where(self) -> str:
        """As in "line 3"; empty where there is no cell to count in: code behind `%roofline` is line 1."""
        return f"line {self.line}" if self.line is not None and self.line > 1 else ""

    def _render_traceback_(self) -> list[str]:
        """At most three lines: where and the code, what is wrong, what to write instead."""
        name = type(self).__name__ + (f", {self.where}" if self.where else "")
        if self.boxed or not self.text:
            return [f"{name}: {self.reason}", *([] if self.boxed or not self.advice else [f"  {self.advice}"])]
        return [f"{name}: {_short(self.text)}", f"  {self.reason}", *([f"  {self.advice}"] if self.advice else [])]


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


class ChipError(JaxscaleError):
    """An unknown chip, or a figure that its record does not hold."""


class TargetError(JaxscaleError):
    """A target that does not exist or cannot be compiled for here."""


class ModuleError(JaxscaleError):
    """A compiled module that cannot be read."""


def nearest(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known names closest in spelling to `name`, best first."""
    return difflib.get_close_matches(name.lower(), list(known), n=limit, cutoff=0.4)
