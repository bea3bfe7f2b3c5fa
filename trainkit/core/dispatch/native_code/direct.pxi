# What is done with small arrays without a call of their kernel, by the facet `direct`.


cdef class Direct:
    """What is done with few elements in place of a kernel: the same bits, or `None`.

    Attributes:
        any_size: it serves any number of elements, as it moves none or is faster than NumPy.
        size_limit: the most elements where others round otherwise from some size on.
        widens: its body computes in float32 what is of 16-bit floats, and rounds once.
        chooses: it gives one of the elements, but for which zero or NaN.
        reduces: it has axes, and their order in memory alone counts.
    """

    cdef bint any_size
    cdef bint widens
    cdef bint chooses
    cdef bint reduces
    cdef Py_ssize_t size_limit

    def __cinit__(self, *facts):
        self.size_limit = DIRECT

    cdef object run(self, list arrays, dict settings):
        """The result on `arrays[1:]`, the first of which is in C order."""
        return None


cdef class DirectOfAnySize(Direct):
    """What moves no elements, or is faster than NumPy however many there are."""

    def __init__(self):
        self.any_size = True


cdef class DirectReshape(DirectOfAnySize):
    """The same elements in another shape."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp dims[16]
        cdef cnp.npy_intp n, product = 1
        cdef int i, nd, free = -1
        cdef long long k
        cdef int overflow = 0
        shape = setting(settings, "shape")
        if type(shape) is not tuple or PyTuple_GET_SIZE(shape) > 16 or not PyArray_SIZE(a):
            return None
        nd = <int>PyTuple_GET_SIZE(shape)
        for i in range(nd):
            size = <object>PyTuple_GET_ITEM(shape, i)
            if type(size) is not int:
                return None
            k = PyLong_AsLongLongAndOverflow(size, &overflow)
            if k == -1 and not overflow and free < 0:
                free = i
                continue
            # So large a product is not that of an array's sizes, and would wrap around.
            if overflow or k < 1 or k > PyArray_SIZE(a) // product:
                return None
            dims[i] = <cnp.npy_intp>k
            product *= dims[i]
        if free >= 0:
            dims[free] = PyArray_SIZE(a) // product
            product *= dims[free]
        return view(a, nd, dims) if product == PyArray_SIZE(a) else None


cdef class DirectExpandDims(DirectOfAnySize):
    """A new axis of size 1."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp dims[16]
        cdef int i, where = 0, nd = PyArray_NDIM(a)
        axis = setting(settings, "axis")
        if type(axis) is not tuple or PyTuple_GET_SIZE(axis) != 1 or nd > 15:
            return None
        if not number_of_axis(<object>PyTuple_GET_ITEM(axis, 0), nd + 1, &where):
            return None
        for i in range(nd):
            dims[i + (i >= where)] = PyArray_DIM(a, i)
        dims[where] = 1
        return view(a, nd + 1, dims)


cdef object view(PyArrayObject *a, int nd, cnp.npy_intp *dims):
    """The elements of an array in C order in another shape, as its `reshape` gives them."""
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    Py_INCREF(<object><PyObject *>descr)
    y = PyArray_NewFromDescr(
        &PyArray_Type, descr, nd, dims, NULL, PyArray_BYTES(a),
        PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL,
    )
    Py_INCREF(<object><PyObject *>a)
    PyArray_SetBaseObject(<PyArrayObject *>y, <PyObject *>a)
    return y


cdef class DirectJoin(Direct):
    """Arrays of one dtype one after the other along an axis, which for stacks is a new one."""

    cdef bint stacks

    def __init__(self, bint stacks):
        self.stacks = stacks

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *b
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp dims[16]
        cdef cnp.npy_intp o, width, outer = 1, inner = PyArray_ITEMSIZE(a), total = 0, size = 0
        cdef int i, k, where = 0, nd = PyArray_NDIM(a)
        cdef Py_ssize_t count = PyList_GET_SIZE(arrays)
        cdef char *to
        if not is_number_dtype(descr) or nd + self.stacks > 16:
            return None
        if not number_of_axis(setting(settings, "axis"), nd + self.stacks, &where):
            return None
        for i in range(1, count):
            if not is_array(<object>PyList_GET_ITEM(arrays, i)):
                return None
            b = <PyArrayObject *>PyList_GET_ITEM(arrays, i)
            if PyArray_DESCR(b) is not descr or PyArray_NDIM(b) != nd or not in_order(b):
                return None
            for k in range(nd):
                if PyArray_DIM(b, k) != PyArray_DIM(a, k) and (self.stacks or k != where):
                    return None
            size += PyArray_SIZE(b)
            total += 1 if self.stacks else PyArray_DIM(b, where)
        if size > DIRECT:
            return None
        for k in range(nd):
            dims[k + (self.stacks and k >= where)] = PyArray_DIM(a, k)
            if k < where:
                outer *= PyArray_DIM(a, k)
            elif self.stacks or k > where:
                inner *= PyArray_DIM(a, k)
        dims[where] = total
        y = empty(nd + self.stacks, dims, descr)
        to = PyArray_BYTES(<PyArrayObject *>y)
        for o in range(outer):
            for i in range(1, count):
                b = <PyArrayObject *>PyList_GET_ITEM(arrays, i)
                width = inner if self.stacks else inner * PyArray_DIM(b, where)
                copy_slice(to, PyArray_BYTES(b) + o * width, width)
                to += width
        return y


cdef class DirectDivision(Direct):
    """Whole quotients and rests of numbers of one dtype; by an integer 0 the body divides."""

    cdef Loops loops
    cdef DivisionLoop own  # of float32

    def __init__(self, ufunc):
        self.loops = Loops(ufunc)
        if ufunc is np.remainder:
            self.own = rests
        elif ufunc is np.fmod:
            self.own = rests_towards_zero
        else:
            self.own = quotients
        self.any_size = True

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *b
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
        cdef cnp.npy_intp n = PyArray_SIZE(a)
        if not self.loops.has_kind(descr) or descr is BOOL or PyArray_NDIM(a) == 0 or n == 0:
            return None
        if not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        b = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        if PyArray_DESCR(b) is not descr or not in_order(b):
            return None
        if PyArray_NDIM(b) != 0 and not same_shape(a, b):
            return None
        if has_integer_zero(b):
            return None
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), descr)
        self.divide(
            kind_of(descr), PyArray_BYTES(a), PyArray_BYTES(b), PyArray_BYTES(<PyArrayObject *>y), n,
            PyArray_ITEMSIZE(a), 0 if PyArray_NDIM(b) == 0 else PyArray_ITEMSIZE(a),
        )
        return y

    cdef void divide(
        self, int kind, char *a, char *b, char *y, cnp.npy_intp n, cnp.npy_intp item,
        cnp.npy_intp step_b,
    ) noexcept:
        cdef NumpyLoop loop = self.loops.by_kind[kind]
        cdef void *data = self.loops.data_by_kind[kind]
        cdef DivisionLoop own = self.own if kind == cnp.NPY_FLOAT else NULL
        cdef cnp.npy_intp i, some = n, start = 0
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        cdef float divisors[DIVIDED]
        steps[0] = steps[2] = 0 if n == 1 else item
        steps[1] = 0 if n == 1 else step_b
        with nogil:
            if own is not NULL and step_b == 0:
                for i in range(DIVIDED):
                    divisors[i] = (<float *>b)[0]
            while start < n:
                args[0], args[1], args[2] = a + start * item, b + start * step_b, y + start * item
                if own is not NULL:
                    some = min(n - start, <cnp.npy_intp>DIVIDED)
                if own is NULL or not own(
                    <float *>args[0], &divisors[0] if step_b == 0 else <float *>args[1],
                    <float *>args[2], some,
                ):
                    loop(args, &some, steps, data)
                start += some


cdef bint has_integer_zero(PyArrayObject *b) noexcept:
    """Whether integers, by which something is divided, have a 0 among them."""
    cdef cnp.npy_intp i, zeros = 0, n = PyArray_SIZE(b)
    if PyArray_DESCR(b) is I32:
        for i in range(n):
            zeros += (<cnp.npy_int32 *>PyArray_BYTES(b))[i] == 0
    elif PyArray_DESCR(b) is I64:
        for i in range(n):
            zeros += (<cnp.npy_int64 *>PyArray_BYTES(b))[i] == 0
    return zeros != 0


cdef dict FORMS = {
    "reduction": DirectReduction,
    "mean": DirectMean,
    "variance": DirectVariance,
    "softmax": DirectSoftmax,
    "quantile": DirectQuantile,
    "running": DirectRunning,
    "position": DirectPosition,
    "reshape": DirectReshape,
    "expand_dims": DirectExpandDims,
    "join": DirectJoin,
    "division": DirectDivision,
    "dense": DirectDense,
    "log_softmax": DirectLogSoftmax,
    "sparse_loss": DirectSparseLoss,
    "dense_loss": DirectDenseLoss,
    "take": DirectTake,
    "segment_sum": DirectSegmentSum,
    "positions": DirectPositions,
    "gather_nd": DirectGatherNd,
    "scatter": DirectScatter,
    "bincount": DirectBincount,
    "nonzero": DirectNonzero,
    "search": DirectSearch,
    "squeeze": DirectSqueeze,
    "where": DirectWhere,
    "diagonal": DirectDiagonal,
    "transpose": DirectTranspose,
    "flip": DirectFlip,
    "roll": DirectRoll,
    "triangle": DirectTriangle,
    "pad": DirectPad,
    "top_k": DirectTopK,
    "uniform": DirectUniform,
    "normal": DirectNormal,
    "integers": DirectIntegers,
    "kept": DirectKept,
    "permutation": DirectPermutation,
    "poisson": DirectPoisson,
    "binomial": DirectBinomial,
    "dropped": DirectDropped,
    "categorical": DirectCategorical,
    "gamma": DirectGamma,
}
