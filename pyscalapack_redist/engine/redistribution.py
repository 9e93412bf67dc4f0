"""The user's side of a plan: `Redistribution` is called, started, profiled, reported and drawn.

The engine's side is `Plan` (engine/plan.py), in its attribute `inside`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tracing
from .._lazy import load_above
from ..comm import progress
from ..comm.guard import Guard
from ..errors import CollectiveError, RedistributionError
from ..exchanges import Message
from ..layout.array_arithmetic import Distributed
from ..layout.letters import transposes
from ..reports import Profile, Report
from ..schedules.layout_orders import process_coords
from ..schedules.orders import Order
from ..tracebacks import brief_methods, shorten
from .binding import ONE, PLAIN, ZERO, Binding, factors_key
from .messages import messages_of as rank_messages
from .operands import find_wrapped, finish_call
from .operation import MatrixPart
from .plan import Plan
from .stages import Move, Stage
from .transfer import Transfer
from .use import first_binding, start_use

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
D = TypeVar("D", bound=Distributed)
LARGEST_RANK = 2**62


@brief_methods
class Redistribution:
    """A plan as users have it: `plan(a)` returns the local array of B. Immutable; several transfers may be in flight.

    `redistribute` makes it, and returns the same object for the same layouts and options while the communicator keeps it.
    A plan made by `batch` takes and returns a list of arrays, one for each of its `plans`.

    Attributes
    ----------
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    op : str
        Operation on A.
    part : MatrixPart or None
        The trapezoid of A that is moved; None for all of it.
    plans : tuple of Redistribution
        The plans of a batch.
    inside : Plan
        The engine's side of the plan.
    """

    def __init__(self, inside: Plan, plans: Sequence[Redistribution] = ()) -> None:
        self.inside, self.plans = inside, tuple(plans)

    def __len__(self) -> int:
        return len(self.inside.pairs)

    def __bool__(self) -> bool:
        return True

    # -- calls

    @overload
    def __call__(
        self, a: D, out: D | None = None, *, alpha: complex = ..., beta: complex = ..., overwrite: bool = ...
    ) -> D: ...

    @overload
    def __call__(
        self,
        a: Array | None = None,
        out: Array | None = None,
        *,
        alpha: complex = ...,
        beta: complex = ...,
        overwrite: bool = ...,
    ) -> Array | None: ...

    @overload
    def __call__(
        self,
        a: Sequence[Array | None],
        out: Sequence[Array | None] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
        overwrite: bool = ...,
    ) -> list[Array | None]: ...

    @overload
    def __call__(
        self,
        a: Sequence[D],
        out: Sequence[D] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
        overwrite: bool = ...,
    ) -> list[D]: ...

    def __call__(
        self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO, overwrite: bool = False
    ) -> Any:
        """Redistribute: out = alpha * op(A) + beta * out. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray, DistributedArray, list of ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or any empty array) if this rank holds nothing of A. For a batch, a list or tuple with an entry for each plan;
            for `Tiles`, with an entry for each own tile, or one array of one dimension if they have `offsets`.
            A `DistributedArray`, here or as `out`, must have the plan's layout.
        out : ndarray or DistributedArray, optional
            Local array of B, of the dtype of `a`, any strides. Required if B is a sub-array, and if this rank is in B but
            not in A and `redistribute` got no dtype. `out is a` works for identical layouts only. For a batch, a list or
            tuple; no plan may read or write elements that another plan writes. Disjoint windows of one array, and triangles
            on different sides of a diagonal, are fine.
        alpha, beta : number
            Equal on all ranks; complex numbers for complex arrays only. Values other than 1 and 0 work for float32,
            float64, complex64 and complex128. `out` is required if beta is not 0, and is not read if beta is 0. For a
            batch, a number for all plans, or a list with a number for each.
        overwrite : bool
            Consume `a`, at one times the memory, as a plan with that option does; equal on all ranks. It takes a vote more than
            a plan with that option, and planning the first time. Not for a batch.

        Returns
        -------
        ndarray, DistributedArray or None
            `out`, or a new array in Fortran order, with 0 outside the trapezoid; None on a rank outside B. For a batch, a
            list; for `Tiles`, the result of their `empty`. If `a` is a `DistributedArray`, a `DistributedArray` of layout
            `desc_b` on every rank.

        Raises
        ------
        ArrayError
            An array of this rank does not fit.
        CollectiveError
            An array of another rank does not fit, or ranks have different dtypes. Every rank raises, and no array is
            changed.
        """
        try:
            if overwrite:
                return load_above("door").call_consuming(self, a, out, alpha, beta)
            if tracing.active and tracing.recording():
                return call_traced(self, a, out, alpha, beta)
            plan = self.inside
            group, terms, call = plan.group, plan.terms, None
            if group is None:
                return self._start(a, out, alpha, beta).wait()
            tickets = group.tickets if terms is None else terms.tickets(group)
            drawn = tickets.drawn, group.starts  # unchanged until this rank votes or sends, or will
            try:
                result: Any = NotImplemented  # nothing has begun
                binding: Binding | None
                # nothing else may be in flight, of this thread or of this group
                if not (progress.thread_state.tasks or group.transfers or group.interrupted):
                    key = PLAIN if alpha is ONE and beta is ZERO else factors_key(alpha, beta)
                    try:
                        binding = plan.bindings[key][0]
                    except KeyError:
                        binding = first_binding(plan, key, a, out, alpha, beta)
                    if binding is not None:
                        call, idle = binding.call, binding.idle
                        if call is not None:
                            result = call(a, out)
                        elif idle is not None and group.is_ready:
                            result = idle.call_again(plan, binding, a, out)
                if result is NotImplemented:
                    arrays = find_wrapped(plan, a, out)
                    if arrays is not None:
                        return load_above("door").call_with(self, *arrays, alpha, beta)
                    transfer = start_use(plan, a, out, alpha, beta)
                elif type(result) is Transfer:  # a compiled call has voted, but the votes differ from the last ones
                    transfer = result
                elif plan.needs_finishing and call is not None:
                    return finish_call(plan, a, out, result, alpha, beta)
                else:
                    return result
            except BaseException as caught:
                if (tickets.drawn, group.starts) == drawn:
                    # Other ranks wait for this rank's vote: cast "failed", and let `wait` raise the error.
                    return start_use(plan, a, out, alpha, beta, error=caught).wait()
                raise
            return transfer.wait()
        except RedistributionError as error:
            shorten(error, error.__traceback__)
            raise

    @overload
    def start(self, a: D, out: D | None = None, *, alpha: complex = ..., beta: complex = ...) -> Transfer[D]: ...

    @overload
    def start(
        self, a: Array | None = None, out: Array | None = None, *, alpha: complex = ..., beta: complex = ...
    ) -> Transfer[Array | None]: ...

    @overload
    def start(
        self,
        a: Sequence[Array | None],
        out: Sequence[Array | None] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> Transfer[list[Array | None]]: ...

    @overload
    def start(
        self,
        a: Sequence[D],
        out: Sequence[D] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> Transfer[list[D]]: ...

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Transfer[Any]:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` returns or `test()` is true, do not write the moving elements of `a`, and do not read or write those
        of `out`. Elements outside a sub-array are free, also for other transfers.
        """
        try:
            if not tracing.active:
                return self._start(a, out, alpha, beta)
            with Guard() as guard:
                measured = guard.attempt(lambda: start_trace(self, a, out))
                return self._start(a, out, alpha, beta, error=guard.error, measured=measured)
        except RedistributionError as error:
            shorten(error, error.__traceback__)
            raise

    def _start(self, a: Any, out: Any, alpha: Any, beta: Any, **options: Any) -> Transfer[Any]:
        """Start a transfer, as `start_use`. Arrays of other classes than NumPy's go through the door."""
        arrays = find_wrapped(self.inside, a, out)
        if arrays is None:
            return start_use(self.inside, a, out, alpha, beta, **options)
        transfer: Transfer[Any] = load_above("door").start_with(self.inside, *arrays, alpha, beta, **options)
        return transfer

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Profile:
        """Redistribute, and return the seconds of each part of the work on this rank. Collective; parameters as in a call."""
        start = functools.partial(self._start, a, out, alpha, beta)
        profile: Profile = load_above("study.profile").profile_call(self.inside, start)
        return profile

    def __copy__(self) -> Redistribution:
        return self

    def __deepcopy__(self, memo: object) -> Redistribution:
        """Return the plan itself: it is immutable and shared by its ranks."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise CollectiveError(
            f"{self!r} cannot be pickled: its ranks made it together; pickle its layouts, desc_a and desc_b, and call "
            "redistribute(desc_a, desc_b) on all ranks"
        )

    # -- properties and reports

    @property
    def desc_a(self) -> Any:
        """Layout before; for a batch, that of its first plan."""
        return self.inside.pairs[0].desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after; for a batch, that of its first plan."""
        return self.inside.pairs[0].desc_b

    @property
    def op(self) -> str:
        """Operation on A."""
        return self.inside.pairs[0].op

    @property
    def part(self) -> MatrixPart | None:
        """The trapezoid of A that is moved."""
        return self.inside.pairs[0].part

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, their combined order."""
        return self.inside.schedule

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages, stage by stage: "send", "receive" and "copy" (from its own A to its own B). Not collective."""
        return _messages_of(self.inside.moves)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The stages of a plan with `via=`, in order; with reduce="sum" the moves of the summands."""
        return tuple(Leg(self.inside, stage, stage.moves[0]) for stage in self.inside.legs)

    def messages_of(self, rank: int) -> dict[str, tuple[Message, ...]]:
        """The messages of any rank, in the form of `messages`; none for a rank outside both layouts. Not collective.

        Parameters
        ----------
        rank : int
            A rank of the layouts' communicator; on paper, a number in `ProcessGrid.ranks`. The `peer` of a message is
            numbered as in `messages`; on paper, as in `ProcessGrid.ranks`.
        """
        number = range(LARGEST_RANK) if self.inside.group is None else self.inside.group.number
        return _messages_of([_move_for_rank(move, rank, number) for move in self.inside.moves])

    def report(self, dtype: DTypeLike | Sequence[DTypeLike] | None = None, *, all_ranks: bool = False) -> Any:
        """Report the messages of this rank and their cost. Not collective; with `all_ranks`, collective over the plan's ranks.

        Parameters
        ----------
        dtype : dtype or list of dtype, optional
            Dtype of the elements; by default the plan's own, else float64. For a batch, one for all plans or a list. With
            `all_ranks` it is enough that one rank knows the dtype.
        all_ranks : bool
            Report all ranks together, with the imbalance of the busiest. None on a rank that takes no part in the plan. A
            plan on paper always reports all ranks, without communication.

        Returns
        -------
        Report
            With `via=`, reduce="sum" and a mirror image, and for a batch, `legs` has a report of each part.

        Raises
        ------
        ArrayError
            The list does not have one dtype for each plan.
        CollectiveError
            With `all_ranks`: another rank has raised an error, or ranks give different dtypes. Every rank raises.
        """
        study = load_above("study.report")
        return study.report_of_all(self.inside, dtype) if all_ranks else study.report_of(self.inside, dtype)

    def plot(self) -> Figure:
        """Draw the array before and after, with blocks in the colours of their ranks, and the traffic between ranks.

        Both pictures show the same elements; the heat map counts all elements, in all legs. A batch has a row for each plan.
        Not collective.

        Returns
        -------
        matplotlib.figure.Figure
            A figure of `matplotlib.pyplot`, which can be saved and shown.

        Raises
        ------
        LibraryError
            Matplotlib is not installed.
        DescriptorError
            A layout consists of tiles.
        """
        figure: Figure = load_above("study.pictures").draw_plans([plan.inside for plan in self.plans] or [self.inside])
        return figure

    def _rows(self) -> list[tuple[str, str]]:
        """Names and values for a table of the plan."""
        pair = self.inside.pairs[0]
        rows = [("from", repr(pair.desc_a)), ("to", repr(pair.desc_b))]
        rows += [("op", pair.op)] if pair.op != "N" else []
        if pair.part is not None:
            rows.append(("part", f"uplo {pair.part.uplo}, diag {pair.part.diag}, fill {pair.fill}"))
        if len(self.inside.stages) > 1:
            what = "panels" if self.inside.has_panels else "summands" if self.inside.is_sum else "legs"
            rows.append((what, str(len(self.inside.stages if self.inside.has_panels else self.inside.legs))))
        return [
            *rows,
            ("schedule / exchange", f"{self.schedule.name} / {self.inside.exchange_name} ({self.inside.reason})"),
        ]

    def _repr_html_(self) -> str:
        from ..drawing.svg import beside, table

        if self.inside.is_batch:
            rows = [(f"plan {k}", repr(plan)) for k, plan in enumerate(self.plans)]
            return table("batch", [*rows, ("exchange", f"{self.inside.exchange_name} ({self.inside.reason})")])
        pair, text = self.inside.pairs[0], table(type(self).__name__, self._rows())
        if self.inside.has_tiles:
            return text
        region = load_above("study.pictures").region_of(self.inside, html=True)
        before = self.desc_a._svg(region[::-1] if transposes(pair.op) else region, "before")
        return beside(text, beside(before, self.desc_b._svg(region, "after")))

    def __repr__(self) -> str:
        return repr(self.inside)


class Leg(NamedTuple):
    """A stage of a plan with `via=`."""

    plan: Plan
    stage: Stage
    move: Move

    @property
    def schedule(self) -> Order:
        """Order of the messages."""
        return self.move.order

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages, in the form of a plan's. Not collective."""
        return _messages_of(self.stage.moves)

    @property
    def desc_a(self) -> Any:
        """Layout before."""
        return self.move.desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after."""
        return self.move.desc_b

    def report(self, dtype: DTypeLike | None = None) -> Report:
        """Report the messages of this rank and their cost. Not collective."""
        report: Report = load_above("study.report").leg_report(self.plan, self.stage, dtype)
        return report


def _messages_of(moves: Sequence[Move]) -> dict[str, tuple[Message, ...]]:
    """This rank's messages of some moves: "send", "receive" and "copy"."""
    names = enumerate(("send", "receive", "copy"))
    return {name: tuple(message for move in moves for message in move.messages[k]) for k, name in names}


def _move_for_rank(move: Move, rank: int, number: Mapping[int, int] | range) -> Move:
    """Return a move with the messages of another rank."""
    a, b = move.op_layout._for_rank(rank), move.desc_b._for_rank(rank)
    order = move.order.of(*process_coords(a, b, rank))
    messages, arrays = rank_messages(a, b, rank, number, order, move.edge)
    return move._replace(messages=messages, arrays=arrays)


def call_traced(plan: Redistribution, a: Any, out: Any, alpha: Any, beta: Any) -> Any:
    """Call a plan, and record the call. Collective, as the call."""
    with tracing.moving(plan.desc_a, plan.desc_b):
        result = plan(a, out, alpha=alpha, beta=beta)
        tracing.moved(*_bytes(plan, a, result))
    return result


def start_trace(plan: Redistribution, a: Any, out: Any) -> Any:
    """Return the trace's record of a transfer that is about to start; None without a trace."""
    measured = tracing.start_phase("redistribute", plan.desc_a, plan.desc_b)
    if measured is not None:
        with contextlib.suppress(Exception):  # figures of a trace: the transfer reports errors of the arrays
            measured.bytes_sent, measured.bytes_copied = _bytes(plan, a, out)
    return measured


def _bytes(plan: Redistribution, a: Any, b: Any) -> tuple[int, int]:
    """Bytes that a call sends to other ranks, and bytes that it copies, on this rank."""
    before, after = (
        arrays if plan.inside.is_batch and arrays is not None else [arrays] * len(plan) for arrays in (a, b)
    )
    sent = copied = 0
    for move in plan.inside.moves:
        arrays = [before[move.pair], after[move.pair]]
        item = next(filter(None, map(_item, arrays)), 0) or np.dtype(plan.inside.pairs[move.pair].dtype).itemsize
        sent += sum(message.size for message in move.messages[0]) * item
        copied += sum(message.size for message in move.messages[2]) * item
    return sent, copied


def _item(array: Any) -> int:
    """Bytes of an element; 0 if unknown."""
    if isinstance(array, list | tuple):  # of tiles
        return next(filter(None, map(_item, array)), 0)
    local = array.local if isinstance(array, Distributed) else array
    return local.itemsize if isinstance(local, np.ndarray) else 0
