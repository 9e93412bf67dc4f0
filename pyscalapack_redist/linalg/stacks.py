"""Stacks: operands of more than two dimensions, whose last two are matrices, as NumPy has them.

The leading dimensions are spread over the ranks, so that each of them has whole matrices, and NumPy works on these, some at a
time. Few large matrices are taken one after another by the routine for one matrix. So are those whose results the check
refuses: each matrix is checked, by the equations and with the bounds of that routine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..distributed_array import DistributedArray
from ..errors import ArrayError, DescriptorError
from ..layout.array_arithmetic import Distributed
from ..layout.arrays import new_array
from ..layout.axis import balanced
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..scalapack.calls import SingularError
from .call import OF_STACKS, OPERANDS, ROUTINES, RoutineCall
from .matrix_parts import indices_at
from .operands import Facts, OperandFacts, Operands, ShapeAndLayout
from .place import SURE, redistribute
from .stack_routines import STACK_ROUTINES, Array, StackCheck, StackRoutine, completed

CHUNK = 2**17  # elements of the matrices that are worked on at a time, which fit a core's cache
MOST_REFUSED = 16  # results that are computed once more, by the routine for one matrix
Index = tuple[int, ...]  # of a matrix, along the leading dimensions


class Refusal(NamedTuple):
    """A result that the check refuses, of which matrix, and by how much the claim is off."""

    matrix: Index
    text: str
    excess: float


# -- layouts


class Leading(NamedTuple):
    """How the leading dimensions of a stack are spread over a grid: shape, and block, source and axis of each dimension."""

    shape: tuple[int, ...]
    blocks: tuple[Any, ...]
    sources: tuple[int, ...]
    axes: tuple[int | None, ...]
    grid: ProcessGrid

    @classmethod
    def of(cls, desc: Descriptor, core: Sequence[int]) -> Leading | None:
        """That of a layout; None if it cuts the dimensions of matrices, or is of a part of an array."""
        if desc.parent is not None or any(desc.distributions[k].processes > 1 for k in core):
            return None
        dims = [k for k in range(desc.ndim) if k not in core]
        spread = [desc.distributions[k].processes > 1 for k in dims]
        return cls(
            tuple([desc.shape[k] for k in dims]),
            tuple([desc.block[k] if is_spread else None for k, is_spread in zip(dims, spread, strict=True)]),
            tuple([desc.source[k] if is_spread else 0 for k, is_spread in zip(dims, spread, strict=True)]),
            tuple([desc.axes[k] if is_spread else None for k, is_spread in zip(dims, spread, strict=True)]),
            desc.grid,
        )

    @classmethod
    def over_all(cls, shape: tuple[int, ...], comm: Any) -> Leading:
        """Balanced blocks over all ranks, such that none has more matrices than it must."""
        sides = min(
            _factors(comm.Get_size(), len(shape)),
            key=lambda sides: (math.prod(-(-n // p) for n, p in zip(shape, sides, strict=True)), [-p for p in sides]),
        )
        spread = [p > 1 for p in sides]
        blocks = [balanced(n, p) if p > 1 else None for n, p in zip(shape, sides, strict=True)]
        axes = [k if is_spread else None for k, is_spread in enumerate(spread)]
        return cls(shape, tuple(blocks), (0,) * len(shape), tuple(axes), ProcessGrid(sides, comm))

    def layout(self, shape: Sequence[int], core: Sequence[int]) -> Descriptor:
        """The layout of an array whose other dimensions broadcast to the leading ones: those of size 1 are on all ranks."""
        dims = [k for k in range(len(shape)) if k not in core]
        blocks: list[Any] = [None] * len(shape)
        sources, axes = [0] * len(shape), [None] * len(shape)  # type: list[int], list[int | None]
        for k, own in zip(reversed(dims), reversed(range(len(self.shape))), strict=False):
            if shape[k] == self.shape[own]:
                blocks[k], sources[k], axes[k] = self.blocks[own], self.sources[own], self.axes[own]
        return Descriptor(shape, blocks, self.grid, source=sources, axes=axes)

    def indices(self) -> list[NDArray[np.int64]]:
        """Indices along each leading dimension of the matrices that this rank has; none outside the grid."""
        desc = self.layout(self.shape, ())
        if desc.grid.coords is None or desc.coords is None:
            return [np.zeros(0, np.int64) for _ in self.shape]
        return indices_at(desc, desc.grid.coords)


def _factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a product of so many."""
    if count == 1:
        yield (number,)
        return
    for first in (divisor for divisor in range(1, number + 1) if number % divisor == 0):
        for rest in _factors(number // first, count - 1):
            yield (first, *rest)


# -- a call


class StackOperands(Operands):
    """The operands of a call for stacks, with the layouts in which it works and leaves its results. Collective.

    Attributes
    ----------
    shape : tuple of int
        That of the leading dimensions, to which those of the operands broadcast.
    core : dict
        Of each operand the dimensions of its matrices or vectors; all others lead.
    work : Leading
        Where the matrices are worked on.
    shapes : list of tuple
        Of the results for one matrix.
    is_one_by_one : bool
        Whether matrices are taken one after another.
    """

    def __init__(self, call: RoutineCall, row: StackRoutine) -> None:
        self.row, self.name = row, call.name
        arrays = {name: call.arguments[name] for name in OPERANDS if call.arguments.get(name) is not None}
        by_values = call.name == "norm" and call.arguments["ord"] in (2, -2, "nuc")
        self.refuses = bool(call.arguments.get("check_finite", by_values))
        self.core: dict[str, tuple[int, ...]] = {}
        super().__init__(call, arrays, self._examine, dict, ("b",), by_values, False)
        self.results = row.compute(call.arguments, *self._nothing(self.dtype))[: row.results]

    # -- on this rank, before the vote

    def _check_dimensions(self, name: str, array: Distributed, may_be_vector: bool) -> None:
        if array.ndim < 2 and not (may_be_vector and array.ndim == 1):
            right = "1 dimension or more" if may_be_vector else "2 dimensions or more"
            raise ArrayError(f"{name} has shape {array.shape}: it must have {right}")

    def _examine(self, a: DistributedArray, b: DistributedArray | None = None) -> ShapeAndLayout:
        """As `check_arguments`: the shape is that of the leading dimensions."""
        arguments, row = self.call.arguments, self.row
        row.check(arguments)
        self.core = {name: self._core(name, array) for name, array in self.arrays.items()}
        self._check_shapes(a, b)
        leading = [self._leading(name) for name in self.arrays]
        try:
            shape = np.broadcast_shapes(*leading)
        except ValueError:
            assert b is not None
            raise ArrayError(
                f"a has shape {a.shape} and b {b.shape}: the dimensions before those of matrices must broadcast, "
                f"and {leading[0]} and {leading[1]} do not"
            ) from None
        results = row.compute(arguments, *self._nothing(a.dtype or np.dtype(np.float64)))[: row.results]
        self.shapes = [self._without_column(result.shape[1:]) for result in results]
        self._work_layout = self._read_work_layout_of_stack(arguments["layout"], shape)
        self.work = self._work_layout or self._own_layout(shape) or Leading.over_all(shape, self.comm)
        largest = max(math.prod([array.shape[k] for k in self.core[name]]) for name, array in self.arrays.items())
        is_few = math.prod(shape) < self.comm.Get_size() and largest > SURE
        is_of_matrices = all(len(core) == 2 for name, core in self.core.items() if name == "a")
        self.is_one_by_one = is_few and self._work_layout is None and is_of_matrices
        return (0, 0), self.final_layout(min(row.target, len(results) - 1))

    def _core(self, name: str, array: DistributedArray) -> tuple[int, ...]:
        axis = self.call.arguments.get("axis")
        if isinstance(axis, tuple):
            return tuple([int(k) % array.ndim for k in axis])
        if axis is not None:
            return (int(axis) % array.ndim,)
        return tuple(range(array.ndim))[-2:]

    def _check_shapes(self, a: DistributedArray, b: DistributedArray | None) -> None:
        if self.row.is_square and a.shape[-1] != a.shape[-2]:
            raise ArrayError(f"a has shape {a.shape}: its matrices must be square")
        if b is None:
            return
        rows, inner = b.shape[self.core["b"][0]], a.shape[-1]
        if rows != inner:
            raise ArrayError(
                f"a has shape {a.shape} and b {b.shape}: matrices of b must have {inner} rows, as those of a have columns"
            )

    def _leading(self, name: str) -> tuple[int, ...]:
        return tuple([n for k, n in enumerate(self.arrays[name].shape) if k not in self.core[name]])

    @property
    def _has_vector(self) -> bool:
        """Whether the right operand is a vector, for all matrices."""
        return len(self.core.get("b", (0, 0))) == 1

    def _without_column(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:-1] if self._has_vector else shape

    def _nothing(self, dtype: np.dtype[Any]) -> list[Array]:
        """Matrices of each operand, none of them."""
        cores = [[array.shape[k] for k in self.core[name]] for name, array in self.arrays.items()]
        return [np.zeros((0, *core, 1)[:3], dtype) for core in cores]

    def _read_work_layout(self, layout: Any) -> Descriptor | None:
        return None  # `_examine` has read it

    def _read_work_layout_of_stack(self, layout: Any, shape: tuple[int, ...]) -> Leading | None:
        if layout is None:
            return None
        wanted = self._read_layout("layout", layout)
        own = self.arrays["a"].shape
        tail = self.shapes[0] if self.name == "matmul" else own[-2:]
        right = own if self.name == "norm" else (*shape, *tail)
        core = self.core["a"] if self.name == "norm" else range(len(shape), len(right))
        if wanted.shape != right:
            raise DescriptorError(f"layout = {wanted!r} must be of shape {right}")
        leading = Leading.of(wanted, core)
        if leading is None:
            raise DescriptorError(
                f"layout = {wanted!r} cuts matrices, or is of a part of an array: distribute the dimensions before the "
                "matrices alone"
            )
        return leading

    def _own_layout(self, shape: tuple[int, ...]) -> Leading | None:
        """The layout of the largest operand that has all matrices whole; None if there is none."""
        names = sorted(self.arrays, key=lambda name: -math.prod(self.arrays[name].shape))
        candidates = (Leading.of(self.arrays[n].desc, self.core[n]) for n in names if self._leading(n) == shape)
        return next((leading for leading in candidates if leading is not None), None)

    def _facts(self, caches: int) -> Facts:
        operands = [
            OperandFacts(None if array.dtype is None else array.dtype.char, 0.0, None) for array in self.arrays.values()
        ]
        return Facts(operands, 0.0, caches, frozenset())

    # -- layouts

    def stays(self, name: str) -> bool:
        """Whether an operand is where it is worked on."""
        desc = self.arrays[name].desc
        return self._leading(name) == self.work.shape and Leading.of(desc, self.core[name]) == self.work

    def work_layout(self, shape: tuple[int, ...]) -> Descriptor:
        """The layout of a result where it is worked on."""
        for name in self.arrays:
            if self.stays(name) and self.arrays[name].desc.shape == shape and self.core[name] == self._last(shape):
                return self.arrays[name].desc  # type: ignore[no-any-return]
        return self.work.layout(shape, range(len(self.work.shape), len(shape)))

    @staticmethod
    def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(range(len(shape)))[-2:]

    def final_layout(self, number: int) -> Descriptor:
        """The layout in which a result is left, but for `like`."""
        shape = (*self.work.shape, *self.shapes[number])
        for name in self.row.models:
            desc: Descriptor = self.arrays[name].desc
            if desc.parent is None and desc.shape == shape:
                return desc
        return self.work_layout(shape)


class Outcome(NamedTuple):
    """What came of a rank's matrices: operands with infs or NaNs, the first matrix without a result, and refused results."""

    not_finite: frozenset[str]
    failed: Index | None
    refused: list[Refusal]
    unchecked: int  # products that may overflow


class StackWork:
    """The work on this rank's matrices, with the results in the layout of the work."""

    def __init__(self, call: RoutineCall, operands: StackOperands) -> None:
        self.call, self.operands, self.row = call, operands, operands.row
        self._checks, self._refuses_infinite = bool(call.arguments["check"]), operands.refuses

    def bring(self, name: str) -> Array | None:
        """This rank's matrices of an operand, as the last two dimensions. Collective if they move."""
        operands = self.operands
        array, core = operands.arrays[name], operands.core[name]
        if operands.stays(name):
            local = array.own
        else:
            target, out = operands.work.layout(array.shape, core), None
            if target.coords is not None:
                with self.call.collect_errors():
                    out = new_array(target.local_shape, operands.dtype, "C")
            local = redistribute(self.call, name, array.desc, target, array.local, out, dtype=operands.dtype)
        if local is None:
            return None
        matrices: Array = np.moveaxis(local, core, range(-len(core), 0))
        return matrices[..., None] if len(core) == 1 else matrices

    def run(self) -> tuple[list[DistributedArray], list[Refusal]]:
        """The results, and those that are refused. Collective."""
        call, operands, row = self.call, self.operands, self.row
        matrices = {name: self.bring(name) for name in operands.arrays}
        descs = [operands.work_layout((*operands.work.shape, *shape)) for shape in operands.shapes]
        locals_: list[Array | None] = [None] * len(descs)
        outcome = Outcome(frozenset(), None, [], 0)
        is_first = call.comm.Get_rank() == operands.work.grid.ranks.flat[0]
        with call.collect_errors(), call.group.at_work(announces=bool(is_first)), tracing.phase("numpy"):
            if descs[0].coords is not None:
                indices = operands.work.indices()
                count = tuple([each.size for each in indices])
                results = [
                    np.empty((*count, *shape), result.dtype)
                    for shape, result in zip(operands.shapes, operands.results, strict=True)
                ]
                outcome = self._compute(matrices, indices, results)
                locals_ = [*results]
        outcome = call.run(lambda: outcome, _combined)
        for name in operands.arrays:
            if name in outcome.not_finite:
                raise ValueError(f"{name} must not contain infs or NaNs")
        if outcome.failed is not None:
            raise np.linalg.LinAlgError(f"{call.name}: matrix {[*outcome.failed]} {row.failure}")
        if outcome.unchecked:
            call.warn(
                f"elements of {outcome.unchecked} products are beyond {operands.largest}, and these are not checked"
            )
        arrays = [
            DistributedArray._from_result(desc, local, result.dtype)
            for desc, local, result in zip(descs, locals_, operands.results, strict=True)
        ]
        return arrays, outcome.refused

    def _compute(
        self, operands: Mapping[str, Array | None], indices: list[NDArray[np.int64]], results: list[Array]
    ) -> Outcome:
        """Fill the results of this rank's matrices, some at a time."""
        shape = tuple([each.size for each in indices])
        count, row, arguments = math.prod(shape), self.row, self.call.arguments
        matrices = [_Matrices.of(operand, shape) for operand in operands.values() if operand is not None]
        most = max([math.prod(each.array.shape[-2:]) for each in matrices], default=1)
        step = max(1, CHUNK // max(1, most))
        flat = [result.reshape(count, *one) for result, one in zip(results, self.operands.shapes, strict=True)]
        not_finite, failed, unchecked = set[str](), None, 0
        refused: list[Refusal] = []

        def index_of(k: int) -> Index:
            return tuple([int(each[i]) for each, i in zip(indices, np.unravel_index(k, shape), strict=True)])

        for first in range(0, count, step):
            end = min(first + step, count)
            some = [each.some(first, end) for each in matrices]
            if row.lower is not None:
                some[0] = completed(some[0], bool(row.lower(arguments)))
            check = StackCheck(self.operands.dtype, end - first)
            are_needed = self._checks or self._refuses_infinite or row.iterates
            norms = tuple([check.norms(each) for each in some]) if are_needed else ()
            finite = np.ones(end - first, bool)
            for name, each, size in zip(operands, some, norms, strict=False):
                if not np.isfinite(size).all():
                    are_finite = np.isfinite(each).all(axis=(-2, -1))
                    finite &= are_finite
                    if self._refuses_infinite and not are_finite.all():
                        not_finite.add(name)
            if row.iterates and not finite.all() and failed is None:
                failed = index_of(first + int(np.argmin(finite)))
            if not_finite or failed is not None:
                continue
            try:
                computed = row.compute(arguments, *some)
            except np.linalg.LinAlgError:
                failed = index_of(first + self._first_failure(some))
                continue
            for result, each in zip(flat, computed, strict=False):
                result[first:end] = each.reshape(end - first, *result.shape[1:])
            if not self._checks:
                continue
            row.claim(check, arguments, *some, norms, *computed)
            if check.is_far:
                check = StackCheck(self.operands.dtype, end - first, np.longdouble)
                norms = tuple([check.norms(each) for each in some])
                row.claim(check, arguments, *some, norms, *computed)
            unchecked += int(np.count_nonzero(check.unchecked & finite))
            for k in np.flatnonzero((check.excess > 1) & finite & ~check.unchecked).tolist():
                refused.append(Refusal(index_of(first + k), check.texts[k], float(check.excess[k])))
        return Outcome(frozenset(not_finite), failed, refused, unchecked)

    def _first_failure(self, some: list[Array]) -> int:
        """The first of some matrices of which NumPy has no result."""
        count = max(len(each) for each in some if each.ndim > 2)
        for k in range(count):
            try:
                self.row.compute(self.call.arguments, *[each if each.ndim == 2 else each[k : k + 1] for each in some])
            except np.linalg.LinAlgError:
                return k
        return 0

    # -- matrices one after another, by the routine for one

    def empty_results(self) -> list[DistributedArray]:
        """Results to be filled, where they are left."""
        arrays = []
        for number, result in enumerate(self.operands.results):
            desc, local = self.operands.final_layout(number), None
            with self.call.collect_errors():
                local = desc.zeros(result.dtype, "C") if desc.coords is not None else None
            arrays.append(DistributedArray._from_result(desc, local, result.dtype))
        return arrays

    def compute_singly(self, results: list[DistributedArray], indices: Iterable[Index]) -> None:
        """Fill the results of some matrices by the routine for one. Collective."""
        call = self.call
        for index in indices:
            arguments = call.arguments | {"overwrite_a": False, "overwrite_b": False, "layout": None, "like": None}
            arguments = {name: value for name, value in arguments.items() if name in call.arguments}
            for name in self.operands.arrays:
                arguments[name] = self._one(name, index)
            if "axis" in arguments:
                arguments["axis"] = None
            try:
                result = ROUTINES[call.name](**arguments)
            except np.linalg.LinAlgError as caught:
                text = f"{call.name}: matrix {[*index]}"
                is_known = isinstance(caught, SingularError) or "positive definite" in str(caught)
                raise np.linalg.LinAlgError(
                    f"{text} {self.row.failure}: {caught}" if is_known else f"{text}: {caught}"
                ) from caught
            for array, value in zip(results, result if isinstance(result, tuple) else (result,), strict=True):
                if isinstance(value, Distributed):
                    with call.step():
                        array[index] = value
                else:
                    with call.collect_errors():
                        array[index] = value

    def _one(self, name: str, index: Index) -> DistributedArray:
        """A matrix of an operand. Collective."""
        array, core = self.operands.arrays[name], self.operands.core[name]
        if array.ndim == len(core):
            return array  # type: ignore[no-any-return]
        key: list[Any] = [slice(None)] * array.ndim
        dims = [k for k in range(array.ndim) if k not in core]
        for k, i in zip(reversed(dims), reversed(index), strict=False):
            key[k] = 0 if array.shape[k] == 1 else i
        with self.call.step():
            matrix: DistributedArray = array[tuple(key)]
        return matrix.T if len(core) == 2 and core[0] > core[1] else matrix

    def recompute(self, results: list[DistributedArray], refused: list[Refusal]) -> None:
        """Compute refused results once more, and warn of it; an error if they are many. Collective."""
        if not refused:
            return
        first = refused[0]
        fault = f"is off by {first.excess:.2g} times what rounding comes to"
        if not math.isfinite(first.excess):
            fault = f"has infs or NaNs, as where numbers overflow {self.operands.dtype}"
        text, count = f"of matrix {[*first.matrix]} {first.text} {fault}", math.prod(self.operands.work.shape)
        blame = f"{self.call.name}: NumPy's results of {len(refused)} of {count} matrices are refused"
        if len(refused) > MOST_REFUSED:
            raise np.linalg.LinAlgError(f"{blame}: {text}; use another NumPy, or divide operands by powers of 2")
        self.compute_singly(results, [each.matrix for each in refused])
        self.call.warn(f"{blame}: {text}; the results are those of {self.call.name} for one matrix")

    def leave(self, number: int, array: DistributedArray) -> DistributedArray:
        """A result in the layout in which it is left. Collective if it moves."""
        operands = self.operands
        is_target = number == min(self.row.target, len(operands.results) - 1)
        desc, dtype = operands.target if is_target else operands.final_layout(number), operands.results[number].dtype
        local = array.local
        if desc == array.desc:
            return array
        out = None
        if desc.coords is not None:
            with self.call.collect_errors():
                out = new_array(desc.local_shape, dtype, "C")
        local = redistribute(self.call, "result", array.desc, desc, local, out, dtype=dtype)
        return DistributedArray._from_result(desc, local, dtype)


class _Matrices(NamedTuple):
    """A rank's matrices of an operand, the last two dimensions; `shape` is of the leading ones to which it broadcasts."""

    array: Array
    shape: tuple[int, ...]
    is_single: bool

    @classmethod
    def of(cls, array: Array, shape: tuple[int, ...]) -> _Matrices:
        leading = array.shape[:-2]
        if math.prod(leading) == 1 < math.prod(shape):
            return cls(np.ascontiguousarray(array.reshape(array.shape[-2:])), shape, True)
        if leading == shape and (len(shape) == 1 or array.flags.c_contiguous):
            return cls(array.reshape(math.prod(shape), *array.shape[-2:]), (math.prod(shape),), False)
        return cls(np.broadcast_to(array, shape + array.shape[-2:]), shape, False)

    def some(self, first: int, end: int) -> Array:
        """Matrices of a range of all, in C order; a single one for all of them has two dimensions."""
        if self.is_single:
            return self.array
        if len(self.shape) == 1:
            return np.ascontiguousarray(self.array[first:end])
        return np.ascontiguousarray(self.array[np.unravel_index(np.arange(first, end), self.shape)])


def _combined(replies: Sequence[Outcome]) -> Outcome:
    """What came of the matrices of all ranks; replicas count once."""
    refused = {each.matrix: each for reply in reversed(replies) for each in reply.refused}
    return Outcome(
        frozenset.union(*(reply.not_finite for reply in replies)),
        min([reply.failed for reply in replies if reply.failed is not None], default=None),
        [refused[index] for index in sorted(refused)],
        sum(reply.unchecked for reply in replies),
    )


def of_stacks(call: RoutineCall) -> Any:
    """The result of a routine for stacks; NotImplemented if it has none for these arguments. Collective."""
    row = STACK_ROUTINES[call.name]
    if not row.accepts(call.arguments):
        return NotImplemented
    operands = StackOperands(call, row)
    work = StackWork(call, operands)
    if operands.is_one_by_one:
        results = work.empty_results()
        work.compute_singly(results, itertools.product(*map(range, operands.work.shape)))
    else:
        results, refused = work.run()
        work.recompute(results, refused)
    return row.pack(*[work.leave(number, result) for number, result in enumerate(results)])


OF_STACKS.update(dict.fromkeys(STACK_ROUTINES, of_stacks))
