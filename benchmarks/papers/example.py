"""The examples of Desprez et al. (1998, section 4): vectors that go from one block size and number of processes to another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyscalapack_redist import schedules
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout

__all__ = ["Example"]


@dataclass(frozen=True)
class Example:
    """From blocks of r on P processes to blocks of s on Q."""

    number: int
    P: int
    Q: int
    r: int
    s: int

    def case(self, size: int, disjoint: bool) -> Case:
        """A vector of whole slices, of about `size` doubles and at least one slice. Not collective."""
        length = math.lcm(self.P * self.r, self.Q * self.s)
        before = Layout((self.P, 1), (self.r, 1), (0, 0))
        after = Layout((self.Q, 1), (self.s, 1), (0, 0), self.P if disjoint else 0)
        return Case((max(1, round(size / length)) * length, 1), before, after)

    def expected(self, name: str) -> tuple[float, float]:
        """Steps and cost of the optimal schedule as fractions of those of another. Not collective.

        The first is what to expect of short vectors, where each step costs a latency, the second of long ones.
        """
        grid = schedules.CommunicationGrid(self.P, self.Q, self.r, self.s)
        best, other = schedules.build("optimal", grid), schedules.build(name, grid)
        steps = sum(len(step) > 0 for step in other.steps)
        return best.number_of_steps / steps, best.total_cost / other.total_cost

    def __str__(self) -> str:
        return f"Example {self.number}: P = {self.P}, Q = {self.Q}, r = {self.r}, s = {self.s}"
