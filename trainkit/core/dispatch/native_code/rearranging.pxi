# Arrays with other axes, with more around them, and their diagonals and triangles.


cdef class DirectSqueeze(DirectOfAnySize):
    """The same elements without axes of size 1."""

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


cdef class DirectTranspose(DirectOfAnySize):
    """The same elements with the axes in another order."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp order[32]
        cdef cnp.PyArray_Dims permutation
        cdef unsigned int chosen_axes = 0
        cdef int i, axis = 0, nd = PyArray_NDIM(a)
        axes = setting(settings, "axes")
        if axes is NOTHING or axes is None:
            return PyArray_Transpose(a, NULL)
        if type(axes) is not tuple or nd > 32 or PyTuple_GET_SIZE(axes) != nd:
            return None
        for i in range(nd):
            if not number_of_axis(<object>PyTuple_GET_ITEM(axes, i), nd, &axis):
                return None
            if chosen_axes >> axis & 1:
                return None
            chosen_axes |= 1u << axis
            order[i] = axis
        permutation.ptr, permutation.len = order, nd
        return PyArray_Transpose(a, &permutation)


cdef class DirectFlip(DirectOfAnySize):
    """The same elements in reverse order along axes."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp strides[32]
        cdef cnp.npy_intp step = PyArray_ITEMSIZE(a)
        cdef char *start = PyArray_BYTES(a)
        cdef unsigned int flipped = 0
        cdef int i, k = 0, nd = PyArray_NDIM(a)
        axis = setting(settings, "axis")
        if nd > 32 or not PyArray_SIZE(a):
            return None
        if axis is None:
            flipped = 0xffffffff
        else:
            for one in axis if type(axis) is tuple else (axis,):
                if not number_of_axis(one, nd, &k) or flipped >> k & 1:
                    return None
                flipped |= 1u << k
        for i in range(nd - 1, -1, -1):
            strides[i] = step
            if flipped >> i & 1:
                start += (PyArray_DIM(a, i) - 1) * step
                strides[i] = -step
            step *= PyArray_DIM(a, i)
        Py_INCREF(<object><PyObject *>descr)
        y = PyArray_NewFromDescr(
            &PyArray_Type, descr, nd, PyArray_DIMS(a), strides, start,
            PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL,
        )
        Py_INCREF(<object><PyObject *>a)
        PyArray_SetBaseObject(<PyArrayObject *>y, <PyObject *>a)
        return y


cdef class DirectRoll(DirectOfAnySize):
    """Elements moved along an axis, or along all of them as one; what leaves comes back."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp o, n, moved, outer = 1, inner = PyArray_ITEMSIZE(a)
        cdef int i, k = 0, nd = PyArray_NDIM(a), overflow = 0
        cdef long long distance
        cdef char *x = PyArray_BYTES(a)
        cdef char *to
        shift, axis = setting(settings, "shift"), setting(settings, "axis")
        if type(shift) is not int or not (is_number_dtype(descr) or is_half(descr)):
            return None
        if not PyArray_SIZE(a) or nd == 0:
            return None
        distance = PyLong_AsLongLongAndOverflow(shift, &overflow)
        if overflow:
            return None
        if axis is None:
            n = PyArray_SIZE(a)
        else:
            if not number_of_axis(axis, nd, &k):
                return None
            n = PyArray_DIM(a, k)
            for i in range(nd):
                if i < k:
                    outer *= PyArray_DIM(a, i)
                elif i > k:
                    inner *= PyArray_DIM(a, i)
        moved = <cnp.npy_intp>(distance % n)  # from 0 on, as Python has it
        y = empty(nd, PyArray_DIMS(a), descr)
        to = bytes_of(y)
        for o in range(outer):
            memcpy(to, x + (n - moved) * inner, moved * inner)
            memcpy(to + moved * inner, x, (n - moved) * inner)
            x += n * inner
            to += n * inner
        return y


cdef class DirectDiagonal(DirectOfAnySize):
    """The elements on a diagonal of a matrix, which are read only, as NumPy gives them."""

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
        if PyList_GET_SIZE(arrays) != 4:
            return None
        return elements_chosen(arrays[1], arrays[2], arrays[3])


def elements_chosen(mask, x, y):
    """Elements of `x` where a mask is true, else of `y`; either may be one number in an array.

    `None` for arrays of several shapes or dtypes, or in another order than C's.
    """
    cdef PyArrayObject *of_mask
    cdef PyArrayObject *a
    cdef PyArrayObject *b
    cdef cnp.PyArray_Descr *descr
    if not is_array(mask) or not is_array(x) or not is_array(y):
        return None
    of_mask, a, b = <PyArrayObject *>mask, <PyArrayObject *>x, <PyArrayObject *>y
    descr = PyArray_DESCR(a)
    if PyArray_DESCR(of_mask) is not BOOL or PyArray_NDIM(of_mask) == 0 or not in_order(of_mask):
        return None
    if PyArray_DESCR(b) is not descr or not (is_number_dtype(descr) or is_half(descr)):
        return None
    if not is_beside(a, of_mask) or not is_beside(b, of_mask):
        return None
    return select_elements(of_mask, a, b)


cdef inline bint is_beside(PyArrayObject *a, PyArrayObject *mask) noexcept:
    return in_order(a) and (PyArray_NDIM(a) == 0 or same_shape(a, mask))


cdef object select_elements(PyArrayObject *mask, PyArrayObject *a, PyArrayObject *b):
    """A new array in the shape of a mask, of elements of arrays of one dtype or of numbers."""
    y = empty(PyArray_NDIM(mask), PyArray_DIMS(mask), PyArray_DESCR(a))
    cdef char *to = bytes_of(y)
    cdef char *mask_at = PyArray_BYTES(mask)
    cdef char *a_at = PyArray_BYTES(a)
    cdef char *b_at = PyArray_BYTES(b)
    cdef int item = PyArray_ITEMSIZE(a)
    cdef cnp.npy_intp n = PyArray_SIZE(mask)
    cdef cnp.npy_intp step_a = 0 if PyArray_NDIM(a) == 0 else item
    cdef cnp.npy_intp step_b = 0 if PyArray_NDIM(b) == 0 else item
    if n:
        with nogil:
            choose(to, mask_at, a_at, b_at, n, step_a, step_b, item)
    return y


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
