"""The file that says what messages between nodes cost: whatever is in it, it is read or refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscalapack_redist.comm.links import _read


def test_a_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text('{"latency": 2e-6, "rate": 12000000000}')
    assert _read(str(path)) == (str(path), None, 2e-6, 12e9)


@pytest.mark.parametrize(
    "text",
    [
        "fast",
        "null",
        "[1, 2]",
        '{"latency": 0.5}',
        '{"latency": 0.5, "rate": -1}',
        '{"latency": NaN, "rate": 1}',
        '{"latency": {}, "rate": 1}',
        pytest.param(f'{{"latency": 0, "rate": {"9" * 400}}}', id="400-digits"),
        pytest.param(f'{{"latency": {"9" * 5000}, "rate": 1}}', id="5000-digits"),
        pytest.param('{"latency": 1e200, "rate": 1e200}', id="infinite-product"),
        pytest.param("[" * 200_000, id="deep"),
        pytest.param(b"\xff\xfe\x00", id="not-text"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(text: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused = _read(str(path))[1]
    assert refused is not None
    assert "PYSCALAPACK_REDIST_LINKS=" in refused
    assert '{"latency": 2e-6, "rate": 12e9} (seconds, bytes per second)' in str(refused)
    assert len(str(refused)) < 1000


def test_a_missing_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "must name a JSON file such as" in str(_read(str(tmp_path / "none"))[1])
