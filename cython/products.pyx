"""Products of the index runs that one process shares with others along each dimension."""

from libc.stdint cimport int64_t

from .by_process cimport SharedRuns


def products(list dims):
    """Combine the index runs of all dimensions, for each process with elements in common.

    Parameters
    ----------
    dims : list of list of SharedRuns
        Runs along each dimension, as of `by_process`.

    Returns
    -------
    list of tuple
        The other process's coordinates, the global indices of the first element, and the `SharedRuns` of each dimension. The
        process along the last dimension ascends fastest.
    """
    cdef Py_ssize_t k, d = len(dims)
    cdef list at = [0] * d, chosen
    result = []
    for axis_runs in dims:
        if not axis_runs:
            return result
    k = 0
    while k >= 0:
        chosen = [(<list?> dims[k])[<Py_ssize_t> at[k]] for k in range(d)]
        result.append((
            tuple([(<SharedRuns?> axis).remote for axis in chosen]), tuple([(<SharedRuns> axis).first for axis in chosen]),
            tuple(chosen),
        ))
        k = d - 1
        while k >= 0:
            at[k] += 1
            if <Py_ssize_t> at[k] < len(<list> dims[k]):
                break
            at[k] = 0
            k -= 1
    return result


cpdef list runs_of_all(dims, str kind):
    """The runs of a kind, for each dimension."""
    if kind == "packed":
        return [(<SharedRuns?> axis).packed for axis in dims]
    if kind == "unpacked":
        return [(<SharedRuns?> axis).unpacked for axis in dims]
    if kind == "copied":
        return [(<SharedRuns?> axis).copied for axis in dims]
    raise ValueError(f"there are no runs {kind!r}")


def number_of(tuple coords, tuple shape):
    """The number of a process in a grid, row by row."""
    cdef int64_t number = 0
    cdef Py_ssize_t k
    if len(coords) != len(shape):
        raise ValueError(f"{coords} are no coordinates in a grid of shape {shape}")
    for k in range(len(shape)):
        number = number * <int64_t> shape[k] + <int64_t> coords[k]
    return number
