"""What all ranks know of the operands of a call: one agreement, in which each says what its own elements are."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import blacs, tracing
from ..arguments import not_taken
from ..comm.agreement import agreement
from ..comm.free_memory import free_memory, room_beside
from ..comm.vote import digest
from ..distributed_array import DistributedArray
from ..engine.ownership import why_not_written
from ..engine.spec import communicator_of
from ..errors import ArrayError, DescriptorError, shown
from ..layout.array_arithmetic import Distributed, descriptor_of
from ..layout.axis import Blocks
from ..layout.descriptor import Descriptor
from ..layout.grid import same_ranks
from ..scalapack.matrix_operands import FACTORED_KINDS, KIND_OF_DTYPE
from ..scalapack.scaling import exponent_of
from .cache import cache_of
from .call import OF_STACKS, LayoutOption, RoutineCall
from .kernels import fits_one_process
from .matrix_parts import as_column, bilinear_forms, magnitude
from .random_vectors import VECTORS, gaussian
from .solver_rules import check_work_layout

# The shape for which a layout is chosen, and the default layout of the result.
ShapeAndLayout = tuple[tuple[int, ...], Descriptor]

EAGER = 2**20  # elements up to which bilinear forms are computed before it is known whether they are wanted
WORKSPACES = 4  # arrays of the size of the operands on one process: as they came, copies, results, workspace
CONSUMING = ("cholesky", "cho_factor", "lu_factor", "solve")  # read an operand that may be overwritten once, after its sums
CONSUMED = 2**28  # bytes of doubles from which such an operand makes room for its copy
MAY_DIFFER = ("overwrite_a", "overwrite_b", "lu_and_piv", "c_and_lower", "func")  # arguments that may differ from rank to rank
DTYPES = [dtype for dtype, kind in KIND_OF_DTYPE.items() if kind in FACTORED_KINDS]
FORM_STREAMS = 11, 12  # of random vectors
LEAST_EXPONENT = -2000


class Forms(NamedTuple):
    """Bilinear forms with random vectors, divided by 2**exponent: by these an operand is known again where it has moved to."""

    values: NDArray[Any]
    exponent: int

    @classmethod
    def of(cls, operand: Distributed, part: str, exponent: int) -> Forms:
        """Those of the elements that this rank holds first."""
        if operand.local is None:
            return cls(np.zeros(VECTORS), LEAST_EXPONENT)
        left, right = (gaussian(size, False, stream) for stream, size in zip(FORM_STREAMS, operand.shape, strict=True))
        return cls(bilinear_forms(operand, part, left, right, exponent), exponent)

    @classmethod
    def sum(cls, forms: Sequence[Forms | None]) -> Forms | None:
        """The forms of all elements; None if a rank has none."""
        known = [each for each in forms if each is not None]
        if len(known) < len(forms):
            return None
        exponent = max(each.exponent for each in known)
        return cls(np.sum([each.values * 2.0 ** (each.exponent - exponent) for each in known], axis=0), exponent)


class OperandFacts(NamedTuple):
    """What a rank knows of an operand: the letter of its dtype, and of its own elements the magnitude and `bilinear_forms`."""

    letter: str | None
    magnitude: float
    forms: Forms | None


class Facts(NamedTuple):
    """What a rank knows of the operands of a call."""

    operands: list[OperandFacts]
    room: float  # bytes left on this rank beside all operands and results
    caches: int  # the version of the cache
    consumable: frozenset[str]  # operands whose memory may be given back as they move


class CombinedFacts(NamedTuple):
    """What all ranks know together: of each operand the letters, the largest magnitude and the forms; the least room.

    Each letter is with the first rank that has it.
    """

    letters: list[dict[str, int]]
    magnitudes: list[float]
    forms: list[Forms | None]
    room: float
    have_same_caches: bool
    consumable: frozenset[str]

    @classmethod
    def of(cls, replies: list[Facts]) -> CombinedFacts:
        """Combine what each rank knows."""
        by_operand = list(zip(*(facts.operands for facts in replies), strict=True))
        return cls(
            [
                {each.letter: rank for rank, each in reversed([*enumerate(ranks)]) if each.letter is not None}
                for ranks in by_operand
            ],
            [float(np.max([each.magnitude for each in ranks])) for ranks in by_operand],
            [Forms.sum([each.forms for each in ranks]) for ranks in by_operand],
            min(facts.room for facts in replies),
            len({facts.caches for facts in replies}) == 1,
            frozenset.intersection(*(facts.consumable for facts in replies)),
        )


class Operands:
    """The operands of a call, with what all ranks know of them. Making it is collective.

    The ranks agree on all arguments of the routine except those of `MAY_DIFFER`, and on `options`.

    Parameters
    ----------
    call : RoutineCall
        The call.
    arrays : mapping of str to DistributedArray
        In the order of the arguments.
    check_arguments : callable
        Called with the operands. Raises an error if their shapes do not fit; returns `ShapeAndLayout`.
    parts : callable
        Returns the part of each operand that the routine reads, in the letters of `matrix_parts`; of those left out all
        elements are read.
    vectors : sequence of str
        Operands that may have one dimension.
    check_finite : bool
        Whether infs and NaNs are refused, for a routine without this keyword.
    uses_library : bool
        Whether the routine calls ScaLAPACK on a grid.
    **options
        More values that are equal on all ranks.

    Attributes
    ----------
    arrays : dict
        The operands, as the user gave them.
    matrices : dict
        The same with a vector as a matrix of one column.
    parts : dict
        What is read of each.
    dtype : dtype
        Of all of them.
    magnitudes : dict
        Of each operand's part, as `magnitude`.
    forms : dict
        Of each operand; None if they have not been computed.
    is_checked : bool
        Whether results are.
    shape : (int, int)
        For which a layout is chosen.
    layout : Descriptor or None
        The layout that the user wants to work in.
    target : Descriptor
        Layout of the result.
    room : float
        Bytes that one process has left beside all operands; 0 if they do not fit there.
    overwritable : frozenset
        Operands in whose memory on this rank the routine may work.
    consumable : frozenset
        Operands whose memory is given back as they move.
    overwritten : list
        Those in whose memory on this rank a work has begun.
    has_consumed : bool
        Whether the memory of any has been given back.
    """

    dtype: np.dtype[Any]
    target: Descriptor
    has_consumed = False

    def __init__(
        self,
        call: RoutineCall,
        arrays: Mapping[str, Any],
        check_arguments: Callable[..., ShapeAndLayout],
        parts: Callable[[], Mapping[str, str]],
        vectors: tuple[str, ...],
        check_finite: bool,
        uses_library: bool,
        **options: Any,
    ) -> None:
        self.call, self.arrays, self.parts = call, dict(arrays), dict.fromkeys(arrays, "")
        checked = bool(call.arguments["check"])
        check_finite = bool(call.arguments.get("check_finite", check_finite))
        arguments = call.arguments | self.arrays | options | {"check": checked, "check_finite": check_finite}
        first = next((array for array in arrays.values() if isinstance(array, Distributed)), None)
        if first is None or not call.has_ranks:
            self._check(vectors)
        self.comm = call.comm
        self.overwritten = list[str]()
        cache = cache_of(call.group)
        with tracing.phase("agree"):
            with call.step(), agreement(call.group, "linalg", combine=CombinedFacts.of) as agreed:
                agreed.same("the routine", call.name, functools.partial(str, call.name))
                self._check(vectors)
                self.matrices = {name: as_matrix(array) for name, array in self.arrays.items()}
                if uses_library and cache.has_library:  # so that an error of this rank is in this vote
                    blacs.load()
                (m, n), default_target = check_arguments(*arrays.values())
                self.shape, self.parts = (m, n), {**self.parts, **parts()}
                self.layout = self._read_work_layout(arguments["layout"])
                self.target = self._target(arguments.get("like"), default_target)
                self.overwritable = self._overwritable_here()
                for name, argument in arguments.items():
                    if name not in MAY_DIFFER:
                        agreed.same(name, canonical_form(argument), functools.partial(describe, argument))
                agreed.give(self._facts(cache.version))
            facts: CombinedFacts = agreed.result
            self.dtype = self._common_dtype(facts.letters)
            self.magnitudes = dict(zip(self.arrays, facts.magnitudes, strict=True))
            self.forms = dict(zip(self.arrays, facts.forms, strict=True))
            self.room, self.consumable = max(0.0, facts.room), facts.consumable
            if not facts.have_same_caches:
                cache.forget()
            for name, size in self.magnitudes.items():
                if check_finite and not math.isfinite(size):
                    raise ValueError(f"{name} must not contain infs or NaNs")
            self.is_checked = checked and self.are_finite

    @property
    def are_finite(self) -> bool:
        """Whether no operand has infs or NaNs in what is read."""
        return all(map(math.isfinite, self.magnitudes.values()))

    @property
    def least_extent(self) -> int:
        """That of the largest operand: whether threads, and sleep of the other ranks, are worth while."""
        largest = max(self.matrices.values(), key=lambda matrix: math.prod(matrix.shape))
        return int(min(largest.shape))

    @property
    def largest(self) -> str:
        """The largest number of the dtype, in words."""
        return f"the largest number of {self.dtype}, {np.finfo(self.dtype).max:.3g}"

    def exponent(self, name: str) -> int:
        """The exponent of 2 by which an operand is divided."""
        return exponent_of(self.magnitudes[name], self.dtype)

    def columns(self, name: str) -> int:
        """The number of columns of an operand, 1 for a vector."""
        shape: tuple[int, ...] = self.arrays[name].shape
        return (*shape, 1)[1]

    # -- on this rank, before the vote

    def _check(self, vectors: tuple[str, ...]) -> None:
        first: tuple[str, np.dtype[Any]] | None = None
        for name, array in self.arrays.items():
            if not isinstance(array, Distributed):
                raise not_taken(name, array)
            self._check_dimensions(name, array, name in vectors)
            if not same_ranks(communicator_of(array.desc), self.call.comm):
                raise ArrayError(
                    f"{name} is on another communicator than {next(iter(self.arrays))}: put both on one, by "
                    "redistribute(desc_a, desc_b, comm=) with a communicator that holds both"
                )
            if array.dtype is None:
                continue
            if array.dtype not in DTYPES:
                others = "; numpy.dot(a, b) takes other dtypes" if self.call.name == "matmul" else ""
                is_number = array.dtype.kind in "biufc"
                converted = f"{name}.astype(numpy.float64) converts it" if is_number else "its elements are no numbers"
                raise ArrayError(
                    f"{name} has dtype {array.dtype}, which ScaLAPACK does not have: it must be one of "
                    f"{', '.join(map(str, DTYPES))}; {converted}{others}"
                )
            first = first or (name, array.dtype)
            if array.dtype != first[1]:
                raise ArrayError(_dtype_difference(first, (name, array.dtype)))

    def _check_dimensions(self, name: str, array: Distributed, may_be_vector: bool) -> None:
        if array.ndim != 2 and not (may_be_vector and array.ndim == 1):
            right = "1 or 2 dimensions" if may_be_vector else "2 dimensions"
            of_stacks = "; of a stack leave the other arguments as they are" if self.call.name in OF_STACKS else ""
            if array.ndim > 2 and not of_stacks:
                of_stacks = "; of a stack that is whole on ranks take NumPy's or SciPy's function of a.own, and psr.from_local"
            raise ArrayError(f"{name} has shape {array.shape}: it must have {right}{of_stacks}")

    def _target(self, like: LayoutOption, default_target: Descriptor) -> Descriptor:
        if like is None:
            return default_target
        desc = self._read_layout("like", like)
        if desc.shape != default_target.shape or desc.parent is not None:
            raise DescriptorError(
                f"like = {desc!r} must be the layout of a whole array of shape {default_target.shape}, that of the result"
            )
        return desc

    def _read_work_layout(self, layout: LayoutOption) -> Descriptor | None:
        if layout is None:
            return None
        wanted = self._read_layout("layout", layout)
        check_work_layout(self.call.name, wanted, self.shape)
        return wanted

    def _read_layout(self, name: str, layout: LayoutOption) -> Descriptor:
        desc = descriptor_of(layout)
        if not isinstance(desc, Descriptor):
            raise DescriptorError(f"{name} = {shown(layout)} must be a Descriptor or a DistributedArray")
        if not same_ranks(communicator_of(desc), self.comm):
            raise DescriptorError(f"{name} = {desc!r} is on another communicator than the operands: make it on theirs")
        return desc

    def _facts(self, caches: int) -> Facts:
        """What this rank knows of the operands."""
        operands = [self._facts_of(name) for name in self.arrays]
        shapes = [*(array.shape for array in self.arrays.values()), self.target.shape]
        sizes = [math.prod(shape) for shape in shapes]
        needed = WORKSPACES * 16 * max(sum(sizes[:-1]), sizes[-1])
        if not fits_one_process(self.call.name, shapes, self.call.arguments):
            needed = sys.maxsize
        return Facts(operands, room_beside(needed, free_memory), caches, self._consumable_here())

    def _overwritable_here(self) -> frozenset[str]:
        """The operands that this rank's call lets the routine overwrite: they can be written, and no other has their memory."""
        locals_ = {name: array.local for name, array in self.arrays.items()}
        return frozenset(
            name
            for name, local in locals_.items()
            if self.call.arguments.get(f"overwrite_{name}")
            and (local is None or not why_not_written(local, [locals_[other] for other in locals_ if other != name]))
        )

    def _consumable_here(self) -> frozenset[str]:
        """The operands that may be overwritten, of those so large that their memory matters."""
        if self.call.name not in CONSUMING:
            return frozenset()
        return frozenset(name for name in self.overwritable if 8 * math.prod(self.arrays[name].shape) >= CONSUMED)

    @functools.cached_property
    def _may_want_forms(self) -> bool:
        """Whether the last such call was on one process. Where that is a wrong guess, a vote more brings the forms."""
        return bool(self.call.arguments["check"]) and cache_of(self.call.group).was_on_one(self.call.name, self.shape)

    def _facts_of(self, name: str) -> OperandFacts:
        array = self.matrices[name]
        size = magnitude(array, self.parts[name])
        is_wanted = self._may_want_forms and math.prod(array.shape) <= EAGER
        exponent = math.frexp(size)[1] if size else LEAST_EXPONENT  # of zeros, which say nothing of the scale
        return OperandFacts(
            None if array.dtype is None else array.dtype.char,
            size,
            Forms.of(array, self.parts[name], exponent) if is_wanted and math.isfinite(size) else None,
        )

    # -- after it

    def _common_dtype(self, letters: list[dict[str, int]]) -> np.dtype[Any]:
        known = [
            (rank, name, np.dtype(letter))
            for name, by_letter in zip(self.arrays, letters, strict=True)
            for letter, rank in by_letter.items()
        ]
        if not known:
            raise ArrayError("no rank knows the dtype: each local array is None; pass empty ones of the dtype")
        first = min(known)
        for rank, name, dtype in sorted(known):
            if dtype != first[2]:
                raise ArrayError(_dtype_difference(first[1:], (name, dtype), (first[0], rank)))
        return first[2]


def _dtype_difference(
    first: tuple[str, np.dtype[Any]], second: tuple[str, np.dtype[Any]], ranks: tuple[int, int] | None = None
) -> str:
    (name, dtype), (other, other_dtype) = first, second
    on, on_other = ("", "") if ranks is None or ranks[0] == ranks[1] else (f" on rank {ranks[0]}", f" on rank {ranks[1]}")
    if name == other:
        return f"{name} has dtype {dtype}{on} and {other_dtype}{on_other}: make them equal by {name}.astype"
    return (
        f"{name} has dtype {dtype}{on} and {other} has {other_dtype}{on_other}: ScaLAPACK converts nothing, so make them "
        f"equal by .astype({str(np.result_type(dtype, other_dtype))!r})"
    )


def as_matrix(array: Distributed) -> DistributedArray:
    """A vector as a matrix of one column, in the same memory; another array itself."""
    if array.ndim != 1 and isinstance(array, DistributedArray):
        return array
    desc, local = array.desc, array.local
    if array.ndim == 1:
        desc = as_column(desc)
        if local is not None and local.ndim == 1:
            local = local[:, None] if desc.coords is not None else None
    return DistributedArray._from_result(desc, local, array.dtype)


def canonical_form(argument: Any) -> Any:
    """The part of an argument that must be equal on all ranks.

    Of a distributed array that is the layout. Equal numbers have one form, and so have sequences and arrays of equal numbers.
    """
    desc = descriptor_of(argument)
    if isinstance(desc, Descriptor):
        return desc.layout_digest
    array = np.asarray(argument)
    return (
        (array.shape, digest(array.astype(np.complex128).tobytes())) if array.dtype.kind in "biufc" else repr(argument)
    )


def describe(argument: Any) -> str:
    """An argument in the words of an error message."""
    desc = descriptor_of(argument)
    return repr(desc) if isinstance(desc, Descriptor) else shown(argument)


# -- layouts of results, by those of operands


def check_rows(a: Distributed, b: Distributed) -> None:
    """Raise an error if right-hand sides do not fit a matrix."""
    if b.shape[0] != a.shape[0]:
        raise ArrayError(f"b has shape {b.shape} and a {a.shape}: b must have {a.shape[0]} rows, as many as a")


def check_square_matrix(a: DistributedArray) -> ShapeAndLayout:
    """As `check_arguments`, for a square matrix."""
    if a.shape[0] != a.shape[1]:
        raise ArrayError(f"a has shape {a.shape}: it must be square")
    return a.shape, shaped_like(a.desc, a.shape)


def check_any_matrix(a: DistributedArray) -> ShapeAndLayout:
    """As `check_arguments`, for a matrix."""
    return a.shape, shaped_like(a.desc, a.shape)


def shaped_like(desc: Descriptor, shape: tuple[int, ...]) -> Descriptor:
    """The layout itself if it is that of a whole array of this shape; else as `in_order`."""
    return desc if desc.parent is None and desc.shape == shape else in_order(desc, shape)


def in_order(desc: Descriptor, shape: tuple[int, ...]) -> Descriptor:
    """A whole array of this shape in the blocks, on the grid and from the source of a layout.

    Where that is of a transposed view, the dimensions are over those of the grid in order, as ScaLAPACK has them. Along a
    dimension of another size, or over other processes, blocks are those of `spread`.
    """
    whole = desc.parent or desc
    step = -1 if whole.axes == (1, 0) else 1
    if whole is desc and desc.shape == shape and step == 1 and desc.lld == max(1, desc.local_shape[0]):
        return desc  # takes less time than an equal one
    axes, sources = whole.axes[::step], whole.source[::step]
    processes = [1 if axis is None else desc.grid.shape[axis] for axis in axes]
    blocks = [
        size if (n, along) == (axis.n, axis.processes) else spread(size, n, along)
        for size, n, along, axis in zip(whole.block, shape, processes, whole.distributions, strict=True)
    ]
    sources = tuple(0 if isinstance(size, Blocks) else source for source, size in zip(sources, blocks, strict=True))
    return Descriptor(shape, blocks, desc.grid, source=sources, axes=axes)


def spread(block: object, n: int, processes: int) -> int | None:
    """A block size if each process then has a part of n indices; otherwise None, for one block for each process."""
    return block if isinstance(block, int) and block * (processes - 1) < n else None
