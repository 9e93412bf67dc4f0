"""The routines as a table, and the one caller that reads it.

ScaLAPACK ends the process on bad input, so everything is checked first, on this rank only, without communication.

p?syevr (some of the eigenvectors) is left out: netlib's returns wrong vectors without an error (real matrices, blocks of 32
and 64), and MKL's does not return from some matrices with equal eigenvalues.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import without_avx2
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..layout.letters import DIAGONALS, NORMS, TRANSPOSES, TRIANGLES, letter_of
from . import calls
from .calls import over_grid, topologies_kept, workspace_size
from .operands import (
    FACTORED_KINDS,
    KIND_OF_DTYPE,
    check_aligned,
    check_eigenproblem,
    check_info,
    check_longer_sides,
    check_problem,
    check_product,
    check_reflectors,
    check_same_shape,
    check_separate,
    check_sides,
    check_singular_values,
    check_square,
    checked_pivots,
    diagonal_places,
    enclosing_context,
    kind_of,
    operand,
)
from .together import ConvergenceError, Entry, SingularError, agree_to_enter

__all__ = ["TABLE", "Call", "Eigenpairs", "SingularTriplets"]

LETTERS = {
    "uplo": TRIANGLES,
    "diag": DIAGONALS,
    "trans": TRANSPOSES,
    "trans_a": TRANSPOSES,
    "trans_b": TRANSPOSES,
    "norm": NORMS,
}
SIZES = ("m", "n", "sides", "columns")  # where one of them is 0, there is nothing to call
WORKSPACES = ("work", "rwork", "iwork")  # of the sizes that a routine asks for; the second only for complex numbers


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


def only_call(call: Call) -> None:
    """The body of a routine of which there is nothing to say."""
    call.enter()


class Routine(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    name : str
        Without p and the letter of the dtype. For complex numbers "sy" is "he", and "or" is "un".
    arguments : str
        Their names, in ScaLAPACK's order: those of the Python function, m and n for the sides of the first operand, and what
        `body` adds. An operand stands for its address, IA, JA and descriptor, a workspace for itself and its size, and a
        capital for itself.
    checks : tuple of callable
        They refuse layouts and numbers, on ranks outside the grid too. Each takes the arguments by name.
    written : str
        Operands that are written: no other one may be in their memory.
    body : callable
        Makes and checks arrays, enters the library, puts right what its versions do wrong, and gives the result.
    outside : object
        The result on a rank outside the grid.
    """

    name: str
    arguments: str
    checks: tuple[Callable[..., None], ...]
    written: str = "a"
    body: Callable[[Call], Any] = only_call
    outside: Any = None


class Call:
    """A call of a routine on this rank: it checks the arguments, and then runs the routine's body.

    Attributes
    ----------
    arguments : dict
        Those of the Python function by name, and then those of ScaLAPACK.
    layouts : dict of str to Descriptor
        By name.
    desc : Descriptor
        The first of them.
    kind : str
        The letter of the operands' dtype.
    dtype, real : dtype
        That of the operands, and of their real parts.
    """

    def __init__(self, routine: Routine, arguments: dict[str, Any], layouts: Mapping[str, str]) -> None:
        self._routine, self.arguments = routine, arguments
        self._names, self._layout_names = routine.arguments.split(), layouts
        self.layouts: dict[str, Any] = {name: arguments[name] for name in layouts.values()}
        self.desc: Descriptor = next(iter(self.layouts.values()))

    def run(self) -> Any:
        """The result. Collective over the grid, or the context of a copy between two."""
        routine, arguments = self._routine, self.arguments
        for name, letters in LETTERS.items():
            if name in self._names:
                arguments[name] = letter_of(name, arguments[name], letters)
        for check in routine.checks:
            check(**arguments)
        desc, self._is_copy = self.desc, "context" in arguments
        outside = desc.grid.coords is None
        if self._is_copy:
            context = enclosing_context(desc, arguments["desc_b"], arguments["context"])
            arguments["context"] = np.array([context], np.intc)  # a number of this process, and not of all
            outside = context < 0
        if outside:
            return routine.outside
        sides = arguments["desc_b"].shape[1] if "desc_b" in arguments else None
        arguments.update(m=desc.shape[0], n=desc.shape[1], sides=sides)
        self._read_operands(routine.written.split())
        return routine.body(self)

    def _read_operands(self, written: list[str]) -> None:
        self._operands = [
            operand(name, self.arguments[name], self.layouts[layout], written=name in written)
            for name, layout in self._layout_names.items()
        ]
        self.kind = kind_of(*self._operands, allowed="sdczi" if self._is_copy else FACTORED_KINDS)
        self.dtype = next(dtype for dtype, kind in KIND_OF_DTYPE.items() if kind == self.kind)
        self.real = np.zeros(0, self.dtype).real.dtype
        for first, second in itertools.combinations(self._operands, 2):
            if first.name in written or second.name in written:
                check_separate(first, second)
        self.arguments.update({each.name: each for each in self._operands})

    @property
    def name(self) -> str:
        """With p and the letter, as "pzheevd"."""
        name = self._routine.name
        if self.kind in "cz":
            name = {"sy": "he", "or": "un"}.get(name[:2], name[:2]) + name[2:]
        return f"p{self.kind}{name}"

    def enter(
        self, then: Callable[[], object] = lambda: None, missing: int = 0, result: Any = None, **more: Any
    ) -> Any:
        """Call the library, where there is anything to do; INFO, or what a function returns. Collective, as `run`.

        Parameters
        ----------
        then : callable
            Called after the routine, while all ranks of the grid are here.
        result : ctypes type, optional
            Of a function.
        missing : int
            Elements that the routine needs beyond what it asks for, in each workspace of floating-point numbers.
        **more
            Arguments of the routine.
        """
        info = np.zeros(1, np.intc)
        self.arguments |= {"info": info, **{name: [] for name in WORKSPACES}, **more}
        if any(self.arguments[name] == 0 for name in SIZES if name in self._names):
            return 0
        self._make_workspaces(missing)
        routine, returned = self._fortran(result), None

        def work() -> None:
            nonlocal returned
            returned = routine()
            then()

        self.enter_with(self.name, self._entry, work)
        check_info(self.name, int(info[0]), *self._operands)
        return int(info[0]) if result is None else returned

    def enter_with(self, phase: str, entry: Callable[[], Entry], work: Callable[[], object]) -> None:
        """Enter the library, which takes no memory of ours any more, once all ranks can. Collective inside of `together`."""
        agree_to_enter(entry)
        if self._is_copy:
            work()
            return
        with tracing.phase(phase, self.desc, self.desc), topologies_kept(self.desc.grid.context):
            work()

    def _entry(self) -> Entry:
        words = tuple([value for value in self._values() if isinstance(value, str | int)])
        arrays = [each.array for each in self._operands if each.array is not None and each.array.size]
        return Entry(f"p?{self._routine.name}", words, str(arrays[0].dtype) if arrays else None)

    def _values(self) -> list[Any]:
        """The arguments in ScaLAPACK's order; a list is of as many as it has elements."""
        return [name if name.isupper() else self.arguments[name] for name in self._names]

    def _fortran(self, result: Any = None) -> calls.FortranCall:
        lists = [value if isinstance(value, list) else [value] for value in self._values()]
        return calls.FortranCall(self.name, list(itertools.chain(*lists)), result)

    def _make_workspaces(self, missing: int) -> None:
        """Those of the routine, of the sizes that it asks for. Collective, as `run`."""
        dtypes = {"work": self.dtype, "iwork": np.dtype(np.intc)} | ({"rwork": self.real} if self.kind in "cz" else {})
        answers = {name: np.zeros(1, dtype) for name, dtype in dtypes.items() if name in self._names}
        if not answers:
            return
        self.arguments |= {name: [answer, -1] for name, answer in answers.items()}
        query = self._fortran()
        agree_to_enter(self._entry)  # a query compares its arguments on all processes
        query()
        check_info(self.name, int(self.arguments["info"][0]), *self._operands)
        for name, answer in answers.items():
            size = max(1, workspace_size(answer) + (0 if name == "iwork" else missing))
            self.arguments[name] = [np.zeros(size, answer.dtype), size]


# -- bodies of routines that need more than a call: systems


def _getrf(call: Call) -> NDArray[np.intc]:
    n, desc, local = call.desc.shape[0], call.desc, call.arguments["a"].array
    pivots, first = np.zeros(desc.local_shape[0] + desc.block[0], np.intc), np.full(2, n + 1, np.intc)
    diagonal, least = diagonal_places(desc), over_grid("igamn2d", first, desc)

    def find_small_pivots() -> None:
        """MKL's does not tell of each zero pivot, and netlib's returns from a matrix of one row without a look at it."""
        first[:] = _first_small(local, *diagonal, n)
        least()

    info = call.enter(find_small_pivots, pivots=pivots)
    zero, subnormal = first.tolist()
    if subnormal < min(zero, n):
        raise LinAlgError(
            f"{call.name}: pivot {subnormal} (counted from 1) is so small that ScaLAPACK cannot divide by it: multiply the "
            "matrix by a power of 2, or call qr or lstsq"
        )
    if info > 0 and zero > n:
        raise LinAlgError(
            f"{call.name}: pivot {info} (counted from 1) was not found: the matrix has infs, NaNs or subnormal numbers"
        )
    if zero <= n:
        pivot = info or zero
        raise SingularError(f"{call.name}: the matrix is singular: pivot {pivot} (counted from 1) is exactly zero")
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


def _with_pivots(call: Call) -> None:
    needed = call.desc.local_shape[0] + call.desc.block[0]
    pivot = call.enter(pivots=checked_pivots(call.arguments["pivots"], needed))
    if pivot:
        raise LinAlgError(f"{call.name}: the matrix is singular: pivot {pivot} (counted from 1) is exactly zero")


def _potrf(call: Call) -> None:
    order = call.enter()
    if order:
        raise LinAlgError(
            f"{call.name}: the matrix is not positive definite: its leading minor of order {order} is not"
        )


# -- products and norms


def _triangular(call: Call) -> None:
    call.enter(alpha=np.ones(1, call.dtype))


def _gemm(call: Call) -> None:
    arguments = call.arguments
    m, n = call.layouts["desc_c"].shape
    k = call.desc.shape[1 if arguments["trans_a"] == "N" else 0]
    alpha, beta = (np.array([arguments[name]], call.dtype) for name in ("alpha", "beta"))
    call.enter(m=m, n=n, k=k, alpha=alpha, beta=beta)


def _lange(call: Call) -> float:
    """It compares what it has found, and so loses what is no number; that is looked for here."""
    desc, local = call.desc, call.arguments["a"].array
    sums, regular = np.zeros(max(1, *desc.local_shape) + desc.block[0], call.real), np.ones(1, np.intc)
    everywhere = over_grid("igamn2d", regular, desc)
    regular[0] = not np.isnan(local[: desc.local_shape[0]]).any()
    result = ctypes.c_float if call.real.itemsize == 4 else ctypes.c_double
    value = call.enter(everywhere, result=result, sums=sums)
    return float(value) if regular[0] else float("nan")


# -- orthogonal factors


def _geqrf(call: Call) -> NDArray[Any]:
    tau = np.zeros(max(1, call.desc.local_shape[1]), call.dtype)
    call.enter(tau=tau)
    return tau


def _orgqr(call: Call) -> None:
    """It takes a factor for each local column of Q, and not for each reflector."""
    desc, tau, dtype = call.desc, call.arguments["tau"], call.dtype
    needed = int(np.count_nonzero(desc.global_indices(1) < call.arguments["reflectors"]))
    if tau is None or tau.dtype != dtype or tau.ndim != 1 or tau.size < max(1, needed):
        actual = None if tau is None else f"{tau.dtype} of shape {tau.shape}"
        raise ArrayError(f"tau is {actual}: pass what pxgeqrf returned on this rank, at least {needed} of {dtype}")
    factors = np.zeros(max(1, desc.local_shape[1]), dtype)
    factors[: min(tau.size, factors.size)] = tau[: factors.size]
    call.enter(tau=factors)


def _gesvd(call: Call) -> SingularTriplets:
    """It compares the values of the processes, which may differ by rounding where some hold nothing."""
    desc, (m, n), few, vectors = call.desc, call.desc.shape, min(call.desc.shape), call.arguments["vectors"]
    desc_u, desc_vh = (Descriptor(shape, desc.block, desc.grid) for shape in ((m, few), (few, n)))
    left, right, values = desc_u.zeros(call.dtype), desc_vh.zeros(call.dtype), np.zeros(few, call.real)
    low, high = np.zeros((2, few), call.real)
    letter = KIND_OF_DTYPE[call.real]
    extremes = over_grid(f"{letter}gamn2d", low, desc), over_grid(f"{letter}gamx2d", high, desc)
    info = call.enter(
        job="V" if vectors else "N",
        values=values,
        left=operand("left", left, desc_u),
        right=operand("right", right, desc_vh),
        reals=[np.zeros(4 * max(m, n) + 1, call.real)] if call.kind in "cz" else [],
    )
    if 0 < info <= few:
        raise ConvergenceError(f"{call.name}: {info} singular values did not converge")
    if info > few:
        low[:] = high[:] = values
        for extreme in extremes:
            extreme()
        values[:] = high
    if info > few and (high - low).max() > 10 * max(m, n) * np.finfo(high.dtype).eps * high.max():
        raise ConvergenceError(f"{call.name}: the ranks found different singular values (INFO = {info})")
    return SingularTriplets(left if vectors else None, values, right if vectors else None)


# -- eigenproblems


def _syev(call: Call) -> NDArray[Any]:
    values = np.zeros(call.desc.shape[0], call.real)
    _take_sound_triangle(call)
    info = call.enter(values=values, missing=_missing(call.desc))
    if info:
        raise ConvergenceError(f"{call.name}: not all eigenvalues were found (INFO = {info})")
    return values


def _syevd(call: Call) -> Eigenpairs:
    n = call.desc.shape[0]
    values, vectors = np.zeros(n, call.real), call.desc.zeros(call.dtype)
    _take_sound_triangle(call)
    target = operand("vectors", vectors, call.desc, written=True)
    info = call.enter(values=values, vectors=target, missing=_missing(call.desc))
    if info:
        raise ConvergenceError(f"{call.name}: eigenvalue {info // (n + 1)} (counted from 1) did not converge")
    return Eigenpairs(values, vectors)


def _missing(desc: Descriptor) -> int:
    """What p?syevd may ask for too little: what p?ormtr needs, and p?lasrt in it. It is much where blocks are large."""
    rows, columns = desc.local_shape_of((0, 0))
    block = int(desc.block[0])
    return max(block * (block - 1) // 2, (rows + columns) * block) + block * block


def _take_sound_triangle(call: Call) -> None:
    """The upper triangle of the transpose in place of the lower one, where that is not safe. Collective over the grid.

    OpenBLAS's ssymv of the lower triangle, in kernels for processors without AVX2, multiplies what earlier calls have left in
    its buffer by zero: after NaNs anywhere, or other numbers that read as such, there are NaNs, or ranks wait for ever.
    """
    desc, n = call.desc, call.desc.shape[0]
    if (call.kind, call.arguments["uplo"]) != ("s", "L") or n == 0:
        return
    sound = np.array([not without_avx2(blacs.load())], np.intc)
    call.enter_with("igamn2d", lambda: Entry("igamn2d", (), None), over_grid("igamn2d", sound, desc))
    if sound[0]:
        return
    transpose, (one, zero) = operand("a", desc.zeros(call.dtype), desc, written=True), np.eye(2, 1, dtype=call.dtype)
    turn = calls.FortranCall("pstran", (n, n, one, call.arguments["a"], zero, transpose))
    call.enter_with("pstran", lambda: Entry("pstran", (n, n), None), turn)
    call.arguments |= {"a": transpose, "uplo": "U"}


def _sygst(call: Call) -> float:
    scale = np.ones(1, call.real)
    call.enter(scale=scale)
    return float(scale[0])


ALIGNED = (check_square, check_aligned)
SYSTEM = (check_square, check_aligned, check_sides)
PAIR = (check_problem, check_square, check_aligned, check_same_shape)
NO_TRIPLETS, NO_PAIRS = SingularTriplets(None, None, None), Eigenpairs(None, None)
TABLE = {
    "pxgemr2d": Routine("gemr2d", "m n a b context", (check_same_shape,), "b"),
    "pxtrmr2d": Routine("trmr2d", "uplo diag m n a b context", (check_same_shape,), "b"),
    "pxgetrf": Routine("getrf", "n n a pivots info", (check_square,), "a", _getrf),
    "pxgetrs": Routine("getrs", "trans n sides a pivots b info", (check_square, check_sides), "b", _with_pivots),
    "pxgetri": Routine("getri", "n a pivots work iwork info", ALIGNED, "a", _with_pivots),
    "pxpotrf": Routine("potrf", "uplo n a info", ALIGNED, "a", _potrf),
    "pxpotrs": Routine("potrs", "uplo n sides a b info", SYSTEM, "b"),
    "pxtrsm": Routine("trsm", "L uplo trans N n sides alpha a b", SYSTEM, "b", _triangular),
    "pxtrmm": Routine("trmm", "L uplo trans N n sides alpha a b", SYSTEM, "b", _triangular),
    "pxgemm": Routine("gemm", "trans_a trans_b m n k alpha a b beta c", (check_aligned, check_product), "c", _gemm),
    "pxlange": Routine("lange", "norm m n a sums", (check_aligned,), "", _lange),
    "pxgeqrf": Routine("geqrf", "m n a tau work info", (check_aligned,), "a", _geqrf),
    "pxorgqr": Routine("orgqr", "m columns reflectors a tau work info", (check_aligned, check_reflectors), "a", _orgqr),
    "pxgesvd": Routine(
        "gesvd",
        "job job m n a values left right work reals info",
        (check_aligned, check_singular_values),
        "a",
        _gesvd,
        NO_TRIPLETS,
    ),
    "pxgels": Routine("gels", "N m n sides a b work info", (check_aligned, check_longer_sides), "a b"),
    "pxsyev": Routine("syev", "N uplo n a values a work rwork info", (check_eigenproblem,), "a", _syev),
    "pxsyevd": Routine(
        "syevd", "V uplo n a values vectors work rwork iwork info", (check_eigenproblem,), "a", _syevd, NO_PAIRS
    ),
    "pxsygst": Routine("sygst", "problem uplo n a b scale info", PAIR, "a", _sygst, 1.0),
}
