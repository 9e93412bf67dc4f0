from collections.abc import Callable, Sequence
from typing import Any

from .bundle import Origins
from .ring import RingVoting, Tickets, Vote
from .transport import Traffic

class Kinds:
    count: int
    def __init__(self, arrays: list[Any], outs: list[Any], makes: list[Callable[..., Any] | None]) -> None: ...
    def match(self, arrays: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], Origins] | None: ...

class LastRun:
    seconds: float | None

class Call:
    traffic: Traffic
    begun: bool
    def __init__(
        self,
        traffic: Traffic,
        kinds: Kinds,
        vote: Vote,
        item: int,
        check_peers: Callable[[], None],
        tickets: Tickets,
        listed: bool,
        proceed: Callable[[Call, Any, Any], Any],
        hold: Callable[[], Any],
        last_run: LastRun,
    ) -> None: ...
    def __call__(self, a: Any, out: Any) -> Any: ...
    def hand_over(self) -> tuple[RingVoting, Traffic | None, list[Any], Origins]: ...
