"""That nothing is missing: a row for each public call that is collective or takes arrays, and for each threshold."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from circumstances import NO_THRESHOLDS, THRESHOLDS
from operations import OPERATIONS

import pyscalapack_redist as psr
from pyscalapack_redist.engine.transfer import Transfer
from pyscalapack_redist.layout.array_arithmetic import Distributed

PACKAGE = Path(psr.__file__).parent
COLLECTIVE = re.compile(r"(?<![Nn]ot )\b[Cc]ollective\b(?! there)")
# Public calls that are neither collective nor take arrays.
WITHOUT_ARRAYS = {"relabel", "relabel_report", "timings", "trace", "linalg.check_layout", "linalg.layout_for"}
# Methods of arrays that only look at them, and those of other rows.
OF_OTHER_ROWS = {
    "DistributedArray.from_function", "DistributedArray.__neg__", "DistributedArray.__pos__", "DistributedArray.__abs__",
    "DistributedArray.__invert__", "DistributedArray.__matmul__", "DistributedArray.__repr__", "DistributedArray.__bool__",
    "DistributedArray.__contains__", "DistributedArray.__iter__", "DistributedArray.__rdivmod__",
    "DistributedArray.__array__", "DistributedArray.__array_ufunc__", "DistributedArray.__array_function__",
    "DistributedArray.__init__", "DistributedArray.__getattr__", "DistributedArray.local", "DistributedArray.own",
    "DistributedArray.desc", "DistributedArray.shape", "DistributedArray.size", "DistributedArray.ndim",
    "DistributedArray.dtype", "DistributedArray.__hash__", "DistributedArray.__getstate__",
    "Transfer.call_again",  # of the engine
}  # fmt: skip
# Packages with thresholds that depend on the size of an array.
CONCERNED = ("comm", "engine", "exchanges", "files", "layout", "linalg", "scalapack")


def is_collective(thing: Any) -> bool:
    text = (inspect.getdoc(thing) or "").partition("\n---")[0]
    return COLLECTIVE.search(" ".join(text.split())) is not None


def members(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        actual = getattr(member, "__func__", member)
        if inspect.isfunction(actual) or isinstance(member, property):
            yield name, actual


def public_calls() -> Iterator[str]:
    """All of which there has to be a row."""
    for module, prefix in ((psr, ""), (psr.linalg, "linalg."), (psr.scalapack, "scalapack."), (psr.blacs, "blacs.")):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) and (prefix != "blacs." or is_collective(thing)):
                yield prefix + name
            elif inspect.isclass(thing) and thing is not psr.DistributedArray:
                yield from (
                    f"{name}.{inner}" for inner, member in members(thing) if is_collective(member) and shown(inner)
                )
    for kind in (Distributed, psr.DistributedArray):
        for name, _ in members(kind):
            if shown(name) or (name.startswith("__") and not name.startswith("__r")):
                yield f"DistributedArray.{name}"
    yield from (f"Transfer.{name}" for name, member in members(Transfer) if is_collective(member) and shown(name))


def shown(name: str) -> bool:
    return not name.startswith("_") or name in ("__call__", "__getitem__", "__setitem__")


def constants() -> Iterator[str]:
    """Numbers that are constants of modules."""
    for package in CONCERNED:
        for path in (PACKAGE / package).rglob("*.py"):
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            for node in ast.parse(path.read_text()).body:
                targets = (
                    node.targets
                    if isinstance(node, ast.Assign)
                    else [node.target]
                    if isinstance(node, ast.AnnAssign)
                    else []
                )
                value = getattr(node, "value", None)
                for target in targets:
                    if isinstance(target, ast.Name) and target.id.isupper() and value is not None and is_number(value):
                        yield f"{module}.{target.id}"


def is_number(value: ast.AST) -> bool:
    try:
        found = eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {}})  # type: ignore[arg-type]
    except Exception:
        return False
    numbers = found if isinstance(found, tuple) else (found,)
    return bool(numbers) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers)


def main() -> None:
    rows = {name.split(" ")[0] for name in OPERATIONS}
    missing = {*public_calls()} - rows - WITHOUT_ARRAYS - OF_OTHER_ROWS
    assert not missing, f"no row of OPERATIONS: {sorted(missing)}"
    found = {*constants()}
    known = {*THRESHOLDS, *itertools.chain(*NO_THRESHOLDS.values())}
    assert not found - known, f"no row of THRESHOLDS: {sorted(found - known)}"
    assert not known - found, f"no constants: {sorted(known - found)}"
    print("OK")


if __name__ == "__main__":
    main()
