"""Linear algebra, ScaLAPACK's routines, contexts and redistributions beside a real ScaLAPACK and NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import SEED, run

from pyscalapack_redist.linalg.rates import FAMILIES, VARIABLE

PROGRAMS = Path(__file__).parent / "programs"
LONG = pytest.mark.long


@pytest.fixture(scope="session", name="rates")
def files_of_rates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Variables of the environment with which linalg works on a grid wherever it can, on one process, or in slabs of rows."""
    folder, variables = tmp_path_factory.mktemp("rates"), {}
    for name, numbers in (("grid", [1.0, 1e30, 0.0]), ("one process", [1e30, 1.0, 0.0]), ("slabs", [1.0, 0.0, 0.0])):
        path = folder / f"{name.replace(' ', '-')}.json"
        path.write_text(json.dumps(dict.fromkeys(FAMILIES, numbers)))
        variables[name] = {VARIABLE: str(path)}
    return variables


@pytest.mark.parametrize(
    ("where", "ranks", "first", "rounds", "stride"),
    [
        *(("one process", 1, 0, 1, 1), ("one process", 3, 0, 1, 3), ("grid", 2, 0, 1, 2), ("grid", 4, 0, 1, 3)),
        *(("slabs", 2, 0, 1, 5), pytest.param("slabs", 3, 1, 1, 1, marks=LONG), pytest.param("slabs", 6, 2, 1, 2, marks=LONG)),
        *(pytest.param("one process", n, 1, rounds, 1, marks=LONG) for n, rounds in ((1, 4), (2, 3), (4, 2))),
        *(pytest.param("grid", n, 1, rounds, 1, marks=LONG) for n, rounds in ((2, 4), (3, 3), (4, 2), (6, 1))),
    ],
)
def test_routines_of_linalg(
    where: str, ranks: int, first: int, rounds: int, stride: int, rates: dict[str, dict[str, str]]
) -> None:
    program = PROGRAMS / "linalg_table.py"
    assert run(program, ranks, first, rounds, stride, timeout=250, env=rates[where]).stdout == "OK\n"


@pytest.mark.parametrize(
    ("where", "ranks", "cases"),
    [
        *(("one process", 1, 240), ("grid", 2, 120), ("slabs", 2, 200)),
        *(pytest.param("grid", n, 3600 // n**2, marks=LONG) for n in (2, 4)),
        *(pytest.param("one process", n, 3600 // n, marks=LONG) for n in (1, 2)),
        *(pytest.param("slabs", n, 2400 // n, marks=LONG) for n in (2, 4)),
    ],
)
def test_planted_faults_are_found(where: str, ranks: int, cases: int, rates: dict[str, dict[str, str]]) -> None:
    program = PROGRAMS / "planted_faults.py"
    assert run(program, ranks, cases, SEED + cases, timeout=250, env=rates[where]).stdout == "OK\n"


@pytest.mark.parametrize(
    ("where", "ranks", "first", "cases"),
    [
        ("one process", 1, 0, 112),
        ("grid", 2, 112, 28),
        *(pytest.param("one process", n, 200, cases, marks=LONG) for n, cases in ((1, 1800), (2, 600))),
        *(pytest.param("grid", n, 200, cases, marks=LONG) for n, cases in ((2, 1200), (4, 600))),
    ],
)
def test_garbage_in_what_is_not_read(
    where: str, ranks: int, first: int, cases: int, rates: dict[str, dict[str, str]]
) -> None:
    assert run(PROGRAMS / "unread.py", ranks, first, cases, timeout=250, env=rates[where]).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "nodes"), [(1, ""), (2, ""), (3, "0,1,0"), *(pytest.param(n, "", marks=LONG) for n in (3, 4))]
)
def test_one_process(ranks: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else None
    assert run(PROGRAMS / "one_process.py", ranks, timeout=120, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, 3, *(pytest.param(n, marks=LONG) for n in (4, 6))])
def test_slabs_of_rows(ranks: int, rates: dict[str, dict[str, str]]) -> None:
    assert run(PROGRAMS / "slabs_of_rows.py", ranks, env=rates["slabs"]).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=LONG)])
def test_calls_of_linalg(ranks: int, rates: dict[str, dict[str, str]]) -> None:
    assert run(PROGRAMS / "linalg_calls.py", ranks, env=rates["grid"]).stdout == "OK\n"


@pytest.mark.parametrize(
    ("where", "ranks", "nodes", "kind", "first", "stride"),
    [
        *(("grid", 2, "", "lines", 5, 331), ("one process", 2, "", "lines", 7, 331)),
        *(("grid", 2, "0,1", "allocations", 3, 83), ("new", 2, "", "lines", 400, 409)),
        *(("slabs", 2, "", "lines", 3, 97), ("slabs", 2, "", "allocations", 1, 5)),
        *(pytest.param("slabs", n, "", "lines", 0, 11, marks=LONG) for n in (2, 4)),
        *(pytest.param("grid", 2, nodes, "allocations", 0, 1, marks=LONG) for nodes in ("", "0,1")),
        *(pytest.param(where, 2, "", "lines", 0, 7, marks=LONG) for where in ("grid", "one process")),
        pytest.param("new", 2, "", "lines", 0, 41, marks=LONG),
        *(pytest.param("grid", 4, nodes, "lines", 3, 41, marks=LONG) for nodes in ("", "0,0,1,1")),
    ],
)
def test_an_error_of_one_rank_is_one_of_all(
    where: str, ranks: int, nodes: str, kind: str, first: int, stride: int, rates: dict[str, dict[str, str]]
) -> None:
    """The limit of time makes an error of a wait for ever."""
    variables = {"PYSCALAPACK_REDIST_TIMEOUT": "20", "PYSCALAPACK_REDIST_NODES": nodes}
    env = rates["grid" if where == "new" else where] | variables
    program = PROGRAMS / "errors_of_one_rank.py"
    assert run(program, ranks, where, kind, first, stride, timeout=600, env=env).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "stride"),
    [(2, 199), *(pytest.param(n, stride, marks=LONG) for n, stride in ((1, 3), (2, 7), (4, 47), (6, 149)))],
)
def test_products_need_no_library(ranks: int, stride: int, tmp_path: Path, rates: dict[str, dict[str, str]]) -> None:
    """Alone: an earlier program may have loaded one."""
    nothing = {"PYSCALAPACK_REDIST_LIBRARY": str(tmp_path / "none.so"), **rates["grid"]}
    done = run(PROGRAMS / "products.py", ranks, stride, timeout=250, env=nothing, alone=True)
    assert done.stdout == "OK\n"


@pytest.mark.parametrize("lacking", [(), ("memory",)])
def test_a_library_that_one_rank_lacks(lacking: tuple[str, ...]) -> None:
    """Alone: an earlier program may have loaded one. Without rates of a file, which would save the trial."""
    env = {"PYSCALAPACK_REDIST_TIMEOUT": "20"}
    assert run(PROGRAMS / "library_of_some.py", 2, *lacking, timeout=100, env=env, alone=True).stdout == "OK\nOK\n"


@pytest.mark.parametrize(
    ("ranks", "cases"), [(1, 35), (2, 21), (3, 14), *(pytest.param(n, 700 // n, marks=LONG) for n in (1, 2, 3, 4))]
)
def test_stacks(ranks: int, cases: int, rates: dict[str, dict[str, str]]) -> None:
    assert run(PROGRAMS / "stacks.py", ranks, cases, SEED, timeout=250, env=rates["one process"]).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, *(pytest.param(n, marks=LONG) for n in (4, 6))])
def test_routines(ranks: int) -> None:
    assert run(PROGRAMS / "routines.py", ranks).stdout == "OK\n"


@pytest.mark.parametrize(("ranks", "rounds"), [(1, 10), (2, 10), pytest.param(4, 300, marks=LONG)])
def test_threads_one_at_a_time(ranks: int, rounds: int, rates: dict[str, dict[str, str]]) -> None:
    assert run(PROGRAMS / "threads.py", ranks, rounds, env=rates["grid"]).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "first", "stride"),
    [
        (1, 3, 9),
        (2, 5, 41),
        *(pytest.param(n, 0, stride, marks=LONG) for n, stride in ((1, 1), (2, 2), (4, 4), (6, 9))),
    ],
)
def test_small_matrices_in_blocks_of_all_sizes(ranks: int, first: int, stride: int) -> None:
    assert run(PROGRAMS / "sweep.py", ranks, first, stride, timeout=250).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "first", "stride"),
    [(1, 80, 21), *(pytest.param(n, 3, stride, marks=LONG) for n, stride in ((1, 1), (2, 5), (4, 11)))],
)
def test_what_the_blas_has_left_is_not_taken(ranks: int, first: int, stride: int) -> None:
    """OpenBLAS's kernels for processors without AVX2 take it."""
    kernels = {"OPENBLAS_CORETYPE": "Prescott"}
    assert run(PROGRAMS / "sweep.py", ranks, first, stride, "after-nans", timeout=250, env=kernels).stdout == "OK\n"


@pytest.mark.parametrize("cycles", [20, pytest.param(2000, marks=LONG)])
def test_contexts_and_nine_integers(cycles: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "contexts.py", 4, tmp_path, cycles, timeout=200).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        (2, 160),
        (4, 120),
        *(pytest.param(n, cases, marks=LONG) for n, cases in ((1, 900), (2, 900), (4, 600), (6, 300))),
    ],
)
def test_redistributions_are_those_of_scalapack(ranks: int, cases: int) -> None:
    program = PROGRAMS / "against_scalapack.py"
    assert run(program, ranks, cases, SEED + ranks, timeout=250).stdout == "OK\n"


@pytest.mark.long
def test_a_context_of_another_file(tmp_path: Path) -> None:
    """Alone: its number must not be that of a context which an earlier program has left."""
    said = run(PROGRAMS / "other_library.py", 2, tmp_path, alone=True).stdout
    assert said in ("OK\n", "MKL\n")
    if said == "MKL\n":
        pytest.skip("MKL's files cannot be loaded two times")


@pytest.mark.parametrize(("what", "succeeds"), [("solve, overwrite", True), ("solve", False)])
def test_memory_of_a_solve_in_a_control_group(what: str, succeeds: bool, control_group: Path) -> None:
    program = Path(__file__).parents[1] / "mpi" / "programs" / "consumed.py"
    done = run(program, 2, "limited", control_group, what, check=False, alone=True)
    assert (done.returncode == 0) == (done.stdout == "OK\n") == succeeds, done
    if not succeeds:
        assert "overwrite=True" in done.stderr
