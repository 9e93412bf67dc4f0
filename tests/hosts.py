"""Several hosts on one machine, with links of a given rate between them, and Open MPI started across them over TCP.

Each host is a network namespace with a host name and an address of its own; a bridge joins them, and what a host sends and
what it receives are held to its rate. Host k, counted from 0, is called hostk and has the ranks k * slots and following.

Tests call `run`, after `available` has said that this machine can do it. From a shell:

    python tests/hosts.py HOSTS [--slots 2] [--rate 50mbit] [--slow 2=5mbit] -- PROGRAM [ARGUMENT ...]

with `-m MODULE` for PROGRAM, if wanted. All that is made lives in namespaces without names: when the processes in them end,
nothing of it is left, and they end with the one that was started here, however that ends.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import launch

RATE = "50mbit"
MOST_HOSTS = 64
NETWORK = "10.77"  # seen by nobody outside
BRIDGE = "bridge"
ROOM = Path("/run/hosts")  # in a file system of the lab's own
TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
SHAPED = ("tbf", "burst", "64kb", "latency", "200ms")
TRIAL = (
    "mount -t tmpfs none /run && ip link add trial0 type veth peer name trial1 && "
    f"tc qdisc add dev trial0 root {shlex.join(SHAPED)} rate 1mbit"
)


@functools.cache
def available() -> str | None:
    """Why there can be no hosts on this machine; None where there can."""
    try:
        library = launch.mpi_library()
        launch.mpiexec()
    except launch.LaunchError as error:
        return str(error)
    if not library.startswith("Open MPI v4"):
        return f"hosts are started by the mpiexec of Open MPI 4, and this is {library}"
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=PATH) is None:
            return f"{tool} is missing (Debian: {package})"
    tried = subprocess.run(
        [*namespaces(), "sh", "-c", TRIAL], env={**os.environ, "PATH": PATH}, capture_output=True, text=True, timeout=30
    )
    if tried.returncode:
        who = "" if os.geteuid() == 0 else "not root, and "
        why = " ".join(tried.stderr.split())
        return f"{who}no permission to make network namespaces with limited links: {why}"
    return None


def namespaces() -> list[str]:
    """The command that makes a world of its own, whose processes all end with its first one."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *mapped, "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def run(
    program: str | Path | tuple[str, ...],
    hosts: int,
    *args: object,
    slots: int = 1,
    rate: str = RATE,
    slow: Mapping[int, str] | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program, or ("-m", module), on hosts x slots ranks to its end; one that hangs is ended, and fails.

    Parameters
    ----------
    rate : str
        What a host sends, and what it receives, as `tc` has it.
    slow : mapping of int to str
        Other rates for some hosts.
    """
    words = [str(word) for word in (*(program if isinstance(program, tuple) else (program,)), *args)]
    line = command(hosts, *words, slots=slots, rate=rate, slow=slow)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        timeout = launch.limit(timeout)
        status = ended(line, {**environment(), **(env or {})}, timeout, stdout=out, stderr=err)
        done = subprocess.CompletedProcess(line, -1 if status is None else status, launch.read(out), launch.read(err))
    if status is None or (check and status):
        verdict = f"hung: it had not ended after {timeout:g} s" if status is None else f"failed with status {status}"
        raise launch.LaunchError(f"{shlex.join(words)} on {hosts} hosts of {slots} {verdict}\n{launch.told(done)}")
    return done


def command(hosts: int, *program: str, slots: int, rate: str, slow: Mapping[int, str] | None = None) -> list[str]:
    """The command that makes the hosts, runs the program on them, and leaves nothing."""
    if not 1 <= hosts <= MOST_HOSTS or slots < 1:
        raise ValueError(
            f"hosts = {hosts}, slots = {slots}: there can be 1 to {MOST_HOSTS} hosts, of at least one rank"
        )
    others = [host for host in slow or {} if not 0 <= host < hosts]
    if others:
        raise ValueError(f"slow = {slow}: hosts are numbered 0 to {hosts - 1}")
    start = launch.command(hosts * slots, *program)
    rates = [(slow or {}).get(host, rate) for host in range(hosts)]
    return [
        *namespaces(),
        sys.executable,
        __file__,
        "--inside",
        json.dumps({"slots": slots, "rates": rates, "start": start}),
    ]


def environment() -> dict[str, str]:
    return {**launch.environment(), "PATH": PATH}


def ended(line: list[str], env: Mapping[str, str], timeout: float | None, **files: Any) -> int | None:
    """The exit status of a command, once all that it started is gone; None where it had to be ended."""
    mark = os.urandom(16).hex()
    process = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        env={**env, launch.MARK: mark},
        preexec_fn=prepare,
        start_new_session=True,
        **files,
    )
    hung = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        hung = True
        for pid, is_rank in launch.marked(mark):
            if is_rank:
                launch.send(pid, signal.SIGABRT)
        time.sleep(1)  # for the ranks to write where they are
    finally:
        process.kill()
        process.wait()
        while any(launch.marked(mark)):  # the kernel takes them down one by one
            time.sleep(0.02)
    return None if hung else process.returncode


def prepare() -> None:
    """The hosts go when this process does, even if it is killed."""
    launch.prepare()
    launch.LIBC.prctl(launch.PR_SET_PDEATHSIG, int(signal.SIGKILL))


# -- inside


def inside(slots: int, rates: list[str], start: list[str]) -> int:
    """Make the hosts in this world, run the command across them, and return its exit status."""
    own("mount", "-t", "tmpfs", "none", "/run")  # Open MPI's own files, and memory that ranks share: nobody else's
    own("mount", "-t", "tmpfs", "none", "/dev/shm")
    ROOM.mkdir()
    names = [f"host{k}" for k in range(len(rates))]
    addresses = [f"{NETWORK}.1.{k + 1}" for k in range(len(rates))]
    known = ["127.0.0.1 localhost", f"{NETWORK}.0.1 hub", *map(" ".join, zip(addresses, names, strict=True))]
    (ROOM / "hosts").write_text("\n".join(known) + "\n")
    own("mount", "--bind", str(ROOM / "hosts"), "/etc/hosts")
    own("hostname", "hub")
    own("ip", "link", "set", "lo", "up")
    own("ip", "link", "add", BRIDGE, "type", "bridge")
    own("ip", "address", "add", f"{NETWORK}.0.1/16", "dev", BRIDGE)
    own("ip", "link", "set", BRIDGE, "up")
    keepers = [make_host(k, *settings) for k, settings in enumerate(zip(names, addresses, rates, strict=True))]
    (ROOM / "hostfile").write_text("".join(f"{name} slots={slots}\n" for name in names))
    agent = ROOM / "agent"
    agent.write_text(agent_text(dict(zip(names, keepers, strict=True))))
    agent.chmod(0o755)
    options = {
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "orte_tmpdir_base": str(ROOM),
        "btl": "tcp,self,vader",
        "btl_tcp_if_include": "eth0",
        "oob_tcp_if_include": f"{BRIDGE},eth0",
    }
    more = [word for name, value in options.items() for word in ("--mca", name, value)]
    mpiexec, *rest = start
    return subprocess.call([mpiexec, "--hostfile", str(ROOM / "hostfile"), "--map-by", "slot", *more, *rest])


def make_host(number: int, name: str, address: str, rate: str) -> int:
    """Make one host and join it to the bridge; the number of the process that keeps it."""
    keeper = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"], stdin=subprocess.DEVNULL)
    while os.readlink(f"/proc/{keeper.pid}/ns/uts") == os.readlink("/proc/self/ns/uts"):
        if keeper.poll() is not None:
            raise OSError(f"{name} could not be made: unshare ended with status {keeper.returncode}")
        time.sleep(0.001)
    there, port = (*nsenter(keeper.pid),), f"port{number}"
    own("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid))
    own("ip", "link", "set", port, "master", BRIDGE, "up")
    own(*there, "hostname", name)
    own(*there, "ip", "link", "set", "lo", "up")
    own(*there, "ip", "address", "add", f"{address}/16", "dev", "eth0")
    own(*there, "ip", "link", "set", "eth0", "up")
    # sending is shaped at the host's end of its cable, receiving at the bridge's
    for where, device in ((there, "eth0"), ((), port)):
        own(*where, "tc", "qdisc", "add", "dev", device, "root", *SHAPED, "rate", rate)
    return keeper.pid


def nsenter(keeper: int) -> list[str]:
    return ["nsenter", "--target", str(keeper), "--net", "--uts"]


def agent_text(keepers: Mapping[str, int]) -> str:
    """What stands where ssh would: the first word is the host, the rest its command."""
    cases = "\n".join(f"{name}) keeper={keeper};;" for name, keeper in keepers.items())
    return (
        f'#!/bin/sh\nhost=$1; shift\ncase "$host" in\n{cases}\n*) echo "no host $host" >&2; exit 1;;\nesac\n'
        'exec nsenter --target "$keeper" --net --uts sh -c "$*"\n'
    )


def own(*words: str) -> None:
    """Run a command of the machine's; its words are told where it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{shlex.join(words)}: {done.stderr.strip()}")


# -- from a shell


def slow_host(text: str) -> tuple[int, str]:
    host, equals, rate = text.partition("=")
    if not (host.isdecimal() and equals and rate):
        raise argparse.ArgumentTypeError(f"{text!r} must be HOST=RATE, such as 2=5mbit; hosts are counted from 0")
    return int(host), rate


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        try:
            return inside(**json.loads(sys.argv[2]))
        except OSError as error:
            print(f"hosts: {error}", file=sys.stderr)
            return 2
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("hosts", type=int)
    parser.add_argument("--slots", type=int, default=1, help="ranks on each host")
    parser.add_argument(
        "--rate", default=RATE, help="what each host sends and receives, as tc has it (default: %(default)s)"
    )
    parser.add_argument(
        "--slow", type=slow_host, action="append", default=[], metavar="HOST=RATE", help="but not this one"
    )
    if "--" not in sys.argv:
        parser.error("-- and a program must follow")
    end = sys.argv.index("--")
    options = parser.parse_args(sys.argv[1:end])
    why = available()
    if why is not None:
        parser.error(why)
    try:
        line = command(
            options.hosts, *sys.argv[end + 1 :], slots=options.slots, rate=options.rate, slow=dict(options.slow)
        )
    except ValueError as error:
        parser.error(str(error))
    status = ended(line, environment(), None)
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
