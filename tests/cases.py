"""Random cases: layouts, arrays, operations, ways and uses of plans, all of them drawn here. Drawing needs no MPI.

`draw_case(rng, ranks, way)` draws one plan and its calls; every rank draws the same. A feature that is added to the package is
added here: to what is drawn, and to `TABLE`, which the long tests must fill.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from oracle import (
    AnyLayout,
    Layout,
    TileLayout,
    random_axes,
    random_irregular,
    random_layout,
    random_shape,
    random_size,
    random_tiles,
    trapezoid,
    written,
)

import pyscalapack_redist as psr
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES, check_combination
from pyscalapack_redist.layout.waypoints import VIAS
from pyscalapack_redist.schedules import NAMES
from pyscalapack_redist.schedules.layout_orders import is_one_port

RECORD = np.dtype([("key", "<i4"), ("value", "<f8", (2,)), ("tag", "S3")])
OTHER_DTYPES = [np.dtype(t) for t in ("S5", "U3", "M8[s]", ">f8", "V7")]
DTYPES = [*(np.dtype(t) for t in "?bBhHiIlLqefdgFDG"), *OTHER_DTYPES, RECORD]
MULTIPLIED = "fdFD"  # dtypes that alpha and beta are for
FORMULAS = ("walker-otto", "phases", "random-phases", "classes")  # schedules that apply to few pairs of layouts
ONE_SIZE = ("lcm", "gcd")  # ways that are for blocks of one size
LISTED = "a list of layouts"
FEATURES = frozenset(
    {"tiles", "copies", "irregular", "dimensions", "operations", "factors", "faults", "in place", "unknown"}
)
"""What `draw_case` may be told to draw, beside block-cyclic matrices and ways."""

Way = dict[str, Any]


class Call(NamedTuple):
    """One use of a plan: `fault` is what is wrong on rank `culprit`, so that all ranks raise."""

    how: str
    alpha: complex = 1
    beta: complex = 0
    new: bool = False
    fault: str | None = None
    culprit: int = 0


@dataclass
class Case:
    """A plan, the values of its arrays, and its calls."""

    a: AnyLayout
    b: AnyLayout
    dtype: np.dtype[Any]
    way: Way
    calls: list[Call]
    op: str = "N"
    uplo: str | None = None
    diag: str = "N"
    fill: str | None = None
    via: list[Layout] | None = None
    in_place: bool = False
    tells_dtype: bool = True
    order: str | None = None
    unknown: bool = False
    strided: bool = True
    seed: int = 0

    def __repr__(self) -> str:
        names = "op", "uplo", "diag", "fill", "via", "in_place", "tells_dtype", "order", "unknown", "seed"
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.a} -> {self.b}, {self.dtype}, {self.way}, {said}, {self.calls}"

    @property
    def options(self) -> dict[str, Any]:
        """Keywords for `redistribute`, but for layouts and communicator."""
        asked = {"op": self.op, "uplo": self.uplo, "diag": self.diag, "fill": self.fill}
        return {**self.way, **asked, "order": self.order, "dtype": self.dtype if self.tells_dtype else None}

    @property
    def conditional(self) -> bool:
        """Whether the way applies to some layouts only, so that `redistribute` may refuse it."""
        return "via" in self.way or self.way.get("schedule") in FORMULAS

    @property
    def exact(self) -> bool:
        """Whether elements come over byte by byte; -0 and 0 are equal otherwise."""
        return not (self.multiplied or self.dtype.kind == "c")

    @property
    def multiplied(self) -> bool:
        return any((call.alpha, call.beta) != (1, 0) for call in self.calls)

    @functools.cached_property
    def values(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """All of A, and of B before a call."""
        make = numbered if self.exact else whole_numbers
        a, b = (
            make(np.random.default_rng([self.seed, k]), x.shape, self.dtype) for k, x in enumerate((self.a, self.b))
        )
        return a, a if self.in_place else b

    def before(self, call: Call) -> tuple[NDArray[Any], NDArray[Any]]:
        """All of A and of B before a call: what is multiplied by 0 is not to be read, and a new array is 0."""
        a, b = self.values
        if self.multiplied and call.alpha == 0 and not (self.in_place and call.beta):
            a = np.full_like(a, np.nan)
        if self.in_place:
            return a, a
        if call.new:
            return a, np.zeros_like(b)
        return a, np.full_like(b, np.nan) if self.multiplied and call.beta == 0 else b

    def after(self, call: Call) -> NDArray[Any]:
        """All of B after it."""
        a, b = self.before(call)
        how = {"op": self.op, "uplo": self.uplo, "diag": self.diag, "fill": self.fill}
        return written(b, self.b.window(), a[self.a.window()], call.alpha, call.beta, **how)

    @property
    def moving(self) -> int:
        """Elements that are written, all copies counted, without those of a `fill`."""
        size = self.a.size
        return self.b.copies * int(
            np.prod(size) if self.uplo is None else trapezoid(size, self.uplo, self.diag).sum()  # type: ignore[arg-type]
        )

    def features(self) -> Counter[str]:
        """What there is of `TABLE` in it."""
        found: Counter[str] = Counter()
        for layout in (self.a, self.b):
            found.update(_kinds_of(layout))
        tiled = any(isinstance(layout, TileLayout) for layout in (self.a, self.b))
        found["tiles and copies"] += tiled and self.a.copies * self.b.copies > 1
        found[f"dtype {self.dtype.char}" if self.dtype in DTYPES[:17] else f"dtype {self.dtype}"] += 1
        found.update(f"{name} {value}" for name, value in self.way.items() if name != "memory_limit")
        found["any strides"] += self.strided
        found["little memory"] += "memory_limit" in self.way
        found.update(f"{name} {getattr(self, name)}" for name in ("op", "uplo", "diag", "fill"))
        found[f"order {self.order}"] += 1
        for name in ("in_place", "unknown"):
            found[name] += getattr(self, name)
        found["dtype not told"] += not self.tells_dtype
        for call in self.calls:
            found[f"use {call.how}"] += 1
            found[f"fault {call.fault}"] += 1
            found["out left out"] += call.new
            found["alpha"] += call.alpha != 1
            found["beta"] += call.beta != 0
        return +found


def _kinds_of(layout: AnyLayout) -> Iterator[str]:
    if isinstance(layout, TileLayout):
        yield "stored tiles" if layout.stored else f"tiles of dimensions {len(layout.shape)}"
        return
    yield f"dimensions {len(layout.shape)}"
    yield from ("block-cyclic" if isinstance(block, int) else "irregular" for block in layout.block)
    yield from (
        name
        for name, there in (
            ("copies", layout.copies > 1),
            ("sub-array", layout.size != layout.shape),
            ("grid of other dimensions", layout.grid_axes is not None),
            ("leading dimension", layout.extra > 0),
            ("no elements", 0 in layout.size),
        )
        if there
    )


# -- ways

LIMITS = {"bruck": 4000}  # bytes, where an exchange needs more than others: a block for each rank


def _ways() -> Iterator[Way]:
    """All that `redistribute` does not refuse, with much memory and with little."""
    yield {}
    yield {"memory_limit": 2000}
    for via in (*VIAS, LISTED):
        yield {"via": via}
        yield {"via": via, "schedule": "caterpillar", "exchange": "sendrecv", "memory_limit": 400}
    for schedule, exchange, buffers in itertools.product((*NAMES, "auto"), EXCHANGES, BUFFERS):
        try:
            check_combination(schedule, schedule == "auto" or is_one_port(schedule), exchange, buffers)
        except psr.ScheduleError:
            continue
        way = {"schedule": schedule, "exchange": exchange, "buffers": buffers}
        yield way
        if buffers == "packed":
            yield {**way, "memory_limit": LIMITS.get(exchange, 2000 if EXCHANGES[exchange].collective else 300)}


WAYS = list(_ways())
BATCH_WAYS: list[Way] = [
    {"exchange": exchange, **limit}
    for exchange in ("auto", "shared", "node-packed", "nonblocking")
    for limit in ({}, {"memory_limit": 5000})
]

# -- layouts


def _on_own_grid(rng: np.random.Generator, layout: Layout) -> Layout:
    """Half of the layouts over a grid with dimensions of its own, some with larger leading dimensions."""
    if rng.random() < 0.5:
        ranks, axes = random_axes(rng, layout)
        layout = replace(layout, grid_ranks=ranks, grid_axes=axes)
    return replace(layout, extra=int(rng.integers(3)) if rng.random() < 0.5 else 0)


def _redealt(rng: np.random.Generator, a: Layout, b: Layout) -> Layout:
    """The processes of A with its grid's dimensions moved over the array, and blocks as in B."""
    dims = len(a.shape)
    order = [int(k) for k in rng.permutation(dims)]
    ranks = a.ranks.transpose([*order, *range(dims, a.ranks.ndim)])
    each = list(zip(b.block, a.shape, ranks.shape, strict=False))
    block = tuple(cut if isinstance(cut, int) else random_irregular(rng, n, p) for cut, n, p in each)
    source = tuple(
        int(rng.integers(p)) if isinstance(cut, int) else 0 for cut, p in zip(block, ranks.shape, strict=False)
    )
    return replace(a, ranks=ranks, source=source, block=block)


def _pair(
    rng: np.random.Generator, sizes: tuple[Any, Any], ranks: tuple[int, int], way: Way, features: frozenset[str]
) -> tuple[AnyLayout, AnyLayout]:
    """Layouts of windows of two sizes, for processes of two numbers."""
    by_formula = way.get("schedule") in FORMULAS
    dims = len(sizes[0])
    draw: Callable[..., Layout] = functools.partial(
        random_layout,
        margin=max(2, 13 - 2 * dims),
        irregular="irregular" in features and not by_formula and way.get("via") not in ONE_SIZE,
        copies="copies" in features and not by_formula,
    )
    if by_formula:  # for one grid
        ranks = min(ranks), min(ranks)
    a, b = (draw(rng, size, number) for size, number in zip(sizes, ranks, strict=True))
    kind = rng.random()
    if by_formula:  # one size of blocks is a multiple of the other
        b = replace(a, block=tuple(int(n * rng.integers(1, 5)) for n in a.block))  # type: ignore[operator]
        a, b = (a, b) if kind < 0.5 else (b, a)
    elif sizes[0] == sizes[1] and ranks[0] == ranks[1] and kind < 0.3:
        b = _redealt(rng, a, b)
    a, b = _on_own_grid(rng, a), _on_own_grid(rng, b)
    plain = not by_formula and "via" not in way and way.get("buffers") != "datatypes"
    if "tiles" in features and plain and kind > 0.75:
        layouts: list[AnyLayout] = [a, b]
        for k in rng.permutation(2)[: int(rng.integers(1, 3))]:
            layouts[k] = random_tiles(rng, sizes[k], ranks[k])
        return layouts[0], layouts[1]
    return a, b


# -- cases


def draw_case(
    rng: np.random.Generator,
    ranks: int | tuple[int, int],
    way: Way | None = None,
    features: frozenset[str] = FEATURES,
    most: int = 6000,
) -> Case:
    """Draw a case.

    Parameters
    ----------
    rng : Generator
        Alike on all ranks.
    ranks : int or (int, int)
        Processes of the communicator, or of both sides of an inter-communicator.
    way : dict, optional
        One of `WAYS`, or options of a batch's plans.
    features : frozenset of str
        Of `FEATURES`: what may be drawn.
    most : int
        Elements of arrays of other than two dimensions, mostly.
    """
    way = dict(way or {})
    sides = (ranks, ranks) if isinstance(ranks, int) else ranks
    datatypes = way.get("buffers") == "datatypes"
    plain = datatypes or way.get("schedule") in FORMULAS
    matrix = "dimensions" not in features or rng.random() < 0.6
    size = random_size(rng) if matrix else random_shape(rng, int(rng.integers(1, 7)), most)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    multiplied = "factors" in features and not datatypes and rng.random() < 0.4
    if multiplied:
        dtype = np.dtype(MULTIPLIED[rng.integers(4)])
    asked: dict[str, Any] = {}
    if "operations" in features and len(size) == 2 and not plain and rng.random() < 0.6:
        asked, size, dtype = _operation(rng, size, dtype)
    elif datatypes and len(size) == 2 and way.get("schedule") not in FORMULAS and rng.random() < 0.3:
        asked = {"op": "T"}
    other = size[::-1] if asked.get("op", "N") in "TC" else size
    a, b = _pair(rng, (size, other), sides, way, features)
    if isinstance(a, TileLayout) or isinstance(b, TileLayout):
        asked.pop("fill", None)
    in_place = "in place" in features and isinstance(ranks, int) and asked.get("op", "N") == "N" and rng.random() < 0.08
    if in_place:
        b = a
        asked.pop("fill", None)
    case = Case(a, b, dtype, way, [], in_place=in_place, seed=int(rng.integers(2**31)), **asked)
    if way.get("via") == LISTED:
        case.via = [
            replace(_on_own_grid(rng, random_layout(rng, other, sides[0], sub_arrays=False)), extra=0)
            for _ in range(int(rng.integers(1, 3)))
        ]
    if "unknown" in features and rng.random() < 0.2 and way.get("via") != LISTED:
        case.unknown = True
    if "unknown" in features and isinstance(ranks, int) and rng.random() < 0.3:
        case.tells_dtype = False
    case.strided = bool(rng.random() < 0.6)
    if rng.random() < 0.4:
        is_placed = isinstance(b, TileLayout) and b.stored
        case.order = str(rng.choice(["F", "K"] if is_placed else ["C", "F", "K"]))
    case.calls = [
        _call(rng, case, multiplied, features) for _ in range(int(rng.choice((1, 2, 3, 6), p=(0.3, 0.3, 0.3, 0.1))))
    ]
    return case


def _operation(
    rng: np.random.Generator, size: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[dict[str, Any], tuple[int, ...], np.dtype[Any]]:
    """An operation, a part and what fills the rest, with the size and the dtype that they want."""
    op, uplo, fill = "NTCR"[rng.integers(4)], (None, "U", "L")[rng.integers(3)], None
    if uplo is not None:
        fill = (None, None, "zero", "symmetric", "hermitian")[rng.integers(5)]
    if dtype.char == "G" and (op in "CR" or fill == "hermitian"):
        dtype = np.dtype("D")
    if fill in ("symmetric", "hermitian"):
        size = (max(size) % 97,) * 2
    diag = "U" if uplo is not None and rng.random() < 0.3 else "N"
    return {"op": op, "uplo": uplo, "diag": diag, "fill": fill}, size, dtype


FACTORS: list[tuple[complex, complex]] = [(1, 1), (1, 2), (0, 3), (0, 0), (-2, 0), (3, 1), (3, -3), (2, 1), (1, 0)]
USES = ("call", "call", "call", "start", "array")
FAULTS = ("shape", "missing", "kind", "factor")


def _call(rng: np.random.Generator, case: Case, multiplied: bool, features: frozenset[str]) -> Call:
    alpha, beta = FACTORS[rng.integers(len(FACTORS))] if multiplied else (1, 0)
    if multiplied and case.dtype.kind == "c" and rng.random() < 0.5:
        alpha *= 1 - 2j
    whole = case.b.size == case.b.shape
    new = whole and beta == 0 and not case.in_place and bool(rng.random() < 0.4)
    how = USES[rng.integers(len(USES))]
    tiles = isinstance(case.a, TileLayout) or isinstance(case.b, TileLayout)
    if tiles and how == "array":
        how = "start"
    if "faults" not in features or rng.random() > 0.15:
        return Call(how, alpha, beta, new)
    how = "call" if how == "array" else how  # a distributed array refuses what does not fit by itself
    fault = FAULTS[rng.integers(len(FAULTS))]
    processes = np.union1d(case.a.ranks, case.b.ranks)
    if fault == "factor" and not (multiplied and len(processes) > 1):
        fault = "shape"
    among = processes if fault == "factor" else np.unique(case.a.ranks)
    if not among.size:  # no tiles, no processes
        return Call(how, alpha, beta, new)
    return Call(how, alpha, beta, False, fault, int(rng.choice(among)))


# -- values


def numbered(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of the dtype whose bytes tell the elements apart."""
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    count, kind = int(np.prod(shape)), f"V{dtype.itemsize}"
    array = np.empty(shape, dtype)
    array.reshape(-1).view(kind)[:] = np.frombuffer(rng.bytes(count * dtype.itemsize), kind)
    return array


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Small whole numbers, so that no sum is rounded."""
    array = rng.integers(-50, 50, shape).astype(dtype)
    return array + 1j * rng.integers(-50, 50, shape).astype(dtype) if dtype.kind == "c" else array


# -- what the long tests must have drawn


def _table() -> list[str]:
    every = [
        *(f"dtype {dtype.char}" for dtype in DTYPES[:17]),
        *(f"dtype {dtype}" for dtype in DTYPES[17:]),
        *(f"schedule {name}" for name in (*NAMES, "auto")),
        *(f"exchange {name}" for name in EXCHANGES),
        *(f"buffers {name}" for name in BUFFERS),
        *(f"via {name}" for name in (*VIAS, LISTED)),
        *(f"op {name}" for name in "NTCR"),
        *(f"uplo {name}" for name in "UL"),
        "diag U",
        *(f"fill {name}" for name in ("zero", "symmetric", "hermitian")),
        *(f"order {name}" for name in "CFK"),
        *(f"dimensions {number}" for number in range(1, 7)),
        *(f"tiles of dimensions {number}" for number in range(1, 7)),
        *(
            "block-cyclic",
            "irregular",
            "stored tiles",
            "tiles and copies",
            "copies",
            "sub-array",
            "grid of other dimensions",
        ),
        *("leading dimension", "no elements", "little memory", "in_place", "unknown", "dtype not told", "any strides"),
        *(f"use {name}" for name in (*USES[2:], "batch")),
        *(f"fault {name}" for name in FAULTS),
        *("out left out", "alpha", "beta", "intercommunicator"),
    ]
    return every


TABLE = _table()
