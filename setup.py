"""The compiled modules. They link neither MPI nor ScaLAPACK; the rest of the metadata is in pyproject.toml."""

import os
import shlex
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = sorted(path.stem for path in Path("cython").glob("*.pyx"))
OPTIONS = shlex.split(os.environ.get("PYSCALAPACK_REDIST_OPTIONS", "-O3"))  # others for ci/test --sanitize

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"pyscalapack_redist.{name if name.startswith('_') else f'_kernels.{name}'}",
                [f"cython/{name}.pyx"],
                include_dirs=["cython"],
                depends=["cython/kernels.h", "cython/factors.h", "cython/flags.h"],
                extra_compile_args=OPTIONS,
                extra_link_args=OPTIONS,
            )
            for name in MODULES
        ],
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        build_dir="build/cython",
    ),
    options={"build_ext": {"parallel": True}},
)
