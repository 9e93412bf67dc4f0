"""The BLACS and ScaLAPACK library of this installation, and its contexts."""

from .contexts import context_grid, free_context, make_context, missing_from_context
from .library import Library, available, load

__all__ = ["Library", "available", "context_grid", "free_context", "load", "make_context", "missing_from_context"]
