"""docs/api.md says what the docstrings say, and every public name says what it is and whether it is collective."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pyscalapack_redist as psr

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_api.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_functions_say_whether_they_are_collective() -> None:
    silent = []
    for name in psr.__all__:
        thing = getattr(psr, name)
        inner = vars(thing).items() if inspect.isclass(thing) and not issubclass(thing, Exception) else []
        for where, member in [(name, thing), *((f"{name}.{k}", v) for k, v in inner)]:
            short = where.rsplit(".", 1)[-1]
            actual = member.__func__ if isinstance(member, classmethod) else member
            if (
                inspect.isfunction(actual)
                and not short.startswith("_")
                and "ollective" not in (inspect.getdoc(actual) or "")
            ):
                silent.append(where)
    assert not silent
