"""The interactive views (ipywidgets and bqplot) of a report. Installed as `jaxscale_magic.widgets`.

Nothing that draws is imported until a view is asked for; no arithmetic of the model lives here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxscale_magic.report.record import RooflineReport

__all__ = ["roofline_widget"]


def roofline_widget(report: RooflineReport) -> Any:
    """The interactive roofline of `report`: chart, chip chooser and the full report, as one widget."""
    from jaxscale_magic.widgets.roofline_view import RooflineView

    return RooflineView(report).box
