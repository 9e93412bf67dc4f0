"""Layouts, plans and reports in a notebook that is really run: what its cells show."""

from __future__ import annotations

import sys

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = [
    "import pyscalapack_redist as psr\nsquare = psr.ProcessGrid((2, 3))\n"
    "desc = psr.Descriptor((10, 12), (2, 2), square)\ndesc",
    "rows = psr.Descriptor((10, 12), None, psr.ProcessGrid((6, 1)))\nplan = psr.redistribute(desc, rows)\nplan",
    "plan.report()",
    "%matplotlib inline\nplan.plot();",
]


def test_a_notebook_shows_tables_and_pictures() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    layout, plan, report, picture = (cell["outputs"][-1]["data"] for cell in notebook.cells)
    assert layout["text/html"].count("<rect") == 30
    assert plan["text/html"].count("<svg") == 2
    assert "imbalance" in report["text/html"]
    assert "between ranks" in report["text/plain"] or "Totals(" in report["text/plain"]
    assert picture["image/png"]
