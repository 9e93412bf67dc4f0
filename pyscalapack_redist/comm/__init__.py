"""Who communicates: groups of processes, what they agree on, the memory that a node shares, and progress."""
