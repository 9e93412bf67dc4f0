from .bundle import Bundle, Origins
from .ring import Ring
from .stores import Stores

class Traffic:
    ring: Ring
    stores: Stores
    bytes_used: int
    def __init__(
        self,
        ring: Ring,
        sends: list[tuple[int, Bundle]],
        receives: list[tuple[int, Bundle]],
        copies: list[Bundle],
        *,
        limit: int,
        most_slots: int,
        stores: Stores,
        shortest: int,
    ) -> None: ...
    def begin(self, origins: Origins, mark: int = 0, timed: bool = False) -> None: ...
    def withdraw(self) -> None: ...
    def spent(self) -> tuple[float, float, float]: ...
    def advance(self, block: bool) -> bool: ...
