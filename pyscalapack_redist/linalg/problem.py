"""Problem: one call of a routine of linalg, from what the ranks agree on to the result in the layout that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.kernels import warn_of_kernels
from ..comm.vote import Ballot, Statement, digest
from ..distributed_array import DistributedArray
from ..engine.arguments import communicator_of, group_of_all
from ..engine.redistribute import redistribute
from ..errors import ArrayError, CollectiveError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, descriptor_of
from ..layout.grid import ProcessGrid, same_ranks
from ..scalapack.operands import FACTORED_KINDS, KIND_OF_DTYPE
from ..scalapack.together import together
from .layouts import as_column, check_counts, check_taken, layout_for, stays

__all__ = ["Layout", "Problem"]

Layout = Descriptor | Distributed | None
# The shape for which a layout is chosen, and the layout of the result where no other is asked for.
Check = Callable[..., tuple[tuple[int, ...], Descriptor]]

DTYPES = [dtype for dtype, kind in KIND_OF_DTYPE.items() if kind in FACTORED_KINDS]


class Problem:
    """One call of a routine. Collective over the communicator of its operands, as are its methods that move or run.

    Parameters
    ----------
    routine : str
        Its name.
    operands : mapping of str to DistributedArray
        In the order of the arguments.
    check : callable
        Called with the operands, it raises where their shapes do not fit.
    layout, like : Descriptor or DistributedArray or None
        The arguments of the routine.
    vectors : sequence of str
        Operands that may be of one dimension.
    options : tuple
        Other arguments on which the ranks must agree.

    Attributes
    ----------
    dtype : dtype
        Of all operands.
    target : Descriptor
        Layout of the result.
    """

    def __init__(
        self,
        routine: str,
        operands: Mapping[str, Any],
        check: Check,
        *,
        layout: Layout = None,
        like: Layout = None,
        vectors: tuple[str, ...] = (),
        options: tuple[Any, ...] = (),
    ) -> None:
        options = tuple(tuple(option) if isinstance(option, list) else option for option in options)
        found = [operand for operand in operands.values() if isinstance(operand, Distributed)]
        if not found:
            self._check_operands(operands, vectors)
        self._comm, self._group = communicator_of(found[0].desc), group_of_all(found[0].desc)
        self._operands = dict(operands)
        self._error: Exception | None = None
        chosen: tuple[Descriptor, Descriptor] | None = None
        error: Exception | None = None
        try:
            self._check_operands(operands, vectors)
            warn_of_kernels(blacs.load(), self._comm.Get_rank())
            shape, usual = check(*operands.values())
            chosen = self._layout(routine, layout, shape), self._target(like, usual)
        except Exception as caught:
            error = caught
        said = {
            "the routine": (routine, options),
            **{name: getattr(descriptor_of(operand), "layout_digest", None) for name, operand in operands.items()},
            "layout": getattr(descriptor_of(layout), "layout_digest", None),
            "like": getattr(descriptor_of(like), "layout_digest", None),
        }
        given = {**operands, "layout": layout, "like": like, "the routine": (routine, *options)}
        with tracing.phase("agree"):
            self._group.agree(
                Ballot(failed=self._group.failed(error), call=digest(("linalg", said))),
                error,
                lambda: [Statement(name, value, repr(descriptor_of(given[name]))) for name, value in said.items()],
                lambda outcome: True,
            )
            if chosen is None:
                raise error or CollectiveError("these ranks have not agreed")
            taken, self.target = chosen
            self.dtype = self._agreed_dtype()
            self._block, self._grid = taken.block, self._kept_grid(taken.grid)

    # -- what the ranks agree on

    def _check_operands(self, operands: Mapping[str, Any], vectors: tuple[str, ...]) -> None:
        first: tuple[str, np.dtype[Any]] | None = None
        for name, operand in operands.items():
            if not isinstance(operand, Distributed):
                raise ArrayError(
                    f"{name} is a {type(operand).__name__}: it must be a DistributedArray; distribute() makes one of an array "
                    "on one rank"
                )
            if operand.ndim != 2 and not (name in vectors and operand.ndim == 1):
                right = "1 or 2 dimensions" if name in vectors else "2 dimensions"
                raise ArrayError(f"{name} has shape {operand.shape}: it must have {right}")
            if not same_ranks(communicator_of(operand.desc), self._comm):
                raise ArrayError(
                    f"{name} is on another communicator than {next(iter(operands))}: put both on one, by "
                    "redistribute(desc_a, desc_b, comm=) with a communicator that holds both"
                )
            if operand.dtype is None:
                continue
            if operand.dtype not in DTYPES:
                raise ArrayError(
                    f"{name} has dtype {operand.dtype}, which ScaLAPACK does not have: it must be one of "
                    f"{', '.join(map(str, DTYPES))}; {name}.astype(numpy.float64) converts it"
                )
            first = first or (name, operand.dtype)
            if operand.dtype != first[1]:
                raise ArrayError(_differing(*first, name, operand.dtype))

    def _target(self, like: Layout, usual: Descriptor) -> Descriptor:
        if like is None:
            return usual
        desc = self._given_layout("like", like)
        if desc.shape != usual.shape or desc.parent is not None:
            raise DescriptorError(
                f"like = {desc!r} must be the layout of a whole array of shape {usual.shape}, that of the result"
            )
        return desc

    def _layout(self, routine: str, layout: Layout, shape: tuple[int, ...]) -> Descriptor:
        """The layout to work in: that given, an operand's own if it fits, or what the model chooses."""
        if layout is not None:
            chosen = self._given_layout("layout", layout)
            check_taken(routine, chosen, shape)
            return chosen
        own = (operand.desc for operand in self._operands.values() if stays(routine, operand.desc))
        return next(own, None) or layout_for(routine, shape, self._comm)

    def _given_layout(self, name: str, given: Layout) -> Descriptor:
        desc = descriptor_of(given)
        if not isinstance(desc, Descriptor):
            raise DescriptorError(f"{name} = {given!r} must be a Descriptor or a DistributedArray")
        if not same_ranks(communicator_of(desc), self._comm):
            raise DescriptorError(f"{name} = {desc!r} is on another communicator than the operands: make it on theirs")
        return desc

    def _agreed_dtype(self) -> np.dtype[Any]:
        """The one dtype that the ranks know of the operands."""
        mine = [(name, operand.dtype) for name, operand in self._operands.items() if operand.dtype is not None]
        told: list[tuple[str, np.dtype[Any]]] = [pair for pairs in self._group.combine(mine) for pair in pairs]
        if not told:
            raise ArrayError("no rank knows the dtype: each local array is None; pass empty ones of the dtype")
        for name, dtype in told:
            if dtype != told[0][1]:
                raise ArrayError(_differing(*told[0], name, dtype))
        return told[0][1]

    def _kept_grid(self, grid: ProcessGrid) -> ProcessGrid:
        """An equal grid with a BLACS context, made once for each communicator, and closed when that is freed. Collective
        over the grid.
        """
        key = ProcessGrid, grid.shape, grid.ranks.tobytes()
        kept = self._group.held.get(key)
        if not isinstance(kept, ProcessGrid):
            kept = self._group.held[key] = ProcessGrid(grid.shape, self._comm, ranks=grid.ranks)
        kept.make_context()
        return kept

    # -- arrays

    def layout(self, shape: tuple[int, int]) -> Descriptor:
        """The layout of an array of this shape in the blocks and on the grid of the call. Not collective."""
        desc = Descriptor(shape, self._block, self._grid)
        check_counts(desc)
        return desc

    def zeros(self, shape: tuple[int, int]) -> DistributedArray:
        """An array to be written, in the layout of the call; where there is no memory for it, `run` raises. Not collective."""
        desc, local = self.layout(shape), None
        try:
            local = desc.zeros(self.dtype) if desc.coords is not None else None
        except Exception as caught:
            self._error = self._error or caught
        return DistributedArray._made(desc, local, self.dtype)

    def moved(
        self, name: str, *, overwrite: bool = False, read_only: bool = False, rows: int | None = None
    ) -> DistributedArray:
        """An operand in the layout of the call: a copy, unless it is there already and may be overwritten.

        Parameters
        ----------
        name : str
            Of the operand.
        overwrite : bool
            Whether the operand itself may be returned.
        read_only : bool
            Whether it is not written, so that the operand itself may be returned as well.
        rows : int, optional
            More rows than the operand has: those behind it are zero.
        """
        operand = self._operands[name]
        desc, local = as_column(operand.desc), operand.local
        if local is not None and local.ndim == 1:
            local = local[:, None] if operand.desc.coords is not None else None
        m, n = desc.shape
        target = self.layout((m if rows is None else rows, n))
        if target.shape != desc.shape:
            out = self.zeros((target.shape[0], n))
            self._group.raise_on_all(self._error)
            self._redistributed(name, desc, target[:m], local, out.local)
            return out
        if desc != target:
            return DistributedArray._made(target, self._redistributed(name, desc, target, local), self.dtype)
        try:
            may_stay = local is not None and local.flags.aligned and local.flags.f_contiguous
            if local is not None and not (may_stay and (read_only or (overwrite and self._may_overwrite(name, local)))):
                local = np.array(local, order="F")
        except Exception as caught:
            self._error = self._error or caught
        return DistributedArray._made(target, local, self.dtype)

    def turned(self, matrix: DistributedArray) -> DistributedArray:
        """The conjugate transpose, in the layout of the call."""
        target = self.layout((matrix.shape[1], matrix.shape[0]))
        local = self._redistributed("transpose", matrix.desc, target, matrix.local, op="C")
        return DistributedArray._made(target, local, self.dtype)

    def _redistributed(self, name: str, source: Descriptor, target: Descriptor, *arrays: Any, op: str = "N") -> Any:
        with tracing.phase(f"redistribute {name}", source, target):
            return redistribute(source, target, dtype=self.dtype, comm=self._comm, op=op)(*arrays)

    def _may_overwrite(self, name: str, local: NDArray[Any]) -> bool:
        """Whether a local array can be written, and no other operand is in the same memory."""
        others = [
            operand.local for other, operand in self._operands.items() if other != name and operand.local is not None
        ]
        return local.flags.writeable and not any(np.shares_memory(local, array) for array in others)

    def must_be_finite(self, name: str, matrix: DistributedArray) -> None:
        """Have `run` raise on all ranks where a matrix has infs or NaNs: iterations might not end. Not collective."""
        try:
            if matrix.local is not None and not np.isfinite(matrix.local).all():
                raise ValueError(f"{name} must not contain infs or NaNs")
        except Exception as caught:
            self._error = self._error or caught

    def given_back(self, matrix: DistributedArray, target: Descriptor | None = None) -> DistributedArray:
        """A result in the layout in which it is wanted; by default `target`."""
        wanted = target or self.target
        desc, local = as_column(wanted), matrix.local
        if desc != matrix.desc:
            local = self._redistributed("result", matrix.desc, desc, local)
        if wanted.ndim == 1 and local is not None:
            local = local[:, 0]
        return DistributedArray._made(wanted, local, self.dtype)

    # -- the call

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """Call ScaLAPACK; what it finds is raised on all ranks. Before each call all agree that all can make it.

        Parameters
        ----------
        work : callable
            What this rank calls. What it returns is told to all ranks.
        combined : callable, optional
            Makes one value of what all ranks returned, by rank; by default the first that is not None.

        Raises
        ------
        numpy.linalg.LinAlgError
            The same on all ranks.
        """
        return together(self._group, work, combined, self._error)


def _differing(name: str, dtype: np.dtype[Any], other: str, other_dtype: np.dtype[Any]) -> str:
    if name == other:
        return f"{name} has dtype {dtype} on one rank and {other_dtype} on another: make them equal by {name}.astype"
    return (
        f"{name} has dtype {dtype} and {other} has {other_dtype}: ScaLAPACK converts nothing, so make them equal by "
        f"{other}.astype({str(dtype)!r})"
    )
