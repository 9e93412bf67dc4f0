from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN: int
RULES: dict[str, str]

def bytes_needed(size: int, area: int) -> int: ...

class SharedMemory:
    def __init__(self, file: int, size: int) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Tickets:
    drawn: int

class Vote:
    wide: bool
    def __init__(self, **fields: int | None) -> None: ...
    def numbers(self, into: NDArray[np.int64]) -> None: ...

class Outcome:
    failed: int
    pending: int
    call: int | None
    dtype: int | None
    item: int
    order: int
    packed: int | None
    source: int | None
    target: int | None
    side: int | None
    returns: int | None
    notifies: int | None
    @staticmethod
    def of(vote: Vote, numbers: NDArray[np.int64]) -> Outcome: ...
    def is_same(self, other: Outcome) -> bool: ...
    @property
    def disputed(self) -> list[str]: ...

class Ring:
    rank: int
    size: int
    area: int
    spins: int
    timeout_ns: int
    closed: bool
    posted: int
    counted: int
    def __init__(self, memory: Any, rank: int, size: int, area: int, spins: int) -> None: ...
    def streams_by_rank(self) -> list[bool | None]: ...
    def missing(self) -> list[int]: ...
    def abort(self) -> None: ...
    def aborted_by(self) -> int | None: ...
    def end(self, ticket: int) -> None: ...
    def ended_before(self, ticket: int) -> int | None: ...

class RingVoting:
    number: int
    outcome: Outcome | None
    def __init__(
        self, ring: Ring, vote: Vote, posted: bool = False, outcome: Outcome | None = None
    ) -> None: ...
    def post(self) -> bool: ...
    def test(self, block: bool = False) -> bool: ...
