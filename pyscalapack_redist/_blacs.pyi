import numpy as np
from numpy.typing import NDArray

ENTRY_POINTS: tuple[str, ...]

class Entries:
    library: str
    def __init__(self, addresses: dict[str, int], library: str) -> None: ...
    def system_handle(self, communicator: int) -> int: ...
    def free_system_handle(self, handle: int) -> None: ...
    def gridinit(self, handle: int, order: str, nprow: int, npcol: int) -> int: ...
    def gridmap(self, handle: int, ranks: NDArray[np.intc]) -> int: ...
    def gridexit(self, ctxt: int) -> None: ...
    def gridinfo(self, ctxt: int) -> tuple[int, int, int, int]: ...
    def context_handle(self, ctxt: int) -> int: ...
    def context_communicator(self, ctxt: int) -> int: ...
    def pnum(self, ctxt: int, row: int, column: int) -> int: ...
    def gemr2d(
        self,
        kind: str,
        m: int,
        n: int,
        a: int,
        ia: int,
        ja: int,
        desca: NDArray[np.intc],
        b: int,
        ib: int,
        jb: int,
        descb: NDArray[np.intc],
        ctxt: int,
    ) -> None: ...
    def trmr2d(
        self,
        kind: str,
        uplo: str,
        diag: str,
        m: int,
        n: int,
        a: int,
        ia: int,
        ja: int,
        desca: NDArray[np.intc],
        b: int,
        ib: int,
        jb: int,
        descb: NDArray[np.intc],
        ctxt: int,
    ) -> None: ...
    def getrf(
        self,
        kind: str,
        m: int,
        n: int,
        a: int,
        ia: int,
        ja: int,
        desca: NDArray[np.intc],
        pivots: NDArray[np.intc],
    ) -> int: ...
    def getrs(
        self,
        kind: str,
        trans: str,
        n: int,
        nrhs: int,
        a: int,
        ia: int,
        ja: int,
        desca: NDArray[np.intc],
        pivots: NDArray[np.intc],
        b: int,
        ib: int,
        jb: int,
        descb: NDArray[np.intc],
    ) -> int: ...
