# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPyscalapackRedist(PythonPackage):
    """Redistribute block-cyclic (ScaLAPACK) matrices between any two layouts, from Python."""

    pypi = "pyscalapack_redist/pyscalapack_redist-0.1.0.tar.gz"

    license("BSD-3-Clause")

    # ci/release writes the sha256 of the sdist in place of the zeros.
    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("cli", default=False, description="Tables and pictures of the command line")
    variant("hdf5", default=False, description="Matrices in HDF5 files")
    variant("zarr", default=False, description="Matrices in Zarr stores")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-cython@3.2:", type="build")

    # The compiled modules link neither MPI nor ScaLAPACK: py-mpi4py brings the MPI.
    depends_on("py-mpi4py@4.0:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-scipy@1.15:", type=("build", "run"))
    depends_on("py-threadpoolctl@3:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"), when="+cli")
    depends_on("py-matplotlib@3.8:", type=("build", "run"), when="+cli")
    depends_on("py-h5py@3.8:", type=("build", "run"), when="+hdf5")
    depends_on("py-zarr@3:", type=("build", "run"), when="+zarr")
