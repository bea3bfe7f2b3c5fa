# Arrays with other axes, with more around them, and their diagonals and triangles.


cdef class DirectSqueeze(Direct):
    """The same elements without axes of size 1."""

    def __init__(self):
        self.any_size = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp dims[32]
        cdef unsigned int left_out = 0
        cdef int i, where = 0, count = 0, nd = PyArray_NDIM(a)
        axis = setting(settings, "axis")
        if type(axis) is not tuple or nd > 32:
            return None
        for i in range(<int>PyTuple_GET_SIZE(axis)):
            if not number_of_axis(<object>PyTuple_GET_ITEM(axis, i), nd, &where):
                return None
            if PyArray_DIM(a, where) != 1 or left_out >> where & 1:
                return None
            left_out |= 1u << where
        for i in range(nd):
            if not left_out >> i & 1:
                dims[count] = PyArray_DIM(a, i)
                count += 1
        return view(a, count, dims)


cdef class DirectDiagonal(Direct):
    """The elements on a diagonal of a matrix, which are read only, as NumPy gives them."""

    def __init__(self):
        self.any_size = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp rows, columns, size, step
        cdef int one = 0, two = 0
        offset = setting(settings, "offset")
        if PyArray_NDIM(a) != 2 or type(offset) is not int or offset != 0:
            return None
        if not number_of_axis(setting(settings, "axis1"), 2, &one):
            return None
        if not number_of_axis(setting(settings, "axis2"), 2, &two) or one == two:
            return None
        rows, columns = PyArray_DIM(a, 0), PyArray_DIM(a, 1)
        size, step = min(rows, columns), (columns + 1) * PyArray_ITEMSIZE(a)
        if size < 2:
            return None
        Py_INCREF(<object><PyObject *>descr)
        y = PyArray_NewFromDescr(
            &PyArray_Type, descr, 1, &size, &step, PyArray_BYTES(a), 0, NULL
        )
        Py_INCREF(<object><PyObject *>a)
        PyArray_SetBaseObject(<PyArrayObject *>y, <PyObject *>a)
        return y


cdef class DirectTriangle(Direct):
    """Matrices with zeros above a diagonal, or below it."""

    cdef bint upper

    def __init__(self, bint upper):
        self.upper = upper
        self.any_size = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp row, columns, low, high, i, width, item = PyArray_ITEMSIZE(a)
        cdef long long k
        cdef int overflow = 0, nd = PyArray_NDIM(a)
        cdef char *x = PyArray_BYTES(a)
        cdef char *to
        diagonal = setting(settings, "k")
        if nd < 2 or type(diagonal) is not int or not is_number_dtype(PyArray_DESCR(a)):
            return None
        k = PyLong_AsLongLongAndOverflow(diagonal, &overflow)
        if overflow or not -(1 << 30) < k < 1 << 30 or not PyArray_SIZE(a):
            return None
        y = empty(nd, PyArray_DIMS(a), PyArray_DESCR(a))
        columns, to = PyArray_DIM(a, nd - 1), bytes_of(y)
        width = columns * item
        for i in range(PyArray_SIZE(a) // columns):
            row = i % PyArray_DIM(a, nd - 2)
            # the elements from `low` to `high` stay
            if self.upper:
                low, high = min(max(row + <cnp.npy_intp>k, 0), columns), columns
            else:
                low, high = 0, min(max(row + <cnp.npy_intp>k + 1, 0), columns)
            memset(to, 0, low * item)
            memcpy(to + low * item, x + low * item, (high - low) * item)
            memset(to + high * item, 0, width - high * item)
            x += width
            to += width
        return y


cdef class DirectWhere(Direct):
    """Elements of one array or another, either of which may be a number, where a mask says so."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *mask = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *a
        cdef PyArrayObject *b
        cdef cnp.PyArray_Descr *descr
        if PyArray_DESCR(mask) is not BOOL or PyList_GET_SIZE(arrays) != 4:
            return None
        if not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        if not is_array(<object>PyList_GET_ITEM(arrays, 3)):
            return None
        a = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        b = <PyArrayObject *>PyList_GET_ITEM(arrays, 3)
        descr = PyArray_DESCR(a)
        if PyArray_DESCR(b) is not descr or not is_number_dtype(descr) or PyArray_NDIM(mask) == 0:
            return None
        if not is_beside(a, mask) or not is_beside(b, mask):
            return None
        y = empty(PyArray_NDIM(mask), PyArray_DIMS(mask), descr)
        if descr is F32 or descr is I32:
            choose(<cnp.npy_int32 *>bytes_of(y), mask, a, b)
        elif descr is BOOL:
            choose(<cnp.npy_int8 *>bytes_of(y), mask, a, b)
        else:
            choose(<cnp.npy_int64 *>bytes_of(y), mask, a, b)
        return y


cdef inline bint is_beside(PyArrayObject *a, PyArrayObject *mask) noexcept:
    return in_order(a) and (PyArray_NDIM(a) == 0 or same_shape(a, mask))


ctypedef fused Bits:
    cnp.npy_int8
    cnp.npy_int32
    cnp.npy_int64


cdef void choose(Bits *y, PyArrayObject *of_mask, PyArrayObject *of_a, PyArrayObject *of_b) noexcept:
    cdef char *mask = PyArray_BYTES(of_mask)
    cdef Bits *a = <Bits *>PyArray_BYTES(of_a)
    cdef Bits *b = <Bits *>PyArray_BYTES(of_b)
    cdef cnp.npy_intp i, n = PyArray_SIZE(of_mask)
    cdef Bits one = a[0] if n else 0, two = b[0] if n else 0
    if PyArray_NDIM(of_a) == 0 and PyArray_NDIM(of_b) == 0:
        for i in range(n):
            y[i] = one if mask[i] else two
    elif PyArray_NDIM(of_a) == 0:
        for i in range(n):
            y[i] = one if mask[i] else b[i]
    elif PyArray_NDIM(of_b) == 0:
        for i in range(n):
            y[i] = a[i] if mask[i] else two
    else:
        for i in range(n):
            y[i] = a[i] if mask[i] else b[i]


cdef enum Border:
    CONSTANT
    EDGE
    REFLECT
    SYMMETRIC


cdef struct Pad:
    Border border
    int nd
    cnp.npy_intp before[8]
    cnp.npy_intp sizes[8]  # of what is padded
    cnp.npy_intp dims[8]  # of the result
    cnp.npy_intp total


cdef bint widths_of(object widths, Pad *pad) noexcept:
    """Fill in the widths of a pad; False for those with errors or of large results."""
    cdef long long low, high, width_limit
    cdef int k, overflow = 0, too_large = 0
    if type(widths) is not tuple or PyTuple_GET_SIZE(widths) != pad.nd:
        return False
    pad.total = 1
    for k in range(pad.nd):
        pair = <object>PyTuple_GET_ITEM(widths, k)
        if type(pair) is not tuple or PyTuple_GET_SIZE(pair) != 2:
            return False
        if type((<tuple>pair)[0]) is not int or type((<tuple>pair)[1]) is not int:
            return False
        low = PyLong_AsLongLongAndOverflow((<tuple>pair)[0], &overflow)
        high = PyLong_AsLongLongAndOverflow((<tuple>pair)[1], &too_large)
        width_limit = DIRECT
        if pad.border == REFLECT:
            width_limit = pad.sizes[k] - 1
        elif pad.border == SYMMETRIC:
            width_limit = pad.sizes[k]
        if overflow or too_large or not 0 <= low <= width_limit or not 0 <= high <= width_limit:
            return False
        pad.before[k], pad.dims[k] = <cnp.npy_intp>low, pad.sizes[k] + <cnp.npy_intp>(low + high)
        pad.total *= pad.dims[k]
        if pad.total > 4 * DIRECT:
            return False
    return True


cdef inline cnp.npy_intp source_of(Pad *pad, int axis, cnp.npy_intp position) noexcept:
    """Where the element at a position along an axis of the result comes from; -1 from nowhere."""
    cdef cnp.npy_intp i = position - pad.before[axis], n = pad.sizes[axis]
    if 0 <= i < n:
        return i
    if pad.border == REFLECT:
        return -i if i < 0 else 2 * n - 2 - i
    if pad.border == SYMMETRIC:
        return -i - 1 if i < 0 else 2 * n - 1 - i
    if pad.border == EDGE:
        return 0 if i < 0 else n - 1
    return -1


cdef cnp.npy_intp source_row(Pad *pad, cnp.npy_intp row) noexcept:
    """Which row of the last axis a row of the result comes from; -1 from none."""
    cdef cnp.npy_intp source, step = 1, number = 0
    cdef int k
    for k in range(pad.nd - 2, -1, -1):
        source = source_of(pad, k, row % pad.dims[k])
        if source < 0:
            return -1
        row //= pad.dims[k]
        number += source * step
        step *= pad.sizes[k]
    return number


cdef bint write_number(object number, cnp.PyArray_Descr *descr, char *to) noexcept:
    """Write a Python number in a dtype; False where the body is to see whether it fits."""
    cdef double value
    if not number_of(number, &value):
        return False
    if value == 0:  # of either sign the body writes the same 0, whose bytes are 0 already
        return True
    if descr is F64:
        (<double *>to)[0] = value
    elif descr is F32 and not (value - value == 0 and fabs(value) > 1e38):
        (<float *>to)[0] = <float>value
    elif descr is I64 and type(number) is int:
        (<cnp.npy_int64 *>to)[0] = <cnp.npy_int64>value
    elif descr is I32 and type(number) is int and fabs(value) < 2147483648.0:
        (<cnp.npy_int32 *>to)[0] = <cnp.npy_int32>value
    else:
        return False
    return True


cdef class DirectPad(Direct):
    """A number, mirrored elements or the edge around an array."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef Pad pad
        cdef cnp.npy_intp i, row, source, first, width, columns, item = PyArray_ITEMSIZE(a)
        cdef int k
        cdef cnp.npy_int64 number = 0
        cdef char *to
        cdef char *x
        pad.nd = PyArray_NDIM(a)
        if pad.nd == 0 or pad.nd > 8 or not is_number_dtype(descr) or not PyArray_SIZE(a):
            return None
        if not border_of(setting(settings, "mode"), &pad.border):
            return None
        if pad.border == CONSTANT:
            if not write_number(setting(settings, "value"), descr, <char *>&number):
                return None
        for k in range(pad.nd):
            pad.sizes[k] = PyArray_DIM(a, k)
        if not widths_of(setting(settings, "pad_width"), &pad):
            return None
        y = empty(pad.nd, pad.dims, descr)
        to = bytes_of(y)
        width, columns, first = pad.sizes[pad.nd - 1], pad.dims[pad.nd - 1], pad.before[pad.nd - 1]
        for row in range(pad.total // columns):
            source = source_row(&pad, row)
            if source < 0:
                fill_slices(to, &number, item, columns)
            else:
                x = PyArray_BYTES(a) + source * width * item
                memcpy(to + first * item, x, width * item)
                if pad.border == CONSTANT:
                    fill_slices(to, &number, item, first)
                    fill_slices(to + (first + width) * item, &number, item, columns - first - width)
                else:
                    for i in range(first):
                        copy_slice(to + i * item, x + source_of(&pad, pad.nd - 1, i) * item, item)
                    for i in range(first + width, columns):
                        copy_slice(to + i * item, x + source_of(&pad, pad.nd - 1, i) * item, item)
            to += columns * item
        return y


cdef bint border_of(object mode, Border *border) noexcept:
    if mode == "constant":
        border[0] = CONSTANT
    elif mode == "reflect":
        border[0] = REFLECT
    elif mode == "symmetric":
        border[0] = SYMMETRIC
    elif mode == "edge":
        border[0] = EDGE
    else:
        return False
    return True


cdef inline void fill_slices(
    char *to, cnp.npy_int64 *number, cnp.npy_intp item, cnp.npy_intp count
) noexcept:
    """One number, in the first bytes of another, `count` times."""
    cdef cnp.npy_intp i
    if number[0] == 0:
        memset(to, 0, count * item)
    else:
        for i in range(count):
            copy_slice(to + i * item, <char *>number, item)
