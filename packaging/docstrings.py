"""What the site's parser does to the routines of ScaLAPACK: it completes their docstrings, as the package does on import."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import griffe

MODULE = "pyscalapack_redist.scalapack.routines"
SOURCE = Path(__file__).resolve().parent.parent / "pyscalapack_redist" / "scalapack" / "docstrings.py"
WRITTEN = 3  # place of the argument of `row`


def _complete() -> Any:
    specification = importlib.util.spec_from_file_location("docstrings", SOURCE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.complete


class Completed(griffe.Extension):
    """The docstrings of functions that `row` decorates."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Complete a docstring; griffe calls this."""
        if func.docstring is None or func.module.path != MODULE:
            return
        for decorator in func.decorators:
            call = ast.parse(str(decorator.value), mode="eval").body
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "row":
                written = ast.literal_eval(call.args[WRITTEN]) if len(call.args) > WRITTEN else "a"
                iterates = any(keyword.arg == "iterates" for keyword in call.keywords)
                names = [parameter.name for parameter in func.parameters]
                func.docstring.value = _complete()(func.docstring.value, names, written, iterates)
