"""Run the demo notebooks and keep their outputs, so that they read on GitHub.

    python demo_notebooks/execute.py

The interactive views are left out of the kept copies: without a kernel, the static rendering is what shows.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
VIEW = "application/vnd.jupyter.widget-view+json"


def execute(path: Path) -> nbformat.NotebookNode:
    """Run one notebook from top to bottom; returns it with its outputs, views left out.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(VIEW, None)
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(path), path)
        print(path.name)
