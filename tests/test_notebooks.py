"""The demo notebooks run from top to bottom, and what they print is right."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

FOLDER = Path(__file__).parent.parent / "demo_notebooks"


@pytest.fixture(scope="module")
def executed():
    notebook = nbformat.read(FOLDER / "01_roofline.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", store_widget_state=False, resources={"metadata": {"path": FOLDER}}
    )
    client.execute()
    return notebook


def texts(notebook):
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            yield output.get("text") or output.get("data", {}).get("text/plain", "")


def test_the_roofline_notebook_runs(executed):
    shown = "\n".join(texts(executed))
    assert "COMPUTE-BOUND ON" in shown
    assert "MEMORY-BOUND ON TPU V5E" in shown
    # D = F = 8192 on a v5e: 255.2 by hand, so 256 is the first batch that is compute-bound.
    assert "(x's rows) = 256 on" in shown
    assert "255.2" in shown
    # Twice the bandwidth brings the ridge to 120: (2DF/W) / (2DF/C - (2D+2F)/W) = 123.8
    assert "= 124" in shown
    assert "compute-bound" in shown.lower()


def test_both_views_and_all_renderings_are_there(executed):
    reports = [o.data for c in executed.cells for o in c.get("outputs", ()) if "text/html" in o.get("data", {})]
    assert len(reports) == 2
    for data in reports:
        assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(data)


def test_it_reads_as_a_page_without_a_kernel(executed):
    page, _ = HTMLExporter(exclude_output_prompt=True).from_notebook_node(executed)
    assert "Memory-bound on TPU v5e" in page
    assert page.count('role="img"') >= 4


def test_the_committed_notebook_is_executed_and_clean():
    notebook = nbformat.read(FOLDER / "01_roofline.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count is not None for cell in code)
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
