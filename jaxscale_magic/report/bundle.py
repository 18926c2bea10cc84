"""What a notebook gets of a report: text and HTML always, the interactive view where a front end can show one."""

from __future__ import annotations

import sys
from typing import Any

from jaxscale_magic.report.html import report_html
from jaxscale_magic.report.record import RooflineReport
from jaxscale_magic.report.text import report_text


def mimebundle(report: RooflineReport) -> dict[str, Any]:
    """MIME type -> rendering. A front end shows the richest that it knows; without a kernel that is the HTML."""
    bundle: dict[str, Any] = {"text/plain": report_text(report)}
    remark = ""
    if has_kernel():
        try:
            bundle |= _widget_bundle(report)
        except ImportError as error:
            remark = f"The interactive view cannot be shown: {error}."
    bundle["text/html"] = report_html(report, remark=remark)
    return bundle


def has_kernel() -> bool:
    """Whether a Jupyter kernel runs here, without importing IPython for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _widget_bundle(report: RooflineReport) -> dict[str, Any]:
    from jaxscale_magic.widgets import roofline_widget

    bundle = roofline_widget(report)._repr_mimebundle_()
    return {kind: data for kind, data in bundle.items() if kind not in ("text/plain", "text/html")}
