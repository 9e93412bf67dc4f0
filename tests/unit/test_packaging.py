"""What is built and shipped: modules that link no MPI and no ScaLAPACK, an sdist, a wheel that works anywhere, recipes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from packaging.requirements import Requirement

import pyscalapack_redist

pytestmark = pytest.mark.xdist_group("packaging")  # so that the fixture is made once
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(pyscalapack_redist.__file__).parent
SOURCES = sorted(path.stem for path in (ROOT / "cython").glob("*.pyx"))
# The place of each in the package.
MODULES = [name if name.startswith("_") else f"_kernels/{name}" for name in SOURCES]
COMPILED = [*MODULES, "_kernels/_cython"]  # the last one is Cython's own code, which the others share
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")
FOREIGN_LIBRARY = re.compile(r"mpi|scalapack|blacs|blas|lapack|mkl", re.IGNORECASE)
FOREIGN_SYMBOL = re.compile(r"P?MPI_|C?blacs_|C?p[sdczi]ge|[sdcz]gemm", re.IGNORECASE)
NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.so", "__pycache__")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_links_nothing_foreign(module: Path) -> None:
    with module.open("rb") as file:
        elf = ELFFile(file)
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        symbols = [s.name for s in elf.get_section_by_name(".dynsym").iter_symbols() if s["st_shndx"] == "SHN_UNDEF"]
    assert "libc.so.6" in needed
    assert not [library for library in needed if FOREIGN_LIBRARY.search(library)]
    assert not [symbol for symbol in symbols if FOREIGN_SYMBOL.match(symbol)]


def test_built_modules_link_nothing_foreign() -> None:
    for name in COMPILED:
        assert_links_nothing_foreign(PACKAGE / f"{name}{EXTENSION}")


def test_an_unbuilt_source_tree_says_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=NOT_SOURCES)
    command = [sys.executable, "-c", "import pyscalapack_redist"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the compiled module pyscalapack_redist._"), done.stderr
    assert f"is not in {tmp_path / PACKAGE.name}: in a source tree run `python setup.py build_ext --inplace`" in last


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({"setuptools": "68.1.2", "Cython": "3.10.1"}, "setuptools is 68.1.2"),
        ({"setuptools": "80.9.0", "Cython": "3.1.4"}, "Cython is 3.1.4"),
        ({}, "setuptools is not installed and Cython is not installed"),
        ({"setuptools": "77.0", "Cython": "3.2"}, None),
    ],
)
def test_a_build_without_what_it_needs_says_what_to_install(
    tmp_path: Path, versions: dict[str, str], problem: str | None
) -> None:
    """What setup.py writes where these versions are installed, by their names only, and nothing else is."""
    for name, version in versions.items():
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    code = "import sys; sys.path[:] = [sys.argv[1], *(p for p in sys.path if 'site-packages' not in p)]"
    # -S: without the environment in which the tests run
    command = [sys.executable, "-S", "-c", f"{code}; exec(open('setup.py').read())", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    if problem is None:
        assert last == "ModuleNotFoundError: No module named 'Cython'"
    else:
        assert last.startswith(f"pyscalapack_redist is built with setuptools>=77 and Cython>=3.2, but {problem}: run ")
        assert "`python -m pip install 'setuptools>=77' 'Cython>=3.2'`, or build with isolation" in last


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPES = {
    ROOT / "packaging/conda-forge/recipe.yaml": {"version": '  version: "{}"', "needs": "    - {name} >={least}"},
    ROOT / "packaging/spack/py_pyscalapack_redist/package.py": {
        "version": '    version("{}", sha256=',
        "needs": '    depends_on("py-{name}@{least}:", type=(',
    },
}


def test_recipes_have_the_version_and_the_least_versions_of_pyproject() -> None:
    assert pyscalapack_redist.__version__ == PROJECT["project"]["version"]
    for recipe, patterns in RECIPES.items():
        needs = patterns["needs"]
        lines = [patterns["version"].format(PROJECT["project"]["version"])]
        for requirement in PROJECT["project"]["dependencies"]:
            name, least = requirement.split(">=")
            lines.append(needs.format(name=name, least=least))
        for requirement in PROJECT["build-system"]["requires"]:
            name, least = requirement.lower().split(">=")
            lines.append(needs.partition(", type")[0].format(name=name, least=least))
        assert [line for line in lines if f"\n{line}" not in recipe.read_text()] == [], recipe


def test_the_easyconfig_has_the_version_of_pyproject_and_brings_what_it_needs() -> None:
    text = (ROOT / "packaging/easybuild/pyscalapack_redist.eb").read_text()
    recipe: dict[str, Any] = {"SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz"}  # a constant of EasyBuild's
    exec(text, recipe)
    project = PROJECT["project"]
    named = (recipe["name"], recipe["version"], recipe["homepage"])
    assert named == (project["name"], project["version"], project["urls"]["Homepage"])
    assert f"{project['name']}-{project['version']}-foss-{recipe['toolchain']['version']}.eb" in text
    in_bundles = re.findall(r"(\w+) (\d[\d.]*)", " ".join(re.findall(r"# with (.*)", text)))
    brought = {
        name.lower(): version for name, version in (*recipe["builddependencies"], *recipe["dependencies"], *in_bundles)
    }
    needs = [*project["dependencies"], *PROJECT["build-system"]["requires"], f"python{project['requires-python']}"]
    for need in map(Requirement, needs):
        assert need.specifier.contains(brought[need.name.lower()]), need


def test_scripts_can_be_parsed() -> None:
    scripts = [path for path in (ROOT / "ci").iterdir() if path.is_file() and b"python" not in path.read_bytes()[:40]]
    assert scripts
    for script in scripts:
        run("bash", "-n", script, cwd=ROOT)
    if shutil.which("shellcheck"):  # what others source is looked at there
        programs = [script for script in scripts if script.stat().st_mode & 0o111]
        run("shellcheck", "-x", "-s", "bash", "-P", "SCRIPTDIR", "-S", "warning", *programs, cwd=ROOT)


def test_a_row_takes_the_place_of_the_one_with_its_first_cell(tmp_path: Path) -> None:
    page, head, end = tmp_path / "page.md", "\n\n| Row | Result | Run on |\n|---|---|---|\n", "\n<!-- end -->\n"
    page.write_text(f"<!-- table -->{head}| b/2 | FAILED: info | DAY |\n| b/20 | passed | DAY |\n{end}")
    for name in ("b/2", "a/1"):
        run("ci/row", "table", name, "passed, without info", cwd=ROOT, PAGE=str(page))
    rows = ("| a/1 | passed, without info | DAY |", "| b/2 | passed, without info | DAY |", "| b/20 | passed | DAY |")
    written = re.sub(r"20\d\d-\d\d-\d\d", "DAY", page.read_text())
    assert written == "\n".join([f"<!-- table -->{head}{rows[0]}", *rows[1:], end])


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and a wheel made from it, on a machine without MPI compilers."""
    home = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT, home / "checkout", ignore=NOT_SOURCES, symlinks=True)
    tools = home / "tools"
    tools.mkdir()
    for folder in os.get_exec_path()[::-1]:  # the first on PATH last, so that it wins
        for tool in Path(folder).glob("*"):
            if not re.match(r"mpi|ompi|orte|opal", tool.name):
                (tools / tool.name).unlink(missing_ok=True)
                (tools / tool.name).symlink_to(tool)
    assert shutil.which("cc", path=str(tools))
    assert not shutil.which("mpicc", path=str(tools))
    # Without isolation: what building needs is among what the tests need, and nothing is downloaded.
    build = ("-m", "build", "--no-isolation", "--outdir", home / "dist")
    # Without optimisation, which takes most of the time and changes nothing of what is looked at here.
    run(sys.executable, *build, cwd=home / "checkout", PATH=str(tools), PYSCALAPACK_REDIST_OPTIONS="-O0")
    return home / "dist"


def only(dist: Path, pattern: str) -> Path:
    (found,) = dist.glob(pattern)
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
def test_sdist_holds_what_building_and_testing_need(dist: Path) -> None:
    with tarfile.open(only(dist, "*.tar.gz")) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    top = {"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "setup.py", "mkdocs.yml"}
    folders = ("cython/*.p[xy]*", "cython/*.h", "ci/*", "tests/*.py")
    files = {str(path.relative_to(ROOT)) for pattern in folders for path in ROOT.glob(pattern) if path.is_file()}
    assert top | files <= held
    assert not [name for name in held if name.endswith((".so", ".pyc"))]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_wheel_holds_what_using_needs(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, "*.whl")) as archive:
        held = set(archive.namelist())
        definitions = archive.read("pyscalapack_redist/_descriptor.pxd").decode()
    wanted = {"__init__.py", "py.typed", "_descriptor.pxd", "_kernels/ring.pxd"}
    wanted |= {f"{name}{EXTENSION}" for name in COMPILED} | {f"{name}.pyi" for name in MODULES}
    assert {f"pyscalapack_redist/{name}" for name in wanted} <= held
    assert not [name for name in held if not re.match(r"pyscalapack_redist[/-]", name)]
    assert definitions == (ROOT / "cython/_descriptor.pxd").read_text()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_wheel_works_outside_the_checkout(dist: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    wheel = only(dist, "*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    # A checkout on PYTHONPATH would be taken for the package to be replaced.
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path, PYTHONPATH="")
    # NumPy and the rest come from this environment; its link to the checkout does not work from PYTHONPATH.
    here = {"PYTHONPATH": sysconfig.get_path("purelib")}
    imports = "".join(f"; import pyscalapack_redist.{name.replace('/', '.')}" for name in COMPILED)
    code = f"import pyscalapack_redist as p{imports}; print(p.__path__[0])"
    folder = Path(run(python, "-c", code, cwd=tmp_path, **here).strip())
    assert folder.is_relative_to(tmp_path)
    for name in COMPILED:
        assert_links_nothing_foreign(folder / f"{name}{EXTENSION}")


CLIENT = """
from pyscalapack_redist._descriptor cimport NineIntegers, check, read

def rows_and_block(integers):
    cdef NineIntegers nine
    read(integers, &nine)
    check(&nine, 2, 3, -1)
    return nine.m, nine.mb
"""
PROGRAM = """
import client
assert client.rows_and_block([1, 0, 20, 30, 4, 5, 1, 2, 12]) == (20, 4)
try:
    client.rows_and_block([1, 0, 20, 30, 0, 5, 1, 2, 12])
except ValueError as caught:
    assert "MB = 0 must be at least 1" in str(caught), caught
else:
    raise AssertionError("MB = 0 was taken")
"""


@pytest.mark.long
def test_cython_code_of_others_can_cimport_the_nine_integers(tmp_path: Path) -> None:
    (tmp_path / "client.pyx").write_text(CLIENT)
    here = {"PYTHONPATH": str(PACKAGE.parent)}
    run(sys.executable, "-m", "Cython.Build.Cythonize", "-3", "-i", "client.pyx", cwd=tmp_path, **here)
    run(sys.executable, "-c", PROGRAM, cwd=tmp_path, **here)
