"""A loop that writes checkpoints, is killed, and goes on with another number of ranks: to the same bits.

Heat spreads over a square plate. In each step it spreads along the rows, while each rank has whole rows, and then along the
columns, while each has whole columns; a plan takes the field from one layout to the other and back. Every so many steps
`psr.save` writes the field, the step and the temperatures so far into one file. A program that finds the file goes on from it.

    mpiexec -n 4 python -m mpi4py examples/restart.py --kill-at 27
    mpiexec -n 3 python -m mpi4py examples/restart.py
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, options_parser, positive, read_words, say, start

import pyscalapack_redist as psr


def spread(field: NDArray[Any]) -> None:
    """Let heat spread along the last dimension, whose ends are kept cold. Not collective."""
    field[:, 1:-1] += 0.2 * (field[:, :-2] - 2 * field[:, 1:-1] + field[:, 2:])


class Plate:
    """The plate, in whole rows, and where its calculation is. Collective."""

    def __init__(self, comm: MPI.Intracomm, points: int, file: Path) -> None:
        self.comm, self.file = comm, file
        self.step, self.warmest = 0, np.zeros(0)
        rows = psr.zeros((points, points), comm)
        columns = psr.zeros((points, points), comm, layout="columns")
        self.field, self.columns = rows, columns
        if comm.bcast(file.exists()):
            self.go_on(points)
        else:
            self.field[points // 3 : points // 2, points // 4 : points // 2] = 100.0
        self.to_columns = psr.plan(self.field, columns)
        self.to_rows = psr.plan(columns, self.field)

    def go_on(self, points: int) -> None:
        """Take what a checkpoint has; it may be of another number of ranks."""
        saved = psr.load(self.file, self.comm)
        if saved["field"].shape != (points, points):
            raise Refusal(
                f"{self.file} is of {saved['field'].shape[0]} points, not {points}: remove it, or give --points"
            )
        self.field, self.step, self.warmest = saved["field"], saved["step"], saved["warmest"]
        say(self.comm, f"goes on at step {self.step} on {self.comm.size} ranks")

    def advance(self) -> None:
        """One step."""
        spread(self.field.local)
        self.to_columns(self.field, self.columns)
        spread(self.columns.local.T)
        self.to_rows(self.columns, self.field)
        self.step += 1
        self.warmest = np.append(self.warmest, self.field.max())

    def save(self) -> None:
        """Write a checkpoint: it is in the place of the last one when it is complete."""
        entries = {"field": self.field, "step": self.step, "warmest": self.warmest}
        psr.save(entries, self.file, attributes={"field": {"units": "K"}})


def read_options(comm: MPI.Intracomm, words: list[str]) -> argparse.Namespace | None:
    parser = options_parser("restart.py", __doc__)
    parser.add_argument("--points", type=positive, default=200, help="points along each side of the plate")
    parser.add_argument("--steps", type=positive, default=50, help="steps in all, those before a restart included")
    parser.add_argument("--every", type=positive, default=10, help="steps from checkpoint to checkpoint")
    parser.add_argument("--file", type=Path, default=Path("run"), help="a folder, or a file in .h5 or .zarr")
    parser.add_argument("--kill-at", type=positive, help="step after which rank 0 is killed")
    return read_words(parser, comm, words, "there are --points, --steps, --every, --file and --kill-at")


def run(comm: MPI.Intracomm, options: argparse.Namespace) -> bool:
    """Calculate all steps. Collective."""
    plate = Plate(comm, options.points, options.file)
    while plate.step < options.steps:
        plate.advance()
        if plate.step == options.kill_at and comm.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if plate.step % options.every == 0 or plate.step == options.steps:
            plate.save()
    say(comm, f"step {plate.step}: at most {plate.warmest[-1]:.6f} K")
    return True


if __name__ == "__main__":
    start(read_options, run)
