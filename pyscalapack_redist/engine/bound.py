"""What a plan keeps for arrays of one kind, from use to use: a `Bound`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Blend
from .._kernels.bundle import Origins
from .._kernels.call import Call, Kinds
from ..comm.caches import Staging
from ..comm.vote import Outcome, Vote, digest
from ..errors import ArrayError, ScheduleError
from ..exchanges import Exchange, Progress, Run
from ..exchanges.shared import Shared
from ..layout.dtypes import dtype_digest
from ..layout.letters import conjugates
from .local_arrays import Arrays
from .operation import Factors, integer_sum
from .stages import ArrayKind, Move, Stage

# Compared by identity: small integers are single objects. `Factors` handles all other values.
ONE: Any = 1
ZERO: Any = 0

Key = tuple[Any, ...]  # alpha and beta; or the factors of each pair, where they differ
PLAIN: Key = ()  # where alpha is 1 and beta is 0
NUMBERS = frozenset({int, float, complex, np.float32, np.float64, np.complex64, np.complex128})
MOST_BOUNDS = 8  # that a plan keeps
LARGEST_KEPT = 2**20  # bytes of staging memory that a plan keeps between uses
Dtypes = tuple[np.dtype[Any] | None, ...]


class Operands(NamedTuple):
    """The arrays of one call on this rank.

    Attributes
    ----------
    arrays, outs : list
        The user's arrays, one entry for each pair.
    targets : list of ndarray or None
        `outs`, with a new array where the user left it out.
    origins : Origins
        Their addresses.
    kind : ArrayKind
        Their kind, as far as this rank knows.
    dtypes : tuple of dtype or None
        The dtype of each pair; None if this rank does not know it.
    element_order : int or None
        The order of elements in messages that suits them; None if this rank has no arrays.
    factors : tuple of Factors
        alpha and beta of each pair.
    disjoint_arrays : Arrays or None
        With tiles: the places of these arrays, known not to overlap.
    """

    arrays: list[Any]
    outs: list[Any]
    targets: list[NDArray[Any] | None]
    origins: Origins
    kind: ArrayKind
    dtypes: tuple[np.dtype[Any] | None, ...]
    element_order: int | None
    factors: tuple[Factors, ...]
    disjoint_arrays: Arrays | None = None

    def without_arrays(self) -> Operands:
        """Return what is common to all arrays of their kind."""
        return self._replace(arrays=[], outs=[], targets=[], origins=Origins(1))

    @property
    def plain(self) -> bool:
        """Whether elements only move: alpha is 1 and beta is 0."""
        return False not in [factor.trivial for factor in self.factors]

    @property
    def item_bytes(self) -> int:
        """Bytes of the largest element known on this rank."""
        items = self.kind.items
        return items[0] if len(items) == 1 else max(items, default=0)


class StageExchanges(NamedTuple):
    """Stages for arrays of one kind: the exchange of each, and the staging memory that each run takes for itself."""

    exchanges: tuple[Exchange, ...]
    element_order: int
    item_bytes: int
    private_bytes: int

    @property
    def is_reusable(self) -> bool:
        """Whether a run may keep its memory for the next use. Where a ring holds all ranks, a fast path is compiled."""
        if len(self.exchanges) > 1 or not self.item_bytes or self.private_bytes > LARGEST_KEPT:
            return False
        exchange = self.exchanges[0]
        return not isinstance(exchange, Shared) or (exchange.node is not None and not exchange.node.whole)


class ExchangeCache:
    """The exchanges of a plan's stages for arrays of one kind, made when ranks first agree on an order and a size of elements.

    Parameters
    ----------
    stages : sequence of Stage
        The stages.
    memory_limit : int
        Most bytes of staging buffers on this rank.
    factors : sequence of Factors
        alpha and beta of each pair.
    exchange_type : class of Exchange, optional
        Replaces the stages' own exchanges.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        memory_limit: int,
        factors: Sequence[Factors],
        exchange_type: type[Exchange] | None,
    ) -> None:
        self._stages, self._memory_limit, self._factors, self._type = stages, memory_limit, factors, exchange_type
        self._by_key: dict[tuple[Dtypes, int, int], StageExchanges] = {}

    def of(self, kind: ArrayKind, dtypes: Dtypes, element_order: int, item_bytes: int) -> StageExchanges:
        """Return the exchanges for dtypes, an order of elements in messages and the bytes of the largest element."""
        key = dtypes, element_order, item_bytes
        stages = self._by_key.get(key)
        if stages is None:
            stages = make_exchanges(
                self._stages, kind, element_order, item_bytes, self._memory_limit, self._factors, self._type
            )
            while len(self._by_key) >= MOST_BOUNDS:
                del self._by_key[next(iter(self._by_key))]
            self._by_key[key] = stages
        return stages


class Lent:
    """The memory of one use, which a bound lends: what MPI or another rank may touch while it is in flight.

    Parameters
    ----------
    stages : StageExchanges
        The exchanges.
    staging : ndarray
        The staging buffer.
    is_kept : bool
        Whether the next use of such arrays may have it again.

    Attributes
    ----------
    progress : Progress
        The run of the current stage.
    stage : int
        The number of that.
    is_again : bool
        Whether an earlier use had it.
    """

    progress: Progress

    def __init__(self, stages: StageExchanges, staging: NDArray[np.uint8], is_kept: bool) -> None:
        self.stages, self.staging, self.is_kept = stages, staging, is_kept
        self.stage, self.is_again = 0, False

    @property
    def in_turn(self) -> bool:
        """Whether the current stage goes on only when earlier transfers are complete."""
        return self.stages.exchanges[self.stage].in_turn

    @property
    def is_last_stage(self) -> bool:
        """Whether no stage follows."""
        return self.stage + 1 == len(self.stages.exchanges)

    def renew(self, origins: Origins, tag: int | None, spent: dict[str, float] | None) -> None:
        """Prepare the next use, of arrays at other addresses; a series keeps its tag."""
        run, self.is_again = self.progress.run, True
        run.origins, run.addresses, run.spent = origins, origins.pair(0), spent
        if tag is not None:
            run.tag = tag
        self.progress.renew()

    def send_early(self) -> None:
        """Send what may go before the vote is counted."""
        self.progress.send_early()

    def start(self, mark: int = 0) -> None:
        """Start moving, after agreement; `mark` as for `Progress.start`."""
        self.progress.start(self.stages.exchanges[0], mark)

    def start_next(self, run: Run) -> None:
        """Start the next stage."""
        exchange = self.stages.exchanges[self.stage]
        self.progress = exchange.begin(run)
        self.progress.start(exchange)

    def advance(self, block: bool = False) -> bool:
        """Make progress, with `block` waiting a little; True when the stage is complete."""
        return self.progress.advance(block)


class Bound:
    """What a plan keeps for arrays of one kind with one pair of factors.

    Attributes
    ----------
    operands : Operands
        Kind, dtypes and factors, without arrays.
    exchanges : ExchangeCache
        The exchanges.
    dtypes : tuple of dtype or None
        The dtype of each pair as far as all ranks know them; None before ranks have exchanged them.
    dtypes_number : int or None
        A digest of these, in votes, equal on all ranks that know them.
    latest : StageExchanges or None
        The exchanges of the last use; None before the first one, which may be compiled.
    element_order : int
        The order of elements that ranks agreed on in the last use; 0 before the first one.
    kinds : Kinds or None
        Recognizes arrays of this kind. None before the first use, with layouts in between, with tiles, and for dtypes that
        the buffer protocol cannot describe: then all arrays are checked in each use.
    call : Call or None
        The compiled call, in a ring.
    idle : Lent or None
        With exchanges by MPI: the memory of the last use, for the next one.
    vote : Vote or None
        This rank's vote for such arrays, with exchanges by MPI.
    expected : Outcome or None
        The outcome of the last such vote.
    """

    def __init__(self, operands: Operands, exchanges: ExchangeCache, dtypes: Dtypes | None) -> None:
        self.operands, self.exchanges, self.dtypes = operands.without_arrays(), exchanges, dtypes
        self.dtypes_number: int | None = None
        self.latest: StageExchanges | None = None
        self.element_order = 0
        self.forget_use()

    def forget_use(self) -> None:
        """Forget the last use's arrays; keep what is known of their kind."""
        self.kinds: Kinds | None = None
        self.call: Call | None = None
        self.idle: Lent | None = None
        self.vote: Vote | None = None
        self.expected: Outcome | None = None

    def expects(self, outcome: Outcome | None, lent: Lent) -> bool:
        """Whether a vote has the outcome of the last use, and the memory is of that too: another use may have ended since."""
        if self.expected is None or outcome is None or not lent.is_again or lent.stages is not self.latest:
            return False
        return outcome.is_same(self.expected)

    def take_back(self, lent: Lent, staging: Staging) -> None:
        """Keep memory for the next use, or return it: nothing reads or writes it any more."""
        if lent.is_kept and self.kinds is not None and self.latest is lent.stages and self.idle is None:
            self.idle = lent
        else:
            staging.put_back(lent.staging)

    def is_alike(self, operands: Operands) -> bool:
        """Whether it is for arrays like these, with any factors."""
        own, kind = self.operands.kind, operands.kind
        return own is kind or (
            (own.strides, own.unchanged, self.operands.dtypes) == (kind.strides, kind.unchanged, operands.dtypes)
        )

    def take(self, operands: Operands) -> None:
        """Take operands of this kind; forget the last ones if these were checked anew."""
        if self.operands.kind is not operands.kind:
            self.operands = operands.without_arrays()
            self.forget_use()

    def remember_dtypes(self, dtypes: Dtypes, element_order: int) -> None:
        """Remember the dtypes of all ranks for arrays of this kind."""
        number = digest(([None if dtype is None else dtype_digest(dtype) for dtype in dtypes], element_order))
        if number != self.dtypes_number:
            self.forget_dtypes()
        self.dtypes, self.dtypes_number = dtypes, number

    def forget_dtypes(self) -> None:
        """Forget other ranks' dtypes: their arrays may have changed."""
        self.dtypes = self.dtypes_number = self.latest = None
        self.forget_use()

    def latest_exchanges(self) -> StageExchanges | None:
        """Return the exchanges of the last use, which a transfer needs; a compiled call does without."""
        if self.latest is None and self.call is not None and self.dtypes is not None:
            operands = self.operands
            stages = self.exchanges.of(operands.kind, self.dtypes, self.element_order, operands.item_bytes)
            (exchange,) = stages.exchanges
            assert isinstance(exchange, Shared)
            exchange.traffic = self.call.traffic  # the call may have packed some of its chunks
            self.latest = stages
        return self.latest


def factors_key(alpha: Any, beta: Any) -> Key | None:
    """Return the key of bounds with these factors; None if they are of unusual types."""
    if alpha is ONE and beta is ZERO:
        return PLAIN
    if type(alpha) not in NUMBERS or type(beta) not in NUMBERS:
        return None
    return _key(alpha, beta)


def _key(alpha: Any, beta: Any) -> Key:
    """The key of bounds with these factors, equal for all NaN, which are not equal to one another."""
    if alpha != alpha or beta != beta:
        return (repr(complex(alpha)), repr(complex(beta)))
    return PLAIN if (alpha, beta) == (1, 0) else (alpha, beta)


def key_of(operands: Operands) -> Key:
    """Return the key of bounds with the factors of these arrays."""
    alpha, beta, _ = operands.factors[0]
    are_equal = len(operands.factors) == 1 or all(factors[:2] == (alpha, beta) for factors in operands.factors)
    if not are_equal:
        return operands.factors
    return _key(alpha, beta)


def factors_of(factors: Factors, move: Move) -> Factors:
    """Return the factors of one move of a pair: alpha and beta apply in the pair's last move."""
    conjugate = conjugates(move.op)
    if not move.last:
        return Factors(1, 0, conjugate)
    return factors if factors.conjugate == conjugate else factors._replace(conjugate=conjugate)


def blend_of(factors: Factors, move: Move, dtype: np.dtype[Any]) -> Blend | None:
    """Return the kernels' operation on elements of a dtype in one move of a pair.

    Raises
    ------
    ArrayError
        The factors do not apply to the dtype.
    """
    own = factors_of(factors, move)
    if not move.adds:
        return own.blend(dtype)
    return integer_sum(dtype) if dtype.kind in "iu" else own.adding.blend(dtype)


def make_exchanges(
    stages: Sequence[Stage],
    kind: ArrayKind,
    element_order: int,
    item_bytes: int,
    memory_limit: int,
    factors: Sequence[Factors],
    exchange_type: type[Exchange] | None = None,
) -> StageExchanges:
    """Bind stages to arrays of one kind, with their own exchanges or with `exchange_type`.

    Raises
    ------
    ArrayError
        The memory limit is too small for an element.
    ScheduleError
        MPI's datatypes cannot multiply or conjugate elements.
    """
    exchanges = tuple([stage.make_exchange(kind, element_order, item_bytes, exchange_type) for stage in stages])
    private = 0
    for exchange in exchanges:
        if exchange.buffers.name == "datatypes" and any(any(by_op.values()) for by_op in kind.blends):
            ops = [op for by_op in kind.blends for (op, *_), blend in by_op.items() if blend]
            raise ScheduleError(
                f"{factors[0]}, op = {ops[0]}: with buffers = 'datatypes' MPI moves elements as they are; "
                "use buffers='packed'"
            )
        needed = exchange.staging_bytes
        if needed > memory_limit:
            subject = f"elements of {item_bytes} bytes"
            if len(kind.items) > 1:
                subject = f"a batch of {len(kind.items)} plans with such elements"
            raise ArrayError(
                f"memory_limit = {memory_limit} bytes is too small for {subject}: at least {needed} are needed"
            )
        private = max(private, exchange.private_bytes)
    return StageExchanges(exchanges, element_order, item_bytes, private)
