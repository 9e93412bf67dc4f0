"""A three-dimensional FFT with slabs and with pencils, verified against numpy.fft.fftn, with the time of each part.

    mpiexec -n 4 python -m mpi4py examples/fft3d.py
    mpiexec -n 4 python -m mpi4py examples/fft3d.py --shape 100 96 90 --grid 2x2 --plot fft.png

Every transposition is one plan, made once (distributed_fft.py). Sizes need not divide by the processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from distributed_fft import DistributedFFT
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, options_parser, read_words, start, timed

import pyscalapack_redist as psr

TOLERANCE = 1e-12  # of the largest value of the spectrum
WAVES = ((3, 1, 0), (0, 4, 2), (5, -5, 1))


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    shape: tuple[int, ...]
    grid: tuple[int, int]
    repeat: int
    plot: Path | None


def field(shape: tuple[int, ...]) -> Callable[..., NDArray[np.complex128]]:
    """A wave packet and three plane waves, as a function of the global indices: complex, and unlike in all dimensions."""

    def value(*index: NDArray[np.int64]) -> NDArray[np.complex128]:
        x, y, z = (2 * np.pi * i / n for i, n in zip(index, shape, strict=True))
        packet = np.exp(-2 * ((x - 2) ** 2 + (y - 3) ** 2 + (z - 1) ** 2)) * np.exp(6j * x)
        waves = sum(0.2 * np.exp(1j * (a * x + b * y + c * z)) for a, b, c in WAVES)
        return 2 * packet + waves

    return value


def default_grid(size: int) -> tuple[int, int]:
    """The most even P x Q of so many processes."""
    rows = next(p for p in range(int(size**0.5), 0, -1) if size % p == 0)
    return rows, size // rows


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("fft3d.py", __doc__)
    parser.add_argument("--shape", nargs=3, type=int, default=[96, 96, 96], metavar="N", help="default: 96 96 96")
    parser.add_argument("--grid", metavar="PxQ", help="of the pencils; default: the most even one of all ranks")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="of which the fastest counts; default: 5")
    parser.add_argument("--plot", type=Path, metavar="F.png", help="draw the times, the field and its spectrum")
    given = read_words(parser, comm, words, "there are --shape, --grid, --repeat and --plot")
    if given is None:
        return None
    grid = default_grid(comm.size)
    if given.grid is not None:
        sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", given.grid)
        grid = (int(sizes[1]), int(sizes[2])) if sizes else (0, 0)
        if grid[0] * grid[1] != comm.size:
            raise Refusal(f"--grid {given.grid}: it must be PxQ with P Q = {comm.size}, the number of ranks")
    if min(given.shape) < 1 or given.repeat < 1:
        raise Refusal(f"--shape {given.shape}, --repeat {given.repeat}: all must be at least 1")
    if given.plot is not None and find_spec("matplotlib") is None:
        raise Refusal("--plot needs matplotlib: pip install matplotlib")
    if given.plot is not None and not given.plot.absolute().parent.is_dir():
        raise Refusal(f"--plot {given.plot}: its folder does not exist")
    return Options(tuple(given.shape), grid, given.repeat, given.plot)


def measure(comm: MPI.Intracomm, fft: DistributedFFT, local: NDArray[np.complex128], repeat: int) -> dict[str, float]:
    """The least time of each part of the forward transform, in order. Collective."""
    seconds: dict[str, float] = {}
    for _ in range(repeat):
        now = local
        for part in fft.parts:
            time, now = timed(comm, lambda part=part, now=now: part(now))  # type: ignore[misc]
            seconds[part.name] = min(time, seconds.get(part.name, time))
    return seconds


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Transform with slabs and with pencils; whether all is right. Collective."""
    shape, right = options.shape, True
    value = field(shape)
    say = print if comm.rank == 0 else lambda *_, **__: None
    say(f"FFT of {' x '.join(map(str, shape))} complex128 on {comm.size} rank{'s' * (comm.size > 1)}")
    whole = value(*np.ix_(*map(np.arange, shape))) if comm.rank == 0 else None
    start = MPI.Wtime()
    expected = np.fft.fftn(whole) if whole is not None else None
    say(f"numpy.fft.fftn on one rank: {1e3 * (MPI.Wtime() - start):.3g} ms")
    seconds: dict[str, dict[str, float]] = {}
    for name, sizes in (("slabs", (comm.size,)), ("pencils", options.grid)):
        grid = psr.ProcessGrid(sizes, comm)
        way = f"{name}, {'x'.join(map(str, sizes))}"
        fft = DistributedFFT(shape, grid)
        local = fft.before.from_function(value, np.complex128)
        spectrum = fft.forward(local)
        gathered = psr.gather(fft.after, spectrum)
        back = fft.inverse(spectrum)
        apart = comm.allreduce(float(np.abs(back - local).max(initial=0)), MPI.MAX)
        wrong = 0.0
        if gathered is not None and expected is not None:
            wrong = float(np.abs(gathered - expected).max() / np.abs(expected).max())
        wrong = comm.bcast(wrong)
        right = right and wrong < TOLERANCE and apart < TOLERANCE
        seconds[way] = measure(comm, fft, local, options.repeat)
        say(
            f"\n{way}: {1e3 * sum(seconds[way].values()):.3g} ms; largest difference from numpy.fft.fftn {wrong:.1e}, ",
            end="",
        )
        say(f"after the inverse {apart:.1e}{'' if right else ': WRONG'}")
        for part, time in seconds[way].items():
            say(f"  {part:20} {1e3 * time:9.3f} ms")
    if options.plot is not None and whole is not None and expected is not None:
        from fft3d_picture import draw

        title = f"FFT of {' x '.join(map(str, shape))} complex128 on {comm.size} rank{'s' * (comm.size > 1)}"
        draw(options.plot, seconds, whole, expected, title)
    return right


if __name__ == "__main__":
    start(read_options, run)
