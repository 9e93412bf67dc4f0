"""Names and modules that are imported when they are first asked for, so that what few programs use costs none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazily(namespace: dict[str, Any], where: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. Not collective.

    Parameters
    ----------
    namespace : dict
        The package's `globals()`, in which what was asked for is kept.
    where : mapping
        For each name the module within the package; its own name for a module.
    """
    package = namespace["__name__"]

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{where[name]}")
        value = namespace[name] = module if where[name] == name else getattr(module, name)
        return value

    return get


def load_above(module: str) -> ModuleType:
    """A module of this package that is above the caller's, for methods whose work is done there.

    The contracts of imports do not see such a use: `tests/unit/test_rules.py` lists them.
    """
    return importlib.import_module(f"{__package__}.{module}")
