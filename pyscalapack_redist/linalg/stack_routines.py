"""The routines for stacks: what NumPy computes of some matrices, the claims of its results, and a row of a table for each.

The claims are those of the routines for one matrix, with the same bounds, for all matrices of an array at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..layout.letters import TRIANGLES, letter_of
from ..scalapack.scaling import LARGE, SMALL
from . import products
from .decompositions import MODES, ORTHOGONAL, PRODUCT, SQUARES, QRResult
from .eigenpairs import DRIVERS as EIGH_DRIVERS
from .eigenpairs import TRACE
from .eigenproblems import EighResult
from .random_vectors import VECTORS, gaussian
from .singular_values import DRIVERS, SVDResult, check_tolerance, relative_tolerance
from .structures import Structure
from .systems import CHOLESKY, INVERSE, SYSTEM, SlogdetResult

Array = NDArray[Any]
dot: Callable[[Array, Array], Array] = getattr(np, "vecdot", lambda x, y: np.einsum("...i,...i->...", x, y))  # of NumPy 2
Arrays = tuple[Array, ...]
Arguments = Mapping[str, Any]



class StackCheck:
    """The check of some matrices and their results: claims, each with an error and a bound for every matrix.

    Sums are in `real`, double precision, in which squares of numbers far from 1 may overflow or vanish (`is_far`).

    Attributes
    ----------
    excess : ndarray
        For each matrix the largest error divided by its bound; inf where one of them is inf or NaN.
    texts : list of str
        The claim of each that failed most.
    """

    def __init__(self, dtype: np.dtype[Any], count: int, real: Any = np.float64) -> None:
        numbers = np.finfo(dtype)
        self.eps, self.largest, self.tiny = float(numbers.eps), float(numbers.max), float(numbers.tiny)
        self._complex, self.real = dtype.kind == "c", np.dtype(real)
        self._dtype = np.result_type(self.real, np.complex64) if self._complex else self.real
        self.is_far = False
        self.excess, self.texts = np.zeros(count), [""] * count
        self.unchecked = np.zeros(count, bool)

    def vectors(self, size: int, stream: int = 0) -> Array:
        """Random vectors."""
        return gaussian(size, self._complex, stream)

    def bound(self, size: int, factor: float) -> float:
        """As `Check.bound`."""
        return float(factor * self.eps * (size + 10.0) ** 0.5)

    def scale(self, norms: Any, size: int) -> Any:
        """As `Check.scale`."""
        return norms + size * self.tiny

    def wide(self, matrices: Array) -> Array:
        """The elements in the precision of sums."""
        kind = self._dtype if matrices.dtype.kind == "c" else self.real
        return matrices.astype(kind, copy=False)

    def norms(self, matrices: Array) -> Array:
        """Frobenius norm of each matrix."""
        numbers = np.ascontiguousarray(self.wide(matrices)).view(self.real)
        lines = numbers.reshape(*numbers.shape[:-2], math.prod(numbers.shape[-2:]))
        return self._roots(dot(lines, lines), matrices)

    def columns(self, matrices: Array) -> Array:
        """The length of each column."""
        wide = self.wide(matrices)
        parts = [wide.real, wide.imag] if wide.dtype.kind == "c" else [wide]
        squares = sum(np.einsum("...ij,...ij->...j", part, part) for part in parts)
        return self._roots(squares, matrices)

    def _roots(self, squares: Any, matrices: Array) -> Array:
        are_moderate = (squares > SMALL**2) & (squares < LARGE**2)
        if not are_moderate.all() and not self.is_far:
            # squares of zeros are exact
            self.is_far = bool(((squares != 0) & ~are_moderate).any()) or bool(matrices.any() and (squares == 0).any())
        return np.sqrt(squares)  # type: ignore[no-any-return]

    def claim(self, text: str, errors: Any, bounds: Any) -> None:
        """Claim that errors are within their bounds: numbers of matrices, or of their columns or rows."""
        if (errors <= bounds).all():
            return
        errors, bounds = np.broadcast_arrays(errors, bounds)
        with np.errstate(all="ignore"):
            known = np.isfinite(errors) & np.isfinite(bounds)
            excess = np.where(errors <= bounds, 0, np.where(known, errors / bounds, np.inf))
        excess = excess.reshape(len(self.excess), -1).max(axis=1, initial=0)
        for k in np.flatnonzero(excess > self.excess):
            self.texts[k] = text
        np.maximum(self.excess, excess, out=self.excess)

    def equal(self, text: str, product: Array, expected: Array, bounds: Any) -> None:
        """Claim that columns are equal."""
        difference = product - expected
        self.claim(text, np.sqrt((np.abs(difference) ** 2).sum(axis=-2)).max(axis=-1, initial=0), bounds)

    def in_order(self, text: str, ascending: Array, never_negative: Array | None = None) -> None:
        """Claim that values are in order, and that others are not negative."""
        wrong = ~(np.diff(ascending, axis=-1) >= 0).all(axis=-1)
        if never_negative is not None:
            wrong |= ~(never_negative >= 0).all(axis=-1)
        self.claim(text, wrong.astype(float), 0.0)

    def orthogonal(self, text: str, q: Array, x: Array) -> None:
        """Claim that Q^H (Q x) = x."""
        size = x.shape[0]
        self.equal(text, adjoint(q) @ (q @ x), x, self.bound(size, ORTHOGONAL) * float(size) ** 0.5)


def adjoint(matrices: Array) -> Array:
    """The conjugate transposes."""
    turned = matrices.swapaxes(-1, -2)
    return turned.conj() if turned.dtype.kind == "c" else turned


def completed(matrices: Array, lower: bool) -> Array:
    """The Hermitian matrices of which one triangle is read."""
    n = matrices.shape[-1]
    whole = np.array(matrices)
    outside = np.triu(np.ones((n, n), bool), 1)
    np.copyto(whole, adjoint(matrices), where=outside if lower else outside.T)
    if whole.dtype.kind == "c":
        diagonal = np.arange(n)
        whole.imag[..., diagonal, diagonal] = 0
    return whole


# -- the routines: what NumPy computes of some matrices, and the claims of the results


class StackRoutine(NamedTuple):
    """A routine for stacks.

    Attributes
    ----------
    compute : callable
        Called with the arguments and matrices of the operands, of one number or single ones; returns the results for them, and
        perhaps more for the check.
    claim : callable
        Called with a check, the arguments, matrices, their norms and what `compute` has returned.
    failure : str
        What a matrix is for which NumPy has no result.
    is_square : bool
        Whether the matrices of `a` are.
    lower : callable or None
        For Hermitian matrices: which triangle is read.
    check : callable
        Raises an error for wrong arguments.
    accepts : callable
        Whether there are stacks for these arguments.
    models : str
        Operands whose layout a result of their shape is in.
    target : int
        The result that `like` is for.
    pack : callable
        The result for the user, of one array or several.
    """

    compute: Callable[..., Arrays]
    claim: Callable[..., None]
    failure: str = ""
    is_square: bool = False
    lower: Callable[[Arguments], Any] | None = None
    check: Callable[[Arguments], object] = lambda arguments: None
    accepts: Callable[[Arguments], bool] = lambda arguments: True
    models: str = "a"
    target: int = 0
    pack: Callable[..., Any] = lambda result: result
    results: int = 1  # of what `compute` returns
    iterates: bool = False  # whether infs and NaNs are an error, as an iteration might not end with them


def _solve(_: Arguments, a: Array, b: Array) -> Arrays:
    return (np.linalg.solve(a, b if b.ndim > 2 else b[None]),)  # NumPy 1 takes b of two dimensions for vectors


def _claim_solve(check: StackCheck, _: Arguments, a: Array, b: Array, norms: Arrays, x: Array) -> None:
    n, x, b = a.shape[-1], check.wide(x), check.wide(b)
    sizes = norms[0][..., None] * check.scale(check.columns(x), n) + check.columns(b)
    if x.shape[-1] <= VECTORS:
        errors, text = check.columns(check.wide(a) @ x - b), "A x = b"
    else:
        y = np.ascontiguousarray(adjoint(check.vectors(n)))
        errors, text = lengths_of_sides((y @ check.wide(a)) @ x - y @ b), "(A^H y)^H x = y^H b"
    check.claim(text, errors, check.bound(n, SYSTEM) * sizes)


def lengths_of_sides(difference: Array) -> Array:
    """The largest absolute value in each column, which belongs to a right-hand side."""
    return np.abs(difference).max(axis=-2, initial=0)  # type: ignore[no-any-return]


def _inv(_: Arguments, a: Array) -> Arrays:
    return (np.linalg.inv(a),)


def _claim_inv(check: StackCheck, _: Arguments, a: Array, norms: Arrays, x: Array) -> None:
    n = a.shape[-1]
    y = check.vectors(n)
    bound = check.bound(n, INVERSE) * norms[0] * check.scale(check.norms(x), n)
    check.equal("inv(A) (A y) = y", check.wide(x) @ (check.wide(a) @ y), y, bound)


def _det(_: Arguments, a: Array) -> Arrays:
    return (np.linalg.det(a),)


def _claim_det(check: StackCheck, _: Arguments, a: Array, norms: Arrays, determinant: Array) -> None:
    sizes = np.abs(check.wide(determinant))
    with np.errstate(all="ignore"):
        _claim_size(check, a, np.log(sizes))


def _slogdet(_: Arguments, a: Array) -> Arrays:
    return tuple(np.linalg.slogdet(a))


def _claim_slogdet(check: StackCheck, _: Arguments, a: Array, norms: Arrays, sign: Array, logarithm: Array) -> None:
    n = a.shape[-1]
    _claim_size(check, a, check.wide(logarithm))
    size = np.abs(check.wide(sign))
    of_zero = np.where(np.isneginf(logarithm), size, np.abs(size - 1))
    check.claim("the sign has absolute value 1", of_zero, 8 * check.eps * (n + 1.0))


def _claim_size(check: StackCheck, a: Array, logarithms: Array) -> None:
    """Claim Hadamard's inequality, log |det A| <= the sum of the logarithms of the lengths of columns."""
    n = a.shape[-1]
    most = np.log(check.scale(check.columns(a), n)).sum(axis=-1)
    beyond = np.isposinf(logarithms) & (most > math.log(check.largest))  # a determinant may overflow
    errors = np.where(beyond | np.isneginf(logarithms), 0, logarithms - most)
    check.claim("log |det A| is at most that of the lengths of columns", errors, 8 * check.eps * (n + 1.0) * (n + np.abs(most)))


def _cholesky(arguments: Arguments, a: Array) -> Arrays:
    factor = np.linalg.cholesky(a)
    return (factor if arguments["lower"] else np.ascontiguousarray(adjoint(factor)),)


def _claim_cholesky(check: StackCheck, arguments: Arguments, a: Array, norms: Arrays, factor: Array) -> None:
    n, factor = a.shape[-1], check.wide(factor)
    y, lower = check.vectors(n), factor if arguments["lower"] else adjoint(factor)
    text = "L (L^H y) = A y" if arguments["lower"] else "U^H (U y) = A y"
    check.equal(
        text, lower @ (adjoint(lower) @ y), check.wide(a) @ y, check.bound(n, CHOLESKY) * check.scale(norms[0], n)
    )


def _eigh(arguments: Arguments, a: Array) -> Arrays:
    return (np.linalg.eigvalsh(a),) if arguments.get("eigvals_only", True) else tuple(np.linalg.eigh(a))


def _claim_eigh(
    check: StackCheck, _: Arguments, a: Array, norms: Arrays, values: Array, vectors: Array | None = None
) -> None:
    n, w = a.shape[-1], check.wide(values)
    check.in_order("the eigenvalues ascend", values)
    if vectors is None:
        trace = check.wide(np.trace(a, axis1=-2, axis2=-1).real)
        bound = check.bound(n, TRACE) * n**0.5 * norms[0]
        check.claim("the sum of w is trace A", np.abs(w.sum(axis=-1) - trace), bound)
        squares, bound = norms[0] ** 2, check.bound(n, SQUARES) * norms[0] ** 2
        check.claim("the sum of w² is norm(A)²", np.abs((w**2).sum(axis=-1) - squares), bound)
        return
    y, v = check.vectors(n), check.wide(vectors)
    bound = check.bound(n, PRODUCT) * check.scale(norms[0], n)
    check.equal("V (w * (V^H y)) = A y", v @ (w[..., None] * (adjoint(v) @ y)), check.wide(a) @ y, bound)
    check.orthogonal("V^H (V y) = y", v, y)


def _qr(arguments: Arguments, a: Array) -> Arrays:
    mode = MODES[arguments["mode"]]
    factors: Any = np.linalg.qr(a, mode)  # type: ignore[call-overload]
    return (factors,) if mode == "r" else tuple(factors)


def _claim_qr(check: StackCheck, _: Arguments, a: Array, norms: Arrays, *factors: Array) -> None:
    (m, n), a, r = a.shape[-2:], check.wide(a), check.wide(factors[-1])
    y, size = check.vectors(n), max(m, n)
    scale = check.scale(norms[0], size)
    if len(factors) == 1:
        product, expected = adjoint(r) @ (r @ y), adjoint(a) @ (a @ y)
        check.equal("R^H (R y) = A^H (A y)", product, expected, check.bound(size, PRODUCT) * scale**2)
        return
    q = check.wide(factors[0])
    check.equal("Q (R y) = A y", q @ (r @ y), a @ y, check.bound(size, PRODUCT) * scale)
    check.orthogonal("Q^H (Q y) = y", q, check.vectors(q.shape[-1], 1))


def _svd(arguments: Arguments, a: Array) -> Arrays:
    if not arguments.get("compute_uv", False):
        return (np.linalg.svd(a, compute_uv=False),)
    return tuple(np.linalg.svd(a, bool(arguments["full_matrices"])))


def _claim_svd(check: StackCheck, _: Arguments, a: Array, norms: Arrays, *factors: Array) -> None:
    if len(factors) == 1:
        _claim_values(check, a, norms[0], factors[0])
    else:
        _claim_triplets(check, a, norms[0], *factors)


def _claim_values(check: StackCheck, a: Array, norms: Array, values: Array) -> None:
    check.in_order("the singular values descend from a number that is not negative", -values, values)
    errors = np.abs((check.wide(values) ** 2).sum(axis=-1) - norms**2)
    check.claim("the sum of s² is norm(A)²", errors, check.bound(max(a.shape[-2:]), SQUARES) * norms**2)


def _claim_triplets(check: StackCheck, a: Array, norms: Array, u: Array, values: Array, vh: Array) -> None:
    size, few, u, vh = max(a.shape[-2:]), values.shape[-1], check.wide(u), check.wide(vh)
    y = check.vectors(a.shape[-1])
    product = u[..., :few] @ (check.wide(values)[..., None] * (vh @ y)[..., :few, :])
    bound = check.bound(size, PRODUCT) * check.scale(norms, size)
    check.equal("U (s * (Vh y)) = A y", product, check.wide(a) @ y, bound)
    check.orthogonal("U^H (U y) = y", u, check.vectors(u.shape[-1], 1))
    check.orthogonal("Vh (Vh^H y) = y", adjoint(vh), check.vectors(vh.shape[-2], 2))
    check.in_order("the singular values descend from a number that is not negative", -values, values)


def _pinv(arguments: Arguments, a: Array) -> Arrays:
    u, values, vh = np.linalg.svd(a, full_matrices=False)
    least = values.max(axis=-1, initial=0, keepdims=True)
    least = least * relative_tolerance(arguments["rcond"], a.dtype, a.shape[-2:])
    inverses = np.divide(1, values, out=np.zeros_like(values), where=values > least)
    return (adjoint(vh) * inverses[..., None, :]) @ adjoint(u), u, values, vh, inverses


def _claim_pinv(
    check: StackCheck, _: Arguments, a: Array, norms: Arrays, x: Array, u: Array, values: Array, vh: Array, inverses: Array
) -> None:
    _claim_triplets(check, a, norms[0], u, values, vh)
    size, inverses = max(a.shape[-2:]), check.wide(inverses)
    y = check.vectors(u.shape[-2], 3)
    bound = check.bound(size, products.PRODUCT) * check.norms(inverses[..., None]) * np.maximum(1, check.norms(u))
    expected = adjoint(check.wide(vh)) @ (inverses[..., None] * (adjoint(check.wide(u)) @ y))
    check.equal("pinv(A) y = V (inv(S) (U^H y))", check.wide(x) @ y, expected, bound)


def _matmul(_: Arguments, a: Array, b: Array) -> Arrays:
    return (np.matmul(a, b),)


def _claim_matmul(check: StackCheck, _: Arguments, a: Array, b: Array, norms: Arrays, c: Array) -> None:
    y, scale = check.vectors(b.shape[-1]), norms[0] * norms[1]
    bound = check.bound(a.shape[-1], products.PRODUCT) * scale + check.scale(0, max(c.shape[-2:]))
    if np.any(scale >= check.largest):  # then so large a product may be right
        check.unchecked |= (scale >= check.largest) & ~np.isfinite(c).all(axis=(-2, -1))
    check.equal("C y = A (B y)", check.wide(c) @ y, check.wide(a) @ (check.wide(b) @ y), bound)


def _norm(arguments: Arguments, a: Array) -> Arrays:
    order, real = arguments["ord"], np.zeros(0, a.dtype).real.dtype
    if isinstance(arguments["axis"], int | np.integer):
        sizes = np.abs(a[..., 0]).astype(np.float64)
        return (products.LINE_NORMS[2 if order is None else order][0](sizes, -1).astype(real),)
    if order in products.BY_VALUES:
        values = np.linalg.svd(a, compute_uv=False)
        of_values: Callable[..., Array] = products.BY_VALUES[order]
        norms = of_values(values, axis=-1) if values.shape[-1] else np.zeros(values.shape[:-1], real)
        return norms.astype(real), values
    sizes = np.abs(a).astype(np.float64)
    if products.NORMS[order] == "F":
        lines = sizes.reshape(*sizes.shape[:-2], math.prod(sizes.shape[-2:]))
        return (products.LINE_NORMS[2][0](lines, -1).astype(real),)
    lines = sizes.sum(axis=-2 if order == 1 else -1)
    return (lines.max(axis=-1, initial=0).astype(real),)


def _claim_norm(
    check: StackCheck, _: Arguments, a: Array, norms: Arrays, norm: Array, values: Array | None = None
) -> None:
    if values is not None:
        _claim_values(check, a, norms[0], values)


def _check_norm(arguments: Arguments) -> None:
    a, axis, order = (arguments[name] for name in ("a", "axis", "ord"))
    dims = axis if isinstance(axis, tuple) and len(axis) == 2 else (axis,)
    if not all(isinstance(k, int | np.integer) and -a.ndim <= k < a.ndim for k in dims):
        raise ValueError(
            f"axis = {axis!r} must be an integer from {-a.ndim} to {a.ndim - 1}, or two of them, for an array of "
            f"{a.ndim} dimensions"
        )
    if len(dims) == 2 and dims[0] % a.ndim == dims[1] % a.ndim:
        raise ValueError(f"axis = {axis!r} has a dimension twice")
    possible = products.VECTOR_NORMS if len(dims) == 1 else [*products.NORMS, *products.BY_VALUES]
    if order not in possible:
        raise ValueError(f"ord = {order!r} must be one of {', '.join(map(repr, possible))}")
    if order == -2 and 0 in [a.shape[k] for k in dims]:
        raise ValueError(
            f"ord = {order!r} is the least singular value, and a, of shape {a.shape}, has none: take another"
        )


def _check_mode(arguments: Arguments) -> None:
    mode = arguments["mode"]
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"mode = {mode!r} must be one of {', '.join(MODES)}")


def _check_driver(arguments: Arguments) -> None:
    if arguments["driver"] not in DRIVERS:
        raise ValueError(f"driver = {arguments['driver']!r} must be one of {', '.join(DRIVERS)}")


def _has_all_pairs(arguments: Arguments) -> bool:
    others = arguments["b"], arguments["subset_by_index"], arguments["subset_by_value"]
    usual = isinstance(arguments["driver"], str) and arguments["driver"] in EIGH_DRIVERS[:2]
    return all(each is None for each in others) and usual


def _is_general(arguments: Arguments) -> bool:
    structure = Structure.of(arguments["assume_a"], arguments["lower"])
    return structure is not None and structure.name == "gen"


def _packed(kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *results: results[0] if len(results) == 1 else kind(*results)


NOT_CONVERGED = "has eigenvalues that did not converge", "has singular values that did not converge"
STACK_ROUTINES = {
    "solve": StackRoutine(_solve, _claim_solve, "is singular", is_square=True, accepts=_is_general, models="b"),
    "inv": StackRoutine(_inv, _claim_inv, "is singular", is_square=True, accepts=_is_general),
    "det": StackRoutine(_det, _claim_det, is_square=True, accepts=_is_general),
    "slogdet": StackRoutine(
        _slogdet, _claim_slogdet, is_square=True, accepts=_is_general, pack=SlogdetResult, results=2
    ),
    "cholesky": StackRoutine(
        _cholesky,
        _claim_cholesky,
        "is not positive definite",
        is_square=True,
        lower=lambda arguments: arguments["lower"],
    ),
    "eigh": StackRoutine(
        _eigh,
        _claim_eigh,
        NOT_CONVERGED[0], iterates=True,
        is_square=True,
        lower=lambda arguments: arguments["lower"],
        accepts=_has_all_pairs,
        target=1,
        pack=_packed(EighResult),
        results=2,
    ),
    "eigvalsh": StackRoutine(
        _eigh,
        _claim_eigh,
        NOT_CONVERGED[0], iterates=True,
        is_square=True,
        lower=lambda arguments: arguments["UPLO"].upper() == "L",
        check=lambda arguments: letter_of("UPLO", arguments["UPLO"], TRIANGLES),
    ),
    "qr": StackRoutine(
        _qr,
        _claim_qr,
        "has no factors",
        check=_check_mode,
        accepts=lambda arguments: not arguments["pivoting"],
        pack=_packed(QRResult),
        results=2,
    ),
    "svd": StackRoutine(
        _svd,
        _claim_svd,
        NOT_CONVERGED[1], iterates=True,
        check=_check_driver,
        accepts=lambda arguments: arguments["k"] is None is arguments["tol"],
        pack=_packed(SVDResult),
        results=3,
    ),
    "svdvals": StackRoutine(_svd, _claim_svd, NOT_CONVERGED[1], iterates=True, check=_check_driver),
    "pinv": StackRoutine(
        _pinv,
        _claim_pinv,
        NOT_CONVERGED[1], iterates=True,
        check=lambda arguments: check_tolerance("rcond", arguments["rcond"]),
    ),
    "matmul": StackRoutine(_matmul, _claim_matmul, models="ab"),
    "norm": StackRoutine(_norm, _claim_norm, NOT_CONVERGED[1], check=_check_norm),
}
