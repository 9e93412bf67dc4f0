"""Rates as people write them."""

from __future__ import annotations

import pytest

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
