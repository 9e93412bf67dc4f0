"""Problem: the operands of a call, the place where the routine works on them, attempts at a result, and the result.

A result that its check refuses is computed once more: by other routines, or in another layout. What refused it is said.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from .. import blacs, tracing
from ..blacs.library import fitting_kernels, kernel_name
from ..comm.agreement import agreement
from ..comm.group import first_known
from ..distributed_array import DistributedArray
from ..layout.arrays import new_array
from ..layout.descriptor import Descriptor
from ..scalapack.calls import ConvergenceError, NotFiniteError
from ..scalapack.matrix_operands import KIND_OF_DTYPE
from .cache import cache_of
from .call import RoutineCall, WrongResultError
from .cores import blas_on_all_cores
from .matrix_parts import as_column, local_elements
from .operands import Forms, Operands, ShapeAndLayout
from .place import OneProcess, Place, choose_layout, choose_process, is_whole_on, place_in, redistribute
from .solver_rules import another_layout, another_process

R = TypeVar("R")
MOVED = 64.0  # the bound of what rounding makes of the forms of an operand that has moved, in units of eps
LONG = 768  # least extent from which other ranks sleep while one process computes
# From which that process has a BLAS thread on each core. Below, these would cost more: they poll for 100 ms after a call, on
# the cores of other ranks.
THREADED = 2048

Work = Callable[[Place], R]


class FirstWay(NamedTuple):
    """A work that is tried before others, in a place of its own, by routines of a library of this name."""

    place: Place
    work: Work[Any]
    library: str


class WholeArray(NamedTuple):
    """Stands for an array on one process, for ranks that have none of its elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Answer(NamedTuple):
    """How the work ended on one process."""

    result: Any
    warnings: list[str]
    error: BaseException | None

    def for_others(self) -> Answer:
        """The same without the elements of arrays."""
        return self._replace(result=_each_array(self.result, lambda array: WholeArray(array.shape, array.dtype)))


class Problem:
    """The operands of a call on all ranks, the place of its work, and its attempts. Making it is collective, as its methods.

    Parameters
    ----------
    call : RoutineCall
        The call.
    arrays, check_arguments, parts, vectors, check_finite, uses_library, **options
        As for `Operands`.
    has_layout : bool, optional
        Whether the routine works in a layout of its own, and not where the operands are.
    copies_on_one : int, optional
        Of a routine that only one process can do: how many complex matrices, of the shape of the operand, it takes there.
    """

    place: Place

    def __init__(
        self,
        call: RoutineCall,
        arrays: Mapping[str, Any],
        check_arguments: Callable[..., ShapeAndLayout],
        *,
        parts: Callable[[], Mapping[str, str]] = dict,
        vectors: tuple[str, ...] = ("b",),
        check_finite: bool = False,
        uses_library: bool = True,
        has_layout: bool = True,
        copies_on_one: int = 0,
        **options: Any,
    ) -> None:
        self.call, self._uses_library, self._is_for_one = call, uses_library, copies_on_one > 0
        self.operands = Operands(call, arrays, check_arguments, parts, vectors, check_finite, uses_library, **options)
        self.dtype, self.target = self.operands.dtype, self.operands.target
        wanted = self.operands.layout
        if copies_on_one:
            self.work_in(choose_process(call, self.operands, copies_on_one), wanted is not None)
        elif has_layout:
            self.work_in(wanted or choose_layout(call, self.operands, uses_library), wanted is not None)
            cache_of(call.group).note_place(call.name, self.operands.shape, self.place.is_alone)

    def work_in(self, layout: Descriptor, is_asked: bool) -> None:
        """Let the next attempt work in this layout. Collective."""
        self.place = place_in(self.call, self.operands, layout, self._uses_library, is_asked)

    def attempt(
        self,
        work: Work[R],
        routine_names: str,
        *,
        library: str = "",
        first: FirstWay | None = None,
        other_work: Work[R] | None = None,
    ) -> R:
        """Compute a result. If it is refused, compute it once more, in another layout.

        The work moves operands, calls ScaLAPACK and checks the result (`Check.require`). `other_work` computes it by other
        routines: it comes second, in the same layout, and last in another one. `routine_names` tells the error which routines
        the work called, without the first one's "p" and letter of the dtype: "getrf and p?getrs"; `library` names another
        library than ScaLAPACK. `first` comes before all of these. If the last result is refused, or the operand has been
        overwritten, there is a LinAlgError; so there is at once, if an operand has infs or NaNs.
        """
        refusals: list[str] = []
        then, blame, overflows = "", "", False
        ways = [(work, False), *([] if other_work is None else [(other_work, False)]), (other_work or work, True)]
        ordinary = self.place
        if first is not None:
            self.place = first.place
            ways.insert(0, (first.work, False))
        for compute, elsewhere in ways:
            if refusals and self.call.run(lambda: self.operands.overwritten, any):
                then = "; there was no second try, as the operand has been overwritten"
                break
            if refusals:
                self.place = ordinary
            if elsewhere:
                layout, comm = self.place.work_layout, self.call.comm
                other = another_process(layout, comm) if self._is_for_one else another_layout(self.call.name, layout, comm)
                self.work_in(other, True)
            self.place.is_refused = bool(refusals)
            try:
                result = self._once(compute)
            except (WrongResultError, ConvergenceError) as caught:
                if not self.operands.are_finite:
                    raise np.linalg.LinAlgError(f"{self.call.name}: {caught}") from caught
                overflows = isinstance(caught, NotFiniteError)
                in_short = tracing.in_short(self.place.work_layout)
                if not blame:
                    names, of = (routine_names, library) if first is None else ("the QR factorisation", first.library)
                    blame = self._blame(names, of)
                refusals.append(f"{caught}, in {'' if refusals else 'the layout '}{in_short}")
                continue
            if refusals:
                in_short = tracing.in_short(self.place.work_layout)
                means = f"another layout, {in_short}" if elsewhere else f"other routines, in {in_short}"
                self.call.warn(f"{blame}: {'; '.join(refusals)}; the result is that of {means}")
            return result
        remedy = f"{'divide operands by powers of 2, ' if overflows else ''}{self._remedy()}"
        raise np.linalg.LinAlgError(f"{blame}: {'; '.join(refusals)}{then}; {remedy}")

    def _once(self, work: Work[R]) -> R:
        place = self.place
        return self._once_on_one(place, work) if isinstance(place, OneProcess) else work(place)

    def _once_on_one(self, place: OneProcess, work: Work[R]) -> R:
        """Make an attempt on one process, which computes, checks and warns by itself; other ranks sleep until it is done."""
        call, operands, reply = self.call, self.operands, None
        place.gather()
        if operands.is_checked:
            for name, forms in operands.forms.items():
                operands.forms[name] = forms or self._forms_of_all(name)
        if call.comm.Get_rank() == place.rank:
            with (
                call.collect_errors(),
                call.group.at_work(announces=True),
                tracing.phase("lapack", place.work_layout, place.work_layout),
            ):
                reply = self._answered(place, work)
        error = call.take_error()
        # the reply of the process itself is not sent to it and back
        what, dozes = "the result of one process", operands.least_extent >= LONG
        with call.step(), agreement(call.group, what, combine=first_known, open=False, dozes=dozes) as agreed:
            if error is not None:
                raise error
            agreed.give(None if reply is None else reply.for_others())
        answer = agreed.result if reply is None else reply
        for text in answer.warnings:
            call.warn(text)
        if answer.error is not None:
            raise answer.error
        return cast(R, _each_array(answer.result, lambda array: _placed(place, array)))

    def _answered(self, place: OneProcess, work: Work[Any]) -> Answer:
        """The result of the work on this process, or its error, which is one of all ranks."""
        with self.call.other_warnings() as texts:
            try:
                for name in self.operands.arrays if self.operands.is_checked else ():
                    self._require_moved(place, name)
                with blas_on_all_cores() if self.operands.least_extent >= THREADED else contextlib.nullcontext():
                    return Answer(work(place), texts, None)
            except (WrongResultError, np.linalg.LinAlgError) as caught:
                return Answer(None, texts, caught)

    def _forms_of_all(self, name: str) -> Forms | None:
        """The forms of an operand as the user gave it."""
        array, part, size = self.operands.matrices[name], self.operands.parts[name], self.operands.magnitudes[name]
        forms: Forms | None = self.call.run(lambda: Forms.of(array, part, math.frexp(size)[1]), Forms.sum)
        return forms

    def _require_moved(self, place: OneProcess, name: str) -> None:
        """Refuse the attempt unless an operand has come as the user gave it, as far as sums of its elements tell."""
        array, size, forms = place.operands[name], self.operands.magnitudes[name], self.operands.forms[name]
        assert forms is not None
        moved = Forms.of(array, self.operands.parts[name], forms.exponent)
        m, n = array.shape
        bound = MOVED * np.finfo(np.float64).eps * math.sqrt(m * n) * math.ldexp(size, -forms.exponent)
        error = float(np.abs(moved.values - forms.values).max(initial=0))
        if not error <= bound:
            excess = error / bound if bound else math.inf
            raise WrongResultError(
                f"{name}, brought to one process, is off by {excess:.2g} times what rounding comes to"
            )

    def _blame(self, routine_names: str, other: str) -> str:
        name = self.call.name
        if other:
            return f"{name}: {routine_names} of {other}, returned no result"
        if not self._uses_library:
            return f"{name}: {routine_names} returned no result"
        if self.place.is_alone:
            return f"{name}: LAPACK of SciPy {scipy.__version__} on one process returned no result"
        library = blacs.load()
        kernels = kernel_name(library)
        beneath = f" with OpenBLAS's kernels for {kernels}" if kernels else ""
        kind = KIND_OF_DTYPE[self.dtype]
        return f"{name}: p{kind}{routine_names} of {library.vendor}, {library.path}{beneath}, returned no result"

    def _remedy(self) -> str:
        if self._is_for_one:
            return "pass layout= on another process, or use another SciPy"
        if self.place.is_alone:
            return f"pass layout= on more processes, or use another {'SciPy' if self._uses_library else 'NumPy'}"
        if not self._uses_library:
            return "pass another layout=, or use another NumPy"
        fitting = fitting_kernels(blacs.load())
        kernels = f"set OPENBLAS_CORETYPE={fitting}, " if fitting else ""
        return f"{kernels}pass another layout=, or use another ScaLAPACK or BLAS (PYSCALAPACK_REDIST_LIBRARY names the file)"

    # -- the result

    def to_result(self, matrix: DistributedArray, target: Descriptor | None = None) -> DistributedArray:
        """Bring a result into a layout; by default `target`."""
        wanted, dtype = target or self.target, matrix.dtype or self.dtype
        desc, local = as_column(wanted), matrix.local
        rank = matrix.desc.grid.ranks.flat[0]
        if desc != matrix.desc and not (is_whole_on(matrix.desc, rank) and is_whole_on(desc, rank)):
            out: NDArray[Any] | None = None
            if self.call.order == "C" and desc.coords is not None:
                with contextlib.suppress(MemoryError):  # the plan reports it to all ranks
                    out = new_array(desc.local_shape, dtype, "C")
            # where A has made room, the result is in memory of its own
            consumes = self.operands.has_consumed
            local = redistribute(
                self.call, "result", matrix.desc, desc, local, out, dtype=dtype, overwrite=consumes
            )
        if wanted.ndim == 1 and local is not None:
            local = local[:, 0] if wanted.coords is not None else None
        return DistributedArray._from_result(wanted, local, dtype)


def _each_array(result: Any, change: Callable[[Any], Any]) -> Any:
    """A result in which arrays are changed."""
    if isinstance(result, WholeArray | DistributedArray):
        return change(result)
    if isinstance(result, tuple):
        items = [_each_array(item, change) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    return result


def _placed(place: OneProcess, array: Any) -> DistributedArray:
    """An array of a result, in a layout of one process that all ranks know."""
    m, n = array.shape
    desc, local = place.layout((m, n)), None
    if isinstance(array, DistributedArray):
        local = array.local if array.desc == desc else np.array(local_elements(array)[2], order="F")
    return place.array(desc, local, array.dtype)


def assemble(
    size: int, dtype: Any, combine: Callable[..., NDArray[Any]] = np.add
) -> Callable[[Iterable[Any]], NDArray[Any]]:
    """For `Place.run`: an array of zeros, combined with the indices and values of each rank; a rank may have None."""

    def of_all(replies: Iterable[Any]) -> NDArray[Any]:
        whole = np.zeros(size, dtype)
        for indices, values in filter(None, replies):
            whole[indices] = combine(whole[indices], values)
        return whole

    return of_all
