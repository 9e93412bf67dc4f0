"""Files that the ranks of a node share: nothing is left of one that cannot be made, and the error says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from pyscalapack_redist.comm import node

resource = pytest.importorskip("resource")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc lists what is open")
@pytest.mark.parametrize(
    ("make", "text"),
    [(node._memory_file, "memfd_create: File too large"), (node._shm_file, "File too large: raise the limit .*ulimit -f")],
)
def test_a_limit_of_file_sizes(make: Callable[[int, ExitStack], object], text: str) -> None:
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), (os.listdir("/proc/self/fd"), os.listdir(node.SHARED_FOLDER))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with ExitStack() as at_end, pytest.raises(OSError, match=text):
            make(10_000, at_end)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(os.listdir("/proc/self/fd")) == len(before[0])
    mine = [name for name in os.listdir(node.SHARED_FOLDER) if name not in before[1]]
    assert not [name for name in mine if name.startswith("pyscalapack_redist")]
