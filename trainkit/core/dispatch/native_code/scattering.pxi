# Slices at rows of positions: picked, added and written; and numbers that are counted or looked up.


cdef struct Rows:
    # `count` rows of positions, of which each names `depth` axes of an array, and slices of `width`
    # elements behind these axes.
    cnp.npy_intp count
    cnp.npy_intp depth
    cnp.npy_intp width
    cnp.npy_intp *sizes


cdef bint rows_of(PyArrayObject *x, PyArrayObject *indices, Rows *rows) noexcept:
    """Fill `rows`; False where shapes do not fit, or positions are no integers of this module."""
    cdef int k, nd = PyArray_NDIM(indices)
    if not are_positions(indices) or nd == 0:
        return False
    rows.depth = PyArray_DIM(indices, nd - 1)
    if rows.depth < 1 or rows.depth > PyArray_NDIM(x):
        return False
    rows.count = PyArray_SIZE(indices) // rows.depth
    rows.sizes, rows.width = PyArray_DIMS(x), 1
    for k in range(<int>rows.depth, PyArray_NDIM(x)):
        rows.width *= PyArray_DIM(x, k)
    return True


cdef inline cnp.npy_intp slice_at(
    PyArrayObject *indices, Rows *rows, cnp.npy_intp row, bint wraps
) noexcept:
    """Which slice a row of positions names; -1 where it is outside."""
    cdef cnp.npy_intp k, position, number = 0
    for k in range(rows.depth):
        position = position_at(indices, row * rows.depth + k)
        if position < 0 and wraps:
            position += rows.sizes[k]
        if not 0 <= position < rows.sizes[k]:
            return -1
        number = number * rows.sizes[k] + position
    return number


cdef extern from *:
    """
    /* Whether x + offset, without a sign, is below a limit throughout: negative ones stand above. */
    #define TK_ALL_BELOW(NAME, TARGET, TYPE) \
        TARGET static int NAME(const TYPE *x, Py_ssize_t n, TYPE offset, TYPE limit) { \
            TYPE outside = 0; \
            for (Py_ssize_t i = 0; i < n; i++) outside |= (TYPE)(x[i] + offset) >= limit; \
            return outside == 0; \
        }
    TK_ALL_BELOW(all_below_32_wide, TK_WIDE, uint32_t)
    TK_ALL_BELOW(all_below_32_narrow, , uint32_t)
    TK_ALL_BELOW(all_below_64_wide, TK_WIDE, uint64_t)
    TK_ALL_BELOW(all_below_64_narrow, , uint64_t)
    """
    bint all_below_32_wide(const void *x, Py_ssize_t n, cnp.npy_uint32 offset, cnp.npy_uint32 limit)
    bint all_below_32_narrow(
        const void *x, Py_ssize_t n, cnp.npy_uint32 offset, cnp.npy_uint32 limit)
    bint all_below_64_wide(const void *x, Py_ssize_t n, cnp.npy_uint64 offset, cnp.npy_uint64 limit)
    bint all_below_64_narrow(
        const void *x, Py_ssize_t n, cnp.npy_uint64 offset, cnp.npy_uint64 limit)


cdef bint all_inside(PyArrayObject *indices, cnp.npy_intp size, bint wraps) noexcept:
    """Whether positions lie in one axis of `size`, which is below 2**30."""
    cdef char *x = PyArray_BYTES(indices)
    cdef cnp.npy_intp n = PyArray_SIZE(indices), offset = size if wraps else 0
    if PyArray_ITEMSIZE(indices) == 4:
        if WIDE_HALVES:
            return all_below_32_wide(x, n, offset, offset + size)
        return all_below_32_narrow(x, n, offset, offset + size)
    if WIDE_HALVES:
        return all_below_64_wide(x, n, offset, offset + size)
    return all_below_64_narrow(x, n, offset, offset + size)


cdef bint are_inside(PyArrayObject *indices, Rows *rows, bint wraps) noexcept:
    cdef cnp.npy_intp row
    if rows.depth == 1 and rows.sizes[0] < 1 << 30:
        return all_inside(indices, rows.sizes[0], wraps)
    for row in range(rows.count):
        if slice_at(indices, rows, row, wraps) < 0:
            return False
    return True


cdef class DirectPositions(DirectOfAnySize):
    """Positions as they are, if all count from the start of their axes; the body has the words."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *indices = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Rows rows
        cdef cnp.npy_intp size
        cdef int where = 0
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        x = <object>PyList_GET_ITEM(arrays, 2)
        axis, by_rows = settings.get("axis", 0), settings.get("rows", True)
        if not number_of_axis(axis, PyArray_NDIM(<PyArrayObject *>x), &where) or axis < 0:
            return None
        if by_rows is True and where == 0:
            if not rows_of(<PyArrayObject *>x, indices, &rows):
                return None
        elif by_rows is False and are_positions(indices):
            size = PyArray_DIM(<PyArrayObject *>x, where)
            rows.count, rows.depth, rows.sizes = PyArray_SIZE(indices), 1, &size
        else:
            return None
        return arrays[1] if are_inside(indices, &rows, False) else None


cdef class DirectGatherNd(DirectOfAnySize):
    """Slices at rows of positions; where one is outside, the body has the words."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *x = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *indices
        cdef Rows rows
        cdef cnp.npy_intp dims[32]
        cdef cnp.npy_intp row, width
        cdef int k, lead
        cdef char *to
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        indices = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        if not is_number_dtype(PyArray_DESCR(x)) or not rows_of(x, indices, &rows):
            return None
        lead, width = PyArray_NDIM(indices) - 1, rows.width * PyArray_ITEMSIZE(x)
        if lead + PyArray_NDIM(x) - rows.depth > 32 or rows.count * width > MOST_COPIED:
            return None
        if not are_inside(indices, &rows, True):
            return None
        for k in range(lead):
            dims[k] = PyArray_DIM(indices, k)
        for k in range(<int>rows.depth, PyArray_NDIM(x)):
            dims[lead + k - rows.depth] = PyArray_DIM(x, k)
        y = empty(lead + PyArray_NDIM(x) - <int>rows.depth, dims, PyArray_DESCR(x))
        to = bytes_of(y)
        for row in range(rows.count):
            copy_slice(to, PyArray_BYTES(x) + slice_at(indices, &rows, row, True) * width, width)
            to += width
        return y


cdef class DirectScatter(Direct):
    """An array to which slices are added, or in which they are written, at rows of positions."""

    cdef bint adds

    def __init__(self, bint adds):
        self.adds = adds

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *x = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *indices
        cdef PyArrayObject *updates
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(x)
        cdef Rows rows
        cdef cnp.npy_intp row, width
        cdef int k, lead
        cdef char *to
        cdef char *slice_bytes
        for k in range(2, 4):
            if PyList_GET_SIZE(arrays) != 4 or not is_array(<object>PyList_GET_ITEM(arrays, k)):
                return None
        indices = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        updates = <PyArrayObject *>PyList_GET_ITEM(arrays, 3)
        if not is_number_dtype(descr) or (self.adds and descr is BOOL):
            return None
        if PyArray_DESCR(updates) is not descr or not in_order(updates):
            return None
        if not rows_of(x, indices, &rows) or PyArray_SIZE(updates) > DIRECT:
            return None
        lead = PyArray_NDIM(indices) - 1
        if PyArray_NDIM(updates) != lead + PyArray_NDIM(x) - rows.depth:
            return None
        for k in range(PyArray_NDIM(updates)):
            if PyArray_DIM(updates, k) != (
                PyArray_DIM(indices, k) if k < lead else PyArray_DIM(x, k - lead + <int>rows.depth)
            ):
                return None
        if not are_inside(indices, &rows, True):
            return None
        y = empty(PyArray_NDIM(x), PyArray_DIMS(x), descr)
        width = rows.width * PyArray_ITEMSIZE(x)
        memcpy(bytes_of(y), PyArray_BYTES(x), PyArray_SIZE(x) * PyArray_ITEMSIZE(x))
        for row in range(rows.count):
            to = bytes_of(y) + slice_at(indices, &rows, row, True) * width
            slice_bytes = PyArray_BYTES(updates) + row * width
            if self.adds:
                add_slice(descr, to, slice_bytes, rows.width)
            else:
                copy_slice(to, slice_bytes, width)
        return y


cdef void add_slice(
    cnp.PyArray_Descr *descr, char *to, char *x, cnp.npy_intp n
) noexcept:
    if descr is F32:
        add_numbers(<float *>to, <float *>x, n)
    elif descr is F64:
        add_numbers(<double *>to, <double *>x, n)
    elif descr is I32:  # sums wrap around, which only those without a sign do by right
        add_numbers(<cnp.npy_uint32 *>to, <cnp.npy_uint32 *>x, n)
    else:
        add_numbers(<cnp.npy_uint64 *>to, <cnp.npy_uint64 *>x, n)


cdef inline void add_numbers(Addend *to, Addend *x, cnp.npy_intp n) noexcept:
    cdef cnp.npy_intp i
    for i in range(n):
        to[i] += x[i]


cdef class DirectBincount(DirectOfAnySize):
    """How often each number of a vector occurs; where one is negative, the body has the words."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp n = PyArray_SIZE(a), lowest = 0, greatest = -1, bins, bin_limit
        cdef cnp.npy_int32 *counts
        minlength, maxlength = setting(settings, "minlength"), settings.get("maxlength")
        if PyList_GET_SIZE(arrays) != 2 or PyArray_NDIM(a) != 1 or not are_positions(a):
            return None
        bins = limit_of(minlength)
        bin_limit = PY_SSIZE_T_MAX if maxlength is None else limit_of(maxlength)
        if bins < 0 or bin_limit < 0 or n > MOST_COUNTED:
            return None
        if PyArray_DESCR(a) is I32:
            find_limits(<cnp.npy_int32 *>PyArray_BYTES(a), n, &lowest, &greatest)
        else:
            find_limits(<cnp.npy_int64 *>PyArray_BYTES(a), n, &lowest, &greatest)
        # Memory for few numbers, of which one is huge, is the body's to ask for.
        if lowest < 0 or greatest >= MOST_COUNTED:
            return None
        bins = min(max(bins, greatest + 1), bin_limit)
        y = empty(1, &bins, I32)
        counts = <cnp.npy_int32 *>bytes_of(y)
        memset(counts, 0, bins * sizeof(cnp.npy_int32))
        if PyArray_DESCR(a) is I32:
            count_numbers(<cnp.npy_int32 *>PyArray_BYTES(a), n, counts, bins)
        else:
            count_numbers(<cnp.npy_int64 *>PyArray_BYTES(a), n, counts, bins)
        return y


ctypedef fused Integer:
    cnp.npy_int32
    cnp.npy_int64


cdef void find_limits(
    Integer *x, cnp.npy_intp n, cnp.npy_intp *lowest, cnp.npy_intp *greatest
) noexcept:
    """The lowest and the greatest of numbers and of the two limits so far."""
    cdef Integer low = <Integer>lowest[0], high = <Integer>greatest[0]
    cdef cnp.npy_intp i
    for i in range(n):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    lowest[0], greatest[0] = <cnp.npy_intp>low, <cnp.npy_intp>high


cdef void count_numbers(
    Integer *x, cnp.npy_intp n, cnp.npy_int32 *counts, cnp.npy_intp bins
) noexcept:
    cdef cnp.npy_intp i
    for i in range(n):
        if x[i] < bins:
            counts[x[i]] += 1


cdef cnp.npy_intp limit_of(object x) noexcept:
    """A number of bins; -1 for what is none, or a large one."""
    cdef int overflow = 0
    cdef long long k
    if type(x) is not int:
        return -1
    k = PyLong_AsLongLongAndOverflow(x, &overflow)
    return -1 if overflow or not 0 <= k <= MOST_COUNTED else <cnp.npy_intp>k


cdef class DirectNonzero(DirectOfAnySize):
    """Positions of what is true in a mask, a vector for each axis."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef const char *mask = PyArray_BYTES(a)
        cdef cnp.npy_intp i, row, number, columns, n = PyArray_SIZE(a), count = 0
        cdef void *columns_of[8]
        cdef cnp.npy_intp at[8]
        cdef int k, nd = PyArray_NDIM(a)
        cdef bint as_int64
        dtype = setting(settings, "dtype")
        if PyArray_DESCR(a) is not BOOL or not 1 <= nd <= 8 or n == 0:
            return None
        if dtype != "int32" and dtype != "int64":
            return None
        as_int64 = dtype == "int64"
        for i in range(n):
            count += mask[i]
        positions = [empty(1, &count, I64 if as_int64 else I32) for _ in range(nd)]
        for k in range(nd):
            columns_of[k], at[k] = <void *>bytes_of(positions[k]), 0
        columns, number = PyArray_DIM(a, nd - 1), 0
        for row in range(n // columns):
            for i in range(columns):
                if not mask[i]:
                    continue
                at[nd - 1] = i
                for k in range(nd):
                    if as_int64:
                        (<cnp.npy_int64 *>columns_of[k])[number] = at[k]
                    else:
                        (<cnp.npy_int32 *>columns_of[k])[number] = <cnp.npy_int32>at[k]
                number += 1
            mask += columns
            k = nd - 2
            while k >= 0:
                at[k] += 1
                if at[k] < PyArray_DIM(a, k):
                    break
                at[k] = 0
                k -= 1
        return tuple(positions)


cdef enum:
    MOST_COUNTED = 1 << 24
    SEARCHED_TOGETHER = 8


cdef class DirectSearch(Direct):
    """Where numbers would stand in a rising vector."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *line = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *a
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(line)
        cdef bint as_int64, after
        cdef char *to
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        a = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        side, dtype = setting(settings, "side"), settings.get("dtype", "int32")
        if PyArray_NDIM(line) != 1 or PyArray_DESCR(a) is not descr or not in_order(a):
            return None
        if PyArray_SIZE(a) > DIRECT or (side != "left" and side != "right"):
            return None
        if dtype != "int64" and dtype != "int32":
            return None
        after, as_int64 = side == "right", dtype == "int64"
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), I64 if as_int64 else I32)
        to = bytes_of(y)
        if descr is F32:
            search(<float *>PyArray_BYTES(line), line, <float *>PyArray_BYTES(a), a, to, after, as_int64)
        elif descr is F64:
            search(
                <double *>PyArray_BYTES(line), line, <double *>PyArray_BYTES(a), a, to, after, as_int64
            )
        elif descr is I32:
            search(
                <cnp.npy_int32 *>PyArray_BYTES(line), line, <cnp.npy_int32 *>PyArray_BYTES(a), a, to,
                after, as_int64,
            )
        elif descr is I64:
            search(
                <cnp.npy_int64 *>PyArray_BYTES(line), line, <cnp.npy_int64 *>PyArray_BYTES(a), a, to,
                after, as_int64,
            )
        else:
            return None
        return y


cdef inline bint stands_before(Number a, Number b) noexcept:
    """Whether `a` is less than `b` to NumPy's searches, for which NaN is the greatest."""
    if Number is float or Number is double:
        return (a < b) | ((b != b) & (a == a))  # without a branch, which would be guessed wrong
    else:
        return a < b


cdef inline bint is_behind(Number a, Number b, bint after) noexcept:
    """Whether `b` stands behind `a`; behind an equal one, too, if `after`."""
    return not stands_before(b, a) if after else stands_before(a, b)


cdef void search(
    Number *line, PyArrayObject *of_line, Number *x, PyArrayObject *of_x, char *to, bint after,
    bint as_int64,
) noexcept:
    """Halve the line until one place is left, for some numbers at once: each step waits for one."""
    cdef cnp.npy_intp i, j, some, count = PyArray_SIZE(of_x)
    cdef cnp.npy_intp lows[SEARCHED_TOGETHER]
    for i in range(0, count, SEARCHED_TOGETHER):
        some = min(count - i, <cnp.npy_intp>SEARCHED_TOGETHER)
        if after:
            search_some(line, PyArray_SIZE(of_line), x + i, some, lows, True)
        else:
            search_some(line, PyArray_SIZE(of_line), x + i, some, lows, False)
        for j in range(some):
            if as_int64:
                (<cnp.npy_int64 *>to)[i + j] = lows[j]
            else:
                (<cnp.npy_int32 *>to)[i + j] = <cnp.npy_int32>lows[j]


cdef inline void search_some(
    Number *line, cnp.npy_intp n, Number *x, cnp.npy_intp some, cnp.npy_intp *lows, bint after
) noexcept:
    cdef cnp.npy_intp j, half
    for j in range(some):
        lows[j] = 0
    while n > 0:
        half = (n + 1) // 2  # of what is left; the number is behind all of it, or not
        for j in range(some):
            lows[j] += half if is_behind(line[lows[j] + half - 1], x[j], after) else 0
        n -= half
