"""Typed table of BLACS and ScaLAPACK entry points, whose addresses are found at run time.

All are the Fortran ones: there a "system handle" is the Fortran handle of a communicator, so nothing here depends on
what an MPI_Comm is made of. Nothing is checked: BLACS and ScaLAPACK end the process on bad input, so callers check first.
"""

from libc.stdint cimport uintptr_t

from pyscalapack_redist.errors import LibraryError

DEF KINDS = 5
DEF LETTERS = "sdczi"
DEF WHAT_CONTEXT_HANDLE = 10

ctypedef int (*Convert)(const int *) noexcept nogil
ctypedef void (*Act)(int *) noexcept nogil
ctypedef void (*Get)(const int *, const int *, int *) noexcept nogil
ctypedef void (*GridInfo)(const int *, int *, int *, int *, int *) noexcept nogil
ctypedef void (*GridInit)(int *, const char *, const int *, const int *, size_t) noexcept nogil
ctypedef void (*GridMap)(int *, const int *, const int *, const int *, const int *) noexcept nogil
ctypedef int (*ProcessNumber)(const int *, const int *, const int *) noexcept nogil
ctypedef void (*Gemr2d)(
    const int *, const int *, const void *, const int *, const int *, const int *, void *, const int *, const int *,
    const int *, const int *,
) noexcept nogil
ctypedef void (*Trmr2d)(
    const char *, const char *, const int *, const int *, const void *, const int *, const int *, const int *, void *,
    const int *, const int *, const int *, const int *, size_t, size_t,
) noexcept nogil
ctypedef void (*Getrf)(
    const int *, const int *, void *, const int *, const int *, const int *, int *, int *,
) noexcept nogil
ctypedef void (*Getrs)(
    const char *, const int *, const int *, const void *, const int *, const int *, const int *, const int *, void *,
    const int *, const int *, const int *, int *, size_t,
) noexcept nogil

ENTRY_POINTS = (
    "sys2blacs_handle_",
    "blacs2sys_handle_",
    "free_blacs_system_handle_",
    "blacs_get_",
    "blacs_gridinfo_",
    "blacs_gridinit_",
    "blacs_gridmap_",
    "blacs_gridexit_",
    "blacs_pnum_",
    *(f"p{letter}{name}_" for name in ("gemr2d", "trmr2d") for letter in LETTERS),
    *(f"p{letter}{name}_" for name in ("getrf", "getrs") for letter in LETTERS[:4]),
)


cdef int position(str kind) except -1:
    at = LETTERS.find(kind)
    if len(kind) != 1 or at < 0:
        raise ValueError(f"kind = {kind!r} must be one of {', '.join(LETTERS)}")
    return at


cdef char letter(str name, str value) except? 0:
    if len(value) != 1 or not value.isascii():
        raise ValueError(f"{name} = {value!r} must be a single letter")
    return <char> ord(value)


cdef const int *nine(str name, const int[::1] desc) except NULL:
    if desc.shape[0] != 9:
        raise ValueError(f"{name} has {desc.shape[0]} integers; a ScaLAPACK descriptor has nine")
    return &desc[0]


cdef class Entries:
    """The entry points of one library.

    Parameters
    ----------
    addresses : dict of str to int
        Address of each symbol that the library has, among `ENTRY_POINTS`.
    library : str
        Its file, for error messages.
    """

    cdef readonly str library
    cdef Convert _system_handle
    cdef Convert _communicator
    cdef Act _free_system_handle
    cdef Get _get
    cdef GridInfo _gridinfo
    cdef GridInit _gridinit
    cdef GridMap _gridmap
    cdef Act _gridexit
    cdef ProcessNumber _pnum
    cdef Gemr2d _gemr2d[KINDS]
    cdef Trmr2d _trmr2d[KINDS]
    cdef Getrf _getrf[KINDS]
    cdef Getrs _getrs[KINDS]

    def __cinit__(self, dict addresses, str library):
        def address(name):
            return addresses.get(name) or 0

        self.library = library
        self._system_handle = <Convert> <uintptr_t> address("sys2blacs_handle_")
        self._communicator = <Convert> <uintptr_t> address("blacs2sys_handle_")
        self._free_system_handle = <Act> <uintptr_t> address("free_blacs_system_handle_")
        self._get = <Get> <uintptr_t> address("blacs_get_")
        self._gridinfo = <GridInfo> <uintptr_t> address("blacs_gridinfo_")
        self._gridinit = <GridInit> <uintptr_t> address("blacs_gridinit_")
        self._gridmap = <GridMap> <uintptr_t> address("blacs_gridmap_")
        self._gridexit = <Act> <uintptr_t> address("blacs_gridexit_")
        self._pnum = <ProcessNumber> <uintptr_t> address("blacs_pnum_")
        for k, kind in enumerate(LETTERS):
            self._gemr2d[k] = <Gemr2d> <uintptr_t> address(f"p{kind}gemr2d_")
            self._trmr2d[k] = <Trmr2d> <uintptr_t> address(f"p{kind}trmr2d_")
            self._getrf[k] = <Getrf> <uintptr_t> address(f"p{kind}getrf_")
            self._getrs[k] = <Getrs> <uintptr_t> address(f"p{kind}getrs_")

    cdef int need(self, const void *entry, str name) except -1:
        if entry is NULL:
            raise LibraryError(
                f"{self.library} has no entry point {name}: use a complete ScaLAPACK "
                "(PYSCALAPACK_REDIST_LIBRARY names the file to load)"
            )
        return 0

    def system_handle(self, int communicator) -> int:
        """BLACS's handle of a communicator, given by its Fortran handle."""
        self.need(<void *> self._system_handle, "sys2blacs_handle_")
        return self._system_handle(&communicator)

    def free_system_handle(self, int handle) -> None:
        """Give a system handle back; the communicator stays."""
        self.need(<void *> self._free_system_handle, "free_blacs_system_handle_")
        self._free_system_handle(&handle)

    def gridinit(self, int handle, str order, int nprow, int npcol) -> int:
        """Context of the first nprow * npcol processes of a system handle, in order "R" or "C". Collective over the handle."""
        cdef char first = letter("order", order)
        self.need(<void *> self._gridinit, "blacs_gridinit_")
        with nogil:
            self._gridinit(&handle, &first, &nprow, &npcol, 1)
        return handle

    def gridmap(self, int handle, const int[::1, :] ranks) -> int:
        """Context of the handle's processes at the places given, a Fortran-ordered array of ranks. Collective over the handle."""
        cdef int nprow = ranks.shape[0], npcol = ranks.shape[1], leading = ranks.shape[0]
        self.need(<void *> self._gridmap, "blacs_gridmap_")
        if nprow < 1 or npcol < 1:
            raise ValueError(f"ranks has shape ({nprow}, {npcol}); a grid needs at least one process")
        with nogil:
            self._gridmap(&handle, &ranks[0, 0], &leading, &nprow, &npcol)
        return handle

    def gridexit(self, int ctxt) -> None:
        """Free a live context. Collective over its grid."""
        self.need(<void *> self._gridexit, "blacs_gridexit_")
        with nogil:
            self._gridexit(&ctxt)

    def gridinfo(self, int ctxt) -> tuple[int, int, int, int]:
        """Grid shape and this process's place; four times -1 for a context that is not alive."""
        cdef int nprow = -1, npcol = -1, myrow = -1, mycol = -1
        self.need(<void *> self._gridinfo, "blacs_gridinfo_")
        self._gridinfo(&ctxt, &nprow, &npcol, &myrow, &mycol)
        return nprow, npcol, myrow, mycol

    def context_handle(self, int ctxt) -> int:
        """System handle of a live context."""
        cdef int what = WHAT_CONTEXT_HANDLE, handle = -1
        self.need(<void *> self._get, "blacs_get_")
        self._get(&ctxt, &what, &handle)
        return handle

    def context_communicator(self, int ctxt) -> int:
        """Fortran handle of the communicator behind a live context. It is BLACS's: do not free it."""
        cdef int handle = self.context_handle(ctxt), communicator
        self.need(<void *> self._communicator, "blacs2sys_handle_")
        communicator = self._communicator(&handle)
        self.free_system_handle(handle)
        return communicator

    def pnum(self, int ctxt, int row, int column) -> int:
        """Rank, in the communicator behind a live context, of the process at (row, column)."""
        self.need(<void *> self._pnum, "blacs_pnum_")
        return self._pnum(&ctxt, &row, &column)

    def gemr2d(
        self, str kind, int m, int n, uintptr_t a, int ia, int ja, const int[::1] desca,
        uintptr_t b, int ib, int jb, const int[::1] descb, int ctxt,
    ) -> None:
        """B(ib:ib+m, jb:jb+n) = A(ia:ia+m, ja:ja+n) between any two layouts. Collective over `ctxt`.

        `kind` is the letter s, d, c, z or i; `a` and `b` are addresses; indices count from 1.
        """
        cdef Gemr2d call = self._gemr2d[position(kind)]
        cdef const int *from_ = nine("desca", desca)
        cdef const int *to = nine("descb", descb)
        self.need(<void *> call, f"p{kind}gemr2d_")
        with nogil:
            call(&m, &n, <void *> a, &ia, &ja, from_, <void *> b, &ib, &jb, to, &ctxt)

    def trmr2d(
        self, str kind, str uplo, str diag, int m, int n, uintptr_t a, int ia, int ja, const int[::1] desca,
        uintptr_t b, int ib, int jb, const int[::1] descb, int ctxt,
    ) -> None:
        """The same for a triangle or trapezoid: `uplo` U or L; `diag` U leaves the diagonal out. Collective over `ctxt`."""
        cdef Trmr2d call = self._trmr2d[position(kind)]
        cdef const int *from_ = nine("desca", desca)
        cdef const int *to = nine("descb", descb)
        cdef char triangle = letter("uplo", uplo), diagonal = letter("diag", diag)
        self.need(<void *> call, f"p{kind}trmr2d_")
        with nogil:
            call(&triangle, &diagonal, &m, &n, <void *> a, &ia, &ja, from_, <void *> b, &ib, &jb, to, &ctxt, 1, 1)

    def getrf(self, str kind, int m, int n, uintptr_t a, int ia, int ja, const int[::1] desca, int[::1] pivots) -> int:
        """LU factorisation in place; `pivots` has LOCr(M) + MB entries. Returns INFO. Collective over A's context."""
        cdef Getrf call = self._getrf[position(kind)]
        cdef const int *layout = nine("desca", desca)
        cdef int info = 0
        self.need(<void *> call, f"p{kind}getrf_")
        if pivots.shape[0] == 0:
            raise ValueError("pivots is empty; it needs LOCr(M) + MB entries")
        with nogil:
            call(&m, &n, <void *> a, &ia, &ja, layout, &pivots[0], &info)
        return info

    def getrs(
        self, str kind, str trans, int n, int nrhs, uintptr_t a, int ia, int ja, const int[::1] desca,
        const int[::1] pivots, uintptr_t b, int ib, int jb, const int[::1] descb,
    ) -> int:
        """Solve with the factors of getrf, in place of B. Returns INFO. Collective over A's context."""
        cdef Getrs call = self._getrs[position(kind)]
        cdef const int *matrix = nine("desca", desca)
        cdef const int *sides = nine("descb", descb)
        cdef char form = letter("trans", trans)
        cdef int info = 0
        self.need(<void *> call, f"p{kind}getrs_")
        if pivots.shape[0] == 0:
            raise ValueError("pivots is empty; it needs LOCr(M) + MB entries")
        with nogil:
            call(&form, &n, &nrhs, <void *> a, &ia, &ja, matrix, &pivots[0], <void *> b, &ib, &jb, sides, &info, 1)
        return info
