# Nothing for Python: see lanes.pxd.
