"""redistribute(): a plan that moves an array from one layout to another, made once and run often.

    descriptors -> messages (planning) -> order (scheduling) -> exchange -> the user's arrays

This module only composes: what is owed to whom is worked out in `planning`, the order in `scheduling`, the moving in
`exchanges`, and what all ranks must agree on in `agreement`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .agreement import Ballot, Participants, digest, participants
from .arrays import Arrays, checked_arrays, dtype_digest
from .blockcyclic import whole_number
from .descriptor import Descriptor
from .errors import ArrayError, CollectiveError, DescriptorError, RedistributionError
from .exchanges import Exchange, Extents, Message, Progress, check_combination, exchange_class
from .exchanges.exchange import Run
from .grid import same_ranks
from .model import choose
from .orders import ORDERS, Natural, Order
from .planning import messages_of
from .report import Report
from .scheduling import is_one_port, order_for

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Redistribution", "Transfer", "redistribute"]

MEMORY_LIMIT = 64 * 2**20


def redistribute(
    desc_a: Descriptor | Sequence[int] | NDArray[np.integer] | None,
    desc_b: Descriptor | Sequence[int] | NDArray[np.integer] | None,
    *,
    dtype: DTypeLike | None = None,
    comm: MPI.Intracomm | None = None,
    schedule: str = "auto",
    exchange: str = "auto",
    buffers: str = "packed",
    memory_limit: int = MEMORY_LIMIT,
) -> Redistribution:
    """Plan the redistribution of an array from layout A to layout B.

    Collective over the processes of the two grids; with `comm`, over all of `comm`. Other ranks may call it too. Plans
    are kept with the communicator: asking again for the same one costs one small reduction, holding it costs nothing.

    Parameters
    ----------
    desc_a, desc_b : Descriptor or nine integers
        Layouts before and after, of the same global shape: a `Descriptor`, or a ScaLAPACK descriptor with a live BLACS
        context. On a rank outside its grid CTXT may be -1, and a rank that does not know a layout passes None; `comm`
        must then be given.
    dtype : dtype, optional
        Of the arrays. Needed only on ranks that are in B but not in A and will leave `out` away.
    comm : MPI.Intracomm, optional
        Communicator that holds both grids. By default the one that both grids are on.
    schedule : str
        Order of the messages: "auto" or a name in `schedules.NAMES`. "walker-otto" and "classes" have conditions;
        "stepwise", "greedy" and "optimal" are searched for by one rank when the plan is made.
    exchange : {"auto", "synchronized", "nonblocking", "ready", "sendrecv", "windowed", "alltoallv", "alltoallw"}
        How they move. The last two leave the order to MPI.
    buffers : {"packed", "datatypes"}
        What MPI is given: bytes that are packed and unpacked here, or the arrays themselves, described by derived
        datatypes, with no staging memory of ours (all exchanges but alltoallv).
    memory_limit : int
        Most bytes of extra memory per rank.

    Returns
    -------
    Redistribution
        Call it with the local array of A to get that of B.

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    request = _Request(desc_a, desc_b, dtype, comm, schedule, exchange, buffers, memory_limit)
    if request.idle:
        return _idle_plan(request)
    everyone = participants(request.comm, request.ranks)
    everyone.agree(request.ballot, request.error, request.opinions, request.words)
    key = tuple(request.ballot.answer(k) for k in range(3))
    plan: Redistribution | None = everyone.plans.get(key)
    if plan is None:
        a, b = (Descriptor._spread(mine, everyone, request.comm) for mine in request.descriptors)
        plan = _new_plan(a, b, request, everyone)
    plan = plan._local(request)
    everyone.remember(key, plan)
    return plan


class _Request:
    """What one rank asks for, checked as far as it can be alone; what is wrong is kept until all ranks are told."""

    def __init__(
        self,
        desc_a: object,
        desc_b: object,
        dtype: DTypeLike | None,
        comm: MPI.Intracomm | None,
        schedule: str,
        exchange: str,
        buffers: str,
        memory_limit: int,
    ) -> None:
        self.error: Exception | None = None
        self.comm = _communicator(desc_a, desc_b, comm)
        self.schedule, self.exchange, self.buffers, self.memory_limit = schedule, exchange, buffers, memory_limit
        self.dtype: np.dtype[Any] | None = None
        self.descriptors: tuple[Descriptor | None, Descriptor | None] = (None, None)
        try:
            self.dtype = None if dtype is None else np.dtype(dtype)
        except TypeError as caught:
            self.error = ArrayError(f"dtype = {dtype!r} is not a NumPy dtype: {caught}")
        read = []
        for name, given in (("desc_a", desc_a), ("desc_b", desc_b)):
            try:
                read.append(_read(name, given, self.comm, explicit=comm is not None))
            except Exception as caught:
                self.error = self.error or caught
                read.append(None)
        self.descriptors = (read[0], read[1])
        try:
            self.memory_limit = whole_number("memory_limit", memory_limit, 1, ": bytes of extra memory per rank")
            _check_names(schedule, exchange, buffers)
            if read[0] is not None and read[1] is not None and read[0].shape != read[1].shape:
                raise DescriptorError(
                    f"desc_a has shape {read[0].shape} and desc_b {read[1].shape}: a redistribution keeps the global shape; "
                    "take a sub-array desc[i0:i1, j0:j1] of the larger one"
                )
        except Exception as caught:
            self.error = self.error or caught
        known = [one.grid.ranks.ravel() for one in read if one is not None]
        if comm is None and known:  # with one bad descriptor, the other's processes are the best guess
            self.ranks = tuple(np.unique(np.concatenate(known)).tolist())
        else:
            self.ranks = tuple(range(self.comm.Get_size()))
        self.idle = self.comm.Get_rank() not in self.ranks

    @property
    def ballot(self) -> Ballot:
        """Three questions on which all ranks must agree."""
        if not hasattr(self, "_ballot"):
            self._ballot = Ballot(["desc_a", "desc_b", "the options"])
        return self._ballot

    @property
    def options(self) -> tuple[Any, ...]:
        return (self.schedule, self.exchange, self.buffers, self.memory_limit)

    @property
    def opinions(self) -> list[int | None]:
        """Digests of the two layouts, where known, and of the options."""
        layouts = [None if one is None else one.layout_digest for one in self.descriptors]
        return [*layouts, digest(self.options)]

    @property
    def words(self) -> list[str]:
        """The same in words."""
        options = dict(zip(("schedule", "exchange", "buffers", "memory_limit"), self.options, strict=True))
        return [*map(repr, self.descriptors), ", ".join(f"{k}={v!r}" for k, v in options.items())]


def _communicator(desc_a: object, desc_b: object, comm: MPI.Intracomm | None) -> MPI.Intracomm:
    """The communicator on which the ranks can tell one another anything."""
    if comm is not None:
        if not hasattr(comm, "Create_group"):
            raise DescriptorError(f"comm = {comm!r} must be an mpi4py Intracomm")
        return comm
    found = [one.grid.comm for one in (desc_a, desc_b) if isinstance(one, Descriptor) and one.grid.comm is not None]
    if not found:
        raise DescriptorError(
            f"desc_a = {desc_a!r}, desc_b = {desc_b!r}: no communicator is known; "
            "pass comm=, the communicator that holds both grids"
        )
    return found[0]


def _read(name: str, given: object, comm: MPI.Intracomm, explicit: bool) -> Descriptor | None:
    """A Descriptor on `comm`, from a Descriptor or nine integers; None on a rank that does not know the layout."""
    if isinstance(given, Descriptor):
        if explicit or same_ranks(given.grid.comm, comm):
            return given.on(comm)
        raise DescriptorError(
            f"{name} = {given!r} is "
            + ("on paper" if given.grid.comm is None else "on another communicator than the other grid")
            + ": pass comm=, a communicator that holds both grids"
        )
    if not explicit:
        raise DescriptorError(f"{name} = {given!r}: pass comm= with anything but two Descriptors")
    if given is None:
        return None
    try:
        return Descriptor._read_array(given, comm)
    except RedistributionError as caught:
        raise type(caught)(f"{name}: {caught}") from caught


def _check_names(schedule: str, exchange: str, buffers: str) -> None:
    """Unknown names are found before anything is planned; "auto" fits everything."""
    one_port = schedule == "auto" or is_one_port(schedule)
    check_combination(schedule, one_port, exchange, buffers)


def _idle_plan(request: _Request) -> Redistribution:
    """The plan of a rank outside both grids."""
    if request.error is not None:
        raise request.error
    a, b = request.descriptors
    assert a is not None
    assert b is not None
    chosen = choose(request.schedule, request.exchange)
    nothing = exchange_class(chosen[1])([], [], [], request.memory_limit, request.buffers)
    return Redistribution(a, b, request.dtype, None, ORDERS.get(chosen[0], Natural)((), ()), nothing, chosen[2])


def _new_plan(a: Descriptor, b: Descriptor, request: _Request, everyone: Participants) -> Redistribution:
    """Work out this rank's messages. Collective over the participants: all make the plan, or none."""
    plan, error = None, None
    ballot = Ballot([], extras=len(Extents._fields))
    try:
        if a.shape != b.shape:
            raise DescriptorError(
                f"desc_a has shape {a.shape} and desc_b {b.shape}: a redistribution keeps the global shape"
            )
        schedule, exchange, why = choose(request.schedule, request.exchange)
        steps = order_for(schedule, a, b, everyone)
        me = request.comm.Get_rank()
        messages = messages_of(a, b, me, everyone.number, steps)
        moving = exchange_class(exchange)(*messages, request.memory_limit, request.buffers)
        ballot.mine[-len(Extents._fields) :] = moving.extents
        plan = Redistribution(a, b, request.dtype, everyone, steps, moving, why)
    except Exception as caught:
        error = caught
    everyone.agree(ballot, error, [], [])
    assert plan is not None
    plan._exchange.settle(Extents(*ballot.all[-len(Extents._fields) :].tolist()))
    if plan._exchange.collective:
        everyone.make_collectives()
    return plan


class Redistribution:
    """A plan: `plan(a)` gives the local array of B. Made by `redistribute`, immutable, and may be in flight several times.

    Attributes
    ----------
    desc_a, desc_b : Descriptor
        Layouts before and after.
    schedule : Order
        Order of the messages.
    """

    def __init__(
        self,
        desc_a: Descriptor,
        desc_b: Descriptor,
        dtype: np.dtype[Any] | None,
        everyone: Participants | None,
        schedule: Order,
        exchange: Exchange,
        why: str,
    ) -> None:
        self.desc_a, self.desc_b = desc_a, desc_b
        self.schedule = schedule
        self._dtype = dtype
        self._everyone = everyone
        self._exchange = exchange
        self._why = why
        self._failures: list[str] = []
        self._identity = digest(
            (desc_a.layout_digest, desc_b.layout_digest, schedule.name, exchange.name, exchange.buffers.name)
        )

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages: "send", "receive" and "copy" (from its own A to its own B). Not collective."""
        return {"send": self._exchange.sends, "receive": self._exchange.receives, "copy": self._exchange.copies}

    def report(self, dtype: DTypeLike | None = None) -> Report:
        """What this rank moves and what it costs, for elements of `dtype` (the plan's, else float64). Not collective."""
        item = np.dtype(dtype or self._dtype or np.float64).itemsize
        ranks = self._everyone.ranks if self._everyone is not None else None
        return Report.of(self._exchange, self.schedule, self._why, item, ranks)

    def __call__(self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None) -> NDArray[Any] | None:
        """Redistribute. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or anything empty) where this rank holds nothing of A.
        out : ndarray, optional
            Local array of B, of the dtype of `a`, any strides. It must be given where B is a sub-array, and where this
            rank is in B but not in A and `redistribute` was told no dtype. `out is a` for identical layouts only.

        Returns
        -------
        ndarray or None
            `out`, or a new array in Fortran order; None on a rank outside B.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        return Transfer(self, a, out, block=True).wait()

    def start(self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None) -> Transfer:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Neither array may be touched until `wait()` has returned or `test()` was true.
        """
        return Transfer(self, a, out, block=False)

    def _local(self, request: _Request) -> Redistribution:
        """This plan for what may differ from rank to rank: leading dimensions and the dtype that was told."""
        a, b = (mine or ours for mine, ours in zip(request.descriptors, (self.desc_a, self.desc_b), strict=True))
        same_dtype = (request.dtype is None) == (self._dtype is None) and request.dtype == self._dtype  # None == float64
        if same_dtype and (a.lld, b.lld) == (self.desc_a.lld, self.desc_b.lld):
            return self
        other = object.__new__(Redistribution)
        other.__dict__.update(self.__dict__)
        other.desc_a, other.desc_b, other._dtype = a, b, request.dtype
        return other

    def __repr__(self) -> str:
        return f"Redistribution({self.desc_a!r} -> {self.desc_b!r}, {self.schedule.name}/{self._exchange.name})"


QUESTIONS = ("the plan", "the dtype")


class Transfer:
    """A redistribution under way. The ranks agree first that all arrays fit; then the messages move."""

    def __init__(self, plan: Redistribution, a: object, out: object, block: bool) -> None:
        self._plan = plan
        self._result: NDArray[Any] | None = None
        self._progress: Progress | None = None
        self._staging: NDArray[np.uint8] | None = None
        self._error: Exception | None = None
        self._begun = self._done = False
        everyone = plan._everyone
        if everyone is None:
            checked_arrays(a, out, plan.desc_a, plan.desc_b, plan._dtype)
            self._done = True
            return
        self._everyone: Participants = everyone
        self._keep = (a, out)
        self._arrays: Arrays | None = None
        self._tag = everyone.next_tag()
        self._ballot = Ballot(QUESTIONS, extras=2)
        self._vote(a, out)
        from mpi4py import MPI

        if block:
            everyone.comm.Allreduce(self._ballot.mine, self._ballot.all, MPI.MAX)
            self._agreeing: MPI.Request | None = None
        else:
            self._agreeing = everyone.comm.Iallreduce(self._ballot.mine, self._ballot.all, MPI.MAX)
        everyone.in_flight[self] = None

    def _vote(self, a: object, out: object) -> None:
        """Check this rank's arrays and take what the transfer needs; what is wrong is told to all ranks."""
        plan, everyone = self._plan, self._everyone
        item = None
        try:
            if plan._failures:
                raise CollectiveError(
                    f"this plan broke off earlier ({plan._failures[0]}): messages may be lost; use another communicator"
                )
            self._arrays = checked_arrays(a, out, plan.desc_a, plan.desc_b, plan._dtype)
            if self._arrays.dtype is not None:
                item = self._arrays.dtype.itemsize
                needed = plan._exchange.staging_bytes(item)
                if needed > plan._exchange.memory_limit:
                    raise ArrayError(
                        f"memory_limit = {plan._exchange.memory_limit} bytes is too small for elements of {item} bytes: "
                        f"at least {needed} are needed"
                    )
                self._staging = everyone.take_staging(needed)
        except Exception as caught:
            self._error = caught
        dtype = self._arrays.dtype if self._arrays is not None else None
        self._opinions = [plan._identity, None if dtype is None else dtype_digest(dtype)]
        self._ballot.fill(everyone.size - everyone.rank if self._error is not None else 0, self._opinions)
        self._ballot.mine[-2:] = self._arrays is not None and self._arrays.by_columns, item or 0

    def test(self) -> bool:
        """Go on as far as possible without waiting; True when the redistribution is complete.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if not self._done:
            self._let_others_go_on()
        return self._advance(block=False)

    def wait(self) -> NDArray[Any] | None:
        """Complete the redistribution and return the local array of B (None on a rank outside B).

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        while not self._done and len(self._everyone.in_flight) > 1:
            self._let_others_go_on()
            self._advance(block=False)
        self._advance(block=True)
        return self._result

    def _let_others_go_on(self) -> None:
        """What this one waits for may wait for them on another rank. Their errors are kept for their own `wait`."""
        for one in tuple(self._everyone.in_flight):
            if one is not self and not one._done:
                with contextlib.suppress(Exception):
                    one._advance(block=False)

    def _has_turn(self) -> bool:
        """Whether it may begin: after all that these participants started before, since the ranks test and wait in any
        order; and an exchange that makes collective calls also lets those before it end.
        """
        for one in self._everyone.in_flight:
            if one is self:
                return True
            if one._done or one._everyone is not self._everyone:
                continue
            if not one._begun or (one._plan._exchange.collective and self._plan._exchange.collective):
                return False
        return True

    def _advance(self, block: bool) -> bool:
        if self._done:
            if self._error is not None:
                raise self._error
            return True
        if self._agreeing is not None:
            if block:
                self._agreeing.Wait()
            elif not self._agreeing.Test():
                return False
            self._agreeing = None
        try:
            if not self._begun:
                if not self._has_turn():
                    return False
                self._begun = True
                if not self._begin():
                    self._finish()
                    return True
            assert self._progress is not None
            if self._progress.advance(block):
                self._finish()
            return self._done
        except RedistributionError as caught:
            self._error = caught
            self._finish()
            raise
        except BaseException as caught:
            self._plan._failures.append(f"{type(caught).__name__}: {caught}")
            if isinstance(caught, Exception):  # it stays in flight: MPI may still have its memory
                self._error, self._done = caught, True
            raise

    def _begin(self) -> bool:
        """Raise what was agreed to raise, or start the messages; False where there are none."""
        ballot, everyone = self._ballot, self._everyone
        if not ballot.unanimous:
            dtype = self._arrays.dtype if self._arrays is not None else None
            everyone.refuse(ballot, self._error, [repr(self._plan), f"dtype {dtype}"])
        arrays = self._arrays
        assert arrays is not None
        by_columns, item = ballot.all[-2:].tolist()
        idle = arrays.dtype is None and not self._plan._exchange.collective
        if arrays.in_place or idle or not item:
            return False
        d = self._plan.desc_a.ndim
        order_ = range(d) if by_columns else range(d - 1, -1, -1)
        if self._staging is None:
            self._staging = everyone.take_staging(0)
        run = Run(
            everyone.comm,
            everyone.collectives,
            self._tag,
            arrays.source,
            arrays.target,
            item,
            tuple(order_),
            self._staging,
        )
        self._progress = self._plan._exchange.begin(run)
        return True

    def _finish(self) -> None:
        if self._error is None and self._arrays is not None and self._plan.desc_b.coords is not None:
            out = self._keep[1]
            self._result = out if isinstance(out, np.ndarray) else self._arrays.out
        if self._staging is not None:
            self._everyone.return_staging(self._staging)
        self._everyone.in_flight.pop(self, None)
        self._staging = self._progress = self._arrays = None
        self._keep = (None, None)
        self._done = True
