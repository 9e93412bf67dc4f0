"""Redistribution: a plan, made once and used often, as the user has it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tracing
from .._kernels.call import DISSENT, Call
from ..comm import progress
from ..comm.transfer import Transfer
from ..errors import CollectiveError
from ..exchanges import Message
from ..layout.distributed import Distributed
from ..layout.letters import transposes
from ..schedules.layout_orders import process_coords
from ..schedules.orders import Order
from .messages import messages_of as planned
from .operands import result_of
from .operation import MatrixPart
from .plan import ONE, ZERO, Plan
from .stages import Move, Stage
from .use import continue_call, find_fast_path, start_use

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .report import Profile, Report

Array = NDArray[Any]
D = TypeVar("D", bound=Distributed)
LARGEST_RANK = 2**62


class Redistribution:
    """A plan: `plan(a)` gives the local array of B. Made by `redistribute`, immutable, and may be in flight several times.

    For the same layouts and options `redistribute` gives the same object again, as long as the communicator keeps it.
    One made by `batch` takes and gives a list of arrays, one for each of its `plans`.

    Attributes
    ----------
    desc_a, desc_b : Descriptor or Tiles
        Layouts before and after.
    op : str
        Operation on A.
    part : MatrixPart or None
        The trapezoid of A that is moved; None for all of it.
    plans : tuple of Redistribution
        Of a batch: the plans that it was made of.
    inside : Plan
        What it consists of, for the modules of the engine.
    """

    def __init__(self, inside: Plan, plans: Sequence[Redistribution] = ()) -> None:
        self.inside, self.plans = inside, tuple(plans)

    def __len__(self) -> int:
        return len(self.inside.pairs)

    def __bool__(self) -> bool:
        return True

    # -- what it does

    @overload
    def __call__(self, a: D, out: D | None = None, *, alpha: complex = ..., beta: complex = ...) -> D: ...

    @overload
    def __call__(
        self, a: Array | None = None, out: Array | None = None, *, alpha: complex = ..., beta: complex = ...
    ) -> Array | None: ...

    @overload
    def __call__(
        self,
        a: Sequence[Array | None],
        out: Sequence[Array | None] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> list[Array | None]: ...

    @overload
    def __call__(
        self,
        a: Sequence[D],
        out: Sequence[D] | None = None,
        *,
        alpha: complex | Sequence[complex] = ...,
        beta: complex | Sequence[complex] = ...,
    ) -> list[D]: ...

    def __call__(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Any:
        """Redistribute: out = alpha * op(A) + beta * out. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray, DistributedArray, list of ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or anything empty) where this rank holds nothing of A. Of a batch, a list or tuple with one for each plan; of
            `Tiles`, with one for each own tile, or one array of one dimension where they have `offsets`.
            A `DistributedArray`, here or as `out`, must be of the plan's layout.
        out : ndarray or DistributedArray, optional
            Local array of B, of the dtype of `a`, any strides. It must be given where B is a sub-array, and where this
            rank is in B but not in A and `redistribute` got no dtype. `out is a` for identical layouts only. Of a batch,
            a list or tuple; what one plan writes no other may read or write, but windows of one array, or triangles on
            different sides of a diagonal, are fine.
        alpha, beta : number
            Equal on all ranks; complex ones for complex arrays only. Other values than 1 and 0 are for float32, float64,
            complex64 and complex128. `out` must be given where beta is not 0, and is not read where it is. Of a batch, for
            all plans, or a list with one for each.

        Returns
        -------
        ndarray, DistributedArray or None
            `out`, or a new array in Fortran order, 0 outside of what is moved; None on a rank outside B. Of a batch, a list;
            of `Tiles`, what their `empty` gives.
            Where `a` is a `DistributedArray`, so is a new one, on every rank, in the layout `desc_b`.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        if tracing.active and tracing.recording():
            return traced(self, a, out, alpha, beta)
        plan = self.inside
        group = plan.group
        call: Call | Transfer | None = None
        # more once this rank has voted, or sent
        begun = plan.uses_begun if plan.series is not None else 0 if group is None else group.tickets.drawn
        try:
            result: Any = NotImplemented  # arrays of another kind: nothing has begun
            if not progress.here.tasks:  # with others under way, calls go in turn
                call = plan.call if alpha is ONE and beta is ZERO else None
                call = call or find_fast_path(plan, a, out, alpha, beta)
                if call is not None:
                    result = call(a, out)
            if result is DISSENT and isinstance(call, Call):  # it has voted, but ranks ask for something else
                transfer = continue_call(plan, call, a, out)
            elif result is NotImplemented:
                transfer = start_use(plan, a, out, alpha, beta)
            else:
                return result_of(plan, a, out, result, alpha, beta) if plan.needs_finishing else result
        except BaseException as caught:
            if isinstance(call, Call) and call.begun:
                continue_call(plan, call, a, out)  # it goes on when this rank calls anything again
            elif group is not None and plan.uses_begun == begun:
                # The others wait for this rank: it tells them that it has failed, and `wait` raises the error.
                return start_use(plan, a, out, alpha, beta, error=caught).wait()
            raise
        return transfer.wait()

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Transfer:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` has returned or `test()` was true, the elements that move may not be written in `a` nor touched in
        `out`; those around a sub-array may, also by other transfers.
        """
        measured = begun(self, a, out) if tracing.active else None
        return start_use(self.inside, a, out, alpha, beta, measured=measured)

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Profile:
        """Redistribute, and say where the time went on this rank. Collective; parameters and errors as in a call."""
        from .report import PARTS, Profile

        spent = dict.fromkeys(PARTS, 0.0)
        start = time.perf_counter()
        transfer = start_use(self.inside, a, out, alpha, beta, spent)
        voted = time.perf_counter()
        transfer.wait()
        end = time.perf_counter()
        moved = spent["packed"] + spent["copied"] + spent["unpacked"]
        spent["planned"], spent["other"] = sum(self.inside.planning.values()), voted - start
        spent["agreed"] = max(0.0, spent["agreed"] - spent["other"])
        spent["waited"] = max(0.0, end - start - spent["other"] - spent["agreed"] - moved)
        return Profile(spent, dict(self.inside.planning))

    def __copy__(self) -> Redistribution:
        return self

    def __deepcopy__(self, memo: object) -> Redistribution:
        """Itself: it does not change, and what its ranks share is not copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise CollectiveError(
            f"{self!r} cannot be pickled: its ranks made it together; pickle its layouts, desc_a and desc_b, and call "
            "redistribute with them on all ranks"
        )

    # -- what it says of itself

    @property
    def desc_a(self) -> Any:
        """Layout before; of a batch, that of its first plan."""
        return self.inside.pairs[0].desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after; of a batch, that of its first plan."""
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
        """Order of the messages; with several moves, those of all of them."""
        return self.inside.schedule

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages: "send", "receive" and "copy" (from its own A to its own B), stage by stage. Not collective."""
        return _messages_of(self.inside.moves)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The stages of a plan with `via=`, in order."""
        return tuple(Leg(self.inside, stage, stage.moves[0]) for stage in self.inside.stages)

    def messages_of(self, rank: int) -> dict[str, tuple[Message, ...]]:
        """The messages of a rank, as `messages` has this one's; none of one outside both layouts. Not collective.

        Parameters
        ----------
        rank : int
            Of the layouts' communicator; on paper, one of the numbers in `ProcessGrid.ranks`. The `peer` of a message is
            numbered as in `messages`; on paper it is such a rank.
        """
        number = range(LARGEST_RANK) if self.inside.group is None else self.inside.group.number
        return _messages_of([_seen_by(move, rank, number) for move in self.inside.moves])

    def report(self, dtype: DTypeLike | Sequence[DTypeLike] | None = None, *, all_ranks: bool = False) -> Any:
        """What this rank moves and what it costs. Not collective, but with `all_ranks`: then over the plan's ranks.

        Parameters
        ----------
        dtype : dtype or list of dtype, optional
            Of the elements; by default the plan's own, else float64. Of a batch, for all plans or for each. With
            `all_ranks` it is enough that one rank gives it or knows it.
        all_ranks : bool
            The figures of all ranks together, and how far the busiest is from the mean. On a rank that has no part in the
            plan None. On paper always so, and nobody is asked.

        Returns
        -------
        Report
            With `via=`, with a mirror image, and of a batch, its `legs` have a report of each part.

        Raises
        ------
        ArrayError
            The list is not of one dtype for each plan.
        CollectiveError
            With `all_ranks`: another rank found this, or ranks give different dtypes. Every rank raises.
        """
        from .report import report_of, report_of_all

        return report_of_all(self.inside, dtype) if all_ranks else report_of(self.inside, dtype)

    def plot(self) -> Figure:
        """Draw the array before and after, blocks in the colours of their ranks, and what goes from rank to rank.

        Both pictures show the same elements; the heat map counts all of them, in all legs. Of a batch, a row for each plan.
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
            A layout is of tiles.
        """
        from .pictures import draw_plans

        return draw_plans([plan.inside for plan in self.plans] or [self.inside])

    def _rows(self) -> list[tuple[str, str]]:
        """What a table says of the plan."""
        pair = self.inside.pairs[0]
        rows = [("from", repr(pair.desc_a)), ("to", repr(pair.desc_b))]
        rows += [("op", pair.op)] if pair.op != "N" else []
        if pair.part is not None:
            rows.append(("part", f"uplo {pair.part.uplo}, diag {pair.part.diag}, fill {pair.fill}"))
        if len(self.inside.stages) > 1:
            rows.append(("legs", str(len(self.inside.stages))))
        return [
            *rows,
            ("schedule / exchange", f"{self.schedule.name} / {self.inside.exchange_name} ({self.inside.why})"),
        ]

    def _repr_html_(self) -> str:
        from ..drawing.svg import beside, table

        if self.inside.is_batch:
            rows = [(f"plan {k}", repr(plan)) for k, plan in enumerate(self.plans)]
            return table("batch", [*rows, ("exchange", f"{self.inside.exchange_name} ({self.inside.why})")])
        pair, said = self.inside.pairs[0], table(type(self).__name__, self._rows())
        if self.inside.has_tiles:
            return said
        from .pictures import region_of

        region = region_of(self.inside, html=True)
        before = self.desc_a._svg(region[::-1] if transposes(pair.op) else region, "before")
        return beside(said, beside(before, self.desc_b._svg(region, "after")))

    def __repr__(self) -> str:
        return repr(self.inside)


class Leg(NamedTuple):
    """A stage of a plan with `via=`."""

    plan: Plan
    stage: Stage
    move: Move

    @property
    def schedule(self) -> Order:
        """Order of its messages."""
        return self.move.order

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's, as those of a plan. Not collective."""
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
        """What this rank moves in it and what it costs. Not collective."""
        from .report import leg_report

        return leg_report(self.plan, self.stage, dtype)


def _messages_of(moves: Sequence[Move]) -> dict[str, tuple[Message, ...]]:
    """This rank's messages of some moves: "send", "receive" and "copy". Not collective."""
    names = enumerate(("send", "receive", "copy"))
    return {name: tuple(message for move in moves for message in move.messages[k]) for k, name in names}


def _seen_by(move: Move, rank: int, number: Mapping[int, int] | range) -> Move:
    """A move with the messages of that rank."""
    a, b = move.moved._for_rank(rank), move.desc_b._for_rank(rank)
    order = move.order.of(*process_coords(a, b, rank))
    messages, arrays = planned(a, b, rank, number, order, move.edge)
    return move._replace(messages=messages, arrays=arrays)


def traced(plan: Redistribution, a: Any, out: Any, alpha: Any, beta: Any) -> Any:
    """A plan's call, recorded. Collective, as the call."""
    with tracing.moving(plan.desc_a, plan.desc_b):
        result = plan(a, out, alpha=alpha, beta=beta)
        tracing.moved(*_bytes(plan, a, result))
    return result


def begun(plan: Redistribution, a: Any, out: Any) -> Any:
    """The record of a transfer that is about to be started; None where nothing is traced. Not collective."""
    measured = tracing.begun("redistribute", plan.desc_a, plan.desc_b)
    if measured is not None:
        with contextlib.suppress(Exception):  # what is wrong with the arrays all ranks are told by the transfer
            measured.bytes_sent, measured.bytes_copied = _bytes(plan, a, out)
    return measured


def _bytes(plan: Redistribution, a: Any, b: Any) -> tuple[int, int]:
    """Bytes of elements that a call sends to others, and copies, on this rank."""
    before, after = (
        arrays if plan.inside.is_batch and arrays is not None else [arrays] * len(plan) for arrays in (a, b)
    )
    sent = copied = 0
    for move in plan.inside.moves:
        arrays = [some[move.pair] for some in (before, after)]
        item = next(filter(None, map(_item, arrays)), 0) or np.dtype(plan.inside.pairs[move.pair].dtype).itemsize
        sent += sum(message.size for message in move.messages[0]) * item
        copied += sum(message.size for message in move.messages[2]) * item
    return sent, copied


def _item(array: Any) -> int:
    """Bytes of an element; 0 where this rank cannot tell."""
    if isinstance(array, list | tuple):  # of tiles
        return next(filter(None, map(_item, array)), 0)
    local = array.local if isinstance(array, Distributed) else array
    return local.itemsize if isinstance(local, np.ndarray) else 0
