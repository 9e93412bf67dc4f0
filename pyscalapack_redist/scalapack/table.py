"""The routines as a table, their arguments as another, and the one caller that reads both.

ScaLAPACK ends the process on bad input, so everything is checked first, on this rank only, without communication.

p?syevr (some of the eigenvectors) is left out: netlib's returns wrong vectors without an error (real matrices, blocks of 32
and 64), and MKL's does not return from some matrices with equal eigenvalues.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import without_avx2
from ..errors import DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.dimensions import check_one_size
from ..layout.letters import DIAGONALS, NORMS, TRANSPOSES, TRIANGLES, letter_of
from . import calls
from .calls import ConvergenceError, Entry, SingularError, agree_to_enter, over_grid, topologies_of, workspace_size
from .matrix_operands import (
    DTYPE_OF_KIND,
    FACTORED_KINDS,
    KIND_OF_DTYPE,
    Operand,
    beyond_gesvd,
    beyond_syevd,
    check_aligned,
    check_info,
    check_longer_sides,
    check_matrix,
    check_problem,
    check_product,
    check_reflectors,
    check_same_shape,
    check_separate,
    check_sides,
    check_square,
    checked_vector,
    diagonal_places,
    enclosing_context,
    kind_of,
    operand,
)


class Eigenpairs(NamedTuple):
    """What `pxsyevd` returns; None twice on a rank outside the grid.

    Attributes
    ----------
    values : ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid.
    vectors : ndarray or None
        Local array of the eigenvectors, in the blocks and on the grid of the matrix: column k belongs to value k.
    """

    values: NDArray[Any] | None
    vectors: NDArray[Any] | None


class SingularTriplets(NamedTuple):
    """What `pxgesvd` returns; None on a rank outside the grid.

    Attributes
    ----------
    left : ndarray or None
        Local array of the left singular vectors, the columns of U.
    values : ndarray of a real dtype, or None
        All singular values, descending, on every rank of the grid.
    right : ndarray or None
        Local array of V^H, whose rows are the right singular vectors.
    """

    left: NDArray[Any] | None
    values: NDArray[Any] | None
    right: NDArray[Any] | None


# -- the caller


@dataclass(frozen=True)
class Routine:
    """A row of the table."""

    # Without p and the letter of the dtype. For complex numbers "sy" is "he", and "or" is "un".
    name: str
    # By name, in ScaLAPACK's order: those of `ARGUMENTS`, or else of the Python function. An operand stands for its address,
    # IA, JA and descriptor, a workspace for itself and its size, and a capital for itself.
    arguments: str
    # They refuse layouts and numbers, on ranks outside the grid too. Each takes the arguments by name.
    checks: tuple[Callable[..., None], ...]
    # Operands that are written: no other one may be in their memory.
    written: str = "a"
    # Why the routine cannot take the first layout, which others take.
    beyond: Callable[[Descriptor], str] | None = None
    # The error where INFO is positive. In its text, `info` is that, and `value` the eigenvalue that it stands for.
    fails: tuple[type[LinAlgError], str] | None = None
    # Arguments that are the result, and the result on a rank outside the grid.
    gives: str = ""
    outside: Any = None
    # Elements that it needs beyond what it asks for, in each workspace of floating-point numbers.
    missing: Callable[[Descriptor], int] | None = None
    # Enters the library, puts right what its versions do wrong, and gives the result.
    body: Callable[[RoutineCall], Any] | None = None

    @functools.cached_property
    def names(self) -> list[str]:
        """Of the arguments."""
        return self.arguments.split()


class RoutineCall:
    """A call of a routine on this rank."""

    desc: Descriptor  # the first layout
    kind: str  # the letter of the operands' dtype
    dtype: np.dtype[Any]
    real: np.dtype[Any]  # of their real parts
    info: int  # after the call

    def __init__(self, routine: Routine, arguments: dict[str, Any], layouts: dict[str, str]) -> None:
        self.arguments = arguments  # those of the Python function by name, and then those of ScaLAPACK
        self._routine, self._layouts = routine, layouts

    def run(self) -> Any:
        """Check the arguments, make those that are missing, and run the routine. Collective over the grid or the context."""
        routine, arguments = self._routine, self.arguments
        for name in routine.names:
            if name in LETTERS:
                arguments[name] = letter_of(name, arguments[name], LETTERS[name])
        layouts: dict[str, Descriptor] = {name: arguments[name] for name in self._layouts.values()}
        for name, desc in layouts.items():
            check_matrix(name, desc)
        self.desc = next(iter(layouts.values()))
        for check in routine.checks:
            check(**arguments)
        obstacle = routine.beyond(self.desc) if routine.beyond is not None else ""
        if obstacle:
            raise DescriptorError(f"desc = {self.desc!r} is {obstacle}: redistribute to another layout first")
        self._is_copy, outside = "context" in arguments, self.desc.grid.coords is None
        if self._is_copy:
            context = enclosing_context(self.desc, arguments["desc_b"], arguments["context"])
            arguments["context"] = np.intc(context)  # no Python integer, and so no word that ranks have alike
            outside = context < 0
        if outside:
            for desc in layouts.values():
                check_one_size(desc.distributions)
            return routine.outside
        written = routine.written.split()
        self._operands = [
            operand(name, arguments[name], layouts[layout], written=name in written)
            for name, layout in self._layouts.items()
        ]
        self.kind = kind_of(*self._operands, allowed="sdczi" if self._is_copy else FACTORED_KINDS)
        self.dtype = DTYPE_OF_KIND[self.kind]
        self.real = DTYPE_OF_KIND[{"c": "s", "z": "d"}.get(self.kind, self.kind)]
        for first, second in itertools.combinations(self._operands, 2):
            if first.name in written or second.name in written:
                check_separate(first, second)
        arguments.update({each.name: each for each in self._operands})
        arguments.update({name: ARGUMENTS[name](self) for name in routine.names if name in ARGUMENTS})
        return self.enter() if routine.body is None else routine.body(self)

    @functools.cached_property
    def name(self) -> str:
        """With p and the letter, as "pzheevd"."""
        name = self._routine.name
        if self.kind in "cz":
            name = {"sy": "he", "or": "un"}.get(name[:2], name[:2]) + name[2:]
        return f"p{self.kind}{name}"

    def shape_of(self, layout: str) -> tuple[int, ...]:
        """The shape of an operand, by the name of its layout."""
        shape: tuple[int, ...] = self.arguments[layout].shape
        return shape

    def enter(self, then: Callable[[], object] = lambda: None) -> Any:
        """Call the library where there is anything to do, `then` while all ranks are here, and give the result. Collective."""
        self.info, self.returned = 0, 0
        if all(self.arguments[name] for name in self._routine.names if name in SIZES):
            self._make_workspaces()
            routine = self._fortran()

            def work() -> None:
                self.returned = routine()
                then()

            self.enter_with(self.name, self._entry, work)
            self._read_info()
        if self.info > 0 and self._routine.fails is not None:
            kind, text = self._routine.fails
            value = self.info // (self.desc.shape[0] + 1)
            raise kind(f"{self.name}: {text.format(info=self.info, value=value)}")
        return self._result()

    def enter_with(self, phase: str, entry: Callable[[], Entry], work: Callable[[], object]) -> None:
        """Enter the library, which takes no memory of ours any more, once all ranks can. Collective inside of `together`."""
        if self._is_copy:
            agree_to_enter(entry)
            work()
            return
        kept = topologies_of(self.desc.grid.context)
        agree_to_enter(entry)
        with tracing.phase(phase, self.desc, self.desc), kept:
            work()

    def _result(self) -> Any:
        parts = [self.arguments[name] for name in self._routine.gives.split()]
        parts = [part.array if isinstance(part, Operand) else part for part in parts]
        outside = self._routine.outside
        return type(outside)(*parts) if isinstance(outside, tuple) else parts[0] if parts else None

    def _values(self) -> list[Any]:
        """The arguments in ScaLAPACK's order."""
        return [self.arguments.get(name, name) for name in self._routine.names]

    def _entry(self) -> Entry:
        words = tuple([value for value in self._values() if isinstance(value, str | int)])
        arrays = [each.array for each in self._operands if each.array is not None and each.array.size]
        return Entry(f"p?{self._routine.name}", words, str(arrays[0].dtype) if arrays else None)

    def _fortran(self) -> calls.FortranCall:
        values: list[Any] = []
        for value in self._values():
            values += value if isinstance(value, list) else (value,)
        return calls.FortranCall(self.name, values, RESULTS.get((self._routine.name, self.real.char)))

    def _read_info(self) -> None:
        if "info" in self.arguments:
            self.info = int(self.arguments["info"][0])
            check_info(self.name, self.info, *self._operands)

    def _make_workspaces(self) -> None:
        """Those of the routine, of the sizes that it asks for, and more where that is too little. Collective, as `run`."""
        asked = {name: space for name in WORKSPACES if (space := self.arguments.get(name))}
        if not asked:
            return
        missing = 0 if self._routine.missing is None else self._routine.missing(self.desc)
        query = self._fortran()
        agree_to_enter(self._entry)  # a query compares its arguments on all processes
        query()
        self._read_info()
        for name, (answer, _) in asked.items():
            size = max(1, workspace_size(answer) + (missing if name != "iwork" else 0))
            self.arguments[name] = [np.zeros(size, answer.dtype), size]


# -- bodies of routines that need more than a call


def _getrf(call: RoutineCall) -> Any:
    n, desc, local = call.desc.shape[0], call.desc, call.arguments["a"].array
    first = np.full(2, n + 1, np.intc)
    diagonal, least = diagonal_places(desc), over_grid("igamn2d", first, desc)

    def find_small_pivots() -> None:
        """MKL's does not tell of each zero pivot, and netlib's returns from a matrix of one row without a look at it."""
        first[:] = _first_small(local, *diagonal, n)
        least()

    pivots = call.enter(find_small_pivots)
    zero, subnormal = first.tolist()
    if subnormal < min(zero, n):
        raise LinAlgError(
            f"{call.name}: pivot {subnormal} (counted from 1) is so small that ScaLAPACK cannot divide by it: multiply the "
            "matrix by a power of 2, or call qr or lstsq"
        )
    if call.info > 0 and zero > n:
        raise LinAlgError(
            f"{call.name}: pivot {call.info} (counted from 1) was not found: the matrix has infs, NaNs or subnormal numbers"
        )
    if zero <= n:
        raise SingularError(f"{call.name}: {SINGULAR.format(info=call.info or zero)}")
    return pivots


def _first_small(
    local: NDArray[Any], indices: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64], n: int
) -> list[int]:
    """On this rank's part of the diagonal the first zero, and the first number of which the reciprocal overflows.

    Counted from 1; n + 1 where there is none.
    """
    sizes = np.abs(local[rows, columns])
    least = 1 / np.finfo(sizes.dtype).max
    zeros, subnormal = indices[sizes == 0], indices[(sizes > 0) & (sizes < least)]
    return [int(some[0]) + 1 if some.size else n + 1 for some in (zeros, subnormal)]


def _lange(call: RoutineCall) -> float:
    """It compares what it has found, and so loses what is no number; that is looked for here."""
    desc, local, regular = call.desc, call.arguments["a"].array, np.ones(1, np.intc)
    everywhere = over_grid("igamn2d", regular, desc)
    regular[0] = not np.isnan(local[: desc.local_shape[0]]).any()
    call.enter(everywhere)
    return float(call.returned) if regular[0] else float("nan")


def _gesvd(call: RoutineCall) -> Any:
    """It compares the values of the processes, which may differ by rounding where some hold nothing."""
    desc, few, values = call.desc, min(call.desc.shape), call.arguments["values"]
    low, high = np.zeros((2, few), call.real)
    letter = KIND_OF_DTYPE[call.real]
    extremes = over_grid(f"{letter}gamn2d", low, desc), over_grid(f"{letter}gamx2d", high, desc)
    triplets = call.enter()
    if 0 < call.info <= few:
        raise ConvergenceError(f"{call.name}: {call.info} singular values did not converge")
    if call.info > few:
        low[:] = high[:] = values
        for extreme in extremes:
            extreme()
        values[:] = high
    if call.info > few and (high - low).max() > 10 * max(desc.shape) * np.finfo(high.dtype).eps * high.max():
        raise ConvergenceError(f"{call.name}: the ranks found different singular values (INFO = {call.info})")
    return triplets if call.arguments["vectors"] else triplets._replace(left=None, right=None)


def _symmetric(call: RoutineCall) -> Any:
    """With the upper triangle of the transpose in place of the lower one, where that is not safe. Collective over the grid.

    OpenBLAS's ssymv of the lower triangle, in kernels for processors without AVX2, multiplies what earlier calls have left in
    its buffer by zero: after NaNs anywhere, or other numbers that read as such, there are NaNs, or ranks wait for ever.
    """
    desc, n = call.desc, call.desc.shape[0]
    if (call.kind, call.arguments["uplo"]) != ("s", "L") or n == 0:
        return call.enter()
    sound = np.array([not without_avx2(blacs.load())], np.intc)
    call.enter_with("igamn2d", lambda: Entry("igamn2d", (), None), over_grid("igamn2d", sound, desc))
    if not sound[0]:
        transpose, (one, zero) = (
            operand("a", desc.zeros(call.dtype), desc, written=True),
            np.eye(2, 1, dtype=call.dtype),
        )
        turn = calls.FortranCall("pstran", (n, n, one, call.arguments["a"], zero, transpose))
        call.enter_with("pstran", lambda: Entry("pstran", (n, n), None), turn)
        call.arguments |= {"a": transpose, "uplo": "U"}
    return call.enter()


def _missing_of_syevd(desc: Descriptor) -> int:
    """What p?syevd may ask for too little: what p?ormtr needs, and p?lasrt in it. It is much where blocks are large."""
    rows, columns = desc.local_shape_of((0, 0))
    block = int(desc.block[0])
    return max(block * (block - 1) // 2, (rows + columns) * block) + block * block


def _sygst(call: RoutineCall) -> float:
    return float(call.enter()[0])


def _orgqr_factors(call: RoutineCall) -> NDArray[Any]:
    """It takes a factor for each local column of Q, and not for each reflector."""
    needed = int(np.count_nonzero(call.desc.global_indices(1) < call.arguments["reflectors"]))
    tau = checked_vector("tau", call.arguments["tau"], max(1, needed), call.dtype, "pxgeqrf")
    factors = np.zeros(max(1, call.desc.local_shape[1]), call.dtype)
    factors[: min(tau.size, factors.size)] = tau[: factors.size]
    return factors


# -- the tables


def _vectors(name: str, rows: Callable[[RoutineCall], tuple[int, int]]) -> Callable[[RoutineCall], Operand]:
    """An operand that is made, in the blocks and on the grid of the first one."""

    def make(call: RoutineCall) -> Operand:
        desc = Descriptor(rows(call), call.desc.block, call.desc.grid)
        return operand(name, desc.zeros(call.dtype), desc, written=True)

    return make


def _pivots_size(call: RoutineCall) -> int:
    return int(call.desc.local_shape[0] + call.desc.block[0])


LETTERS = {
    "uplo": TRIANGLES,
    "diag": DIAGONALS,
    "trans": TRANSPOSES,
    "trans_a": TRANSPOSES,
    "trans_b": TRANSPOSES,
    "norm": NORMS,
}
SIZES = ("m", "n", "sides", "columns", "rows_c", "columns_c")  # where one of them is 0, there is nothing to call
WORKSPACES = ("work", "rwork", "iwork")  # of the sizes that a routine asks for; the second only for complex numbers
RESULTS = {("lange", "f"): ctypes.c_float, ("lange", "d"): ctypes.c_double}  # of functions, by their real parts
ARGUMENTS: dict[str, Callable[[RoutineCall], Any]] = {
    # sizes
    "m": lambda call: call.desc.shape[0],
    "n": lambda call: call.desc.shape[1],
    "sides": lambda call: call.shape_of("desc_b")[1],
    "rows_c": lambda call: call.shape_of("desc_c")[0],
    "columns_c": lambda call: call.shape_of("desc_c")[1],
    "inner": lambda call: call.desc.shape[1 if call.arguments["trans_a"] == "N" else 0],
    # numbers
    "one": lambda call: np.ones(1, call.dtype),
    "alpha": lambda call: np.array([call.arguments["alpha"]], call.dtype),
    "beta": lambda call: np.array([call.arguments["beta"]], call.dtype),
    "scale": lambda call: np.ones(1, call.real),
    "info": lambda call: np.zeros(1, np.intc),
    # what one routine leaves to another
    "new_pivots": lambda call: np.zeros(_pivots_size(call), np.intc),
    "pivots": lambda call: checked_vector(
        "pivots", call.arguments["pivots"], _pivots_size(call), np.dtype(np.intc), "pxgetrf"
    ),
    "new_tau": lambda call: np.zeros(max(1, call.desc.local_shape[1]), call.dtype),
    "tau": _orgqr_factors,
    # results
    "values": lambda call: np.zeros(min(call.desc.shape), call.real),
    "eigenvectors": _vectors("vectors", lambda call: (call.desc.shape[0], call.desc.shape[1])),
    "job": lambda call: "V" if call.arguments["vectors"] else "N",
    "left": _vectors("left", lambda call: (call.desc.shape[0], min(call.desc.shape))),
    "right": _vectors("right", lambda call: (min(call.desc.shape), call.desc.shape[1])),
    # workspaces
    "work": lambda call: [np.zeros(1, call.dtype), -1],
    "rwork": lambda call: [np.zeros(1, call.real), -1] if call.kind in "cz" else [],
    "iwork": lambda call: [np.zeros(1, np.intc), -1],
    "reals": lambda call: [np.zeros(4 * max(call.desc.shape) + 1, call.real)] if call.kind in "cz" else [],
    "sums": lambda call: np.zeros(max(1, *call.desc.local_shape) + call.desc.block[0], call.real),
}

ALIGNED = (check_square, check_aligned)
SYSTEM = (check_square, check_aligned, check_sides)
PAIR = (check_problem, check_square, check_aligned, check_same_shape)
SINGULAR = "the matrix is singular: pivot {info} (counted from 1) is exactly zero"
NOT_POSITIVE = "the matrix is not positive definite: its leading minor of order {info} is not"
TRIANGULAR = "L uplo trans N n sides one a b"
TABLE = {
    "pxgemr2d": Routine("gemr2d", "m n a b context", (check_same_shape,), "b"),
    "pxtrmr2d": Routine("trmr2d", "uplo diag m n a b context", (check_same_shape,), "b"),
    "pxgetrf": Routine("getrf", "m n a new_pivots info", (check_square,), gives="new_pivots", body=_getrf),
    "pxgetrs": Routine(
        "getrs", "trans n sides a pivots b info", (check_square, check_sides), "b", fails=(LinAlgError, SINGULAR)
    ),
    "pxgetri": Routine("getri", "n a pivots work iwork info", ALIGNED, fails=(LinAlgError, SINGULAR)),
    "pxpotrf": Routine("potrf", "uplo n a info", ALIGNED, fails=(LinAlgError, NOT_POSITIVE)),
    "pxpotrs": Routine("potrs", "uplo n sides a b info", SYSTEM, "b"),
    "pxtrsm": Routine("trsm", TRIANGULAR, SYSTEM, "b"),
    "pxtrmm": Routine("trmm", TRIANGULAR, SYSTEM, "b"),
    "pxgemm": Routine(
        "gemm", "trans_a trans_b rows_c columns_c inner alpha a b beta c", (check_aligned, check_product), "c"
    ),
    "pxlange": Routine("lange", "norm m n a sums", (check_aligned,), "", body=_lange),
    "pxgeqrf": Routine("geqrf", "m n a new_tau work info", (check_aligned,), gives="new_tau"),
    "pxorgqr": Routine("orgqr", "m columns reflectors a tau work info", (check_aligned, check_reflectors)),
    "pxgesvd": Routine(
        "gesvd",
        "job job m n a values left right work reals info",
        (check_aligned,),
        beyond=beyond_gesvd,
        gives="left values right",
        outside=SingularTriplets(None, None, None),
        body=_gesvd,
    ),
    "pxgels": Routine("gels", "N m n sides a b work info", (check_aligned, check_longer_sides), "a b"),
    "pxsyev": Routine(
        "syev",
        "N uplo n a values a work rwork info",
        ALIGNED,
        beyond=beyond_syevd,
        missing=_missing_of_syevd,
        fails=(ConvergenceError, "not all eigenvalues were found (INFO = {info})"),
        gives="values",
        body=_symmetric,
    ),
    "pxsyevd": Routine(
        "syevd",
        "V uplo n a values eigenvectors work rwork iwork info",
        ALIGNED,
        beyond=beyond_syevd,
        missing=_missing_of_syevd,
        fails=(ConvergenceError, "eigenvalue {value} (counted from 1) did not converge"),
        gives="values eigenvectors",
        outside=Eigenpairs(None, None),
        body=_symmetric,
    ),
    "pxsygst": Routine("sygst", "problem uplo n a b scale info", PAIR, gives="scale", outside=1.0, body=_sygst),
}
