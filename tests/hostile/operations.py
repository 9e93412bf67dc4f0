"""Operations: every public function and method that takes arrays or is collective, with what NumPy or SciPy makes of the same.

`completeness.py` sees that none is missing. The matrix crosses them with operands; other programs make one rank call alone.
"""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.linalg
from mpi4py import MPI
from numpy.typing import NDArray
from operands import Operand, drawn_key

import pyscalapack_redist as psr
from pyscalapack_redist import blacs, linalg, scalapack
from pyscalapack_redist.exchanges import EXCHANGES
from pyscalapack_redist.linalg.cache import Cache
from pyscalapack_redist.linalg.rates import Rates
from pyscalapack_redist.tools import cli

ORDER, BLOCK = 12, 2
Array = NDArray[Any]


class Scene:
    """What a call finds: its operands by their names, layouts, a plan, a file. The constructor is collective.

    Attributes
    ----------
    comm : Intracomm
        Of all operands.
    a, b, c
        Operands, as far as the operation has them.
    desc, local, whole, shape, dtype
        Of the first one.
    value : object
        What was done before the call.
    path : Path
        A file that is not there, in a folder that all ranks see.
    """

    value: Any = None

    def __init__(self, comm: MPI.Intracomm, folder: Path, number: int = 0, **operands: Operand) -> None:
        self.comm, self.size, self.folder = comm, comm.Get_size(), folder
        self.path = folder / f"{number}.npy"
        self.operands, self.read = operands, set[str]()
        if "a" in operands:
            self.whole = operands["a"].whole
            self.shape, self.dtype = self.whole.shape, self.whole.dtype
            self.target, self.turned = self.target_for(self.shape), self.target_for(self.shape[::-1])

    def __getattr__(self, name: str) -> Any:
        """An operand, or the layout or the local array of the first one; it is noted that it has been read."""
        operands = self.__dict__.get("operands", {})
        if name in ("desc", "local") and "a" in operands:
            self.read.add(name)
            return getattr(operands["a"], name)
        if name not in operands:
            raise AttributeError(name)
        self.read.add(name)
        return operands[name].array

    @functools.cached_property
    def grid(self) -> psr.ProcessGrid:
        grid = psr.ProcessGrid((self.size, 1), self.comm)
        grid.make_context()
        return grid

    def target_for(self, shape: tuple[int, ...]) -> psr.Descriptor:
        """Another layout: blocks of 3 along the last dimension."""
        grid = psr.ProcessGrid([self.size if k == len(shape) - 1 else 1 for k in range(len(shape))], self.comm)
        return psr.Descriptor(shape, 3, grid)

    @functools.cached_property
    def plan(self) -> Any:
        """A plan for the first operand."""
        return psr.redistribute(self.desc, self.target)

    def result(self, desc: Any, local: Any) -> Any:
        """A local array as a distributed one."""
        return psr.DistributedArray._from_result(desc, local, self.dtype)

    def copy(self, name: str = "a") -> Any:
        """An operand for a routine of ScaLAPACK that overwrites it, on a grid with a context."""
        return fitting(getattr(self, name)).copy()


def fitting(array: Any) -> Any:
    """An array whose grid has a context, if it is on one."""
    if isinstance(array, psr.DistributedArray) and isinstance(array.desc, psr.Descriptor):
        array.desc.grid.make_context()
    return array


def nothing(scene: Scene) -> None:
    """Nothing is done before."""


Check = Callable[..., None]  # of the result, with distributed arrays made whole, and the operands, whole


class Operation(NamedTuple):
    """A call, and what is known of it.

    Attributes
    ----------
    call : callable
        The call, with its scene.
    oracle : callable or None
        What the result is, of the operands as NumPy arrays. None: nothing is compared.
    kinds : str
        Those of its operands: of a, b, c.
    before : callable
        What is done before; its value is `scene.value`.
    words : str
        What a report of waiting ranks calls it, by default its name with brackets. "-": it does not wait.
    check : callable or None
        In place of an oracle: sees that a result fits.
    writes, consumes : str
        The operands that are written, or given away.
    exact : bool
        Whether the result has no rounding.
    is_one_call : bool
        Whether it is one call of the package's, and not several.
    """

    call: Callable[[Scene], Any]
    oracle: Callable[..., Any] | None = None
    kinds: str = "array"
    before: Callable[[Scene], Any] = nothing
    words: str = ""
    check: Check | None = None
    writes: str = ""
    consumes: str = ""
    exact: bool = True
    is_one_call: bool = True

    @property
    def is_local(self) -> bool:
        """Whether each rank does its part alone."""
        return self.words == "-"


OPERATIONS: dict[str, Operation] = {}


def same(*wholes: Array) -> Array:
    """The first operand."""
    return wholes[0]


# -- redistribution

PLAN = "Redistribution("


def planned(**options: Any) -> Callable[[Scene], Any]:
    def call(s: Scene) -> Any:
        return psr.redistribute(s.a, s.turned if options.get("op") in ("T", "C") else s.target, **options)

    return call


def used(**options: Any) -> Callable[[Scene], Any]:
    """A plan, used twice."""

    def call(s: Scene) -> Any:
        desc = s.turned if options.get("op") in ("T", "C") else s.target
        plan = psr.redistribute(s.desc, desc, dtype=s.dtype, **options)
        plan(s.local)
        return s.result(desc, plan(s.local))

    return call


def turned(whole: Array) -> Array:
    return whole.T


def summed(s: Scene) -> Any:
    """Summands, as many as there are replicas; the sum is divided by that again, which is exact for small numbers."""
    total = psr.redistribute(s.a, s.target, reduce="sum")
    return s.result(total.desc, total.local if s.desc.copies == 1 else total.local // s.desc.copies)


def scaled(s: Scene) -> Any:
    plan = psr.redistribute(s.desc, s.b.desc)
    plan(s.local, s.b.local, alpha=2, beta=-1)
    return s.b


def consumed(call: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """A call that consumes a."""

    def checked(s: Scene) -> Any:
        result = call(s)
        try:
            s.a.desc  # noqa: B018 - it raises
        except psr.ArrayError as error:
            assert "consumed" in str(error)  # noqa: PT017
        else:
            raise AssertionError("the array is not marked as consumed")
        return result

    return checked


def into(s: Scene) -> Any:
    """Into an array of the user's."""
    s.plan_to_b = psr.redistribute(s.desc, s.b.desc)
    s.plan_to_b(s.local, s.b.local)
    return s.b


def started(s: Scene) -> Any:
    transfers = [s.plan.start(s.a) for _ in range(2)]
    return [each.wait() for each in transfers][1]


def plan_first(s: Scene) -> None:
    s.plan  # noqa: B018 - it is made here


def batched(s: Scene) -> Any:
    return psr.batch(s.plan, s.plan)([s.a, s.a])[1]


def refuses(call: Callable[[], Any]) -> None:
    """See that a call is refused on all ranks."""
    try:
        call()
    except (psr.ArrayError, psr.CollectiveError):
        return
    raise AssertionError("no error")


def given_away_twice(s: Scene) -> Any:
    plan = psr.plan(s.desc, s.target, dtype=s.dtype, overwrite=True)
    transfer = plan.start(s.a)
    refuses(lambda: plan.start(s.a).wait())
    refuses(lambda: s.plan(s.a))
    return transfer.wait()


def given_away_while_read(s: Scene) -> Any:
    limit = max(200, 20 * s.dtype.itemsize)  # so that it takes several rounds
    transfer = psr.plan(s.desc, s.target, dtype=s.dtype, exchange="nonblocking", memory_limit=limit).start(s.a)
    with contextlib.suppress(psr.RedistributionError):  # unless it has been read
        psr.redistribute(s.a, s.target, overwrite=True)
    return transfer.wait()


def first_after_a_refusal(s: Scene) -> Any:
    """A plan that agrees once, after a call in which one rank was at another plan."""
    plan, other = (psr.plan(s.desc, s.target, dtype=s.dtype, agree=agree) for agree in ("first", "always"))
    if s.size > 1:
        refuses(lambda: (other if s.comm.rank else plan)(s.a))
    second = psr.plan(s.desc, s.target, dtype=s.dtype, agree="first", exchange="nonblocking")
    for _ in range(3):
        result = second(s.a)
    return result


def first_agreed(s: Scene) -> Any:
    plan = psr.redistribute(s.desc, s.target, agree="first")
    for _ in range(3):
        result = plan(s.a)
    return result


def in_order(order: str, result: Any) -> Any:
    """A result whose new local arrays are in an order."""
    for local in result.local if isinstance(result.local, list) else [result.local]:
        if local is not None and local.size and sum(n > 1 for n in local.shape) > 1:
            assert (local.flags.c_contiguous, local.flags.f_contiguous) == (order == "C", order == "F"), local.strides
    return result


def in_text(s: Scene) -> str:
    """A layout of matrices on all ranks, as a text."""
    return f"1x{s.size}:2x3"


OPERATIONS |= {
    "copy_to itself": Operation(lambda s: (psr.copy_to(s.a, s.a), s.a)[1], same, writes="a"),
    "Redistribution.__call__ in place": Operation(
        lambda s: s.result(s.desc, psr.redistribute(s.desc, s.desc)(s.local, s.local)), same, writes="a"
    ),
    "Redistribution.__call__ in place overwrite": Operation(
        lambda s: s.result(s.desc, psr.redistribute(s.desc, s.desc)(s.local, s.local, overwrite=True)), same, writes="a"
    ),
    "redistribute": Operation(planned(), same),
    **{
        f"redistribute order={order}": Operation(
            lambda s, order=order: in_order(order, psr.redistribute(s.a, s.target, order=order)), same
        )
        for order in "CF"
    },
    "redistribute order=K": Operation(planned(order="K"), same),
    "redistribute order=K op=T": Operation(planned(order="K", op="T"), turned, "matrix"),
    "redistribute order=C plan": Operation(
        lambda s: in_order("C", psr.redistribute(s.desc, s.target, dtype=s.dtype, order="C")(s.a)), same
    ),
    "redistribute to a text": Operation(lambda s: psr.redistribute(s.a, in_text(s), comm=s.comm), same, "matrix"),
    "redistribute to a text op=T": Operation(
        lambda s: psr.redistribute(s.a, in_text(s), op="T", comm=s.comm), turned, "matrix"
    ),
    "redistribute to columns": Operation(lambda s: psr.redistribute(s.a, "columns", comm=s.comm), same),
    "redistribute to itself": Operation(lambda s: psr.redistribute(s.a, s.desc), same),
    "redistribute like": Operation(lambda s: psr.redistribute(s.a, like=s.b), same, "array same"),
    "redistribute like a pair": Operation(
        lambda s: s.result(s.b.desc, psr.redistribute(s.a, like=(s.b.desc, s.b.local))[1]), same, "array same"
    ),
    "redistribute a pair": Operation(lambda s: psr.redistribute((s.desc, s.local), s.target, comm=s.comm), same),
    **{
        f"redistribute {name}={value}": Operation(used(**{name: value}), same)
        for name, value in (
            ("via", "dimensions"),
            ("via", "lcm"),
            ("memory_limit", 100),
            ("memory_limit", 1),
            ("buffers", "datatypes"),
            ("agree", "first"),
            ("schedule", "caterpillar"),
            ("schedule", "optimal"),
            ("schedule", "stepwise"),
        )
    },
    **{f"redistribute exchange={name}": Operation(used(exchange=name), same) for name in EXCHANGES},
    "redistribute op=T": Operation(planned(op="T"), turned, "matrix"),
    "redistribute op=C": Operation(planned(op="C"), lambda a: a.conj().T if a.dtype.kind == "c" else a.T, "matrix"),
    "redistribute op=R": Operation(planned(op="R"), lambda a: a.conj() if a.dtype.kind == "c" else a),
    "redistribute uplo fill": Operation(planned(uplo="L", fill="zero"), np.tril, "square"),
    "redistribute uplo mirror": Operation(
        planned(uplo="U", fill="symmetric"), lambda a: np.triu(a) + np.triu(a, 1).T, "square"
    ),
    "redistribute reduce=sum": Operation(summed, same, "summands"),
    "redistribute overwrite": Operation(consumed(planned(overwrite=True)), same, consumes="a"),
    "redistribute overwrite op=T": Operation(consumed(planned(overwrite=True, op="T")), turned, "matrix", consumes="a"),
    "redistribute overwrite synchronized": Operation(
        consumed(planned(overwrite=True, exchange="synchronized")), same, consumes="a"
    ),
    "redistribute overwrite windowed": Operation(
        consumed(planned(overwrite=True, exchange="windowed", memory_limit=300)), same, consumes="a"
    ),
    "redistribute overwrite plan": Operation(
        consumed(lambda s: psr.redistribute(s.desc, s.target, overwrite=True)(s.a)), same, consumes="a"
    ),
    "redistribute overwrite start": Operation(
        consumed(lambda s: psr.redistribute(s.desc, s.target, overwrite=True).start(s.a).wait()), same, consumes="a"
    ),
    "redistribute overwrite memory_limit=1": Operation(planned(overwrite=True, memory_limit=1), same, consumes="a"),
    "redistribute overwrite like a pair": Operation(
        consumed(lambda s: s.result(s.b.desc, psr.redistribute(s.a, like=(s.b.desc, s.b.local), overwrite=True)[1])),
        same,
        "array same",
        consumes="a",
    ),
    "redistribute overwrite a part": Operation(
        lambda s: psr.redistribute(
            s.a[1:, :-1], s.target_for((max(0, s.shape[0] - 1), max(0, s.shape[1] - 1))), overwrite=True
        ),
        lambda a: a[1:, :-1],
        "matrix",
        consumes="a",
    ),
    "plan": Operation(lambda s: psr.plan(s.desc, s.target, dtype=s.dtype)(s.a), same),
    "plan of a text": Operation(lambda s: psr.plan(s.desc, "columns", dtype=s.dtype)(s.a), same),
    "plan dtype on one rank overwrite": Operation(
        lambda s: psr.plan(s.desc, s.target, dtype=s.dtype if s.comm.rank == 0 else None)(s.a, overwrite=True),
        same,
        consumes="a",
    ),
    "Redistribution.__call__": Operation(lambda s: s.plan(s.a), same, words=PLAN, before=plan_first),
    "Redistribution.__call__ local": Operation(lambda s: s.result(s.target, s.plan(s.local)), same, before=plan_first),
    "Redistribution.__call__ out": Operation(into, same, "array target", writes="b"),
    "Redistribution.__call__ alpha beta": Operation(scaled, lambda a, b: 2 * a - b, "array target", writes="b"),
    "Redistribution.__call__ overwrite": Operation(
        consumed(lambda s: s.plan(s.a, overwrite=True)), same, consumes="a", before=plan_first
    ),
    "Redistribution.__call__ first": Operation(first_agreed, same),
    "Redistribution.__call__ first after a refusal": Operation(first_after_a_refusal, same),
    "Redistribution.start overwrite twice": Operation(given_away_twice, same, consumes="a", before=plan_first),
    "Redistribution.start overwrite meanwhile": Operation(given_away_while_read, same, consumes="a"),
    "Redistribution.profile": Operation(lambda s: s.plan.profile(s.local), None, words=PLAN, before=plan_first),
    "Redistribution.report": Operation(lambda s: s.plan.report(s.dtype, all_ranks=True), None, before=plan_first),
    "Redistribution.start": Operation(started, same, words=PLAN, before=plan_first),
    "Transfer.wait": Operation(lambda s: s.plan.start(s.a).wait(), same, words=PLAN, before=plan_first),
    "batch": Operation(batched, same, before=plan_first),
    "batch overwrite": Operation(
        lambda s: psr.batch(*[psr.plan(s.desc, s.target, overwrite=True)] * 2)([s.a, s.a]), None, consumes="a"
    ),
    "DistributedArray.redistribute": Operation(lambda s: s.a.redistribute(s.target), same),
    "DistributedArray.redistribute order": Operation(
        lambda s: in_order("C", s.a.redistribute(s.target, order="C")), same
    ),
    "DistributedArray.redistribute to a text": Operation(lambda s: s.a.redistribute(in_text(s)), same, "matrix"),
    "DistributedArray.redistribute block": Operation(lambda s: s.a.redistribute(block=3), same),
    "DistributedArray.redistribute overwrite": Operation(
        consumed(lambda s: s.a.redistribute(s.target, overwrite=True)), same, consumes="a"
    ),
    "DistributedArray.gather": Operation(lambda s: s.a.gather(None), same),
    "gather": Operation(lambda s: psr.gather(s.desc, s.local, None), same),
    "scatter": Operation(
        lambda s: s.result(s.target, psr.scatter(s.target, s.value)),
        same,
        before=lambda s: s.whole if s.comm.rank == 0 else None,
    ),
    "distribute": Operation(
        lambda s: psr.distribute(s.value, s.desc, root=s.size - 1),
        same,
        before=lambda s: s.whole if s.comm.rank == s.size - 1 else "not looked at",
    ),
    "scatter order": Operation(
        lambda s: in_order("C", s.result(s.target, psr.scatter(s.target, s.value, order="C"))),
        same,
        before=lambda s: s.whole if s.comm.rank == 0 else None,
    ),
    "distribute over a communicator": Operation(
        lambda s: psr.distribute(s.value, s.comm, s.size - 1),
        same,
        before=lambda s: s.whole if s.comm.rank == s.size - 1 else "not looked at",
    ),
    "distribute layout": Operation(
        lambda s: psr.distribute(s.value, s.comm, layout=in_text(s)),
        same,
        "matrix",
        before=lambda s: s.whole if s.comm.rank == 0 else None,
    ),
    "copy_to": Operation(lambda s: (psr.copy_to(s.a, s.b), s.b)[1], same, "array target", writes="b"),
    "as_distributed": Operation(lambda s: psr.as_distributed((s.desc, s.local), s.comm), same),
    "layout_of": Operation(lambda s: psr.layout_of((s.desc, s.local), s.comm) == s.desc, lambda a: True),
    "from_local": Operation(lambda s: psr.from_local(s.local, s.comm), same, "rows"),
    "Phases.max": Operation(lambda s: s.value.max(s.comm), None, before=lambda s: phases(s)),
}


def phases(scene: Scene) -> psr.Phases:
    with psr.timings() as recorded:
        scene.plan(scene.local)
    return recorded


# -- files


def saved(name: str, **options: Any) -> Callable[[Scene], Any]:
    def call(s: Scene) -> Any:
        path = s.path.with_suffix(name)
        if s.comm.rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        s.comm.Barrier()
        s.a.save(path, **options)
        return psr.load(path, s.comm, **options)

    return call


def saved_with_others(name: str) -> Callable[[Scene], Any]:
    """An array in a file of several, beside values."""

    def call(s: Scene) -> Any:
        path = s.path.with_suffix(name)
        if s.comm.rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        s.comm.Barrier()
        entries = {"group/a": s.a, "step": 3, "names": ["x"], "edges": np.arange(3)}
        psr.save(entries, path, attributes={"step": {"k": 1.5}}, comm=s.comm)
        loaded = psr.load(path, s.comm)
        assert loaded["step"] == 3
        assert loaded["names"] == ["x"]
        return loaded["group/a"]

    return call


def checkpoint(s: Scene) -> Path:
    """A folder of several arrays that is there."""
    path = s.path.with_name("checkpoint")
    psr.save({"a": s.a, "step": 3}, path, comm=s.comm)  # else a rank without an array is heard by no other
    return path


def written(s: Scene) -> Path:
    """A file that is there; where NumPy cannot write it, its error on all ranks."""
    error = None
    if s.comm.rank == 0:
        try:
            np.save(s.path, s.whole)
        except Exception as caught:
            error = caught
    error = s.comm.bcast(error)
    if error is not None:
        raise error
    return s.path


OPERATIONS |= {
    "DistributedArray.save": Operation(lambda s: s.a.save(s.path), None),
    "save": Operation(lambda s: psr.save(s.desc, s.local, s.path), None),
    "save .npy": Operation(saved(".npy"), same),
    "save .h5": Operation(saved(".h5", dataset="x"), same),
    "save .zarr": Operation(saved(".zarr"), same),
    "save of entries .h5": Operation(saved_with_others(".h5"), same),
    "save of entries .zarr": Operation(saved_with_others(".zarr"), same),
    "save of entries in a folder": Operation(saved_with_others(""), same),
    "open": Operation(lambda s: psr.open(s.value, s.comm).shapes["a"], lambda a: a.shape, before=checkpoint),
    "FileContents.load": Operation(
        lambda s: s.value.load(("a",))["a"], same, before=lambda s: psr.open(checkpoint(s), s.comm)
    ),
    "FileContents.get": Operation(lambda s: s.value.get("a"), same, before=lambda s: psr.open(checkpoint(s), s.comm)),
    "FileContents.__getitem__": Operation(
        lambda s: s.value["a"], same, before=lambda s: psr.open(checkpoint(s), s.comm)
    ),
    "DistributedArray.load": Operation(lambda s: psr.DistributedArray.load(s.value, comm=s.comm), same, before=written),
    "load layout": Operation(lambda s: psr.load(s.value, s.comm, layout=in_text(s)), same, "matrix", before=written),
    "load": Operation(lambda s: s.result(s.target, psr.load(s.target, s.value)), same, before=written),
    "load source": Operation(lambda s: s.result(s.target, psr.load(s.target, s.whole)), same),
    "load source rows": Operation(lambda s: psr.load(s.whole, s.comm), same),
    "load source into": Operation(lambda s: psr.load(s.b, s.whole), same, "array target", writes="b"),
    "load rows": Operation(lambda s: psr.load(s.value, s.comm, window=...), same, before=written),
    "load into": Operation(lambda s: (psr.load(s.b, s.value), s.b)[1], same, "array target", before=written, writes="b"),
    "dtype_of": Operation(lambda s: psr.dtype_of(s.value, comm=s.comm), lambda a: a.dtype, before=written),
    "shape_of": Operation(lambda s: psr.shape_of(s.value, comm=s.comm), lambda a: a.shape, before=written),
}

# -- functions of elements, each rank alone where layouts are equal


def local_operation(
    function: Callable[..., Any], kinds: str = "array", oracle: Callable[..., Any] | None = None, exact: bool = True
) -> Operation:
    names = "abc"[: len(kinds.split())]
    return Operation(
        lambda s: function(*(getattr(s, name) for name in names)), oracle or function, kinds, words="-", exact=exact
    )


def assigned(key: Any, value: Any) -> Operation:
    def oracle(a: Array) -> Array:
        a = a.copy()
        a[key] = value
        return a

    return Operation(lambda s: (operator.setitem(s.a, key, value), s.a)[1], oracle, words="-", writes="a")


def every_other_row(vector: Any) -> Any:
    """A mask in the layout of a vector, of whatever dtype."""
    mask = np.zeros_like(vector, dtype=bool)
    mask[::2] = True
    return mask


def assigned_where(a: Any, mask: Any) -> Any:
    a[mask] = 7
    return a


def assigned_drawn(a: Any, whole: Array, given: Callable[[Array], Any]) -> Any:
    """Numbers written where an index that hangs on the array says."""
    key = drawn_key(whole)
    values = np.arange(whole.size).reshape(whole.shape)[key] % 7
    a[key] = given(values) if values.shape else values
    return a


ROUNDED = ("pow", "truediv")
BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "xor",
)
OF_NAME: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in BINARY}
OPERATIONS |= {
    **{
        f"DistributedArray.__{name.strip('_')}__": Operation(
            lambda s, f=OF_NAME[name]: f(s.a, s.b),
            getattr(operator, name),
            "array same",
            words="-",
            exact=name not in ROUNDED,
        )
        for name in BINARY
    },
    **{
        f"DistributedArray.__{name}__ of another layout": Operation(
            lambda s, f=OF_NAME[name]: f(s.a, s.b),
            OF_NAME[name],
            "array target",
            words=f"Distributed.__{name}__()",
            exact=name not in ROUNDED,
        )
        for name in ("add", "sub", "mul", "truediv", "lt", "eq")
    },
    **{
        f"operator {name} of a number": local_operation(lambda a, f=OF_NAME[name]: f(a, 3), exact=name not in ROUNDED)
        for name in BINARY
    },
    **{
        f"operator {name} of a NumPy array": local_operation(
            lambda a, f=OF_NAME[name]: f(a, np.arange(1, a.shape[-1] + 1))
        )
        for name in ("add", "mul", "lt")
    },
    "operator mul of a NumPy column": local_operation(lambda a: a * np.arange(1, a.shape[0] + 1)[:, None], "matrix"),
    **{
        f"operator {name} of a number before": local_operation(
            lambda a, f=OF_NAME[name]: f(3, a), exact=name not in ROUNDED
        )
        for name in BINARY
    },
    **{
        f"operator {name} of a NumPy array before": local_operation(
            lambda a, f=OF_NAME[name]: f(np.arange(1, a.shape[-1] + 1), a), exact=name not in ROUNDED
        )
        for name in ("sub", "truediv", "ge")
    },
    "numpy.subtract": local_operation(np.subtract, "array same"),
    "numpy.maximum": local_operation(np.maximum, "array same"),
    "numpy.sqrt": local_operation(lambda a: np.sqrt(abs(a)), exact=False),
    "numpy.exp": local_operation(lambda a: np.exp(-abs(a)), exact=False),
    "numpy.where": local_operation(lambda a, b, mask: np.where(mask, a, b), "array same mask"),
    "numpy.clip": local_operation(lambda a: np.clip(a, -2, 2)),
    "numpy.round": local_operation(np.round),
    "operator abs": local_operation(abs),
    "operator neg": local_operation(operator.neg),
    "operator invert": local_operation(operator.invert),
    "DistributedArray.copy": local_operation(lambda a: a.copy()),
    "DistributedArray.astype": local_operation(lambda a: a.astype(np.complex64)),
    "DistributedArray.astype text": local_operation(lambda a: a.astype("U")),
    "DistributedArray.T": local_operation(lambda a: a.T),
    "DistributedArray.H": local_operation(
        lambda a: a.H, "matrix", lambda a: a.conj().T if a.dtype.kind == "c" else a.T
    ),
    "DistributedArray.T of H": local_operation(
        lambda a: a.T.H + a, "matrix", lambda a: (a.conj() if a.dtype.kind == "c" else a) + a
    ),
    "DistributedArray.conj": local_operation(lambda a: a.conj()),
    "DistributedArray.real": local_operation(lambda a: a.real),
    "DistributedArray.imag": local_operation(lambda a: a.imag),
    "DistributedArray.__getitem__ a view": local_operation(lambda a: a[1:, :-1], "matrix"),
    "DistributedArray.__setitem__ a number": assigned(..., 5),
    "DistributedArray.__setitem__ a part": assigned((slice(1, None), slice(None, -1)), 5)._replace(kinds="matrix"),
    "DistributedArray.__setitem__ 300": assigned(..., 300),
    "DistributedArray.__setitem__ -1": assigned(..., -1),
    "DistributedArray.__setitem__ drawn": Operation(
        lambda s: assigned_drawn(s.a, s.whole, lambda values: values),
        lambda a: assigned_drawn(a.copy(), a, lambda values: values),
        words="-",
        writes="a",
    ),
    "DistributedArray.__setitem__ a mask": Operation(
        lambda s: assigned_where(s.a, s.b),
        lambda a, b: assigned_where(a.copy(), b),
        "array mask",
        words="-",
        writes="a",
    ),
}

# -- creation


def like_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda s: function(s.desc, dtype=s.dtype)


OPERATIONS |= {
    "zeros": Operation(like_whole(psr.zeros), np.zeros_like, words="-"),
    "ones": Operation(like_whole(psr.ones), np.ones_like, words="-"),
    "full": Operation(
        lambda s: psr.full(s.desc, 300, dtype=s.dtype), lambda a: np.full(a.shape, 300, a.dtype), words="-"
    ),
    "full -1": Operation(
        lambda s: psr.full(s.desc, -1, dtype=s.dtype), lambda a: np.full(a.shape, -1, a.dtype), words="-"
    ),
    "eye": Operation(
        lambda s: psr.eye(s.desc, dtype=s.dtype), lambda a: np.eye(*a.shape, dtype=a.dtype), "matrix", words="-"
    ),
    "zeros layout": Operation(
        lambda s: psr.zeros(s.shape, s.comm, dtype=s.dtype, layout=in_text(s)), np.zeros_like, "matrix", words="-"
    ),
    "zeros of a shape": Operation(lambda s: psr.zeros(s.shape, s.comm, dtype=s.dtype), np.zeros_like, words="-"),
}

# -- indexing and reductions, which are collective


def set_from(key: Any) -> Operation:
    def oracle(a: Array, b: Array) -> Array:
        a = a.copy()
        a[key] = b[key]
        return a

    return Operation(lambda s: (operator.setitem(s.a, key, s.b[key]), s.a)[1], oracle, "array target", writes="a")


def every_other(a: Array, b: Array) -> Array:
    a = a.copy()
    a[::2] = b
    return a


def reduction(name: str, *arguments: Any, **options: Any) -> Operation:
    def call(a: Any) -> Any:
        return getattr(a, name)(*arguments, **options)

    function = getattr(np, name)
    exact = name not in ("mean", "std", "var", "sum")
    return Operation(lambda s: call(s.a), lambda a: function(a, *arguments, **options), exact=exact)


def of_numpy(name: str, **options: Any) -> Operation:
    """NumPy's function of a distributed array."""
    function = getattr(np, name)
    exact = name not in ("mean", "std", "var", "sum", "trace")
    kinds = "matrix" if "offset" in options else "array"
    return local_operation(lambda a: function(a, **options), kinds, exact=exact)._replace(words="")


def gathering(function: Callable[..., Any], kinds: str = "array", exact: bool = True) -> Operation:
    """A function of arrays that is collective, and NumPy's the same."""
    return local_operation(function, kinds, exact=exact)._replace(words="", is_one_call=False)


NUMPY_FUNCTIONS = {
    "sort": gathering(np.sort),
    "sort axis=0": gathering(lambda a: np.sort(a, axis=0)),
    "sort of all": gathering(lambda a: np.sort(a, axis=None)),
    "cumsum axis": gathering(lambda a: np.cumsum(a, axis=0), exact=False),
    "median": gathering(np.median, exact=False),
    "median axis": gathering(lambda a: np.median(a, axis=0), exact=False),
    "quantile": gathering(lambda a: np.quantile(a, [0.2, 0.5]), exact=False),
    "percentile axis": gathering(lambda a: np.percentile(a, 30, axis=-1), exact=False),
    "histogram": gathering(lambda a: np.histogram(a, [-9, 0, 2, 9])),
    "concatenate": gathering(lambda a, b: np.concatenate([a, b, a]), "array target"),
    "concatenate axis": gathering(lambda a, b: np.concatenate([a, b], axis=1), "matrix target"),
    "stack": gathering(lambda a, b: np.stack([a, b], axis=1), "array target"),
    "count_nonzero": gathering(lambda a: np.count_nonzero(a, axis=0)),
    "ptp": gathering(np.ptp),
    "vdot": gathering(np.vdot, "array target", exact=False),
    "allclose": gathering(np.allclose, "array target"),
    "array_equal": gathering(np.array_equal, "array target"),
    "tensordot": gathering(lambda a, b: np.tensordot(a, b, ([0], [0])), "array target", exact=False),
    "einsum": gathering(lambda a, b: np.einsum("ij,jk->ki", a, b), "matrix right", exact=False),
    "cov": gathering(np.cov, "matrix", exact=False),
}
REDUCTIONS = ("sum", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax")
OPERATIONS |= {
    **{f"DistributedArray.{name}": reduction(name) for name in REDUCTIONS},
    **{f"DistributedArray.{name} axis={axis}": reduction(name, axis) for name in REDUCTIONS for axis in (0, -1)},
    **{f"DistributedArray.{name} keepdims": reduction(name, 0, keepdims=True) for name in REDUCTIONS},
    **{
        f"numpy.{name} axis={axis} keepdims": of_numpy(name, axis=axis, keepdims=True)
        for name in REDUCTIONS
        for axis in (None, 1, (0, 1))
    },
    **{f"numpy.{name} offset": of_numpy(name, offset=offset) for name, offset in (("trace", -1), ("diagonal", 2))},
    "DistributedArray.mean of nothing": Operation(lambda s: s.a[:0].mean(), lambda a: a[:0].mean(), "matrix"),
    "DistributedArray.var of nothing": Operation(lambda s: s.a[:0].var(0), lambda a: a[:0].var(0), "matrix"),
    "DistributedArray.std ddof of all": Operation(
        lambda s: s.a.std(0, ddof=99), lambda a: a.std(0, ddof=99), "matrix", exact=False
    ),
    "DistributedArray.sum dtype": reduction("sum", dtype=np.complex128),
    "DistributedArray.var ddof": reduction("var", 0, ddof=1),
    "DistributedArray.std ddof": reduction("std", ddof=1.5),
    "DistributedArray.trace": Operation(lambda s: s.a.trace(1), lambda a: np.trace(a, 1), "matrix", exact=False),
    "DistributedArray.diagonal": Operation(lambda s: s.a.diagonal(-1), lambda a: np.diagonal(a, -1), "matrix"),
    "DistributedArray.__getitem__": Operation(lambda s: s.a[0, 1], lambda a: a[0, 1], "matrix"),
    "DistributedArray.__getitem__ a row": Operation(lambda s: s.a[0], lambda a: a[0], "matrix"),
    "DistributedArray.__getitem__ a column": Operation(lambda s: s.a[:, -1], lambda a: a[:, -1], "matrix"),
    "DistributedArray.__getitem__ steps": Operation(lambda s: s.a[::-2], lambda a: a[::-2]),
    "DistributedArray.__getitem__ drawn": Operation(lambda s: s.a[drawn_key(s.whole)], lambda a: a[drawn_key(a)]),
    "DistributedArray.__setitem__ drawn of another layout": Operation(
        lambda s: assigned_drawn(s.a, s.whole, lambda values: psr.distribute(values, s.target_for(values.shape))),
        lambda a: assigned_drawn(a.copy(), a, lambda values: values),
        writes="a",
    ),
    "DistributedArray.__setitem__": set_from(...),
    "DistributedArray.__setitem__ part": set_from(slice(1, -1)),
    "DistributedArray.__setitem__ steps": Operation(
        lambda s: (operator.setitem(s.a, slice(None, None, 2), s.b), s.a)[1],
        every_other,
        "array every-other",
        writes="a",
    ),
    **{f"numpy.{name}": row for name, row in NUMPY_FUNCTIONS.items()},
    "DistributedArray.__len__": local_operation(len),
    "DistributedArray.transpose": local_operation(lambda a: a.transpose(1, 0), "matrix"),
    "DistributedArray.swapaxes": local_operation(lambda a: a.swapaxes(0, -1)),
    "DistributedArray.reshape": gathering(lambda a: a.reshape(*a.shape[::-1])),
    "DistributedArray.reshape order=F": gathering(lambda a: a.reshape(-1, order="F")),
    "DistributedArray.ravel": gathering(lambda a: a.ravel()),
    "DistributedArray.flatten": gathering(lambda a: a.flatten()),
    "DistributedArray.__divmod__": local_operation(lambda a: divmod(a, 3)),
    "DistributedArray.cumsum": gathering(lambda a: a.cumsum(), exact=False),
    "DistributedArray.dot": gathering(lambda a, b: a.dot(b), "matrix right", exact=False),
    "DistributedArray.prod": Operation(lambda s: s.value.prod(), lambda a: (a * 0 + 1).prod(), before=lambda s: s.a * 0 + 1),
    "DistributedArray.sum where": gathering(lambda a, b: a.sum(0, where=b), "array mask", exact=False),
    "DistributedArray.sum where of another layout": Operation(
        lambda s: s.a.sum(where=psr.redistribute(s.b, s.target)), lambda a, b: a.sum(where=b), "array mask", exact=False
    ),
    "DistributedArray.mean where": gathering(lambda a, b: a.mean(where=b), "array mask", exact=False),
    "DistributedArray.max where": gathering(lambda a, b: a.max(axis=-1, where=b, initial=0), "array mask"),
    "DistributedArray.__getitem__ a mask": gathering(lambda a, b: a[b].sum(), "array mask", exact=False),
    "DistributedArray.__getitem__ a mask, its size": gathering(lambda a, b: len(a[b]), "array mask"),
    "DistributedArray.__getitem__ a mask of rows": gathering(lambda a, b: a[every_other_row(b)], "square vector"),
    "DistributedArray.__getitem__ a mask of rows by NumPy": gathering(lambda a: a[np.arange(len(a)) % 3 > 0], "matrix"),
    "DistributedArray.__setitem__ a mask of rows": Operation(
        lambda s: assigned_where(s.a, every_other_row(s.b)),
        lambda a, b: assigned_where(a.copy(), every_other_row(b)),
        "square vector",
        writes="a",
        is_one_call=False,
    ),
    "DistributedArray.__sub__ of another layout, a row": gathering(lambda a: a - a[0], "matrix"),
    "DistributedArray.__mul__ of another layout, by a column": gathering(lambda a: a * a[:, :1], "matrix"),
    "DistributedArray.__matmul__ by NumPy": Operation(
        lambda s: s.a @ np.ones((s.shape[1], 2), s.dtype),
        lambda a: a @ np.ones((a.shape[1], 2), a.dtype),
        "matrix",
        exact=False,
    ),
    "numpy.linalg.norm": Operation(
        lambda s: np.linalg.norm(s.a),
        np.linalg.norm,
        "matrix",
        exact=False,
    ),
}

# -- linear algebra


def close(result: Any, expected: Any, factor: float = 3e3) -> None:
    """Equal but for rounding, as the size of the expected one and its dtype have it."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.shape == expected.shape, f"shape {result.shape}, not {expected.shape}"
    assert result.dtype == expected.dtype, f"dtype {result.dtype}, not {expected.dtype}"
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(result), finite), (
        f"{np.count_nonzero(~np.isfinite(result))} elements are not finite, and {np.count_nonzero(~finite)} of NumPy's"
    )
    if finite.any():
        wide = np.result_type(expected.dtype, np.float64)
        difference = np.abs(result[finite].astype(wide) - expected[finite].astype(wide)).max()
        most = np.abs(expected[finite].astype(wide)).max()
        real = expected.dtype if expected.dtype.kind in "fc" else np.dtype(np.float64)
        assert difference <= factor * np.finfo(real).eps * most + np.finfo(real).tiny, (
            f"off by {difference:.3g} of {most:.3g}"
        )


def system(a: Array, x: Array, b: Array, turn: Callable[[Array], Array] = lambda a: a) -> None:
    """A x = b, as far as rounding allows: the residual is small beside |A| |x|, in a range that does not overflow."""
    assert x.shape == b.shape
    assert x.dtype == b.dtype
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    with contextlib.suppress(np.linalg.LinAlgError):
        if not np.isfinite(np.linalg.solve(turn(a), b)).all():
            return
    product = turn(a.astype(wide)) @ x.astype(wide)
    size = np.abs(turn(a.astype(wide))) @ np.abs(x.astype(wide)) + np.abs(b)
    assert np.all(np.isfinite(x)), "the solution is not finite"
    assert np.all(np.abs(product - b) <= 1e3 * np.finfo(a.dtype).eps * size.max(initial=0) + np.finfo(a.dtype).tiny), (
        "the residual is large"
    )


def product_is(parts: Callable[[Any], Array]) -> Check:
    """What a result's factors make is the matrix."""

    def check(result: Any, a: Array, *_: Array) -> None:
        close(parts(result), a)

    return check


def unit(result: Array) -> None:
    close(result.conj().T @ result, np.eye(result.shape[1], dtype=result.dtype), 1e4)


def check_eigh(result: Any, a: Array, b: Array | None = None) -> None:
    values, vectors = result
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    eps, x = np.finfo(a.dtype).eps, vectors.astype(wide)
    a = mirrored(a.astype(wide))
    right = x if b is None else mirrored(b.astype(wide)) @ x
    difference, size = np.abs(a @ x - right * values), np.abs(a) @ np.abs(x) + np.abs(right) * np.abs(values)
    assert np.all(difference <= 1e4 * eps * size.max(initial=0)), f"off by {difference.max():.3g}"
    assert np.all(np.diff(values) >= 0)
    if b is None:
        unit(vectors)


def check_eig(result: Any, a: Array) -> None:
    values, vectors = result
    wide = np.clongdouble
    size = np.abs(a.astype(wide)).max(initial=0) * max(1, len(a))
    assert np.all(np.abs(a.astype(wide) @ vectors - vectors * values.astype(wide)) <= 1e4 * np.finfo(a.dtype).eps * size)


def check_eigvals(values: Array, a: Array) -> None:
    size = np.abs(a.astype(np.clongdouble)).max(initial=0) * max(1, len(a))
    trace = np.trace(a.astype(np.clongdouble))
    assert np.abs(values.astype(np.clongdouble).sum() - trace) <= 1e4 * np.finfo(a.dtype).eps * size


def function_is(function: Callable[[Array], Array]) -> Check:
    """That of a Hermitian matrix, by NumPy's eigenvalues and eigenvectors, as far as rounded eigenvalues say it."""

    def check(result: Array, a: Array) -> None:
        values, vectors = np.linalg.eigh(a)
        numbers, eps = function(values), np.finfo(a.dtype).eps
        expected = (vectors * numbers) @ vectors.conj().T
        size = np.abs(numbers).max(initial=0) + np.finfo(a.dtype).tiny
        if not np.isfinite(numbers).all():  # singular, but for rounding
            return
        rounding = 10 * eps * np.abs(values).max(initial=0) * max(1, len(a))
        others = np.array([function(values - rounding), function(values + rounding)])
        assert np.all(np.abs(result - expected) <= 1e4 * eps * size + 2 * np.abs(others - numbers).max(initial=0))

    return check


def check_svd(result: Any, a: Array) -> None:
    u, s, vh = result
    few = s.size
    close((u[:, :few] * s) @ vh[:few], a, 1e4)
    unit(u), unit(vh.conj().T)


def check_largest(result: Any, a: Array) -> None:
    u, s, vh = result
    close(s, np.linalg.svd(a, compute_uv=False)[: s.size].astype(s.dtype), 1e5)
    close(np.einsum("ij,ji->i", u.conj().T @ a, vh.conj().T).real.astype(s.dtype), s, 1e5)
    unit(u), unit(vh.conj().T)


def check_qr(result: Any, a: Array) -> None:
    q, r = result
    close(q @ r, a, 1e4)
    unit(q)


def check_polar(result: Any, a: Array, is_right: bool = True) -> None:
    u, p = result
    close(u @ p if is_right else p @ u, a, 1e4)
    unit(u if a.shape[0] >= a.shape[1] else u.conj().T)
    close(p, p.conj().T, 1e4)


def check_lu(result: Any, a: Array) -> None:
    lu, piv = result
    n = lu.shape[0]
    product = (np.tril(lu, -1) + np.eye(n, dtype=lu.dtype)) @ np.triu(lu)
    for k in range(n)[::-1]:
        product[[k, piv[k]]] = product[[piv[k], k]]
    close(product, a, 1e4)


def finite(oracle: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's functions of singular values may not return from infs."""
    return lambda *wholes: oracle(*map(np.asarray_chkfinite, wholes))


def norm_of(ord: Any) -> Operation:
    def oracle(a: Array) -> Any:
        return np.linalg.norm(a, ord)

    by_values = ord in (2, "nuc")
    return Operation(lambda s: linalg.norm(s.a, ord), finite(oracle) if by_values else oracle, "matrix", exact=False)


def of(
    function: Callable[..., Any], oracle: Callable[..., Any] | None = None, kinds: str = "square", **more: Any
) -> Operation:
    names = "abc"[: len(kinds.split())]
    return Operation(lambda s: function(*(getattr(s, name) for name in names)), oracle, kinds, exact=False, **more)


def lu_solve(a: Array, b: Array, trans: int = 0) -> Any:
    return scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)


def mirrored(a: Array) -> Array:
    """The Hermitian matrix whose lower triangle this is; of its diagonal the real parts are read."""
    below = np.tril(a, -1)
    return below + below.conj().T + np.diag(a.diagonal().real)


def check_cholesky(result: Any, a: Array) -> None:
    close(np.tril(result) @ np.tril(result).conj().T, mirrored(a))


def in_slabs(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call with rates by which tall matrices are in slabs of rows."""

    @functools.wraps(call)
    def wrapped(*arguments: Any) -> Any:
        rates = Rates(1.0, 0.0, 0.0)
        with mock.patch.multiple(Cache, has_file_of=lambda *_: True, rates=lambda *_: rates):
            return call(*arguments)

    return wrapped


def least_squares(a: Array, b: Array) -> Any:
    return finite(np.linalg.lstsq)(a, b)


def check_cho_solve(result: Any, a: Array, b: Array) -> None:
    system(mirrored(a), result, b)


def check_solve(result: Any, a: Array, b: Array) -> None:
    system(a, result, b)


def definite(a: Array) -> Array:
    """The Hermitian matrix whose lower triangle this is, if it is positive definite."""
    np.linalg.cholesky(np.tril(a))
    return mirrored(a)


def check_slogdet_of_definite(result: Any, a: Array) -> None:
    """NumPy's; of infs and NaNs, which have no Cholesky factor but for an inf on the diagonal, it may be NaN."""
    whole = mirrored(a)
    is_nan = not np.isfinite(whole).all() and np.isnan(result[0])
    expected = np.full(2, np.nan) if is_nan else np.linalg.slogdet(whole)
    for each, right in zip(result, expected, strict=True):
        close(each, np.asarray(right, np.asarray(each).dtype))


def each(check: Check) -> Check:
    """For stacks: each result is that of its matrices."""

    def of_stacks(result: Any, *wholes: Array) -> None:
        for k, matrices in enumerate(zip(*wholes, strict=True)):
            check(tuple(part[k] for part in result) if isinstance(result, tuple) else result[k], *matrices)

    return of_stacks


def check_inv(x: Any, a: Array) -> None:
    system(a, x, np.eye(len(a), dtype=a.dtype))


STACKS: dict[str, Operation] = {
    "solve": of(linalg.solve, None, "square-stack sides-stack", check=each(check_solve)),
    "solve overwrite_a": of(
        lambda a, b: linalg.solve(a, b, overwrite_a=True), None, "square-stack sides-stack", check=each(check_solve)
    ),
    "inv": of(linalg.inv, None, "square-stack", check=each(check_inv)),
    "det": of(linalg.det, np.linalg.det, "square-stack"),
    "slogdet": of(linalg.slogdet, lambda a: tuple(np.linalg.slogdet(a)), "square-stack"),
    "cholesky": of(linalg.cholesky, None, "positive-stack", check=each(check_cholesky)),
    "eigh": of(linalg.eigh, None, "positive-stack", check=each(check_eigh)),
    "eigvalsh": of(linalg.eigvalsh, finite(np.linalg.eigvalsh), "positive-stack"),
    "qr": of(linalg.qr, None, "stack", check=each(check_qr)),
    "svd": of(linalg.svd, None, "stack", check=each(check_svd)),
    "svdvals": of(linalg.svdvals, finite(lambda a: np.linalg.svd(a, compute_uv=False)), "stack"),
    "pinv": of(linalg.pinv, finite(lambda a: np.linalg.pinv(a, np.finfo(a.dtype).eps * max(a.shape[-2:]))), "stack"),
    "matmul": of(linalg.matmul, np.matmul, "stack right-stack"),
    "matmul of a matrix and": of(linalg.matmul, np.matmul, "stack right"),
    "norm axis": of(lambda a: linalg.norm(a, axis=0), lambda a: np.linalg.norm(a, axis=0), "stack"),
    "norm axes": of(lambda a: linalg.norm(a, 1, axis=(2, 0)), lambda a: np.linalg.norm(a, 1, axis=(2, 0)), "stack"),
}


LINALG: dict[str, Operation] = {
    **{f"{name} of stacks": row for name, row in STACKS.items()},
    "solve": of(linalg.solve, None, "square sides", check=check_solve),
    "solve of a vector": of(linalg.solve, None, "square vector", check=check_solve),
    "solve of a NumPy array": Operation(
        lambda s: linalg.solve(s.a, np.ones(s.shape[0], s.dtype)),
        kinds="square",
        check=lambda x, a: check_solve(x, a, np.ones(len(a), a.dtype)),
    ),
    "solve overwrite_a": of(
        lambda a, b: linalg.solve(a, b, overwrite_a=True), None, "square sides", check=check_solve, consumes="a"
    ),
    "solve overwrite_b": of(
        lambda a, b: linalg.solve(a, b, overwrite_b=True), None, "square sides", check=check_solve, consumes="b"
    ),
    "solve of a window overwrite_a": of(
        lambda a: linalg.solve(a, a[:, 1:3], overwrite_a=True, check=False),
        None,
        "square",
        check=lambda x, a: system(a, x, a[:, 1:3]),
        consumes="a",
    ),
    "solve of itself": of(
        lambda a: linalg.solve(a, a, overwrite_a=True, overwrite_b=True),
        None,
        "square",
        check=lambda x, a: system(a, x, a),
        consumes="a",
    ),
    "solve assume_a=pos": of(
        lambda a, b: linalg.solve(a, b, assume_a="pos", lower=True),
        lambda a, b: np.linalg.solve(definite(a), b),
        "positive sides",
    ),
    "solve assume_a=her": of(
        lambda a, b: linalg.solve(a, b, assume_a="her", lower=True), None, "symmetric sides", check=check_cho_solve
    ),
    "inv assume_a=pos": of(
        lambda a: linalg.inv(a, assume_a="pos", lower=True), lambda a: np.linalg.inv(definite(a)), "positive"
    ),
    "det assume_a=upper triangular": of(
        lambda a: linalg.det(a, assume_a="upper triangular"), lambda a: np.prod(np.diag(a)), "square"
    ),
    "slogdet assume_a=pos": of(
        lambda a: linalg.slogdet(a, assume_a="pos", lower=True), None, "positive", check=check_slogdet_of_definite
    ),
    "solve check=False": of(lambda a, b: linalg.solve(a, b, check=False), None, "square sides", check=check_solve),
    "lu_factor": of(linalg.lu_factor, None, check=check_lu),
    "lu_factor overwrite_a": of(lambda a: linalg.lu_factor(a, overwrite_a=True), None, check=check_lu, consumes="a"),
    "lu_solve": Operation(
        lambda s: linalg.lu_solve(s.value, s.b),
        None,
        "square sides",
        lambda s: linalg.lu_factor(s.a),
        check=check_solve,
        exact=False,
    ),
    "lu_solve trans=2": of(
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 2),
        None,
        "square sides",
        check=lambda x, a, b: system(a, x, b, lambda a: a.conj().T),
    ),
    "cholesky": of(linalg.cholesky, lambda a: np.linalg.cholesky(np.tril(a)), "positive"),
    "cholesky overwrite_a": of(
        lambda a: linalg.cholesky(a, overwrite_a=True),
        lambda a: np.linalg.cholesky(np.tril(a)),
        "positive",
        consumes="a",
    ),
    "cho_factor": of(lambda a: linalg.cho_factor(a, lower=True)[0], None, "positive", check=check_cholesky),
    "cho_solve": Operation(
        lambda s: linalg.cho_solve(s.value, s.b),
        None,
        "positive sides",
        lambda s: linalg.cho_factor(s.a, lower=True),
        check=check_cho_solve,
        exact=False,
    ),
    "solve_triangular": of(
        lambda a, b: linalg.solve_triangular(a, b, lower=True),
        None,
        "triangle sides",
        check=lambda x, a, b: system(np.tril(a), x, b),
    ),
    "inv": of(linalg.inv, None, check=lambda x, a: system(a, x, np.eye(len(a), dtype=a.dtype))),
    "det": of(linalg.det, np.linalg.det),
    "slogdet": of(linalg.slogdet, lambda a: tuple(np.linalg.slogdet(a))),
    "matmul": of(linalg.matmul, np.matmul, "matrix right"),
    "matmul of a vector": of(linalg.matmul, np.matmul, "matrix right-vector"),
    "matmul with itself": of(lambda a: a.H @ a, lambda a: a.conj().T @ a, "matrix"),
    "matrix_rank": of(linalg.matrix_rank, finite(np.linalg.matrix_rank), "matrix"),
    "matrix_rank unchecked": of(lambda a: linalg.matrix_rank(a, check_finite=False), finite(np.linalg.matrix_rank), "matrix"),
    "cond": of(linalg.cond, finite(np.linalg.cond)),
    "cond of 1": of(lambda a: linalg.cond(a, 1), lambda a: np.linalg.cond(a, 1)),
    "eigh": of(linalg.eigh, None, "symmetric", check=check_eigh),
    "eigh unchecked": of(lambda a: linalg.eigh(a, check_finite=False), None, "symmetric", check=check_eigh),
    "eigh of a part": of(
        lambda a: linalg.eigh(a, subset_by_index=(0, min(2, a.shape[0] - 1))), None, "symmetric", check=check_eigh
    ),
    "eigh of two": of(linalg.eigh, None, "symmetric positive", check=check_eigh),
    "eigh of a factor": of(
        lambda a, b: linalg.eigh(a, linalg.cho_factor(b, lower=True)), None, "symmetric positive", check=check_eigh
    ),
    "eigvalsh": of(linalg.eigvalsh, np.linalg.eigvalsh, "symmetric"),
    "eig": of(linalg.eig, None, check=check_eig),
    "eig overwrite_a": of(lambda a: linalg.eig(a, overwrite_a=True), None, check=check_eig, consumes="a"),
    "eigvals": of(linalg.eigvals, None, check=check_eigvals),
    "schur": of(linalg.schur, None, check=product_is(lambda result: result[1] @ result[0] @ result[1].conj().T)),
    "expm": of(linalg.expm, None, check=lambda x, a: None),
    "expm of Hermitian": of(lambda a: linalg.expm(a, assume_a="her"), None, "symmetric", check=function_is(np.exp)),
    "sqrtm": of(linalg.sqrtm, None, check=lambda x, a: None),
    "sqrtm of Hermitian": of(lambda a: linalg.sqrtm(a, assume_a="her"), None, "positive", check=function_is(np.emath.sqrt)),
    "logm": of(linalg.logm, None, check=lambda x, a: None),
    "logm of Hermitian": of(lambda a: linalg.logm(a, assume_a="her"), None, "positive", check=function_is(np.emath.log)),
    "fractional_matrix_power": of(lambda a: linalg.fractional_matrix_power(a, 0.3), None, check=lambda x, a: None),
    "fractional_matrix_power of Hermitian": of(
        lambda a: linalg.fractional_matrix_power(a, 2, assume_a="her"), None, "symmetric", check=function_is(np.square)
    ),
    "funm": of(lambda a: linalg.funm(a, np.cos), None, check=lambda x, a: None),
    "funm of Hermitian": of(
        lambda a: linalg.funm(a, lambda w: w / 2, assume_a="her"), None, "symmetric", check=function_is(lambda w: w / 2)
    ),
    "lstsq": of(lambda a, b: linalg.lstsq(a, b)[0], lambda a, b: least_squares(a, b)[0], "tall tall-sides"),
    "lstsq residuals": of(lambda a, b: linalg.lstsq(a, b)[1], lambda a, b: least_squares(a, b)[1], "tall tall-sides"),
    "lstsq by svd": of(
        lambda a, b: linalg.lstsq(a, b, method="svd")[0], lambda a, b: least_squares(a, b)[0], "tall tall-sides"
    ),
    "pinv": of(linalg.pinv, finite(np.linalg.pinv), "matrix"),
    "polar": of(linalg.polar, None, "matrix", check=check_polar),
    "polar left": of(lambda a: linalg.polar(a, "left"), None, "matrix", check=lambda x, a: check_polar(x, a, False)),
    "qr": of(linalg.qr, None, "matrix", check=check_qr),
    "qr of slabs": of(in_slabs(linalg.qr), None, "slender", check=check_qr),
    "svd of slabs": of(in_slabs(lambda a: linalg.svd(a, False)), None, "slender", check=check_svd),
    "svdvals of slabs": of(
        in_slabs(linalg.svdvals), finite(lambda a: np.linalg.svd(a, compute_uv=False)), "slender"
    ),
    "pinv of slabs": of(in_slabs(linalg.pinv), finite(np.linalg.pinv), "slender"),
    "polar of slabs": of(in_slabs(linalg.polar), None, "slender", check=check_polar),
    "lstsq of slabs": of(
        in_slabs(lambda a, b: linalg.lstsq(a, b)[0]), lambda a, b: least_squares(a, b)[0], "slender slender-sides"
    ),
    "lstsq of slabs svd": of(
        in_slabs(lambda a, b: linalg.lstsq(a, b, method="svd")[0]),
        lambda a, b: least_squares(a, b)[0],
        "slender slender-sides",
    ),
    "svd": of(linalg.svd, None, "matrix", check=check_svd),
    "svd k=2": of(
        lambda a: linalg.svd(a, k=min(2, *(a[0] if isinstance(a, tuple) else a).shape)),
        None,
        "matrix",
        check=lambda result, a: check_largest(result, a),
    ),
    "qr pivoting": of(
        lambda a: linalg.qr(a, pivoting=True),
        None,
        "matrix",
        check=lambda result, a: check_qr((result[0], result[1]), a[:, result[2]]),
    ),
    "svd by gesvd": of(lambda a: linalg.svd(a, False, driver="gesvd"), None, "matrix", check=check_svd),
    "svdvals": of(linalg.svdvals, finite(lambda a: np.linalg.svd(a, compute_uv=False)), "matrix"),
    **{f"norm ord={ord}": norm_of(ord) for ord in (None, 1, np.inf, 2, "nuc")},
    "norm": norm_of("fro"),
    "norm axis": of(lambda a: linalg.norm(a, axis=0), lambda a: np.linalg.norm(a, axis=0), "matrix"),
}
OPERATIONS |= {f"linalg.{name}": row for name, row in LINALG.items()}


# -- what one rank has otherwise than the others, beside arrays


class DifferError(psr.CollectiveError, ValueError):
    """That of the others, or of the rank."""


def of_one_rank(call: Callable[..., Any], usual: Any, other: Any, kinds: str = "matrix") -> Operation:
    """A call in which a number or a keyword is another one on the last rank: an error on all ranks."""

    def called(s: Scene) -> Any:
        return call(s, usual if s.comm.rank < s.size - 1 or s.size == 1 else other)

    def oracle(*wholes: Array) -> None:
        if MPI.COMM_WORLD.size > 1:
            raise DifferError

    return Operation(called, oracle, kinds, check=lambda result, *wholes: None)


TWO_FLAGS = np.array([True, False])  # which has no truth value


def weighted(s: Scene, alpha: Any) -> Any:
    return psr.redistribute(s.desc, s.b.desc)(s.local, s.b.local, alpha=alpha, beta=1)


def pxgemm(s: Scene, alpha: Any) -> Any:
    return scalapack.pxgemm(fitting(s.a), fitting(s.b), s.copy(), alpha=alpha)


def pxstedc_of(s: Scene, first: Any) -> Any:
    n = s.shape[0]
    diagonal, beside = np.ones(n, s.dtype).real, np.ones(max(0, n - 1), s.dtype).real
    diagonal[:1] = first
    return scalapack.pxstedc(s.copy(), diagonal, beside)


OPERATIONS |= {
    f"{name} on one rank": row
    for name, row in {
        "redistribute op": of_one_rank(lambda s, op: psr.redistribute(s.a, s.turned, op=op), "T", "C"),
        "redistribute memory_limit": of_one_rank(
            lambda s, limit: psr.redistribute(s.a, s.target, memory_limit=limit), 300, 400
        ),
        "redistribute overwrite": of_one_rank(
            lambda s, overwrite: psr.redistribute(s.a, s.target, overwrite=overwrite), False, True
        )._replace(consumes="a"),
        "redistribute order": of_one_rank(lambda s, order: psr.redistribute(s.a, s.target, order=order), "C", "F"),
        "redistribute order, as numbers": of_one_rank(
            lambda s, order: psr.redistribute(s.a, s.target, order=order), None, TWO_FLAGS
        ),
        "redistribute to a text": of_one_rank(
            lambda s, text: psr.redistribute(s.a, text, comm=s.comm), "rows", "columns"
        ),
        "redistribute to a wrong text": of_one_rank(
            lambda s, text: psr.redistribute(s.a, text, comm=s.comm), "rows", "2x"
        ),
        "DistributedArray.redistribute to a text": of_one_rank(lambda s, text: s.a.redistribute(text), "rows", "1x1:2x2"),
        "distribute layout": of_one_rank(
            lambda s, text: psr.distribute(s.whole, s.comm, layout=text), "rows", "columns"
        ),
        "scatter order": of_one_rank(lambda s, order: psr.scatter(s.target, s.whole, order=order), None, "C"),
        "redistribute via": of_one_rank(lambda s, via: psr.redistribute(s.a, s.target, via=via), None, "dimensions"),
        "Redistribution.__call__ alpha": of_one_rank(weighted, 2, 3, "matrix target")._replace(writes="b"),
        "numpy.sort axis": of_one_rank(lambda s, axis: np.sort(s.a, axis=axis), 0, 1),
        "numpy.reshape shape": of_one_rank(lambda s, shape: np.reshape(s.a, shape), -1, (1, -1)),
        "DistributedArray.__matmul__ NumPy": of_one_rank(
            lambda s, number: s.a @ np.full((s.shape[1], 2), number, s.dtype), 1, 2
        ),
        "solve of a NumPy array": of_one_rank(
            lambda s, number: linalg.solve(s.a, np.full((s.shape[0], 2), number, s.dtype)), 1, 2, "square"
        ),
        "DistributedArray.__getitem__ a mask of rows": of_one_rank(
            lambda s, rows: s.a[np.ones(s.shape[0] + rows, bool)], 0, 1
        ),
        "DistributedArray.sum axis": of_one_rank(lambda s, axis: s.a.sum(axis), 0, 1),
        "DistributedArray.var ddof": of_one_rank(lambda s, ddof: s.a.var(ddof=ddof), 0, 1),
        "DistributedArray.max keepdims": of_one_rank(lambda s, keepdims: s.a.max(0, keepdims=keepdims), False, True),
        "DistributedArray.trace offset": of_one_rank(lambda s, offset: s.a.trace(offset), 0, 1),
        "DistributedArray.__getitem__ row": of_one_rank(lambda s, row: s.a[row], 0, 1),
        "DistributedArray.gather root": of_one_rank(lambda s, root: s.a.gather(root), 0, None),
        "linalg.norm ord": of_one_rank(lambda s, ord: linalg.norm(s.a, ord), 1, 2),
        "linalg.cholesky lower": of_one_rank(lambda s, lower: linalg.cholesky(s.a, lower=lower), True, False, "positive"),
        "linalg.eigh part": of_one_rank(
            lambda s, last: linalg.eigh(s.a, subset_by_index=(0, last)), 0, 1, "symmetric"
        ),
        "linalg.solve_triangular lower": of_one_rank(
            lambda s, lower: linalg.solve_triangular(s.a, s.b, lower=lower), True, TWO_FLAGS, "triangle sides"
        ),
        "linalg.solve check, as two flags": of_one_rank(
            lambda s, check: linalg.solve(s.a, s.b, check=check), True, TWO_FLAGS, "square sides"
        ),
        "save progress": of_one_rank(lambda s, shown: s.a.save(s.path, progress=shown), False, TWO_FLAGS),
        "linalg.solve check": of_one_rank(lambda s, check: linalg.solve(s.a, s.b, check=check), True, False, "square sides"),
        "linalg.lstsq rcond": of_one_rank(
            lambda s, rcond: linalg.lstsq(s.a, s.b, rcond, method="svd"), 1e-9, 1e-3, "tall tall-sides"
        ),
        "scalapack.pxgemm alpha": of_one_rank(pxgemm, 1, 2, "square square"),
        "scalapack.pxlange norm": of_one_rank(lambda s, norm: scalapack.pxlange(fitting(s.a), norm), "1", "I"),
        "scalapack.pxpotrf uplo": of_one_rank(lambda s, uplo: scalapack.pxpotrf(s.copy(), uplo), "L", "U", "positive"),
        "scalapack.pxstedc diagonal": of_one_rank(pxstedc_of, 1, 2, "square"),
    }.items()
}

# -- results that are passed on


def factors_moved(s: Scene) -> Any:
    """The factors of A in another layout than they came in."""
    lu, piv = linalg.lu_factor(s.a)
    return linalg.lu_solve((lu.redistribute(s.target_for(lu.shape)), piv), s.b)


def pivots_damaged(s: Scene) -> Any:
    lu, piv = linalg.lu_factor(s.a)
    damaged = piv.copy() if isinstance(piv, np.ndarray) else piv.local.copy()
    damaged[...] = 10**6
    piv = damaged if isinstance(piv, np.ndarray) else psr.DistributedArray(piv.desc, damaged)
    return linalg.lu_solve((lu, piv), s.b)


def refused(*wholes: Array) -> None:
    raise psr.ArrayError("what is passed on is damaged")


OPERATIONS |= {
    "redistribute there and back": Operation(
        lambda s: psr.redistribute(psr.redistribute(s.a, s.target), s.desc), same
    ),
    "redistribute overwrite there and back": Operation(
        consumed(lambda s: psr.redistribute(psr.redistribute(s.a, s.target, overwrite=True), s.target, overwrite=True)),
        same,
        consumes="a",
    ),
    "redistribute of T of a part": Operation(
        lambda s: psr.redistribute(s.a[1:, :-1].T, s.target_for((max(0, s.shape[1] - 1), max(0, s.shape[0] - 1)))),
        lambda a: a[1:, :-1].T,
        "matrix",
    ),
    "DistributedArray.sum of real of T": Operation(
        lambda s: s.a.T.real.sum(0), lambda a: a.T.real.sum(0), "matrix", exact=False
    ),
    "DistributedArray.max of steps of a row": Operation(lambda s: s.a[0][::2].max(), lambda a: a[0][::2].max(), "matrix"),
    "linalg.lu_solve of moved factors": Operation(
        factors_moved, None, "square sides", check=check_solve, exact=False
    ),
    "linalg.lu_solve of damaged pivots": Operation(pivots_damaged, refused, "square sides", exact=False),
    "linalg.solve of a sum of T": Operation(
        lambda s: linalg.solve(s.a + s.a.T.redistribute(s.a), s.b),
        None,
        "square sides",
        check=lambda x, a, b: system(a + a.T, x, b),
        exact=False,
    ),
    "linalg.solve_triangular of cholesky": Operation(
        lambda s: linalg.solve_triangular(linalg.cholesky(s.a), s.b, lower=True),
        None,
        "positive sides",
        check=lambda x, a, b: system(np.linalg.cholesky(np.tril(a)), x, b),
        exact=False,
    ),
    "linalg.matmul of qr": Operation(
        lambda s: operator.matmul(*linalg.qr(s.a)), None, "matrix", check=lambda result, a: close(result, a, 1e4), exact=False
    ),
    "linalg.eigvalsh of a copy of a part": Operation(
        lambda s: linalg.eigvalsh(s.a[:-1, :-1].copy()),
        lambda a: np.linalg.eigvalsh(a[:-1, :-1]),
        "symmetric",
        exact=False,
    ),
}


# -- ScaLAPACK's routines, on local arrays; they write a copy


def pxgetrf(s: Scene) -> tuple[Any, Any]:
    a = s.copy()
    return a, scalapack.pxgetrf(a)


def pxgeqrf(s: Scene) -> tuple[Any, Any]:
    a = s.copy()
    return a, scalapack.pxgeqrf(a)


def pxgebrd(s: Scene) -> tuple[Any, Any]:
    a = s.copy()
    return a, scalapack.pxgebrd(a).tau_q


def pxsytrd(s: Scene) -> tuple[Any, Any]:
    a = s.copy()
    return a, scalapack.pxsytrd(a).tau


def result_in(call: Callable[[Scene, Any], Any], name: str = "a") -> Callable[[Scene], Any]:
    """A call that overwrites a copy of an operand, which is its result."""

    def called(s: Scene) -> Any:
        target = s.copy(name)
        call(s, target)
        return target

    return called


def thin(
    call: Callable[[Scene], Any],
    oracle: Callable[..., Any] | None = None,
    kinds: str = "square",
    before: Callable[[Scene], Any] = nothing,
    **more: Any,
) -> Operation:
    """A routine of ScaLAPACK, whose operands have contexts before."""

    def prepare(s: Scene) -> Any:
        for operand in s.operands.values():
            fitting(operand.array)
        return before(s)

    return Operation(call, oracle, kinds, prepare, exact=False, **more)


OPERATIONS |= {
    f"scalapack.{name}": row
    for name, row in {
        "pxgebrd": thin(lambda s: scalapack.pxgebrd(s.copy())),
        "pxgels": thin(lambda s: scalapack.pxgels(s.copy(), s.copy("b")), None, "square square"),
        "pxgemm": thin(
            result_in(lambda s, c: scalapack.pxgemm(fitting(s.a), fitting(s.b), c)), lambda a, b: a @ b, "square square"
        ),
        "pxgemr2d": thin(
            result_in(lambda s, b: scalapack.pxgemr2d(fitting(s.a), b), "b"), lambda a, b: a, "square square"
        ),
        "pxgeqpf": thin(lambda s: scalapack.pxgeqpf(s.copy())),
        "pxgeqrf": thin(lambda s: scalapack.pxgeqrf(s.copy())),
        "pxgesvd": thin(lambda s: scalapack.pxgesvd(s.copy()).values, lambda a: np.linalg.svd(a, compute_uv=False)),
        "pxgetrf": thin(lambda s: pxgetrf(s)[0], lambda a: scipy.linalg.lu_factor(a)[0]),
        "pxgetri": thin(lambda s: (scalapack.pxgetri(*s.value), s.value[0])[1], np.linalg.inv, before=pxgetrf),
        "pxgetrs": thin(
            result_in(lambda s, b: scalapack.pxgetrs(*s.value, b), "b"),
            np.linalg.solve,
            "square square",
            before=pxgetrf,
        ),
        "pxlange": thin(lambda s: scalapack.pxlange(fitting(s.a)), lambda a: float(np.linalg.norm(a))),
        "pxorgqr": thin(lambda s: scalapack.pxorgqr(*s.value, s.shape[1], s.shape[1]), before=pxgeqrf),
        "pxormbr": thin(lambda s: scalapack.pxormbr(*s.value, s.copy()), before=pxgebrd),
        "pxormqr": thin(lambda s: scalapack.pxormqr(*s.value, s.copy()), before=pxgeqrf),
        "pxormtr": thin(lambda s: scalapack.pxormtr(*s.value, s.copy(), "L"), kinds="symmetric", before=pxsytrd),
        "pxpotrf": thin(
            result_in(lambda s, a: scalapack.pxpotrf(a)),
            lambda a: np.linalg.cholesky(np.tril(a)) + np.triu(a, 1),
            "positive",
        ),
        "pxpotri": thin(result_in(lambda s, a: scalapack.pxpotri(a)), None, "triangle"),
        "pxpotrs": thin(lambda s: scalapack.pxpotrs(fitting(s.a), s.copy("b")), None, "positive square"),
        "pxstedc": thin(
            lambda s: scalapack.pxstedc(
                s.copy(), np.ones(s.shape[0], s.dtype).real, np.ones(max(0, s.shape[0] - 1), s.dtype).real
            )
        ),
        "pxsyev": thin(lambda s: scalapack.pxsyev(s.copy()), np.linalg.eigvalsh, "symmetric"),
        "pxsyevd": thin(lambda s: scalapack.pxsyevd(s.copy()).values, np.linalg.eigvalsh, "symmetric"),
        "pxsygst": thin(lambda s: scalapack.pxsygst(s.copy(), fitting(s.b)), None, "symmetric positive"),
        "pxsytrd": thin(lambda s: scalapack.pxsytrd(s.copy()), kinds="symmetric"),
        "pxtrmm": thin(
            result_in(lambda s, b: scalapack.pxtrmm(fitting(s.a), b), "b"), lambda a, b: np.tril(a) @ b, "square square"
        ),
        "pxtrmr2d": thin(
            result_in(lambda s, b: scalapack.pxtrmr2d(fitting(s.a), b, uplo="U"), "b"),
            lambda a, b: np.triu(a) + np.tril(b, -1),
            "square square",
        ),
        "pxtrsm": thin(
            result_in(lambda s, b: scalapack.pxtrsm(fitting(s.a), b), "b"),
            lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
            "triangle square",
        ),
    }.items()
}


# -- what takes no array


def bench(scene: Scene) -> object:
    """The command line on the communicator in place of COMM_WORLD."""
    case = ["--shape", "8", "8", "--from", "1x1:2x2", "--to", "1x1:2x2", "--methods", "memcpy"]
    with mock.patch.object(MPI, "COMM_WORLD", scene.comm), redirect_stdout(io.StringIO()):
        return cli.run(["bench", *case])


def bound(scene: Scene) -> Any:
    """A grid with a context of its own."""
    grid = psr.ProcessGrid((1, scene.size), scene.comm)
    grid.make_context()
    return grid


def contexts(scene: Scene) -> int:
    return blacs.make_context(scene.comm, (1, scene.size), range(scene.size))


OPERATIONS |= {
    "Descriptor.from_array": Operation(
        lambda s: psr.Descriptor.from_array(s.value, s.comm),
        before=lambda s: np.asarray(fitting(s.a).desc),
        kinds="square",
    ),
    "ProcessGrid.close": Operation(lambda s: s.value.close(), before=bound),
    "ProcessGrid.from_context": Operation(
        lambda s: psr.ProcessGrid.from_context(s.value, s.comm), before=lambda s: s.grid.context
    ),
    "ProcessGrid.make_context": Operation(lambda s: psr.ProcessGrid((1, s.size), s.comm).make_context()),
    "accept": Operation(lambda s: psr.accept(s.path, s.comm, timeout=1)),
    "blacs.free_context": Operation(lambda s: blacs.free_context(s.value), before=contexts),
    "blacs.make_context": Operation(lambda s: contexts(s)),
    "connect": Operation(lambda s: psr.connect(s.path, s.comm, timeout=1)),
    "tools.cli.run": Operation(bench, words="pyscalapack-redist"),
}
SEVERAL_CALLS = re.compile(
    r"redistribute (via|memory|buffers|agree|schedule|exchange|overwrite (memory|plan|start)|reduce)|^plan|there and back| of "
    r"|order=C plan"
    r"|Redistribution.__call__ (out|alpha|first)"
    r"|Redistribution.start|Transfer.wait|^batch|in place|itself|^save (\.|of)|__setitem__ part|__setitem__$|_solve|cho_factor"
    r"|scalapack|copy_to"
)
OPERATIONS = {name: row._replace(is_one_call=not SEVERAL_CALLS.search(name)) for name, row in OPERATIONS.items()}
WITHOUT_ARRAYS = (
    "ProcessGrid.close",
    "ProcessGrid.from_context",
    "ProcessGrid.make_context",
    "accept",
    "blacs.free_context",
    "blacs.make_context",
    "connect",
    "tools.cli.run",
)
