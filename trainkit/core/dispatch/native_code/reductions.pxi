# Reductions of small arrays along axes that lie side by side, by NumPy's loops in NumPy's order.


cdef struct Cube:
    # An array as (outer, size, inner), of which the middle is reduced, and the result's shape.
    cnp.npy_intp outer
    cnp.npy_intp size
    cnp.npy_intp inner
    int nd
    cnp.npy_intp dims[16]


cdef bint number_of_axis(object axis, int nd, int *number) noexcept:
    """Whether `axis` is an int in [-nd, nd); `number` becomes the one from 0 on."""
    cdef int overflow = 0
    cdef long long k
    if type(axis) is not int:
        return False
    k = PyLong_AsLongLongAndOverflow(axis, &overflow)
    if overflow or k < -nd or k >= nd:
        return False
    number[0] = <int>(k + nd if k < 0 else k)
    return True


cdef bint cube_of(PyArrayObject *a, object axis, bint keepdims, Cube *cube) noexcept:
    """Fill `cube`; False for what is not for this module, as empty arrays and wrong axes."""
    cdef int nd = PyArray_NDIM(a), first, after, k, i
    cdef unsigned int axes = 0
    cdef cnp.npy_intp n
    if nd == 0 or nd > 16:
        return False
    if axis is None:
        first, after = 0, nd
    elif type(axis) is tuple:
        if not PyTuple_GET_SIZE(axis):
            return False
        for i in range(<int>PyTuple_GET_SIZE(axis)):
            if not number_of_axis(<object>PyTuple_GET_ITEM(axis, i), nd, &k) or axes >> k & 1:
                return False
            axes |= 1u << k
        first = 0
        while not axes >> first & 1:
            first += 1
        after = first
        while axes >> after & 1:
            after += 1
        if axes >> after:  # axes that don't lie side by side
            return False
    else:
        if not number_of_axis(axis, nd, &first):
            return False
        after = first + 1
    cube.outer = cube.size = cube.inner = 1
    cube.nd = 0
    for i in range(nd):
        n = PyArray_DIM(a, i)
        if i < first:
            cube.outer *= n
        elif i < after:
            cube.size *= n
            if not keepdims:
                continue
            n = 1
        else:
            cube.inner *= n
        cube.dims[cube.nd] = n
        cube.nd += 1
    return cube.outer * cube.size * cube.inner > 0


cdef enum:
    # Elements up to which reductions go by NumPy's loops where kernels round otherwise above it.
    LONG_REDUCTION = 1 << 14

cdef extern from *:
    """
    /* y = the sums of the columns of (size, N) numbers, row after row as NumPy adds them: beside
       the arithmetic of so few columns the call of a loop for each row is long. */
    #define TK_SHORT_ROWS(TYPE, N) \
        case N: { \
            TYPE sums[N] = {0}; \
            for (Py_ssize_t i = 0; i < size; i++, x += N) \
                for (int c = 0; c < N; c++) sums[c] += x[c]; \
            memcpy(y, sums, sizeof(sums)); \
            return 1; \
        }
    #define TK_ADD_SHORT_ROWS(NAME, TYPE) \
        static int NAME(const TYPE *x, TYPE *y, Py_ssize_t size, Py_ssize_t n) { \
            switch (n) { \
                TK_SHORT_ROWS(TYPE, 2) TK_SHORT_ROWS(TYPE, 3) TK_SHORT_ROWS(TYPE, 4) \
                TK_SHORT_ROWS(TYPE, 6) TK_SHORT_ROWS(TYPE, 8) TK_SHORT_ROWS(TYPE, 12) \
                TK_SHORT_ROWS(TYPE, 16) TK_SHORT_ROWS(TYPE, 32) \
            } \
            return 0; \
        }
    TK_ADD_SHORT_ROWS(add_short_rows_f32, float)
    TK_ADD_SHORT_ROWS(add_short_rows_f64, double)
    """
    bint add_short_rows_f32(const float *x, float *y, Py_ssize_t size, Py_ssize_t n) noexcept
    bint add_short_rows_f64(const double *x, double *y, Py_ssize_t size, Py_ssize_t n) noexcept


cdef inline bint add_short_rows(int kind, char *x, char *y, cnp.npy_intp size, cnp.npy_intp n) noexcept:
    """Add up columns of floats; False where there are as many that NumPy's loop is as fast."""
    if kind == cnp.NPY_FLOAT:
        return add_short_rows_f32(<float *>x, <float *>y, size, n)
    return kind == cnp.NPY_DOUBLE and add_short_rows_f64(<double *>x, <double *>y, size, n)


cdef class Reducer:
    """The loops of a ufunc that reduces, and what it begins with.

    With an identity, as 0 of sums, NumPy begins with that, and else with the first elements.
    """

    cdef Loops loops
    cdef bint has_identity
    cdef bint counts  # bools, as sums and products do
    cdef bint adds
    cdef double identity

    def __cinit__(self, ufunc):
        self.loops, self.adds = Loops(ufunc), ufunc is np.add
        self.has_identity = ufunc.identity is not None
        if self.has_identity:
            self.identity = ufunc.identity
            self.counts = type(ufunc.identity) is not bool

    cdef void begin(self, int kind, char *y, cnp.npy_intp n) noexcept:
        """Set `n` results to the identity."""
        cdef cnp.npy_intp i
        for i in range(n):
            if kind == cnp.NPY_FLOAT:
                (<float *>y)[i] = <float>self.identity
            elif kind == cnp.NPY_DOUBLE:
                (<double *>y)[i] = self.identity
            elif kind == NUM_I32:
                (<cnp.npy_int32 *>y)[i] = <cnp.npy_int32>self.identity
            elif kind == NUM_I64:
                (<cnp.npy_int64 *>y)[i] = <cnp.npy_int64>self.identity
            else:
                y[i] = <char>self.identity

    cdef void reduce(self, int kind, char *x, char *y, Cube *cube, cnp.npy_intp item) noexcept:
        """Reduce the elements at `x`, each of `item` bytes, to results at `y`."""
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        cdef cnp.npy_intp o, i, n = cube.inner, first = 0 if self.has_identity else 1
        for o in range(cube.outer):
            if self.has_identity:
                self.begin(kind, y, n)
            else:
                memcpy(y, x, n * item)
            if n == 1:
                # The whole row in one call, which sums up in pairs.
                steps[0], steps[1], steps[2] = 0, item, 0
                args[0], args[1], args[2] = y, x + first * item, y
                if cube.size > first:
                    self.loops.call_kind(kind, args, cube.size - first, steps)
            elif not (self.adds and add_short_rows(kind, x, y, cube.size, n)):
                for i in range(first, cube.size):
                    steps[0] = steps[1] = steps[2] = item
                    args[0], args[1], args[2] = y, x + i * n * item, y
                    self.loops.call_kind(kind, args, n, steps)
            x += cube.size * n * item
            y += n * item


cdef inline object setting(dict settings, object name):
    """The setting `name`, `NOTHING` if it was not given."""
    cdef PyObject *value = PyDict_GetItemWithError(settings, name)
    return NOTHING if value is NULL else <object>value


cdef bint axes_of(PyArrayObject *a, dict settings, Cube *cube):
    """`cube_of` by the settings `axis` and `keepdims`."""
    axis, keepdims = setting(settings, "axis"), setting(settings, "keepdims")
    if axis is NOTHING or type(keepdims) is not bool:
        return False
    return cube_of(a, axis, keepdims is True, cube)


cdef class DirectReduction(Direct):
    """Sums, products, maxima and minima, of the elements or of what one more ufunc makes of them."""

    cdef Reducer reducer
    cdef Loops first

    def __init__(self, ufunc, first=None):
        self.reducer, self.size_limit = Reducer(ufunc), LONG_REDUCTION
        self.first = None if first is None else Loops(first)
        self.widens, self.reduces = ufunc is np.add and first is None, True
        self.chooses = ufunc in (np.maximum, np.minimum) and first is None

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        if not self.reducer.loops.has_kind(descr) or not axes_of(a, settings, &cube):
            return None
        if descr is BOOL and self.reducer.counts:
            return None
        initial = setting(settings, "initial")
        if initial is not NOTHING and initial is not None:
            return None
        operands = <object>a
        if self.first is not None:
            if not is_float(descr):
                return None
            operands = apply1(self.first, operands)
        y = empty(cube.nd, cube.dims, descr)
        self.reducer.reduce(
            kind_of(descr), bytes_of(operands), PyArray_BYTES(<PyArrayObject *>y), &cube,
            PyArray_ITEMSIZE(a),
        )
        return y


cdef bint are_distinct(object y) noexcept:
    """Whether no number of an array of float32 is a zero or NaN, of which there are several."""
    cdef PyArrayObject *a = <PyArrayObject *>y
    cdef float *x = <float *>PyArray_BYTES(a)
    cdef cnp.npy_intp i, count = 0
    for i in range(PyArray_SIZE(a)):
        count += x[i] < 0 or x[i] > 0
    return count == PyArray_SIZE(a)


cdef dict turned_axes(dict settings):
    """The settings of a reduction, for an array whose axes are in reverse order; `None` if wrong."""
    axis = setting(settings, "axis")
    if type(axis) is int:
        return {**settings, "axis": -1 - axis}
    if type(axis) is tuple:
        for k in <tuple>axis:
            if type(k) is not int:
                return None
        return {**settings, "axis": tuple([-1 - k for k in <tuple>axis])}
    return settings if axis is None else None


cdef inline void divide_all(int kind, char *y, cnp.npy_intp n, double by) noexcept:
    """Divide `n` floats by a number, in their own dtype."""
    cdef cnp.npy_intp i
    if kind == cnp.NPY_FLOAT:
        for i in range(n):
            (<float *>y)[i] = (<float *>y)[i] / <float>by
    else:
        for i in range(n):
            (<double *>y)[i] = (<double *>y)[i] / by


cdef class DirectMean(Direct):
    """Means of floats."""

    cdef Reducer reducer

    def __init__(self, ufunc):
        self.reducer, self.widens, self.size_limit = Reducer(ufunc), True, LONG_REDUCTION
        self.reduces = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef char *to
        if not is_float(descr) or not axes_of(a, settings, &cube):
            return None
        y = empty(cube.nd, cube.dims, descr)
        to = PyArray_BYTES(<PyArrayObject *>y)
        self.reducer.reduce(kind_of(descr), PyArray_BYTES(a), to, &cube, PyArray_ITEMSIZE(a))
        divide_all(kind_of(descr), to, cube.outer * cube.inner, <double>cube.size)
        return y


cdef class DirectVariance(Direct):
    """Mean squared distances to means of floats, over all elements or over rows."""

    cdef Reducer reducer
    cdef Loops subtract
    cdef Loops multiply

    def __init__(self, add, subtract, multiply):
        self.reducer, self.subtract, self.multiply = Reducer(add), Loops(subtract), Loops(multiply)

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp item = PyArray_ITEMSIZE(a), o, n, results
        cdef int kind = kind_of(descr)
        cdef char *to
        cdef char *away
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        if not is_float(descr) or not axes_of(a, settings, &cube) or cube.inner != 1:
            return None
        y = empty(cube.nd, cube.dims, descr)
        n, results = cube.outer * cube.size, cube.outer
        to = PyArray_BYTES(<PyArrayObject *>y)
        away = <char *>PyMem_Malloc(n * item)
        if away is NULL:
            raise MemoryError
        self.reducer.reduce(kind, PyArray_BYTES(a), to, &cube, item)
        divide_all(kind, to, results, <double>cube.size)
        for o in range(cube.outer):
            args[0] = PyArray_BYTES(a) + o * cube.size * item
            args[1], args[2] = to + o * item, away + o * cube.size * item
            steps[0], steps[1], steps[2] = item, 0, item
            self.subtract.call_kind(kind, args, cube.size, steps)
        args[0] = args[1] = args[2] = away
        steps[0] = steps[1] = steps[2] = item
        self.multiply.call_kind(kind, args, n, steps)
        self.reducer.reduce(kind, away, to, &cube, item)
        divide_all(kind, to, results, <double>cube.size)
        PyMem_Free(away)
        return y


cdef class DirectSoftmax(Direct):
    """exp(x) over its sum along axes, of floats."""

    cdef Reducer greatest
    cdef Reducer total
    cdef Loops subtract
    cdef Loops exp
    cdef Loops divide

    def __init__(self, maximum, subtract, exp, add, divide):
        self.greatest, self.total = Reducer(maximum), Reducer(add)
        self.subtract, self.exp, self.divide = Loops(subtract), Loops(exp), Loops(divide)

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp item = PyArray_ITEMSIZE(a), n
        cdef int kind = kind_of(descr)
        cdef char *of_rows
        cdef char *to
        cdef char *centred
        if not is_float(descr) or not cube_of(a, setting(settings, "axis"), False, &cube):
            return None
        n = PyArray_SIZE(a)
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), descr)
        to = PyArray_BYTES(<PyArrayObject *>y)
        of_rows = <char *>PyMem_Malloc((cube.outer * cube.inner + n) * item)
        if of_rows is NULL:
            raise MemoryError
        centred = of_rows + cube.outer * cube.inner * item
        self.greatest.reduce(kind, PyArray_BYTES(a), of_rows, &cube, item)
        by_row(self.subtract, kind, PyArray_BYTES(a), of_rows, centred, &cube, item)
        self.exp_of(kind, centred, to, n, item)
        self.total.reduce(kind, to, of_rows, &cube, item)
        by_row(self.divide, kind, to, of_rows, to, &cube, item)
        PyMem_Free(of_rows)
        return y

    cdef void exp_of(
        self, int kind, char *x, char *y, cnp.npy_intp n, cnp.npy_intp item
    ) noexcept:
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        args[0], args[1] = x, y
        steps[0] = steps[1] = 0 if n == 1 else item
        self.exp.call_kind(kind, args, n, steps)


cdef class DirectLogSoftmax(DirectSoftmax):
    """The logarithm of softmax along axes, of floats."""

    cdef Loops log

    def __init__(self, maximum, subtract, exp, add, log):
        self.greatest, self.total = Reducer(maximum), Reducer(add)
        self.subtract, self.exp, self.log = Loops(subtract), Loops(exp), Loops(log)

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp item = PyArray_ITEMSIZE(a), n = PyArray_SIZE(a), sum_count
        cdef int kind = kind_of(descr)
        cdef char *of_rows
        cdef char *powers
        cdef char *to
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        if not is_float(descr) or not cube_of(a, setting(settings, "axis"), False, &cube):
            return None
        sum_count = cube.outer * cube.inner
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), descr)
        to = bytes_of(y)
        of_rows = <char *>PyMem_Malloc((sum_count + n) * item)
        if of_rows is NULL:
            raise MemoryError
        powers = of_rows + sum_count * item
        self.greatest.reduce(kind, PyArray_BYTES(a), of_rows, &cube, item)
        by_row(self.subtract, kind, PyArray_BYTES(a), of_rows, to, &cube, item)
        self.exp_of(kind, to, powers, n, item)
        self.total.reduce(kind, powers, of_rows, &cube, item)
        args[0] = args[1] = of_rows
        steps[0] = steps[1] = 0 if sum_count == 1 else item
        self.log.call_kind(kind, args, sum_count, steps)
        by_row(self.subtract, kind, to, of_rows, to, &cube, item)
        PyMem_Free(of_rows)
        return y


cdef class DirectSparseLoss(DirectSoftmax):
    """The cross-entropy of softmax along the last axis with one class for each row, of floats."""

    cdef Loops log
    cdef Py_ssize_t element_limit

    def __init__(self, maximum, subtract, exp, add, log, Py_ssize_t element_limit):
        self.greatest, self.total = Reducer(maximum), Reducer(add)
        self.subtract, self.exp, self.log = Loops(subtract), Loops(exp), Loops(log)
        self.element_limit = element_limit

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *labels = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *x
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr
        cdef cnp.npy_intp n, item, row, label
        cdef int k, kind
        cdef char *powers
        cdef char *shifted
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        x = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        descr, n, item = PyArray_DESCR(x), PyArray_SIZE(x), PyArray_ITEMSIZE(x)
        if not is_float(descr) or not in_order(x) or n > self.element_limit:
            return None
        if PyArray_DESCR(labels) is not I32 and PyArray_DESCR(labels) is not I64:
            return None
        if not cube_of(x, -1, False, &cube) or cube.nd != PyArray_NDIM(labels):
            return None
        for k in range(cube.nd):
            if PyArray_DIM(labels, k) != cube.dims[k]:
                return None
        for row in range(cube.outer):
            if not 0 <= position_at(labels, row) < cube.size:
                return None
        y = empty(cube.nd, cube.dims, descr)
        powers = <char *>PyMem_Malloc(2 * n * item)
        if powers is NULL:
            raise MemoryError
        shifted, kind = powers + n * item, kind_of(descr)
        self.greatest.reduce(kind, PyArray_BYTES(x), bytes_of(y), &cube, item)
        by_row(self.subtract, kind, PyArray_BYTES(x), bytes_of(y), shifted, &cube, item)
        self.exp_of(kind, shifted, powers, n, item)
        self.total.reduce(kind, powers, bytes_of(y), &cube, item)
        args[0] = args[1] = bytes_of(y)
        steps[0] = steps[1] = 0 if cube.outer == 1 else item
        self.log.call_kind(kind, args, cube.outer, steps)
        for row in range(cube.outer):
            label = row * cube.size + position_at(labels, row)
            if descr is F32:
                (<float *>bytes_of(y))[row] -= (<float *>shifted)[label]
            else:
                (<double *>bytes_of(y))[row] -= (<double *>shifted)[label]
        PyMem_Free(powers)
        return y


cdef class DirectDenseLoss(DirectSoftmax):
    """The cross-entropy of softmax along the last axis with a chance for each class, of floats."""

    cdef Loops log

    def __init__(self, maximum, subtract, exp, add, log):
        self.greatest, self.total = Reducer(maximum), Reducer(add)
        self.subtract, self.exp, self.log = Loops(subtract), Loops(exp), Loops(log)

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *labels = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *x
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(labels)
        cdef cnp.npy_intp n = PyArray_SIZE(labels), item = PyArray_ITEMSIZE(labels)
        cdef int kind = kind_of(descr)
        cdef char *powers
        cdef char *shifted
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        if PyList_GET_SIZE(arrays) != 3 or not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        x = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        if not is_float(descr) or PyArray_DESCR(x) is not descr or not in_order(x):
            return None
        if not same_shape(labels, x) or not cube_of(x, -1, False, &cube):
            return None
        y = empty(cube.nd, cube.dims, descr)
        powers = <char *>PyMem_Malloc(2 * n * item)
        if powers is NULL:
            raise MemoryError
        shifted = powers + n * item
        self.greatest.reduce(kind, PyArray_BYTES(x), bytes_of(y), &cube, item)
        by_row(self.subtract, kind, PyArray_BYTES(x), bytes_of(y), shifted, &cube, item)
        self.exp_of(kind, shifted, powers, n, item)
        self.total.reduce(kind, powers, bytes_of(y), &cube, item)
        args[0] = args[1] = bytes_of(y)
        steps[0] = steps[1] = 0 if cube.outer == 1 else item
        self.log.call_kind(kind, args, cube.outer, steps)
        by_row(self.subtract, kind, shifted, bytes_of(y), shifted, &cube, item)
        if descr is F32:
            weigh(<float *>shifted, <float *>PyArray_BYTES(labels), n)
        else:
            weigh(<double *>shifted, <double *>PyArray_BYTES(labels), n)
        self.total.reduce(kind, shifted, bytes_of(y), &cube, item)
        if descr is F32:
            negate(<float *>bytes_of(y), cube.outer)
        else:
            negate(<double *>bytes_of(y), cube.outer)
        PyMem_Free(powers)
        return y


cdef void weigh(Float *x, Float *weights, cnp.npy_intp n) noexcept:
    """Multiply; a weight of 0 makes 0 of infinity, too."""
    cdef cnp.npy_intp i
    for i in range(n):
        x[i] = 0 if weights[i] == 0 else x[i] * weights[i]


cdef inline void negate(Float *x, cnp.npy_intp n) noexcept:
    cdef cnp.npy_intp i
    for i in range(n):
        x[i] = -x[i]


cdef void by_row(
    Loops loops, int kind, char *x, char *of_rows, char *y, Cube *cube, cnp.npy_intp item
) noexcept:
    """An operation of each row of `x` and a number for it; of columns one for each number."""
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    cdef cnp.npy_intp o, i, width = cube.size * item
    if cube.inner > 1:
        width = cube.inner * item
        for i in range(cube.outer * cube.size):
            args[0], args[2] = x + i * width, y + i * width
            args[1] = of_rows + i // cube.size * width
            steps[0] = steps[1] = steps[2] = item
            loops.call_kind(kind, args, cube.inner, steps)
        return
    for o in range(cube.outer):
        args[0], args[1], args[2] = x + o * width, of_rows + o * item, y + o * width
        steps[0], steps[1], steps[2] = item, 0, item
        loops.call_kind(kind, args, cube.size, steps)


ctypedef fused Number:
    float
    double
    cnp.npy_int32
    cnp.npy_int64


cdef void running(
    Number *x, Number *y, Cube *cube, bint multiplies, bint reverse
) noexcept nogil:
    cdef cnp.npy_intp o, i, j, n = cube.inner, size = cube.size * cube.inner
    # from element to element, and where the first one is
    cdef cnp.npy_intp step = -n if reverse else n, first = size - n if reverse else 0
    cdef Number total
    for o in range(cube.outer):
        if n == 1:
            total = x[first]
            y[first] = total
            for i in range(1, cube.size):
                total = combined(total, x[first + i * step], multiplies)
                y[first + i * step] = total
        else:
            for j in range(n):
                y[first + j] = x[first + j]
            for i in range(1, cube.size):
                add_or_multiply(y + first + i * step, step, x + first + i * step, n, multiplies)
        x += size
        y += size


cdef inline void add_or_multiply(
    Number *y, cnp.npy_intp step, Number *x, cnp.npy_intp n, bint multiplies
) noexcept nogil:
    """A row of totals from the one before, `step` elements ahead of it, and a row of numbers."""
    cdef cnp.npy_intp j
    for j in range(n):
        y[j] = combined(y[j - step], x[j], multiplies)


cdef inline Number combined(Number a, Number b, bint multiplies) noexcept nogil:
    """a * b or a + b; whole numbers wrap around."""
    if Number is cnp.npy_int32:
        if multiplies:
            return <cnp.npy_int32>(<cnp.npy_uint32>a * <cnp.npy_uint32>b)
        return <cnp.npy_int32>(<cnp.npy_uint32>a + <cnp.npy_uint32>b)
    elif Number is cnp.npy_int64:
        if multiplies:
            return <cnp.npy_int64>(<cnp.npy_uint64>a * <cnp.npy_uint64>b)
        return <cnp.npy_int64>(<cnp.npy_uint64>a + <cnp.npy_uint64>b)
    else:
        return a * b if multiplies else a + b


cdef class DirectRunning(Direct):
    """Sums or products of all elements up to each; products of any number of them."""

    cdef bint multiplies

    def __init__(self, bint multiplies):
        self.multiplies = self.any_size = multiplies
        self.widens = not multiplies

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef bint multiplies = self.multiplies, backwards
        cdef char *x = PyArray_BYTES(a)
        cdef char *to
        if setting(settings, "exclusive") is not False:
            return None
        axis, reverse = setting(settings, "axis"), setting(settings, "reverse")
        if reverse is not True and reverse is not False:
            return None
        backwards = reverse is True
        if type(axis) is not int or not cube_of(a, axis, True, &cube):
            return None
        if not is_float(descr) and descr is not I32 and descr is not I64:
            return None
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), descr)
        to = PyArray_BYTES(<PyArrayObject *>y)
        with nogil:
            if descr is F32:
                running(<float *>x, <float *>to, &cube, multiplies, backwards)
            elif descr is F64:
                running(<double *>x, <double *>to, &cube, multiplies, backwards)
            elif descr is I32:
                running(<cnp.npy_int32 *>x, <cnp.npy_int32 *>to, &cube, multiplies, backwards)
            else:
                running(<cnp.npy_int64 *>x, <cnp.npy_int64 *>to, &cube, multiplies, backwards)
        return y


cdef inline bint is_ahead(Number a, Number b, bint greatest) noexcept:
    """Whether `a` comes before `b`, which stands earlier: it is greater, or less, or the first NaN."""
    if Number is float or Number is double:
        if a != a:
            return b == b
    return a > b if greatest else a < b


cdef void positions(
    Number *x, char *y, Cube *cube, bint greatest, bint as_int64
) noexcept:
    cdef cnp.npy_intp o, i, j, position, n = cube.inner
    cdef Number extreme
    for o in range(cube.outer):
        for j in range(n):
            extreme = x[j]
            position = 0
            for i in range(1, cube.size):
                if is_ahead(x[i * n + j], extreme, greatest):
                    extreme = x[i * n + j]
                    position = i
            if as_int64:
                (<cnp.npy_int64 *>y)[o * n + j] = position
            else:
                (<cnp.npy_int32 *>y)[o * n + j] = <cnp.npy_int32>position
        x += cube.size * n


cdef class DirectPosition(Direct):
    """Where the greatest or the least elements are, the first of equal ones."""

    cdef bint greatest

    def __init__(self, bint greatest):
        self.greatest = greatest
        self.widens = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef Cube cube
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef char *x = PyArray_BYTES(a)
        cdef char *to
        cdef bint as_int64
        axis, dtype = setting(settings, "axis"), setting(settings, "dtype")
        if type(axis) is tuple or not axes_of(a, settings, &cube):
            return None
        if dtype == "int64":
            as_int64 = True
        elif dtype == "int32":
            as_int64 = False
        else:
            return None
        y = empty(cube.nd, cube.dims, I64 if as_int64 else I32)
        to = PyArray_BYTES(<PyArrayObject *>y)
        if descr is F32:
            positions(<float *>x, to, &cube, self.greatest, as_int64)
        elif descr is F64:
            positions(<double *>x, to, &cube, self.greatest, as_int64)
        elif descr is I32:
            positions(<cnp.npy_int32 *>x, to, &cube, self.greatest, as_int64)
        elif descr is I64:
            positions(<cnp.npy_int64 *>x, to, &cube, self.greatest, as_int64)
        else:
            return None
        return y


def has_nan(x):
    """Whether a NaN is among the floats of an array; `None` for arrays of other kinds."""
    cdef PyArrayObject *a
    cdef cnp.npy_intp i, n, count = 0
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    n = PyArray_SIZE(a)
    if not in_order(a):
        return None
    # Counted to the end, which compilers make vector code of.
    if PyArray_DESCR(a) is F32:
        for i in range(n):
            count += (<float *>PyArray_BYTES(a))[i] != (<float *>PyArray_BYTES(a))[i]
    elif PyArray_DESCR(a) is F64:
        for i in range(n):
            count += (<double *>PyArray_BYTES(a))[i] != (<double *>PyArray_BYTES(a))[i]
    else:
        return None
    return count != 0
