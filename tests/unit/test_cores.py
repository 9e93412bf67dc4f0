"""What the system tells of the last cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscalapack_redist.comm import cores


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
def test_a_system_that_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caches: list[tuple[str, str, str]]
) -> None:
    assert told(monkeypatch, tmp_path, caches) == cores.UNKNOWN
