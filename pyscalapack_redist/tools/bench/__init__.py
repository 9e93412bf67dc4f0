"""The comparison benchmark: methods of redistribution against each other, and against memcpy and ScaLAPACK."""
