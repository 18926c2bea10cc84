"""The errors a person sees. Each is one sentence that names the thing, the place and what to write instead.

Nothing is caught here: rooms raise these, `magics.py` shows them.
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
    """A notebook cell that cannot be analysed.

    Attributes:
        reason: what is wrong, one sentence.
        advice: what to write instead, one sentence; may be empty.
        line: the line as the notebook counts it (the magic's own is line 1), or None.
        text: that line's source, or "".
    """

    def __init__(self, reason: str, *, advice: str = "", line: int | None = None, text: str = "") -> None:
        self.reason = reason
        self.advice = advice
        self.line = line
        self.text = text.strip()
        where = f"line {line}" if line is not None else "this cell"
        quoted = f" (`{self.text}`)" if self.text else ""
        super().__init__(f"{where}{quoted}: {reason}" + (f" {advice}" if advice else ""))


class ChipError(JaxscaleError):
    """An unknown chip, or a figure that its record does not hold."""


class TargetError(JaxscaleError):
    """A target that does not exist or cannot be compiled for here."""


class ModuleError(JaxscaleError):
    """A compiled module that cannot be read."""


def nearest(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """The known names closest in spelling to `name`, best first."""
    return difflib.get_close_matches(name.lower(), list(known), n=limit, cutoff=0.4)
