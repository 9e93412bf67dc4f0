"""The command line: what it refuses and what it says, `info`, and life without rich, ScaLAPACK or MPI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyscalapack_redist.tools import cli

CASE = ["bench", "--shape", "64", "64", "--from", "1x2:16x16", "--to", "2x1:16x16"]


@pytest.fixture
def speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep MPI out of this process."""
    monkeypatch.setattr(cli, "_speaks", lambda: True)


def copies_in(command: str) -> list[str]:
    """A command line with copies."""
    return [command, "--shape", "20", "8", "--from", "2x1x2c:5x4", "--to", "2x2:3x3"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.usefixtures("speaking")
@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["COMMAND"]),
        (["plan"], ["--shape, --from, --to"]),
        (["show", "2x3:2x2"], ["--shape"]),
        (["show", "2x3", "--shape", "9", "9"], ["'2x3'", "PRxPC:MBxNB"]),
        (["show", "2x3:2x2", "--shape", "9"], ["--shape, LAYOUT", "2 dimensions"]),
        (["show", "2x3:2x2", "--shape", "9", "9", "--plot", "x.nope"], ["--plot x.nope", "png"]),
        (
            ["show", "2x1:3,4x2", "--shape", "12", "2"],
            ["--shape, LAYOUT", "blocks of 7 elements along dimension 0, which has 12"],
        ),
        (
            ["show", "2x1:3q4x2", "--shape", "7", "2"],
            ["'3q4x2'", "or the sizes of all blocks, as 9,4,7 or 9p2,4p0,7p2"],
        ),
        (copies_in("plan"), ["--from 2x1x2c:5x4", "plan is for layouts without copies", "bench times it"]),
        ([*copies_in("simulate"), "--rate", "1gbit"], ["--from 2x1x2c:5x4", "simulate is for layouts without copies"]),
        (["plot"], ["invalid choice: 'plot'"]),
        (["bench"], ["--shape, --from, --to missing", "--suite"]),
        (["bench", "--shape", "3", "3"], ["--from, --to missing"]),
        (["bench", "--suite", "nope"], ["--suite", "'nope'", "demo", "facts"]),
        (["bench", "--suite", "demo", "--shape", "3", "3"], ["--shape and --suite"]),
        ([*CASE[:4], "--from", "1x2", "--to", "2x1:16x16"], ["argument --from", "'1x2'", "PRxPC:MBxNB"]),
        ([*CASE[:4], "--from", "1x2:3x3", "--to", "2x1:16"], ["argument --to", "block size '16'"]),
        (["bench", "--shape", "64", *CASE[4:]], ["--shape", "2 dimensions"]),
        (["bench", "--shape", "-3", "64", *CASE[4:]], ["argument --shape", "'-3'", "at least 0"]),
        ([*CASE, "--dtype", "quux"], ["argument --dtype", "'quux'", "float64"]),
        ([*CASE, "--methods", "auto,nope"], ["argument --methods", "'nope'", "SCHEDULE/EXCHANGE"]),
        ([*CASE, "--methods", "nope/sendrecv"], ["argument --methods", "'nope'", "caterpillar"]),
        ([*CASE, "--repeat", "0"], ["argument --repeat", "'0'", "at least 1"]),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], arguments: list[str], parts: list[str]) -> None:
    text = refused(capsys, *arguments)
    assert text.startswith("pyscalapack-redist: error: ")
    for part in parts:
        assert part in text


def test_other_ranks_say_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "_speaks", lambda: False)
    assert cli.run(["bench"]) == 2
    assert cli.run(["info"]) == 0
    assert cli.run(["bench", "--help"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("speaking")
def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "PRxPC:MBxNB[@RSRC,CSRC][+FIRST]" in text
    assert "--compare OLD.json" in text


# -- in a process of its own, outside mpiexec


def alone(*arguments: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    program = f"{code}\nfrom pyscalapack_redist.tools.cli import main\nmain()"
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{last}": "1" for last in ("", "_CONFIRM")}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **root, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def headed(text: str) -> dict[str, list[str]]:
    """The lines below each heading."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(" "):
            found[list(found)[-1]].append(line.strip())
        else:
            found[line] = []
    return found


def test_info() -> None:
    done = alone("info")
    assert done.returncode == 0, done.stderr
    told = headed(done.stdout)
    assert any("numpy" in line for line in told["versions"])
    assert any(line.startswith("/") for line in told["MPI"])
    assert any("ScaLAPACK" in line for line in told["ScaLAPACK"])
    memfd, posix = told["memory shared by the ranks of a node"]
    assert memfd.startswith("memfd")
    assert "/dev/shm" in posix
    assert told["cores"][0].startswith(str(os.cpu_count()))


def test_info_without_scalapack() -> None:
    done = alone("info", PYSCALAPACK_REDIST_LIBRARY="/nowhere/libscalapack.so")
    assert done.returncode == 0, done.stderr
    first, *rest = headed(done.stdout)["ScaLAPACK"]
    assert first.startswith("missing")
    assert "/nowhere/libscalapack.so" in " ".join(rest)
    assert "install" in " ".join(rest)


def test_info_says_that_mpi_does_not_start(tmp_path: Path) -> None:
    code = "import sys, os; os.write(2, b'-----\\nit cannot be\\n'); os._exit(9)"
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport os, sys\nif 'mpi4py' in sys.argv[-1]:\n    {code}\n")
    python.chmod(0o755)
    done = alone("info", code=f"import sys; sys.executable = {str(python)!r}", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    told = headed(done.stdout)
    assert any(line.startswith("/") for line in told["MPI"])
    start = next(k for k, line in enumerate(told["MPI"]) if line.startswith("does not start outside mpiexec"))
    assert "status 9" in told["MPI"][start]
    assert told["MPI"][start + 1] == "it cannot be"
    assert "mpiexec" in told["MPI"][start + 2]
    assert told["ScaLAPACK"]
    assert told["command line"]


def test_info_without_the_programs_of_mpi(tmp_path: Path) -> None:
    """Open MPI 4 does not find orted, MPICH needs nothing; info tells all that it has to."""
    done = alone("info", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    told = headed(done.stdout)
    assert ("Open MPI 4 needs orted and ssh or rsh on PATH" in done.stdout) == any(
        line.startswith("Open MPI v4") for line in told["MPI"]
    )
    assert told["command line"]


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_info_for_a_reader_that_stops(lines: int) -> None:
    program = [sys.executable, "-m", "pyscalapack_redist", "info"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        for _ in range(lines):
            started.stdout.readline()
        started.stdout.close()
        assert started.stderr.read() == b""
        assert started.wait(60) in (0, 141)


def test_without_mpi() -> None:
    nowhere = {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}
    done = alone("info", **nowhere)
    assert done.returncode == 0, done.stderr
    assert "missing: mpi4py cannot start an MPI" in " ".join(headed(done.stdout)["MPI"])
    done = alone("bench", "--suite", "demo", **nowhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bench needs an MPI" in done.stderr


@pytest.mark.parametrize(
    ("name", "arguments"), [("rich", []), ("matplotlib", ["--plot", "bars.png"])], ids=["rich", "matplotlib"]
)
def test_the_extra_is_asked_for_when_it_is_needed(name: str, arguments: list[str]) -> None:
    code = f"import sys; sys.modules['{name}'] = None"
    case = ["bench", "--shape", "9", "9", "--from", "1x1:2x2", "--to", "1x1:3x3"]
    done = alone(*case, *arguments, code=code)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"bench needs {name}" in done.stderr
    assert "pip install '.[cli]' in the source tree" in done.stderr
    assert "missing: " + name in alone("info", code=code).stdout


def test_a_benchmark_on_one_rank_needs_no_mpiexec() -> None:
    done = alone("bench", "--shape", "9", "9", "--from", "1x1:2x2", "--to", "1x1:3x3", "--methods", "auto,memcpy")
    assert done.returncode == 0, done.stderr
    assert "| auto " in done.stdout


PLAN = ["plan", "--from", "2x2:64x64", "--to", "4x1:32x32"]


def command(
    arguments: list[str], env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyscalapack_redist", *arguments],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(env or {})},
        **options,
    )


def test_files_are_written_for_a_reader_that_stops_at_once(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    files = [tmp_path / "plan.json", tmp_path / "plan.png"]
    done = command([*PLAN, "--shape", "1e3x1000", "--json", str(files[0]), "--plot", str(files[1])], stdout=write)
    os.close(write)
    assert done.returncode
    assert done.stderr == ""
    assert json.loads(files[0].read_text())["shape"] == [1000, 1000]
    assert files[1].stat().st_size


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("simulate --shape 10 12 --from 1000000x1000000:1x1 --to 2x2:2x2 --rate 1gbit", "not enough memory"),
        ("plan --shape 10 12 --from 1x1:4611686018427387904x1 --to 1x1:1x1", "messages, more than"),
        ("plan --shape 10 12 --from 1x1:1x1 --to 1x1:1x1 --dtype ,", "is not a NumPy dtype"),
        ("simulate --shape 10 12 --from 1x1:1x1 --to 1x1:1x1 --rate 1gbit --dtype ,", "is not a NumPy dtype"),
    ],
)
def test_what_is_too_large_or_no_dtype_is_told(line: str, words: str) -> None:
    done = command(line.split(), stdout=subprocess.PIPE)
    assert "Traceback" not in done.stderr
    assert words in done.stdout + done.stderr
    assert done.stderr.count("\n") <= 1


def test_without_standard_output(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "pyscalapack_redist"]
    done = subprocess.run(
        [*closed, *PLAN, "--shape", "100", "100", "--json", str(file)], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(file.read_text())["shape"] == [100, 100]


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = command([*PLAN, "--shape", "100", "100"], stdout=full)
    assert done.returncode == 2
    assert done.stderr == "pyscalapack-redist: error: the output cannot be written: No space left on device\n"
    done = command([*PLAN, "--shape", "100", "100", "--json", "/dev/full"], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == "pyscalapack-redist: error: --json /dev/full: it cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [*PLAN, "--shape", "100", "100"],
        ["show", "2x2:8x8", "--shape", "30", "30"],
        ["simulate", *PLAN[1:], "--shape", "100", "100", "--rate", "10gbit"],
    ],
    ids=["plan", "show", "simulate"],
)
def test_a_picture_that_cannot_be_written_is_told(arguments: list[str], tmp_path: Path) -> None:
    full = tmp_path / "full.png"
    full.symlink_to("/dev/full")
    done = command([*arguments, "--plot", str(full)], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == f"pyscalapack-redist: error: --plot {full}: it cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours_are_those_of_the_environment(variables: dict[str, str], coloured: bool) -> None:
    env = {"TERM": "xterm-256color", "FORCE_COLOR": "", **variables}
    done = command(["show", "2x2:8x8", "--shape", "30", "30"], env, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert ("\x1b[" in done.stdout and ";5;" in done.stdout) == coloured


def test_the_width_is_that_of_columns() -> None:
    done = command([*PLAN, "--shape", "100x100"], {"COLUMNS": "60"}, stdout=subprocess.PIPE)
    assert done.returncode == 0
    prose = [line for line in done.stdout.splitlines() if not line.startswith("|")]
    assert max(map(len, prose)) <= 60
    said = command(["info"], {"COLUMNS": "50"}, stdout=subprocess.PIPE).stdout.splitlines()
    assert not [line for line in said if len(line) > 50 and " " in line.strip()]


def test_a_picture_of_a_layout_is_drawn_for_a_reader_that_stops_at_once(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command(["show", "2x2:8x8", "--shape", "100", "100", "--plot", str(tmp_path / "layout.png")], stdout=write)
    os.close(write)
    assert (tmp_path / "layout.png").stat().st_size


@pytest.mark.parametrize("size", ["100000000000000000000", "1e20", "5e18x10"])
def test_a_size_that_no_array_has_is_told(size: str) -> None:
    done = command([*PLAN, "--shape", size, "10"], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert "must be at most 2**62" in done.stderr
    assert "Traceback" not in done.stderr
