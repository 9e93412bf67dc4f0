"""Sizes beyond 32-bit integers, on machines that have room for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import run

GIB = 2**30
NEEDED = 16 * GIB


def free_memory() -> int:
    """Bytes that programs can still have without swapping."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


@pytest.mark.long
def test_more_than_two_to_the_31_elements_and_bytes() -> None:
    free = free_memory()
    if free < NEEDED:
        pytest.skip(
            f"NOT RUN: sizes beyond 2^31 are UNTESTED here: {free / GIB:.1f} GiB are free, {NEEDED // GIB} are needed"
        )
    done = run(Path(__file__).parent / "programs" / "large.py", 2, timeout=280, alone=True)
    assert done.stdout.endswith("OK\n")
