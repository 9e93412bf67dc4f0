"""A plugin of pytest: tests that match a pattern of PYSCALAPACK_REDIST_FIRST, one on a line, come first, in that order."""

from __future__ import annotations

import fnmatch
import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    patterns = os.environ.get("PYSCALAPACK_REDIST_FIRST", "").splitlines()

    def place(item: pytest.Item) -> int:
        return next((k for k, pattern in enumerate(patterns) if fnmatch.fnmatch(item.nodeid, pattern)), len(patterns))

    items.sort(key=place)
