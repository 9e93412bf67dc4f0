"""Block-cyclic redistribution between any two ScaLAPACK layouts, from Python.

A plan is made once and used often:

    plan = redistribute(desc_a, desc_b)
    b = plan(a)
"""

import logging
from typing import TYPE_CHECKING

from ._lazy import lazily

try:
    from .conversion import copy_to, layout_of
    from .creation import eye, from_local, full, ones, zeros
    from .distributed_array import DistributedArray, as_distributed, distribute, plan, redistribute
    from .redistribution import Redistribution, batch
    from .whole_arrays import gather, scatter
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(f"{__name__}._"):
        raise
    raise ImportError(
        f"the compiled module {error.name} is not in {__path__[0]}: in a source tree run `python setup.py build_ext --inplace` "
        "with this Python, or `pip install .` and start Python in another folder"
    ) from error
from .errors import (
    ArrayError,
    CollectiveError,
    ConnectError,
    DescriptorError,
    FileError,
    LibraryError,
    RedistributionError,
    ScheduleError,
    WaitTimeoutError,
)
from .layout.axis import BlockCyclic, Blocks
from .layout.descriptor import Descriptor
from .layout.grid import ProcessGrid
from .layout.tiles import Tiles
from .tracing import Phase, Phases, timings, trace

if TYPE_CHECKING:
    from . import adapters, blacs, intersections, linalg, scalapack, schedules
    from .connection.connect import accept, connect
    from .files import FileContents, dtype_of, load, open, save, shape_of
    from .layout.relabel import RelabelReport, relabel, relabel_report
    from .redistribution import PaperPlan

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "ArrayError",
    "BlockCyclic",
    "Blocks",
    "CollectiveError",
    "ConnectError",
    "Descriptor",
    "DescriptorError",
    "DistributedArray",
    "FileContents",
    "FileError",
    "LibraryError",
    "PaperPlan",
    "Phase",
    "Phases",
    "ProcessGrid",
    "Redistribution",
    "RedistributionError",
    "RelabelReport",
    "ScheduleError",
    "Tiles",
    "WaitTimeoutError",
    "accept",
    "adapters",
    "as_distributed",
    "batch",
    "blacs",
    "connect",
    "copy_to",
    "distribute",
    "dtype_of",
    "eye",
    "from_local",
    "full",
    "gather",
    "intersections",
    "layout_of",
    "linalg",
    "load",
    "ones",
    "open",
    "plan",
    "redistribute",
    "relabel",
    "relabel_report",
    "save",
    "scalapack",
    "scatter",
    "schedules",
    "shape_of",
    "timings",
    "trace",
    "zeros",
]

__getattr__ = lazily(
    globals(),
    {
        **{name: name for name in ("adapters", "blacs", "intersections", "linalg", "scalapack", "schedules")},
        **dict.fromkeys(("accept", "connect"), "connection.connect"),
        **dict.fromkeys(("FileContents", "dtype_of", "load", "open", "save", "shape_of"), "files"),
        **dict.fromkeys(("RelabelReport", "relabel", "relabel_report"), "layout.relabel"),
        "PaperPlan": "redistribution",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
