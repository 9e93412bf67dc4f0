"""Writes behind the end of an array on purpose: `ci/test --sanitize` must see it, or it would see nothing else either."""

from __future__ import annotations

import numpy as np

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.runs import Runs


def main() -> None:
    whole = np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([100])
    source, target = np.zeros(100, np.uint8), np.zeros(99, np.uint8)
    Box([Runs(*whole, 100, 100, 100)]).move(source.ctypes.data, (1,), target.ctypes.data, (1,), 1, (0,), 0, 100)
    print("not seen")


if __name__ == "__main__":
    main()
