"""What the routines' docstrings have in common: arguments of one name are described once, and so are errors.

A routine's own docstring has the summary, what is particular in its arguments, and the result. The site completes it as well,
from the sources alone (packaging/docstrings.py): nothing is imported here but Python's own modules.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence

LETTERS = {
    "uplo": ('{"L", "U"}', "Triangle that is read."),
    "trans": ('{"N", "T", "C"}', "Use the matrix itself, its transpose or its conjugate transpose."),
    "side": ('{"L", "R"}', "Whether Q is on the left or on the right."),
    "vect": ('{"Q", "P"}', "Which matrix."),
    "norm": ('{"M", "1", "I", "F"}', "The largest absolute value, column sum or row sum, or the Frobenius norm."),
    "diag": ('{"N", "U"}', "Whether the diagonal is taken to be ones."),
}
ADJOINT = '{"N", "C"}', "Whether op(Q) is Q or its conjugate transpose."
OTHERS = {
    "tau": ("ndarray or None", "Result of `pxgeqrf` on this rank."),
    "alpha": ("number", "Factor."),
    "beta": ("number", "Factor."),
    "comm": ("MPI.Intracomm, optional", "As for `pxgemr2d`."),
}
ERRORS = {
    "numpy.linalg.LinAlgError": "An iteration did not converge, or might not end: the matrix has infs or NaNs.",
    "ValueError": "A letter is none of these.",
    "DescriptorError": "The layouts do not suit the routine, or do not fit each other.",
    "ArrayError": "An array does not fit its layout, or the dtypes differ or are none of the routine's.",
}


def complete(docstring: str, parameters: Sequence[str], written: str, iterates: bool) -> str:
    """A docstring with all parameters, in their order, and all errors.

    `written` has the operands that are; `iterates` says whether the routine does.
    """
    summary, *rest = re.split(r"\n\n(?=[A-Z]\w+\n-+\n)", inspect.cleandoc(docstring))
    if "ollective" not in summary:
        summary = textwrap.fill(f"{summary} Collective over the grid.", 118)
    sections = {title: text for title, _, text in (section.split("\n", 2) for section in rest)}
    own = {name: entry for entry in _entries(sections, "Parameters") for name in _names(entry)}
    described = [own.get(name) or _entry(name, *_shared(name, parameters, written)) for name in parameters]
    errors = _entries(sections, "Raises")
    known = {name for entry in errors for name in _names(entry)}
    if not iterates:
        known.add("numpy.linalg.LinAlgError")
    if not any(name.partition("_")[0] in LETTERS for name in parameters):
        known.add("ValueError")
    errors += [_entry(name, "", text) for name, text in ERRORS.items() if name not in known]
    sections |= {"Parameters": "\n".join(dict.fromkeys(described)), "Raises": "\n".join(errors)}
    ordered = ((title, sections[title]) for title in ("Parameters", "Returns", "Raises") if title in sections)
    return "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in ordered)])


def _entries(sections: dict[str, str], title: str) -> list[str]:
    return re.split(r"\n(?=\S)", sections[title]) if title in sections else []


def _names(entry: str) -> list[str]:
    return entry.partition("\n")[0].partition(" : ")[0].split(", ")


def _entry(name: str, kind: str, text: str) -> str:
    return f"{name} : {kind}\n    {text}" if kind else f"{name}\n    {text}"


def _shared(name: str, parameters: Sequence[str], written: str) -> tuple[str, str]:
    """The type and the description of a parameter."""
    if name in ("a", "b", "c"):
        overwritten = ", overwritten" if name in written.split() else ""
        return "ndarray or None", f"Local array, Fortran-ordered{overwritten}; ranks outside the grid may pass None."
    if name in ("desc", "desc_a"):
        square = "of a square matrix, in " if "uplo" in parameters else ""
        return "Descriptor, or nine integers", f"Its layout: {square}square blocks, source 0, no sub-array."
    if name.startswith("desc"):
        return "Descriptor, or nine integers", "Its layout, aligned with that of `a`."
    if name == "trans" and "tau" in parameters:
        return ADJOINT
    return OTHERS.get(name) or LETTERS[name.partition("_")[0]]
