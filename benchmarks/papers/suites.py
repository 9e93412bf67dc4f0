"""The papers' suites by name."""

from __future__ import annotations

from dataclasses import replace

from pyscalapack_redist.tools.bench.suites import Suite

from .birkeland import BIRKELAND, BIRKELAND_LINKS
from .birkeland_figure import plot_sizes as plot_sweeps
from .birkeland_projection import BIRKELAND_PROJECTION
from .curves import plot_factors, plot_sizes
from .desprez import DESPREZ
from .desprez_packing import DESPREZ_PACKING
from .overlap import OVERLAP
from .walker_otto import WALKER_OTTO, WALKER_OTTO_LINKS

__all__ = ["PAPERS"]

PAPERS: dict[str, Suite] = {
    "overlap": OVERLAP,
    "walker-otto": replace(WALKER_OTTO, plot=plot_factors),
    "walker-otto-links": replace(WALKER_OTTO_LINKS, plot=plot_factors),
    "desprez": replace(DESPREZ, plot=plot_sizes),
    "desprez-packing": DESPREZ_PACKING,
    "birkeland": replace(BIRKELAND, plot=plot_sweeps),
    "birkeland-links": replace(BIRKELAND_LINKS, plot=plot_sweeps),
    "birkeland-projection": BIRKELAND_PROJECTION,
}
