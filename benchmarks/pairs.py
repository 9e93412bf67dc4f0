"""Every kind of array to every other, on 1 to 4 processes: elements, and memory at 256 MiB a matrix. For docs/arrays.md.

Each process compares its elements with index arithmetic. Its memory is the peak over that after the imports, less that of the
array `like`. Run: python benchmarks/pairs.py (half an hour on two cores). What is in the file of results already is
not run again. Writes a table in Markdown in place of the one between <!-- pairs --> and <!-- end -->, and prints it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from pyscalapack_redist.exchanges.exchange import MEMORY_LIMIT

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
launch, packages = (importlib.import_module(name) for name in ("launch", "packages"))

PROGRAM = ROOT / "tests" / "clients" / "programs" / "pairs.py"
SMALL, LARGE = "29x17,24x53", "4104x8177"  # JAX takes numbers of rows that are multiples of its devices
SLACK = 8 * 2**20  # of MPI, interpreter and libraries
DEBIANS = "PETSc,mpi4py-fft,GPAW"
SHORT = {
    "nine integers": "nine", "JAX, 2 devices a process": "JAX 2", "mpi4py-fft": "fft", "scalapack4py": "NPScal",
    "PyScalapack": "PySca", "pylops-mpi": "pylops",
}  # fmt: skip
ORDER = (
    "Descriptor", "nine integers", "Tiles", ".npy", "HDF5", "Zarr", "JAX", "JAX, 2 devices a process", "PyTorch", "Heat",
    "PETSc", "mpi4py-fft", "GPAW", "scalapack4py", "PyScalapack", "dask",
    "pylops-mpi",
)  # fmt: skip


def environments() -> dict[str, dict[str, str]]:
    """Variables for NumPy 2, and for Debian's packages with NumPy 1."""
    path, reason = packages.path_of("gpaw")
    if path is None:
        sys.exit(f"pairs: GPAW cannot be used: {reason}")
    # zarr's threads would keep freed memory in arenas of their own
    return {
        name: packages.beside({"MALLOC_ARENA_MAX": "1", **variables}, "heat")
        for name, variables in (("numpy2", {}), ("numpy1", {"PYTHONPATH": path} if path else {}))
    }


def run(results: Path, ranks: int) -> None:
    """Run the pairs that are not in the file of results. A launch that hangs has left the results of some of them."""
    for name, variables in environments().items():
        required = DEBIANS if name == "numpy1" else ""
        for arguments in ((SMALL, "any", ""), (LARGE, MEMORY_LIMIT + SLACK, required)):
            for _ in range(2):
                with contextlib.suppress(launch.LaunchError):
                    launch.run(PROGRAM, ranks, results, name, *arguments, env=variables, timeout=1200, alone=True)
                    break


def cell(records: list[dict[str, Any]]) -> str:
    """MiB of memory, most of all numbers of processes; the word failed; or a dash if there is nothing."""
    if not records:
        return "–"
    if any(record["error"] for record in records):
        return "failed"
    sizes = [max(record[name] for name in ("new", "copy") if name in record) for record in records if "new" in record]
    return f"{max(0, *sizes) / 2**20:.0f}" if sizes else "equal"


def table(records: list[dict[str, Any]]) -> str:
    """Sources down, targets across. Of a pair that was run twice the last result counts."""
    names = ("environment", "processes", "shape", "source", "target")
    last = {(*[str(record[name]) for name in names], "new" in record): record for record in records}
    of_pairs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in last.values():
        of_pairs.setdefault((record["source"], record["target"]), []).append(record)
    titles = [SHORT.get(name, name) for name in ORDER]
    lines = [f"| from, to | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for source, title in zip(ORDER, titles, strict=True):
        lines.append(f"| {title} | {' | '.join(cell(of_pairs.get((source, target), [])) for target in ORDER)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 3, 4], help="numbers of processes")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "pairs" / "results.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "arrays.md")
    options = parser.parse_args()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    for ranks in options.ranks:
        run(options.results, ranks)
    text = table([json.loads(line) for line in options.results.read_text().splitlines()])
    print(text)
    page = options.page.read_text()
    new, count = re.subn(
        r"^<!-- pairs -->\n(?:(?:(?!<!-- |^#).*\n)*<!-- end -->\n)?",
        lambda _: f"<!-- pairs -->\n\n{text}\n\n<!-- end -->\n",
        page,
        flags=re.MULTILINE,
    )
    if count != 1:
        sys.exit(f"pairs: {options.page} has {count} places <!-- pairs -->")
    options.page.write_text(new)


if __name__ == "__main__":
    main()
