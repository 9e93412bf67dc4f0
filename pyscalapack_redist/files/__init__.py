"""Distributed arrays in files, read and written by all ranks at once: .npy and raw binary by MPI-IO, HDF5 by h5py.

arguments agreed on (agreed) -> what the file holds (header, hdf5) -> slabs (slabs) -> local arrays
"""

from __future__ import annotations

from .contents import dtype_of, shape_of
from .reading import load
from .writing import save

__all__ = ["dtype_of", "load", "save", "shape_of"]
