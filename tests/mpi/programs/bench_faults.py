"""Methods that go wrong must be seen to: wrong on one rank, wrong in one element, around a sub-array, right only once."""

from __future__ import annotations

from mpi4py import MPI

from pyscalapack_redist import LibraryError
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.methods import Method, Prepared, read_method
from pyscalapack_redist.tools.bench.rank_case import RankCase
from pyscalapack_redist.tools.bench.timing import Clock, flag_round_trip_ns, nodes_of, run_case
from pyscalapack_redist.tools.cases import Case

COMM = MPI.COMM_WORLD
LAST = 3  # of the ranks that the case uses
METHODS = ("auto", "memcpy", "gather-scatter", "mpi-waitall", "mpi-alltoallv")


def faulty(name: str) -> Method:
    """Does what `auto` does; then something happens."""

    def prepare(rank_case: RankCase) -> Prepared:
        if name == "unprepared":
            raise LibraryError("cannot be prepared")
        return Fault(rank_case, name, read_method("auto").prepare(rank_case))

    def obstacle(case: Case) -> str | None:
        return "rank 1 has an obstacle" if name == "obstacle" and COMM.Get_rank() == 1 else None

    return Method(name, prepare, obstacle)


class Fault(Prepared):
    def __init__(self, rank_case: RankCase, name: str, right: Prepared) -> None:
        super().__init__(rank_case)
        self.name, self.right, self.runs = name, right, 0

    def __call__(self) -> None:
        self.runs += 1
        if self.name == "once" and self.runs > 1:
            return
        self.right()
        out, part = self.rank_case.out, self.rank_case.part_of_b
        if out is not None and part is not None and COMM.Get_rank() == LAST:
            if self.name == "one element":
                part[-1, -1] = 0
            if self.name == "around":
                out[0, 0] = 0

    def profile(self) -> dict[str, float]:
        return {"packed": COMM.Get_rank() + 0.5} if COMM.Get_rank() <= LAST else {}


def wrong_results_are_found() -> None:
    faults = ["one element", "once", "around", "obstacle", "unprepared"]
    methods = [*map(read_method, METHODS), *map(faulty, faults)]
    whole = Case((30, 20), LayoutText.parse("1x2:3x3"), LayoutText.parse("1x3:4x5+1"))
    into_part = Case((30, 20), LayoutText.parse("1x2:3x3"), LayoutText.parse_operand("1x3:4x5+1/40x30@4,6/C"))
    from_part = Case(
        (30, 20), LayoutText.parse_operand("1x2:3x3@0,1/33x41@0,20"), LayoutText.parse_operand("1x3:4x5+1/C")
    )
    ticks: list[int] = []
    for case, one_node in ((whole, False), (into_part, True), (from_part, True)):
        clock = Clock(COMM, one_node)
        result = run_case(case, methods, 2, clock, COMM, lambda: ticks.append(1), profile=True)
        verified = dict.fromkeys(METHODS, True) | dict.fromkeys(faults[:3], False)
        assert {method.name: method.verified for method in result.methods} == verified
        assert result.not_run == {"obstacle": "rank 1 has an obstacle", "unprepared": "cannot be prepared"}
        assert all(len(method.seconds) == 2 and method.least > 0 for method in result.methods)
        assert all(methods == result.methods for methods in COMM.allgather(result.methods))
        profiles = {method.name: method.profile for method in result.methods}
        assert profiles["once"] == {"packed": (0.5, 1.5, 2.5, 3.5)}
        assert profiles["memcpy"] == {}
    assert len(ticks) == 12


def nothing_is_right_before_it_has_run() -> None:
    part = LayoutText.parse_operand("1x3:4x5+1/40x30@4,6/C")
    rank_case = RankCase(Case((30, 20), LayoutText.parse_operand("1x2:3x3/33x41@0,20"), part), COMM)
    for name in (*METHODS, "natural/nonblocking/datatypes"):
        run = read_method(name).prepare(rank_case)
        run.poison()
        assert not all(COMM.allgather(run.correct())), name
        run()
        assert all(COMM.allgather(run.correct())), name
        run.close()
    fresh = read_method("auto").anew().prepare(rank_case)  # a plan for each call
    fresh.poison()
    fresh()
    assert all(COMM.allgather(fresh.correct()))
    fresh.close()


def a_wrong_element_of_a_tile_is_found() -> None:
    """In B's last tile on one rank; and that a list has too few arrays."""
    rank_case = RankCase(Case.read((30, 20), "2x1:3x4", "4:tiles=3x5@1"), COMM)
    run = read_method("auto").prepare(rank_case)
    run()
    assert all(COMM.allgather(run.correct()))
    if COMM.Get_rank() == LAST:
        last = [tile for tile in rank_case.out if tile.size][-1]
        last[-1, -1] *= -1
        assert not run.correct()
        last[-1, -1] *= -1
        assert run.correct()
        assert not rank_case.matches(rank_case.out[:-1])
    run.close()


def main() -> None:
    nodes = nodes_of(COMM)
    assert nodes == [0] * COMM.Get_size()
    wrong_results_are_found()
    nothing_is_right_before_it_has_run()
    a_wrong_element_of_a_tile_is_found()
    assert 1 < flag_round_trip_ns(COMM, nodes) < 1e9
    assert flag_round_trip_ns(COMM, list(range(COMM.Get_size()))) is None
    if COMM.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
