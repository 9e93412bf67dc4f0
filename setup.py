"""The compiled modules. They link neither MPI nor ScaLAPACK; the rest of the metadata is in pyproject.toml."""

import contextlib
import importlib.metadata
import os
import re
import shlex
import sys
import time
import tomllib
from pathlib import Path


def check_build_requirements() -> None:
    """End the build with what to install where something is missing or too old, as it may be without build isolation."""
    required = tomllib.loads(Path("pyproject.toml").read_text())["build-system"]["requires"]
    problems = []
    for name, least in (requirement.split(">=") for requirement in required):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} is not installed")
            continue
        if [int(n) for n in re.findall(r"\d+", found)][:2] < [int(n) for n in least.split(".")]:
            problems.append(f"{name} is {found}")
    if problems:
        wanted = " ".join(f"'{requirement}'" for requirement in required)
        raise SystemExit(
            f"pyscalapack_redist is built with {' and '.join(required)}, but {' and '.join(problems)}: run "
            f"`python -m pip install {wanted}`, or build with isolation (pip install without --no-build-isolation)"
        )


check_build_requirements()
from Cython.Build import cythonize  # noqa: E402
from setuptools import Extension, setup  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402

PACKAGE = "pyscalapack_redist"
MODULES = sorted(path.stem for path in Path("cython").glob("*.pyx"))
# Cython's own code for views of memory is compiled once, in this module, and not once more in each that has some.
SHARED = f"{PACKAGE}._kernels._cython"
# Without contraction sums have the same bits on every processor, and whichever loop adds an element. What Python adds for
# debuggers takes a quarter of the time to compile.
OPTIONS = shlex.split(
    os.environ.get("PYSCALAPACK_REDIST_OPTIONS", "-O3 -g0 -ffp-contract=off")
)  # others for ci/sanitize
DIRECTIVES = {"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True}


class BuildModules(build_ext):
    """Translates modules only where they are compiled: metadata and an sdist need none of that.

    `pip -v` shows all that is said. Without it pip shows nothing of a build, so what takes long is said to the terminal, if
    there is one.
    """

    def run(self) -> None:
        self.started, self.done = time.monotonic(), 0
        self.say(f"translating {len(self.extensions)} modules to C", terminal=True)
        translated = cythonize(
            self.extensions,
            force=self.force,
            nthreads=len(os.sched_getaffinity(0)),
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            build_dir="build/cython",
        )
        by_name = {extension.name: extension for extension in translated}
        for extension in self.extensions:
            extension.sources = by_name[extension.name].sources
            extension.depends = by_name[extension.name].depends
        self.say("compiling them, which takes a minute or two", terminal=True)
        super().run()

    def build_extension(self, extension: Extension) -> None:
        super().build_extension(extension)
        self.done += 1
        self.say(f"{self.done} of {len(self.extensions)} modules compiled, the last one {extension.name}")

    def say(self, text: str, terminal: bool = False) -> None:
        line = f"{PACKAGE}: {text} ({time.monotonic() - self.started:.0f} s)"
        print(line, flush=True)
        if terminal and not sys.stdout.isatty():
            with contextlib.suppress(OSError), open("/dev/tty", "w") as shown:
                shown.write(f"\r{line}\n")


def extension(name: str, source: str) -> Extension:
    return Extension(
        name,
        [source],
        include_dirs=["cython"],
        depends=[str(path) for path in Path("cython").glob("*.h")],
        extra_compile_args=[*OPTIONS, "-pthread"],
        extra_link_args=[*OPTIONS, "-pthread"],
    )


setup(
    cmdclass={"build_ext": BuildModules},
    ext_modules=[
        *(extension(f"{PACKAGE}.{n if n.startswith('_') else f'_kernels.{n}'}", f"cython/{n}.pyx") for n in MODULES),
        extension(SHARED, "cython/_cython.c"),  # which Cython writes
    ],
    options={"build_ext": {"parallel": True}},
)
