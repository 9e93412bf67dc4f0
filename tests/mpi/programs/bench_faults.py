"""Methods that go wrong must be seen to: wrong on one rank, wrong in one element, right once and then never again."""

from __future__ import annotations

from mpi4py import MPI

from pyscalapack_redist import LibraryError
from pyscalapack_redist.bench.benchmark import run_case
from pyscalapack_redist.bench.case import Case
from pyscalapack_redist.bench.clock import Clock
from pyscalapack_redist.bench.environment import nodes_of
from pyscalapack_redist.bench.flag import flag_round_trip_ns
from pyscalapack_redist.bench.layout import Layout
from pyscalapack_redist.bench.methods import Method, Prepared, read_method
from pyscalapack_redist.bench.stage import Stage

COMM = MPI.COMM_WORLD
LAST = 3  # of the ranks that the case uses


class Faulty(Method):
    """Does what `auto` does; then something happens."""

    def __init__(self, name: str) -> None:
        self.name = name

    def obstacle(self, case: Case) -> str | None:
        return "rank 1 has an obstacle" if self.name == "obstacle" and COMM.Get_rank() == 1 else None

    def prepare(self, stage: Stage) -> Prepared:
        if self.name == "unprepared":
            raise LibraryError("cannot be prepared")
        return Fault(stage, self.name, read_method("auto").prepare(stage))


class Fault(Prepared):
    def __init__(self, stage: Stage, name: str, right: Prepared) -> None:
        super().__init__(stage)
        self.name, self.right, self.runs = name, right, 0

    def __call__(self) -> None:
        self.runs += 1
        if self.name == "once" and self.runs > 1:
            return
        self.right()
        out = self.stage.out
        if out is not None and COMM.Get_rank() == LAST and self.name == "one element":
            out[-1, -1] = 0


def main() -> None:
    names = ["auto", "memcpy", "gather-scatter"]
    methods = [Faulty("one element"), Faulty("once"), Faulty("obstacle"), Faulty("unprepared")]
    nodes = nodes_of(COMM)
    assert nodes == [0] * COMM.Get_size()
    case = Case((30, 20), Layout.parse("1x2:3x3"), Layout.parse("1x3:4x5+1"))
    ticks: list[int] = []
    for one_node in (True, False):
        clock = Clock(COMM, one_node)
        result = run_case(case, [*map(read_method, names), *methods], 2, clock, COMM, lambda: ticks.append(1))
        assert {one.name: one.verified for one in result.methods} == {
            "auto": True,
            "memcpy": True,
            "gather-scatter": True,
            "one element": False,
            "once": False,
        }
        assert result.not_run == {"obstacle": "rank 1 has an obstacle", "unprepared": "cannot be prepared"}
        assert all(len(one.seconds) == 2 and one.least > 0 for one in result.methods)
        assert len(set(COMM.allgather(result.methods))) == 1
    assert len(ticks) == 8
    trip = flag_round_trip_ns(COMM, nodes)
    assert trip is not None
    assert 1 < trip < 1e9
    assert flag_round_trip_ns(COMM, list(range(COMM.Get_size()))) is None
    assert flag_round_trip_ns(MPI.COMM_SELF, [0]) is None
    if COMM.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
