"""Fail unless the package is that of a folder. Usage: imported.py FOLDER"""

import sys

import pyscalapack_redist.linalg

if not (pyscalapack_redist.__file__ or "").startswith(sys.argv[1]):
    raise ImportError(f"{pyscalapack_redist.__file__} is imported, not the package in {sys.argv[1]}")
