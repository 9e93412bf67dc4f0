"""The memory that a process can still take, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscalapack_redist.comm import free_memory

MEMINFO = "MemTotal:       100 kB\nMemFree:        10 kB\nMemAvailable:   80 kB\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of /proc and /sys/fs/cgroup."""
    monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(free_memory, "MOUNT", tmp_path / "mount")
    (tmp_path / "meminfo").write_text(MEMINFO)
    return tmp_path


def write_group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{text}\n")


def test_of_the_machine(kernel: Path) -> None:
    assert free_memory.free_memory() == 80 * 1024
    (kernel / "own").write_text("0::/job\n")
    write_group(kernel / "mount" / "job", memory_max="max", memory_current=5, memory_stat="inactive_file 0\nactive_file 0")
    assert free_memory.free_memory() == 80 * 1024, "a group without a limit"
    (kernel / "meminfo").unlink()
    assert free_memory.free_memory() == 0


def test_of_a_group_or_one_around_it(kernel: Path) -> None:
    (kernel / "own").write_text("0::/job/step\n")
    write_group(kernel / "mount/job", memory_max=5000, memory_current=3000, memory_stat="inactive_file 200\nactive_file 300")
    write_group(kernel / "mount/job/step", memory_max="max", memory_current=2000, memory_stat="inactive_file 1\nactive_file 0")
    assert free_memory.free_memory() == 2000 + 200 + 300
    write_group(kernel / "mount/job/step", memory_max=2100)
    assert free_memory.free_memory() == 101
    write_group(kernel / "mount/job/step", memory_current=9000)
    assert free_memory.free_memory() == 0


STAT = "total_inactive_file 30\ntotal_active_file 10"


def test_of_groups_of_version_1(kernel: Path) -> None:
    (kernel / "own").write_text("5:cpu,cpuacct:/other\n4:memory:/job\n")
    files = {"memory_limit_in_bytes": 900, "memory_usage_in_bytes": 300, "memory_stat": STAT}
    write_group(kernel / "mount/memory/job", **files)
    write_group(kernel / "mount/memory/other", **{**files, "memory_limit_in_bytes": 301})
    assert free_memory.free_memory() == 600 + 30 + 10


def test_of_this_machine() -> None:
    assert 2**20 < free_memory.free_memory() < 2**60
