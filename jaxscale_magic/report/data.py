"""Reports as plain data: dict, JSON, pandas, and files of every kind."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxscale_magic.errors import JaxscaleError
from jaxscale_magic.report.escaping import plain
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.roofline import Priced

if TYPE_CHECKING:
    import pandas


def report_dict(report: RooflineReport) -> dict[str, Any]:
    """Plain numbers, strings, lists and dicts; figures that are absent are None."""
    cost = report.cost
    data = {
        "title": report.title,
        "bound": report.bound,
        "target": {
            "name": report.target.name,
            "chip": report.target.chip.title,
            "devices": report.target.devices,
            "compiler": report.target.compiler,
            "stands_in": report.target.stands_in,
        },
        "time": _plain(report.time),
        "intensity": report.intensity,
        "ridge": report.ridge,
        "cost": {
            "flops": dict(cost.flops),
            "vector_flops": cost.vector_flops,
            "transcendentals": cost.work.transcendentals,
            "hbm_bytes": cost.hbm_bytes,
            "min_hbm_bytes": cost.min_hbm_bytes,
            "collectives": _plain(cost.collectives),
            "unmodelled": _plain(cost.unmodelled),
        },
        "fit": None if report.fit is None else {**_plain(report.fit), "fits": report.fit.fits},
        "measured": _plain(report.measured),
        "share_of_bound": report.share_of_bound,
        "lines": [_row(line) for line in report.lines],
        "ops": [_row(op) for op in report.ops],
        "advice": _plain(report.advice),
        "notes": [*report.notes, *report.verdict.notes],
    }
    finite: dict[str, Any] = _plain(data)
    return finite


def _row(priced: Priced) -> dict[str, Any]:
    work = priced.work
    return {
        "label": priced.label,
        "file": priced.source.file if priced.source else None,
        "line": priced.source.line if priced.source else None,
        "count": priced.count,
        "flops": work.matrix_flops,
        "vector_flops": work.vector_flops,
        "hbm_bytes": work.hbm_bytes,
        "compute": priced.compute,
        "memory": priced.memory,
        "time": priced.time,
        "share": priced.share,
        "bound": priced.bound,
        "intensity": priced.intensity,
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def report_json(report: RooflineReport, *, indent: int | None = 2) -> str:
    """`report_dict` as JSON text that any reader of JSON takes."""
    return json.dumps(report_dict(report), indent=indent, allow_nan=False)


def report_frame(report: RooflineReport, *, by: str = "op") -> pandas.DataFrame:
    """One row an instruction (`by="op"`) or a source line (`by="line"`), dearest first.

    Raises:
        JaxscaleError: pandas is missing, or `by` is neither.
    """
    rows = {"op": report.ops, "line": report.lines}
    if by not in rows:
        raise JaxscaleError(f"to_pandas(by={by!r}): write by='op' or by='line'.")
    try:
        import pandas as pd
    except ImportError as error:
        raise JaxscaleError("to_pandas() needs pandas: pip install pandas.") from error
    return pd.DataFrame([_row(priced) for priced in rows[by]])


def _page(report: RooflineReport) -> str:
    from jaxscale_magic.report.html import report_page

    return report_page(report)


def _picture(report: RooflineReport) -> str:
    from jaxscale_magic.report.picture import chart
    from jaxscale_magic.report.svg import chart_file

    drawn = chart(report)
    if drawn is None:
        raise JaxscaleError(
            "there is no picture to save: the roofline needs both FLOPs and bytes. Save the report as .html or .txt."
        )
    return chart_file(drawn)


#: File ending -> what is written.
WRITERS: dict[str, Callable[[RooflineReport], str]] = {
    ".html": _page,
    ".json": report_json,
    ".md": lambda report: report.to_markdown(),
    ".txt": lambda report: str(report) + "\n",
    ".svg": _picture,
}


def save_report(report: RooflineReport, path: str | Path) -> Path:
    """Write a report in the form that the path's ending names; a file that was there is replaced whole.

    Raises:
        JaxscaleError: an ending without a form, or a place that cannot be written.
    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise JaxscaleError(f"{path.name}: the ending decides the form; it can be {', '.join(WRITERS)}.")
    text = writer(report)
    temporary = path.parent / f".{secrets.token_hex(8)}{path.suffix}"
    try:
        try:
            with open(temporary, "x", encoding="utf-8", errors="replace") as file:
                file.write(text)
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise JaxscaleError(f"the report cannot be written to {plain(str(path), limit=1000)}: {reason}.") from error
    return path
