"""A matrix goes from every kind of array to every kind, and is right there.

Arguments: results, environment, sizes, limit, and two lists of kinds, which may be left out.

Results are appended to a file of JSON lines, and pairs that are there without an error are not run again. Sizes are like
29x17,24x53. A limit other than "any" is for memory: bytes that a process may need in addition to its parts of both arrays. Of
the kinds of the first list each pair has one at least; all pairs are among those of the second.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kinds import RANK, SIZE, WORLD, Files, Kind, Shape, available, slices, split
from memory import resident

import pyscalapack_redist as psr

LIBC = ctypes.CDLL(None)


def value_of(number: int, shape: Shape) -> Any:
    """All elements differ, and are exact."""
    return lambda i, j: i * float(shape[1]) + j + number


def check(kind: Kind, x: Any, shape: Shape, value: Any) -> None:
    """All elements are there, and right; of a large array a sixteenth is compared.

    What can be written is overwritten, so that its memory is no result of the next call.
    """
    size, wrong = 0, 0
    for part in kind.parts(x):
        size += part[0].size
        for elements, i, j in itertools.islice(slices(part), 0, None, 16):
            wrong += elements.size - int(np.count_nonzero(elements == value(i, j)))
            if elements.flags.writeable and not kind.is_file:
                elements[...] = -1
    size, wrong = WORLD.allreduce(np.array([size, wrong]))
    assert size == shape[0] * shape[1], f"{size} elements"
    assert not wrong, f"{wrong} of {size} elements are wrong"


def bytes_of(kind: Kind, x: Any, shape: Shape) -> int:
    """Of this process's elements; of a file it is an equal share."""
    if kind.is_file:
        return 8 * shape[1] * len(split(shape[0], SIZE)[0])
    return sum(part[0].nbytes for part in kind.parts(x))


class Memory:
    """The peak of memory over that at the beginning; nothing if it is not measured."""

    def __init__(self, is_measured: bool) -> None:
        self.is_measured, self.first = is_measured, 0
        self.first = self.now()

    def now(self) -> int:
        """Bytes in use now. The peak is forgotten."""
        if not self.is_measured:
            return 0
        gc.collect()
        if "petsc4py.PETSc" in sys.modules:  # PETSc frees what is on several processes in collective calls only
            sys.modules["petsc4py.PETSc"].garbage_cleanup()
        LIBC.malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        return resident() - self.first

    def peak(self) -> int:
        """Most bytes since then."""
        if not self.is_measured:
            return 0
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) - self.first


def read(source: Kind, x: Any, shape: Shape) -> Any:
    """An array; of a file, in whole rows."""
    if not source.is_file:
        return x
    rows = psr.Descriptor(shape, None, psr.ProcessGrid((SIZE, 1), WORLD))
    return psr.DistributedArray.load(rows, x)


def run_pair(source: Kind, x: Any, target: Kind, shape: Shape, value: Any, memory: Memory) -> dict[str, int]:
    """Bytes of this process in addition to its parts of both arrays: with a new array, and with a copy."""
    before = memory.now()
    y = target.empty(shape)
    parts = bytes_of(source, x, shape) + bytes_of(target, y, shape)
    like = memory.now() - before
    if isinstance(target, Files):
        psr.save(read(source, x, shape), y, **target.options)
        extra = {"new": memory.peak() - parts}
        check(target, y, shape, value)
        target.remove(y)
        return extra
    z = psr.redistribute(read(source, x, shape), like=y)
    extra = {"new": memory.peak() - like - parts}
    check(target, z, shape, value)
    del z
    if target.is_writable:
        memory.now()
        if source.is_file:
            psr.load(psr.as_distributed(y), x)
        else:
            psr.copy_to(x, y)
        extra["copy"] = memory.peak() - parts
        check(target, y, shape, value)
    return extra


def pairs(kinds: list[Kind], shape: Shape, done: set[Any], required: set[str]) -> Iterator[tuple[Kind, list[Kind]]]:
    """Sources with the targets that are left."""
    for source in kinds:
        targets = [
            target
            for target in kinds
            if (source.name, target.name, *shape) not in done
            and not any(shape[0] % kind.divisor for kind in (source, target))
            and (not required or {source.name, target.name} & required)
        ]
        if targets:
            yield source, targets


def outcome(work: Callable[[], dict[str, int]], limit: float) -> dict[str, Any]:
    """Of all processes: the first error, or the most bytes."""
    text, extra = None, {}
    try:
        extra = work()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    errors, extras = WORLD.allgather(text), WORLD.allgather(extra)
    first = next(filter(None, errors), None)
    most = {name: max(each.get(name, 0) for each in extras) for name in extra}
    if limit < np.inf and first is None and max(most.values()) > limit:
        first = f"needs {max(most.values()) / 2**20:.0f} MiB more than its parts of both arrays"
    return {"error": first, **({} if limit == np.inf else most)}


def main() -> None:
    results, environment, sizes, limit, *names = sys.argv[1:]
    limit_bytes = float(limit.replace("any", "inf"))
    required, among = (set(text.split(",")) - {""} for text in (*names, "", "")[:2])
    lines = WORLD.bcast(Path(results).read_text().splitlines() if RANK == 0 and Path(results).exists() else [])
    records = [json.loads(line) for line in lines]
    done = {
        (each["source"], each["target"], *each["shape"])
        for each in records
        if (each["environment"], each["processes"], "new" in each) == (environment, SIZE, limit_bytes < np.inf)
        and each["error"] is None
    }
    with tempfile.TemporaryDirectory(dir=Path(results).parent) as name:
        kinds, missing = available(Path(WORLD.bcast(name)), among)
        gc.collect()
        gc.freeze()
        memory = Memory(limit_bytes < np.inf)
        for text in sizes.split(","):
            shape: Any = tuple(map(int, text.split("x")))
            for source, targets in pairs(kinds, shape, done, required):
                value = value_of(kinds.index(source), shape)
                x = source.filled(shape, value)
                for target in targets:
                    start = time.perf_counter()
                    record = outcome(functools.partial(run_pair, source, x, target, shape, value, memory), limit_bytes)
                    place = {"environment": environment, "processes": SIZE, "shape": shape}
                    record = {**place, "source": source.name, "target": target.name, **record}
                    record["seconds"] = round(time.perf_counter() - start, 2)
                    if RANK == 0:
                        with open(results, "a") as file:
                            file.write(f"{json.dumps(record)}\n")
                if isinstance(source, Files):
                    source.remove(x)
                del x
        WORLD.Barrier()
    if RANK == 0:
        sys.stdout.write(f"{json.dumps(missing)}\n")


if __name__ == "__main__":
    main()
