"""The exceptions of the package. Each message names the argument, its value, what was expected and what to do."""

import difflib
import os
import reprlib
import sys
from collections.abc import Iterable


class RedistributionError(Exception):
    """Root of every error that this package raises on purpose."""


class DescriptorError(RedistributionError, ValueError):
    """A layout cannot exist: block size, grid, source process, sub-array or one of the nine integers is wrong."""


class ArrayError(RedistributionError, ValueError):
    """A local array does not fit its descriptor: shape, dtype, writeability or overlap."""


class ScheduleError(RedistributionError, ValueError):
    """A schedule or an exchange is unknown, or does not apply to this redistribution."""


class LibraryError(RedistributionError, ImportError):
    """A library cannot be used (ScaLAPACK, an entry point of it, h5py), or refuses what it is given; says what was tried."""


class CollectiveError(RedistributionError):
    """Another rank failed or asked for something else; the message says which rank and why."""


class WaitTimeoutError(CollectiveError, TimeoutError):
    """Other ranks did not come within PYSCALAPACK_REDIST_TIMEOUT seconds; the ranks that waited have given up."""


class ConnectError(RedistributionError, ConnectionError):
    """Two jobs did not come together: the other one did not come in time, or cannot be joined; says what to do."""


class FileError(RedistributionError, OSError):
    """A file cannot be read or written, or does not hold the array asked for; the message names it."""


def shown(value: object) -> str:
    """An argument as messages quote it, never a whole array."""
    try:
        shape, dtype = value.shape, value.dtype  # type: ignore[attr-defined]
    except Exception:
        short = reprlib.Repr()
        short.maxstring = short.maxother = 200
        short.maxlist = short.maxtuple = 12
        return short.repr(value)
    return f"<{type(value).__name__} of shape {shape} and dtype {dtype}>"


def kind_of(value: object) -> str:
    """The name of a value's type; with its module, if a class of this package has that name."""
    kind = type(value)
    is_known = hasattr(sys.modules[__name__.partition(".")[0]], kind.__name__) and not _is_inside(kind.__module__)
    return f"{kind.__module__}.{kind.__name__}" if is_known else kind.__name__


def unknown(what: str, name: object, known: Iterable[str]) -> ScheduleError:
    """The error for an unknown name. It lists the known ones, the nearest first."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=len(names), cutoff=0.0)
    return ScheduleError(f"{what} = {name!r} is unknown; there are {', '.join(near)}")


def public_call() -> str:
    """The call of this package that the user's code has made, in words: "linalg.solve()"; empty if there is none.

    It is read from the stack, so that a call that waits costs no more than others. A function that stands for another one, as
    those that decorators make, and NumPy's, has that as `function`.
    """
    name, frame = "", sys._getframe(1)
    while frame is not None and _is_inside(module := frame.f_globals.get("__name__", "")):
        qualified, function = frame.f_code.co_qualname, frame.f_locals.get("function")
        if "<locals>" in qualified:
            qualified, module = getattr(function, "__qualname__", "<locals>"), getattr(function, "__module__", module)
        if qualified.endswith(".__array_function__"):
            name = f"{getattr(function, '__module__', 'numpy')}.{getattr(function, '__name__', '')}()"
        elif module.startswith(f"{__package__}.") and "<" not in qualified:
            part = module.split(".")[1]
            name = "pyscalapack-redist" if part == "tools" else f"{f'{part}.' * (part in PARTS)}{qualified}()"
        frame = frame.f_back  # type: ignore[assignment]
    return name


def calling_line() -> str:
    """Where the user's code has made the call of this package: "solver.py:12"; empty where no such code is on the stack."""
    frame = sys._getframe(1)
    while frame is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


PARTS = ("blacs", "linalg", "scalapack")  # of the package, whose functions are called by the names of both


def _is_inside(module: str) -> bool:
    """Whether a module is of this package, or one that stands between two of its functions."""
    return module.startswith(f"{__package__}.") or module == "contextlib"


def callers_level() -> int:
    """The `stacklevel` of a warning that names the calling line outside of this package."""
    prefix, frame, level = f"{__package__}.", sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(prefix):
        frame, level = frame.f_back, level + 1
    return level
