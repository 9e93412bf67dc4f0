"""The options of a plan: the keywords of the user's call, and the one record that the engine gets of them.

`read_options` checks them where the call comes in; from there on the record is passed whole. An error is kept in it, for the
vote.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..errors import ArrayError, DescriptorError, ScheduleError, shown, unknown
from ..exchanges import BUFFERS, EXCHANGES, check_combination
from ..exchanges.exchange import MEMORY_LIMIT
from ..layout.axis import whole_number
from ..layout.letters import OPERATIONS, ORDERS, letter_of
from ..layout.waypoints import Via
from ..schedules.catalogue import NAMES
from ..schedules.layout_orders import is_one_port
from .local_arrays import check_dtype
from .operation import MatrixPart, check_summed, parse_fill, parse_part

F = TypeVar("F", bound=Callable[..., Any])

FIXED = (type, str, np.dtype, type(None))  # what a dtype is given as, where it cannot change
AGREE = ("always", "first")
REDUCTIONS = ("sum",)
VOTED_ON = ("ready", "bruck", "alltoallv", "alltoallw")  # exchanges whose messages cannot do without a vote
WITH_UNIT = re.compile(r"(?P<value>\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


class PlanKeywords(TypedDict, total=False):
    """The keyword arguments of `redistribute` and `plan`; the docstring of `redistribute` describes them."""

    dtype: DTypeLike | None
    comm: MPI.Intracomm | MPI.Intercomm | None
    op: str
    uplo: str | None
    diag: str
    fill: str | None
    schedule: str
    exchange: str
    buffers: str
    via: Via
    memory_limit: int | str
    agree: str
    overwrite: bool
    reduce: str | None
    order: str | None


DEFAULTS = PlanKeywords(
    dtype=None,
    comm=None,
    op="N",
    uplo=None,
    diag="N",
    fill=None,
    schedule="auto",
    exchange="auto",
    buffers="packed",
    via=None,
    memory_limit=MEMORY_LIMIT,
    agree="always",
    overwrite=False,
    reduce=None,
    order=None,
)
CHECKED: dict[str, Any] = {name: value for name, value in DEFAULTS.items() if name not in ("comm", "via")}


class Options(NamedTuple):
    """The options of a plan in one spelling, equal on all ranks for equal ones but for `dtype`, `comm` and `error`.

    Attributes
    ----------
    op, part, fill
        The operation on A, the trapezoid of A that moves, and what the rest of B gets.
    schedule, exchange, buffers, memory_limit, agree, overwrite, reduce, order
        As for `redistribute`; `memory_limit` in bytes.
    via
        As for `redistribute`; in a `Spec` a name, or descriptors on the communicator of the ranks.
    dtype : dtype or None
        Of the arrays, as far as this rank knows it.
    comm : Intracomm, Intercomm or None
        The communicator that the user gave.
    error : BaseException or None
        The first error in the keywords. What is wrong has its default.
    """

    op: str = "N"
    part: MatrixPart | None = None
    fill: str | None = None
    schedule: str = "auto"
    exchange: str = "auto"
    buffers: str = "packed"
    via: Any = None
    memory_limit: int = MEMORY_LIMIT
    agree: str = "always"
    overwrite: bool = False
    reduce: str | None = None
    order: str | None = None
    dtype: np.dtype[Any] | None = None
    comm: MPI.Intracomm | MPI.Intercomm | None = None
    error: BaseException | None = None

    def on_all_ranks(self) -> tuple[Any, ...]:
        """What must be equal on all ranks, with numbers for layouts: all but OF_RANK."""
        via = self.via
        if via is None or isinstance(via, str):
            return _alike(self)
        return _alike(self._replace(via=tuple([stop.layout_digest for stop in via])))

    def digest(self) -> int:
        """A number equal on all ranks for equal options."""
        return digest(self.on_all_ranks())

    def describe(self) -> str:
        """The options that differ from the defaults."""
        usual = USUAL._asdict()
        options = self._replace(dtype=None, comm=None, error=None)._asdict()
        unusual = [f"{name}={value!r}" for name, value in options.items() if repr(value) != repr(usual[name])]
        return ", ".join(unusual) or "those that redistribute has by default"


USUAL = Options()
OF_RANK = ("dtype", "comm", "error")  # may differ from rank to rank
_alike: Callable[[Options], tuple[Any, ...]] = operator.attrgetter(
    *[name for name in Options._fields if name not in OF_RANK]
)


def taking_options(function: F) -> F:
    """Show the keywords of `PlanKeywords`, with their defaults, in the signature of a function that takes `**options`."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    types = {name: getattr(kind, "__forward_arg__", kind) for name, kind in PlanKeywords.__annotations__.items()}
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=types[name])
        for name, value in DEFAULTS.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
    return function


def read_options(call: str, keywords: Mapping[str, Any]) -> Options:
    """Check the keywords of a call. An error is kept in the options, for the vote.

    Parameters
    ----------
    call : str
        Name of the user's function.
    keywords : mapping
        Those of `PlanKeywords` that the user gave.

    Raises
    ------
    TypeError
        The function does not take a keyword of this name.
    """
    if not keywords:
        return USUAL
    for name in keywords:
        if name not in DEFAULTS:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; options are {', '.join(DEFAULTS)}")
    guard, comm, via = Guard(), keywords.get("comm"), keywords.get("via")
    if comm is not None and not hasattr(comm, "Get_size"):
        guard.error = DescriptorError(f"comm = {comm!r} must be an mpi4py Intracomm or Intercomm")
        comm = None
    if via is not None:
        via = guard.attempt(lambda: via if isinstance(via, str) or not isinstance(via, Iterable) else [*via])
    options = guard.attempt(functools.partial(_checked, keywords)) or USUAL
    if comm is None is via is guard.error:
        return options
    return options._replace(via=via, comm=comm, error=guard.error)


def _checked(keywords: Mapping[str, Any]) -> Options:
    """What can be checked without layouts and communicators. Recent results are kept, for keywords that cannot change."""
    others = dict(keywords)
    others.pop("comm", None)
    others.pop("via", None)
    if isinstance(others.get("dtype"), FIXED):
        try:
            return _remembered(**others)
        except TypeError:  # not hashable
            pass
    return _with_defaults(**others)


def _with_defaults(**keywords: Any) -> Options:
    """The options of these keywords, all but `comm` and `via`."""
    return _check(**{**CHECKED, **keywords})


def _check(
    *,
    dtype: object,
    op: object,
    uplo: object,
    diag: object,
    fill: object,
    schedule: str,
    exchange: str,
    buffers: str,
    memory_limit: object,
    agree: object,
    overwrite: object,
    reduce: object,
    order: object,
) -> Options:
    """The options of these keywords.

    Raises
    ------
    ArrayError, DescriptorError, ScheduleError
        The message names the argument, its value and what is expected.
    """
    element = None if dtype is None else checked_dtype(dtype)
    limit = checked_memory(memory_limit)
    known = (
        ("schedule", schedule, (*NAMES, "auto")),
        ("exchange", exchange, (*EXCHANGES, "auto")),
        ("buffers", buffers, BUFFERS),
    )
    for what, name, names in known:
        if not isinstance(name, str):
            raise unknown(what, name, names)
    check_combination(schedule, schedule == "auto" or is_one_port(schedule), exchange, buffers)
    letter, part = letter_of("op", op, OPERATIONS), parse_part(uplo, diag)
    if part is not None and buffers == "datatypes":
        raise ScheduleError(
            f"uplo = {uplo!r} with buffers = 'datatypes': no derived datatype is made for a trapezoid; "
            "use buffers='packed'"
        )
    if not isinstance(overwrite, bool | np.bool_):
        raise ScheduleError(f"overwrite = {shown(overwrite)} must be True, where A may be consumed, or False")
    if overwrite:
        _check_overwrite(
            ("fill", fill, None), ("buffers", buffers, "packed"), ("agree", agree, "always"), ("reduce", reduce, None)
        )
    if reduce is not None:
        if not isinstance(reduce, str) or reduce not in REDUCTIONS:
            raise ScheduleError(f"reduce = {shown(reduce)} must be 'sum', which adds the replicas of A, or None")
        _check_reduce(fill, buffers)
        if element is not None:
            check_summed(element)
    return Options(
        op=letter,
        part=part,
        fill=parse_fill(fill, part),
        schedule=schedule,
        exchange=exchange,
        buffers=buffers,
        memory_limit=limit,
        agree=checked_agree(agree, exchange, buffers),
        overwrite=bool(overwrite),
        reduce=reduce,
        order=None if order is None else letter_of("order", order, ORDERS),
        dtype=element,
    )


def _check_overwrite(*others: tuple[str, object, object]) -> None:
    """Check options beside overwrite=True, given by name, value and default."""
    for name, value, usual in others:
        if value != usual:
            raise ScheduleError(f"overwrite = True with {name} = {value!r}: A moves once, panel by panel; leave {name} out")


def _check_reduce(fill: object, buffers: str) -> None:
    """Check options beside reduce="sum"."""
    if fill is not None:
        raise ScheduleError(
            f"reduce = 'sum' with fill = {fill!r}: make the sum first, and fill the rest in another redistribution"
        )
    if buffers == "datatypes":
        raise ScheduleError(
            "reduce = 'sum' with buffers = 'datatypes': MPI moves elements as they are and adds none; use buffers='packed'"
        )


def overwriting(options: Options) -> Options:
    """The same options with overwrite=True; with an error, for the vote, if one of them does not go with that."""
    guard, names = Guard(), ("fill", "buffers", "agree", "via", "reduce")
    others = [(name, getattr(options, name), getattr(USUAL, name)) for name in names]
    guard.attempt(lambda: _check_overwrite(*others))
    return options._replace(overwrite=True, error=guard.error)


_remembered = functools.lru_cache(maxsize=64, typed=True)(_with_defaults)  # errors are raised each time


def checked_agree(agree: object, exchange: str, buffers: str) -> str:
    """Check `agree`, one of AGREE, for an exchange.

    Raises
    ------
    ScheduleError
        The exchange needs a vote in each call.
    """
    if not isinstance(agree, str) or agree not in AGREE:
        raise unknown("agree", agree, AGREE)
    if agree == "first" and (buffers == "datatypes" or exchange in VOTED_ON):
        what = "buffers = 'datatypes'" if buffers == "datatypes" else f"exchange = {exchange!r}"
        others = ", ".join(repr(name) for name in ("auto", *EXCHANGES) if name not in VOTED_ON)
        raise ScheduleError(
            f"agree = 'first' with {what}: its messages have no place in which to say that their sender has failed; use "
            f"buffers='packed' and one of the exchanges {others}, or agree='always'"
        )
    return agree


def checked_dtype(dtype: object) -> np.dtype[Any]:
    """The dtype, if its elements can be moved."""
    try:
        checked = np.dtype(dtype)  # type: ignore[call-overload]
    except MemoryError:
        raise
    except Exception as caught:
        raise ArrayError(f"dtype = {shown(dtype)} is not a NumPy dtype: {caught}") from caught
    check_dtype(checked)
    return checked  # type: ignore[no-any-return]


def checked_memory(limit: object) -> int:
    """Bytes, at least 1, from a number of them or a text.

    Raises
    ------
    DescriptorError
        It is neither.
    """
    if isinstance(limit, str):
        try:
            limit = read_size(limit)
        except ValueError:
            raise DescriptorError(
                f"memory_limit = {limit!r} must be a number of bytes of extra memory per rank, or a text such as '64MiB'"
            ) from None
    return whole_number("memory_limit", limit, 1, ": bytes of extra memory per rank, or a text such as '64MiB'")


def read_size(text: str) -> int:
    """Bytes, as 64kib, 1.5GB or 1000.

    Raises
    ------
    ValueError
        Quotes it and says what it must be.
    """
    value = number_with_unit(text, SIZES)
    if value is None or not (value < math.inf and value == int(value)):
        raise ValueError(f"{text!r} must be a whole number of bytes: 64kib, 1mb, 65536")
    return int(value)


def number_with_unit(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    """The value in the base unit; None if the text cannot be read."""
    match = WITH_UNIT.fullmatch(text.strip())
    scale = units.get(match["unit"].lower()) if match else None
    return None if match is None or scale is None else float(match["value"]) * scale
