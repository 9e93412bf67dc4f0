"""Distributed arrays in files, read and written by all ranks at once: .npy, raw binary, HDF5 and Zarr; read also safetensors.

Modules, from the public functions down: checkpoint (many arrays in one file); containers (the formats of such files);
load_and_save; sources (objects that are sliced in place of files); contents (formats and windows); slabs; safetensors,
binary_file, hdf5, zarr_store; replacement.
"""

from __future__ import annotations

from .checkpoint import FileContents, open
from .load_and_save import dtype_of, load, save, shape_of

__all__ = ["FileContents", "dtype_of", "load", "open", "save", "shape_of"]
