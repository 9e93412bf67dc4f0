"""`pyscalapack-redist show`: the owners of the blocks, in a terminal's colours, in a file, and as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist.drawing.colours import colour_of
from pyscalapack_redist.tools import cli
from pyscalapack_redist.tools.layouts import Layout


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("2x3:2x2@1,0", (10, 12)),
        ("2x3:balanced+4", (7, 9)),
        ("5:3", (40,)),
        ("2x2:4x4/50x40@19,3", (14, 30)),
        ("2x2x2:1x1x2", (3, 3, 4)),
        ("1x1:9x9", (3, 3)),
    ],
)
def test_lines_have_the_rank_of_every_block(
    capsys: pytest.CaptureFixture[str], layout: str, shape: tuple[int, ...]
) -> None:
    assert cli.run(["show", layout, "--shape", "x".join(map(str, shape))]) == 0
    joined = capsys.readouterr().out
    assert cli.run(["show", layout, "--shape", *map(str, shape)]) == 0
    said = capsys.readouterr().out
    assert said == joined
    title, *lines = said.splitlines()
    assert title.startswith(" x ".join(map(str, shape)))
    desc = Layout.parse_operand(layout).descriptor(shape, None)
    ranks = np.atleast_2d(desc.owner_map(blocks=True))
    rows = [list(map(int, line.split())) for line in lines if not line.startswith("[")]
    panels = [ranks] if ranks.ndim == 2 else [ranks[..., k] for k in range(ranks.shape[2])]
    assert [row[1:] for row in rows] == [row for panel in panels for row in panel.tolist()]
    if len(shape) > 1:
        assert [row[0] for row in rows] == desc.block_edges(0)[:-1].tolist() * len(panels)


def test_large_arrays_fit_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "8x8:64x64", "--shape", "1000000", "1000000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"the first \d+ x \d+ of 1000000 x 1000000 elements", lines[1])
    assert len(lines) < 60
    assert max(map(len, lines)) <= 160


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from pyscalapack_redist.tools import show

    monkeypatch.setattr(show, "console", lambda: Console(force_terminal=True, color_system="truecolor", width=80))
    monkeypatch.setattr(show, "on_terminal", lambda: True)
    assert cli.run(["show", "1x3:2x2", "--shape", "2", "6"]) == 0
    out = capsys.readouterr().out
    for rank in range(3):
        red, green, blue = (int(colour_of(rank)[k : k + 2], 16) for k in (1, 3, 5))
        assert re.search(rf"48;2;{red};{green};{blue}m {rank} ", out)


def test_a_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "layout.png"
    assert cli.run(["show", "2x3:2x2", "--shape", "9", "9", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()


def test_more_processes_than_can_be_listed_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "1000000000x1000000000:8x8", "--shape", "100", "100"]) == 2
    assert "has 1000000000000000000 processes: show takes 10000000 at most" in capsys.readouterr().err
