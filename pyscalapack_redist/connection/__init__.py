"""Two MPI jobs that redistribute to each other."""
