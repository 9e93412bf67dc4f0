"""relabel(): the same grid and blocks on a permutation of the ranks, so that the fewest bytes move.

The choice of a rank for each place of B's grid is an assignment problem: rank r in place j saves the elements of that place
that r already holds. The idea is COSTA's (Kabic, Pintarelli, Kozhevnikov, VandeVondele: COSTA, 2021, communication-optimal
process relabelling). The elements that processes share are counted as products over the dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..comm.groups import check_alive
from ..comm.mpi import MPI
from ..comm.node import forced_nodes
from ..errors import DescriptorError, shown
from ..schedules import between
from ..tracebacks import brief
from .descriptor import Descriptor
from .grid import ProcessGrid, same_ranks
from .letters import OPERATIONS, letter_of, transposes

WEIGHT = 10.0
PAIRS = 10**8  # pairs of processes: their table has 800 MB
EXACT = 2**53  # integers up to this are exact in the solver's floating point

Layout = Descriptor | Sequence[int] | NDArray[np.integer] | None
Nodes = Sequence[Hashable] | None


class RelabelReport(NamedTuple):
    """The savings of a relabelling. Bytes are the sum over all ranks; bytes that stay on their rank do not count as moved.

    Attributes
    ----------
    descriptor : Descriptor
        The layout to use instead of B; B itself if nothing is saved.
    relabelled : int
        Number of ranks at other coordinates than in B.
    total : int
        Bytes of the array, of all replicas of B.
    moved_before, moved_after : int
        Bytes that move between ranks: to B, and to `descriptor`.
    between_nodes_before, between_nodes_after : int or None
        Bytes that move between nodes; None without a node map.
    """

    descriptor: Descriptor
    relabelled: int
    total: int
    moved_before: int
    moved_after: int
    between_nodes_before: int | None
    between_nodes_after: int | None

    @property
    def saved(self) -> int:
        """Bytes saved. May be negative with a node map: then bytes between nodes are saved."""
        return self.moved_before - self.moved_after

    def __str__(self) -> str:
        lines = [
            f"array          {self.total:,} bytes",
            f"moved          {self.moved_after:,} bytes in place of {self.moved_before:,}",
            f"saved          {self.saved:,} bytes",
            f"relabelled     {self.relabelled} of {self.descriptor.grid.size} ranks",
        ]
        if self.between_nodes_before is not None:
            between = f"{self.between_nodes_after:,} bytes in place of {self.between_nodes_before:,}"
            lines.insert(2, f"between nodes  {between}")
        return "\n".join(lines)


@brief
def relabel(
    desc_a: Layout,
    desc_b: Layout,
    *,
    op: str = "N",
    nodes: Nodes = None,
    weight: float = WEIGHT,
    comm: MPI.Intracomm | None = None,
) -> Descriptor:
    """The layout of B with its ranks permuted so that the fewest bytes move. Not collective.

    Ranks that call it with equal layouts and node maps get equal results. The grid of the result has no BLACS context yet;
    `grid.make_context()` makes one.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, or nine integers
        Layouts before and after, of the same global shape. Grids need no communicator; if only one has none, its numbers are
        ranks of the other's communicator.
    op : {"N", "T", "C", "R"}
        Operation of the redistribution, in upper or lower case: with "T" and "C" B's shape is A's reversed.
    nodes : sequence of hashable, optional
        Node of each rank of B's communicator: names or numbers. By default from PYSCALAPACK_REDIST_NODES; without that, on
        paper, or if A has replicas, the cost is the same between all ranks.
    weight : float
        Cost of a byte between nodes, relative to a byte between ranks of one node; at least 1, rounded to a fraction with a
        denominator of at most 1000. The default, 10, is a guess for a network shared by all ranks of a host; give a measured
        ratio.
    comm : MPI.Intracomm, optional
        Communicator that holds the grids; needed for nine integers, which this rank must know (CTXT other than -1).

    Returns
    -------
    Descriptor
        The shape, blocks, source and grid shape of B on a permutation of B's ranks; `desc_b` itself if that costs least. For a
        sub-array, the same sub-array of a permuted whole array.

    Raises
    ------
    DescriptorError
        The shapes differ, the grids are not on one communicator, the node map or the weight is invalid, or there is a node map
        and A has replicas.
    """
    return relabel_report(desc_a, desc_b, op=op, nodes=nodes, weight=weight, comm=comm).descriptor


@brief
def relabel_report(
    desc_a: Layout,
    desc_b: Layout,
    dtype: DTypeLike = np.float64,
    *,
    op: str = "N",
    nodes: Nodes = None,
    weight: float = WEIGHT,
    comm: MPI.Intracomm | None = None,
) -> RelabelReport:
    """The result of `relabel`, and its savings. Not collective.

    Parameters
    ----------
    desc_a, desc_b, op, nodes, weight, comm
        As for `relabel`.
    dtype : dtype
        Dtype of the array: the report is in bytes.

    Returns
    -------
    RelabelReport
        `descriptor` is the result of `relabel`; `str()` gives a table.

    Raises
    ------
    DescriptorError
        As for `relabel`.
    """
    op = letter_of("op", op, OPERATIONS)
    desc_a, desc_b = (_read(name, desc, comm) for name, desc in (("desc_a", desc_a), ("desc_b", desc_b)))
    desc_a = _checked(desc_a, desc_b, op)
    node_of = _node_map(desc_a, desc_b, nodes)
    exact = _checked_weight(weight, desc_b)
    overlap = _Overlap.of(desc_a, desc_b, op, node_of)
    ranks = overlap.best(exact)
    item = np.dtype(dtype).itemsize
    before, after = (overlap.moved(choice) for choice in (np.arange(len(ranks)), ranks))
    return RelabelReport(
        descriptor=_permuted(desc_b, ranks),
        relabelled=int((ranks != np.arange(len(ranks))).sum()),
        total=int(overlap.needed.sum()) * item,
        moved_before=before[0] * item,
        moved_after=after[0] * item,
        between_nodes_before=None if node_of is None else before[1] * item,
        between_nodes_after=None if node_of is None else after[1] * item,
    )


class _Overlap(NamedTuple):
    """Elements of each place of B's grid (columns) that each of B's ranks (rows, by their places) holds before.

    Attributes
    ----------
    needed : ndarray
        Elements of each place.
    on_rank, on_node : ndarray
        Elements of each place that the rank, or its node, holds before.
    """

    needed: NDArray[np.int64]
    on_rank: NDArray[np.int64]
    on_node: NDArray[np.int64]

    @classmethod
    def of(cls, a: Descriptor, b: Descriptor, op: str, node_of: NDArray[np.int64] | None) -> _Overlap:
        a_layout = a.T if transposes(op) else a
        tables = [between(x, y).lengths for x, y in zip(a_layout.distributions, b.distributions, strict=True)]
        volumes = np.repeat(reduce(np.kron, tables), b.copies, axis=1)
        ranks_a, ranks_b = a_layout.places.ravel(), b.places.ravel()
        part = np.arange(len(ranks_a)) // a_layout.copies  # the part of A on each of its ranks
        on_rank = np.zeros((len(ranks_b), len(ranks_b)), np.int64)
        _, in_a, in_b = np.intersect1d(ranks_a, ranks_b, assume_unique=True, return_indices=True)
        on_rank[in_b] = volumes[part[in_a]]
        if node_of is None:
            on_node = np.zeros_like(on_rank)
        else:
            by_node = np.zeros((int(node_of.max()) + 1, len(ranks_b)), np.int64)
            np.add.at(by_node, node_of[ranks_a], volumes)
            on_node = by_node[node_of[ranks_b]]
        return cls(volumes.sum(axis=0), on_rank, on_node)

    def best(self, weight: Fraction) -> NDArray[np.int64]:
        """For each place of B's grid the number of the rank to put there; ranks are numbered by their places in B."""
        from scipy.optimize import linear_sum_assignment

        default = np.arange(len(self.needed))
        # the saving of a rank in a place, against receiving all elements from another node (without a map: another rank)
        saving = weight.denominator * self.on_rank + (weight.numerator - weight.denominator) * self.on_node
        if int(self.needed.sum()) * weight.numerator * (len(default) + 1) < EXACT:
            # prefer to leave ranks in their places; all ranks together count less than one element
            ranks, places = linear_sum_assignment(
                saving * (len(default) + 1) + np.eye(len(default), dtype=np.int64), maximize=True
            )
        else:
            ranks, places = linear_sum_assignment(saving, maximize=True)
        best = np.empty_like(default)
        best[places] = ranks
        gain = saving[best, default].sum() - saving[default, default].sum()
        return best if gain > 0 else default

    def moved(self, ranks: NDArray[np.int64]) -> tuple[int, int]:
        """Elements that move between ranks, and elements that move between nodes."""
        places, total = np.arange(len(ranks)), int(self.needed.sum())
        return total - int(self.on_rank[ranks, places].sum()), total - int(self.on_node[ranks, places].sum())


def _read(name: str, layout: Layout, comm: MPI.Intracomm | None) -> Descriptor:
    """A Descriptor, also from nine integers if there is a communicator."""
    if isinstance(layout, Descriptor):
        return layout if comm is None else layout.on(comm)
    if comm is None or layout is None:
        raise DescriptorError(f"{name} = {shown(layout)} must be a Descriptor, or nine integers with comm=")
    try:
        desc = Descriptor._read_array(layout, comm)
    except DescriptorError as error:
        raise DescriptorError(f"{name}: {error}") from error
    if desc is None:
        raise DescriptorError(
            f"{name} has CTXT = -1, so this rank does not know the layout: pass the Descriptor that "
            "Descriptor.from_array(..., comm) returns on all ranks"
        )
    return desc


def _checked(a: Descriptor, b: Descriptor, op: str) -> Descriptor:
    """A on B's communicator; checks that shapes and grids fit together."""
    shape = a.shape[::-1] if transposes(op) else a.shape
    if b.shape != shape:
        raise DescriptorError(
            f"desc_a has shape {a.shape} and desc_b {b.shape}: with op = {op!r} desc_b must have shape {shape}"
        )
    if a.grid.size * b.grid.size > PAIRS:
        raise DescriptorError(
            f"desc_a is on {a.grid.size} processes and desc_b on {b.grid.size}: the search is limited to "
            f"{PAIRS:,} pairs of processes"
        )
    comm = b.grid.comm
    if comm is None:
        return a
    check_alive(comm)
    if a.grid.comm is not None:
        return a if same_ranks(a.grid.comm, comm) else a.on(comm)
    if a.grid.ranks.max() >= comm.Get_size():
        raise DescriptorError(
            f"desc_a has rank {a.grid.ranks.max()} of a grid on paper, but desc_b's communicator has "
            f"{comm.Get_size()} ranks: make both on one communicator, or both on paper"
        )
    return a


def _checked_weight(weight: float, b: Descriptor) -> Fraction:
    """The weight as a ratio of integers; a DescriptorError if it is invalid or counts could overflow."""
    try:
        exact = Fraction(weight).limit_denominator(1000)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(0)
    if exact < 1:
        raise DescriptorError(
            f"weight = {weight!r} must be a number of at least 1: the cost of a byte between nodes over one within a node"
        )
    if math.prod(b.shape) * exact.numerator >= 2**62:
        raise DescriptorError(
            f"weight = {weight!r} with an array of shape {b.shape}: weight times elements must be below 2**62"
        )
    return exact


def _node_map(a: Descriptor, b: Descriptor, nodes: Nodes) -> NDArray[np.int64] | None:
    """The node number of each rank; None if unknown."""
    comm = b.grid.comm
    if a.copies > 1:
        if nodes is None:
            return None
        raise DescriptorError(
            f"nodes = {nodes!r} with desc_a = {a!r}: which of its replicas a rank reads does not depend on nodes, so bytes "
            "between nodes are unknown; omit nodes, or relabel a layout without replicas"
        )
    if nodes is None:
        return None if comm is None else _forced(comm)
    labels = list(nodes)
    ranks = int(max(a.grid.ranks.max(), b.grid.ranks.max())) + 1 if comm is None else comm.Get_size()
    if len(labels) < ranks or (comm is not None and len(labels) > ranks):
        raise DescriptorError(
            f"nodes has {len(labels)} entries for {ranks} ranks: give the node of each, as "
            "comm.allgather(MPI.Get_processor_name())"
        )
    return _numbered(labels)


def _forced(comm: Any) -> NDArray[np.int64] | None:
    """The nodes of a communicator's ranks if the environment has the nodes of COMM_WORLD's."""
    nodes = forced_nodes(MPI.COMM_WORLD.Get_size())
    if nodes is None:
        return None
    group, world = comm.Get_group(), MPI.COMM_WORLD.Get_group()
    ranks = MPI.Group.Translate_ranks(group, list(range(comm.Get_size())), world)
    group.Free()
    world.Free()
    return _numbered([nodes[rank] for rank in ranks])


def _numbered(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def _permuted(b: Descriptor, ranks: NDArray[np.int64]) -> Descriptor:
    """B with other ranks in its places."""
    if (ranks == np.arange(len(ranks))).all():
        return b
    old = b.places.ravel()
    by_rank = np.argsort(old)
    places = by_rank[np.searchsorted(old, b.grid.ranks, sorter=by_rank)]
    grid = ProcessGrid(b.grid.shape, b.grid.comm, ranks=old[ranks][places])
    whole = b.parent or b
    desc = Descriptor(whole.shape, b.block, grid, source=b.source, axes=b.axes)
    return (
        desc[tuple(slice(start, start + n) for start, n in zip(b.offset, b.shape, strict=True))] if b.parent else desc
    )
