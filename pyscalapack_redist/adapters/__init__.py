"""Arrays of other libraries as distributed arrays: one adapter for each library.

An adapter of another package is a class with the three methods of `Adapter`. Its entry point, of the group
"pyscalapack_redist.adapters", has the name of the top-level module in which the types of the arrays are defined.
"""

from .adapter import Adapter, Blueprint, View, find

__all__ = ["Adapter", "Blueprint", "View", "find"]
