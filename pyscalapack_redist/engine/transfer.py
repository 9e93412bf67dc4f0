"""Transfer: one use of a plan, which goes through the states of `engine/states.py`.

It is advanced by whoever waits for anything, and never blocks. A compiled call (`_kernels.call.Call`) goes through the same
states in one piece; where it cannot go on, a transfer does so from the state that it has reached.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from .._kernels.call import Call
from ..comm.group import Group
from ..comm.progress import advance_others, interrupts_held, under_way, until
from ..comm.vote import Ballot, RingVote, Rows
from ..errors import CollectiveError
from ..exchanges.exchange import prepare
from ..exchanges.shared import Together
from .binding import Operands
from .direct import DirectCall
from .movement import Movement
from .plan import Plan
from .states import Broken, Complete, Context, Counted, Ended, Phase, State, Voting, take

__all__ = ["State", "Transfer"]

# MPI makes progress only while it is called, and a connection between nodes needs several looks for one message: a test
# goes on looking for this share of the time since the last one, but for no more than so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3
COMPLETE = State.COMPLETE


class Transfer:
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits for it at the end of the block; where the block is left by an error it is not
    waited for, since other ranks may not come, and goes on as after an interrupt of `wait`.
    """

    def __init__(
        self,
        plan: Plan,
        arrays: Any,
        outs: Any,
        alpha: object = 1,
        beta: object = 0,
        spent: dict[str, float] | None = None,
        call: Call | DirectCall | None = None,
        error: BaseException | None = None,
        measured: Any = None,
    ) -> None:
        self._plan, self._to_wrap, self._measured = plan, plan.to_wrap(arrays, outs), measured
        self._tested = started = time.perf_counter()
        self._phase: Phase
        group = plan.group
        if group is None:
            mine = plan.operands(arrays, outs, alpha, beta)
            self._phase = Complete(plan.finished(mine.outs, mine.targets, mine.factors))
            return
        self._group: Group = group
        if call is None:
            group.check_usable()
        with interrupts_held() as held:
            ticket = group.next_ticket() if call is None else group.ticket
            context = Context(plan, group, ticket, spent, started)
            try:
                if call is not None:
                    self._phase = _continued(context, call, arrays, outs)
                else:
                    self._phase = _cast(context, arrays, outs, (alpha, beta), error, held.let_through)
            except BaseException as caught:  # the others count on what has begun
                group.break_off(f"{type(caught).__name__}: {caught}")
                group.wreckage.append(call)
                raise
            group.transfers[self] = None
            under_way()[self] = None

    @property
    def state(self) -> State:
        """Where it is on this rank."""
        return self._phase.state

    def advance(self, block: bool = False) -> bool:
        """Make as much progress as possible; True when it has ended. It never raises. Not collective."""
        if self._phase.state >= COMPLETE:
            return True
        group = self._group
        if not group.lock.acquire(False):
            return False
        try:
            if group.broken is not None:
                self._break(CollectiveError(f"{group.broken}: what it owed will not come"))
            while (entered := self._phase.advance(block)) is not None:
                self._phase = entered
            if self._phase.state >= COMPLETE:
                self._leave()
        except BaseException as caught:
            self._break(caught)
        finally:
            group.lock.release()
        return self._phase.state >= COMPLETE

    def _leave(self) -> None:
        self._group.transfers.pop(self, None)
        under_way().pop(self, None)

    def _break(self, error: BaseException) -> None:
        self._group.break_off(f"{type(error).__name__}: {error}")
        self._group.wreckage.append(self._phase)
        self._phase = Broken(error)
        self._leave()

    def test(self) -> bool:
        """Make progress without waiting; True when the redistribution is completed. Not collective.

        Between nodes nothing moves but in `test` and `wait`: call it every few milliseconds while computing. It packs,
        unpacks and copies what it can, and looks at the messages for at most 2 % of the time since the last call.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        start = time.perf_counter()
        until_ = start + min(TEST_SHARE * (start - self._tested), LONGEST_TEST)
        while self._phase.state < COMPLETE:
            with interrupts_held():
                advance_others(self)
                self.advance()
            self._look_around()
            self._tested = time.perf_counter()
            if self._tested >= until_:
                break
        if self.state > COMPLETE or (self.state == COMPLETE and self._measured is not None):
            self._result()
        return self.state == COMPLETE

    def wait(self) -> Any:
        """Complete the redistribution and return what a call of the plan does.

        An interrupt (SIGINT) ends the waiting, not the transfer: it makes progress in the next call of anything here, and may
        be waited for again.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if self._phase.state < COMPLETE:
            node = self._group.node
            block = len(under_way()) == 1 and node is not None and node.ring is not None
            until(lambda: self.advance(block), self._look_around, self, block)
        return self._result()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait; after an error not, for the others may not come: the transfer then goes on as after an interrupt."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self._plan!r}, {self.state.name.lower()})"

    def _result(self) -> Any:
        ended = self._phase
        if not isinstance(ended, Ended):
            raise CollectiveError("the redistribution has not ended")
        if self._measured is not None:
            self._measured.end(ended.error)
        if ended.error is not None:
            raise ended.error
        if self._to_wrap is not None:
            return self._plan.wrapped(*self._to_wrap, ended.result)
        return ended.result

    def _look_around(self) -> None:
        try:
            self._group.look_around(self._plan)
        except CollectiveError as gone:
            with self._group.lock:
                if self._phase.state < COMPLETE:
                    self._break(gone)


def _cast(
    context: Context,
    arrays: Any,
    outs: Any,
    factors: tuple[object, object],
    error: BaseException | None,
    let_through: Callable[[], None],
) -> Voting:
    """Check this rank's arrays, take all that the transfer needs, and vote; what is wrong is told to all ranks.

    Small messages are sent right away, or go with the vote.
    """
    plan, group = context.plan, context.group
    mine: Operands | None = None
    movement: Movement | None = None
    rows: Rows | None = None
    try:
        if error is None:
            prepare()  # where it fails the others hear of it, also from a rank without arrays
            mine = plan.operands(arrays, outs, *factors)
            try:
                movement = take(context, mine, plan.known(mine))
            except Exception:
                if not plan.asks or None not in mine.dtypes:
                    raise
                plan.forget(mine)  # it does for arrays that others had last time; they tell again
            let_through()
            if movement is not None and mine.item:
                rows = movement.progress.with_vote()
    except BaseException as caught:
        error = caught
    failed = group.failed(error)
    if mine is None:
        ballot = Ballot(failed=failed, call=plan.identity)
    else:
        call = plan.call_number(mine)
        dtype, note = plan.dtype_in_vote(mine)
        ballot = Ballot(failed=failed, call=call, dtype=dtype, note=note, item=mine.item, order=mine.order or 0)
    vote = group.cast(ballot, None if error else rows)
    voting = Voting(context, vote, mine, movement, error)
    if movement is not None and error is None:
        movement.progress.ahead()
    return voting


def _continued(context: Context, call: Call | DirectCall, arrays: Any, outs: Any) -> Voting:
    """A compiled call has voted, and come no further."""
    plan, group = context.plan, context.group
    kept, starts = next((known for known in plan.remembered.values() if known.call is call), None), call.origins
    if kept is None or starts is None:
        raise RuntimeError("a transfer continues a call that has not begun")
    given, into = plan.lists(arrays, outs)
    targets = call.targets if plan.listed else [call.targets]
    mine = kept.operands._replace(given=given, outs=into, targets=targets, origins=starts)
    if isinstance(call, DirectCall):
        cast, moving, started = group.adopt(call.vote), call.progress, call.started
        call.hand_over()
        movement = Movement(
            plan,
            group,
            context.ticket,
            mine,
            kept.binding(plan),
            context.spent,
            begin=lambda exchange, run: moving,
            staging=moving.run.staging,
            started=started,
        )
        return Voting(context, cast, mine, movement)
    traffic = None if call.voted and not call.as_expected else call.traffic
    vote: Counted | RingVote
    if call.voted:
        vote = Counted(call.outcome(), call.number)
    else:
        vote = RingVote(call.traffic.ring, call.ballot, posted=True)
        group.adopt(vote)
    call.hand_over()
    together = functools.partial(Together, begun=traffic)
    movement = Movement(plan, group, context.ticket, mine, kept.binding(plan), context.spent, begin=together)
    return Voting(context, vote, mine, movement)
