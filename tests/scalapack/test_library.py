"""Finding, loading and refusing libraries. Each case runs in a process of its own, which may load what it likes."""

import ctypes.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import pyscalapack_redist

PACKAGE = Path(pyscalapack_redist.__file__).parent
ENVIRONMENT = "PYSCALAPACK_REDIST_LIBRARY"
SCALAPACK = "int pdgemr2d_() { return 0; } int blacs_gridinit_() { return 0; } int blacs_gridinfo_() { return 0; }"

Run = Callable[..., str]
Compile = Callable[..., Path]


@pytest.fixture
def run() -> Run:
    """Runs a script that has `blacs`, `LibraryError` and `refusal(path)`; returns what it prints."""
    preamble = """
        import sys
        from pyscalapack_redist import LibraryError, blacs

        def refusal(path=None, **keywords):
            try:
                return f"no error: {blacs.load(path, **keywords)}"
            except LibraryError as error:
                return str(error)

        def mapped(name):
            return any(name in line for line in open("/proc/self/maps"))
    """

    def run(script: str, *arguments: object, **variables: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(preamble) + textwrap.dedent(script), *map(str, arguments)],
            env={**kept, "PYTHONPATH": str(PACKAGE.parent), **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def library(tmp_path: Path) -> Compile:
    """Compiles a shared library that links the others given."""

    def compile_library(name: str, source: str, *linked: Path) -> Path:
        target = tmp_path / name
        code = target.with_suffix(".c")
        code.write_text(source)
        options = ["-shared", "-fPIC", f"-Wl,-soname,{name}", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed"]
        subprocess.run(["gcc", *options, code, *linked, "-o", target], check=True)
        return target

    return compile_library


def test_the_module_does_not_start_mpi(run: Run) -> None:
    assert run("print('mpi4py' in sys.modules)") == "False\n"


def test_the_default_is_found_once_and_described(run: Run) -> None:
    said = run("""
        library = blacs.load()
        assert blacs.available() and blacs.load() is library and blacs.load(library.path) is library
        assert library.vendor in ("netlib", "MKL") and library.missing == ()
        assert [library.entries.gridinfo(ctxt) for ctxt in (-1, 0, 7, 10**6)] == [(-1,) * 4] * 4
        print(*library.describe(), sep="\\n")
    """)
    assert re.match(
        r"ScaLAPACK: (netlib|MKL), /.+\nMPI: .+, /.+\nchosen: the first that loads among those that fit", said
    )


def test_other_files_are_other_libraries(run: Run, library: Compile) -> None:
    fake = library("libscalapack_fake.so", SCALAPACK)
    said = run(
        """
        fake = blacs.load(sys.argv[1])
        assert blacs.load(sys.argv[1]) is fake and blacs.load() is not fake and fake.path == sys.argv[1]
        print(*fake.describe(), sep="\\n")
        for call in (lambda: fake.entries.pnum(0, 0, 0), lambda: fake.entries.gridexit(0)):
            try:
                call()
            except LibraryError as error:
                print(error)
        """,
        fake,
    )
    assert "chosen: named by the argument path" in said
    assert "missing entry points: sys2blacs_handle_, " in said
    assert f"{fake} has no entry point blacs_pnum_: use a complete ScaLAPACK" in said
    assert f"{fake} has no entry point blacs_gridexit_" in said


def test_names_with_a_prefix(run: Run, library: Compile) -> None:
    fake = library("libprefixed.so", SCALAPACK.replace("pdgemr2d_", "other_pdgemr2d_"))
    said = run("print(refusal(sys.argv[1])); print(blacs.load(sys.argv[1], prefix='other_').path)", fake)
    assert "is no complete ScaLAPACK: it has no entry point pdgemr2d_" in said
    assert said.endswith(f"{fake}\n")


def test_a_path_that_is_not_there(run: Run) -> None:
    said = run("print(refusal('/no/where/libscalapack.so'))")
    assert "the argument path names /no/where/libscalapack.so, which cannot be used" in said
    assert "no such file" in said
    assert f"set {ENVIRONMENT} to the file of a ScaLAPACK built for" in said


def test_a_library_that_is_not_scalapack(run: Run) -> None:
    name = ctypes.util.find_library("m")
    said = run("print(refusal(sys.argv[1]))", name)
    assert f"{name} is no complete ScaLAPACK: it has no entry point blacs_gridinfo_" in said


def test_a_file_that_is_no_library(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "libscalapack.so"
    text.write_text("INPUT(elsewhere) " * 10)
    assert "invalid ELF header" in run("print(refusal(sys.argv[1]))", text)


def test_mkl_of_the_wrong_integers(run: Run) -> None:
    said = run("print(refusal('/opt/libmkl_scalapack_ilp64.so.2'))")
    assert "it counts in 64-bit integers (ILP64)" in said
    assert "the one with 32-bit integers is libmkl_scalapack_lp64.so.2" in said


@pytest.mark.parametrize("suffix", ["_64_", "64_"])
def test_a_library_with_64_bit_names(run: Run, library: Compile, suffix: str) -> None:
    fake = library("libwide.so", SCALAPACK.replace("pdgemr2d_", "pdgemr2d" + suffix))
    said = run("print(refusal(sys.argv[1]))", fake)
    assert f"{fake}: it counts in 64-bit integers (ILP64)" in said
    assert "use one that is built with 32-bit integers (LP64)" in said


@pytest.mark.parametrize(("integer", "refused"), [("long long", True), ("int", False)])
def test_a_library_of_64_bit_integers_with_ordinary_names(
    run: Run, library: Compile, integer: str, refused: bool
) -> None:
    count = f"{integer} numroc_({integer} *n, {integer} *b, {integer} *p, {integer} *s, {integer} *q)"
    fake = library("libquiet.so", f"{SCALAPACK} {count} {{ return *n / *q + (*p < *n % *q); }}")
    said = run("print(refusal(sys.argv[1]))", fake)
    assert said.startswith("no error: ") != refused, said
    assert ("it counts in 64-bit integers (ILP64)" in said) == refused, said


def test_mkl_with_its_64_bit_layer(run: Run) -> None:
    for layer in ("ILP64", "GNU,ILP64"):
        said = run("print(refusal('/opt/libmkl_scalapack_lp64.so.2'))", MKL_INTERFACE_LAYER=layer)
        assert f"MKL_INTERFACE_LAYER={layer} makes MKL count in 64-bit integers" in said
        assert "unset it, or set it to LP64" in said


def test_mkl_beside_a_64_bit_layer(run: Run, library: Compile) -> None:
    layer = library("libmkl_intel_ilp64.so.2", "int nothing;")
    script = "import ctypes; ctypes.CDLL(sys.argv[1]); print(refusal('/opt/libmkl_scalapack_lp64.so.2'))"
    assert "libmkl_intel_ilp64.so.2 is in the process: MKL counts in 64-bit" in run(script, layer)


def test_the_environment_variable(run: Run, library: Compile) -> None:
    fake = library("libscalapack_fake.so", SCALAPACK)
    said = run("print(blacs.load().path, blacs.load().reason)", **{ENVIRONMENT: str(fake)})
    assert said == f"{fake} named by the environment variable {ENVIRONMENT}\n"
    said = run("print(blacs.available(), refusal())", **{ENVIRONMENT: "/no/where.so"})
    assert said.startswith(f"False the environment variable {ENVIRONMENT} names /no/where.so, which cannot be used")


def test_nothing_is_found(run: Run) -> None:
    said = run("""
        from pyscalapack_redist.blacs import library
        library.NETLIB_NAMES = {mpi: ("libscalapack-nowhere.so",) for mpi in library.NETLIB_NAMES}
        library.ANY_NETLIB_NAMES, library.MKL_SUFFIXES = ("libscalapack.nowhere",), (".nowhere",)
        print(blacs.available(), refusal())
    """)
    assert said.startswith("False no ScaLAPACK found for ")
    for tried in ("libscalapack-nowhere.so", "libscalapack.nowhere", "libmkl_rt.nowhere"):
        assert f"\n  {tried}: cannot open shared object file" in said
    assert f"\n  {os.path.join(sys.prefix, 'lib', 'libmkl_rt.nowhere')}: no such file" in said
    assert re.search(
        r"\nRemedy: install the Debian package libscalapack-\w+-dev, or `pip install mkl`, or set PYSC", said
    )


def test_no_mpi(run: Run) -> None:
    said = run("sys.modules['mpi4py.MPI'] = None; print(blacs.available(), refusal())")
    assert said.startswith("False ScaLAPACK needs an MPI, and mpi4py cannot start one (")
    assert "openmpi-bin, or `pip install mpich`" in said


@pytest.mark.parametrize("indirect", [False, True])
def test_another_mpi(run: Run, library: Compile, indirect: bool) -> None:
    """It is refused, both MPIs are named, nothing of it stays, and MPI works on."""
    other = library("libmpi.so.99", "int MPI_Comm_rank() { return 0; }")
    uses = f"extern int MPI_Comm_rank(); {SCALAPACK} int rank() {{ return MPI_Comm_rank(); }}"
    named = library("libscalapack_other.so", uses, other)
    if indirect:
        named = library("libwrapper.so", "extern int rank(); int call() { return rank(); }", named)
    said = run(
        """
        print(refusal(sys.argv[1]))
        from mpi4py import MPI
        assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.Get_size() and not mapped("libmpi.so.99")
        library = blacs.load()
        ctxt = blacs.make_context(MPI.COMM_WORLD, (1, 1), [0])
        assert blacs.context_grid(ctxt, MPI.COMM_WORLD)[:2] == (1, 1)
        blacs.free_context(ctxt)
        """,
        named,
    )
    assert f"{named} is built for another MPI, {other if indirect else other.name}, than mpi4py runs on, " in said
    assert (
        "two MPIs cannot serve one process. Remedy: name the file of a ScaLAPACK, or none, for the one that is " in said
    )
    assert "found; where none is, install the Debian package libscalapack-" in said


def test_arguments_of_the_entry_points(run: Run) -> None:
    said = run("""
        import numpy as np
        entries, nine = blacs.load().entries, np.zeros(9, np.intc)
        calls = (
            lambda: entries.gemr2d("q", 1, 1, 0, 1, 1, nine, 0, 1, 1, nine, 0),
            lambda: entries.gemr2d("d", 1, 1, 0, 1, 1, nine[:8], 0, 1, 1, nine, 0),
            lambda: entries.trmr2d("d", "upper", "N", 1, 1, 0, 1, 1, nine, 0, 1, 1, nine, 0),
            lambda: entries.getrf("d", 1, 1, 0, 1, 1, nine, nine[:0]),
            lambda: entries.getrf("i", 1, 1, 0, 1, 1, nine, nine),
        )
        for call in calls:
            try:
                call()
            except (ValueError, LibraryError) as error:
                print(error)
    """)
    lines = said.splitlines()
    assert lines[:4] == [
        "kind = 'q' must be one of s, d, c, z, i",
        "desca has 8 integers; a ScaLAPACK descriptor has nine",
        "uplo = 'upper' must be a single letter",
        "pivots is empty; it needs LOCr(M) + MB entries",
    ]
    assert "has no entry point pigetrf_" in lines[4]


def test_file_names_of_libraries_are_in_one_module() -> None:
    for source in PACKAGE.rglob("*.py"):
        if source != PACKAGE / "blacs" / "library.py":
            assert not re.search(r"libscalapack|libmkl|libmpi", source.read_text()), source
