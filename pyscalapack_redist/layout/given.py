"""Layouts as callers give them: Descriptors, Tiles, or ScaLAPACK's nine integers with the communicator of their grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import read_alike
from ..comm.groups import group_of
from ..comm.mpi import MPI
from ..errors import DescriptorError, RedistributionError, shown
from .descriptor import Descriptor
from .grid import same_ranks
from .tiles import Tiles

__all__ = ["LAYOUTS", "Layout", "LayoutArgument", "layout_on", "read_layout"]

Layout = Descriptor | Tiles
LAYOUTS = (Descriptor, Tiles)
LayoutArgument = Descriptor | Sequence[int] | NDArray[np.integer] | None


def layout_on(desc: LayoutArgument, comm: MPI.Intracomm | None, name: str = "desc") -> Descriptor:
    """The Descriptor that is meant; of nine integers, or None on some ranks, with `comm`. Collective over `comm`, if given.

    Raises
    ------
    DescriptorError
        It is no layout, or no rank knows one.
    CollectiveError
        That was so on another rank, or ranks have different ones.
    """
    if comm is None:
        if not isinstance(desc, Descriptor):
            raise DescriptorError(
                f"{name} = {shown(desc)} must be a Descriptor; nine integers, or None on a rank that does not know them, need "
                "comm=, the communicator of their grid"
            )
        return desc
    group = group_of(comm)
    mine = read_alike(group, name, lambda: _descriptor_on(name, desc, comm), lambda found: found.layout_digest)
    return Descriptor._spread(mine, group, comm)


def _descriptor_on(name: str, desc: LayoutArgument, comm: MPI.Intracomm) -> Descriptor | None:
    found = read_layout(name, desc, comm, True)
    if isinstance(found, Tiles):
        raise DescriptorError(f"{name} = {found!r} must be a Descriptor: redistribute the tiles to one first")
    return found


def read_layout(name: str, given: object, comm: MPI.Intracomm | None, explicit: bool) -> Layout | None:
    """A layout on `comm`, from a Descriptor, Tiles or nine integers; None on a rank that does not know the layout."""
    if isinstance(given, LAYOUTS):
        known = given.comm
        if comm is None or known is comm:
            return given
        if known is None:
            remedy = "give it a communicator, Tiles(..., comm)"
            if isinstance(given, Descriptor):
                remedy = (
                    f"give it a communicator, ProcessGrid({given.grid.shape}, comm), to run a redistribution; or leave the "
                    "communicator away from both grids and from comm=, for a plan to study"
                )
            raise DescriptorError(f"{name} = {given!r} is on paper: {remedy}")
        if explicit or same_ranks(known, comm):
            return given.on(comm)
        raise DescriptorError(
            f"{name} = {given!r} is on another communicator than the other grid: pass comm=, a communicator that holds both"
        )
    hint = ""
    if isinstance(given, np.ndarray) and given.ndim != 1:
        hint = "; an array is for the plan, redistribute(desc_a, desc_b)(a)"
    if not explicit or comm is None:
        raise DescriptorError(f"{name} = {shown(given)}: pass comm= with anything but two Descriptors or Tiles{hint}")
    if given is None:
        return None
    if hint:
        raise DescriptorError(f"{name} = {shown(given)} must be a Descriptor or its nine integers{hint}")
    try:
        return Descriptor._read_array(given, comm)
    except RedistributionError as caught:
        raise type(caught)(f"{name}: {caught}") from caught
