"""Text for the user where it cannot be written: nothing raises, and what can be written is."""

from __future__ import annotations

import ast
import logging
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

import pytest

import pyscalapack_redist
from pyscalapack_redist import diagnostics
from pyscalapack_redist.files import progress_bar
from pyscalapack_redist.tools import cli

PACKAGE = Path(pyscalapack_redist.__file__).parent
# At the end of a call, when no other rank waits; before a vote, which raises it on all ranks.
MAY_WARN = {"diagnostics.py", "linalg/call.py", "linalg/matrix_functions.py", "blacs/library.py"}
MAY_WRITE = {"diagnostics.py"}


def unwritable(kind: str) -> TextIO | None:
    if kind == "None":
        return None
    stream = open("/dev/full" if kind == "full" else "/dev/null", "w")  # noqa: SIM115 (the test ends with it)
    if kind == "closed":
        stream.close()
    return stream


@pytest.mark.parametrize("kind", ["full", "closed", "None"])
def test_standard_error_that_cannot_be_written(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", unwritable(kind))
    diagnostics.write_line("a rank is late")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnostics.warn("a rank is slow", RuntimeWarning)


def test_a_warning_that_is_an_error_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnostics.warn("a rank is slow", RuntimeWarning)
    assert capsys.readouterr().err == "RuntimeWarning: a rank is slow\n"
    with pytest.warns(RuntimeWarning, match="a rank is slow") as caught:
        diagnostics.warn("a rank is slow", RuntimeWarning)
    assert caught[0].filename == __file__


def test_a_handler_that_fails() -> None:
    class Fails(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError(28, "No space left on device")

    logger, handler = logging.getLogger("pyscalapack_redist.of_this_test"), Fails()
    logger.addHandler(handler)
    with pytest.raises(OSError, match="No space"):
        logger.error("a line")
    diagnostics.log(logger, logging.ERROR, "a line with %d", 1)


def test_a_bar_that_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_bar(stack: Any, *_: object) -> Any:
        stack.callback(unwritable("full").write, "x" * 10**6)  # type: ignore[union-attr]
        return lambda nbytes: 1 / 0

    monkeypatch.setattr(progress_bar, "_open_bar", open_bar)
    with progress_bar.progress_bar("save", "a.npy", 10, True) as advance:
        advance(10)


def test_output_of_the_command_line_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 goes on to the end of a benchmark, as the others do; the exit status tells."""
    after = []

    def run(_: object) -> int:
        print("x" * 10**6)
        after.append("the next case")
        return 0

    monkeypatch.setattr(cli, "run", run)
    monkeypatch.setattr(cli, "_finalize", lambda: None)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert (ended.value.code, after) == (2, ["the next case"])
    assert capsys.readouterr().err == (
        "pyscalapack-redist: error: the output cannot be written: No space left on device\n"
    )


def calls_of(tree: ast.AST) -> list[str]:
    """The functions that a module calls, as they are written."""
    return [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_all_text_goes_through_one_module(path: Path) -> None:
    name = str(path.relative_to(PACKAGE))
    called = calls_of(ast.parse(path.read_text()))
    levels = {f"LOGGER.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical", "log")}
    assert name in MAY_WRITE or not levels & {*called}
    assert name in MAY_WRITE or "sys.stderr.write" not in called
    assert name in MAY_WARN or "warnings.warn" not in called
