"""Another program, with all but the smallest moves shared among the threads that the environment asks for.

Arguments: that program's name, and its own.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pool_threads import TASKS, pool_threads

from pyscalapack_redist._kernels import threads as pool
from pyscalapack_redist.exchanges import exchange as threads

FLOOR = 32  # bytes for each thread


def main() -> None:
    threads.prepare()
    assert pool.used() == threads.read_thread_count() > 1, pool.used()
    pool.use(pool.used(), FLOOR)
    sys.argv = sys.argv[1:]
    runpy.run_path(str(Path(__file__).parent / sys.argv[0]), run_name="__main__")
    if TASKS.exists():
        pool_threads(pool.used() - 1)  # a move was shared


if __name__ == "__main__":
    main()
