"""Finding, loading and refusing libraries, in processes of their own, which may load what they like."""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from launch import run

import pyscalapack_redist

PACKAGE = Path(pyscalapack_redist.__file__).parent
ENVIRONMENT = "PYSCALAPACK_REDIST_LIBRARY"
SCALAPACK = "int pdgemr2d_() { return 0; } int blacs_gridinit_() { return 0; } int blacs_gridinfo_() { return 0; }"
COUNTS = "{0} numroc_({0} *n, {0} *b, {0} *p, {0} *s, {0} *q) {{ return *n / *q + (*p < *n % *q); }}"
OPENBLAS = 'const char *openblas_get_{}(void) {{ return "{}"; }}'
SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {  # of each library, and what it links
    "fake": (SCALAPACK, ()),
    "prefixed": (SCALAPACK.replace("pdgemr2d_", "other_pdgemr2d_"), ()),
    "wide_64_": (SCALAPACK.replace("pdgemr2d_", "pdgemr2d_64_"), ()),
    "wide64_": (SCALAPACK.replace("pdgemr2d_", "pdgemr2d64_"), ()),
    "counts64": (SCALAPACK + COUNTS.format("long long"), ()),
    "counts32": (SCALAPACK + COUNTS.format("int"), ()),
    "nehalem": (SCALAPACK + OPENBLAS.format("corename", "Nehalem") + OPENBLAS.format("config", "0.3 DYNAMIC_ARCH"), ()),
    "nehalem_alone": (
        SCALAPACK + OPENBLAS.format("corename", "Nehalem") + OPENBLAS.format("config", "0.3 Nehalem"),
        (),
    ),
    "zen": (SCALAPACK + OPENBLAS.format("corename", "Zen"), ()),
    "mkl_intel_ilp64": ("int nothing;", ()),
    "mpi": ("int MPI_Comm_rank() { return 0; }", ()),
    "other": (f"extern int MPI_Comm_rank(); {SCALAPACK} int rank() {{ return MPI_Comm_rank(); }}", ("mpi",)),
    "wrapper": (f"extern int rank(); {SCALAPACK} int call() {{ return rank(); }}", ("other",)),
}
PREAMBLE = """
import json, os, sys
from pyscalapack_redist import LibraryError, blacs
from pyscalapack_redist.blacs import library

files = json.loads(sys.argv[1])

def refusal(path=None, **keywords):
    try:
        return f"no error: {blacs.load(path, **keywords).path}"
    except LibraryError as error:
        return str(error)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The libraries, compiled, by their names."""
    folder = tmp_path_factory.mktemp("libraries")
    made: dict[str, str] = {}
    for name, (source, linked) in SOURCES.items():
        suffix = {"mkl_intel_ilp64": "so.2", "mpi": "so.99"}.get(name, "so")
        target, code = folder / f"lib{name}.{suffix}", folder / f"{name}.c"
        code.write_text(source)
        options = ["-shared", "-fPIC", f"-Wl,-soname,{target.name}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed"]
        others = [made[other] for other in linked]
        subprocess.run(["gcc", *options, code, *others, "-o", target], check=True)
        made[name] = str(target)
    text = folder / "libscalapack.so"
    text.write_text("INPUT(elsewhere) " * 10)
    return {**made, "text": str(text), "maths": ctypes.util.find_library("m") or ""}


def answers(script: str, files: dict[str, str], **variables: str) -> dict[str, str]:
    """What a script prints with `files` and `refusal`."""
    kept = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), json.dumps(files)],
        env={**kept, "PYTHONPATH": str(PACKAGE.parent), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_is_refused(files: dict[str, str]) -> None:
    said = answers(
        """
        assert 'mpi4py' not in sys.modules, 'the module starts MPI'
        sys.modules['mpi4py.MPI'] = None
        said = {'no mpi': refusal()}
        assert not blacs.available()
        del sys.modules['mpi4py.MPI']
        os.environ['PYSCALAPACK_REDIST_LIBRARY'] = '/no/where.so'
        said['environment'] = refusal()
        del os.environ['PYSCALAPACK_REDIST_LIBRARY']
        kept = library.NETLIB_NAMES, library.ANY_NETLIB_NAMES, library.MKL_SUFFIXES
        library.NETLIB_NAMES = {mpi: ('libscalapack-nowhere.so',) for mpi in library.NETLIB_NAMES}
        library.ANY_NETLIB_NAMES, library.MKL_SUFFIXES = ('libscalapack.nowhere',), ('.nowhere',)
        said['nothing'] = refusal()
        assert not blacs.available()
        library.NETLIB_NAMES, library.ANY_NETLIB_NAMES, library.MKL_SUFFIXES = kept
        said['missing'] = refusal('/no/where/libscalapack.so')
        said['ilp64'] = refusal('/opt/libmkl_scalapack_ilp64.so.2')
        for layer in 'ILP64', 'GNU,ILP64':
            os.environ['MKL_INTERFACE_LAYER'] = layer
            said[layer] = refusal('/opt/libmkl_scalapack_lp64.so.2')
        del os.environ['MKL_INTERFACE_LAYER']
        said |= {name: refusal(files[name]) for name in files if not name.startswith(('mpi', 'mkl'))}
        said['by prefix'] = refusal(files['prefixed'], prefix='other_')
        # Of another MPI nothing stays, and MPI works on.
        from mpi4py import MPI
        assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.Get_size()
        assert not any('libmpi.so.99' in line for line in open('/proc/self/maps'))
        ctxt = blacs.make_context(MPI.COMM_WORLD, (1, 1), [0])
        assert blacs.context_grid(ctxt, MPI.COMM_WORLD)[:2] == (1, 1)
        blacs.free_context(ctxt)
        import ctypes
        ctypes.CDLL(files['mkl_intel_ilp64'])
        said['beside'] = refusal('/opt/libmkl_scalapack_lp64.so.2')
        print(json.dumps(said))
        """,
        files,
    )
    wide = "it counts in 64-bit integers (ILP64)"
    expected = {
        "no mpi": ["^ScaLAPACK needs an MPI, and mpi4py cannot start one (", "openmpi-bin, or `pip install mpich`"],
        "environment": [f"^the environment variable {ENVIRONMENT} names /no/where.so, which cannot be used"],
        "nothing": [
            "^no ScaLAPACK found for ",
            *(
                f"\n  {tried}: cannot open shared object file"
                for tried in ("libscalapack-nowhere.so", "libscalapack.nowhere", "libmkl_rt.nowhere")
            ),
            f"\n  {os.path.join(sys.prefix, 'lib', 'libmkl_rt.nowhere')}: no such file",
            "\nRemedy: install the Debian package libscalapack-",
            f"or `pip install mkl`, or set {ENVIRONMENT} to the file",
        ],
        "missing": [
            "the argument path names /no/where/libscalapack.so, which cannot be used",
            "no such file",
            f"set {ENVIRONMENT} to the file of a ScaLAPACK built for",
        ],
        "ilp64": [wide, "the one with 32-bit integers is libmkl_scalapack_lp64.so.2"],
        "ILP64": ["MKL_INTERFACE_LAYER=ILP64 makes MKL count in 64-bit integers", "unset it, or set it to LP64"],
        "GNU,ILP64": ["MKL_INTERFACE_LAYER=GNU,ILP64 makes MKL count in 64-bit integers"],
        "beside": ["libmkl_intel_ilp64.so.2 is loaded in this process: MKL counts in 64-bit"],
        "maths": [f"{files['maths']} is no complete ScaLAPACK: it has no entry point blacs_gridinfo_"],
        "text": ["invalid ELF header"],
        "prefixed": ["is no complete ScaLAPACK: it has no entry point pdgemr2d_"],
        "by prefix": [f"^no error: {files['prefixed']}"],
        "wide_64_": [f"{files['wide_64_']}: {wide}", "use one that is built with 32-bit integers (LP64)"],
        "wide64_": [f"{files['wide64_']}: {wide}"],
        "counts64": [wide],
        **{name: ["^no error: "] for name in ("counts32", "fake", "nehalem", "nehalem_alone", "zen")},
        "other": [
            f"{files['other']} is built for another MPI, libmpi.so.99, than mpi4py runs on, ",
            "two MPIs cannot serve one process. Remedy: name the file of a ScaLAPACK, or none to search for one",
            "; if there is none, install the Debian package libscalapack-",
        ],
        "wrapper": [f"{files['wrapper']} is built for another MPI, {files['mpi']}, than mpi4py runs on, "],
    }
    assert set(said) == set(expected)
    for name, texts in expected.items():
        for text in texts:
            assert said[name].startswith(text[1:]) if text[0] == "^" else text in said[name], (name, said[name])


def test_what_is_found(files: dict[str, str]) -> None:
    said = answers(
        """
        import numpy as np
        default = blacs.load()
        assert blacs.available() and blacs.load() is default and blacs.load(default.path) is default
        assert default.vendor in ('netlib', 'MKL') and default.missing == ()
        assert [default.entries.gridinfo(ctxt) for ctxt in (-1, 0, 7, 10**6)] == [(-1,) * 4] * 4
        fake = blacs.load(files['fake'])
        assert blacs.load(files['fake']) is fake and blacs.load() is not fake and fake.path == files['fake']
        nine = np.zeros(9, np.intc)
        entries, calls = default.entries, {}
        calls['pnum'] = lambda: fake.entries.pnum(0, 0, 0)
        calls['gridexit'] = lambda: fake.entries.gridexit(0)
        calls['kind'] = lambda: entries.gemr2d('q', 1, 1, 0, 1, 1, nine, 0, 1, 1, nine, 0)
        calls['desca'] = lambda: entries.gemr2d('d', 1, 1, 0, 1, 1, nine[:8], 0, 1, 1, nine, 0)
        calls['uplo'] = lambda: entries.trmr2d('d', 'upper', 'N', 1, 1, 0, 1, 1, nine, 0, 1, 1, nine, 0)
        calls['pivots'] = lambda: entries.getrf('d', 1, 1, 0, 1, 1, nine, nine[:0])
        calls['getrf'] = lambda: entries.getrf('i', 1, 1, 0, 1, 1, nine, nine)
        said = {'default': '\\n'.join(default.describe()), 'fake': '\\n'.join(fake.describe())}
        for name, call in calls.items():
            try:
                call()
            except (ValueError, LibraryError) as error:
                said[name] = str(error)
        print(json.dumps(said))
        """,
        files,
    )
    described = r"ScaLAPACK: (netlib|MKL), /.+\nMPI: .+, /.+\nchosen: the first that loads among those that fit"
    assert re.match(described, said["default"])
    assert "chosen: named by the argument path" in said["fake"]
    assert "missing entry points: sys2blacs_handle_, " in said["fake"]
    assert f"{files['fake']} has no entry point blacs_pnum_: use a complete ScaLAPACK" in said["pnum"]
    assert f"{files['fake']} has no entry point blacs_gridexit_" in said["gridexit"]
    assert said["kind"] == "kind = 'q' must be one of s, d, c, z, i"
    assert said["desca"] == "desca has 8 integers; a ScaLAPACK descriptor has nine"
    assert said["uplo"] == "uplo = 'upper' must be a single letter"
    assert said["pivots"] == "pivots is empty; it needs LOCr(M) + MB entries"
    assert "has no entry point pigetrf_" in said["getrf"]


def test_the_environment_variable(files: dict[str, str]) -> None:
    script = "print(json.dumps([blacs.load().path, blacs.load().reason]))"
    said = answers(script, files, **{ENVIRONMENT: files["fake"]})
    assert said == [files["fake"], f"named by the environment variable {ENVIRONMENT}"]


def test_kernels_for_another_processor(files: dict[str, str], tmp_path: Path) -> None:
    avx512 = "avx512f avx512cd avx512bw avx512dq avx512vl"
    processors = {"intel": "avx2", "amd": f"AuthenticAMD avx2 {avx512}", "wide": f"avx2 {avx512}", "old": "avx"}
    for name, words in processors.items():
        (tmp_path / name).write_text(f"flags : {words}\n\nflags : other\n")
    script = (
        f"folder = {str(tmp_path)!r}"
        + """
from pyscalapack_redist.blacs import library as kernels
said = {}
for processor in "intel", "amd", "wide", "old", "nowhere":
    kernels.PROCESSOR = f"{folder}/{processor}"
    for name in "nehalem", "nehalem_alone", "zen", "fake":
        said[f"{processor} {name}"] = kernels.kernel_advice(blacs.load(files[name]))
print(json.dumps({case: advice for case, advice in said.items() if advice}))
"""
    )
    said = answers(script, files)
    remedies = {"intel": "Haswell", "amd": "Zen", "wide": "SkylakeX"}
    assert set(said) == {f"{processor} {name}" for processor in remedies for name in ("nehalem", "nehalem_alone")}
    for processor, remedy in remedies.items():
        advice = said[f"{processor} nehalem"]
        assert advice.startswith(
            f"the BLAS beneath ScaLAPACK, {files['nehalem']}, runs kernels for Nehalem, without AVX2"
        )
        assert advice.endswith(f"; set OPENBLAS_CORETYPE={remedy} in the environment of all ranks, before they start")
        assert said[f"{processor} nehalem_alone"].endswith("use one that is built with DYNAMIC_ARCH")


KERNELS = """
import json, warnings
import numpy as np
import pyscalapack_redist as psr
from mpi4py import MPI
from pyscalapack_redist.blacs.library import kernel_name

desc, said = psr.Descriptor((4, 4), 2, psr.ProcessGrid((2, 1), MPI.COMM_WORLD)), []
a = psr.DistributedArray.from_function(desc, np.equal, float)
for action in ("error", "always", "always"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        try:
            psr.linalg.det(a, layout=desc)
        except (RuntimeWarning, psr.CollectiveError) as error:
            said.append(f"{type(error).__name__}: {error}")
        said += [f"warned in {warning.filename}: {warning.message}" for warning in caught]
replies = MPI.COMM_WORLD.gather(said)
if replies is not None:
    print(json.dumps([kernel_name(psr.blacs.load()), *replies]))
"""


@pytest.mark.skipif("avx2" not in Path("/proc/cpuinfo").read_text(), reason="the processor has no AVX2")
def test_linalg_warns_of_kernels_once_on_one_rank(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(KERNELS)
    kernels, first, second = json.loads(run(program, 2, env={"OPENBLAS_CORETYPE": "Prescott"}).stdout)
    if kernels is None:
        pytest.skip("the BLAS is no OpenBLAS")
    advice = r"the BLAS .*, runs kernels for Prescott, .* set OPENBLAS_CORETYPE=\w+ in the environment of all ranks"
    assert [len(first), len(second)] == [2, 1], (first, second)
    assert re.match(f"RuntimeWarning: {advice}", first[0])
    assert re.match(f"warned in {program}: {advice}", first[1])
    assert re.match(f"CollectiveError: .*{advice}", second[0])


def test_file_names_of_libraries_are_in_one_module() -> None:
    for source in PACKAGE.rglob("*.py"):
        if source != PACKAGE / "blacs" / "library.py":
            assert not re.search(r"libscalapack|libmkl|libmpi", source.read_text()), source
