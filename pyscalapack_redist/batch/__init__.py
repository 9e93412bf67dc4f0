"""Several redistributions as one: one vote, and one message for each pair of processes."""

from .making import batch
from .report import BatchReport
from .several import Batch
from .transfer import BatchTransfer

__all__ = ["Batch", "BatchReport", "BatchTransfer", "batch"]
