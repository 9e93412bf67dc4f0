"""The limit that links between hosts set: the bytes that the busiest host must send or receive, over its link's rate.

Links are taken as equal and as full duplex, and the network between them as without limits, so no way of redistributing can
be faster, unless something holds bytes back from the link's accounting: a burst that a shaped link lets through, say.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import schedules
from ...comm.groups import group_of
from ..cases import Case

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Limit", "between_hosts", "limit_of", "links_of"]


class Limit(NamedTuple):
    """What the links allow at best: bytes that the busiest host must send or receive, over a link's bytes per second."""

    nbytes: int
    rate: float

    @property
    def seconds(self) -> float:
        """The shortest time that the links allow."""
        return self.nbytes / self.rate


def between_hosts(case: Case, hosts: Sequence[int]) -> NDArray[np.int64]:
    """Bytes that each host owes each other host, by the host of each rank; zeros on the diagonal. Not collective."""
    a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
    pairs = zip(a.distributions, b.distributions, strict=True)
    tables = [np.asarray(schedules.CommunicationGrid.between(x, y).lengths, np.int64) for x, y in pairs]
    dims = len(tables)
    outer = functools.reduce(np.multiply.outer, tables)  # sender, receiver, sender, receiver, ...
    shared = outer.transpose([*range(0, 2 * dims, 2), *range(1, 2 * dims, 2)])
    shared = shared.reshape(a.placement.size, b.placement.size)
    host = np.asarray(hosts)
    owed = np.zeros((max(hosts) + 1,) * 2, np.int64)
    np.add.at(owed, (host[a.placement.ravel()][:, None], host[b.placement.ravel()][None, :]), shared)
    np.fill_diagonal(owed, 0)
    return owed * case.dtype.itemsize


def limit_of(case: Case, environment: dict[str, Any]) -> Limit | None:
    """The limit in one case; None where `links_of` found no rate or nothing goes between hosts. Not collective."""
    rate, hosts = environment.get("link_rate"), environment.get("host_of_rank")
    if rate is None or hosts is None:
        return None
    owed = between_hosts(case, hosts)
    busiest = max(int(owed.sum(axis=side).max()) for side in range(2))
    return Limit(busiest, rate) if busiest else None


def links_of(comm: MPI.Intracomm, rate: float | None) -> dict[str, Any]:
    """Entries of the environment: the host of each rank, the rate of a host's link and where that is from. Collective.

    Without a rate it is what the engine measured. Raises RedistributionError where what the environment says of nodes or
    links is wrong, on this rank or on another.
    """
    group = group_of(comm, tuple(range(comm.Get_size())))
    leaders = group.make_node().leaders.tolist()
    number = {leader: k for k, leader in enumerate(dict.fromkeys(leaders))}
    links = group.links
    origin = "as given" if rate is not None else None if links is None else links.origin
    return {
        "host_of_rank": [number[leader] for leader in leaders],
        "link_rate": rate if rate is not None or links is None else links.rate,
        "link_rate_origin": origin,
    }
