"""Find, check and load the BLACS and ScaLAPACK library; read the files that it links, and the kernels of its BLAS.

Only this module knows file names of libraries, and nothing links one: symbols are looked up at run time and passed to the
compiled table `Entries`. A library must be built for the MPI that mpi4py uses, which is checked before its use. Nothing here
is collective.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import mmap
import os
import re
import site
import struct
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._blacs import ENTRY_POINTS, Entries
from ..errors import LibraryError, callers_level

ENVIRONMENT = "PYSCALAPACK_REDIST_LIBRARY"
# looked up by `Library.routine`, beside the typed table `ENTRY_POINTS`
ROUTINES = (
    *(
        f"p{letter}{name}_"
        for name in (
            *("gemm", "lange", "trsm", "trmm", "potrf", "potri", "potrs", "getri"),
            *("geqpf", "geqrf", "gebrd", "gesvd", "gels"),
        )
        for letter in "sdcz"
    ),
    *(
        f"p{letter}{name}_"
        for name in ("orgqr", "ormqr", "ormbr", "ormtr", "stedc", "syev", "syevd", "sygst", "sytrd")
        for letter in "sd"
    ),
    *(
        f"p{letter}{name}_"
        for name in ("ungqr", "unmqr", "unmbr", "unmtr", "heev", "heevd", "hegst", "hetrd")
        for letter in "cz"
    ),
    "pstran_",
    "pb_topget_",
    "pb_topset_",
    "igamn2d_",
    *(f"{letter}{name}_" for name in ("gamn2d", "gamx2d") for letter in "sd"),
)
ILP64 = "it counts in 64-bit integers (ILP64), and descriptors have 32-bit ones"
MKL_LAYERS = tuple(f"libmkl_{compiler}_ilp64" for compiler in ("intel", "gf"))
NO_MEMORY = "failed to map segment", "annot allocate memory"  # in texts of the loader
OPENBLAS_MEMORY = 2**27 + 2**20  # bytes, on x86; elsewhere it takes less
INDISPENSABLE = ("blacs_gridinfo_", "blacs_gridinit_", "pdgemr2d_")

DEBIAN_PACKAGES = {"Open MPI": "libscalapack-openmpi-dev", "MPICH": "libscalapack-mpich-dev"}
NETLIB_NAMES = {
    "Open MPI": ("libscalapack-openmpi.so.2.2", "libscalapack-openmpi.so.2.1", "libscalapack-openmpi.so"),
    "MPICH": ("libscalapack-mpich.so.2.2", "libscalapack-mpich.so.2.1", "libscalapack-mpich.so"),
}
ANY_NETLIB_NAMES = ("libscalapack.so.2.2", "libscalapack.so")
MKL_BLACS = {"Open MPI": "libmkl_blacs_openmpi_lp64", "MPICH": "libmkl_blacs_intelmpi_lp64"}
MKL_SUFFIXES = (".so.3", ".so.2", ".so.1", ".so")
# without the layers for Fortran and C++ (libmpi_mpifh, libmpifort, ...), which are not an MPI themselves
MPI_FILE = re.compile(r"lib(mpi|mpich|mpi_abi|mpi_cray|mpi_gnu\w*|mpi_intel\w*|mpi_ibm)\.so")
MPI_OF_FILE = {
    "libmpi.so.20": "Open MPI",
    "libmpi.so.40": "Open MPI",
    "libmpi.so.12": "MPICH",
    "libmpich.so": "MPICH",
    "libmpi_abi.so": "the standard MPI ABI",
}


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def address_of(library: ctypes.CDLL, symbol: str) -> int:
    """Return the address of a symbol in a library or in the libraries that it links; 0 if there is none."""
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def file_of(library: ctypes.CDLL, symbol: str) -> str | None:
    """Return the file that defines a symbol of a library or of the libraries that it links."""
    info = _SymbolInfo()
    address = address_of(library, symbol)
    if not address or not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)):
        return None
    return os.path.realpath(os.fsdecode(info.file))


def linked_libraries(path: str) -> list[str]:
    """List the libraries that a file links, without loading it; none if it is not a 64-bit little-endian ELF file."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            return _linked_names(image) if image[:6] == b"\x7fELF\x02\x01" else []
    except (OSError, ValueError, StopIteration, struct.error):
        return []


def _linked_names(image: mmap.mmap) -> list[str]:
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    segments = [struct.unpack_from("<IIQQQQ", image, table + k * size) for k in range(count)]
    load_segments = [(address, offset, length) for kind, _, offset, address, _, length in segments if kind == 1]
    dynamic = [
        struct.unpack_from("<qQ", image, at)
        for kind, _, offset, _, _, length in segments
        if kind == 2
        for at in range(offset, offset + length, 16)
    ]
    (texts,) = (value for tag, value in dynamic if tag == 5)
    start = next(offset + texts - at for at, offset, length in load_segments if at <= texts < at + length)
    return [image[start + value : image.find(b"\0", start + value)].decode() for tag, value in dynamic if tag == 1]


def counts_in_64_bits(library: ctypes.CDLL) -> bool:
    """Whether a ScaLAPACK reads 64-bit integers, by the names of its symbols or by a call of its NUMROC.

    The call asks how many of 10 elements the first of 3 processes has. With 64 bits NUMROC reads 10 + 2^32 elements.
    """
    if not address_of(library, "pdgemr2d_") and any(address_of(library, f"pdgemr2d{end}") for end in ("_64_", "64_")):
        return True
    numroc = address_of(library, "numroc_")
    if not numroc:
        return False
    numbers = [ctypes.c_int64(number) for number in (10 + 2**32, 1, 0, 0, 3)]
    count = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(numroc)
    return bool(count(*map(ctypes.addressof, numbers)) != 4)


PROCESSOR = "/proc/cpuinfo"
# OpenBLAS's names of the x86 processors whose kernels do not use AVX2
WITHOUT_AVX2 = re.compile(
    "Katmai|Coppermine|Northwood|Prescott|Banias|Atom|Core2|Penryn|Dunnington|Nehalem|Sandybridge|Athlon|Opteron(_SSE3)?|"
    "Barcelona|Nano|Bobcat|Bulldozer|Piledriver|Steamroller"
)
AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


def openblas(library: Library, function: str) -> str | None:
    """Call a function of a library's OpenBLAS that returns a text; None if the library has another BLAS."""
    try:
        symbol = getattr(ctypes.CDLL(library.path), function)
    except AttributeError:
        return None
    symbol.restype = ctypes.c_char_p
    return str(symbol().decode())


def kernel_name(library: Library) -> str | None:
    """Return OpenBLAS's name of the processor whose kernels it runs; None if the library has another BLAS."""
    return openblas(library, "openblas_get_corename")


@functools.cache
def without_avx2(library: Library) -> bool:
    """Whether OpenBLAS runs kernels for processors without AVX2."""
    return WITHOUT_AVX2.fullmatch(kernel_name(library) or "") is not None


def fitting_kernels(library: Library) -> str | None:
    """Return the right OPENBLAS_CORETYPE if the processor has AVX2 and the kernels do not use it; else None.

    OpenBLAS mistakes processors newer than itself for old ones, whose kernels are slow, and some of them wrong.
    """
    processor = _processor()
    if not without_avx2(library) or "avx2" not in processor:
        return None
    if processor & {"AuthenticAMD", "HygonGenuine"}:
        return "Zen"
    return "SkylakeX" if processor >= AVX512 else "Haswell"


def kernel_advice(library: Library) -> str | None:
    """Return a warning about unsuitable kernels and its remedy; None if the kernels suit."""
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
    """Warn once, on rank 0, if the kernels are for another processor."""
    advice = kernel_advice(library) if rank == 0 else None
    if advice is not None:
        warnings.warn(advice, RuntimeWarning, stacklevel=callers_level())  # an error before the vote is one on all ranks


def _processor() -> set[str]:
    """Return the words of Linux's description of the first processor, with its maker and flags."""
    with contextlib.suppress(OSError), open(PROCESSOR) as file:
        return set(file.read().partition("\n\n")[0].split())
    return set()


@dataclass(frozen=True, eq=False)
class Library:
    """A loaded BLACS and ScaLAPACK.

    Attributes
    ----------
    path : str
        File of ScaLAPACK, symbolic links resolved.
    vendor : str
        "netlib" or "MKL".
    mpi : str
        The MPI that the library and mpi4py use.
    entries : Entries
        The entry points.
    reason : str
        Why the library was chosen.
    missing : tuple of str
        Missing entry points; calling one raises LibraryError.
    addresses : mapping of str to int
        Address of each entry point, 0 for a missing one.
    """

    path: str
    vendor: str
    mpi: str
    entries: Entries = field(repr=False)
    reason: str
    missing: tuple[str, ...] = ()
    addresses: Mapping[str, int] = field(default_factory=dict, repr=False)

    def routine(self, name: str) -> int:
        """Return the address of a Fortran routine. Not collective.

        Raises
        ------
        LibraryError
            The library does not have the routine.
        """
        address = self.addresses.get(f"{name}_", 0)
        if not address:
            raise LibraryError(
                f"{self.path} has no entry point {name}_: use a complete ScaLAPACK ({ENVIRONMENT} names the file to load)"
            )
        return address

    def describe(self) -> list[str]:
        """Return lines of text about the library: its file, MPI and why it was chosen. Not collective."""
        lines = [f"ScaLAPACK: {self.vendor}, {self.path}", f"MPI: {self.mpi}", f"chosen: {self.reason}"]
        if self.missing:
            lines.append(f"missing entry points: {', '.join(self.missing)}")
        return lines


_default: Library | None = None
_explicit: dict[tuple[str, str], Library] = {}


def load(path: str | os.PathLike[str] | None = None, *, prefix: str = "") -> Library:
    """Find and load BLACS and ScaLAPACK. Not collective.

    Starts MPI if mpi4py has not done so yet. The library stays loaded, and a second call returns the same object.

    Parameters
    ----------
    path : path, optional
        File to load. For MKL any of its files; the others are taken from the same folder. Default: the file named by the
        environment variable PYSCALAPACK_REDIST_LIBRARY, else the first that loads among those for the MPI in use. A
        library named here does not become the default.
    prefix : str
        Prefix of the name p?gemr2d in the library, if any.

    Raises
    ------
    LibraryError
        No library could be loaded, or it is for another MPI; the text lists each attempt, its error and a remedy.
    """
    global _default
    if path is None:
        if _default is None:
            _default = _load_default()
        return _default
    key = os.path.realpath(path) if os.path.exists(path) else os.fspath(path), prefix
    if not prefix and _default is not None and _default.path == key[0]:
        return _default
    if key not in _explicit:
        _explicit[key] = _load_named(os.fspath(path), "the argument path", prefix)
    return _explicit[key]


def available() -> bool:
    """Whether `load()` finds a library. Not collective."""
    try:
        load()
    except LibraryError:
        return False
    return True


# -- which MPI runs


@dataclass(frozen=True)
class _RunningMPI:
    version: str
    family: str
    path: str

    def __str__(self) -> str:
        return f"{self.version}, {self.path}" if self.path else self.version

    @property
    def remedy(self) -> str:
        debian = DEBIAN_PACKAGES.get(self.family)
        system = f"install the Debian package {debian}" if debian else "install a ScaLAPACK that is built for this MPI"
        wheel = ", or `pip install mkl`" if self.family in MKL_BLACS else ""
        return f"{system}{wheel}, or set {ENVIRONMENT} to the file of a ScaLAPACK built for {self.version}"


def _running_mpi() -> _RunningMPI:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise LibraryError(
            f"ScaLAPACK needs an MPI, and mpi4py cannot start one ({error}): install the Debian package openmpi-bin, "
            "or `pip install mpich`"
        ) from error
    first_line = re.split(r"[,\n]", MPI.Get_library_version())[0]
    version = " ".join(first_line.replace("Version:", " ").split())
    path = file_of(ctypes.CDLL(MPI.__file__), "MPI_Comm_rank") or ""
    if "libmpi_abi" in os.path.basename(path):
        family = "the standard MPI ABI"
    elif version.startswith("Open MPI"):
        family = "Open MPI"
    elif re.search(r"MPICH|Intel\(R\) MPI|MVAPICH", version):
        family = "MPICH"
    else:
        family = version
    return _RunningMPI(version, family, path)


# -- what may be loaded


@dataclass(frozen=True)
class _Candidate:
    """Files of a library to open in order, each by the first of its names that works. MKL's files need global symbols."""

    parts: tuple[tuple[str, ...], ...]
    vendor: str


def _netlib(path: str) -> _Candidate:
    return _Candidate(((path,),), "netlib")


def _mkl(folder: str | None, mpi: _RunningMPI) -> _Candidate:
    """MKL's three files, from a folder or, for None, from the system's search path."""
    parts = []
    for stem in ("libmkl_rt", MKL_BLACS[mpi.family], "libmkl_scalapack_lp64"):
        names = tuple(os.path.join(folder or "", stem + suffix) for suffix in MKL_SUFFIXES)
        parts.append(tuple(filter(os.path.exists, names)) or names)
    return _Candidate(tuple(parts), "MKL")


def _candidate_of(path: str, mpi: _RunningMPI) -> _Candidate:
    actual = os.path.realpath(path) if os.path.exists(path) else path
    name = os.path.basename(actual)
    if not name.startswith("libmkl_"):
        return _netlib(os.path.abspath(path) if os.path.exists(path) else path)
    if "ilp64" in name:
        raise LibraryError(f"{ILP64}; the one with 32-bit integers is {name.replace('ilp64', 'lp64')}")
    if mpi.family not in MKL_BLACS:
        raise LibraryError(f"MKL has no BLACS for the MPI that mpi4py runs on, {mpi}")
    return _mkl(os.path.dirname(actual) or None, mpi)


def _folders(mpi: _RunningMPI) -> list[str]:
    """List the folders in which Python packages, MKL and the MPI have libraries."""
    user = site.getuserbase() if site.ENABLE_USER_SITE else ""
    roots = [sys.prefix, sys.base_prefix, user, os.environ.get("MKLROOT", "")]
    folders = [os.path.join(root, "lib") for root in roots if root]
    if mpi.path:
        folders.append(os.path.dirname(mpi.path))
    return list(dict.fromkeys(folders))


def _candidates(mpi: _RunningMPI) -> Iterator[_Candidate]:
    folders = _folders(mpi)
    paths = [os.path.join(folder, name) for folder in folders for name in ANY_NETLIB_NAMES]
    names = (*filter(os.path.exists, paths), *NETLIB_NAMES.get(mpi.family, ()), *ANY_NETLIB_NAMES)
    yield from map(_netlib, names)
    if mpi.family in MKL_BLACS:
        yield from (_mkl(folder, mpi) for folder in (*folders, None))


# -- another library that calls MPI


def places_of(pattern: str) -> list[str]:
    """Return patterns of files in the folders where libraries for the MPI in use are searched. Starts MPI."""
    return [os.path.join(folder, pattern) for folder in _folders(_running_mpi())]


def open_beside(path: str) -> ctypes.CDLL:
    """Open a library that calls MPI, and perhaps a ScaLAPACK of its own. Not collective.

    Raises
    ------
    LibraryError
        It cannot be opened, or it is for another MPI.
    """
    mpi, candidate = _running_mpi(), _netlib(path)
    library = _open_part((path,), _visibility(candidate, mpi), mpi)
    try:
        _check_mpi(candidate, [library], mpi)
    except LibraryError:
        _ctypes.dlclose(library._handle)
        raise
    return library


# -- loading


def _load_default() -> Library:
    path = os.environ.get(ENVIRONMENT)
    if path:
        return _load_named(path, f"the environment variable {ENVIRONMENT}")
    mpi = _running_mpi()
    failures = []
    for candidate in _candidates(mpi):
        try:
            return _open(candidate, mpi, f"the first that loads among those that fit {mpi.family}")
        except LibraryError as error:
            failures.append(f"  {error}")
    raise LibraryError("\n".join([f"no ScaLAPACK found for {mpi}. Tried:", *failures, f"Remedy: {mpi.remedy}"]))


def _load_named(path: str, origin: str, prefix: str = "") -> Library:
    mpi = _running_mpi()
    try:
        return _open(_candidate_of(path, mpi), mpi, f"named by {origin}", prefix)
    except LibraryError as error:
        raise LibraryError(
            f"{origin} names {path}, which cannot be used: {error}. Remedy: name the file of a ScaLAPACK, or none to "
            f"search for one; if there is none, {mpi.remedy}"
        ) from None


def _open(candidate: _Candidate, mpi: _RunningMPI, reason: str, prefix: str = "") -> Library:
    """Open a candidate, check it and look up its symbols; on failure close its files."""
    opened: list[ctypes.CDLL] = []
    try:
        if candidate.vendor == "MKL":
            _refuse_wide_mkl()
        for names in candidate.parts:
            opened.append(_open_part(names, _visibility(candidate, mpi), mpi))
            _settle_mkl(opened[-1])
        if candidate.vendor == "MKL":
            _refuse_wide_mkl()  # only now has its dispatcher chosen
        _check_mpi(candidate, opened, mpi)
        if any(map(counts_in_64_bits, opened)):
            raise LibraryError(f"{candidate.parts[-1][0]}: {ILP64}; use one that is built with 32-bit integers (LP64)")
        addresses = _addresses(candidate, opened, prefix)
        _take_blas_memory(opened[-1])
    except BaseException:
        for library in reversed(opened):
            _ctypes.dlclose(library._handle)
        raise
    path = next(filter(None, (file_of(library, prefix + "pdgemr2d_") for library in reversed(opened))))
    missing = tuple(symbol for symbol, address in addresses.items() if not address)
    return Library(path, candidate.vendor, str(mpi), Entries(addresses, path), reason, missing, addresses)


def _take_blas_memory(library: ctypes.CDLL) -> None:
    """Let OpenBLAS take the memory of its first call here, where it is an error if there is none: it would try for ever."""
    if not address_of(library, "openblas_get_config") or not address_of(library, "dgemm_"):
        return
    try:
        mmap.mmap(-1, OPENBLAS_MEMORY).close()
    except OSError as caught:
        raise MemoryError(
            f"OpenBLAS, {file_of(library, 'openblas_get_config')}, takes {OPENBLAS_MEMORY >> 20} MiB of address space in its "
            "first call, and this process has less: raise its limit (ulimit -v), or run fewer ranks on a node"
        ) from caught
    n, number, matrix = ctypes.c_int(128), ctypes.c_double(0), (ctypes.c_double * 128**2)()  # of small ones it takes none
    operands: list[Any] = [n, n, n, number, matrix, n, matrix, n, number, (ctypes.c_double * 128**2)(), n]
    library.dgemm_(b"N", b"N", *[ctypes.byref(each) for each in operands])


def _visibility(candidate: _Candidate, mpi: _RunningMPI) -> int:
    process = ctypes.CDLL(None)
    if candidate.vendor != "MKL":
        # a BLACS with global symbols would take this library's own calls
        return os.RTLD_LOCAL | (getattr(os, "RTLD_DEEPBIND", 0) if address_of(process, "blacs_gridinit_") else 0)
    if mpi.path and not address_of(process, "MPI_Comm_rank"):
        ctypes.CDLL(mpi.path, os.RTLD_NOLOAD | os.RTLD_GLOBAL)
    return os.RTLD_GLOBAL


def _open_part(names: tuple[str, ...], mode: int, mpi: _RunningMPI) -> ctypes.CDLL:
    failures = []
    for name in names:
        try:
            if os.path.dirname(name) and not os.path.exists(name):
                raise OSError("no such file")
            _refuse_other_mpi(name, mpi)
            return ctypes.CDLL(name, mode)
        except OSError as error:
            if any(words in str(error) for words in NO_MEMORY):
                raise MemoryError(
                    f"{error}: this process has too little address space for ScaLAPACK and its BLAS, which take some 250 MiB: "
                    "raise its limit (ulimit -v), or run fewer ranks on a node"
                ) from None
            failures.append(f"{name}: {str(error).removeprefix(name + ': ')}")
    raise LibraryError("; ".join(failures))


def _settle_mkl(library: ctypes.CDLL) -> None:
    """Make MKL's dispatcher load its layers, whose symbols MKL's ScaLAPACK needs."""
    if address_of(library, "mkl_get_version_string"):
        text = ctypes.create_string_buffer(200)
        library.mkl_get_version_string(text, len(text))


def _refuse_wide_mkl() -> None:
    """Refuse MKL with 64-bit integers: MKL's LP64 ScaLAPACK calls the BLAS of the layer that its dispatcher chooses."""
    setting = os.environ.get("MKL_INTERFACE_LAYER", "")
    if "ILP64" in setting.upper().split(","):
        raise LibraryError(
            f"MKL_INTERFACE_LAYER={setting} makes MKL count in 64-bit integers (ILP64), and descriptors have 32-bit ones: "
            "unset it, or set it to LP64"
        )
    for name in (stem + suffix for stem in MKL_LAYERS for suffix in MKL_SUFFIXES):
        try:
            ctypes.CDLL(name, os.RTLD_NOLOAD)
        except OSError:
            continue
        raise LibraryError(
            f"{name} is loaded in this process: MKL counts in 64-bit integers (ILP64) then, and descriptors have 32-bit "
            "ones; use MKL's LP64 layer everywhere, or a ScaLAPACK that is not MKL's"
        )


def _refuse_other_mpi(path: str, mpi: _RunningMPI) -> None:
    """Check the MPI that a file links before opening it: two MPIs may clash as soon as both are loaded."""
    for soname in filter(MPI_FILE.match, linked_libraries(path) if os.path.dirname(path) else ()):
        try:
            loaded_mpi = file_of(ctypes.CDLL(soname, os.RTLD_NOLOAD), "MPI_Comm_rank")
        except OSError:
            loaded_mpi = None
        if loaded_mpi != mpi.path:
            raise _other_mpi(path, soname, mpi)


def _other_mpi(path: str, mpi_file: str, mpi: _RunningMPI) -> LibraryError:
    family = next((name for start, name in MPI_OF_FILE.items() if os.path.basename(mpi_file).startswith(start)), "")
    library_mpi = f"{mpi_file} ({family})" if family else mpi_file
    return LibraryError(
        f"{path} is built for another MPI, {library_mpi}, than mpi4py runs on, {mpi}: two MPIs cannot serve one process"
    )


def _check_mpi(candidate: _Candidate, opened: list[ctypes.CDLL], mpi: _RunningMPI) -> None:
    """Check the MPI that the opened files are bound to: indirectly, or by global symbols."""
    process = [ctypes.CDLL(None)] if candidate.vendor == "MKL" else []
    for library in opened + process:
        used = file_of(library, "MPI_Comm_rank")
        if used is not None and mpi.path and used != mpi.path:
            raise _other_mpi(candidate.parts[-1][0], used, mpi)


def _addresses(candidate: _Candidate, opened: list[ctypes.CDLL], prefix: str) -> dict[str, int]:
    """Look up all entry points; the indispensable ones must exist."""
    name = candidate.parts[-1][0]
    addresses: dict[str, int] = {}
    for symbol in (*ENTRY_POINTS, *ROUTINES):
        spelt = prefix + symbol if symbol.endswith("gemr2d_") else symbol
        addresses[symbol] = next(filter(None, (address_of(library, spelt) for library in reversed(opened))), 0)
        if not addresses[symbol] and symbol in INDISPENSABLE:
            raise LibraryError(f"{name} is no complete ScaLAPACK: it has no entry point {spelt}")
    process = ctypes.CDLL(None)
    if candidate.vendor == "MKL" and address_of(process, "blacs_gridinit_") != addresses["blacs_gridinit_"]:
        raise LibraryError(
            f"{name}: the BLACS in {file_of(process, 'blacs_gridinit_')} is visible to the whole process and would "
            "take MKL's calls: use that library, or load MKL before it"
        )
    return addresses
