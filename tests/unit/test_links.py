"""What is read of the machine: the file that says what messages between nodes cost, and the last cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyscalapack_redist as psr
from pyscalapack_redist.comm import node as cores
from pyscalapack_redist.comm.links import _read


def test_a_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text('{"latency": 2e-6, "rate": 12000000000}')
    assert _read(str(path)) == (str(path), 2e-6, 12e9)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        '{"latency": 0.5, "rate": -1}',
        '{"latency": NaN, "rate": 1}',
        pytest.param('{"latency": 1e200, "rate": 1e200}', id="infinite-product"),
        pytest.param("[" * 200_000, id="deep"),
        pytest.param(b"\xff\xfe\x00", id="not-text"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(text: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(psr.RedistributionError, match="PYSCALAPACK_REDIST_LINKS=") as refused:
        _read(str(path))
    assert '{"latency": 2e-6, "rate": 12e9} (seconds, bytes per second)' in str(refused.value)
    assert len(str(refused.value)) < 1000
    with pytest.raises(psr.RedistributionError, match="must name a JSON file such as"):
        _read(str(tmp_path / "none"))


def told(monkeypatch: pytest.MonkeyPatch, root: Path, caches: list[tuple[str, str, str]]) -> cores.LastCache:
    monkeypatch.setattr(cores, "CORES", root)
    for number, texts in enumerate(caches):
        place = root / f"cpu{min(cores.usable_cores())}" / "cache" / f"index{number}"
        place.mkdir(parents=True)
        for name, text in zip(("level", "size", "shared_cpu_list"), texts, strict=True):
            (place / name).write_text(text + "\n")
    return cores.last_cache.__wrapped__()


def test_the_last_level_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = told(monkeypatch, tmp_path, [("1", "32K", "0"), ("3", "32M", "0-3,8-11"), ("2", "1024K", "0,8")])
    assert found == (32 * 2**20, 8)
    assert [found.share(ranks) for ranks in (1, 4, 64)] == [32 * 2**20, 8 * 2**20, 4 * 2**20]


@pytest.mark.parametrize("caches", [[], [("3", "", "0")], [("3", "32768", "0-1")], [("3", "32M", "")]])
def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caches: Any) -> None:
    assert told(monkeypatch, tmp_path, caches) == cores.UNKNOWN
