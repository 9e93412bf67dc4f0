"""Counts and costs of one slice that take no table of P x Q entries, for grids too large to write down.

From the uniformity of (q s - p r) mod g, g = gcd(P r, Q s): each multiple of d = gcd(r, s) below g belongs to P Q d / g
pairs (Desprez et al., Lemma 2 and Propositions 3 and 4).
"""

from __future__ import annotations

import math

__all__ = ["WITHOUT_TABLE", "cost_of_slice", "pairs_with_messages"]

WITHOUT_TABLE = ("caterpillar", "ring", "walker-otto", "classes")  # algorithms whose steps a formula tells


def pairs_with_messages(P: int, Q: int, r: int, s: int, shift: int = 0) -> int:
    """Pairs of processes that share anything of a slice. Not collective.

    Parameters
    ----------
    P, Q, r, s : int
        Processes and block sizes.
    shift : int
        Position of index 0 in the distribution before minus that after.
    """
    g, d = math.gcd(P * r, Q * s), math.gcd(r, s)
    return P * Q * d // g * _lengths(r, s, g, d, shift)


def _lengths(r: int, s: int, g: int, d: int, shift: int = 0) -> int:
    """Residues modulo g, of those that are the shift modulo d, whose messages are not empty."""
    return min(g // d, (r - 1 - shift) // d - (-s - shift) // d)


def cost_of_slice(name: str, P: int, Q: int, r: int, s: int) -> int | None:
    """Total cost of an algorithm for one slice, where it applies; None where there is no short formula. Not collective.

    For `classes` max(P, Q) d / g steps for each residue, whose lengths add up to r s / d; for `walker-otto` all that a
    process has.
    """
    if name == "classes":
        return max(P, Q) * r * s // math.gcd(P * r, Q * s)
    return max(r, s) if name == "walker-otto" else None
