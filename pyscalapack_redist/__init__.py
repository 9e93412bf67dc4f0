"""Block-cyclic redistribution between any two ScaLAPACK layouts, from Python.

plan = redistribute(desc_a, desc_b)
b = plan(a)
"""

from . import blacs, intersections, scalapack, schedules
from .blockcyclic import BlockCyclic
from .connection import accept, connect
from .descriptor import Descriptor
from .errors import (
    ArrayError,
    CollectiveError,
    ConnectError,
    DescriptorError,
    LibraryError,
    RedistributionError,
    ScheduleError,
)
from .grid import ProcessGrid
from .one_process import gather, scatter
from .redistribution import Redistribution, redistribute

__version__ = "0.1.0"

__all__ = [
    "ArrayError",
    "BlockCyclic",
    "CollectiveError",
    "ConnectError",
    "Descriptor",
    "DescriptorError",
    "LibraryError",
    "ProcessGrid",
    "Redistribution",
    "RedistributionError",
    "ScheduleError",
    "accept",
    "blacs",
    "connect",
    "gather",
    "intersections",
    "redistribute",
    "scalapack",
    "scatter",
    "schedules",
]
