# Quantiles of few numbers, from rows that NumPy sorts: the body's arithmetic, one rank at a time.

cdef extern from "numpy/arrayobject.h":
    int PyArray_Sort(PyArrayObject *a, int axis, cnp.NPY_SORTKIND kind) except -1

cdef extern from "math.h" nogil:
    double NAN
    double floor(double x)
    double ceil(double x)
    double rint(double x)


cdef struct Ranks:
    # The two elements of a sorted row next to a quantile, and the share of the upper one.
    cnp.npy_intp low
    cnp.npy_intp high
    double weight


cdef bint ranks_of(object q, object method, cnp.npy_intp n, Ranks *ranks) except -1:
    """Fill `ranks` for rows of `n` elements; False for what the body is to look at."""
    cdef double position, low, high, weight = 0
    if type(q) is not float:
        return False
    position = <double>q * <double>(n - 1)
    if not 0 <= position <= n - 1:
        return False
    low, high = floor(position), ceil(position)
    if method == "linear":
        weight = position - low
    elif method == "midpoint":
        weight = (high - low) / 2
    elif method == "lower":
        high = low
    elif method == "higher":
        low = high
    elif method == "nearest":
        low = high = rint(position)
    else:
        return False
    ranks.low, ranks.high, ranks.weight = <cnp.npy_intp>low, <cnp.npy_intp>high, weight
    return True


cdef inline Float at_ranks(const Float *ordered, cnp.npy_intp n, Ranks *ranks) noexcept nogil:
    """The quantile of a sorted row, in which NaN comes last."""
    cdef Float lower = ordered[ranks.low], upper = ordered[ranks.high], step
    cdef double weight = ranks.weight
    if ordered[n - 1] != ordered[n - 1]:
        return <Float>NAN
    if weight == 0:
        return lower + 0
    # The difference is one of the dtype, the rest is of float64 until it is rounded once.
    step = upper - lower
    if step - step != 0:  # beside an infinity
        return <Float>(<double>lower * (1 - weight) + <double>upper * weight)
    return <Float>(<double>lower + <double>step * weight)


cdef void find_quantiles(
    const Float *ordered, Float *y, cnp.npy_intp rows, cnp.npy_intp n, Ranks *ranks
) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(rows):
        y[i] = at_ranks(ordered + i * n, n, ranks)


cdef object sorted_rows(PyArrayObject *a, Cube *cube):
    """The elements along the reduced axes as sorted rows (outer * inner, size)."""
    cdef cnp.npy_intp dims[2]
    cdef cnp.npy_intp o, i, k, item = PyArray_ITEMSIZE(a)
    cdef char *x
    cdef char *to
    dims[0], dims[1] = cube.outer * cube.inner, cube.size
    ordered = empty(2, dims, PyArray_DESCR(a))
    x, to = PyArray_BYTES(a), bytes_of(ordered)
    if cube.inner == 1:
        memcpy(to, x, PyArray_SIZE(a) * item)
    else:
        for o in range(cube.outer):
            for i in range(cube.inner):
                for k in range(cube.size):
                    copy_slice(to, x + ((o * cube.size + k) * cube.inner + i) * item, item)
                    to += item
    PyArray_Sort(<PyArrayObject *>ordered, 1, cnp.NPY_QUICKSORT)
    return ordered


cdef class DirectQuantile(Direct):
    """Quantiles of floats along axes that lie side by side, for one share or several."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef Cube cube
        cdef Ranks ranks
        cdef cnp.npy_intp dims[17]
        cdef cnp.npy_intp rows
        cdef char *to
        cdef bint has_shares
        cdef int i
        q, method = setting(settings, "q"), setting(settings, "method")
        if not is_float(descr) or setting(settings, "skip_nan") is not False:
            return None
        if not axes_of(a, settings, &cube):
            return None
        has_shares = type(q) is tuple
        shares = <tuple>q if has_shares else (q,)
        for share in shares:
            if not ranks_of(share, method, cube.size, &ranks):
                return None
        dims[0] = len(shares)
        for i in range(cube.nd):
            dims[i + has_shares] = cube.dims[i]
        ordered, y = sorted_rows(a, &cube), empty(cube.nd + has_shares, dims, descr)
        to, rows = bytes_of(y), cube.outer * cube.inner
        for share in shares:
            ranks_of(share, method, cube.size, &ranks)
            if descr is F32:
                find_quantiles(
                    <float *>bytes_of(ordered), <float *>to, rows, cube.size, &ranks
                )
            else:
                find_quantiles(
                    <double *>bytes_of(ordered), <double *>to, rows, cube.size, &ranks
                )
            to += rows * PyArray_ITEMSIZE(a)
        return y
