"""agreement: a vote of all ranks after what each of them does by itself, and what they then know together.

No other module above `group` casts a vote, but for transfers. A vote meets any other vote of the group: that of a plan, of a
transfer, or of a rank that has failed elsewhere. So wherever a rank fails, the others hear of it in their next vote.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from .group import Group, first_known
from .guard import Guard
from .progress import hold_interrupts
from .vote import Outcome, Statement, Vote, digest

T = TypeVar("T")


class Shared(Protocol):
    """An array of which each rank has a part."""

    @property
    def desc(self) -> Any:
        """Its layout, with a digest."""

    @property
    def dtype(self) -> Any:
        """Its dtype; None on a rank that does not know it."""

    @property
    def _dtype_digest(self) -> int | None:
        """A number equal on all ranks that have the same dtype; None on a rank that does not know it."""


class agreement:  # noqa: N801 - used like a function
    """A context for what a rank does before a vote: whatever ends the block is its vote. Collective over the group.

        with agreement(group, "scatter", combine=first_known) as agreed:
            array = read(source)
            agreed.same("desc", desc.layout_digest, desc)
            agreed.give(array.dtype)
        dtype = agreed.result

    After the block all ranks have agreed, or all raise: a rank its own error, or an interrupt that was held back; the others a
    CollectiveError, which names that rank, or what ranks have otherwise. Only an interrupt that has ended a wait by force
    (`force_interrupts`) leaves without a vote.

    Parameters
    ----------
    group : Group
        The ranks.
    call : str
        The call, in texts. All ranks must be at the same one.
    combine : callable, optional
        Makes one value of those that all ranks `give`, a list in their order, on the first rank; an error there is one of all.
    learn : bool
        Whether ranks that do not know a value learn it from the first one that does (`learn`). They exchange it only if a rank
        does not know it.
    confirm : bool
        Whether an exchange after the vote shows that no rank has been interrupted, also where nothing is given.
    deliver : bool
        Whether interrupts are handled while the rank waits for votes. What follows from the vote goes on nevertheless.
    then : callable, optional
        Called with the counted vote, also later if the wait is interrupted: whether an exchange follows. Besides, it keeps
        what all ranks must keep.
    held : hold_interrupts, optional
        Of a caller with several votes: whose interrupts are handled.
    open : bool
        Whether interrupts end the block at once. A block that waits for other ranks is not open: they would be left there.
    dozes : bool
        Whether this rank sleeps between polls, because another one works for long.

    Attributes
    ----------
    call : str
        As above; the block may add arguments that all ranks must have alike.
    result : object
        After the block: what `combine` made; with `learn` the value.
    outcome : Outcome
        After the block: the counted vote.
    """

    result: Any = None
    outcome: Outcome
    _value: Any = None
    _words: Callable[[], Sequence[Statement]] | None = None
    _was_working = False

    def __init__(
        self,
        group: Group,
        call: str,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        learn: bool = False,
        confirm: bool = False,
        deliver: bool = False,
        then: Callable[[Outcome], bool] | None = None,
        held: hold_interrupts | None = None,
        open: bool = True,
        dozes: bool = False,
    ) -> None:
        self._group, self.call = group, call
        self._reduce, self._learns, self._confirms, self._follows = combine, learn, confirm, then
        self._is_open, self._dozes = open, dozes
        self._facts: list[tuple[str, Any, object]] = []  # in the field `call`, but for those of other fields
        self._numbers: list[int] = []
        self._fields: dict[str, int | None] = {}
        self._guard, self._own = Guard(), hold_interrupts() if held is None else None
        self._delivered = (held or self._own) if deliver else None

    # -- in the block

    def same(self, name: str, value: Any, thing: object = ..., *, field: str = "") -> None:
        """Say what all ranks must have alike; all ranks say it in the same order.

        Parameters
        ----------
        name : str
            What it is, in texts: "desc".
        value : object
            Plain Python values, of one type on all ranks: 0 and 0.0 differ. Of other objects, as arrays, the `vote.digest` of
            their bytes. With a field a digest, or None on a rank that does not know it.
        thing : object
            What the value stands for, whose repr an error shows, or a `partial` that makes the text; by default the value.
        field : {"dtype", "source", "target"}, optional
            The field of the vote in which ranks may not know it; several values of one field are one digest there.
        """
        shown = value if thing is ... else thing
        if not field:
            number = value if type(value) is int else digest((value,))
            self._numbers.append(number)
            self._facts.append((name, number, shown))
            return
        if field in self._fields:
            both = self._fields[field], value
            self._fields[field] = None if None in both else digest(both)
        else:
            self._fields[field] = value
        self._facts.append((name, value, shown))

    def same_array(self, array: Shared, name: str = "the array") -> None:
        """Say which array is meant: it has one layout, and one dtype, on all ranks."""
        self.same(f"{name}'s layout", array.desc.layout_digest, array.desc)
        self.same(f"{name}'s dtype", array._dtype_digest, array.dtype, field="dtype")

    def give(self, value: Any) -> None:
        """Give this rank's value for `combine`, anything that can be pickled; a rank that gives none has None."""
        if self._reduce is None:
            raise TypeError("give() is for an agreement with combine=")
        self._value = value

    def learn(self, value: Any) -> None:
        """Give a value that other ranks may not know; None on a rank that does not know it."""
        self._value, self._fields["pending"] = value, int(value is None)

    def count(self, words: Callable[[], Sequence[Statement]] | None = None, **fields: int | None) -> None:
        """Set fields of the vote as they are, and in place of all others the words for an error."""
        self._fields |= fields
        self._words = words or self._words

    # -- the context

    def __enter__(self) -> Self:
        if self._own is not None:
            self._own.__enter__()
        self._work = self._guard.block(is_open=self._is_open)
        self._work.__enter__()
        if self._is_open:
            self._was_working = self._group.set_working(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._work.__exit__(kind, error, traceback)
        try:
            if self._is_open:
                self._group.set_working(self._was_working)
            if error is None or error is not hold_interrupts.forced:
                self._vote(self._guard.take_interrupts())
        except BaseException as raised:
            if raised is not error:
                raise
        finally:
            if self._own is not None:
                self._own.__exit__()

    def _vote(self, error: BaseException | None) -> None:
        try:
            if "call" not in self._fields:
                self._fields["call"] = _number_of(self.call, *self._numbers)
            vote = Vote(failed=self._group.failure_code(error), **self._fields)
        except Exception as caught:  # a field that there is not
            error = error or caught
            vote = Vote(failed=self._group.failure_code(error))
        self.outcome, self.result = self._group.agree(
            vote,
            error,
            self._words or self._statements,
            self._has_exchange,
            None if self._delivered is None else self._delivered.deliver_interrupts,
            self._value,
            first_known if self._learns else self._reduce,
            self._dozes,
        )
        if self._learns and self._value is not None:
            self.result = self._value

    def _statements(self) -> Sequence[Statement]:
        facts = [
            Statement(name, value, thing() if isinstance(thing, functools.partial) else repr(thing))
            for name, value, thing in self._facts
        ]
        return [Statement("the call", self.call, self.call), *facts]

    def _has_exchange(self, outcome: Outcome) -> bool:
        if self._follows is not None:
            return self._follows(outcome)
        return self._confirms or self._reduce is not None or (self._learns and bool(outcome.pending))


@functools.lru_cache(maxsize=256)
def _number_of(*facts: str | int) -> int:
    return digest(facts)


def meet(group: Group, call: str, error: BaseException | None = None) -> None:
    """Wait until all ranks make a call, before one that blocks, or raise an error of one on all. Collective over the group."""
    with agreement(group, call):
        if error is not None:
            raise error


def on_first(group: Group, call: str, work: Callable[[], T], *, open: bool = True) -> T:
    """What the first rank's work returns, or raises, on all ranks. Collective over the group.

    Parameters
    ----------
    group, call, open
        As for `agreement`.
    work : callable
        Called on the first rank; its errors are those of all ranks.
    """
    with agreement(group, call, combine=_of_first, open=open) as agreed:
        if group.rank == 0:
            agreed.give(_outcome(group, work))
    result, error = agreed.result
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _outcome(group: Group, work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    with group.at_work(announces=True):
        try:
            return work(), None
        except Exception as caught:
            return None, caught


def _of_first(values: list[Any]) -> Any:
    return values[0]


# the block has begun, or has ended, and the state is not yet changed
hold_interrupts.own_code |= {agreement.__enter__.__code__, agreement.__exit__.__code__}
