"""Other people's Cython code can cimport the nine integers as a C struct."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyscalapack_redist

CODE = """
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
print("OK")
"""


def test_cython_code_can_cimport_the_descriptor(tmp_path: Path) -> None:
    (tmp_path / "client.pyx").write_text(CODE)
    root = str(Path(pyscalapack_redist.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    build = subprocess.run(
        [sys.executable, "-m", "Cython.Build.Cythonize", "-3", "-i", "client.pyx"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert build.returncode == 0, build.stdout + build.stderr
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.strip() == "OK", ran.stdout + ran.stderr
