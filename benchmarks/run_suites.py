"""Suites that are not installed, with the options of `pyscalapack-redist bench`, whose own suites are there as well.

mpiexec -n 8 python -m mpi4py benchmarks/run_suites.py --suite walker-otto --plot walker-otto.png
python benchmarks/run_suites.py --suite aspen --quick

The papers' experiments are walker-otto, walker-otto-links, desprez, desprez-packing, birkeland, birkeland-links,
birkeland-projection, under mpiexec, and aspen, which needs no MPI. In blocks, ranks and dtypes one thing varies.
"""

import sys

from papers import aspen
from papers.birkeland import BIRKELAND, BIRKELAND_LINKS
from papers.birkeland_projection import BIRKELAND_PROJECTION
from papers.desprez import DESPREZ, DESPREZ_PACKING
from papers.walker_otto import WALKER_OTTO, WALKER_OTTO_LINKS
from variations import VARIATIONS

from pyscalapack_redist.tools.bench.suites import SUITES
from pyscalapack_redist.tools.cli import main

PAPERS = {
    "walker-otto": WALKER_OTTO,
    "walker-otto-links": WALKER_OTTO_LINKS,
    "desprez": DESPREZ,
    "desprez-packing": DESPREZ_PACKING,
    "birkeland": BIRKELAND,
    "birkeland-links": BIRKELAND_LINKS,
    "birkeland-projection": BIRKELAND_PROJECTION,
}
SUITES.update(PAPERS | VARIATIONS)
ASPEN = ["--suite", "aspen"]

if __name__ == "__main__":
    if sys.argv[1:3] == ASPEN:  # it moves nothing, and has options of its own
        sys.exit(aspen.main(sys.argv[3:]))
    sys.argv[1:1] = ["bench"]
    main()
