"""Versions of the package that can be run: the working tree as ci/setup built it, and commits, each in a folder of its own.

A commit's environment has its own interpreter and sources, compiled in place. All else, mpi4py among it, is what the
working tree's environment has, so that both versions run on the same MPI.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
BUILD = CHECKOUT / "build/compare"
PACKAGE = "pyscalapack_redist"
CACHE = "PYSCALAPACK_REDIST_LAST_CACHE"  # a variable, in versions that know of it


class CompareError(Exception):
    """Versions cannot be compared."""


class Version(NamedTuple):
    """A version of the package: what it is called, its interpreter and its sources."""

    name: str
    python: Path
    tree: Path

    @property
    def package(self) -> Path:
        """The folder that it is imported from."""
        return self.tree / PACKAGE

    @property
    def reads_variable(self) -> bool:
        """Whether it takes the size of the last cache from `CACHE`."""
        return any(CACHE in path.read_text() for path in self.package.rglob("*.py"))


def working_tree() -> Version:
    """The checkout as it is.

    Raises
    ------
    CompareError
        What is compiled is older than its sources.
    """
    modules = [path.stat().st_mtime for path in (CHECKOUT / PACKAGE).rglob("*.so")]
    sources = [path.stat().st_mtime for path in [*(CHECKOUT / "cython").iterdir(), CHECKOUT / "setup.py"]]
    marker = CHECKOUT / "build/editable" / str(sys.implementation.cache_tag)
    done = max([*modules, marker.stat().st_mtime if marker.exists() else 0.0], default=0.0)
    if not modules or done < max(sources):
        raise CompareError("the working tree's compiled modules are missing or older than cython/: run ci/setup")
    changed = git("status", "--porcelain", "--", PACKAGE, "cython", "setup.py")
    name = git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    return Version(f"working tree ({name})", Path(sys.executable), CHECKOUT)


def built(commit: str) -> Version:
    """A commit's version, built unless it was before. Takes minutes.

    Raises
    ------
    CompareError
        There is no such commit, or it cannot be built.
    """
    full = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    folder = BUILD / full
    version = Version(git("rev-parse", "--short", full), folder / "venv/bin/python", folder / "tree")
    marker, environment = folder / "built", f"{sys.version}\n{sysconfig.get_path('purelib')}\n"
    if not marker.is_file() or marker.read_text() != environment:
        print(f"building {version.name} in {folder.relative_to(CHECKOUT)}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        unpack(full, version.tree)
        make_environment(folder / "venv", version.tree)
        compile_modules(version, folder / "log")
        marker.write_text(environment)
    return version


def unpack(commit: str, tree: Path) -> None:
    """Write the files of a commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(tree, filter="data")


def make_environment(venv: Path, tree: Path) -> None:
    """A virtual environment in which the tree comes before the packages of this one, whose own .pth files do not count."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    packages = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(venv)}))
    paths = dict.fromkeys([str(tree), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (packages / "compare.pth").write_text("".join(f"{path}\n" for path in paths))


def compile_modules(version: Version, log: Path) -> None:
    """Compile a version's modules beside its sources, as its own setup.py says."""
    line = [str(version.python), "setup.py", "build_ext", "--inplace"]
    with open(log, "w") as file:
        status = subprocess.run(line, cwd=version.tree, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode
    if status or not list(version.package.rglob("*.so")):
        raise CompareError(f"{version.name} cannot be built ({log}):\n{log.read_text()[-2000:]}")


def git(*words: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise CompareError(f"git {' '.join(words)} fails: {done.stderr.strip() or 'there is no such commit here'}")
    return done.stdout.strip()
