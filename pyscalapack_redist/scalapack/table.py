"""What a row says of a routine, the table of the routines' arguments, and the one caller that reads both.

ScaLAPACK ends the process on bad input, so all arguments are checked first, on this rank only, without communication.

p?syevr (some of the eigenvectors) is missing on purpose: netlib's returns wrong vectors without an error (real matrices,
blocks of 32 and 64), and MKL's does not return from some matrices with equal eigenvalues.
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

from .. import tracing
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.dimensions import check_one_size
from ..layout.letters import DIAGONALS, FACTORS, NORMS, SIDES, TRANSPOSES, TRIANGLES, letter_of
from . import calls
from .calls import (
    Entry,
    agree_to_enter,
    at_work,
    require_finite,
    topologies_of,
    workspace_size,
)
from .matrix_operands import (
    DTYPE_OF_KIND,
    FACTORED_KINDS,
    Operand,
    check_info,
    check_matrix,
    check_separate,
    check_vector,
    find_enclosing_context,
    full_name,
    is_finite,
    kind_of,
    operand,
)
from .workspace import workspaces


class Eigenpairs(NamedTuple):
    """The result of `pxsyevd`; both fields are None on a rank outside the grid.

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
    """The result of `pxgesvd`; all fields are None on a rank outside the grid.

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


class PivotedQR(NamedTuple):
    """The result of `pxgeqpf`, beside the matrix; both fields are None on a rank outside the grid.

    Attributes
    ----------
    columns : ndarray of int or None
        For each local column of A P the column of A that it was, counted from 1.
    tau : ndarray or None
        Factors of the reflectors, as `pxorgqr` takes them.
    """

    columns: NDArray[Any] | None
    tau: NDArray[Any] | None


class Bidiagonal(NamedTuple):
    """The result of `pxgebrd`, beside the matrix; all fields are None on a rank outside the grid.

    Attributes
    ----------
    d, e : ndarray of a real dtype, or None
        The diagonal of B and the one beside it, as p?gebrd distributes them. B's elements in the matrix are the same.
    tau_q, tau_p : ndarray or None
        Factors of the reflectors of Q and P, as `pxormbr` takes them.
    """

    d: NDArray[Any] | None
    e: NDArray[Any] | None
    tau_q: NDArray[Any] | None
    tau_p: NDArray[Any] | None


class Tridiagonal(NamedTuple):
    """The result of `pxsytrd`, A = Q T Q^H; all fields are None on a rank outside the grid.

    Attributes
    ----------
    diagonal : ndarray of a real dtype, or None
        Elements (j, j) of T, for each column j that this rank holds.
    off_diagonal : ndarray of a real dtype, or None
        Elements (j + 1, j) of T for `uplo` "L", and (j - 1, j) for "U"; that of a column without one means nothing.
    tau : ndarray or None
        Factors of the reflectors, as `pxormtr` takes them.
    reflectors : ndarray or None
        Local array of the reflectors of Q, in the layout of the matrix: its own, or a new one.
    uplo : str or None
        The triangle that they are in.
    """

    diagonal: NDArray[Any] | None
    off_diagonal: NDArray[Any] | None
    tau: NDArray[Any] | None
    reflectors: NDArray[Any] | None
    uplo: str | None


# -- the caller


@dataclass(frozen=True)
class Routine:
    """A row of the table of routines (scalapack/routines.py)."""

    # Without p and the letter of the dtype. For complex numbers "sy" becomes "he", and "or" becomes "un".
    name: str
    # Names in ScaLAPACK's order, from `ARGUMENTS` or of the Python function. An operand stands for its address, IA, JA and
    # descriptor, a workspace for itself and its size, and a capital letter for itself.
    arguments: str
    # Checks of layouts and numbers, on ranks outside the grid too. Each takes the arguments by name.
    checks: tuple[Callable[..., None], ...]
    # Operands that are written: no other operand may share their memory.
    written: str = "a"
    # Letters of the dtypes that the operands may have.
    kinds: str = FACTORED_KINDS
    # Returns why this routine cannot take the first layout, though other routines can; "" if it can.
    obstacle: Callable[[Descriptor], str] | None = None
    # Whether it iterates until numbers are small: with infs and NaNs it might never return.
    iterates: bool = False
    # The error for a positive INFO. Its text may use `info`, and `value`, the number of the eigenvalue.
    failure: tuple[type[LinAlgError], str] | None = None
    # Names of the arguments that are the result; the result on a rank outside the grid.
    results: str = ""
    result_outside: Any = None
    # Enters the library, works around errors of its versions, and returns the result.
    body: Callable[[LibraryCall], Any] | None = None

    @functools.cached_property
    def names(self) -> list[str]:
        """Names of the arguments."""
        return self.arguments.split()


class LibraryCall:
    """A call of a routine on this rank."""

    desc: Descriptor  # the first layout
    kind: str  # the letter of the operands' dtype
    dtype: np.dtype[Any]
    real: np.dtype[Any]  # dtype of their real parts
    info: int  # INFO after the call
    alike: list[str]  # numbers and vectors that all ranks must have alike, beside letters and sizes

    def __init__(self, routine: Routine, arguments: dict[str, Any], layouts: dict[str, str]) -> None:
        self.arguments = arguments  # the Python function's by name; `run` adds ScaLAPACK's
        self._routine, self._layouts = routine, layouts

    def run(self) -> Any:
        """Check the arguments, make ScaLAPACK's, and run the routine. Collective over the grid or the context."""
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
        obstacle = routine.obstacle(self.desc) if routine.obstacle is not None else ""
        if obstacle:
            raise DescriptorError(f"desc = {self.desc!r} is {obstacle}: redistribute to another layout first")
        self._is_copy, outside = "context" in arguments, self.desc.grid.coords is None
        if self._is_copy:
            context = find_enclosing_context(self.desc, arguments["desc_b"], arguments["context"])
            arguments["context"] = np.intc(context)  # no Python integer: ranks compare those (`_entry`)
            outside = context < 0
        if outside:
            for desc in layouts.values():
                check_one_size(desc.distributions)
            return routine.result_outside
        written = routine.written.split()
        self._operands = [
            operand(name, arguments[name], layouts[layout], written=name in written)
            for name, layout in self._layouts.items()
        ]
        self.kind = kind_of(*self._operands, allowed="sdczi" if self._is_copy else routine.kinds)
        self.dtype = DTYPE_OF_KIND[self.kind]
        self.real = DTYPE_OF_KIND[{"c": "s", "z": "d"}.get(self.kind, self.kind)]
        for first, second in itertools.combinations(self._operands, 2):
            if first.name in written or second.name in written:
                check_separate(first, second)
        if routine.iterates:
            require_finite(self.name, is_finite(self.desc, self._operands[0].array, arguments.get("uplo", "")))
        self._workspaces = workspaces(self.name, routine.name, self.kind, arguments)
        self.alike = [str(complex(arguments[name])) for name in NUMBERS if name in routine.names]
        arguments.update({operand.name: operand for operand in self._operands})
        arguments.update({name: ARGUMENTS[name](self) for name in routine.names if name in ARGUMENTS})
        with np.errstate(all="ignore"):  # what the user has asked NumPy to raise is not for what is between ranks
            return self.enter() if routine.body is None else routine.body(self)

    @functools.cached_property
    def name(self) -> str:
        """The routine's full name, such as "pzheevd"."""
        return f"p{full_name(self.kind, self._routine.name)}"

    def shape_of(self, layout: str) -> tuple[int, ...]:
        """Return the shape of an operand, by the name of its layout."""
        shape: tuple[int, ...] = self.arguments[layout].shape
        return shape

    def enter(self, then: Callable[[], object] = lambda: None, before: Callable[[], object] = lambda: None) -> Any:
        """Call the library unless a size is 0, between `before` and `then` on all ranks; return the result. Collective."""
        self.info, self.return_value = 0, 0
        if all(self.arguments[name] for name in self._routine.names if name in SIZES):
            self._make_workspaces()
            routine = self._fortran()

            def work() -> None:
                before()
                self.return_value = routine()
                then()

            self.enter_with(self.name, self._entry, work)
            self._read_info()
        if self.info > 0 and self._routine.failure is not None:
            kind, text = self._routine.failure
            value = self.info // (self.desc.shape[0] + 1)
            raise kind(f"{self.name}: {text.format(info=self.info, value=value)}")
        return self._result()

    def enter_with(self, phase: str, entry: Callable[[], Entry], work: Callable[[], object]) -> None:
        """Enter the library once all ranks can; all memory is taken by then. Collective inside `run_together`."""
        if self._is_copy:
            agree_to_enter(entry)
            with at_work(self.desc):
                work()
            return
        topologies = topologies_of(self.desc.grid.context)
        agree_to_enter(entry)
        with tracing.phase(phase, self.desc, self.desc), at_work(self.desc), topologies:
            work()

    def _result(self) -> Any:
        parts = [self.arguments[name] for name in self._routine.results.split()]
        parts = [part.array if isinstance(part, Operand) else part for part in parts]
        outside = self._routine.result_outside
        return type(outside)(*parts) if isinstance(outside, tuple) else parts[0] if parts else None

    def _values(self) -> list[Any]:
        """The arguments in ScaLAPACK's order."""
        return [self.arguments.get(name, name) for name in self._routine.names]

    def _entry(self) -> Entry:
        words = (*(value for value in self._values() if isinstance(value, str | int)), *self.alike)
        arrays = [operand.array for operand in self._operands if operand.array is not None and operand.array.size]
        descs = [operand.desc for operand in self._operands]
        return Entry(
            f"p?{self._routine.name}",
            words,
            str(arrays[0].dtype) if arrays else None,
            tuple([desc.layout_digest for desc in descs]),
            tuple([f"{desc.shape} from {desc.offset} in blocks {desc.block}, source {desc.source}" for desc in descs]),
        )

    def _fortran(self) -> calls.FortranCall:
        values: list[Any] = []
        for value in self._values():
            values += value if isinstance(value, list) else (value,)
        return calls.FortranCall(self.name, values, RETURN_TYPES.get((self._routine.name, self.real.char)))

    def _read_info(self) -> None:
        if "info" in self.arguments:
            self.info = int(self.arguments["info"][0])
            check_info(self.name, self.info, *self._operands)

    def _make_workspaces(self) -> None:
        """Make workspaces of the sizes that the routine's query or its documentation asks for. Collective, as `run`."""
        queries = {name: space for name in WORKSPACES if (space := self.arguments.get(name))}
        if not queries:
            return
        query = self._fortran()
        agree_to_enter(self._entry)  # a query compares its arguments on all processes
        query()
        self._read_info()
        for name, (answer, _) in queries.items():
            size = self._workspaces.size(name, workspace_size(answer))
            self.arguments[name] = [np.zeros(size, answer.dtype), size]


# -- the arguments


def _orgqr_factors(call: LibraryCall) -> NDArray[Any]:
    """Pad tau: p?orgqr reads a factor for each local column of Q, not only for each reflector."""
    needed = int(np.count_nonzero(call.desc.global_indices(1) < call.arguments["reflectors"]))
    tau = check_vector("tau", call.arguments["tau"], max(1, needed), call.dtype, "pxgeqrf")
    factors = np.zeros(max(1, call.desc.local_shape[1]), call.dtype)
    factors[: min(tau.size, factors.size)] = tau[: factors.size]
    return factors


def _bidiagonal_vector(real: bool) -> Callable[[LibraryCall], NDArray[Any]]:
    """Return a maker of a vector that p?gebrd distributes along the rows or the columns, whichever are more."""
    return lambda call: np.zeros(max(1, *call.desc.local_shape), call.real if real else call.dtype)


def _reflector_factors(call: LibraryCall) -> NDArray[Any]:
    """Check tau: of the columns with reflectors of Q, or of the rows with reflectors of P."""
    vect = call.arguments.get("vect", "Q")
    of_columns, count = vect == "Q", min(call.desc.shape)
    needed = int(np.count_nonzero(call.desc.global_indices(1 if of_columns else 0) < count))
    return check_vector("tau", call.arguments["tau"], max(1, needed), call.dtype, REDUCTIONS[call.name[-3:]])


def _adjoint(call: LibraryCall) -> str:
    """The letter for the conjugate transpose: for real numbers netlib takes only "T", for complex ones only "C"."""
    trans: str = call.arguments["trans"].upper()
    return trans if call.kind in "cz" or trans == "N" else "T"


def _vectors(name: str, rows: Callable[[LibraryCall], tuple[int, int]]) -> Callable[[LibraryCall], Operand]:
    """Return a maker of a new operand, in the blocks and on the grid of the first operand."""

    def make(call: LibraryCall) -> Operand:
        desc = Descriptor(rows(call), call.desc.block, call.desc.grid)
        return operand(name, desc.zeros(call.dtype), desc, written=True)

    return make


def _pivots_size(call: LibraryCall) -> int:
    return int(call.desc.local_shape[0] + call.desc.block[0])


def _pivots(call: LibraryCall) -> NDArray[Any]:
    """Those of an earlier call. With a row that is not there the library ends the program."""
    pivots = check_vector("pivots", call.arguments["pivots"], _pivots_size(call), np.dtype(np.intc), "pxgetrf")
    rows, used = call.desc.shape[0], pivots[: call.desc.local_shape[0]]
    if call.desc.parent is None and used.size and not 1 <= used.min() <= used.max() <= rows:
        raise ArrayError(
            f"pivots has {used.min()} to {used.max()}: pass what pxgetrf returned on this rank, rows 1 to {rows}"
        )
    return pivots


LETTERS = {
    "uplo": TRIANGLES,
    "diag": DIAGONALS,
    "trans": TRANSPOSES,
    "trans_a": TRANSPOSES,
    "trans_b": TRANSPOSES,
    "norm": NORMS,
    "side": SIDES,
    "vect": FACTORS,
}
SIZES = (
    "m",
    "n",
    "sides",
    "columns",
    "rows_c",
    "columns_c",
    "reduced",
    "reflected",
)  # if one is 0, the library is not called
NUMBERS = ("alpha", "beta")
REDUCTIONS = {"mqr": "pxgeqrf", "mbr": "pxgebrd", "mtr": "pxsytrd"}  # by the end of the name that multiplies
WORKSPACES = ("work", "rwork", "iwork")  # sized by a query; rwork for complex numbers only
RETURN_TYPES = {("lange", "f"): ctypes.c_float, ("lange", "d"): ctypes.c_double}  # by name and dtype of the real parts
ARGUMENTS: dict[str, Callable[[LibraryCall], Any]] = {
    # sizes
    "m": lambda call: call.desc.shape[0],
    "n": lambda call: call.desc.shape[1],
    "sides": lambda call: call.shape_of("desc_b")[1],
    "rows_c": lambda call: call.shape_of("desc_c")[0],
    "columns_c": lambda call: call.shape_of("desc_c")[1],
    "reduced": lambda call: call.desc.shape["QP".index(call.arguments["vect"]) - 1],
    "reflected": lambda call: min(call.desc.shape),
    "inner": lambda call: call.desc.shape[1 if call.arguments["trans_a"] == "N" else 0],
    # numbers
    "one": lambda call: np.ones(1, call.dtype),
    "alpha": lambda call: np.array([call.arguments["alpha"]], call.dtype),
    "beta": lambda call: np.array([call.arguments["beta"]], call.dtype),
    "scale": lambda call: np.ones(1, call.real),
    "info": lambda call: np.zeros(1, np.intc),
    # results of one routine that another reads
    "new_pivots": lambda call: np.zeros(_pivots_size(call), np.intc),
    "pivots": _pivots,
    "adjoint": _adjoint,
    "factors": _reflector_factors,
    **dict.fromkeys(("d", "e"), _bidiagonal_vector(real=True)),
    **dict.fromkeys(("tau_q", "tau_p"), _bidiagonal_vector(real=False)),
    "new_columns": lambda call: np.zeros(max(1, call.desc.local_shape[1]), np.intc),
    "new_tau": lambda call: np.zeros(max(1, call.desc.local_shape[1]), call.dtype),
    "tau": _orgqr_factors,
    # results
    "new_diagonal": lambda call: np.zeros(max(1, call.desc.local_shape[1]), call.real),
    "new_off_diagonal": lambda call: np.zeros(max(1, call.desc.local_shape[1]), call.real),
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

SINGULAR = "the matrix is singular: pivot {info} (counted from 1) is exactly zero"
NOT_POSITIVE = "the matrix is not positive definite: its leading minor of order {info} is not"
