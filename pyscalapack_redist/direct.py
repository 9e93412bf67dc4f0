"""A plan that moves every element once, and its runs."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._call import DISSENT, Call, Kinds
from ._copy import Blend
from .agreement import Ballot, Participants, digest
from .arrays import NOTHING, Arrays, by_columns, checked_arrays, dtype_digest, ordinary
from .descriptor import Descriptor
from .errors import ArrayError, CollectiveError, ScheduleError
from .exchanges import Exchange, LocalArray, Message
from .exchanges.exchange import Run
from .exchanges.shared import Shared
from .flight import Flight
from .model import predicted_seconds
from .operation import Factors, Part
from .orders import Order
from .repeated import RepeatedCall
from .report import PARTS, Profile, Report

__all__ = ["QUESTIONS", "Redistribution", "Transfer"]

# Compared by identity: small integers are single objects, and anything else goes the long way.
ONE: Any = 1
ZERO: Any = 0
NO_STAGING = np.empty(0, np.uint8)


class Redistribution:
    """A plan: `plan(a)` gives the local array of B. Made by `redistribute`, immutable, and may be in flight several times.

    Attributes
    ----------
    desc_a, desc_b : Descriptor
        Layouts before and after.
    schedule : Order
        Order of the messages.
    op : str
        What becomes of A on the way.
    part : Part or None
        The trapezoid of A that is moved; None for all of it.
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
        op: str = "N",
        part: Part | None = None,
    ) -> None:
        self.part = part
        self.desc_a, self.desc_b = desc_a, desc_b
        self.op = op
        self.schedule = schedule
        self._dtype = dtype
        self._everyone = everyone
        self._exchange = exchange
        self._why = why
        self._failures: list[str] = []
        self._call: Call | RepeatedCall | None = None
        node = None if everyone is None else everyone.node
        self._at_once = exchange.name == Shared.name and node is not None and node.whole and op == "N" and part is None
        self._planned = 0.0
        self._seconds: float | None = None
        self._identity = digest(
            (desc_a.layout_digest, desc_b.layout_digest, schedule.name, exchange.name, exchange.buffers.name, op, part)
        )

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages: "send", "receive" and "copy" (from its own A to its own B). Not collective."""
        return {"send": self._exchange.sends, "receive": self._exchange.receives, "copy": self._exchange.copies}

    def report(self, dtype: DTypeLike | None = None) -> Report:
        """What this rank moves and what it costs, for elements of `dtype` (the plan's, else float64). Not collective."""
        item = np.dtype(dtype or self._dtype or np.float64).itemsize
        everyone, predicted = self._everyone, None
        if everyone is not None:
            here = everyone.node.size if everyone.node is not None else 1
            predicted = predicted_seconds(self._exchange, everyone.links, everyone.size, here, item)
        links = everyone.links if everyone is not None else None
        return Report.of(self._exchange, self.schedule, self._why, item, links, predicted, self._seconds)

    def __call__(
        self,
        a: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
        *,
        alpha: complex = ONE,
        beta: complex = ZERO,
    ) -> NDArray[Any] | None:
        """Redistribute: out = alpha * op(A) + beta * out. Collective over the processes of the two grids.

        Parameters
        ----------
        a : ndarray or None
            Local array of A: of its local shape, or (LLD, columns); any fixed-size dtype, any strides; only read. None
            (or anything empty) where this rank holds nothing of A.
        out : ndarray, optional
            Local array of B, of the dtype of `a`, any strides. It must be given where B is a sub-array, and where this
            rank is in B but not in A and `redistribute` was told no dtype. `out is a` for identical layouts only.
        alpha, beta : number
            Equal on all ranks; complex ones for complex arrays only. Other values than 1 and 0 are for float32, float64,
            complex64 and complex128. `out` must be given where beta is not 0, and is not read where it is.

        Returns
        -------
        ndarray or None
            `out`, or a new array in Fortran order, 0 outside of what is moved; None on a rank outside B.

        Raises
        ------
        ArrayError
            An array does not fit, on this rank.
        CollectiveError
            One does not fit on another rank, or dtypes differ between ranks. Every rank raises, and no array is touched.
        """
        everyone = self._everyone
        if alpha is ONE and beta is ZERO and everyone is not None and not everyone.in_flight:
            call = self._call or self._foreseen(a, out)
            result = NotImplemented if call is None else call(a, out)
            if call is not None and result is DISSENT:
                return Transfer(self, a, out, outcome=call.outcome).wait()
            if result is not NotImplemented:
                everyone.next_tag()  # other ranks may have come the long way, and took one
                made: NDArray[Any] | None = result if self.desc_b.coords is not None else None
                return made
        return self.start(a, out, alpha=alpha, beta=beta).wait()

    def start(
        self,
        a: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
        *,
        alpha: complex = ONE,
        beta: complex = ZERO,
    ) -> Transfer:
        """Start a redistribution and return at once; parameters as in a call. Collective, in the same order on all ranks.

        Until `wait()` has returned or `test()` was true, the elements that move may not be written in `a` nor touched in
        `out`; those around a sub-array may, also by other transfers.
        """
        return Transfer(self, a, out, (alpha, beta))

    def profile(self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None) -> Profile:
        """Redistribute, and say where the time went on this rank. Collective; arrays and errors as in a call."""
        spent = dict.fromkeys(PARTS, 0.0)
        start = time.perf_counter()
        transfer = Transfer(self, a, out, spent=spent)
        voted = time.perf_counter()
        transfer.wait()
        end = time.perf_counter()
        agreed = transfer.agreed_at or end
        moved = spent["packed"] + spent["copied"] + spent["unpacked"]
        spent["planned"], spent["other"] = self._planned, voted - start
        spent["agreed"], spent["waited"] = agreed - voted, max(0.0, end - agreed - moved)
        return Profile(spent)

    def _foreseen(self, a: Any, out: Any) -> Call | RepeatedCall | None:
        """The compiled call for ordinary arrays where there is none yet; None where arrays need a closer look. Not collective.

        What it expects of the vote is what comes of it if all is well: where one rank's arrays run by columns, the messages
        of all do.
        """
        everyone = self._everyone
        if not self._at_once or everyone is None or self._failures:
            return None
        dtype: np.dtype[Any] | None = self._dtype or getattr(out if a is None else a, "dtype", None)
        if dtype is None or dtype.hasobject or not dtype.itemsize or not ordinary(a, self.desc_a, dtype):
            return None
        try:
            made = out is None and self.desc_b.coords is not None and self.desc_b.parent is None
            given = self.desc_b.empty(dtype) if made else out
            if not ordinary(given, self.desc_b, dtype) or (
                a is not None and out is not None and np.may_share_memory(a, out)
            ):
                return None
            item = dtype.itemsize
            column_wise = (a is not None and by_columns(a)) or (given is not None and by_columns(given))
            if not column_wise or self._exchange.staging_bytes(item) > self._exchange.memory_limit:
                return None
            source, target = (NOTHING if one is None else LocalArray(0, one.strides) for one in (a, given))
            order = tuple(range(self.desc_a.ndim))
            run = Run(everyone.comm, everyone.collectives, 0, source, target, item, order, NO_STAGING)
            same, kind = self._identity, dtype_digest(dtype)
            vote = np.array([0, same, -same, kind, -kind, 2 * item + column_wise, ORDERS[column_wise]], np.int64)
            self._compile(run, a, given, self.desc_b.empty if made else None, vote, vote)
        except Exception:
            return None  # it comes again where all ranks hear of it
        return self._call

    def _remember(self, run: Run, a: Any, out: Any, arrays: Arrays, ballot: Ballot) -> None:
        """Make the next call with such arrays a compiled one, where the exchange can."""
        new = self.desc_b.empty if self.part is None else self.desc_b.zeros
        make = new if arrays.out is not None and out is None else None
        given = out if isinstance(out, np.ndarray) else arrays.out
        everyone, self._call = self._everyone, None
        repeat = None if everyone is None else self._exchange.repeat(run, everyone.repeating_tag)
        if everyone is not None and repeat is not None:
            self._call = RepeatedCall(repeat, everyone, a, given, make, ballot, self._failures)
            return
        mine, expected = ballot.mine.copy(), ballot.all.copy()
        mine[-1] = expected[-1] = ORDERS[int(expected[-2]) % 2]
        self._compile(run, a, given, make, mine, expected)

    def _compile(self, run: Run, a: Any, out: Any, make: Any, mine: Any, expected: Any) -> None:
        """Make the compiled call for arrays like these and such a vote, where the exchange can."""
        traffic = self._exchange.compiled(run)
        everyone = self._everyone
        self._call = None
        if traffic is None or everyone is None or everyone.node is None:
            return
        with contextlib.suppress(BufferError, ValueError):  # dtypes that buffers cannot describe go the long way
            self._call = Call(traffic, Kinds([a], [out], [make]), mine, expected, everyone.look_around)

    def _with(self, a: Descriptor | None, b: Descriptor | None, dtype: np.dtype[Any] | None) -> Redistribution:
        """This plan for what may differ from rank to rank: leading dimensions and the dtype that was told."""
        a, b = a or self.desc_a, b or self.desc_b
        same_dtype = (dtype is None) == (self._dtype is None) and dtype == self._dtype  # None == float64
        if same_dtype and (a.lld, b.lld) == (self.desc_a.lld, self.desc_b.lld):
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.desc_a, other.desc_b, other._dtype, other._call = a, b, dtype, None
        return other

    def __repr__(self) -> str:
        return f"Redistribution({self.desc_a!r} -> {self.desc_b!r}, {self.schedule.name}/{self._exchange.name})"


QUESTIONS = ("the plan", "the dtype")
# What a vote says of the order in which a rank has already packed: it does not know the order, by rows, by columns.
UNKNOWN, ORDERS = 0, (1, 2)
LONG = 3  # without shared memory: this rank does not go the short way (`RepeatedCall`), so nobody may


class Transfer(Flight[NDArray[Any]]):
    """A redistribution under way. The ranks agree first that all arrays fit; then the messages move."""

    def __init__(
        self,
        plan: Redistribution,
        a: object,
        out: object,
        factors: tuple[object, object] = (1, 0),
        outcome: list[int] | None = None,
        spent: dict[str, float] | None = None,
    ) -> None:
        super().__init__(plan._everyone, plan._exchange.in_turn, plan._failures, Ballot(QUESTIONS, extras=2))
        self._plan, self._spent, self._started = plan, spent, time.perf_counter()
        if plan._everyone is None:
            checked_arrays(a, out, plan.desc_a, plan.desc_b, plan._dtype, plan.op != "N", zeroed=plan.part is not None)
            self.done = True
            return
        self._keep = (a, out)
        self._arrays: Arrays | None = None
        self._factors = Factors()
        self._blend: Blend | None = None
        self._vote(a, out, factors)
        self._cast(outcome)

    def _vote(self, a: object, out: object, factors: tuple[object, object]) -> None:
        """Check this rank's arrays and take what the transfer needs; what is wrong is told to all ranks."""
        plan, everyone = self._plan, self._everyone
        item = None
        try:
            if plan._failures:
                raise CollectiveError(
                    f"this plan broke off earlier ({plan._failures[0]}): messages may be lost; use another communicator"
                )
            self._factors = Factors.of(*factors, plan.op)
            self._arrays = checked_arrays(
                a,
                out,
                plan.desc_a,
                plan.desc_b,
                plan._dtype,
                plan.op != "N",
                self._factors.beta != 0,
                plan.part is not None,
            )
            if self._arrays.dtype is not None:
                self._blend = self._factors.blend(self._arrays.dtype)
                if self._blend is not None and plan._exchange.buffers.name == "datatypes":
                    raise ScheduleError(
                        f"{self._factors}, op = {plan.op}: with buffers = 'datatypes' MPI moves elements as they are; "
                        "use buffers='packed'"
                    )
                item = self._arrays.dtype.itemsize
                needed = plan._exchange.staging_bytes(item)
                if needed > plan._exchange.memory_limit:
                    raise ArrayError(
                        f"memory_limit = {plan._exchange.memory_limit} bytes is too small for elements of {item} bytes: "
                        f"at least {needed} are needed"
                    )
                self._staging = everyone.take_staging(plan._exchange.private_bytes(item))
        except Exception as caught:
            self._error = caught
        dtype = self._arrays.dtype if self._arrays is not None else None
        identity = plan._identity if self._factors.trivial else digest((plan._identity, self._factors))
        self._opinions = [identity, None if dtype is None else dtype_digest(dtype)]
        self._ballot.fill(everyone.size - everyone.rank if self._error is not None else 0, self._opinions)
        by_columns = self._arrays is not None and self._arrays.by_columns
        self._ballot.mine[-2:] = 2 * (item or 0) + by_columns, UNKNOWN if plan._exchange.in_turn else LONG

    def _begin(self) -> bool:
        """Raise what was agreed to raise, or start the messages; False where there are none."""
        ballot, everyone = self._ballot, self._everyone
        if not ballot.unanimous:
            dtype = self._arrays.dtype if self._arrays is not None else None
            everyone.refuse(ballot, self._error, lambda: [f"{self._plan!r} with {self._factors}", f"dtype {dtype}"])
        arrays = self._arrays
        assert arrays is not None
        (item, by_columns), guess = divmod(int(ballot.all[-2]), 2), int(ballot.all[-1])
        idle = arrays.dtype is None and not self._plan._exchange.in_turn
        if (arrays.in_place and self._blend is None) or not item:
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
            self._mark if guess not in (UNKNOWN, ORDERS[by_columns]) else 0,
            self._spent,
            self._blend,
        )
        if self._factors.trivial:
            self._plan._remember(run, *self._keep, arrays, ballot)
        if idle:
            return False
        self._progress = self._plan._exchange.begin(run)
        return True

    def _land(self) -> None:
        if self._arrays is not None and self._plan.desc_b.coords is not None:
            out = self._keep[1]
            self._result = out if isinstance(out, np.ndarray) else self._arrays.out
        self._plan._seconds = time.perf_counter() - self._started

    def _finish(self) -> None:
        super()._finish()
        self._arrays, self._keep = None, (None, None)
