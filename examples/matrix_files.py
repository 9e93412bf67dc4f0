"""Square matrices in files, of which each rank reads its own rows: .npy by memory map, Matrix Market by streaming.

The memory that a rank needs is that of its rows, whatever the size of the file. No MPI in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import mminfo  # type: ignore[import-untyped]

__all__ = ["MatrixMarketFile", "NpyFile", "open_matrix"]

ROWS_AT_ONCE = 64
LINES_AT_ONCE = 100_000
FACTORED = ("float32", "float64", "complex64", "complex128")


def open_matrix(path: Path) -> NpyFile | MatrixMarketFile:
    """Open a matrix by the ending of its name, and check what its header says.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It has another format, is not square, or holds numbers that ScaLAPACK does not factor.
    """
    if path.suffix not in (".npy", ".mtx"):
        raise ValueError(f"{path}: the name of a matrix file must end in .npy or in .mtx (Matrix Market)")
    try:
        return NpyFile(path) if path.suffix == ".npy" else MatrixMarketFile(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


class NpyFile:
    """A matrix that numpy.save wrote. Only the pages that hold the rows asked for are read."""

    solution_name = "solution"

    def __init__(self, path: Path) -> None:
        self._matrix = np.lib.format.open_memmap(path, mode="r")
        self.unknowns = _square_size(self._matrix.shape)
        self.dtype = _factored_dtype(self._matrix.dtype)
        self.title = f"A x = (1, ..., 1), A from {path}"

    def fill(self, rows: NDArray[np.int64], local: NDArray[Any]) -> Iterator[float]:
        """Write these rows of the matrix into `local`, some at a time; yield the fraction done."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            local[some] = self._matrix[rows[some]]
            yield min(1.0, (start + ROWS_AT_ONCE) / len(rows))


class MatrixMarketFile:
    """A matrix in NIST's text format: dense ("array") or sparse ("coordinate"), of real or complex numbers or a pattern.

    A text has no place where row i begins, so every rank reads all of it and keeps what lies in its rows.
    """

    solution_name = "solution"

    def __init__(self, path: Path) -> None:
        rows, columns, self._entries, self._format, self._field, self._symmetry = mminfo(path)
        self._path = path
        self.unknowns = _square_size((rows, columns))
        self.dtype = np.dtype(np.complex128 if self._field == "complex" else np.float64)
        self.title = f"A x = (1, ..., 1), A from {path}"
        if self._format == "array":
            # column by column; of a symmetric matrix only the lower triangle, of a skew one without the diagonal
            below = {"general": None, "skew-symmetric": 1}.get(self._symmetry, 0)
            columns_from = np.arange(self.unknowns)
            self._first_row = 0 * columns_from if below is None else columns_from + below
            self._column_end = np.cumsum(self.unknowns - self._first_row)
            self._entries = int(self._column_end[-1])

    def fill(self, rows: NDArray[np.int64], local: NDArray[Any]) -> Iterator[float]:
        """Write these rows of the matrix into `local`, some entries at a time; yield the fraction of the file read."""
        local[:] = 0
        local_row = np.full(self.unknowns, -1)
        local_row[rows] = np.arange(len(rows))
        for seen, i, j, values in self._stored_entries():
            mine = local_row[i] >= 0
            np.add.at(local, (local_row[i[mine]], j[mine]), values[mine])
            if self._symmetry != "general":
                mine = (local_row[j] >= 0) & (i != j)
                np.add.at(local, (local_row[j[mine]], i[mine]), self._mirrored(values[mine]))
            yield seen / self._entries

    def _mirrored(self, values: NDArray[Any]) -> NDArray[Any]:
        """What stands on the other side of the diagonal."""
        if self._symmetry == "skew-symmetric":
            return -values
        return values.conj() if self._symmetry == "hermitian" else values

    def _stored_entries(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]:
        """Batch by batch: entries seen so far, and rows, columns and values of these."""
        seen = 0
        for table in self._batches():
            before, seen = seen, seen + len(table)
            if seen > self._entries:
                raise ValueError(f"{self._path}: the file holds more than the {self._entries} entries it announces")
            if self._format == "array":
                j = np.searchsorted(self._column_end, np.arange(before, seen), side="right")
                i = self.unknowns - (self._column_end[j] - np.arange(before, seen))
            else:
                i, j = table[:, :2].T.astype(np.int64) - 1
            if min(i.min(), j.min()) < 0 or max(i.max(), j.max()) >= self.unknowns:
                raise ValueError(f"{self._path}: an entry lies outside of the {self.unknowns} x {self.unknowns} matrix")
            yield seen, i, j, self._values(table)
        if seen < self._entries:
            raise ValueError(f"{self._path}: the file ends after {seen} of {self._entries} entries")

    def _values(self, table: NDArray[np.float64]) -> NDArray[Any]:
        if self._field == "pattern":
            return np.ones(len(table))
        return table[:, -2] + 1j * table[:, -1] if self._field == "complex" else table[:, -1]

    def _batches(self) -> Iterator[NDArray[np.float64]]:
        """The numbers below the line of sizes, one row for each entry."""
        width = {"pattern": 0, "complex": 2}.get(self._field, 1) + (2 if self._format == "coordinate" else 0)
        with self._path.open(encoding="ascii", errors="replace") as file:
            lines = (line for line in file if line.strip() and not line.startswith("%"))
            next(lines)
            while batch := list(islice(lines, LINES_AT_ONCE)):
                try:
                    table = np.loadtxt(batch, ndmin=2)
                except ValueError as error:
                    raise ValueError(f"{self._path}: {error}") from error
                if table.shape[1] != width:
                    raise ValueError(f"{self._path}: a line has {table.shape[1]} numbers where {width} are due")
                yield table


def _square_size(shape: tuple[int, ...]) -> int:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"a square matrix is needed, and this array has the shape {shape}")
    return shape[0]


def _factored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to factor in: the file's own where ScaLAPACK has it, float64 for integers."""
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.name not in FACTORED:
        raise ValueError(
            f"ScaLAPACK factors {', '.join(FACTORED)}, and integers as float64, but this array is of {dtype}"
        )
    return dtype.newbyteorder("=")
