"""Products of distributed matrices by panels: plans bring each process its panels, and NumPy's BLAS multiplies them.

`product_grids` has the grid of p x q x r processes, and where each element is. A panel is of the whole inner dimension, or of a
part of it, where panels would take more than `PANEL_BYTES` on a process and the inner dimension may be cut anywhere. Plans are
kept with the communicator.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..redistribution import Redistribution, batch
from .matrix_parts import as_column, indices_at
from .place import Grid
from .product_grids import (
    EACH_ONE,
    LEAST_WIDTH,
    PANEL_BYTES,
    Arrangement,
    Deal,
    Plane,
    Sizes,
    best_arrangement,
    steps_of_half,
)

Array = NDArray[Any]
COLUMNS = 512  # of C that are added at a time
PLANS_KEPT, PANELS_KEPT = 16, 4  # of products; of the panels of one


class Multiplication:
    """The product of two matrices in given layouts, with its plans. Making it is not collective.

    Parameters
    ----------
    a, b, c : Descriptor
        Layouts of both operands, and of the product, of two dimensions.
    arrangement : Arrangement
        Where to compute.
    dtype : dtype
        Of all three.
    fill : {None, "symmetric", "hermitian"}
        What the product is, for an arrangement that computes one half of it.
    comm : MPI.Intracomm
        Communicator of all layouts.
    """

    def __init__(
        self,
        a: Descriptor,
        b: Descriptor,
        c: Descriptor,
        arrangement: Arrangement,
        dtype: np.dtype[Any],
        fill: str | None,
        comm: MPI.Intracomm,
    ) -> None:
        self._a, self._b, self._c, self._arrangement, self._dtype = a, b, c, arrangement, dtype
        self._fill, self._comm = fill, comm
        self._sizes = sizes = Sizes(a.shape[0], b.shape[1], a.shape[1], dtype)
        self._a_stays, self._b_stays, self._c_stays = arrangement.unmoved(sizes, *map(Plane.of, (a, b, c)))
        self._grid = ProcessGrid(arrangement.ranks.shape, comm, ranks=arrangement.ranks)
        self._layers = self._layouts_of_layers()
        self._own = next((desc for desc in self._layers if desc.place is not None), None)
        self._panels = [*self._inner_ranges()]
        self._plans: list[Redistribution] = []  # to the first panels
        self._to_result: Redistribution | None = None

    def _layout(self, shape: tuple[int, int], deals: tuple[Deal, Deal], axes: tuple[int, int]) -> Descriptor:
        several = [self._grid.shape[axis] > 1 for axis in axes]
        blocks = [deal.block if is_dealt else None for deal, is_dealt in zip(deals, several, strict=True)]
        sources = [deal.source if is_dealt else 0 for deal, is_dealt in zip(deals, several, strict=True)]
        return Descriptor(shape, blocks, self._grid, source=sources, axes=axes)

    def _layouts_of_layers(self) -> list[Descriptor]:
        """Of C, or of its parts."""
        (m, n, _, _), (rows, columns) = self._sizes, (self._arrangement.rows, self._arrangement.columns)
        ranks, layers = self._arrangement.ranks, []
        for layer in range(ranks.shape[2]):
            grid = ProcessGrid(ranks.shape[:2], self._comm, ranks=ranks[:, :, layer])
            blocks = [deal.block if size > 1 else None for deal, size in zip((rows, columns), grid.shape, strict=True)]
            sources = [deal.source if size > 1 else 0 for deal, size in zip((rows, columns), grid.shape, strict=True)]
            layers.append(Descriptor((m, n), blocks, grid, source=sources))
        return layers

    def _inner_ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges of the inner dimension, one for each panel."""
        (p, q, r), (m, n, k, dtype) = self._arrangement.ranks.shape, self._sizes
        rows = 0 if self._a_stays else self._arrangement.rows.most(m, p)
        columns = 0 if self._b_stays else self._arrangement.columns.most(n, q)
        count, per_index = min(1, k), -(-(rows + columns) * dtype.itemsize // r)
        if self._arrangement.can_cut(self._a_stays, self._b_stays) and k:
            width = max(LEAST_WIDTH * r, PANEL_BYTES // max(1, per_index))
            count = -(-k // width)
        edges = [k * number // count for number in range(count + 1)] if count else []
        return itertools.pairwise(edges)

    @property
    def version(self) -> tuple[int, bool]:
        """Which plans it has."""
        return len(self._plans), self._to_result is not None

    # -- calls

    def __call__(self, place: Grid, left: Array | None, right: Array | None) -> Array | None:
        """The local array of the product, from those of the operands. Collective.

        An error of this rank alone is left to `Problem.run`.
        """
        product = None
        with place.collect_errors():
            if self._own is not None:
                desc, order = (self._c, place.call.order) if self._c_stays else (self._own, "F")
                product = desc.zeros(self._dtype, order)
        for number in range(len(self._panels)):
            a, b = self._bring(place, number, left, right)
            with place.collect_errors(), tracing.phase("gemm"):
                if product is not None and a is not None and b is not None:
                    self._add(product, a, b, is_first=number == 0)
        return product if self._c_stays else self._bring_back(place, product)

    def _bring(self, place: Grid, number: int, left: Array | None, right: Array | None) -> list[Array | None]:
        """The panels of both operands on this rank. Collective."""
        first, end = self._panels[number]
        whole = len(self._panels) == 1
        panels = [
            left if left is None or whole else left[:, first:end],
            right if right is None or whole else right[first:end],
        ]
        moved = [side for side, stays in enumerate((self._a_stays, self._b_stays)) if not stays]
        if moved:
            names = " and ".join("ab"[side] for side in moved)
            arrays = [(left, right)[side] for side in moved]
            to_panels = self._plan_of(place, number)
            with tracing.phase(f"redistribute {names}", to_panels.desc_a, to_panels.desc_b), place.call.step():
                results = to_panels(arrays) if len(moved) > 1 else [to_panels(arrays[0])]
            for side, result in zip(moved, results, strict=True):
                panels[side] = result
        return panels

    def _plan_of(self, place: Grid, number: int) -> Redistribution:
        """The plan that brings both panels, or one. Collective."""
        if number < len(self._plans):
            return self._plans[number]
        (first, end), (m, n, _, _), arrangement = self._panels[number], self._sizes, self._arrangement
        inner = arrangement.inner if len(self._panels) == 1 else EACH_ONE
        plans = []
        if not self._a_stays:
            layout = self._layout((m, end - first), (arrangement.rows, inner), (0, 2))
            plans.append(place.plan(self._a[:, first:end], layout, dtype=self._dtype))
        if not self._b_stays:
            layout = self._layout((end - first, n), (inner, arrangement.columns), (2, 1))
            plans.append(place.plan(self._b[first:end], layout, dtype=self._dtype))
        to_panels = self._one_of(place, plans)
        if number < PANELS_KEPT:
            self._plans.append(to_panels)
        return to_panels

    def _one_of(self, place: Grid, plans: list[Redistribution]) -> Redistribution:
        """One plan of several. Collective."""
        if len(plans) == 1:
            return plans[0]
        with place.call.step():
            return batch(*plans)

    def _add(self, product: Array, a: Array, b: Array, is_first: bool) -> None:
        """Add the product of two panels to this rank's elements of C, which are zeros before the first one."""
        a, b = for_blas(a), for_blas(b)
        if self._arrangement.is_half:
            rows, columns = self._own_indices()
            for column, width, height in steps_of_half(rows, columns):
                where = np.s_[rows.size - height :, column : column + width]
                _add_product(product[where], a[rows.size - height :], b[:, column : column + width], is_first)
        elif is_first:
            np.matmul(a, b, out=product)
        elif product.flags.f_contiguous:
            for column in range(0, product.shape[1], COLUMNS):
                some = slice(column, column + COLUMNS)
                _add_product(product[:, some], a, b[:, some], False)
        else:
            for row in range(0, product.shape[0], COLUMNS):
                some = slice(row, row + COLUMNS)
                _add_product(product[some], a[some], b, False)

    def _own_indices(self) -> list[NDArray[np.int64]]:
        """Rows and columns of C, or of its parts, that this rank computes."""
        desc = self._own
        return [] if desc is None else indices_at(desc, desc.grid.coords or ())

    def _bring_back(self, place: Grid, product: Array | None) -> Array | None:
        """The product in the layout of the result: parts added, and one half mirrored. Collective."""
        if self._to_result is None:
            mirror = {"uplo": "L", "fill": self._fill} if self._arrangement.is_half else {}
            plans = [place.plan(layer, self._c, dtype=self._dtype, **mirror) for layer in self._layers]
            self._to_result = self._one_of(place, plans)
        with tracing.phase("redistribute result", self._layers[0], self._c):
            if len(self._layers) == 1:
                result = self._new_result(place)
                with place.call.step():
                    return self._to_result(product, result)
            products = [product if layer is self._own else None for layer in self._layers]
            with place.call.step():
                parts = self._to_result(products)
        total = parts[0]
        with place.collect_errors():
            for part in parts[1:]:
                if total is not None and part is not None:
                    total += part
        return total

    def _new_result(self, place: Grid) -> Array | None:
        """An array for the result, if it is to be in another order than plans make arrays."""
        result = None
        if place.call.order != "F" and self._c.place is not None:
            with place.collect_errors():
                result = self._c.empty(self._dtype, "C")
        return result


def _add_product(product: Array, a: Array, b: Array, is_first: bool) -> None:
    if is_first:
        np.matmul(a, b, out=product)
    else:
        product += a @ b


def for_blas(array: Array) -> Array:
    """The array, or a copy: one dimension is contiguous, and lines of it do not overlap."""
    item, (down, across) = array.itemsize, array.strides
    m, n = array.shape
    by_columns = (down == item or m <= 1) and (n <= 1 or across >= m * item)
    by_rows = (across == item or n <= 1) and (m <= 1 or down >= n * item)
    fits = array.flags.aligned and (by_columns or by_rows) and down % item == across % item == 0
    return array if fits else np.array(array, order="F")


class Multiplications(OrderedDict[int, Multiplication]):
    """The products of a communicator that were used last, by a digest that is equal on all ranks."""

    @property
    def version(self) -> tuple[Any, ...]:
        """Which products it has, with which plans."""
        return tuple([(key, product.version) for key, product in self.items()])

    def keep(self, key: int, product: Multiplication) -> None:
        """Keep a product; drop the one that was used longest ago if there are too many."""
        self[key] = product
        self.move_to_end(key)
        while len(self) > PLANS_KEPT:
            self.popitem(last=False)


def multiply(place: Grid, fill: str | None = None) -> DistributedArray:
    """The product of the operands "a" and "b" of a place, in the layout of its result, as a matrix. Collective.

    Parameters
    ----------
    place : Grid
        Of the product; an error of this rank alone is left to its `run`.
    fill : {None, "symmetric", "hermitian"}
        Whether the product is known to be so, since B is the transpose or conjugate transpose of A.
    """
    operands, c, dtype, comm = [*place.operands.values()], as_column(place.facts.target), place.dtype, place.call.comm
    a, b = (as_column(operand.desc) for operand in operands)
    forced = place.layout((c.shape[0], c.shape[1])) if place.is_asked else None
    descs = [desc.layout_digest for desc in (a, b, c, *filter(None, [forced]))]
    key = digest(("product", *descs, dtype.char, fill))
    products = place.keep("products", Multiplications)
    product = products.get(key)
    if product is None:
        if forced is None:
            sizes = Sizes(a.shape[0], b.shape[1], a.shape[1], dtype)
            arrangement = best_arrangement(sizes, comm.Get_size(), a, b, c, fill is not None)
        else:
            plane = Plane.of(forced)
            assert plane is not None
            arrangement = Arrangement(plane.ranks[:, :, None], plane.rows, plane.columns)
        product = Multiplication(a, b, c, arrangement, dtype, fill, comm)
    products.keep(key, product)
    locals_ = [_as_matrix(operand.local) for operand in operands]
    return DistributedArray._from_result(c, product(place, *locals_), dtype)


def _as_matrix(local: Array | None) -> Array | None:
    return local[:, None] if local is not None and local.ndim == 1 else local
