"""Block-cyclic redistribution between any two ScaLAPACK layouts, from Python.

plan = redistribute(desc_a, desc_b)
b = plan(a)
"""

from . import blacs, intersections, scalapack, schedules
from .blockcyclic import BlockCyclic
from .connection import accept, connect
from .descriptor import Descriptor
from .engine.batch import batch
from .engine.report import BatchReport
from .errors import (
    ArrayError,
    CollectiveError,
    ConnectError,
    DescriptorError,
    FileError,
    LibraryError,
    RedistributionError,
    ScheduleError,
)
from .files import load, save
from .grid import ProcessGrid
from .one_process import gather, scatter
from .redistribution import Redistribution, redistribute
from .relabel import RelabelReport, relabel, relabel_report

__version__ = "0.1.0"

__all__ = [
    "ArrayError",
    "BatchReport",
    "BlockCyclic",
    "CollectiveError",
    "ConnectError",
    "Descriptor",
    "DescriptorError",
    "FileError",
    "LibraryError",
    "ProcessGrid",
    "Redistribution",
    "RedistributionError",
    "RelabelReport",
    "ScheduleError",
    "accept",
    "batch",
    "blacs",
    "connect",
    "gather",
    "intersections",
    "load",
    "redistribute",
    "relabel",
    "relabel_report",
    "save",
    "scalapack",
    "scatter",
    "schedules",
]
