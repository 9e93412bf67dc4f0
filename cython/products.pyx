"""What one process shares with others in all dimensions: the products of what it shares along each."""

from libc.stdint cimport int64_t

from .by_process cimport Shared


def products(list dims):
    """All that a process shares with each process that it shares anything with. Not collective.

    Parameters
    ----------
    dims : list of list of Shared
        What it shares along each dimension, as `by_process` gives it.

    Returns
    -------
    list of tuple
        The other process's coordinates, the global indices of the first element, and the `Shared` of each dimension. The
        process along the last dimension ascends fastest.
    """
    cdef Py_ssize_t k, d = len(dims)
    cdef list at = [0] * d, chosen
    result = []
    for some in dims:
        if not some:
            return result
    k = 0
    while k >= 0:
        chosen = [(<list?> dims[k])[<Py_ssize_t> at[k]] for k in range(d)]
        result.append((
            tuple([(<Shared?> axis).remote for axis in chosen]), tuple([(<Shared> axis).first for axis in chosen]),
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
    """Their runs of that kind, for each dimension. Not collective."""
    if kind == "packed":
        return [(<Shared?> axis).packed for axis in dims]
    if kind == "unpacked":
        return [(<Shared?> axis).unpacked for axis in dims]
    if kind == "copied":
        return [(<Shared?> axis).copied for axis in dims]
    raise ValueError(f"there are no runs {kind!r}")


def number_of(tuple coords, tuple shape):
    """The number of a process in a grid of that shape, row by row. Not collective."""
    cdef int64_t number = 0
    cdef Py_ssize_t k
    if len(coords) != len(shape):
        raise ValueError(f"{coords} are no coordinates in a grid of shape {shape}")
    for k in range(len(shape)):
        number = number * <int64_t> shape[k] + <int64_t> coords[k]
    return number
