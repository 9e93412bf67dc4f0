"""`pyscalapack-redist show`: a layout in the colours of its processes, in a terminal or as a picture. Needs no MPI."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..drawing.svg import colour_of, ink_on
from ..errors import DescriptorError
from .arguments import UsageError, check_outputs, written
from .text import console, count_text, on_terminal, print_line

if TYPE_CHECKING:
    from rich.text import Text

    from ..drawing.svg import DrawnPanel
    from ..layout.descriptor import Descriptor

MOST_PANELS, MOST_ROWS = 8, 40
WIDTH_OF_FILES = 160
MOST_PROCESSES = 10**7  # their ranks are listed
MARGIN = 12  # for the index in front of a row


def show(options: Namespace) -> int:
    """Show who owns which block of an array.

    Parameters
    ----------
    options : Namespace
        The command line: layout, shape, plot.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    UsageError
        An argument is wrong.
    """
    shape = tuple(options.shape)
    misfit = options.layout.misfit(shape)
    if misfit is not None:
        raise UsageError(f"--shape, LAYOUT: {misfit}")
    if options.layout.size > MOST_PROCESSES:
        raise UsageError(
            f"LAYOUT: {options.layout} has {options.layout.size} processes: show takes {MOST_PROCESSES} at most"
        )
    check_outputs(options, "show")
    try:
        desc = options.layout.descriptor(shape, None)
    except DescriptorError as error:
        raise UsageError(f"--shape, LAYOUT: {error}") from None
    if options.plot:  # before anything is printed: the reader may close the pipe
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 7), layout="constrained")
        desc.plot(figure.subplots())
        with written("--plot", options.plot):
            figure.savefig(options.plot, dpi=150)
    out = console()
    for line in _lines(desc):
        print_line(out, line)
    return 0


def _lines(desc: Descriptor) -> Iterator[str | Text]:
    yield desc._title()
    width = shutil.get_terminal_size().columns if on_terminal() else WIDTH_OF_FILES
    colours = on_terminal() or bool(os.environ.get("FORCE_COLOR"))
    digits = len(str(int(desc.placement.max())))
    if not colours:  # the header has the first column of each block
        digits = max(digits, len(str(_columns(desc, width))))
    cell = digits + 2
    across = max(1, (width - MARGIN) // cell)
    region = desc._region(across * MOST_ROWS, across if desc.ndim == 1 else min(across, MOST_ROWS))
    left_out = desc._left_out(region)
    if left_out:
        yield left_out
    if not colours:
        yield "the rank that owns each block, beside the block's first row and below its first column"
    for panel in desc._panels(region, MOST_PANELS):
        if panel.title:
            yield panel.title
        if not colours:
            yield " " * MARGIN + "".join(f"{column:^{cell}}" for column in panel.columns[:-1].tolist())
        yield from _rows(panel, cell)
        if panel.left_out:
            yield f"and {count_text(panel.left_out, 'more panel')}"


def _columns(desc: Descriptor, width: int) -> int:
    """Bound of the columns in a picture of so many characters: each block has three at least."""
    axis = desc.distributions[min(1, desc.ndim - 1)]
    return int(axis.block_edges(width // 3)[-1])


def _rows(panel: DrawnPanel, cell: int) -> Iterator[Text]:
    """A line for each row of blocks, with the index of the first row of elements in front."""
    from rich.text import Text

    for i, row in enumerate(panel.ranks.tolist()):
        line = Text(f"{panel.rows[i]:>{MARGIN - 2}}  ")
        for rank in row:
            colour = colour_of(rank)
            line.append(f"{rank:^{cell}}", style=f"{ink_on(colour)} on {colour}")
        yield line
