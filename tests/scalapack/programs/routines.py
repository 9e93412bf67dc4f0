"""Routines of `psr.scalapack` on the real library, beside NumPy: grids of all ranks and of some, all dtypes, sub-arrays.

Operands are passed as local arrays with Descriptors, with nine integers and comm=, or as distributed arrays. What is wrong is
refused before the library is called, which would end the process; with comm= on all ranks. Run on 1, 2, 4 or 6 ranks.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from linalg_cases import RANK, SIZE, WORLD, near, random
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr
from pyscalapack_redist import Descriptor, ProcessGrid, blacs, scalapack
from pyscalapack_redist.scalapack import calls, table, workspace
from pyscalapack_redist.scalapack.scaling import Scale, exponent_of
from pyscalapack_redist.scalapack.workspace import FORMULAS, Workspaces

N, BLOCK = 14, 3
FORMS = ("descriptors", "nine", "arrays")
NONSENSE = [99, -1, -5, -5, 0, 0, 77, 77, -9]
SHAPES: dict[int, list[tuple[int, int]]] = {1: [(1, 1)], 2: [(2, 1)], 4: [(2, 2), (1, 3)], 6: [(2, 3), (3, 2)]}
MKL = blacs.load().vendor == "MKL"
ArrayError, DescriptorError, CollectiveError = psr.ArrayError, psr.DescriptorError, psr.CollectiveError


def grids() -> list[ProcessGrid]:
    """Ranks in falling order, as far as MKL takes them, and part of the ranks."""
    made = []
    for shape in SHAPES[SIZE]:
        places = np.arange(SIZE)[::-1][: shape[0] * shape[1]].reshape(shape)
        made.append(ProcessGrid(shape, WORLD, ranks=np.sort(places, axis=None).reshape(shape) if MKL else places))
    return [*made, ProcessGrid((1, 1), WORLD, ranks=[[SIZE - 1]])]


def whole_of(desc: Descriptor, local: NDArray[Any] | None, dtype: str) -> NDArray[Any]:
    """The whole matrix on every rank, without the package's own gather."""
    whole = np.zeros(desc.shape, dtype)
    if local is not None:
        whole[np.ix_(desc.global_indices(0), desc.global_indices(1))] = local
    WORLD.Allreduce(MPI.IN_PLACE, whole)
    return whole


class Operands:
    """Matrices of one dtype on one grid, in one form of passing them; `wrap` of a matrix makes the arguments for it."""

    def __init__(self, grid: ProcessGrid, dtype: str, form: str = "descriptors", block: int = BLOCK) -> None:
        self.grid, self.dtype, self.form, self.block = grid, dtype, form, block
        self.more = {"comm": WORLD} if form == "nine" else {}

    def regular(self, m: int, n: int) -> NDArray[Any]:
        return random((m, n), self.dtype) + (6 + max(m, n)) * np.eye(m, n, dtype=self.dtype)

    def local(self, whole: NDArray[Any]) -> tuple[Any, Descriptor]:
        desc = Descriptor(whole.shape, self.block, self.grid)
        inside = self.grid.coords is not None
        return (np.asfortranarray(desc.from_function(lambda i, j: whole[i, j], self.dtype)) if inside else None), desc

    def wrap(self, local: Any, desc: Descriptor) -> tuple[Any, ...]:
        if self.form == "arrays":
            return (psr.DistributedArray._from_result(desc, local, np.dtype(self.dtype)),)
        return local, desc if self.form == "descriptors" else nine(desc)


def nine(desc: Descriptor) -> Any:
    """What another program has of a layout on this rank."""
    if desc.grid.coords is not None:
        return np.asarray(desc)
    return None if RANK % 2 else NONSENSE


def linear_systems(x: Operands, n: int) -> None:
    matrix, sides = x.regular(n, n), random((n, 4), x.dtype)
    (a, desc), more = x.local(matrix), x.more
    pivots = scalapack.pxgetrf(*x.wrap(a, desc), **more)
    assert (pivots is None) == (x.grid.coords is None)
    for trans, turned in {"N": matrix, "T": matrix.T, "c": matrix.conj().T}.items():
        b, desc_b = x.local(sides)
        scalapack.pxgetrs(*x.wrap(a, desc), pivots, *x.wrap(b, desc_b), trans=trans, **more)
        near(turned @ whole_of(desc_b, b, x.dtype), sides, trans)
    scalapack.pxgetri(*x.wrap(a, desc), pivots, **more)
    near(whole_of(desc, a, x.dtype) @ matrix, np.eye(n, dtype=x.dtype))
    positive = (matrix @ matrix.conj().T + n * np.eye(n)).astype(x.dtype)
    hermitian = matrix + matrix.conj().T
    for uplo, keep in (("L", np.tril), ("U", np.triu)):
        (a, desc), (b, desc_b), (c, _) = x.local(keep(positive)), x.local(sides), x.local(sides)
        scalapack.pxpotrf(*x.wrap(a, desc), uplo=uplo, **more)
        factor = keep(whole_of(desc, a, x.dtype))
        near(factor @ factor.conj().T if uplo == "L" else factor.conj().T @ factor, positive, uplo)
        scalapack.pxpotrs(*x.wrap(a, desc), *x.wrap(b, desc_b), uplo=uplo, **more)
        near(positive @ whole_of(desc_b, b, x.dtype), sides, uplo)
        for trans, turned in {"N": factor, "T": factor.T, "C": factor.conj().T}.items():
            scalapack.pxtrmm(*x.wrap(a, desc), *x.wrap(c, desc_b), uplo=uplo, trans=trans, **more)
            near(whole_of(desc_b, c, x.dtype), turned @ sides, f"{uplo} {trans}")
            scalapack.pxtrsm(*x.wrap(a, desc), *x.wrap(c, desc_b), uplo=uplo, trans=trans, **more)
            near(whole_of(desc_b, c, x.dtype), sides, f"{uplo} {trans}")
        lower = factor if uplo == "L" else factor.conj().T
        inverse = np.linalg.inv(lower)
        for problem, left in ((1, inverse), (2, lower.conj().T), (3, lower.conj().T)):
            c, _ = x.local(keep(hermitian))
            scalapack.pxsygst(*x.wrap(c, desc), *x.wrap(a, desc), uplo=uplo, problem=problem, **more)
            near(keep(whole_of(desc, c, x.dtype)), keep(left @ hermitian @ left.conj().T), f"{uplo} {problem}")
        scalapack.pxpotri(*x.wrap(a, desc), uplo=uplo, **more)
        near(keep(whole_of(desc, a, x.dtype)), keep(np.linalg.inv(positive)), uplo)


def square_factor(x: Operands, order: int, sides: str, multiply: Callable[..., None]) -> NDArray[Any]:
    """Q or P, from its products with the identity matrix, which must agree with one another."""
    products = []
    for side in sides:
        for trans in "Nc":
            c, desc_c = x.local(np.eye(order, dtype=x.dtype))
            multiply(x.wrap(c, desc_c), side=side, trans=trans)
            product = whole_of(desc_c, c, x.dtype)
            products.append(product if trans == "N" else product.conj().T)
    for product in products:
        near(product, products[0])
    near(products[0].conj().T @ products[0], np.eye(order, dtype=x.dtype))
    part = np.eye(*((order, 3) if "L" in sides else (3, order)), dtype=x.dtype)
    c, desc_c = x.local(part)
    multiply(x.wrap(c, desc_c), side=sides[0])
    near(whole_of(desc_c, c, x.dtype), products[0] @ part if "L" in sides else part @ products[0])
    return products[0]


def bidiagonal(x: Operands, matrix: NDArray[Any]) -> None:
    """A = Q B P^H, and B's singular values are those of A."""
    (a, desc), more = x.local(matrix), x.more
    result = scalapack.pxgebrd(*x.wrap(a, desc), **more)
    assert all((part is None) == (x.grid.coords is None) for part in result)
    reduced = whole_of(desc, a, x.dtype)
    m, n = matrix.shape
    b = np.triu(np.tril(reduced, m >= n), -(m < n))
    assert not b.imag.any()
    if result.d is not None and result.e is not None:
        beside = np.diagonal(b, 1 if m >= n else -1).real
        for vector, values, dim in ((result.d, np.diagonal(b).real, m >= n), (result.e, beside, m < n)):
            indices = desc.global_indices(int(dim))
            indices = indices[indices < values.size]
            near(vector[: indices.size], values[indices])
    q, p = (
        square_factor(
            x,
            order,
            sides,
            lambda c, vect=vect, tau=tau, **letters: scalapack.pxormbr(
                *x.wrap(a, desc), tau, *c, vect=vect, **letters, **more
            ),
        )
        for vect, order, sides, tau in (
            ("Q", m, "Lr" if m >= n else "L", result.tau_q),
            ("p", n, "R" if m >= n else "Rl", result.tau_p),
        )
    )
    near(q @ b @ p.conj().T, matrix)


def orthogonal(x: Operands, m: int, n: int) -> None:
    few, matrix, sides, more = min(m, n), x.regular(m, n), random((max(m, n), 4), x.dtype), x.more
    (a, desc), (b, desc_b), (c, _) = x.local(matrix), x.local(sides), x.local(matrix)
    for order, letter in (("fro", "F"), (1, "1"), (np.inf, "I")):
        found = scalapack.pxlange(*x.wrap(a, desc), letter, **more)
        assert found is None or np.isclose(found, np.linalg.norm(matrix, order), 1e-5), letter
        assert (found is None) == (x.grid.coords is None)
    exchanged, desc_e = x.local(matrix)
    scalapack.pxgeqpf(*x.wrap(exchanged, desc_e), **more)
    r = np.triu(whole_of(desc_e, exchanged, x.dtype))[:few]
    near(np.linalg.svd(r, compute_uv=False), np.linalg.svd(matrix, compute_uv=False))
    assert np.all(np.abs(r.diagonal()[1:]) <= np.abs(r.diagonal()[:-1]) * (1 + 1e-5) + 1e-6)
    tau = scalapack.pxgeqrf(*x.wrap(a, desc), **more)
    factors = whole_of(desc, a, x.dtype)
    left, desc_q = x.local(factors[:, :few])
    scalapack.pxorgqr(*x.wrap(left, desc_q), tau, few, few, **more)
    q = whole_of(desc_q, left, x.dtype)
    near(q @ np.triu(factors)[:few], matrix)
    near(q.conj().T @ q, np.eye(few, dtype=x.dtype))
    (product, desc_p), r = x.local(matrix[:few]), (q.conj().T @ matrix).astype(x.dtype)
    operands = *x.wrap(left, desc_q), *x.wrap(c, desc), *x.wrap(product, desc_p)
    scalapack.pxgemm(*operands, trans_a="C", alpha=2, beta=-1, **more)
    near(whole_of(desc_p, product, x.dtype), 2 * r - matrix[:few])
    square = square_factor(x, m, "Lr", lambda c, **keys: scalapack.pxormqr(*x.wrap(a, desc), tau, *c, **keys, **more))
    near(square[:, :few], q)
    bidiagonal(x, matrix)
    scalapack.pxgels(*x.wrap(c, desc), *x.wrap(b, desc_b), **more)
    near(whole_of(desc_b, b, x.dtype)[:n], np.linalg.lstsq(matrix, sides[:m])[0])
    if (m, n) == (1, 2) and x.grid.shape[1] > 1:
        return  # it would be refused
    expected = np.linalg.svd(matrix, compute_uv=False)
    for vectors in (False, True):
        a, desc = x.local(matrix)
        left, values, right = scalapack.pxgesvd(*x.wrap(a, desc), vectors, **more)
        if values is not None:
            near(values, expected)
    u, vh = whole_of(desc_q, left, x.dtype), whole_of(desc_p, right, x.dtype)
    near((u * expected).astype(x.dtype) @ vh, matrix)
    near(u.conj().T @ u, np.eye(few, dtype=x.dtype))
    near(vh @ vh.conj().T, np.eye(few, dtype=x.dtype))


def spectral(x: Operands, n: int) -> None:
    half = random((n, n), x.dtype)
    matrix, more = ((half + half.conj().T) / 2).astype(x.dtype), x.more
    expected = np.linalg.eigvalsh(matrix)
    for uplo, keep in (("L", np.tril), ("U", np.triu)):
        (a, desc), (b, _) = x.local(keep(matrix)), x.local(keep(matrix))
        values = scalapack.pxsyev(*x.wrap(b, desc), uplo=uplo, **more)
        again, vectors = scalapack.pxsyevd(*x.wrap(a, desc), uplo=uplo, **more)
        assert (values is None) == (again is None) == (vectors is None) == (x.grid.coords is None)
        if values is not None:
            near(values, expected)
            near(again, expected)
        basis = whole_of(desc, vectors, x.dtype)
        near(matrix @ basis, (basis * expected).astype(x.dtype))
        near(basis.conj().T @ basis, np.eye(n, dtype=x.dtype))


def tridiagonal(x: Operands, n: int) -> None:
    """Q T Q^H is the matrix; eigenvectors of T, of which p?ormtr makes those of the matrix, all or some of them."""
    half = random((n, n), x.dtype)
    matrix, more = ((half + half.conj().T) / 2).astype(x.dtype), x.more
    real, expected = matrix.real.dtype.char, np.linalg.eigvalsh(matrix)
    for uplo, keep in (("L", np.tril), ("U", np.triu)):
        a, desc = x.local(keep(matrix) + (keep(np.ones((n, n))) == 0) * 99)
        result = scalapack.pxsytrd(*x.wrap(a, desc), uplo=uplo, **more)
        assert all((part is None) == (x.grid.coords is None) for part in result)
        diagonal, off_diagonal = np.zeros(n, real), np.zeros(n, real)
        if x.grid.coords is not None and x.grid.coords[0] == 0:
            columns = desc.global_indices(1)
            diagonal[columns] = result.diagonal[: columns.size]
            off_diagonal[columns] = result.off_diagonal[: columns.size]
        for vector in (diagonal, off_diagonal):
            WORLD.Allreduce(MPI.IN_PLACE, vector)
        letter = str(WORLD.bcast(result.uplo, root=int(x.grid.ranks.flat[0])))
        off_diagonal = off_diagonal[:-1] if letter == "L" else off_diagonal[1:]
        t = (np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)).astype(x.dtype)
        near(np.linalg.eigvalsh(t), expected)
        q, _ = x.local(np.eye(n, dtype=x.dtype))
        reflectors = *x.wrap(result.reflectors, desc), result.tau
        scalapack.pxormtr(*reflectors, *x.wrap(q, desc), uplo=letter, **more)
        whole = whole_of(desc, q, x.dtype)
        near(whole @ t @ whole.conj().T, matrix, uplo)
        scalapack.pxormtr(*reflectors, *x.wrap(q, desc), uplo=letter, trans="C", **more)
        near(whole_of(desc, q, x.dtype), np.eye(n, dtype=x.dtype), uplo)
        y = Operands(x.grid, real, x.form, x.block)
        z, desc_z = y.local(np.zeros((n, n), real))
        inside = x.grid.coords is not None
        values = scalapack.pxstedc(
            *y.wrap(z, desc_z), diagonal if inside else None, off_diagonal if inside else None, **more
        )
        assert (values is None) == (not inside)
        if values is not None:
            near(values, expected)
        few = max(1, n // 3)
        some, desc_s = x.local(whole_of(desc_z, z, real)[:, :few].astype(x.dtype))
        scalapack.pxormtr(*reflectors, *x.wrap(some, desc_s), uplo=letter, **more)
        basis = whole_of(desc_s, some, x.dtype)
        near(matrix @ basis, (basis * expected[:few]).astype(x.dtype))
        near(basis.conj().T @ basis, np.eye(few, dtype=x.dtype))


def copies(large: ProcessGrid, part: ProcessGrid, form: str) -> None:
    """B's window becomes A's, or a trapezoid of it, and nothing else changes; the context is that of the larger grid."""
    for dtype in "fdFDi":
        whole = np.arange(1, 13 * 17 + 1).reshape(13, 17).astype(dtype) * (1 + 2j if dtype in "FD" else 1)
        sub = form == "descriptors"
        shape = (15, 20) if sub else (13, 17)
        desc_a, desc_b = (
            Descriptor(whole.shape, (3, 2), large, source=[n - 1 for n in large.shape]),
            Descriptor(shape, (4, 5), part),
        )
        window = desc_b[1:14, 2:19] if sub else desc_b
        for uplo, diag, keep in (
            (None, "N", lambda m: m),
            ("U", "N", np.triu),
            ("l", "U", lambda m: np.tril(m, 17 - 13 - 1)),
        ):
            a, b = desc_a.from_function(lambda i, j, whole=whole: whole[i, j], dtype), desc_b.zeros(dtype)
            x = Operands(large, dtype, form)
            a, b = (None if desc.coords is None else local for desc, local in ((desc_a, a), (desc_b, b)))
            more = {} if uplo is None else {"uplo": uplo, "diag": diag}
            routine = scalapack.pxgemr2d if uplo is None else scalapack.pxtrmr2d
            routine(*x.wrap(a, desc_a), *x.wrap(b, window), **more, **x.more)
            expected = keep(whole)
            if sub:
                expected = np.pad(expected, ((1, 1), (2, 1)))
            assert np.array_equal(whole_of(desc_b, b, dtype), expected), (dtype, uplo, form)


def sub_matrices() -> None:
    """A part of a matrix is factored in place, where it begins at the edge of a block; a relabelled layout is like another."""
    n, at, block = 12, (8, 4), 4
    whole, sides = random((22, 24), "d") + 6 * np.eye(22, 24, -4), random((n, 3), "d")
    inner = np.s_[at[0] : at[0] + n, at[1] : at[1] + n]
    shape = SHAPES[SIZE][0]
    last = [side - 1 for side in shape]
    before = Descriptor(whole.shape, block, ProcessGrid(shape, WORLD, order="column"))
    ranks = np.roll(np.arange(SIZE), 1).reshape(shape)
    target = Descriptor(whole.shape, block, ProcessGrid(shape, WORLD, ranks=ranks), source=last)
    desc = psr.relabel_report(before, target).descriptor
    with desc.grid:
        desc.grid.make_context()
        assert Descriptor.from_array(desc.to_array(), WORLD) == desc
        first = desc[inner]
        desc_b = Descriptor(sides.shape, (block, 2), desc.grid, source=((last[0] + 2) % shape[0], last[1]))
        a = psr.redistribute(before, desc)(before.from_function(lambda i, j: whole[i, j]))
        x = desc_b.from_function(lambda i, j: sides[i, j])
        pivots = scalapack.pxgetrf(a, first)
        scalapack.pxgetrs(a, first, pivots, x, desc_b)
        near(whole[inner] @ whole_of(desc_b, x, "d"), sides)


def singular(grid: ProcessGrid) -> None:
    """pxgetrf by itself tells of every zero pivot, on every rank of the grid; also in a sub-array."""
    if grid.coords is None:
        return
    for n, at in ((1, 0), (9, 0), (9, 5), (9, 8)):
        matrix = np.eye(n)
        matrix[at, at] = 0
        desc, whole = Descriptor((n, n), 2, grid), Descriptor((n + 4, n + 4), 2, grid)
        padded = np.pad(matrix, ((4, 0), (4, 0)))
        for layout, values, part in ((desc, matrix, desc), (whole, padded, whole[4:, 4:])):
            with pytest.raises(np.linalg.LinAlgError, match=rf"pivot {at + 1} \(counted from 1\) is exactly zero"):
                scalapack.pxgetrf(layout.from_function(lambda i, j, values=values: values[i, j]), part)


def single_precision(grid: ProcessGrid) -> None:
    """Complex numbers whose squares vanish or overflow: L, and U over the power of 2, are those of ordinary numbers."""
    layout, matrix, upper = Descriptor((13, 11), 2, grid), random((13, 11), "F"), np.triu(np.ones((7, 7), bool))
    matrix[range(11), range(11)] += 9
    matrix[5, 9] = 0

    def factored(size: np.float32) -> tuple[NDArray[Any], NDArray[Any] | None]:
        local = pivots = None
        if grid.coords is not None:
            tiny = np.float32(1e-37)  # vanishes where the matrix is divided
            local = layout.from_function(lambda i, j: np.where((i == 5) & (j == 9), tiny, matrix[i, j] * size))
            with np.errstate(all="raise"):
                pivots = scalapack.pxgetrf(local, layout[4:11, 4:11])
        whole = whole_of(layout, local, "F")
        whole[4:11, 4:11][upper] /= size
        return whole, pivots

    expected, exchanges = factored(np.float32(1))
    for exponent in (-100, -70, 70, 100):
        size = np.float32(2.0**exponent)
        factors, pivots = factored(size)
        near(factors[4:11, 4:11], expected[4:11, 4:11])
        assert np.array_equal(factors[:4], size * matrix[:4])  # outside the window
        assert np.array_equal(pivots, exchanges)  # type: ignore[arg-type]


def divided_and_multiplied(grid: ProcessGrid) -> None:
    """A window is divided by a power of 2, and then its upper trapezoid multiplied, as around MKL's pcgetrf."""
    layout, matrix = Descriptor((13, 11), 2, grid), 1e25 * random((13, 11), "F")
    exponent = exponent_of(float(max(abs(matrix[4:, 3:].real).max(), abs(matrix[4:, 3:].imag).max())), matrix.real.dtype)
    local = layout.from_function(lambda i, j: matrix[i, j]) if grid.coords is not None else None
    if local is not None:
        scale = Scale(local, layout[4:, 3:])
        scale.divide()
    matrix[4:, 3:] *= np.float32(2.0**-exponent)
    assert exponent > 0
    assert np.array_equal(whole_of(layout, local, "F"), matrix)
    if local is not None:
        scale.multiply_upper_triangle()
    matrix[4:, 3:] *= np.where(np.tri(9, 8, -1), np.float32(1), np.float32(2.0**exponent))
    assert np.array_equal(whole_of(layout, local, "F"), matrix)


@contextlib.contextmanager
def documented_workspaces() -> Iterator[None]:
    """Netlib's answers to queries are at most the sizes of `workspace`, and these are the answers of process (0, 0)."""
    make, answers = table.LibraryCall._make_workspaces, dict[str, int]()
    equal = dict[tuple[str, str], list[bool]]()

    def size(needs: Workspaces, work: str, queried: int) -> int:
        answers[work] = queried - (work != "iwork")  # floating-point answers are rounded up
        return max(queried, needs.documented[work] + needs.beyond)

    def compare(call: table.LibraryCall) -> None:
        answers.clear()
        make(call)
        for work, answer in answers.items():
            least, layout = call._workspaces.documented[work], f"{call.name}, {call.desc!r}, {work}"
            assert answer <= least, (layout, answer, least)
            if call.desc.coords == (0, 0):
                equal.setdefault((call._routine.name, work), []).append(answer == least)

    with mock.patch.object(Workspaces, "size", size), mock.patch.object(table.LibraryCall, "_make_workspaces", compare):
        yield
    if equal:
        assert {name for name, _ in equal} == FORMULAS.keys(), equal
        exact = {routine for routine, answers in equal.items() if all(answers)}
        assert exact >= equal.keys() - {("getri", "iwork"), ("ormtr", "work")}, equal


# -- what is refused


def raises(kind: type[Exception] | tuple[type[Exception], ...], text: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


def not_finite(x: Operands) -> None:
    """Routines that iterate refuse infs and NaNs in what they read, on all ranks: they might not return."""
    for value, place in ((np.nan, (N - 1, 0)), (np.inf, (N - 1, N - 1)), (np.nan, (N // 2, N // 2))):
        matrix = np.eye(N, dtype=x.dtype)
        matrix[place] = matrix[place[::-1]] = value
        text = "the matrix has infs or NaNs, with which an iteration might not end"
        for call in (scalapack.pxsyev, scalapack.pxsyevd, scalapack.pxgesvd):
            a, desc = x.local(matrix)
            raises(np.linalg.LinAlgError, text, lambda call=call: call(*x.wrap(a, desc), **x.more))  # noqa: B023
            assert np.array_equal(whole_of(desc, a, x.dtype), matrix, equal_nan=True)
        y = Operands(x.grid, matrix.real.dtype.char, x.form)
        z, desc = y.local(np.eye(N))
        inside = z is not None
        diagonals = [np.ones(N, y.dtype), np.zeros(N - 1, y.dtype)]
        diagonals[RANK % 2][-1] = value
        arguments = *y.wrap(z, desc), *(diagonals if inside else (None, None))
        raises(np.linalg.LinAlgError, text, lambda: scalapack.pxstedc(*arguments, **x.more))  # noqa: B023


def uncountable_workspaces(grid: ProcessGrid) -> None:
    """What does not fit the library's integers is refused on all ranks, before it is called."""
    x = Operands(grid, "d", "nine")
    a, desc = x.local(np.eye(N))
    text = "ScaLAPACK counts in 32 bits: use 3 x 3 processes or more, in blocks of 3 or less, or compute at most 15 %"
    with mock.patch.object(workspace, "LIMIT", 250):
        raises((DescriptorError, CollectiveError), text, lambda: scalapack.pxsyevd(*x.wrap(a, desc), **x.more))
    assert np.array_equal(whole_of(desc, a, "d"), np.eye(N))


def refused(grid: ProcessGrid) -> None:
    """Each on the rank that finds it; layouts on every rank, those outside the grid too."""
    whole, copy, factor = ProcessGrid((1, SIZE), WORLD), scalapack.pxgemr2d, scalapack.pxgetrf
    whole.make_context()
    fine = Descriptor((12, 12), 2, grid)
    a, b = (None if grid.coords is None else fine.zeros() for _ in range(2))
    other: Any
    for shape in ((13,), (3, 4, 5)):
        other = Descriptor(shape, 2, ProcessGrid((1,) * len(shape), WORLD))
        words = f"is of {len(shape)} dimensions, {other!r}: ScaLAPACK's arrays are matrices"
        raises(DescriptorError, f"desc_a {words}", lambda other=other: copy(a, other, b, fine))
        raises(DescriptorError, f"desc {words}", lambda other=other: factor(a, other))
        raises(DescriptorError, f"desc {words}", lambda other=other: scalapack.pxgetrs(a, other, None, a, other))
    words = (
        "= [1, 0, 4, 4, 2, 2, 0, 0, 4] must be a Descriptor; nine integers, or None on a rank that does not know them"
    )
    raises(DescriptorError, f"desc_a {words}", lambda: copy(a, [1, 0, 4, 4, 2, 2, 0, 0, 4], b, fine))
    raises(DescriptorError, "they must be equal", lambda: copy(a, fine, b, Descriptor((12, 13), 2, grid)))
    raises(
        ValueError, "uplo = 'X' must be one of 'U' (upper), 'L'", lambda: scalapack.pxtrmr2d(a, fine, b, fine, uplo="X")
    )
    raises(ValueError, "uplo = 'X' must be one of 'U' (upper), 'L'", lambda: scalapack.pxsyevd(None, fine, "X"))
    offset = Descriptor((12, 12), 2, grid, source=[n - 1 for n in grid.shape])
    wrong = [
        (factor, Descriptor((12, 10), 2, grid), "12 x 10: a square one is needed"),
        (factor, Descriptor((12, 12), (2, 3), grid), "only with square ones"),
        (factor, fine[1:5, 1:5], "start it at multiples of 2"),
        (scalapack.pxsyevd, fine[2:8, 2:8], "desc is of a sub-array"),
        *(
            [(scalapack.pxsyevd, Descriptor((12, 12), 12, grid), "is right only for a matrix of several blocks")]
            * (grid.size > 1)
        ),
        *([(scalapack.pxsyevd, offset, "which is not 0: this routine is for whole arrays")] * (grid.size > 1)),
    ]
    for routine, desc, text in wrong:
        raises(DescriptorError, text, lambda routine=routine, desc=desc: routine(None, desc))
    if MKL and SIZE > 1:
        falling = Descriptor((40, 40), 3, ProcessGrid((1, SIZE), WORLD, ranks=[list(range(SIZE))[::-1]]))
        words = "MKL's p?syevd does not return from every such order"
        raises(DescriptorError, words, lambda: scalapack.pxsyevd(None, falling))
    if grid.size < SIZE and SIZE > 2:
        beside = Descriptor((12, 12), 2, ProcessGrid((1, 2), WORLD, ranks=[[0, SIZE - 1]]))
        trio = Descriptor((12, 12), 2, ProcessGrid((1, 2), WORLD, ranks=[[0, 1]]))
        raises(DescriptorError, "pass context=", lambda: copy(None, beside, None, trio))
    for shape, vect, side in (((12, 12), "P", "L"), ((12, 10), "P", "L"), ((10, 12), "Q", "R")):
        desc = Descriptor(shape, 2, grid)
        words = f"netlib's p?ormbr cannot multiply so for a matrix of {shape[0]} x {shape[1]}"
        raises(
            DescriptorError,
            words,
            lambda desc=desc, vect=vect, side=side: scalapack.pxormbr(
                None,
                desc,
                None,
                None,
                Descriptor((10, 10) if 10 in desc.shape else desc.shape, 2, grid),
                vect=vect,
                side=side,
            ),
        )
    order = "Q is of order 12 and desc_c has 10 rows"
    raises(DescriptorError, order, lambda: scalapack.pxormqr(None, fine, None, None, Descriptor((10, 2), 2, grid)))
    order = "P is of order 12 and desc_c has 10 columns"
    narrow = Descriptor((12, 10), 2, grid)
    raises(DescriptorError, order, lambda: scalapack.pxormbr(None, fine, None, None, narrow, vect="P", side="R"))
    for key, text in (
        ("trans", "trans = 'T' must be one of 'N'"),
        ("side", "side = 'T'"),
        ("vect", "vect = 'T' must be"),
    ):
        raises(DescriptorError, text, lambda key=key: scalapack.pxormbr(None, fine, None, None, fine, **{key: "T"}))
    if a is None or b is None:
        return
    pivots, even = np.zeros(20, np.intc), Descriptor((12, 12), 2, grid)
    for sides, text in (
        (Descriptor((7, 1), (2, 2), grid), "desc_b has 7 rows"),
        (Descriptor((12, 1), (4, 2), grid), "desc_b has blocks of 4 rows"),
        (Descriptor((12, 1), (2, 2), whole), "use one grid for both"),
        *(
            [(Descriptor((12, 1), (2, 2), grid, source=(grid.shape[0] - 1, 0)), "give both the same source")]
            * (grid.shape[0] > 1)
        ),
    ):
        raises(DescriptorError, text, lambda sides=sides: scalapack.pxgetrs(a, even, pivots, sides.zeros(), sides))
    sides = Descriptor((12, 1), (2, 2), grid)
    integers, frozen = fine.zeros("i"), fine.zeros()
    frozen.flags.writeable = False
    factored = "this routine is for float32, float64, complex64, complex128"
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ArrayError, "tau is None: pass what pxgebrd", lambda: scalapack.pxormbr(a, fine, None, b, fine)),
        (ArrayError, "tau is None: pass what pxgeqrf", lambda: scalapack.pxormqr(a, fine, None, b, fine)),
        (ArrayError, "pivots has 0 to 0: pass what", lambda: scalapack.pxgetrs(a, even, pivots, sides.zeros(), sides)),
        (ArrayError, "pivots is None", lambda: scalapack.pxgetrs(a, even, None, sides.zeros(), sides)),
        (ArrayError, "a is None, but this rank is in the grid", lambda: copy(None, fine, b, fine)),
        (ArrayError, "a is a list: it must be a NumPy array", lambda: copy([[1.0]], fine, b, fine)),
        (ArrayError, "a has shape (40, 40), but this rank holds", lambda: copy(np.zeros((40, 40)), fine, b, fine)),
        (ArrayError, "needs whole columns", lambda: copy(fine.zeros(order="C"), fine, b, fine)),
        (
            ArrayError,
            "a has dtype float16; this routine is for",
            lambda: copy(a.astype("e"), fine, fine.zeros("e"), fine),
        ),
        (ArrayError, "a has dtype >f8", lambda: copy(a.astype(">f8"), fine, fine.zeros(">f8"), fine)),
        (ArrayError, "a has dtype float32 and b has dtype float64", lambda: copy(a.astype("f"), fine, b, fine)),
        (ArrayError, "a and b overlap", lambda: copy(a, fine, a, fine)),
        (ArrayError, "b is read-only", lambda: copy(a, fine, frozen, fine)),
        (ArrayError, factored, lambda: factor(integers, fine)),
        (ArrayError, factored, lambda: scalapack.pxsyevd(integers, fine)),
        (DescriptorError, "CTXT = 99 is not a live", lambda: copy(a, fine, b, fine, 99)),
        (DescriptorError, "this rank is outside", lambda: copy(a, fine, b, fine, -1)),
        (DescriptorError, "has no ScaLAPACK descriptor", lambda: factor(psr.DistributedArray(fine, a).T)),
    ]
    for kind, text, call in cases:
        raises(kind, text, call)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "FortranCall", Refusing)
        words = f"refused argument 7, entry 6 of the descriptor, (INFO = -706), with a in {fine!r}: this is an error of"
        for routine in (scalapack.pxpotrf, scalapack.pxgeqrf):
            raises(psr.LibraryError, words, lambda routine=routine: routine(a, fine))
        raises(
            psr.LibraryError,
            "please report it with this message; meanwhile",
            lambda: scalapack.pxgels(a, fine, b, fine),
        )


class Refusing(calls.FortranCall):
    """A call of a routine that refuses its seventh argument."""

    def __call__(self) -> None:
        self.arguments[-1][0] = -706


def refused_together(grid: ProcessGrid) -> None:
    """With comm= what one rank finds wrong is raised on all, none of which is left in the library."""
    culprit, desc = int(grid.ranks.ravel()[-1]), Descriptor((12, 12), BLOCK, grid)
    last = culprit == RANK
    a, b = (None if grid.coords is None else desc.from_function(lambda i, j: 1.0 * (i == j)) for _ in range(2))
    copy, getrf, potrf = scalapack.pxgemr2d, scalapack.pxgetrf, scalapack.pxpotrf

    def of_all(words: str, kind: type[Exception], call: Callable[[], object]) -> None:
        with pytest.raises(kind if last else CollectiveError) as caught:
            call()
        assert words in str(caught.value), str(caught.value)
        assert last or f"rank {culprit} could not take part" in str(caught.value)

    def but(field: int, value: int) -> Any:
        made = nine(desc)
        if last:
            made[field] = value
        return made

    calls: list[Callable[[Any], object]] = [
        lambda given: getrf(a, given, comm=WORLD),
        lambda given: scalapack.pxpotrs(a, nine(desc), b, given, comm=WORLD),
        lambda given: copy(a, given, b, nine(desc), comm=WORLD),
    ]
    for call in calls:
        of_all("MB = 0 must be at least 1", DescriptorError, lambda call=call: call(but(4, 0)))
        of_all("LLD = 1 is too small", DescriptorError, lambda call=call: call(but(8, 1)))
        raises(DescriptorError, "no rank knows the layout", lambda call=call: call(NONSENSE))
        for given in ([1, 2, 3], "layout", np.zeros((3, 3))):
            with pytest.raises(DescriptorError, match=r"^desc\w* ?[:=]"):
                call(given)
    short: Any = np.zeros((1, 1), order="F") if last else a
    listed: Any = [[1.0]] if last else a
    of_all("a has shape (1, 1), but this rank holds", ArrayError, lambda: getrf(short, nine(desc), comm=WORLD))
    of_all("a is a list: it must be a", ArrayError, lambda: getrf(listed, desc, comm=WORLD))
    of_all("a has shape (1, 1), but", ArrayError, lambda: copy(short, nine(desc), b, nine(desc), comm=WORLD))
    raises(DescriptorError, "need comm=", lambda: getrf(a, nine(desc)))
    zero = None if a is None else np.zeros_like(a)
    with pytest.raises(np.linalg.LinAlgError, match="pivot 1"):  # on ranks outside the grid as well
        getrf(zero, nine(desc), comm=WORLD)
    if grid.size == 1:
        return
    raises(CollectiveError, "must be the same on every rank", lambda: getrf(a, but(5, 4), comm=WORLD))
    # Other dtypes, letters or routines: ScaLAPACK would give garbage, or end the job.
    mixed, empty = (None if a is None else a.astype("f" if last else "d") for _ in range(2))
    unlike: list[tuple[str, Callable[[], object]]] = [
        (
            "the dtype must be .* float",
            lambda: copy(mixed, desc, empty, desc if not last else Descriptor((12, 12), BLOCK, grid), comm=WORLD),
        ),
        ("the dtype must be .* float", lambda: getrf(mixed, desc, comm=WORLD)),
        (r"p\?potrf\('L', 12\)", lambda: potrf(a, desc, "UL"[last], comm=WORLD)),
        (r"p\?gemm\(.*'\(1\+0j\)'", lambda: scalapack.pxgemm(*[a, desc] * 2, zero, desc, alpha=1 + last, comm=WORLD)),
        (r"p\?gemm\(.*'0j'", lambda: scalapack.pxgemm(*[a, desc] * 2, zero, desc, beta=int(last), comm=WORLD)),
        (r"p\?potrf\('L', 12\)", lambda: (potrf if last else getrf)(a, desc, comm=WORLD)),
    ]
    for words, call_all in unlike:
        with pytest.raises(CollectiveError, match=f"ask for different things.*{words}"):
            call_all()
    getrf(a, nine(desc), comm=WORLD)


def without_contexts() -> None:
    """With comm= grids need no contexts; those of a call are used by the next one."""
    everyone, some = ProcessGrid((1, SIZE), WORLD), ProcessGrid((1, 1), WORLD, ranks=[[SIZE - 1]])
    desc, one = Descriptor((12, 12), 2, everyone), Descriptor((12, 12), 3, some)
    rng = np.random.default_rng(1)
    whole, side = rng.standard_normal((12, 12)), rng.standard_normal((12, 2))
    square, blocks = whole @ whole.T + np.eye(12), Descriptor((12, 2), 2, ProcessGrid((1, SIZE), WORLD))
    contexts: set[int] = set()
    for k in range(6):
        a = psr.distribute(square if RANK == 0 else None, desc)
        b = psr.distribute(side if RANK == 0 else None, blocks)
        target = psr.DistributedArray(one, one.zeros() if one.coords is not None else None)
        scalapack.pxgemr2d(a, target, comm=WORLD)
        if one.coords is not None:
            assert np.array_equal(target.local, square)
        scalapack.pxpotrf(a.local, None if RANK and k % 2 else desc, comm=WORLD)
        scalapack.pxpotrs(a.local, desc, b.local, blocks, comm=WORLD)
        found = psr.gather(blocks, b.local)
        assert RANK or np.allclose(found, np.linalg.solve(square, side))
        made = ProcessGrid((1, SIZE), WORLD)
        contexts.add(made.make_context())
        del made
    assert len(contexts) == 1, contexts
    assert not everyone.has_context
    assert some.has_context == (some.coords is None)


def main() -> None:
    made, number = grids(), 0
    without_contexts()
    for grid in made:
        if grid.coords is not None:
            grid.make_context()
        with contextlib.nullcontext() if MKL else documented_workspaces():
            for form in FORMS if grid is made[0] else ("nine",):
                sides = [(N, N), (11, N), (N, 5)][number % 3]
                for group, shape in (
                    (linear_systems, (N,)),
                    (orthogonal, sides),
                    (spectral, (N,)),
                    (tridiagonal, (N,)),
                ):
                    number += 1
                    group(Operands(grid, "fdFD"[(number + number // 4) % 4], form), *shape)
        singular(grid)
        single_precision(grid)
        divided_and_multiplied(grid)
        refused(grid)
        refused_together(grid)
        for dtype in "fD":
            not_finite(Operands(grid, dtype, "nine"))
    uncountable_workspaces(made[-1])
    for form in FORMS:
        copies(made[0], made[-1], form)
    sub_matrices()
    with pytest.raises(DescriptorError, match="has no BLACS context yet"):
        scalapack.pxgetrf(None, Descriptor((4, 4), 2, ProcessGrid((1, SIZE), WORLD)))
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
