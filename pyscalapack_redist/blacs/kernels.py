"""Which kernels the BLAS beneath ScaLAPACK runs, and whether they are for another processor. Not collective.

OpenBLAS takes a processor that is newer than itself for an old one: its kernels for that are slow, and some of them wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import warnings

from ..errors import callers_level
from .library import Library
from .symbols import file_of

__all__ = ["fitting_kernels", "kernel_advice", "kernel_name", "openblas", "warn_of_kernels", "without_avx2"]

PROCESSOR = "/proc/cpuinfo"
# OpenBLAS's kernels for x86 that do without AVX2, by its names for processors
WITHOUT_AVX2 = re.compile(
    "Katmai|Coppermine|Northwood|Prescott|Banias|Atom|Core2|Penryn|Dunnington|Nehalem|Sandybridge|Athlon|Opteron(_SSE3)?|"
    "Barcelona|Nano|Bobcat|Bulldozer|Piledriver|Steamroller"
)
AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


def openblas(library: Library, function: str) -> str | None:
    """The text that a function of the OpenBLAS beneath a library returns; None where another BLAS is there."""
    try:
        symbol = getattr(ctypes.CDLL(library.path), function)
    except AttributeError:
        return None
    symbol.restype = ctypes.c_char_p
    return str(symbol().decode())


def kernel_name(library: Library) -> str | None:
    """OpenBLAS's name for the processor whose kernels it runs; None where another BLAS is beneath the library."""
    return openblas(library, "openblas_get_corename")


@functools.cache
def without_avx2(library: Library) -> bool:
    """Whether OpenBLAS runs kernels for processors that have no AVX2."""
    return WITHOUT_AVX2.fullmatch(kernel_name(library) or "") is not None


def fitting_kernels(library: Library) -> str | None:
    """What OPENBLAS_CORETYPE should be, where the kernels lack AVX2 and the processor has it; else None."""
    processor = _processor()
    if not without_avx2(library) or "avx2" not in processor:
        return None
    if processor & {"AuthenticAMD", "HygonGenuine"}:
        return "Zen"
    return "SkylakeX" if processor >= AVX512 else "Haswell"


def kernel_advice(library: Library) -> str | None:
    """What is wrong with the kernels and what to do; None where nothing is known to be wrong."""
    fitting = fitting_kernels(library)
    if fitting is None:
        return None
    remedy = f"set OPENBLAS_CORETYPE={fitting} in the environment of all ranks, before they start"
    if "DYNAMIC_ARCH" not in (openblas(library, "openblas_get_config") or ""):
        remedy = "it is built for no other, so use one that is built with DYNAMIC_ARCH"
    return (
        f"the BLAS beneath ScaLAPACK, {file_of(ctypes.CDLL(library.path), 'openblas_get_corename')}, runs kernels for "
        f"{kernel_name(library)}, without AVX2, which this processor has: linear algebra takes up to three times as long, "
        f"and single precision may be wrong; {remedy}"
    )


@functools.cache
def warn_of_kernels(library: Library, rank: int) -> None:
    """Warn on rank 0, once, where the kernels are for another processor."""
    advice = kernel_advice(library) if rank == 0 else None
    if advice is not None:
        warnings.warn(advice, RuntimeWarning, stacklevel=callers_level())


def _processor() -> set[str]:
    """The words that Linux says about the first processor: its maker and its flags among them."""
    with contextlib.suppress(OSError), open(PROCESSOR) as file:
        return set(file.read().partition("\n\n")[0].split())
    return set()
