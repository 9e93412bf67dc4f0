"""Pictures of layouts and plans: what matplotlib and a notebook are given, against the owners of the blocks."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest

from pyscalapack_redist import Blocks, Descriptor, LibraryError, ProcessGrid, redistribute
from pyscalapack_redist.drawing.svg import colour_of

pyplot = pytest.importorskip("matplotlib.pyplot")

GRID = ProcessGrid((2, 3), ranks=[[4, 0, 2], [1, 5, 9]])
MATRIX = Descriptor((10, 12), (2, 3), GRID, source=(1, 2))
LAYOUTS = {
    "one dimension": Descriptor((30,), (4,), ProcessGrid((5,))),
    "irregular": Descriptor((20, 20), (Blocks([3, 10, 7], [1, 0, 1]), "balanced"), GRID),
    "sub-array": Descriptor((50, 40), (7, 7), GRID)[19:33, 3:33],
    "transpose": Descriptor((12, 10), (3, 2), GRID).T,
    "axes": Descriptor((10, 12), (2, 3), GRID, axes=(1, 0)),
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def without_screen() -> Iterator[None]:
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def cells(html: str) -> dict[str | None, str | None]:
    return {row[0].text: row[1].text for row in ElementTree.fromstring(html).iter("tr")}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_block_has_the_number_and_the_colour_of_its_rank(name: str) -> None:
    desc = LAYOUTS[name]
    ax, html = desc.plot(), desc._repr_html_()
    ranks = np.atleast_2d(desc.owner_map(blocks=True))
    assert [text.get_text() for text in ax.texts] == [str(rank) for rank in ranks.flat]
    (mesh,) = ax.collections
    colours = np.round(255 * np.asarray(mesh.get_array()).reshape(-1, 3)).astype(int)
    assert ["#" + "".join(f"{part:02x}" for part in colour) for colour in colours] == [*map(colour_of, ranks.flat)]
    coordinates = np.asarray(mesh._coordinates)
    assert coordinates[0, :, 0].tolist() == desc.block_edges(desc.ndim - 1).tolist()
    assert desc.ndim == 1 or coordinates[:, 0, 1].tolist() == desc.block_edges(0).tolist()
    assert desc.ndim == 1 or ax.get_ylim() == (desc.shape[0], 0)
    assert cells(html)["shape"] == " x ".join(map(str, desc.shape))
    assert cells(html)["grid"] == repr(desc.grid)
    drawn = list(ElementTree.fromstring(html).iter(f"{SVG}rect"))
    assert [rect[0].text for rect in drawn] == [f"rank {rank}" for rank in ranks.flat]
    assert [rect.get("fill") for rect in drawn] == [*map(colour_of, ranks.flat)]


def test_more_dimensions_are_panels_and_given_axes_are_used() -> None:
    desc = Descriptor((12, 9, 8), (2, 3, 2), ProcessGrid((2, 1, 2)))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 6))
    assert desc.plot(left) is left
    assert MATRIX.plot(ax=right) is right
    assert not left.axison
    blocks = desc.owner_map(blocks=True)
    assert [panel.get_title() for panel in left.child_axes] == [f"[:, :, {k}:{k + 2}]" for k in range(0, 8, 2)]
    for k, panel in enumerate(left.child_axes):
        assert [text.get_text() for text in panel.texts] == [str(rank) for rank in blocks[:, :, k].flat]
    assert pyplot.get_fignums() == [figure.number]


def test_what_is_left_out_is_said() -> None:
    large = Descriptor((10**6, 10**6), (64, 64), ProcessGrid((32, 32)))
    assert re.search(r"the first \d+ x \d+ of 1000000 x 1000000 elements", large.plot().get_title())
    many = Descriptor((4, 4, 100), (2, 2, 1), ProcessGrid((2, 2, 1)))
    assert re.search(r"and \d+ more panels", many.plot().get_title())
    assert "the first" not in MATRIX.plot().get_title()
    empty = Descriptor((0, 5), (2, 2), GRID)
    assert [text.get_text() for text in empty.plot().texts] == ["no elements"]
    assert "no elements" in empty._repr_html_()
    thin = Descriptor((1024, 300), None, ProcessGrid((64, 1))).plot()
    assert not thin.texts
    assert [text.get_text() for text in thin.get_legend().get_texts()] == [str(rank) for rank in range(64)]
    assert len({colour_of(rank) for rank in range(64)}) == 64
    a, b = (Descriptor((10**6, 10**6), block, ProcessGrid((64, 64))) for block in (None, 64))
    before, after, traffic = redistribute(a, b).plot().axes[:3]
    assert (before.get_xlim(), before.get_ylim()) == (after.get_xlim(), after.get_ylim())
    assert "too many for a table" in traffic.texts[0].get_text()
    html = Descriptor((99, 99, 99, 99), (1, 2, 3, 4), ProcessGrid((2, 2, 2, 2)))._repr_html_()
    assert ElementTree.fromstring(html)
    assert len(html) < 200_000
    assert "the first" in html


def test_a_plan_is_drawn_before_and_after_with_its_traffic() -> None:
    b = Descriptor((12, 10), (5, 4), ProcessGrid((1, 3), ranks=[[9, 7, 0]]))
    figure = redistribute(MATRIX, b, op="T").plot()
    before, after, traffic = figure.axes[:3]
    for ax, desc in ((before, MATRIX), (after, b)):
        assert [text.get_text() for text in ax.texts] == [str(rank) for rank in desc.owner_map(blocks=True).flat]
    assert before.get_title().startswith("before: 10 x 12")
    assert after.get_title().startswith("after: 12 x 10")
    ranks = [0, 1, 2, 4, 5, 7, 9]
    expected = np.zeros((7, 7), int)
    for p, q in zip(MATRIX.owner_map().T.flat, b.owner_map().flat, strict=True):
        expected[ranks.index(p), ranks.index(q)] += 1
    assert np.array_equal(np.ma.filled(traffic.images[0].get_array(), 0), expected)
    figure.canvas.draw()
    labels = [label.get_text() for label in traffic.get_xticklabels() if label.get_text()]
    assert set(map(int, labels)) <= {*ranks}


def test_plans_and_reports_have_html() -> None:
    b = Descriptor((10, 12), (5, 4), ProcessGrid((1, 3)))
    plan = redistribute(MATRIX, b, via="lcm")
    html = plan._repr_html_()
    assert (cells(html)["from"], cells(html)["legs"]) == (repr(MATRIX), "2")
    drawn = [rect[0].text for rect in ElementTree.fromstring(html).iter(f"{SVG}rect")]
    assert drawn == [f"rank {rank}" for desc in (MATRIX, b) for rank in desc.owner_map(blocks=True).flat]
    filled = redistribute(LAYOUTS["irregular"], LAYOUTS["irregular"], uplo="U", fill="symmetric")
    for some, names in ((plan, ["leg 0", "leg 1", "direct"]), (filled, ["the trapezoid", "its mirror image"])):
        report = some.report()
        assert cells(report._repr_html_()) == dict(report._rows())
        assert [name for name, _ in report._rows()][-len(report.legs) - (report.direct is not None) :] == names


def test_a_plan_shows_every_rank_that_fits_and_amounts_that_fit() -> None:
    """Blocks of 64 have no room for numbers, but the last of four columns is in the picture."""
    a = Descriptor((5000, 3000), (64, 64), ProcessGrid((2, 2)))
    plan = redistribute(a, Descriptor((5000, 3000), None, ProcessGrid((1, 4))))
    before, after, traffic = plan.plot().axes[:3]
    assert [text.get_text() for text in after.texts] == ["0", "1", "2", "3"]
    assert len(before.get_legend().texts) == 4
    assert "the first" not in before.get_title()
    amounts = [text.get_text() for text in traffic.texts]
    assert len(amounts) == 16
    assert all(re.fullmatch(r"9\d\dk", amount) for amount in amounts)
    shape = 6000, 6000
    many = redistribute(Descriptor(shape, 9, ProcessGrid((30, 1))), Descriptor(shape, 9, ProcessGrid((1, 30))))
    assert not many.plot().axes[2].texts  # cells are too small


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LibraryError, match="pip install"):
        MATRIX.plot()


CELLS = [
    "import pyscalapack_redist as psr\ndesc = psr.Descriptor((10, 12), (2, 2), psr.ProcessGrid((2, 3)))\ndesc",
    "plan = psr.redistribute(desc, psr.Descriptor((10, 12), None, psr.ProcessGrid((6, 1))))\nplan",
    "plan.report()",
    "%matplotlib inline\nplan.plot();",
]


@pytest.mark.long
def test_a_notebook_shows_tables_and_pictures() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    layout, plan, report, picture = (cell["outputs"][-1]["data"] for cell in notebook.cells)
    assert layout["text/html"].count("<rect") == 30
    assert plan["text/html"].count("<svg") == 2
    assert "imbalance" in report["text/html"]
    assert "between ranks" in report["text/plain"] or "Report(" in report["text/plain"]
    assert picture["image/png"]
