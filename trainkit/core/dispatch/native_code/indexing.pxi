# Elements picked by position, and the positions of the greatest, in small arrays.

cdef enum:
    # Bytes up to which slices are copied here; of more of them NumPy's way there does not count.
    MOST_COPIED = 1 << 16
    # Greatest elements that are put in their order one by one.
    MOST_GREATEST = 32


cdef inline bint are_positions(PyArrayObject *a) noexcept:
    return in_order(a) and (PyArray_DESCR(a) is I32 or PyArray_DESCR(a) is I64)


cdef inline cnp.npy_intp position_at(PyArrayObject *a, cnp.npy_intp i) noexcept:
    if PyArray_DESCR(a) is I32:
        return (<cnp.npy_int32 *>PyArray_BYTES(a))[i]
    return <cnp.npy_intp>(<cnp.npy_int64 *>PyArray_BYTES(a))[i]


cdef class DirectTake(DirectOfAnySize):
    """Slices along an axis, picked by position; where one is outside, the body has the words."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *b
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp dims[32]
        cdef cnp.npy_intp i, o, at, n, low, outer = 1, width = PyArray_ITEMSIZE(a), count
        cdef int k, where = 0, nd = PyArray_NDIM(a)
        cdef char *to
        wraps = setting(settings, "wrap")
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        b = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        if not is_number_dtype(descr) or not are_positions(b) or nd + PyArray_NDIM(b) > 32:
            return None
        if not number_of_axis(setting(settings, "axis"), nd, &where):
            return None
        for k in range(nd):
            if k < where:
                dims[k] = PyArray_DIM(a, k)
                outer *= dims[k]
            elif k > where:
                dims[k - 1 + PyArray_NDIM(b)] = PyArray_DIM(a, k)
                width *= PyArray_DIM(a, k)
        for k in range(PyArray_NDIM(b)):
            dims[where + k] = PyArray_DIM(b, k)
        n, count = PyArray_DIM(a, where), PyArray_SIZE(b)
        if outer * count * width > MOST_COPIED or n == 0:
            return None
        low = 0 if wraps is False else -n
        for i in range(count):
            if not low <= position_at(b, i) < n:
                return None
        y = empty(nd - 1 + PyArray_NDIM(b), dims, descr)
        to = bytes_of(y)
        for o in range(outer):
            for i in range(count):
                at = position_at(b, i)
                at += o * n + (n if at < 0 else 0)
                copy_slice(to, PyArray_BYTES(a) + at * width, width)
                to += width
        return y


cdef inline void copy_slice(char *to, const char *x, cnp.npy_intp width) noexcept:
    """`memcpy`, which for a single number takes longer than all else."""
    if width == 4:
        (<cnp.npy_int32 *>to)[0] = (<const cnp.npy_int32 *>x)[0]
    elif width == 8:
        (<cnp.npy_int64 *>to)[0] = (<const cnp.npy_int64 *>x)[0]
    else:
        memcpy(to, x, width)


cdef bint put_greatest(
    Number *x, cnp.npy_intp n, int k, Number *values, cnp.npy_int32 *indices
) noexcept:
    """The `k` greatest of `n`, of equal ones the first, greatest first; False where one is NaN."""
    cdef cnp.npy_intp i
    cdef int j, length = 0
    for i in range(n):
        if x[i] != x[i]:
            return False
        if length == k and not x[i] > values[k - 1]:
            continue
        j = length if length < k else k - 1
        length += length < k
        while j > 0 and x[i] > values[j - 1]:
            values[j], indices[j] = values[j - 1], indices[j - 1]
            j -= 1
        values[j], indices[j] = x[i], <cnp.npy_int32>i
    return True


cdef class DirectTopK(Direct):
    """The greatest elements along the last axis and their positions."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp dims[16]
        cdef cnp.npy_intp row, n, rows
        cdef int i, k = 0, nd = PyArray_NDIM(a)
        cdef bint is_served = True
        if PyList_GET_SIZE(arrays) != 2 or nd == 0 or nd > 16:
            return None
        n = PyArray_DIM(a, nd - 1)
        count = setting(settings, "k")
        if n == 0 or not number_of_axis(count, MOST_GREATEST + 1, &k) or count < 1 or k > n:
            return None
        for i in range(nd):
            dims[i] = PyArray_DIM(a, i)
        dims[nd - 1] = k
        values, indices = empty(nd, dims, descr), empty(nd, dims, I32)
        rows = PyArray_SIZE(a) // n
        for row in range(rows):
            if descr is F32:
                is_served = put_greatest(
                    <float *>PyArray_BYTES(a) + row * n, n, k,
                    <float *>bytes_of(values) + row * k, <cnp.npy_int32 *>bytes_of(indices) + row * k,
                )
            elif descr is F64:
                is_served = put_greatest(
                    <double *>PyArray_BYTES(a) + row * n, n, k,
                    <double *>bytes_of(values) + row * k, <cnp.npy_int32 *>bytes_of(indices) + row * k,
                )
            elif descr is I32:
                is_served = put_greatest(
                    <cnp.npy_int32 *>PyArray_BYTES(a) + row * n, n, k,
                    <cnp.npy_int32 *>bytes_of(values) + row * k,
                    <cnp.npy_int32 *>bytes_of(indices) + row * k,
                )
            else:
                is_served = False
            if not is_served:
                return None
        return values, indices


cdef class DirectSegmentSum(Direct):
    """The sums of segments of rows; those below 0 are left out."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *ids
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp dims[16]
        cdef cnp.npy_intp i, n, width = 1, segments = 0
        cdef int k, rank, nd = PyArray_NDIM(a), overflow = 0
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        ids = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        rank, n = PyArray_NDIM(ids), PyArray_SIZE(ids)
        if not are_positions(ids) or rank == 0 or rank > nd or nd > 16 or n == 0:
            return None
        if not is_number_dtype(descr) or descr is BOOL:
            return None
        for k in range(nd):
            if k < rank and PyArray_DIM(a, k) != PyArray_DIM(ids, k):
                return None
            if k >= rank:
                dims[k - rank + 1] = PyArray_DIM(a, k)
                width *= PyArray_DIM(a, k)
        count = setting(settings, "num_segments")
        if type(count) is int:
            segments = <cnp.npy_intp>PyLong_AsLongLongAndOverflow(count, &overflow)
        elif count is not None:
            return None
        for i in range(n):
            if count is None:
                segments = max(segments, position_at(ids, i) + 1)
            elif position_at(ids, i) >= segments:
                return None
        if overflow or segments < 1 or width < 1 or segments > DIRECT // width:
            return None
        dims[0] = segments
        y = empty(nd - rank + 1, dims, descr)
        if descr is F32:
            add_segments(<float *>PyArray_BYTES(a), ids, n, width, segments, <float *>bytes_of(y))
        elif descr is F64:
            add_segments(<double *>PyArray_BYTES(a), ids, n, width, segments, <double *>bytes_of(y))
        elif descr is I32:  # sums wrap around, which only those without a sign do by right
            add_segments(
                <cnp.npy_uint32 *>PyArray_BYTES(a), ids, n, width, segments,
                <cnp.npy_uint32 *>bytes_of(y),
            )
        else:
            add_segments(
                <cnp.npy_uint64 *>PyArray_BYTES(a), ids, n, width, segments,
                <cnp.npy_uint64 *>bytes_of(y),
            )
        return y


ctypedef fused Addend:
    float
    double
    cnp.npy_uint32
    cnp.npy_uint64


cdef void add_segments(
    Addend *x, PyArrayObject *ids, cnp.npy_intp n, cnp.npy_intp width, cnp.npy_intp segments,
    Addend *y,
) noexcept:
    """Zeros, to which rows are added in their order."""
    cdef cnp.npy_intp i, j, segment
    for i in range(segments * width):
        y[i] = 0
    for i in range(n):
        segment = position_at(ids, i)
        if segment >= 0:
            for j in range(width):
                y[segment * width + j] += x[i * width + j]
