"""Distributed arrays in files, read and written by all ranks at once: .npy and raw binary by MPI-IO, HDF5 by h5py.

load and save (load_and_save) -> what the file holds (contents) -> what ranks do together, and slabs (slabs, hdf5)
"""

from __future__ import annotations

from .load_and_save import dtype_of, load, save, shape_of

__all__ = ["dtype_of", "load", "save", "shape_of"]
