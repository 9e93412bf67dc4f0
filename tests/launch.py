"""Start a program on several ranks, under the MPI that this interpreter's mpi4py loads, and see that it ends.

Tests call `run`. Programs that need nothing special run one after another on ranks that are started once (`Job`): to start
them takes longer than most programs. From a shell, `python tests/launch.py RANKS PROGRAM [ARGUMENT ...]` (or `-m MODULE` for
PROGRAM) starts one after printing the command, without a limit of time. MPIEXEC in the environment names another mpiexec.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import job

TESTS = Path(__file__).resolve().parent
MARK = "PYSCALAPACK_REDIST_LAUNCH"
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29  # of <linux/prctl.h>
SOON = 2.0  # seconds that a program has to end when nobody needs it any more
TAIL = 20_000  # characters of output shown with a failure
JOBS_KEPT, PROGRAMS_OF_A_JOB = 8, 200
LAUNCHES = {"kept": 0, "of their own": 0}  # those of this process: of jobs, and of single programs
OURS = "PYSCALAPACK_REDIST_"  # variables that are read when they are needed
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))  # of all that tests draw at random


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


@functools.cache
def fitting_kernels() -> dict[str, str]:
    """What keeps OpenBLAS from taking this processor for an old one, where it does: psr.linalg would warn of that."""
    code = (
        "import mpi4py; mpi4py.rc.initialize = False\n"
        "from pyscalapack_redist import LibraryError, blacs\n"
        "try: print(blacs.library.fitting_kernels(blacs.load()) or '')\n"
        "except LibraryError: print()"
    )
    line = [sys.executable, "-c", code]
    asked = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return {"OPENBLAS_CORETYPE": asked.stdout.strip()} if asked.stdout.strip() else {}


def environment(ranks: int = 1, alone: bool = False) -> dict[str, str]:
    """This process's environment, one thread for each rank, and what containers and few cores need.

    Ranks that wait in MPI leave their cores to others, but where they are `alone` on the machine and each has a core.
    """
    own, crowded = os.environ, ranks > len(os.sched_getaffinity(0))
    # Open MPI's waiting ranks offer their core to others where they outnumber the cores, and know nothing of the tests that
    # run beside them. So do MPICH's, which the kernel disregards when anybody else is busy too; asleep they cannot be
    # disregarded, but then two ranks take minutes to send what is as large as in `large.py`.
    yielding = {} if alone and not crowded else {"OMPI_MCA_mpi_yield_when_idle": "1"}
    if crowded:
        yielding["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"
    return {
        **fitting_kernels(),
        **own,
        **yielding,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **{f"{runtime}_ALLOW_RUN_AS_ROOT{last}": "1" for runtime in ("OMPI", "PRTE") for last in ("", "_CONFIRM")},
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [own.get("PYTHONPATH")])]),
        "UCX_LOG_FILE": "stderr",  # what MPI's transport has to say is no part of what a program prints
        "PYTHONUNBUFFERED": "1",  # what a rank printed is there when it is killed
        "PYTHONFAULTHANDLER": "1",  # a rank that is told to abort says where it was
        "PYTHONDONTWRITEBYTECODE": "",  # ranks that each compile all modules anew take half as long again to start
    }


def limit(seconds: float) -> float:
    """A limit of time, longer where PYSCALAPACK_REDIST_TIMEOUTS says so, for machines that are slow or shared."""
    return seconds * float(os.environ.get("PYSCALAPACK_REDIST_TIMEOUTS", "1"))


def run(
    program: str | Path | tuple[str, ...],
    ranks: int,
    *args: object,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    survive: bool = False,
    alone: bool = False,
    until: threading.Event | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program, or ("-m", module), to its end. One that hangs is killed with all its ranks, and fails.

    It has a launch of its own where it needs another environment than by our own variables, may fail, or is to be `alone`; else
    it runs in a `Job`. A program that has not ended soon after `until` is killed too, and does not fail by that.
    """
    timeout = limit(timeout)
    words = [str(word) for word in (*(program if isinstance(program, tuple) else (program,)), *args)]
    ordinary = check and not survive and words[0] != "-c" and all(name.startswith(OURS) for name in env or ())
    if ordinary and not alone and (kept := job_of(ranks)) is not None:
        with kept.free:
            return kept.run(words, timeout, env or {})
    line = command(ranks, *words, survive=survive)
    with started(line, {**environment(ranks), **(env or {})}) as (process, mark, out, err):
        hung = not ended(process, timeout, until)
        end(process, mark)
        done = subprocess.CompletedProcess(line, process.returncode, read(out), read(err))
    if hung or (check and done.returncode):
        raise failure(words, ranks, done, timeout if hung else None)
    return done


@contextlib.contextmanager
def started(
    line: list[str], environment: Mapping[str, str], kind: str = "of their own"
) -> Iterator[tuple[subprocess.Popen[bytes], str, IO[bytes], IO[bytes]]]:
    """Start mpiexec: its process, what its ranks can be found by, and the files of its output."""
    mark = uuid.uuid4().hex
    LAUNCHES[kind] += 1
    # Files, not pipes: reading a pipe would wait for any process that outlives mpiexec.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**environment, MARK: mark},
            start_new_session=True,
            preexec_fn=prepare,
        )
        try:
            yield process, mark, out, err
        finally:
            end(process, mark)


def ended(process: subprocess.Popen[bytes], timeout: float, until: threading.Event | None) -> bool:
    """Wait for its end, or for `until` and a little longer; False where neither came in time."""
    last = time.monotonic() + timeout
    while until and not until.wait(0.1) and process.poll() is None and time.monotonic() < last:
        pass
    over = until is not None and until.is_set()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(limit(SOON) if over else max(0, last - time.monotonic()))
    return over or process.poll() is not None


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill what is left of a launch; ranks of one that runs say where they are."""
    if process.poll() is None:
        for pid, is_rank in marked(mark):
            if is_rank:
                send(pid, signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the ranks write where they are
            process.wait(1)
    for pid, _ in marked(mark):
        send(pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def name_server(folder: Path) -> Iterator[dict[str, str]]:
    """What two jobs need to be joined, in their environment: with Open MPI 4 the address of a server, a file in `folder`."""
    if not mpi_library().startswith("Open MPI v4"):
        yield {}
        return
    address, last = folder / "address", time.monotonic() + limit(10.0)
    line = ["ompi-server", "--no-daemonize", "-r", str(address)]
    process = subprocess.Popen(line, env=environment(), stdin=subprocess.DEVNULL, preexec_fn=prepare)
    try:
        while not (address.is_file() and address.read_text().strip()):
            assert time.monotonic() < last, f"ompi-server has not started within {limit(10.0):g} s"
            time.sleep(0.05)
        yield {"OMPI_MCA_pmix_server_uri": f"file:{address}"}
    finally:
        process.terminate()
        process.wait(10)


def failure(
    words: list[str], ranks: int, done: subprocess.CompletedProcess[str], timeout: float | None = None
) -> LaunchError:
    """What to say of a program that failed, or had not ended after so many seconds."""
    failed = f"failed with status {done.returncode}"
    verdict = failed if timeout is None else f"hung: it had not ended after {timeout:g} s"
    return LaunchError(f"{shlex.join(words)} on {ranks} ranks {verdict}\n{told(done)}")


class Job:
    """Ranks that run one program after another (`job.py`).

    Attributes
    ----------
    free : Lock
        Of whoever runs a program.
    left : int
        How many programs it may still run: some of what they make stays, such as keys of attributes.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks, self._end = ranks, contextlib.ExitStack()
        self.free, self.left = threading.Lock(), PROGRAMS_OF_A_JOB
        self._folder = Path(self._end.enter_context(tempfile.TemporaryDirectory()))
        self._orders = [self._pipe(job.orders_of(self._folder, rank)) for rank in range(ranks)]
        self._ended = self._pipe(self._folder / job.REPLY)
        self._line = command(ranks, str(TESTS / "job.py"), str(self._folder))
        launch = started(self._line, environment(ranks), "kept")
        self._process, self._mark, self._out, self._err = self._end.enter_context(launch)

    def _pipe(self, path: Path) -> int:
        os.mkfifo(path)
        number = os.open(path, os.O_RDWR)  # for writing alone it would wait for the reader
        self._end.callback(os.close, number)
        return number

    def run(self, words: list[str], timeout: float, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program to its end.

        Raises
        ------
        LaunchError
            It hung or failed, and the job has ended with it.
        """
        self.left -= 1
        out, errors = self._folder / "out", [self._folder / f"err{rank}" for rank in range(self._ranks)]
        for file in (out, *errors):
            file.write_bytes(b"")
        its = {**environment(self._ranks), **variables}
        order = {"words": words, "environment": its, "directory": os.getcwd(), "out": str(out)}
        order["err"] = str(self._folder / "err")
        try:
            missing = self._start(order, time.monotonic() + timeout)
        except BaseException:  # a limit of time of pytest, an interrupt: nobody else may get these replies
            end(self._process, self._mark)
            self.close()
            raise
        hung = missing and self._process.poll() is None
        if missing:
            end(self._process, self._mark)
        status, said = self._process.returncode or 0, "".join(file.read_text(errors="replace") for file in errors)
        if missing:
            said += read(self._err)
        line = [*command(self._ranks), *words]
        done = subprocess.CompletedProcess(line, status, out.read_text(errors="replace"), said)
        if missing:
            self.close()
            raise failure(words, self._ranks, done, timeout if hung else None)
        return done

    def _start(self, order: dict[str, object], last: float) -> int:
        """Have all ranks run a program, and wait for them; how many have not ended then."""
        for pipe in self._orders:
            os.write(pipe, json.dumps(order).encode() + b"\n")
        missing = self._ranks
        while missing and self._process.poll() is None and time.monotonic() < last:
            if select.select([self._ended], [], [], 0.2)[0]:
                replies = os.read(self._ended, missing)
                missing -= len(replies)
                self.left *= job.LAST not in replies
        return missing

    def close(self) -> None:
        """Let the ranks end, or see to it."""
        if jobs.get(self._ranks) is self:
            del jobs[self._ranks]
        for pipe in self._orders:
            os.write(pipe, b"\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._end.close()


jobs: dict[int, Job] = {}


def job_of(ranks: int) -> Job | None:
    """A job of so many ranks; None while it is busy."""
    found = jobs.get(ranks)
    if found is not None and found.free.locked():
        return None
    if found is not None and not found.left:
        found.close()
    if ranks not in jobs:
        while len(jobs) >= JOBS_KEPT:
            jobs[next(iter(jobs))].close()
        jobs[ranks] = Job(ranks)
    jobs[ranks] = jobs.pop(ranks)  # the last one to be closed
    return jobs[ranks]


@atexit.register
def close_jobs() -> None:
    """No program comes any more."""
    while jobs:
        jobs[next(iter(jobs))].close()


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
    os.execvpe(line[0], line, environment(count, alone=True))
