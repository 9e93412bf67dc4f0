"""A call that all ranks refuse for what one of them gave: its ranks raise, and nobody catches it.

Arguments: the rank that gives something else; "array" if that is a local array that does not fit, "block" if it is another
block size, and "caught" if it is the array and this rank catches its error; the seconds for which other ranks wait with theirs.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist import tracebacks

CULPRIT, HOW = int(sys.argv[1]), sys.argv[2]
tracebacks.SECONDS = float(sys.argv[3])
COMM = MPI.COMM_WORLD
a = psr.Descriptor((8, 8), 2, psr.ProcessGrid((COMM.size, 1), COMM))
b = psr.Descriptor((8, 8), 4, a.grid)
local = a.zeros()
if COMM.rank == CULPRIT and HOW == "block":
    b = psr.Descriptor((8, 8), 3, a.grid)
elif COMM.rank == CULPRIT:
    local = np.zeros((3, 3))
try:
    psr.redistribute(a, b)(local)
except psr.ArrayError:
    if HOW != "caught":
        raise
    COMM.Ibarrier().Wait()  # never over: the others end the job
