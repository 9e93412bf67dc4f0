"""What a matrix is assumed to be: the elements that are read of it, its products with vectors, and how it is completed."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from .check import Check, Sums
from .place import Place

NAMES = {
    "gen": "gen",
    "general": "gen",
    "sym": "sym",
    "symmetric": "sym",
    "her": "her",
    "hermitian": "her",
    "pos": "pos",
    "positive definite": "pos",
    "upper triangular": "upper triangular",
    "lower triangular": "lower triangular",
}


class Structure(NamedTuple):
    """What a square matrix is assumed to be, by SciPy's names.

    Attributes
    ----------
    name : {"gen", "sym", "her", "pos", "upper triangular", "lower triangular"}
        The short name.
    lower : bool
        Whether the lower triangle is read, where one is.
    """

    name: str
    lower: bool

    @classmethod
    def of(cls, assume_a: object, lower: object) -> Structure | None:
        """That of two arguments; None if there is none of this name."""
        name = NAMES.get(assume_a) if isinstance(assume_a, str) else None
        if name is None:
            return None
        return cls(name, name == "lower triangular" if "triangular" in name else bool(lower))

    @property
    def is_triangular(self) -> bool:
        """Whether it is a triangle, and zero elsewhere."""
        return "triangular" in self.name

    @property
    def part(self) -> str:
        """The elements that are read, in the letters of `matrix_parts`."""
        triangle = self.triangle
        return {"gen": "", "her": f"H{triangle}", "pos": f"H{triangle}"}.get(self.name, triangle)

    @property
    def triangle(self) -> str:
        """The triangle that is read."""
        return "L" if self.lower else "U"

    def add_products(self, check: Check, y: NDArray[Any], side: str, exponent: int = 0) -> None:
        """Add A y, for the side "right", or A^H y, for "left", to the products of a check; `products` then has their sums."""
        if self.name != "sym":
            own_side = side if self.name == "gen" or self.is_triangular else "right"
            check.add_operand("a", **{own_side: y}, exponent=exponent)  # type: ignore[arg-type]
            return
        # A x = T x + (S^H conj(x)) conj, for the triangle T and S without its diagonal; A^H y = conj(A conj(y))
        x = y if side == "right" else y.conj()
        check.add_operand("a", right=x, exponent=exponent)
        strict = "l" if self.lower else "u"
        check.add_unread("strict", "a", left=x.conj(), part=strict, exponent=exponent)

    def products(self, sums: dict[str, Sums], y: NDArray[Any], side: str) -> dict[str, Sums]:
        """The sums, with the asked product as "a"."""
        if "a" not in sums or self.name == "gen" or self.is_triangular:
            return sums
        a = sums["a"]
        if self.name == "sym":
            x = y if side == "right" else y.conj()
            of_strict = sums["strict"].left.conj()
            if self.lower:  # which has ones on its diagonal
                of_strict = of_strict - x
            product = a.right + of_strict
            a = Sums(right=product if side == "right" else product.conj(), norm=2**0.5 * a.norm)
        return sums | {"a": a if side == "right" else Sums(left=a.right, norm=a.norm)}

    def move(self, place: Place, exponent: int) -> DistributedArray:
        """The operand a with all its elements, brought to a place. Collective."""
        matrix = place.move("a", exponent=exponent)
        if self.name in ("sym", "her"):
            place.complete(matrix, self.triangle, "T" if self.name == "sym" else "C")
        return matrix


GENERAL = Structure("gen", False)


def require_structure(structure: Structure | None, assume_a: object) -> None:
    """Raise an error if there is no structure of the name that was given."""
    if structure is None:
        raise ValueError(f"assume_a = {assume_a!r} must be one of {', '.join(map(repr, NAMES))}")


def part_of(structure: Structure | None) -> dict[str, str]:
    """What is read of the operand a."""
    return {} if structure is None else {"a": structure.part}
