# Nothing for Python: see lane_groups.pxd.
