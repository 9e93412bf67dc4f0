"""Rates as people write them."""

from __future__ import annotations

import pytest

from pyscalapack_redist import DescriptorError
from pyscalapack_redist.engine.memory import checked_memory
from pyscalapack_redist.tools.units import bytes_per_second


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50mbit", 6.25e6),
        ("100 Mbit/s", 12.5e6),
        ("10gbit", 1.25e9),
        ("1e3kbit", 125e3),
        ("6.25MB/s", 6.25e6),
        ("12GB/s", 12e9),
        ("8bit", 1.0),
        (" 2 tB/s ", 2e12),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert bytes_per_second(text) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "50",
        "50m",
        "mbit",
        "50 mbits",
        "50mb/s",
        "fast",
        "-1mbit",
        "0mbit",
        "1e999mbit",
        "nanmbit",
        "5,5mbit",
        "5MiB/s",
    ],
)
def test_what_is_no_rate_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="50mbit") as caught:
        bytes_per_second(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "size"),
    [(1, 1), ("64MiB", 2**26), ("64 mib", 2**26), ("1.5GB", 1_500_000_000), ("2e3", 2000), ("1GiB", 2**30), ("8B", 8)],
)
def test_a_limit_of_memory_may_be_a_text(limit: int | str, size: int) -> None:
    assert checked_memory(limit) == size


@pytest.mark.parametrize("limit", ["much", "", "64MB64", "0.5", "-1MiB", "64 M", "1e999", "0", 0, 2.0, None, b"64MiB"])
def test_what_is_no_amount_of_memory_is_refused(limit: object) -> None:
    with pytest.raises(DescriptorError, match=r"memory_limit = .* must be .*such as '64MiB'"):
        checked_memory(limit)
