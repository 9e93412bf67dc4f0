"""relabel(): the same grid and blocks on a permutation of the ranks, so that fewest bytes move.

Which rank stands in which place of B's grid is an assignment problem: rank r in place j saves what r already holds of that
place's part. The idea is COSTA's (Kabic, Pintarelli, Kozhevnikov, VandeVondele: COSTA, 2021, communication-optimal process
relabelling). What the processes share is a product over the dimensions; no element is looked at.
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
from .descriptor import Descriptor
from .grid import ProcessGrid, same_ranks
from .letters import OPERATIONS, letter_of, transposes

WEIGHT = 10.0
PAIRS = 10**8  # of processes: the table of what they share is then of 800 MB
EXACT = 2**53  # whole numbers up to this are exact in the solver's floating point

Layout = Descriptor | Sequence[int] | NDArray[np.integer] | None
Nodes = Sequence[Hashable] | None


class RelabelReport(NamedTuple):
    """What a relabelling saves. Bytes are of all ranks together; those that stay on their rank are not counted as moved.

    Attributes
    ----------
    descriptor : Descriptor
        The layout to use in place of B; B itself where nothing is saved.
    relabelled : int
        Ranks that stand in another place than in B.
    total : int
        Bytes of the array, of all copies that B has.
    moved_before, moved_after : int
        Bytes that go from one rank to another: to B, and to `descriptor`.
    between_nodes_before, between_nodes_after : int or None
        Those of them that go from one node to another; None without a node map.
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
        """Bytes that need not move. With a node map it may be negative: what is saved then is between nodes."""
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


def relabel(
    desc_a: Layout,
    desc_b: Layout,
    *,
    op: str = "N",
    nodes: Nodes = None,
    weight: float = WEIGHT,
    comm: MPI.Intracomm | None = None,
) -> Descriptor:
    """The layout of B with its ranks permuted so that they already hold most of their parts. Not collective.

    Every rank that calls it with the same layouts and node map gets the same answer. It is an ordinary descriptor; its
    grid has no BLACS context yet, `grid.make_context()` makes one.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, or nine integers
        Layouts before and after, of the same global shape. Grids need no communicator; if only one has none, its numbers
        are taken as ranks of the other's communicator.
    op : {"N", "T", "C", "R"}
        Operation of the redistribution, in either case: "T" and "C" transpose, and then B's shape is A's reversed.
    nodes : sequence of hashable, optional
        Node of each rank of B's communicator, in any words (names, numbers). By default what PYSCALAPACK_REDIST_NODES
        says; without it, on paper, or where A has copies, all ranks count as equally far from each other.
    weight : float
        What a byte between nodes costs, a byte between ranks of one node costing 1; at least 1, taken to a thousandth. The
        default, 10, is a guess at a network shared by all ranks of a host; give the ratio that you measured.
    comm : MPI.Intracomm, optional
        Communicator that holds the grids; needed for nine integers, which this rank must know (CTXT other than -1).

    Returns
    -------
    Descriptor
        The shape, blocks, source and grid shape of B on a permutation of B's ranks; `desc_b` itself where that costs
        least already. Of a sub-array, it is the same sub-array, of a whole array in the new arrangement.

    Raises
    ------
    DescriptorError
        The shapes differ, the grids are not on one communicator, or the node map or the weight is wrong, or there is a node
        map and A has copies.
    """
    return relabel_report(desc_a, desc_b, op=op, nodes=nodes, weight=weight, comm=comm).descriptor


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
    """What `relabel` does and saves. Not collective.

    Parameters
    ----------
    desc_a, desc_b, op, nodes, weight, comm
        As for `relabel`.
    dtype : dtype
        Of the array: the report is in bytes.

    Returns
    -------
    RelabelReport
        Its `descriptor` is what `relabel` returns; its `str` is a table.

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
    shared = _Overlap.of(desc_a, desc_b, op, node_of)
    chosen = shared.best(exact)
    item = np.dtype(dtype).itemsize
    before, after = (shared.moved(ranks) for ranks in (np.arange(len(chosen)), chosen))
    return RelabelReport(
        descriptor=_placed(desc_b, chosen),
        relabelled=int((chosen != np.arange(len(chosen))).sum()),
        total=int(shared.wanted.sum()) * item,
        moved_before=before[0] * item,
        moved_after=after[0] * item,
        between_nodes_before=None if node_of is None else before[1] * item,
        between_nodes_after=None if node_of is None else after[1] * item,
    )


class _Overlap(NamedTuple):
    """Elements that B's ranks (rows, in the order of their places) would find in each place (columns).

    Attributes
    ----------
    wanted : ndarray
        Elements of each place.
    on_rank, on_node : ndarray
        Those of them that the rank, or its node, holds before.
    """

    wanted: NDArray[np.int64]
    on_rank: NDArray[np.int64]
    on_node: NDArray[np.int64]

    @classmethod
    def of(cls, a: Descriptor, b: Descriptor, op: str, node_of: NDArray[np.int64] | None) -> _Overlap:
        moved = a.T if transposes(op) else a
        tables = [between(x, y).lengths for x, y in zip(moved.distributions, b.distributions, strict=True)]
        volumes = np.repeat(reduce(np.kron, tables), b.copies, axis=1)
        ranks_a, ranks_b = moved.places.ravel(), b.places.ravel()
        part = np.arange(len(ranks_a)) // moved.copies  # of A that each of its ranks holds
        on_rank = np.zeros((len(ranks_b), len(ranks_b)), np.int64)
        _, in_a, in_b = np.intersect1d(ranks_a, ranks_b, assume_unique=True, return_indices=True)
        on_rank[in_b] = volumes[part[in_a]]
        if node_of is None:
            on_node = np.zeros_like(on_rank)
        else:
            held = np.zeros((int(node_of.max()) + 1, len(ranks_b)), np.int64)
            np.add.at(held, node_of[ranks_a], volumes)
            on_node = held[node_of[ranks_b]]
        return cls(volumes.sum(axis=0), on_rank, on_node)

    def best(self, weight: Fraction) -> NDArray[np.int64]:
        """For each place the number, by its place in B, of the rank that is to stand there."""
        from scipy.optimize import linear_sum_assignment

        default = np.arange(len(self.wanted))
        # what a rank in a place saves of the cost of fetching all from another node (without a map: from another rank)
        saving = weight.denominator * self.on_rank + (weight.numerator - weight.denominator) * self.on_node
        if int(self.wanted.sum()) * weight.numerator * (len(default) + 1) < EXACT:
            # among equals, fewest ranks move: that all stay counts less than one element
            ranks, places = linear_sum_assignment(
                saving * (len(default) + 1) + np.eye(len(default), dtype=np.int64), maximize=True
            )
        else:
            ranks, places = linear_sum_assignment(saving, maximize=True)
        chosen = np.empty_like(default)
        chosen[places] = ranks
        gain = saving[chosen, default].sum() - saving[default, default].sum()
        return chosen if gain > 0 else default

    def moved(self, chosen: NDArray[np.int64]) -> tuple[int, int]:
        """Elements that go from one rank to another, and those of them that go between nodes."""
        places, total = np.arange(len(chosen)), int(self.wanted.sum())
        return total - int(self.on_rank[chosen, places].sum()), total - int(self.on_node[chosen, places].sum())


def _read(name: str, given: Layout, comm: MPI.Intracomm | None) -> Descriptor:
    """A Descriptor, of nine integers where a communicator is given."""
    if isinstance(given, Descriptor):
        return given if comm is None else given.on(comm)
    if comm is None or given is None:
        raise DescriptorError(f"{name} = {shown(given)} must be a Descriptor, or nine integers with comm=")
    try:
        found = Descriptor._read_array(given, comm)
    except DescriptorError as error:
        raise DescriptorError(f"{name}: {error}") from error
    if found is None:
        raise DescriptorError(
            f"{name} has CTXT = -1 on this rank, which so does not know the layout: give the Descriptor that "
            "Descriptor.from_array(..., comm) makes on all ranks"
        )
    return found


def _checked(a: Descriptor, b: Descriptor, op: str) -> Descriptor:
    """A with its ranks numbered as B's."""
    wanted = a.shape[::-1] if transposes(op) else a.shape
    if b.shape != wanted:
        raise DescriptorError(
            f"desc_a has shape {a.shape} and desc_b {b.shape}: with op = {op!r} desc_b must have shape {wanted}"
        )
    if a.grid.size * b.grid.size > PAIRS:
        raise DescriptorError(
            f"desc_a is on {a.grid.size} processes and desc_b on {b.grid.size}: more than {PAIRS:,} pairs of them cannot be "
            "searched for the best places"
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
    """The weight as a ratio of whole numbers, with which nothing overflows."""
    try:
        exact = Fraction(weight).limit_denominator(1000)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(0)
    if exact < 1:
        raise DescriptorError(
            f"weight = {weight!r} must be a number of at least 1: the cost of a byte between nodes, one inside costing 1"
        )
    if math.prod(b.shape) * exact.numerator >= 2**62:
        raise DescriptorError(
            f"weight = {weight!r} on an array of shape {b.shape}: the product must stay below 2**62 to be counted"
        )
    return exact


def _node_map(a: Descriptor, b: Descriptor, nodes: Nodes) -> NDArray[np.int64] | None:
    """A number for the node of each rank; None where nothing is known."""
    comm = b.grid.comm
    if a.copies > 1:
        if nodes is None:
            return None
        raise DescriptorError(
            f"nodes = {nodes!r} with desc_a = {a!r}: which of its copies a rank reads does not depend on the nodes, so "
            "what goes between them cannot be told; omit nodes, or relabel a layout without copies"
        )
    if nodes is None:
        return None if comm is None else _forced(comm)
    labels = list(nodes)
    needed = int(max(a.grid.ranks.max(), b.grid.ranks.max())) + 1 if comm is None else comm.Get_size()
    if len(labels) < needed or (comm is not None and len(labels) > needed):
        raise DescriptorError(
            f"nodes has {len(labels)} entries for {needed} ranks: give the node of each, as "
            "comm.allgather(MPI.Get_processor_name())"
        )
    return _numbered(labels)


def _forced(comm: Any) -> NDArray[np.int64] | None:
    """The nodes of a communicator's ranks where the environment tells those of COMM_WORLD's."""
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


def _placed(b: Descriptor, chosen: NDArray[np.int64]) -> Descriptor:
    """B with another rank in each place."""
    if (chosen == np.arange(len(chosen))).all():
        return b
    old = b.places.ravel()
    by_rank = np.argsort(old)
    places = by_rank[np.searchsorted(old, b.grid.ranks, sorter=by_rank)]
    grid = ProcessGrid(b.grid.shape, b.grid.comm, ranks=old[chosen][places])
    whole = b.parent or b
    made = Descriptor(whole.shape, b.block, grid, source=b.source, axes=b.axes)
    return made[tuple(slice(o, o + n) for o, n in zip(b.offset, b.shape, strict=True))] if b.parent else made
