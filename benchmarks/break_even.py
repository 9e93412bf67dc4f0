"""How long a redistribution takes beside an LU factorisation, for docs/expect.md: rows -> square blocks, on 16 hosts.

Links of 10 Gbit/s, start-up 5 us, 1 us of processor for each message, one process on each host; the time of the redistribution
is simulated, that of the factorisation is 2/3 n³ operations at a given rate. Run: python benchmarks/break_even.py (some
seconds). Prints a table in Markdown.
"""

from __future__ import annotations

import argparse

from simulate import Machine, simulated

from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import ratio_text, size_text, time_text

ORDERS = (250, 1_000, 2_000, 4_000, 8_000, 16_000, 64_000)
BEFORE, AFTER = "16x1:balanced", "4x4:64x64"
METHOD = "auto/windowed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rate", type=float, default=10, help="of a link, Gbit/s (default: 10)")
    parser.add_argument("--gflops", type=float, default=100, help="of a host in the factorisation (default: 100)")
    parser.add_argument("--most", type=int, default=max(ORDERS), help="order of the largest matrix")
    options = parser.parse_args()
    before, after = LayoutText.parse(BEFORE), LayoutText.parse(AFTER)
    machine = Machine(16, rate=options.rate * 1e9 / 8, latency=5e-6, overhead=1e-6)
    print(
        "| n | the matrix | the busiest host sends or receives | one way | there and back | LU | there and back / LU |"
    )
    print("|---" * 7 + "|")
    for n in (order for order in ORDERS if order <= options.most):
        found = simulated(Case((n, n), before, after), machine, (METHOD,))
        one_way = found.predictions[0].seconds
        assert one_way is not None
        factorisation = 2 / 3 * n**3 / (machine.hosts * options.gflops * 1e9)
        times = (one_way, 2 * one_way, factorisation)
        sizes = (n * n * 8, found.busiest_bytes)
        row = [f"{n:,}", *map(size_text, sizes), *map(time_text, times), ratio_text(2 * one_way / factorisation)]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
