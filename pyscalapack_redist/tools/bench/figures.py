"""Times, sizes and ratios in a form that people read."""

from __future__ import annotations

__all__ = ["ratio_text", "size_text", "time_text"]


def time_text(seconds: float) -> str:
    """Three digits and a unit, as 11.2 ms."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * unit:
            return f"{_three_digits(seconds / unit)} {name}"
    return f"{_three_digits(seconds * 1e6)} us"


def size_text(size: int | None) -> str:
    """Bytes in binary units, as 64.0 MiB; a question mark where it is not known."""
    if size is None:
        return "?"
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for name in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1023.95 or name == "GiB":
            break
    return f"{amount:.1f} {name}"


def ratio_text(value: float | None) -> str:
    """A ratio, as 1.05 or 12.3; a dash where there is none."""
    return "-" if value is None else _three_digits(value)


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
