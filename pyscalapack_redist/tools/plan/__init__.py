"""`pyscalapack-redist plan`: a redistribution studied on paper, for machines of any size and without MPI."""
