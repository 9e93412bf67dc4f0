"""Least sizes of workspaces, by the formulas of the routines' documentation, in integers that do not overflow.

The libraries answer queries in 32 bits. A size beyond has wrapped there: the answer is negative, or too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ArrayError, DescriptorError
from ..layout.axis import BlockCyclic
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from .matrix_operands import LIMIT

Sizes = dict[str, int]  # by the names of workspaces: work, rwork for complex numbers, iwork
USUAL_BLOCK, SIDES = 64, range(1, 65)  # of grids that an error names
FEW_VECTORS = ", or compute at most 15 % of the eigenvectors, by linalg.eigh(..., subset_by_index=), or no vectors"
NO_VECTORS = ", or compute no vectors"
OTHER_WAYS = {"syevd": FEW_VECTORS, "stedc": FEW_VECTORS, "gesvd": NO_VECTORS, "gesdd": NO_VECTORS}  # which need less


# -- of ScaLAPACK


class CallArguments(NamedTuple):
    """What the formulas need to know of a call."""

    kind: str  # the letter of the dtype
    arguments: Mapping[str, Any]  # layouts and letters, by the names of the Python function

    @property
    def desc(self) -> Descriptor:
        """The layout of the matrix that is decomposed, or has the reflectors."""
        desc: Descriptor = self.arguments["desc"]
        return desc

    @property
    def other(self) -> Descriptor:
        """The layout of the matrix that is multiplied, or of the right-hand sides."""
        desc: Descriptor = self.arguments["desc_b"] if "desc_b" in self.arguments else self.arguments["desc_c"]
        return desc

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are."""
        return self.kind in "cz"

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """Rows and columns of the matrix, the block size, and rows and columns on process (0, 0), which has the most."""
        return *self.desc.shape, int(self.desc.block[0]), *_most(self.desc)  # type: ignore[return-value]


def _most(desc: Descriptor) -> tuple[int, int]:
    rows, columns = desc.local_shape_of((0, 0))
    return rows, columns


def _part(size: int, block: int, processes: int) -> int:
    """The indices of process 0."""
    return int(BlockCyclic(size, block, processes).local_size(0))


def _apply(block: int, lines: int) -> int:
    """For block reflectors, applied to a matrix of so many local rows and columns together."""
    return max(block * (block - 1) // 2, lines * block) + block * block


def _multiply(call: CallArguments, side: str = "L", vect: str = "Q") -> int:
    """For p?ormqr, p?ormbr and p?ormtr: reflectors in columns are along C's rows, and those in rows along its columns."""
    block, shape, processes, parts = int(call.desc.block[0]), call.other.shape, call.desc.grid.shape, _most(call.other)
    if (side == "L") == (vect == "Q"):
        return _apply(block, sum(parts))
    along = "LR".index(side)
    own = _part(shape[along], block, processes[along])
    turned = _part(own, block, math.lcm(*processes) // processes[along])
    across = _part(shape[along], block, processes[1 - along])
    return _apply(block, parts[along] + max(across + turned, parts[1 - along]))


def _factor(call: CallArguments) -> int:
    """For p?geqrf and p?orgqr."""
    _, _, block, rows, columns = call.sizes
    return block * (rows + columns + block)


def _geqpf(call: CallArguments) -> Sizes:
    _, _, _, rows, columns = call.sizes
    if call.is_complex:
        return {"work": max(3, rows + columns), "rwork": 2 * columns}
    return {"work": max(3, rows + columns) + 2 * columns}


def _getri(call: CallArguments) -> Sizes:
    n, _, block, rows, _ = call.sizes
    processes = call.desc.grid.shape
    below, right = (_part(n + block * processes[0], block, count) for count in processes)
    blocks = math.ceil(math.ceil(below / block) / (math.lcm(*processes) // processes[0]))
    return {"work": rows * block, "iwork": right + max(1, blocks) * block}


def _gebrd(call: CallArguments) -> int:
    _, _, block, rows, columns = call.sizes
    return block * (rows + columns + 1) + columns


def _gesvd(call: CallArguments) -> Sizes:
    m, n, block, rows, columns = call.sizes
    few, (p, q) = min(m, n), call.desc.grid.shape
    vectors = max(1, 4 * few)
    if call.arguments["vectors"]:
        lines = max(rows + _part(few, block, q), columns + _part(few, block, p))
        vectors = max(vectors, _apply(block, lines)) + few * (_part(m, 1, p * q) + _part(n, 1, p * q))
    return {"work": 1 + (2 if call.is_complex else 6) * max(m, n) + max(_gebrd(call), rows, vectors)}


def _gels(call: CallArguments) -> Sizes:
    m, n, block, _, _ = call.sizes
    is_wide = m < n
    tau = _part(min(m, n), block, call.desc.grid.shape[0 if is_wide else 1])
    return {"work": tau + max(_factor(call), _multiply(call, vect="P" if is_wide else "Q"))}


def _sytrd(call: CallArguments) -> int:
    _, _, block, rows, _ = call.sizes
    return max(block * (rows + 1), 3 * block)


def _syev(call: CallArguments) -> Sizes:
    n, *_ = call.sizes
    if call.is_complex:
        return {"work": 3 * n + _sytrd(call), "rwork": 2 * n}
    return {"work": 5 * n + _sytrd(call) + 1}


def _syevd(call: CallArguments) -> Sizes:
    n, _, block, rows, columns = call.sizes
    q = call.desc.grid.shape[1]
    integers = {"iwork": 7 * n + 8 * q + 2}
    if call.is_complex:
        lines = rows + _part(max(n, block, 2), block, q) + block
        return {"work": n + lines * block, "rwork": 1 + 9 * n + 3 * rows * columns, **integers}
    return {"work": max(1 + 6 * n + 2 * rows * columns, 3 * n + _sytrd(call)) + 2 * n, **integers}


def _stedc(call: CallArguments) -> Sizes:
    n, _, _, rows, columns = call.sizes
    return {"work": 6 * n + 2 * rows * columns, "iwork": 2 + 7 * n + 8 * call.desc.grid.shape[1]}


def _of_work(size: Callable[[CallArguments], int]) -> Callable[[CallArguments], Sizes]:
    return lambda call: {"work": size(call)}


FORMULAS: dict[str, Callable[[CallArguments], Sizes]] = {
    "geqpf": _geqpf,
    "getri": _getri,
    **dict.fromkeys(("geqrf", "orgqr"), _of_work(_factor)),
    "ormqr": _of_work(lambda call: _multiply(call, call.arguments["side"])),
    "ormbr": _of_work(lambda call: _multiply(call, call.arguments["side"], call.arguments["vect"])),
    "ormtr": _of_work(_multiply),
    "gebrd": _of_work(_gebrd),
    "gesvd": _gesvd,
    "gels": _gels,
    "sytrd": _of_work(_sytrd),
    "syev": _syev,
    "syevd": _syevd,
    "stedc": _stedc,
}
# These call p?ormtr and p?lasrt, which may need more than is documented: much for large blocks.
BEYOND = "syev", "syevd", "stedc"


class Workspaces(NamedTuple):
    """What a routine needs on any of its processes."""

    documented: Sizes
    beyond: int  # elements that each floating-point workspace needs beside that, or beside the answer to a query

    @classmethod
    def of(cls, name: str, kind: str, arguments: Mapping[str, Any]) -> Workspaces:
        """Those of a routine by its name without p and the letter of the dtype, that letter, and the Python function's
        arguments by name.
        """
        call = CallArguments(kind, arguments)
        beyond = _apply(int(call.desc.block[0]), sum(_most(call.desc))) if name in BEYOND else 0
        return cls(FORMULAS[name](call) if name in FORMULAS else {}, beyond)

    def size(self, work: str, queried: int) -> int:
        """The size of a workspace whose query has been answered."""
        return max(1, self.documented[work], queried) + (0 if work == "iwork" else self.beyond)

    @property
    def largest(self) -> tuple[int, str]:
        """The size of the largest workspace, and its name."""
        return max(((self.size(work, 0), work) for work in self.documented), default=(0, ""))


def workspaces(routine: str, name: str, kind: str, arguments: Mapping[str, Any]) -> Workspaces:
    """As `Workspaces.of`; if the routine could not count them, a DescriptorError names a grid on which it can."""
    needs = Workspaces.of(name, kind, arguments)
    size, work = needs.largest
    if size < LIMIT:
        return needs
    desc: Descriptor = arguments["desc"]
    (m, n), (p, q) = desc.shape, desc.grid.shape
    block = min(int(desc.block[0]), USUAL_BLOCK)
    sides = [side for side in SIDES if Workspaces.of(name, kind, _on_paper(arguments, side, block)).largest[0] < LIMIT]
    remedy = (
        f"use {sides[0]} x {sides[0]} processes or more, in blocks of {block} or less"
        if sides
        else "use another routine"
    )
    raise DescriptorError(
        f"{routine} needs {work.upper()} of {size:,} elements on a process for a matrix of {m} x {n} in blocks of "
        f"{desc.block[0]} on {p} x {q} processes, and ScaLAPACK counts in 32 bits: {remedy}{OTHER_WAYS.get(name, '')}"
    )


def _on_paper(arguments: Mapping[str, Any], side: int, block: int) -> dict[str, Any]:
    """The arguments with the layouts in other blocks, on a square grid."""
    grid = ProcessGrid((side, side))
    return {
        name: Descriptor(value.shape, block, grid) if isinstance(value, Descriptor) else value
        for name, value in arguments.items()
    }


# -- of LAPACK on one process


def _of_gesdd(few: int, more: int, is_complex: bool, vectors: bool) -> Sizes:
    integers = {"iwork": 8 * few}
    if not is_complex:
        return {"work": few * (4 * few + 7) if vectors else 3 * few + max(more, 7 * few), **integers}
    if not vectors:
        return {"work": 2 * few + more, "rwork": 7 * few, **integers}
    return {"work": few * (few + 3) + more, "rwork": few * max(5 * few + 7, 2 * more + 2 * few + 1), **integers}


def _of_gesvd(few: int, more: int, is_complex: bool, _: bool) -> Sizes:
    if is_complex:
        return {"work": 2 * few + more, "rwork": 5 * few}
    return {"work": max(3 * few + more, 5 * few)}


def _of_syevd(n: int, _: int, is_complex: bool, vectors: bool) -> Sizes:
    if not vectors:
        return {"work": n + 1, "rwork": n, "iwork": 1} if is_complex else {"work": 2 * n + 1, "iwork": 1}
    real = 1 + n * (2 * n + 6 - is_complex)
    integers = {"iwork": 3 + 5 * n}
    return {"work": n * (n + 2), "rwork": real, **integers} if is_complex else {"work": real, **integers}


def _of_stedc(n: int, *_: object) -> Sizes:
    return {"work": 1 + n * (n + 4), "iwork": 3 + 5 * n}


# Of the shorter and the longer side, whether the numbers are complex, and whether vectors are computed.
LAPACK_FORMULAS: dict[str, Callable[[int, int, bool, bool], Sizes]] = {
    "gesdd": _of_gesdd,
    "gesvd": _of_gesvd,
    "syevd": _of_syevd,
    "stedc": _of_stedc,
}


def lapack_sizes(name: str, shape: Sequence[int], kind: str, vectors: bool = True) -> Sizes:
    """The least sizes of the workspaces of a routine of LAPACK by its name without the dtype's letter, which is `kind`."""
    return LAPACK_FORMULAS[name](min(shape), max(shape), kind in "cz", vectors)


def checked_lapack_sizes(name: str, shape: Sequence[int], kind: str, vectors: bool = True) -> Sizes:
    """As `lapack_sizes`; if LAPACK could not count them, an ArrayError names what it can."""
    sizes = lapack_sizes(name, shape, kind, vectors)
    size, work = max((size, work) for work, size in sizes.items())
    if size >= LIMIT:
        raise ArrayError(
            f"{name} of LAPACK needs {work.upper()} of {size:,} elements for a matrix of {shape[0]} x {shape[-1]}, and counts "
            f"in 32 bits: use more processes{OTHER_WAYS.get(name, '')}"
        )
    return sizes
