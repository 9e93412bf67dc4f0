"""Compile the modules that a file of cython/ is part of, as setup.py does it, in the current folder.

Usage: python compiling.py FILE
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import setuptools

FOLDER = Path("cython")


def parts(name: str, known: set[str]) -> set[str]:
    """The files that one of cython/ is made of, itself among them: headers, declarations and what these name in turn."""
    if name in known or not (FOLDER / name).is_file():
        return known
    known.add(name)
    text = (FOLDER / name).read_text()
    names = set(re.findall(r'(?:cdef extern from|#include|include) "([^"]+)"', text))
    names |= {f"{module}.pxd" for module in re.findall(r"from \.?(\w+) cimport", text)}
    if name.endswith(".pyx"):
        names.add(f"{Path(name).stem}.pxd")
    for other in names:
        parts(other, known)
    return known


def main(file: str) -> None:
    whole = setuptools.setup

    def setup(*, ext_modules: list[setuptools.Extension], **rest: Any) -> None:
        chosen = [e for e in ext_modules if any(file in parts(Path(s).name, set()) for s in e.sources)]
        assert chosen, f"no module has a part {file}"
        print("compiling", *[extension.name for extension in chosen])
        whole(ext_modules=chosen, **rest)

    setuptools.setup = setup
    sys.argv[:] = ["setup.py", "build_ext", "--inplace", "--force"]
    sys.path.insert(0, "")
    runpy.run_path("setup.py", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
