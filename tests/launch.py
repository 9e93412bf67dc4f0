"""Start a program on several ranks, under the MPI that this interpreter's mpi4py loads, and see that it ends.

Tests call `run`. From a shell, `python tests/launch.py RANKS PROGRAM [ARGUMENT ...]` (or `-m MODULE` for PROGRAM) does the
same without a limit of time, after printing the command. MPIEXEC in the environment names another mpiexec.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

TESTS = Path(__file__).resolve().parent
MARK = "PYSCALAPACK_REDIST_LAUNCH"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29  # of <linux/prctl.h>
TAIL = 6000  # characters of output shown with a failure


class LaunchError(AssertionError):
    """The program hung or failed."""


@functools.cache
def mpi_library() -> str:
    """What the MPI library calls itself. Asked in another process, so that this one stays without MPI."""
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    asked = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if asked.returncode:
        reason = asked.stderr.strip().splitlines()[-1]
        raise LaunchError(
            f"mpi4py of {sys.executable} finds no MPI ({reason}): run ci/setup, or install Open MPI or MPICH"
        )
    return asked.stdout.strip(" \n\0").splitlines()[0]


def mpiexec() -> list[str]:
    """The mpiexec of that library with the options that more ranks than cores need."""
    library = mpi_library()
    flavour = "openmpi" if library.startswith("Open MPI") else "mpich"
    # A wheel's mpiexec stands beside the interpreter; Debian tells two MPIs on one machine apart by the suffix.
    beside = shutil.which("mpiexec", path=str(Path(sys.prefix, "bin")))
    program = os.environ.get("MPIEXEC") or beside or shutil.which(f"mpiexec.{flavour}") or shutil.which("mpiexec")
    if program is None:
        raise LaunchError(f"no mpiexec on PATH for {library}: run ci/setup")
    # Open MPI binds two ranks to two cores, whoever else is on them. MPICH binds nothing and yields when idle.
    return [program, *(["--oversubscribe", "--bind-to", "none"] if flavour == "openmpi" else [])]


def command(ranks: int, *program: str, survive: bool = False) -> list[str]:
    """`python -m mpi4py` aborts all ranks when one of them raises; with `survive`, they go on when one is killed."""
    launcher = mpiexec()
    if survive:
        launcher.append("--enable-recovery" if "--oversubscribe" in launcher else "-disable-auto-cleanup")
    return [*launcher, "-n", str(ranks), sys.executable, *([] if survive else ["-m", "mpi4py"]), *program]


def environment(ranks: int = 1) -> dict[str, str]:
    """This process's environment, one thread for each rank, and what containers and few cores need."""
    own = os.environ
    # MPICH's waiting ranks offer their core to the others, which the kernel disregards when anybody else is busy too;
    # asleep they cannot be disregarded. Open MPI's does well by itself.
    asleep = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if ranks > len(os.sched_getaffinity(0)) else {}
    return {
        **own,
        **asleep,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **{f"{runtime}_ALLOW_RUN_AS_ROOT{last}": "1" for runtime in ("OMPI", "PRTE") for last in ("", "_CONFIRM")},
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [own.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",  # what a rank printed is there when it is killed
        "PYTHONFAULTHANDLER": "1",  # a rank that is told to abort says where it was
    }


def run(
    program: str | Path | tuple[str, ...],
    ranks: int,
    *args: object,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    survive: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program, or ("-m", module), to its end. One that hangs is killed with all its ranks, and fails."""
    words = [str(word) for word in (*(program if isinstance(program, tuple) else (program,)), *args)]
    line, mark = command(ranks, *words, survive=survive), uuid.uuid4().hex
    # Files, not pipes: reading a pipe would wait for any process that outlives mpiexec.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**environment(ranks), **(env or {}), MARK: mark},
            start_new_session=True,
            preexec_fn=prepare,
        )
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            for pid, is_rank in marked(mark):
                if is_rank:
                    send(pid, signal.SIGABRT)
            time.sleep(1)  # for the ranks to write where they are
        finally:
            for pid, _ in marked(mark):
                send(pid, signal.SIGKILL)
            hung = process.returncode is None
            process.wait()
        done = subprocess.CompletedProcess(line, process.returncode, read(out), read(err))
    if hung or (check and done.returncode):
        verdict = f"hung: it had not ended after {timeout:g} s" if hung else f"failed with status {done.returncode}"
        raise LaunchError(f"{shlex.join(words)} on {ranks} ranks {verdict}\n{told(done)}")
    return done


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The command and the end of what it wrote."""
    parts = [f"$ {shlex.join(done.args)}"]
    parts += [
        f"--- {name}\n{text[-TAIL:]}" for name, text in (("stdout", done.stdout), ("stderr", done.stderr)) if text
    ]
    return "\n".join(parts)


def read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def marked(mark: str) -> Iterator[tuple[int, bool]]:
    """The processes of one launch, and whether each is a rank. Ranks are in process groups or sessions of their own."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or somebody else's
            continue
        if f"{MARK}={mark}".encode() in variables:
            yield int(entry.name), any(v.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")) for v in variables)


def prepare() -> None:
    """What the process that becomes mpiexec asks of Linux, for itself and its ranks.

    It ends when the tests are killed: its ranks would spin for ever. Naps (see `environment`) overrun by 10 us at most:
    by 50, as is usual, a barrier takes twice the time; by none, a rank naps too little for others to get its core.
    """
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    LIBC.prctl(PR_SET_TIMERSLACK, 10_000)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    count = int(sys.argv[1])
    line = command(count, *sys.argv[2:])
    print("$", shlex.join(line), flush=True)
    prepare()
    os.execvpe(line[0], line, environment(count))
