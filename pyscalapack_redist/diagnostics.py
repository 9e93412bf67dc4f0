"""Text that is no result: on standard error, in the log, as a warning. Nothing here raises: other ranks may wait meanwhile.

Standard error may be full, closed or None, a handler of the log may fail, and a warning may be an error (`-W error`).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings

from .errors import callers_level


def write_line(text: str) -> None:
    """Write a line on standard error, if that can be written."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def log(logger: logging.Logger, level: int, text: str, *values: object) -> None:
    """Log a text with `values` in place of its % fields, as `Logger.log` does."""
    with contextlib.suppress(Exception):
        logger.log(level, text, *values)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the calling line outside of this package. Where the warning is an error, write its text on standard error."""
    try:
        warnings.warn(text, category, stacklevel=callers_level())
    except Exception:
        write_line(f"{category.__name__}: {text}")
