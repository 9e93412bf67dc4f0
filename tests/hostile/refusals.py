"""What may be refused: where an error on all ranks, in the package's words, is right though NumPy has a result."""

from __future__ import annotations

import re
from typing import Any

# Of an operation, of what its operands are like, and of the error's text; the first line that fits an operation and a
# setting says what the text must be.
REFUSALS = [
    # what elements may be
    (r".", r"dtype=objects", r"dtype object|of a fixed size|dtype O|must be one of|object"),
    (
        r"^(linalg|scalapack|numpy\.linalg)",
        r"dtype=(?!float32|float64|complex64|complex128)",
        r"ScaLAPACK does not have|must be|dtype",
    ),
    (r"^scalapack", r"(layout|memory|difference|shape|values|dtype)=", r"."),
    (r".", r"kind=(a class of our name|a NumPy array|a pair with None)", r"."),
    # as SciPy refuses them
    (r"^linalg", r"values=(a NaN|NaNs|an inf|inf and)", r"must not contain infs or NaNs"),
    (r"^linalg", r"values=(zeros|-0.0|all equal)", r"singular|not positive definite|not of full rank"),
    (r"alpha beta|op=|reduce", r"dtype=", r"can be multiplied or conjugated|sums are made of"),
    (r"save|load|open|FileContents", r"dtype=", r"cannot name|cannot be"),
    (r"unchecked", r"values=", r"."),
    (r"^linalg", r"values=(huge|tiny|subnormal|large squares)", r"has infs or NaNs, as where numbers overflow"),
    (r"^linalg.(logm|fractional_matrix_power)$", r"values=", r"SciPy has no result"),
    (r"^linalg.(expm|logm|fractional_matrix_power) of Hermitian", r"values=", r"the function of the eigenvalue"),
    (r"^redistribute (overwrite )?like", r"difference=None", r"needs a second layout"),
    (r"^load", r"dtype=(bfloat16|float8|int4)", r"cannot hold without loss"),
    (r"^(Redistribution|Transfer|batch|plan dtype|Phases)", r"layout=", r"its dtype is not known on this rank"),
    (r"overwrite (plan|start)", r"layout=", r"its dtype is not known on this rank"),
    (r"^(gather|save)$", r"layout=tiles", r"must be a Descriptor"),
    (r"cho|eigh of (two|a factor)", r"values=(NaNs of each|a subnormal imaginary) part", r"not positive definite"),
    (r"load|_of$|save|open|FileContents", r"dtype=fields out of order", r"."),
    (r"from_array", r"layout=", r"."),
    (r"save .*\.h5", r"dtype=", r"No conversion path"),
    (r"of a part", r"shape=no rows", r"subset_by_index"),
    (r"__eq__|__ne__|operator (eq|ne)", r"dtype=(fields|void|text|times|bytes)", r"ufunc"),
    (r"^DistributedArray\..* on one rank$", r"dtype=(fields|void|text|times|bytes)", r"ufunc"),
    (r"tensordot|einsum|dot$", r"dtype=(text|bytes|void|fields|times)", r"have no products and sums"),
    (r"batch overwrite", r".", r"consumes A .*, which a batch does not"),
    (r"memory_limit=100", r"dtype=(text|complex128|complex256|float128|fields)", r"memory_limit = 100 bytes is too small"),
    (r"memory_limit=1$", r".", r"memory_limit = 1 bytes is too small"),
    # what tiles are not for
    (r"overwrite", r"layout=tiles", r"overwrite = True is not for tiles"),
    (r"via=", r"layout=tiles", r"is not for tiles"),
    (r"datatypes", r"layout=tiles", r"with tiles"),
    (r"fill|mirror", r"layout=tiles", r"is not for tiles"),
    (r"^batch", r"layout=tiles", r"is of tiles"),
    (r"__getitem__ (a view|drawn)|overwrite a part|of nothing|of T of a part", r"layout=tiles", r"has no sub-arrays"),
    (r"by a column", r"layout=tiles", r"has no sub-arrays"),
    (r"copy of a part|of a window", r"layout=tiles", r"has no sub-arrays"),
    (r"block$", r"layout=replicas", r"no array dimension is distributed over it"),
    (r"^distribute$|sum of T|there and back", r"layout=a part", r"out is missing: B is a sub-array"),
    (r"block$", r"layout=tiles", r"has no blocks and no grid"),
    (r"__setitem__($| part| steps| drawn of)", r"layout=tiles", r"takes numbers and NumPy arrays only|has no sub-arrays"),
    (r"^scalapack", r"layout=tiles", r"must be a Descriptor|Tiles|tiles"),
    # layouts that must be equal, or are for one kind of blocks
    (r"^numpy\.(where|maximum|subtract)|mask", r"layout=", r"bring both into one|must be in the layout of the array"),
    (r"via=lcm", r"layout=(irregular|balanced)", r"is for blocks of one size"),
    (r"to itself|like", r"layout=a part", r"out is missing: B is a sub-array"),
    (r"overwrite|itself", r"a first result is refused", r"there was no second try, as the operand has been overwritten"),
    (r"^(full|ones)", r"dtype=void", r"a bytes-like object is required"),
    # what is not written
    (r".", r"memory=read-only", r"read-only"),
    (r"overwrite", r"layout=replicas", r"replica|copies|several"),
]


def may_refuse(case: Any, outcome: Any) -> bool:
    """Whether an error is what the documents say."""
    setting = f"{case.setting}, {case.circumstance}"
    return any(
        re.search(operation, case.operation) and re.search(odd, setting) and re.search(text, outcome.text)
        for operation, odd, text in REFUSALS
    )


def not_compared(case: Any) -> bool:
    """Whether the result means nothing, so that it is not compared."""
    if case.setting.values in EDGES and (case.operation.startswith("linalg.matmul") or "check=False" in case.operation):
        return True
    if case.setting.values in EDGES and re.search("tensordot|einsum|dot$|__matmul__|numpy.cov", case.operation):  # as of matmul
        return True
    if case.setting.values == "huge" and "cumsum" in case.operation:  # sums in another order overflow elsewhere
        return True
    if case.operation.startswith(("scalapack", "linalg.eigh unchecked")) and case.setting.values in (
        *EDGES,
        *SINGULAR,
        *SMALL,
    ):
        return True
    if case.operation == "linalg.pinv of stacks" and case.setting.values == "subnormal":  # NumPy's cutoff is 0 there
        return True
    if case.setting.dtype in ("int4", "objects") and re.search("mean|var|std", case.operation):  # NumPy's wrap, or are objects
        return True
    if case.operation.removesuffix(" of stacks") in ("linalg.slogdet", "linalg.det") and case.setting.values in EDGES:
        return True
    if case.operation == "eye" and case.setting.dtype in (
        "bytes",
        "text",
        "objects",
        "void",
        "fields",
        "fields out of order",
    ):
        return True
    if case.operation == "from_local" and case.setting.difference in ("None", "another shape"):  # rows as each rank has them
        return True
    if case.setting.difference == "another dtype" and re.search(r"__ of another|__setitem__|__getitem__ drawn", case.operation):
        return True  # each rank computes with what it has, or converts it
    if case.operation == "redistribute uplo mirror" and case.setting.dtype in ("bytes", "text"):  # NumPy's sum is longer
        return True
    if case.operation.startswith(("save", "redistribute uplo")) and case.setting.dtype == "fields out of order":
        return True  # fields are put in order
    if case.setting.difference == "another dtype" and case.operation in LAYOUTS_OF:
        return True
    if case.setting.difference == "None" and case.operation == "layout_of":  # a pair has its layout
        return True
    if " like" in case.operation and case.setting.difference == "another dtype" and case.role == "b":
        return True
    if "trace" in case.operation and case.setting.values == "large squares":  # which cancel
        return True
    if case.operation.endswith("ddof of all") and case.setting.values in (*EDGES, *SMALL):
        return True
    if "norm" in case.operation and case.setting.values in (*EDGES, *SMALL):  # where NumPy's squares overflow or vanish
        return True
    if "alpha beta" in case.operation and case.setting.values in EDGES:  # a real factor of a complex number
        return True
    return bool(re.search("load(?! source)|dtype_of", case.operation)) and case.setting.dtype in OF_NO_FILE


EDGES = (
    "huge",
    "tiny",
    "subnormal",
    "a NaN",
    "NaNs of each part",
    "an inf",
    "inf and -inf",
)  # where LAPACK may overflow
SMALL = ("a subnormal imaginary part", "large squares")
SINGULAR = ("zeros", "-0.0", "all equal", "extreme integers")


LAYOUTS_OF = ("layout_of", "as_distributed", "Descriptor.from_array")
OF_NO_FILE = ("bfloat16", "float8_e4m3fn", "int4")  # which NumPy reads back as void
