"""The command line: what it refuses and what it says; `show` and `info`; life without rich, ScaLAPACK, MPI or a reader."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import pyscalapack_redist as psr
from pyscalapack_redist import DescriptorError
from pyscalapack_redist.drawing.svg import colour_of
from pyscalapack_redist.engine.options import checked_memory
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools import cli
from pyscalapack_redist.tools.arguments import bytes_per_second, read_duration, read_size
from pyscalapack_redist.tools.layout_text import read_side

BENCH = ["bench", "--shape", "64", "64", "--from", "1x2:16x16", "--to", "2x1:16x16"]
PLAN = ["plan", "--shape", "64", "--from", "4:3", "--to", "3:5"]
SHOW = ["show", "2x3:2x2", "--shape", "9", "9"]
COPIES = ["--shape", "20", "8", "--from", "2x1x2c:5x4", "--to", "2x2:3x3"]


@pytest.fixture
def speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep MPI out of this process."""
    monkeypatch.setattr(cli, "_is_printing_rank", lambda: True)


@pytest.mark.usefixtures("speaking")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (SHOW[:4], ["--shape, LAYOUT", "2 dimensions"]),
        ([*SHOW, "--plot", "x.nope"], ["--plot x.nope", "png"]),
        (["show", "2x1:3,4x2", "--shape", "12", "2"], ["--shape, LAYOUT", "blocks of 7 elements along dimension 0"]),
        (
            ["show", "1000000000x1000000000:8x8", "--shape", "100", "100"],
            ["has 1000000000000000000 processes: show takes 10000000 at most"],
        ),
        (["plan"], ["required: --shape, --from, --to"]),
        (["plan", *COPIES], ["--from 2x1x2c:5x4", "plan is for layouts without replicas", "bench times it"]),
        (
            ["plan", "--shape", "64", "--model", "ts=1,tw=1"],
            ["--model: sweeps by the model", "python benchmarks/sweeps.py"],
        ),
        ([*PLAN, "--processes", "4"], ["--processes: sweeps by the model", "--rate and --latency"]),
        ([*PLAN, "--rate", "10"], ["argument --rate", "'10'", "50mbit"]),
        ([*PLAN, "--schedule", "auto"], ["argument --schedule: schedule = 'auto' leaves the choice to redistribute"]),
        ([*PLAN, "--schedule", "walker-otto"], ["--schedule walker-otto: schedule = 'walker-otto' needs"]),
        ([*PLAN, "--time-limit", "0"], ["argument --time-limit", "'0'", "above 0"]),
        ([*PLAN, "--dtype", ","], ["is not a NumPy dtype"]),
        ([*PLAN, "--json", "/nowhere/plan.json"], ["--json /nowhere/plan.json"]),
        ([*PLAN, "--json", "/dev/full"], ["--json /dev/full: it cannot be written: No space left on device"]),
        (["plan", "--shape", "8", "--from", "600:3", "--to", "3:5", "--plot", "plan.png"], ["--plot", "600 x 3"]),
        (["plan", "--shape", "5e9", "5e9", "--from", "4x4:8x8", "--to", "2x8:3x3"], ["has 2^63 bytes or more"]),
        (["plan", "--shape", "1" + "0" * 20, *PLAN[3:]], ["must be at most 2**62"]),
        (["plan", "--shape", "10", "12", "--from", f"{10**6}x{10**6}:1x1", "--to", "2x2:2x2"], ["not enough memory"]),
        (["simulate", "--shape", "9"], ["simulate is in the sources: python benchmarks/simulate.py, with the same"]),
        (["bench"], ["--shape, --from, --to missing", "--suite"]),
        (["bench", "--suite", "nope"], ["--suite", "'nope'", "demo", "facts"]),
        (["bench", "--suite", "demo", "--shape", "3", "3"], ["--shape and --suite"]),
        ([*BENCH, "--to", "2x1:16"], ["argument --to", "block size '16'"]),
        (["bench", "--shape", "64", *BENCH[4:]], ["--shape", "2 dimensions"]),
        (["bench", "--shape", "-3", "64", *BENCH[4:]], ["argument --shape", "'-3'", "at least 0"]),
        ([*BENCH, "--methods", "auto,nope"], ["argument --methods", "'nope'", "SCHEDULE/EXCHANGE"]),
        ([*BENCH, "--methods", "nope/sendrecv"], ["argument --methods", "schedule 'nope'", "caterpillar"]),
        ([*BENCH, "--methods", "auto/sendrecv/nope"], ["argument --methods", "buffers 'nope'", "there are"]),
        ([*BENCH, "--repeat", "0"], ["argument --repeat", "'0'", "at least 1"]),
    ],
)
def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], words: list[str], parts: list[str]) -> None:
    assert cli.run(words) == 2
    out, err = capsys.readouterr()
    assert out == "" or words[-1] == "/dev/full"
    assert err.startswith("pyscalapack-redist: error: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def test_other_ranks_say_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "_is_printing_rank", lambda: False)
    assert [cli.run(words) for words in (["bench"], ["info"], ["bench", "--help"])] == [2, 0, 0]
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("speaking")
def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "PRxPC:MBxNB[@RSRC,CSRC][+FIRST]" in text
    assert "--compare OLD.json" in text
    layouts = re.search(r"examples of a LAYOUT:(.*)start it by", text)
    assert layouts is not None
    for example in ("2x4:64x64", "2x2:9p1,4p0,7p1x8", "2x2x3c:64x64", "2x2:8x8/90x70@5,3/C", "3:tiles=5x7@2"):
        assert example in layouts[1]
        assert read_side(example).size


@pytest.mark.usefixtures("speaking")
def test_info_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["info", "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert cli.run(["info", "--json", str(tmp_path / "info.json")]) == 0
    assert json.loads((tmp_path / "info.json").read_text()).keys() == printed.keys()
    assert f"pyscalapack_redist {psr.__version__}" in printed["versions"]
    assert cli.run(["info", "--json", str(tmp_path)]) == 2


def test_rates_durations_and_sizes_of_memory() -> None:
    rates = {"50mbit": 6.25e6, "100 Mbit/s": 12.5e6, "1e3kbit": 125e3, "6.25MB/s": 6.25e6, "8bit": 1, " 2 tB/s ": 2e12}
    assert {text: bytes_per_second(text) for text in rates} == pytest.approx(rates, rel=1e-12)
    for text in ("", "50", "50m", "mbit", "50 mbits", "50mb/s", "-1mbit", "0mbit", "1e999mbit"):
        with pytest.raises(ValueError, match=rf"{re.escape(repr(text))}.*50mbit"):
            bytes_per_second(text)
    assert [read_duration(text) for text in ("50us", "0", "1.5ms", "2s")] == pytest.approx([50e-6, 0, 1.5e-3, 2])
    assert [read_size(text) for text in ("64kib", "1mb", "10")] == [65536, 1000000, 10]
    limits = {1: 1, "64MiB": 2**26, "64 mib": 2**26, "1.5GB": 1_500_000_000, "2e3": 2000, "8B": 8}
    assert {limit: checked_memory(limit) for limit in limits} == limits
    for limit in ("much", "", "64MB64", "0.5", "-1MiB", "64 M", "1e999", 0, 2.0, None, b"64MiB"):
        with pytest.raises(DescriptorError, match=r"memory_limit = .* must be .*such as '64MiB'"):
            checked_memory(limit)


# -- show


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("2x3:2x2@1,0", (10, 12)),
        ("2x3:balanced+4", (7, 9)),
        ("5:3", (40,)),
        ("2x2x2:1x1x2", (3, 3, 4)),
    ],
)
def test_lines_have_the_rank_of_every_block(
    capsys: pytest.CaptureFixture[str], layout: str, shape: tuple[int, ...]
) -> None:
    assert cli.run(["show", layout, "--shape", "x".join(map(str, shape))]) == 0
    title, caption, *lines = capsys.readouterr().out.splitlines()
    assert caption.startswith("the rank that owns each block")
    assert title.startswith(" x ".join(map(str, shape)))
    desc = LayoutText.parse_operand(layout).descriptor(shape, None)
    ranks = np.atleast_2d(desc.owner_map(blocks=True))
    rows = [list(map(int, line.split())) for line in lines if not line.startswith("[")]
    panels = [ranks] if ranks.ndim == 2 else [ranks[..., k] for k in range(ranks.shape[2])]
    headers = [rows.pop(k * len(panels[0])) for k in range(len(panels))]
    assert headers == [desc.block_edges(min(1, len(shape) - 1))[:-1].tolist()] * len(panels)
    assert [row[1:] for row in rows] == [row for panel in panels for row in panel.tolist()]
    if len(shape) > 1:
        assert [row[0] for row in rows] == desc.block_edges(0)[:-1].tolist() * len(panels)


def test_large_arrays_fit_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "8x8:64x64", "--shape", "1000000", "1000000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"the first \d+ x \d+ of 1000000 x 1000000 elements", lines[1])
    assert len(lines) < 60
    assert max(map(len, lines)) <= 160


def test_colours_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"TERM": "xterm", "COLORTERM": "truecolor", "FORCE_COLOR": ""}.items():
        monkeypatch.setenv(name, value)
    assert cli.run(SHOW) == 0
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli.run(["show", "1x3:2x2", "--shape", "2", "6"]) == 0
    out = capsys.readouterr().out
    for rank in range(3):
        red, green, blue = (int(colour_of(rank)[k : k + 2], 16) for k in (1, 3, 5))
        assert re.search(rf"48;2;{red};{green};{blue}m {rank} ", out)


@pytest.mark.parametrize(
    "words",
    [
        SHOW,
        PLAN,
        ["plan", "--shape", "48", "60", "--from", "4x2:3x4", "--to", "2x4:5x3", "--schedule", "natural"],
    ],
)
def test_pictures(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, full = tmp_path / "picture.png", tmp_path / "full.png"
    assert cli.run([*words, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    full.symlink_to("/dev/full")
    assert cli.run([*words, "--plot", str(full)]) == 2
    problem = f"pyscalapack-redist: error: --plot {full}: it cannot be written: No space left on device\n"
    assert capsys.readouterr().err == problem


# -- info, and what is missing


def headed(text: str) -> dict[str, list[str]]:
    """The lines below each heading."""
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(" "):
            lines[list(lines)[-1]].append(line.strip())
        else:
            lines[line] = []
    return lines


def alone(*arguments: str, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, outside mpiexec."""
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


def test_info() -> None:
    done = alone("info")
    assert done.returncode == 0, done.stderr
    info = headed(done.stdout)
    assert any("numpy" in line for line in info["versions"])
    assert any(line.startswith("/") for line in info["MPI"])
    assert any("ScaLAPACK" in line for line in info["ScaLAPACK"])
    blas = re.search(
        r"^BLAS: (?:OpenBLAS [\d.]+, (?=.* kernels for \w+$))?(/[^\s,]+)", "\n".join(info["ScaLAPACK"]), re.M
    )
    assert blas is not None, info["ScaLAPACK"]
    assert Path(blas[1]).is_file()
    assert re.fullmatch(r"h5py [\d.]+", info["HDF5 files"][0])
    assert re.fullmatch(r"zarr [\d.]+", info["Zarr stores"][0])
    memfd, posix = info["memory shared by the ranks of a node"]
    assert memfd.startswith("memfd")
    assert "/dev/shm" in posix
    assert info["cores"][0].startswith(str(os.cpu_count()))


def test_info_without_what_is_optional() -> None:
    code = "import sys; sys.modules.update(rich=None, matplotlib=None, h5py=None)"
    done = alone("info", code=code, PYSCALAPACK_REDIST_LIBRARY="/nowhere/libscalapack.so", COLUMNS="60")
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if len(line) > 60 and " " in line.strip()]
    first, *rest = headed(done.stdout)["ScaLAPACK"]
    assert first.startswith("missing")
    assert "/nowhere/libscalapack.so" in " ".join(rest)
    assert "install" in " ".join(rest)
    assert re.search(r"missing: .*rich", done.stdout)
    assert re.search(r"missing: .*matplotlib", done.stdout)
    assert "pip install rich matplotlib" in " ".join(done.stdout.split())
    assert headed(done.stdout)["HDF5 files"][0].startswith("missing: h5py")


def test_without_mpi() -> None:
    nowhere = {"MPI4PY_LIBMPI": "/nowhere/libmpi.so"}
    done = alone("info", **nowhere)
    assert done.returncode == 0, done.stderr
    assert "missing: mpi4py cannot start an MPI" in " ".join(headed(done.stdout)["MPI"])
    done = alone("bench", "--suite", "demo", **nowhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bench needs an MPI" in done.stderr


def test_plan_and_show_need_no_mpi(tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    commands = [[*SHOW, "--plot", str(tmp_path / "a.png")], [*PLAN, "--json", file]]
    code = (
        "import sys; sys.modules['mpi4py'] = None\nfrom pyscalapack_redist.tools.cli import run\n"
        f"assert [run(words) for words in {commands!r}] == [0] * 2\n"
        "assert [run([name]) for name in ('plan', 'simulate')] == [2, 2] and run(['plan', '--help']) == 0"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["shape"] == [64]


@pytest.mark.long
def test_info_says_that_mpi_does_not_start(tmp_path: Path) -> None:
    """Nor does Open MPI 4 without its programs on PATH, where MPICH needs nothing."""
    problem = "import sys, os; os.write(2, b'-----\\nit cannot be\\n'); os._exit(9)"
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport os, sys\nif 'mpi4py' in sys.argv[-1]:\n    {problem}\n")
    python.chmod(0o755)
    done = alone("info", code=f"import sys; sys.executable = {str(python)!r}", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    info = headed(done.stdout)
    assert any(line.startswith("/") for line in info["MPI"])
    start = next(k for k, line in enumerate(info["MPI"]) if line.startswith("does not start outside mpiexec"))
    assert "status 9" in info["MPI"][start]
    assert info["MPI"][start + 1] == "it cannot be"
    assert "mpiexec" in info["MPI"][start + 2]
    assert info["command line"]
    without_programs = alone("info", PATH=str(tmp_path / "none"))
    assert (without_programs.returncode, without_programs.stderr) == (0, "")
    needed = "Open MPI 4 needs orted and ssh or rsh on PATH" in without_programs.stdout
    assert needed == any(line.startswith("Open MPI v4") for line in headed(without_programs.stdout)["MPI"])


@pytest.mark.usefixtures("speaking")
@pytest.mark.parametrize(("name", "arguments"), [("rich", []), ("matplotlib", ["--plot", "bars.png"])])
def test_the_extra_is_asked_for_when_it_is_needed(
    name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    assert cli.run([*PLAN, *arguments]) == 2
    err = capsys.readouterr().err
    assert f"plan needs {name}" in err
    assert "pip install" in err


def test_a_benchmark_on_one_rank_needs_no_mpiexec() -> None:
    done = alone("bench", "--shape", "9", "9", "--from", "1x1:2x2", "--to", "1x1:3x3", "--methods", "auto,memcpy")
    assert done.returncode == 0, done.stderr
    assert "| auto " in done.stdout


# -- readers that stop, full disks


def main_with(monkeypatch: pytest.MonkeyPatch, stdout: IO[str] | None, *words: str) -> int:
    """The status of the program with another standard output."""
    monkeypatch.setattr(sys, "argv", ["pyscalapack-redist", *words])
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(cli, "_finalize", lambda: None)  # other tests of this process may have started MPI
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_files_are_written_for_a_reader_that_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    files = [tmp_path / "plan.json", tmp_path / "plan.png"]
    with open(write, "w") as stdout:
        assert main_with(monkeypatch, stdout, *PLAN, "--json", str(files[0]), "--plot", str(files[1])) == 0
    assert capsys.readouterr().err == ""
    assert json.loads(files[0].read_text())["shape"] == [64]
    assert files[1].stat().st_size


def test_a_benchmark_goes_on_for_a_reader_that_stops(tmp_path: Path) -> None:
    words = ["--shape", "9", "9", "--from", "1x1:2x2", "--to", "1x1:3x3", "--methods", "auto,memcpy"]
    line = [sys.executable, "-m", "pyscalapack_redist", "bench", *words, "--json", str(tmp_path / "new.json")]
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{last}": "1" for last in ("", "_CONFIRM")}
    program = subprocess.Popen(line, env={**os.environ, **root}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline()
    program.stdout.close()
    assert (program.stderr.read(), program.wait(120)) == (b"", 0)
    program.stderr.close()
    assert json.loads((tmp_path / "new.json").read_text())["cases"]


def test_without_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_with(monkeypatch, None, *PLAN, "--json", str(tmp_path / "plan.json")) == 0
    assert json.loads((tmp_path / "plan.json").read_text())["shape"] == [64]
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w") as full:
        assert main_with(monkeypatch, full, *PLAN) == 2
    problem = "pyscalapack-redist: error: the output cannot be written: No space left on device\n"
    assert capsys.readouterr().err == problem
