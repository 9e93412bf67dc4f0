"""The experiments of the papers, with the options of `pyscalapack-redist bench`.

mpiexec -n 8 python -m mpi4py benchmarks/run_papers.py --suite walker-otto --plot walker-otto.png
python benchmarks/run_papers.py --suite aspen --quick

The suites are walker-otto, desprez, birkeland and overlap, under mpiexec, and aspen, which needs no MPI.
"""

import sys

from papers.aspen import bench_aspen
from papers.suites import PAPERS

from pyscalapack_redist.tools.bench.suites import STUDIES, SUITES
from pyscalapack_redist.tools.cli import main

SUITES.update(PAPERS)
STUDIES["aspen"] = bench_aspen

if __name__ == "__main__":
    sys.argv[1:1] = ["bench"]
    main()
