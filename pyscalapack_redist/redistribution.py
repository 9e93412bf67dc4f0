"""The user's plan: `Redistribution` takes arrays, is called, started, profiled, reported and drawn, and gives results.

`planned` and `batch` make it, of a `Plan` of the engine on which all ranks agree.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import tracing
from .comm import progress
from .comm.guard import Guard
from .comm.progress import hold_interrupts
from .door import in_form_of, local_arrays, marking
from .engine.batch import agreed_batch
from .engine.bound import ONE, PLAIN, ZERO, Bound, factors_key
from .engine.bounds import Bounds
from .engine.local_arrays import memory_order
from .engine.make import Agreed, agreed_plan
from .engine.messages import messages_of as rank_messages
from .engine.operands import find_wrapped, finish_call
from .engine.operation import MatrixPart
from .engine.options import USUAL, Options, PlanKeywords, overwriting, read_options
from .engine.plan import Plan
from .engine.spec import RETURNS_PLAN
from .engine.stages import Move, Stage
from .engine.terms import Terms
from .engine.transfer import Transfer
from .engine.use import call_again, first_bound, start_use
from .errors import CollectiveError, DescriptorError, RedistributionError, ScheduleError
from .exchanges import Message
from .exchanges.exchange import MEMORY_LIMIT
from .layout.array_arithmetic import Distributed
from .layout.letters import transposes
from .layout.tiles import Layout
from .reports import Profile, Report
from .schedules.layout_orders import process_coords
from .schedules.orders import Order
from .tracebacks import brief_methods, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
D = TypeVar("D", bound=Distributed)
LARGEST_RANK = 2**62
MOST_FOR_USERS = 4  # plans that a group keeps for one request, with arrays stored otherwise or of other dtypes


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
    bounds : Bounds
        What is kept of its uses, and the engine's `Plan`.
    """

    def __init__(self, bounds: Bounds, plans: Sequence[Redistribution] = ()) -> None:
        self.bounds, self.plans = bounds, tuple(plans)

    @property
    def plan(self) -> Plan:
        """What the engine made of the request."""
        return self.bounds.plan

    def __len__(self) -> int:
        return len(self.plan.pairs)

    def __bool__(self) -> bool:
        return True

    def for_arrays(self, desc_a: Layout, desc_b: Layout, dtype: np.dtype[Any] | None) -> Redistribution:
        """This plan for local arrays that are stored as in layouts equal to its own, and of this dtype. Not collective."""
        plan = self.plan.for_arrays(desc_a, desc_b, dtype)
        return self if plan is self.plan else Redistribution(Bounds(plan))

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
            `out`, or a new array, with 0 outside the trapezoid; None on a rank outside B. A new matrix is in Fortran order, an
            array of other dimensions in the order of `a` on this rank, of "C" and "F" the nearer one ("F" where the rank has
            nothing of it), unless the plan has an `order`. For a batch, a list; for `Tiles`,
            the result of their `empty`. If `a` is a `DistributedArray`, a `DistributedArray` of layout
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
                return self._call_consuming(a, out, alpha, beta)
            if tracing.active and tracing.recording():
                return call_traced(self, a, out, alpha, beta)
            bounds = self.bounds
            group, terms, call = bounds.group, bounds.terms, None
            if group is None:
                return self._start(a, out, alpha, beta).wait()
            tickets = group.tickets if terms is None else terms.tickets(group)
            drawn, starts = tickets.drawn, group.starts  # unchanged until this rank votes or sends, or will
            try:
                result: Any = NotImplemented  # nothing has begun
                bound: Bound | None
                # nothing else may be in flight, of this thread or of this group
                if not (progress.thread_state.tasks or group.transfers or group.interrupted):
                    key = PLAIN if alpha is ONE and beta is ZERO else factors_key(alpha, beta)
                    try:
                        bound = bounds.by_factors[key][0]
                    except KeyError:
                        bound = first_bound(bounds, key, a, out, alpha, beta)
                    if bound is not None:
                        call, idle = bound.call, bound.idle
                        if call is not None:
                            result = call(a, out)
                        elif idle is not None and group.is_ready:
                            result = call_again(bounds, bound, a, out)
                if result is NotImplemented:
                    arrays = find_wrapped(bounds.plan, a, out)
                    if arrays is not None:
                        return self._call_wrapped(*arrays, alpha, beta)
                    transfer = start_use(bounds, a, out, alpha, beta)
                elif type(result) is Transfer:  # a compiled call has voted, but the votes differ from the last ones
                    transfer = result
                elif call is not None and bounds.plan.needs_finishing:
                    return finish_call(bounds.plan, a, out, result, alpha, beta)
                else:
                    return result
            except BaseException as caught:
                if tickets.drawn == drawn and group.starts == starts:
                    # Other ranks wait for this rank's vote: cast "failed", and let `wait` raise the error.
                    return start_use(bounds, a, out, alpha, beta, error=caught).wait()
                raise
            return transfer.wait()
        except RedistributionError as error:
            shorten(error, error.__traceback__)
            raise

    def _call_wrapped(self, arrays: Sequence[Any], outs: Sequence[Any], alpha: Any, beta: Any) -> Any:
        """A call with arrays that are distributed or of other libraries; one, or None, for each pair. Collective, as a call.

        What is raised before the vote is for the caller to report.
        """
        guard, plan = Guard(), self.plan
        local = guard.attempt(lambda: local_arrays(plan, arrays, outs, beta))
        if local is None:
            raise guard.error or RuntimeError("internal error: no local arrays; please report it")
        a, out = local if plan.is_batch else (local[0][0], local[1][0])
        consume = marking(plan, arrays, outs)
        if consume is None and find_wrapped(plan, a, out) is None:
            result: Any = self(a, out, alpha=alpha, beta=beta)
        else:  # lists of tiles, and subclasses of NumPy's array
            result = start_use(self.bounds, a, out, alpha, beta, consume=consume).wait()
        return in_form_of(plan, arrays, outs, result)

    def _call_consuming(self, a: Any, out: Any, alpha: Any, beta: Any) -> Any:
        """Call a plan that does the same and consumes A. Collective, as a call; all ranks agree on that plan each time."""
        plan, options = self.plan, self.plan.options
        if options is None:
            error = ScheduleError("overwrite = True is not for a batch: call its plans one by one")
            return start_use(self.bounds, a, out, alpha, beta, error=error).wait()
        if plan.has_panels:
            return self(a, out, alpha=alpha, beta=beta)
        pair = plan.pairs[0]
        with hold_interrupts():  # of both votes: an interrupt of the first goes into the second
            # the group keeps the plan: whether this rank has asked for it before says nothing of others
            consuming = planned(pair.desc_a, pair.desc_b, overwriting(options._replace(dtype=pair.dtype))).plan
            return consuming(a, out, alpha=alpha, beta=beta)

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

    def _start(
        self, a: Any, out: Any, alpha: Any, beta: Any, *, error: BaseException | None = None, **options: Any
    ) -> Transfer[Any]:
        """Start a transfer, as `start_use`, of arrays of any class."""
        bounds, plan = self.bounds, self.plan
        wrapped = find_wrapped(plan, a, out)
        if wrapped is None:
            return start_use(bounds, a, out, alpha, beta, error=error, **options)
        with Guard(error) as guard:
            local = None if error is not None else guard.attempt(lambda: local_arrays(plan, *wrapped, beta))
            sources, targets = local or wrapped
            a, out = (sources, targets) if plan.is_batch else (sources[0], targets[0])
            options["convert_result"] = functools.partial(in_form_of, plan, *wrapped)
            options["consume"] = None if local is None else marking(plan, *wrapped)
            return start_use(bounds, a, out, alpha, beta, error=guard.take_interrupts(), **options)

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = ONE, beta: Any = ZERO) -> Profile:
        """Redistribute, and return the seconds of each part of the work on this rank. Collective; parameters as in a call."""
        from .study.profile import profile_call

        return profile_call(self.plan, functools.partial(self._start, a, out, alpha, beta))

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
        return self.plan.pairs[0].desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after; for a batch, that of its first plan."""
        return self.plan.pairs[0].desc_b

    @property
    def op(self) -> str:
        """Operation on A."""
        return self.plan.pairs[0].op

    @property
    def part(self) -> MatrixPart | None:
        """The trapezoid of A that is moved."""
        return self.plan.pairs[0].part

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, their combined order."""
        return self.plan.schedule

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages, stage by stage: "send", "receive" and "copy" (from its own A to its own B). Not collective."""
        return _messages_of(self.plan.moves)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The stages of a plan with `via=`, in order; with reduce="sum" the moves of the summands."""
        return tuple(Leg(self.plan, stage, stage.moves[0]) for stage in self.plan.legs)

    def messages_of(self, rank: int) -> dict[str, tuple[Message, ...]]:
        """The messages of any rank, in the form of `messages`; none for a rank outside both layouts. Not collective.

        Parameters
        ----------
        rank : int
            A rank of the layouts' communicator; on paper, a number in `ProcessGrid.ranks`. The `peer` of a message is
            numbered as in `messages`; on paper, as in `ProcessGrid.ranks`.
        """
        number = range(LARGEST_RANK) if self.plan.group is None else self.plan.group.number
        return _messages_of([_move_for_rank(move, rank, number) for move in self.plan.moves])

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
        from .study.report import report_of, report_of_all

        seconds = [each.bounds.last_run.seconds for each in (self, *self.plans)]
        return report_of_all(self.plan, dtype, seconds) if all_ranks else report_of(self.plan, dtype, seconds)

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
        from .study.pictures import draw_plans

        return draw_plans([each.plan for each in self.plans] or [self.plan])

    def _rows(self) -> list[tuple[str, str]]:
        """Names and values for a table of the plan."""
        pair = self.plan.pairs[0]
        rows = [("from", repr(pair.desc_a)), ("to", repr(pair.desc_b))]
        rows += [("op", pair.op)] if pair.op != "N" else []
        rows += [("order", pair.order)] if pair.order is not None else []
        if pair.part is not None:
            rows.append(("part", f"uplo {pair.part.uplo}, diag {pair.part.diag}, fill {pair.fill}"))
        if len(self.plan.stages) > 1:
            what = "panels" if self.plan.has_panels else "summands" if self.plan.is_sum else "legs"
            rows.append((what, str(len(self.plan.stages if self.plan.has_panels else self.plan.legs))))
        return [
            *rows,
            ("schedule / exchange", f"{self.schedule.name} / {self.plan.exchange_name} ({self.plan.reason})"),
        ]

    def _repr_html_(self) -> str:
        from .drawing.svg import beside, table

        if self.plan.is_batch:
            rows = [(f"plan {k}", repr(plan)) for k, plan in enumerate(self.plans)]
            return table("batch", [*rows, ("exchange", f"{self.plan.exchange_name} ({self.plan.reason})")])
        pair, text = self.plan.pairs[0], table(type(self).__name__, self._rows())
        if self.plan.has_tiles:
            return text
        from .study.pictures import region_of

        region = region_of(self.plan, html=True)
        before = self.desc_a._svg(region[::-1] if transposes(pair.op) else region, "before")
        return beside(text, beside(before, self.desc_b._svg(region, "after")))

    def __repr__(self) -> str:
        return repr(self.plan)


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
        from .study.report import leg_report

        return leg_report(self.plan, self.stage, dtype)


class PaperPlan(Redistribution):
    """A plan on grids without a communicator: it can be studied but not run. Made by `redistribute`. Not collective.

    There is no own rank: `report()` is of all ranks, and `messages_of(rank)` of any. `plot()` and `schedule` work as for any
    plan. Messages are computed when they are needed; only the steps of a searched schedule are computed at once.
    """

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """Raises DescriptorError: a plan on paper has no own rank. Use `messages_of(rank)`."""
        raise DescriptorError(f"{self!r} is on paper and has no own rank: use messages_of(rank)")

    def report(self, dtype: DTypeLike | Any = None, *, all_ranks: bool = True) -> Report:
        """Report the messages of all ranks. Not collective.

        Parameters
        ----------
        dtype : dtype, optional
            Dtype of the elements; by default the plan's own, else float64.
        all_ranks : bool
            Ignored: a report on paper is of all ranks.

        Returns
        -------
        Report
            Without staging memory and times. With `via=`, reduce="sum" and a mirror image, `legs` has a report of each part.

        Raises
        ------
        ScheduleError
            A dimension has too many processes for a table of all pairs.
        """
        from .study.report import report_of

        return report_of(self.plan, dtype)

    def __call__(
        self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0, overwrite: bool = False
    ) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective.

        Raises
        ------
        DescriptorError
            Always; the text names the missing communicators.
        """
        self._refuse()

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective."""
        self._refuse()

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        shapes = " and ".join(f"ProcessGrid({desc.grid.shape}, comm)" for desc in (self.desc_a, self.desc_b))
        raise DescriptorError(
            f"{self!r} is on paper and cannot be run: its grids have no communicator. Make them with one, {shapes}, and "
            "plan again"
        )


class Planned(NamedTuple):
    """The plan that all ranks ask for, whether they ask for the redistributed array, and the dtype of the array."""

    plan: Redistribution
    gives_array: bool
    dtype: np.dtype[Any] | None


def planned(
    desc_a: object,
    desc_b: object,
    options: Options = USUAL,
    returns: int | None = RETURNS_PLAN,
    error: BaseException | None = None,
    held: hold_interrupts | None = None,
    local: Any = None,
) -> Planned:
    """The plan for two layouts, on which all ranks agree. Collective; parameters as for `agreed_plan`.

    With `local`, the local array of A that is to be moved, ranks also agree on the order of elements that a new B follows.
    """
    arrays = local if isinstance(local, list) else [local]
    sources = [array.T if transposes(options.op) else array for array in arrays if isinstance(array, np.ndarray)]
    order = next(filter(None, map(memory_order, sources)), None)
    agreed = agreed_plan(desc_a, desc_b, options, returns, error, held, order)
    return Planned(_for_user(agreed), agreed.gives_array, agreed.dtype)


def plan_between(
    desc_a: object, desc_b: object, local: Any = None, **options: Unpack[PlanKeywords]
) -> Redistribution:
    """The plan between two layouts for this package's own arrays. Collective, as `planned`."""
    return planned(desc_a, desc_b, read_options("redistribute", options), local=local).plan


def _for_user(agreed: Agreed) -> Redistribution:
    """The plan for arrays of this rank that are stored so; the same one again while the group keeps it."""
    entry, (a, b), dtype = agreed[:3]
    plan, pair = entry.plan, entry.plan.pairs[0]
    if plan.group is None:
        return Redistribution(Bounds(plan)) if plan.paper_exchange is None else PaperPlan(Bounds(plan))
    a, b = pair.desc_a if a is None else a, pair.desc_b if b is None else b
    follows_a = pair.order == "K" or (pair.order is None and pair.desc_b.ndim != 2)
    order = agreed.order if follows_a else None
    if plan.options is not None and plan.options.agree != "always":
        return Redistribution(Bounds(plan.for_arrays(a, b, dtype, order), Terms()))
    stored = a._storage, b._storage, dtype, order
    known: Redistribution | None = entry.for_users.get(stored)
    if known is None:
        while len(entry.for_users) >= MOST_FOR_USERS:
            del entry.for_users[next(iter(entry.for_users))]
        known = entry.for_users[stored] = Redistribution(Bounds(plan.for_arrays(a, b, dtype, order)))
    return known


def local_result(plan: Redistribution, array: Any, out: Any = None, **factors: Any) -> Any:
    """This rank's local array of B, of a call of a plan with a distributed array, or with None. Collective."""
    if plan.plan.has_panels and isinstance(array, Distributed):  # which is marked as consumed
        result = plan(array, out, **factors)
        return result.local if isinstance(result, Distributed) else result
    local, target = (each.local if isinstance(each, Distributed) else each for each in (array, out))
    return plan(local, target, **factors)


def batch(*plans: Redistribution, exchange: str = "auto", memory_limit: int | str = MEMORY_LIMIT) -> Redistribution:
    """Make one plan of several: one vote for all, and one message for all elements that one process sends to another.

    Collective over all processes of the plans: each gives all plans, in the same order. A process that has no part in one of
    them gets it from `redistribute` as the others do, which is not collective there. Arrays may be of different shapes,
    dtypes, layouts, operations and parts (`op`, `uplo`, `fill`), and the plans' sets of processes may differ, also be disjoint.

    Parameters
    ----------
    *plans : Redistribution
        Made by `redistribute` on one communicator, without `via`. Their own schedule, exchange, buffers and memory limit do
        not matter here. A plan may be given more than once.
    exchange : {"auto", "shared", "node-packed", "nonblocking"}
        How the bytes move: through memory shared by the ranks of a node, and by MPI between nodes; or all by MPI.
    memory_limit : int or str
        Most bytes of extra memory per rank, for all plans together; "64MiB" is understood.

    Returns
    -------
    Redistribution
        Call it with a list of arrays, one for each plan.

    Raises
    ------
    DescriptorError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    # interrupts come before the vote, which reports them; afterwards all ranks make the batch
    with hold_interrupts() as held:
        parts = [plan.plan if isinstance(plan, Redistribution) else plan for plan in plans]
        return Redistribution(Bounds(agreed_batch(parts, exchange, memory_limit, held)), plans)


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
    before, after = (arrays if plan.plan.is_batch and arrays is not None else [arrays] * len(plan) for arrays in (a, b))
    sent = copied = 0
    for move in plan.plan.moves:
        arrays = [before[move.pair], after[move.pair]]
        item = next(filter(None, map(_item, arrays)), 0) or np.dtype(plan.plan.pairs[move.pair].dtype).itemsize
        sent += sum(message.size for message in move.messages[0]) * item
        copied += sum(message.size for message in move.messages[2]) * item
    return sent, copied


def _item(array: Any) -> int:
    """Bytes of an element; 0 if unknown."""
    if isinstance(array, list | tuple):  # of tiles
        return next(filter(None, map(_item, array)), 0)
    local = array.local if isinstance(array, Distributed) else array
    return local.itemsize if isinstance(local, np.ndarray) else 0
