"""The matrix: operations x operands. Each pair gives NumPy's result, or an error on all ranks, and nothing else has changed.

Arguments: `all`, or a number of cases for a sample; `--seed N`, which draws it and all values; `--only REGEX` of cases' names;
`--part K/N`; `--log FILE`, which gets the name of each case before it is tried, so that one that ends the process is known;
`--skip FILE` of names that are not tried. What fails is printed as it is found.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import operations
from circumstances import CIRCUMSTANCES, Circumstance
from operands import (
    COMPANIONS,
    SHAPES,
    VALUES,
    ImpossibleError,
    Operand,
    Setting,
    drawn,
    drawn_setting,
    have_same_bits,
    hostile_settings,
    is_number,
    made,
    whole_of,
)
from operations import OPERATIONS, Operation, Scene, close
from refusals import may_refuse, not_compared

import pyscalapack_redist as psr
import pyscalapack_redist.numpy_functions  # not while a circumstance has others in place of NumPy's
from pyscalapack_redist.comm.progress import advance_others

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
EXPECTED = (psr.RedistributionError, np.linalg.LinAlgError)
ALL = "all"


class Case(NamedTuple):
    """An operation, and what its operands are like: `role` is the one that is odd, or all are."""

    operation: str
    role: str
    setting: Setting
    circumstance: str = ""

    def __str__(self) -> str:
        words = [self.operation, self.role, str(self.setting), *([self.circumstance] if self.circumstance else [])]
        return " | ".join(words)


def cases() -> list[Case]:
    """All pairs."""
    settings = list(hostile_settings())
    result = []
    for name, row in OPERATIONS.items():
        kinds = row.kinds.split()
        if name in operations.WITHOUT_ARRAYS:
            continue
        if name.endswith("on one rank"):
            result.append(Case(name, "a", Setting()))
            continue
        roles = [*"abc"[: len(kinds)], *([ALL] if len(kinds) > 1 else [])]
        for setting, role in itertools.product(settings, roles):
            if fits(name, kinds, role, setting):
                result.append(Case(name, role, setting))
        if "overwrite_a" in name:
            result += [
                Case(name, "a", setting, CONSUMED)
                for setting in settings
                if setting.shape == "many pages" and setting.ndim == 2
            ]
        for circumstance in CIRCUMSTANCES:
            if ("memory" in circumstance or "interrupt" in circumstance) and not row.is_one_call:
                continue
            if (
                circumstance
                and (row.is_local <= (circumstance in OF_LOCAL or "=" in circumstance))
                and concerns(circumstance, name)
            ):
                usual = Setting(shape="many pages") if "overwrite" in name and "windowed" not in name else Setting()
                settings_there = [usual, *([Setting(values="an inf")] if circumstance in OF_LOCAL else [])]
                result += [Case(name, "a", setting, circumstance) for setting in settings_there]
    return result


CONSUMED = "linalg.operands.CONSUMED=1"
OF_LOCAL = ("warnings are errors", "NumPy raises", "NumPy raises on one rank")


def concerns(circumstance: str, operation: str) -> bool:
    """Whether an operation may come past a threshold."""
    part = circumstance.partition(".")[0]
    if circumstance == "a first result is refused":
        return operation.startswith("linalg")
    if circumstance == "work beyond the limit":
        return operation.startswith(("linalg", "scalapack")) or re.search("save|load|stepwise|least", operation) is not None
    if "=" not in circumstance:
        return True
    return {
        "linalg": operation.startswith(("linalg", "numpy.linalg")),
        "files": "save" in operation or "load" in operation,
    }.get(part, True)


def fits(name: str, kinds: list[str], role: str, setting: Setting) -> bool:
    """Whether a case differs from those of other roles and numbers of dimensions."""
    usual = Setting()
    if setting.ndim != 2 and kinds[0] not in ANY_NDIM:
        return False
    if setting.ndim == 1 and setting.shape in ("no columns", "one row", "one column"):
        return False
    if setting.difference and (OPERATIONS[name].is_local or SIZE == 1):
        return False
    if setting.difference and (setting.shape, setting.layout) != (usual.shape, usual.layout):
        return False  # the rank may have no elements
    # the communicator, by a rank that has None in place of an array
    is_known_elsewhere = (
        len(kinds) > 1 and role != ALL and not name.startswith(("scalapack", "linalg.cho_solve", "linalg.lu_solve"))
    )
    if (
        setting.difference == "None"
        and not is_known_elsewhere
        and name.startswith(("linalg", "scalapack", "redistribute like", "copy_to"))
    ):
        return False
    if setting.difference == "None" and (
        (name == "redistribute like a pair" and role == "b") or re.search(r" (of|there) |from_array", name)
    ):
        return False  # there is nothing of which a part is taken
    if setting.difference == "another layout" and name.endswith("of another layout"):
        return False  # a rank that has both in one layout does not call
    if setting.difference == "another shape" and name.endswith("drawn"):
        return False  # nor one whose index is a view
    if setting.shape == "many pages" and setting != Setting(shape=setting.shape) and "overwrite" not in name:
        return False
    if (
        name.startswith("scalapack")
        and setting.layout in ("the first process", "the last process", "fewer ranks")
        and setting.dtype not in ("float32", "float64", "complex64", "complex128")
    ):
        return False  # ranks outside a grid take no part in a routine, and hear of no error
    if setting.kind and not TAKES_PAIRS.search(name):
        return False
    if (setting.dtype, setting.shape) == ("int4", "long") and re.search("mod|floordiv", name):
        return False  # ml_dtypes 0.6 warns of 0 as a divisor without the GIL, which NumPy gives up from 500 elements on
    if "not read" in setting.values and not set(kinds) & {"positive", "symmetric", "triangle"}:
        return False
    if setting.difference == "None" and (
        "overwrite" in name or (role != "a" and name.startswith(("Redistribution", "load")))
    ):
        return False
    if setting.difference == "another dtype" and "a mask of rows" in name and role == "b":
        return False  # the mask is of bool all the same
    if setting.difference == "None" and name.startswith(("DistributedArray", "operator", "numpy", "save .")):
        return False
    of_one = any(
        getattr(setting, name) != getattr(usual, name) for name in ("layout", "memory", "values", "difference", "kind")
    )
    return of_one or role == "a" or (role == ALL and setting.dtype != usual.dtype)


OF_EACH_RANK = re.compile(
    r"of another layout.* (on one rank|NumPy raises|warnings are errors)$|__setitem__ drawn .*memory=read-only"
)
OF_GRIDS = ("scalapack", "Redistribution", "redistribute", "plan", "batch", "Transfer")
OF_SOME_RANKS = ("the first process", "the last process", "fewer ranks")
ANY_NDIM = ("array", "summands", "rows")


# -- operands of a case


def operands_of(case: Case, row: Operation, comm: MPI.Intracomm, rng: np.random.Generator) -> dict[str, Operand]:
    """The operands by their names.

    Raises
    ------
    ImpossibleError
        There are none such.
    """
    setting, result = case.setting, {}
    shape = SHAPES[setting.shape].get(setting.ndim)
    if shape is None:
        raise ImpossibleError
    change, dtypes = VALUES[setting.values]
    for name, kind in zip("abc", row.kinds.split(), strict=False):
        is_odd = case.role in (name, ALL)
        its = setting if is_odd else Setting(dtype=setting.dtype, shape=setting.shape, ndim=setting.ndim)
        if not is_odd:
            its = its._replace(layout=COMPANIONS.get(setting.layout, its.layout))
        whole = drawn(kind, shape, its, rng)
        if is_odd and kind != "mask":
            if whole.dtype.kind not in dtypes or ("not read" in setting.values and kind not in ONE_TRIANGLE):
                raise ImpossibleError
            with np.errstate(all="ignore"):
                whole = change(whole, rng)
        if kind == "target":
            its = its._replace(layout=its.layout if is_odd and setting.layout != Setting().layout else "columns")
        if kind == "summands":
            whole = whole.astype(np.float64) if whole.dtype == bool else whole
        if kind == "rows" and its.layout != "balanced blocks":
            its = its._replace(layout="balanced blocks")
        result[name] = made(its, whole, comm)
    return result


TAKES_PAIRS = re.compile(
    r"^(linalg\.(?!.*(a window|itself|of a (part|sum|copy)|of (moved|damaged|cholesky|qr)))|redistribute$|redistribute like$"
    r"|copy_to$)"
)
ONE_TRIANGLE = ("positive", "symmetric", "triangle")  # is read of these


# -- one case


class Outcome(NamedTuple):
    """What a call has come to on a rank."""

    kind: str = ""  # of an error
    text: str = ""
    kinds: tuple[str, ...] = ()  # that and the classes above it
    is_expected: bool = True


def names_of(error: BaseException) -> tuple[str, ...]:
    """The names of an error's class and of those above it, as far as they say something."""
    return tuple(kind.__name__ for kind in type(error).__mro__ if kind not in (Exception, BaseException, object))


def tried(row: Operation, scene: Scene, circumstance: Circumstance) -> tuple[Any, Outcome, BaseException | None]:
    """The result of a call, and what it came to."""
    try:
        with circumstance.context():
            result = row.call(scene)
        return result, Outcome(), None
    except (Exception, KeyboardInterrupt) as error:
        text = " ".join(str(error).split())
        return None, Outcome(type(error).__name__, text[:400], names_of(error), isinstance(error, EXPECTED)), error


def made_whole(result: Any, comm: MPI.Intracomm) -> Any:
    """A result with distributed arrays as NumPy's, equal on all ranks; a rank outside a grid may have None in place of it."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], psr.Descriptor | psr.Tiles):
        result = psr.DistributedArray(*result)
    kinds = comm.allgather("distributed" if isinstance(result, psr.DistributedArray) else type(result).__name__)
    if "distributed" in kinds:
        assert {*kinds} == {"distributed"}, f"ranks have results of kinds {kinds}"
        assert len({*comm.allgather(result.desc.layout_digest)}) == 1, "ranks have results of other layouts"
        return whole_of(result, comm)
    if isinstance(result, tuple | list):
        assert len({*kinds}) == 1, f"ranks have results of kinds {kinds}"
        return tuple(made_whole(each, comm) for each in result)
    first, *others = [each for each in comm.allgather(result) if each is not None] or [None]
    for other in others:
        assert np.asarray(first).dtype.str == np.asarray(other).dtype.str, "ranks have results of other dtypes"
        assert are_equal(first, other), "ranks have other results"
    return first


def are_equal(first: Any, second: Any) -> bool:
    """Whether two results have the same elements, bit by bit where these have no padding."""
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape:
        return False
    return have_same_bits(first, second)


def compare(case: Case, row: Operation, result: Any, wholes: list[NDArray[Any]]) -> None:
    """See that a result is NumPy's."""
    if row.check is not None:
        with np.errstate(all="ignore"):
            row.check(result, *wholes)
        return
    if row.oracle is None:
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = row.oracle(*wholes)
    pairs = (
        zip(result, expected, strict=True)
        if isinstance(expected, tuple) and isinstance(result, tuple)
        else [(result, expected)]
    )
    for ours, theirs in pairs:
        if not isinstance(theirs, np.ndarray | np.generic):
            assert ours == theirs or (ours != ours and theirs != theirs), f"{ours!r}, not {theirs!r}"
            continue
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape, f"shape {ours.shape}, not {theirs.shape}"
        assert ours.dtype.newbyteorder("=") == theirs.dtype.newbyteorder("="), f"dtype {ours.dtype}, not {theirs.dtype}"
        if is_number(theirs.dtype) and not row.exact:
            wide = ours.astype(np.float64), theirs.astype(np.float64)
            is_float = "float" in theirs.dtype.name
            eps = float(ml_dtypes.finfo(theirs.dtype).eps) if is_float else 0.0
            lost = eps * np.abs(wholes[0].astype(np.float64)).sum()  # in another order
            assert np.allclose(*wide, rtol=0.3, atol=2 + lost, equal_nan=True), f"{ours}, not {theirs}"
            continue
        if row.exact and (theirs.dtype.kind not in "OV" or theirs.dtype.names is not None):
            equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
            assert np.all(equal), (
                f"{np.count_nonzero(~np.asarray(equal))} of {theirs.size} elements differ, as "
                f"{np.atleast_1d(ours)[~np.atleast_1d(equal)][:3]}, not {np.atleast_1d(theirs)[~np.atleast_1d(equal)][:3]}"
            )
        elif theirs.dtype.kind == "O":
            assert np.array_equal(ours, theirs) or (
                not row.exact and np.allclose(ours.astype(np.float64), theirs.astype(np.float64))
            ), "elements differ"
        elif row.exact:
            assert np.ascontiguousarray(ours).tobytes() == np.ascontiguousarray(theirs).tobytes(), "elements differ"
        elif theirs.dtype.kind in "fc":
            close(ours, theirs)
        else:
            assert np.array_equal(ours, theirs), f"{ours}, not {theirs}"


def unchanged(
    row: Operation, operands: dict[str, Operand], succeeded: bool, linear_algebra: bool, was_interrupted: bool
) -> list[str]:
    """What has changed that the call does not own."""
    faults = []
    for name, operand in operands.items():
        for memory in operand.memory:
            elements, others = memory.changed()
            if others:
                faults.append(f"bytes beside {name}'s elements have changed")
            may_change = name in row.consumes or name in row.writes
            if elements and (not may_change or memory.is_read_only):
                faults.append(f"elements of {name} have changed")
            is_marked = (
                linear_algebra or not isinstance(operand.array, psr.DistributedArray) or operand.array._consumed_by
            )
            if elements and name in row.consumes and not is_marked:
                faults.append(f"elements of {name} have changed, and it is not marked as consumed")
            if elements and name in row.writes and not succeeded and not row.is_local and not was_interrupted:
                faults.append(f"elements of {name} have changed in a call that failed")
    return faults


def threads() -> dict[int, tuple[int, tuple[int, ...]]]:
    """Scheduler class and affinity of each thread."""
    result = {}
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            result[int(task)] = os.sched_getscheduler(int(task)), tuple(sorted(os.sched_getaffinity(int(task))))
    return result


class Matrix:
    """The machine. Collective, all of it."""

    def __init__(self, seed: int, folder: Path, log: Any) -> None:
        self.seed, self.folder, self.log = seed, folder, log
        self.tests = WORLD.Dup()
        self.comm = WORLD.Dup()
        self.failures: list[str] = []
        self.counts = {"right": 0, "refused": 0, "impossible": 0}
        self.threads = threads()[os.getpid()]
        self.number, self.strange = 0, set[int]()
        self.again()

    def again(self) -> None:
        """A communicator as new, with a plan that shows whether it works."""
        grids = [psr.ProcessGrid(shape, self.comm) for shape in ((SIZE, 1), (1, SIZE))]
        before, after = (psr.Descriptor((6, 5), 2, grid) for grid in grids)
        self.probe = psr.redistribute(before, after)
        self.sent, self.wanted = (desc.from_function(lambda i, j: 10.0 * i + j) for desc in (before, after))

    def defect(self) -> str:
        """What is wrong with a transfer on the communicator, if anything is."""
        try:
            return "" if np.array_equal(self.probe(self.sent), self.wanted) else "wrong elements"
        except Exception as caught:
            return f"{type(caught).__name__}: {caught}"[:300]

    def meet(self) -> None:
        """Wait for all ranks as a program goes on: a transfer whose wait was interrupted moves in the next calls."""
        barrier = self.tests.Ibarrier()
        while not barrier.Test():
            advance_others()
            time.sleep(0)

    def attempt(self, case: Case) -> None:
        """Try a case, and keep what failed."""
        if self.log is not None:
            self.log.write(f"{case}\n")
            self.log.flush()
        self.number += 1
        row = OPERATIONS[case.operation]
        rng = np.random.default_rng([self.seed, zlib.crc32(str(case).encode())])
        try:
            operands = operands_of(case, row, self.comm, rng)
        except ImpossibleError:
            self.counts["impossible"] += 1
            return
        scene = Scene(self.comm, self.folder, 0, **operands)
        circumstance = CIRCUMSTANCES[case.circumstance]
        faults: list[str] = []
        result, outcome, error = None, Outcome(), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scene.value = row.before(scene)
            except Exception as caught:
                outcome, error = (
                    Outcome(
                        type(caught).__name__, f"before: {caught}"[:400], names_of(caught), isinstance(caught, EXPECTED)
                    ),
                    caught,
                )
            if error is None:
                result, outcome, error = tried(row, scene, circumstance)
        self.meet()
        outcomes: list[Outcome] = self.tests.allgather(outcome)
        failed = [rank for rank, each in enumerate(outcomes) if each.kind]
        succeeded = False
        wholes = [operand.whole for operand in operands.values()]
        if not failed:
            succeeded = True
            try:
                is_compared = (row.oracle is not None or row.check is not None) and not not_compared(case)
                whole = made_whole(result, self.tests) if is_compared else None
                if case.setting.difference and not row.is_local:
                    if differs(case, scene) and not not_compared(case):
                        raise AssertionError("no error, where ranks differ")
                elif not case.setting.difference and not not_compared(case):
                    compare(case, row, whole, wholes)
            except AssertionError as caught:
                faults.append(str(caught) or "".join(traceback.format_tb(caught.__traceback__)[-1:]))
            except Exception as caught:
                if not (oracle_raises(row, wholes)):
                    faults.append(f"cannot be compared: {type(caught).__name__}: {caught}")
        elif len(failed) < SIZE and row.is_local and oracle_raises(row, wholes):
            pass  # a rank that has no elements may not know their dtype
        elif len(failed) < SIZE and circumstance.may_differ:
            pass
        elif len(failed) < SIZE and OF_EACH_RANK.search(f"{case}"):
            pass  # what comes after the move, or what a number is written into
        elif (
            (case.operation.startswith(OF_GRIDS) or row.is_local)
            and case.setting.layout in OF_SOME_RANKS
            and len(failed) < SIZE
        ):
            pass  # collective over the grids, or not at all
        elif len(failed) < SIZE and not (
            row.is_local and (case.setting.difference or "one rank" in case.setting.memory or circumstance.may_fail)
        ):
            first = outcomes[failed[0]]
            faults.append(f"an error on {failed} of {SIZE} ranks: {first.kind}: {first.text}")
        else:
            first = next(each for each in outcomes if each.kind)
            worst = next((each for each in outcomes if each.kind and not each.is_expected), None)
            if any(each.kind == "WaitTimeoutError" for each in outcomes):
                faults.append(f"waited: {first.text}")
            elif circumstance.may_fail:
                pass
            elif worst is not None and not oracle_raises(row, wholes, worst.kinds) and not may_refuse(case, worst):
                faults.append(f"{worst.kind}: {worst.text}")
            elif not case.setting.difference and not oracle_raises(row, wholes) and not may_refuse(case, first):
                faults.append(f"refused: {first.kind}: {first.text}")
        faults += unchanged(row, operands, succeeded, case.operation.startswith("linalg"), circumstance.may_differ)
        for task, state in threads().items():
            if state != self.threads and task not in self.strange:
                self.strange.add(task)
                faults.append(f"thread {task} has scheduler class and affinity {state}, and not {self.threads}")
        everything = self.tests.allgather((faults, self.defect()))
        if any(defect for _, defect in everything):
            faults_of_all = [
                f"the communicator does not work on rank {rank}: {defect}"
                for rank, (_, defect) in enumerate(everything)
                if defect
            ]
            self.comm = WORLD.Dup()
            self.again()
        else:
            faults_of_all = []
        for rank, (faults, _) in enumerate(everything):
            faults_of_all += [
                f"rank {rank}: {fault}" for fault in faults if not any(fault in each for each in faults_of_all)
            ]
        del result, scene, error
        if faults_of_all:
            self.failures.append(f"{case}\n    " + "\n    ".join(faults_of_all))
            if RANK == 0:
                print(self.failures[-1], flush=True)
        else:
            self.counts["refused" if failed else "right"] += 1
        if self.number % 200 == 0:
            gc.collect()


def differs(case: Case, scene: Scene) -> bool:
    """Whether a call has read what is different on one rank."""
    if case.setting.difference in ("another dtype", "None"):
        return bool(scene.read & ({"a", "local"} if case.role in ("a", ALL) else {case.role}))
    return bool(scene.read & ({"a", "local", "desc"} if case.role in ("a", ALL) else {case.role}))


def oracle_raises(row: Operation, wholes: list[NDArray[Any]], kinds: tuple[str, ...] = ()) -> bool:
    """Whether NumPy refuses the same, by an error of one of these classes."""
    if row.oracle is None:
        return False
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row.oracle(*[whole.copy() for whole in wholes])
    except Exception as error:
        return not kinds or "CollectiveError" in kinds or bool({*kinds} & {*names_of(error)})
    return False


def chosen(arguments: argparse.Namespace) -> Iterator[Case]:
    """The cases to try, in an order that all ranks have."""
    rng = np.random.default_rng(arguments.seed)
    every = cases()
    if arguments.only:
        every = [case for case in every if re.search(arguments.only, str(case))]
    if arguments.part:
        k, n = map(int, arguments.part.split("/"))
        every = every[k - 1 :: n]
    if arguments.skip:
        skipped = set(Path(arguments.skip).read_text().splitlines())
        every = [case for case in every if str(case) not in skipped]
    if arguments.amount == ALL:
        yield from every
        return
    order, tries = rng.permutation(len(every)), int(arguments.amount)
    for k in range(tries):
        if k < len(every) and k % 3:
            yield every[int(order[k])]
        else:  # odd in several respects
            case = every[int(rng.integers(len(every)))]
            setting = drawn_setting(rng)
            if fits(case.operation, OPERATIONS[case.operation].kinds.split(), case.role, setting):
                yield case._replace(setting=setting)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("amount")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only")
    parser.add_argument("--part")
    parser.add_argument("--log")
    parser.add_argument("--skip")
    arguments = parser.parse_args()
    folder = Path(WORLD.bcast(tempfile.mkdtemp() if RANK == 0 else None))
    log = Path(arguments.log).open("a") if arguments.log and RANK == 0 else None  # noqa: SIM115
    matrix = Matrix(arguments.seed, folder, log)
    start = time.monotonic()
    for case in chosen(arguments):
        matrix.attempt(case)
    if RANK == 0:
        words = ", ".join(f"{number} {name}" for name, number in matrix.counts.items())
        print(f"seed {arguments.seed}: {words}, {len(matrix.failures)} failed, in {time.monotonic() - start:.0f} s")
        if not matrix.failures:
            print("OK")
    WORLD.Barrier()


if __name__ == "__main__":
    main()
