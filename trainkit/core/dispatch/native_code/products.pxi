# Products of small matrices.


cdef inline bint is_matrix(PyArrayObject *a, cnp.npy_intp element_limit) noexcept:
    """Whether `dot` is the shorter way for a matrix, as `ops.products.product` has it."""
    cdef cnp.npy_intp size = PyArray_SIZE(a)
    return (
        PyArray_NDIM(a) == 2
        and size <= element_limit
        and size > 0
        and PyArray_FLAGS(a) & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS) != 0
        and PyArray_FLAGS(a) & NPY_ARRAY_ALIGNED != 0
    )


cdef object product(object x1, object x2, cnp.npy_intp element_limit):
    """`x1.dot(x2)` of small matrices of one dtype, `None` for others."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    if PyArray_NDIM(b) == 1 and PyArray_DESCR(b) is descr and is_float(descr):
        return product_with_vector(x1, x2, element_limit)
    if descr is I32 and PyArray_DESCR(b) is descr:
        if PyArray_NDIM(a) != 2 or PyArray_NDIM(b) != 2 or not PyArray_SIZE(a):
            return None
        if not PyArray_SIZE(b) or PyArray_DIM(a, 1) != PyArray_DIM(b, 0):
            return None
        return product_of_integers(x1, x2)
    if (
        PyArray_DESCR(b) is not descr
        or not is_matrix(a, element_limit)
        or not is_matrix(b, element_limit)
        or PyArray_SIZE(a) == 1
        or PyArray_DIM(a, 1) != PyArray_DIM(b, 0)
    ):
        return None
    return PyArray_MatrixProduct(x1, x2)


cdef object product_with_vector(object x1, object x2, cnp.npy_intp element_limit):
    """The same of a matrix, or a vector, and a vector of floats."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef int nd = PyArray_NDIM(a)
    cdef cnp.npy_intp n = PyArray_SIZE(b)
    # A single number keeps the sign of a zero here, which `matmul` does not.
    if n < 2 or n > element_limit or not in_order(b) or not 1 <= nd <= 2 or not in_order(a):
        return None
    if PyArray_DIM(a, nd - 1) != n or PyArray_SIZE(a) > element_limit or not PyArray_SIZE(a):
        return None
    if nd == 2 and PyArray_DIM(a, 0) == 1:
        return None
    return PyArray_MatrixProduct(x1, x2)


cdef extern from *:
    """
    /* y = the product of (n, m) and (m, p) matrices of whole numbers, which wrap around. Four rows
       by 16 columns stay in registers while their sums are made: each is a vector of its own here,
       as compilers leave an array of sums in memory. */
    #if defined(__GNUC__)
    typedef uint32_t tk_integers __attribute__((vector_size(32), aligned(4), may_alias));
    #define TK_INTEGER_TILES \
        for (; i + 4 <= n; i += 4) \
            for (j = 0; j + 16 <= p; j += 16) { \
                const uint32_t *x = a + i * m; \
                tk_integers s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0; \
                for (k = 0; k < m; k++, x++) { \
                    tk_integers u = *(const tk_integers *)(b + k * p + j); \
                    tk_integers v = *(const tk_integers *)(b + k * p + j + 8); \
                    s0 += x[0] * u; s1 += x[0] * v; \
                    s2 += x[m] * u; s3 += x[m] * v; \
                    s4 += x[2 * m] * u; s5 += x[2 * m] * v; \
                    s6 += x[3 * m] * u; s7 += x[3 * m] * v; \
                } \
                tk_integers *to = (tk_integers *)(y + i * p + j); \
                to[0] = s0; to[1] = s1; \
                to = (tk_integers *)(y + (i + 1) * p + j); \
                to[0] = s2; to[1] = s3; \
                to = (tk_integers *)(y + (i + 2) * p + j); \
                to[0] = s4; to[1] = s5; \
                to = (tk_integers *)(y + (i + 3) * p + j); \
                to[0] = s6; to[1] = s7; \
            }
    #else
    #define TK_INTEGER_TILES
    #endif
    #define TK_INTEGER_PRODUCT(NAME, TARGET) \
        TARGET static void NAME( \
            const uint32_t *a, const uint32_t *b, uint32_t *y, Py_ssize_t n, Py_ssize_t m, \
            Py_ssize_t p \
        ) { \
            Py_ssize_t i = 0, j, k, r, c; \
            TK_INTEGER_TILES \
            for (r = 0; r < n; r++) { \
                j = r < i ? p - p % 16 : 0; \
                for (c = j; c < p; c++) y[r * p + c] = 0; \
                for (k = 0; k < m; k++) { \
                    const uint32_t factor = a[r * m + k], *row = b + k * p; \
                    uint32_t *sums = y + r * p; \
                    for (c = j; c < p; c++) sums[c] += factor * row[c]; \
                } \
            } \
        }
    TK_INTEGER_PRODUCT(integer_product_wide, TK_WIDE)
    TK_INTEGER_PRODUCT(integer_product_narrow, )

    static void multiply_integers(
        int is_wide, const void *a, const void *b, void *y, Py_ssize_t n, Py_ssize_t m, Py_ssize_t p
    ) {
        (is_wide ? integer_product_wide : integer_product_narrow)(a, b, y, n, m, p);
    }
    """
    void multiply_integers(
        bint is_wide, const void *a, const void *b, void *y, Py_ssize_t n, Py_ssize_t m,
        Py_ssize_t p) nogil


cdef object product_of_integers(object x1, object x2):
    """The product of two matrices of int32; it wraps around."""
    cdef PyArrayObject *a
    cdef PyArrayObject *b
    cdef cnp.npy_intp dims[2]
    cdef cnp.npy_intp m
    cdef char *one
    cdef char *two
    cdef char *to
    x1 = x1 if in_order(<PyArrayObject *>x1) else PyArray_NewCopy(
        <PyArrayObject *>x1, cnp.NPY_CORDER
    )
    x2 = x2 if in_order(<PyArrayObject *>x2) else PyArray_NewCopy(
        <PyArrayObject *>x2, cnp.NPY_CORDER
    )
    a, b = <PyArrayObject *>x1, <PyArrayObject *>x2
    dims[0], dims[1], m = PyArray_DIM(a, 0), PyArray_DIM(b, 1), PyArray_DIM(a, 1)
    y = empty(2, dims, I32)
    one, two, to = PyArray_BYTES(a), PyArray_BYTES(b), bytes_of(y)
    # What fits no tile gains nothing by wider vectors, nor few numbers by other threads.
    cdef bint is_wide = WIDE_HALVES and dims[1] >= 16
    if dims[0] * m * dims[1] <= DIRECT:
        multiply_integers(is_wide, one, two, to, dims[0], m, dims[1])
        return y
    with nogil:
        multiply_integers(is_wide, one, two, to, dims[0], m, dims[1])
    return y


cdef class DirectDense(Direct):
    """The product of a few rows by a small kernel, plus a bias, rectified if asked for.

    Args:
        add, maximum: of NumPy, whose loops follow the product.
        element_limit: elements of a matrix up to which the call of BLAS is `dot`'s.
        work_limit: multiplications up to which no kernel is asked.
    """

    cdef Loops add
    cdef Loops maximum
    cdef Py_ssize_t element_limit
    cdef Py_ssize_t work_limit

    def __init__(self, add, maximum, Py_ssize_t element_limit, Py_ssize_t work_limit):
        self.add, self.maximum = Loops(add), Loops(maximum)
        self.element_limit, self.work_limit = element_limit, work_limit

    cdef object run(self, list arrays, dict settings):
        activation = setting(settings, "activation")
        if PyList_GET_SIZE(arrays) != 4 or not (activation is None or activation == "relu"):
            return None
        return self.multiply(arrays[1], arrays[2], arrays[3], activation is not None)

    cdef object multiply(self, object x, object kernel, object bias, bint rectifies):
        """The result, `None` where the body or a kernel is to do it."""
        cdef cnp.PyArray_Descr *descr
        cdef PyArrayObject *shift
        cdef cnp.npy_intp rows, columns, item
        cdef double zero = 0
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        cdef RowCalls sums
        if not is_array(x) or not is_array(kernel):
            return None
        descr = PyArray_DESCR(<PyArrayObject *>x)
        if not is_float(descr) or PyArray_NDIM(<PyArrayObject *>x) != 2:
            return None
        rows = PyArray_DIM(<PyArrayObject *>x, 0)
        if rows * size_of(kernel) > self.work_limit:
            return None
        if bias is not None:
            if not is_array(bias):
                return None
            shift = <PyArrayObject *>bias
            if PyArray_DESCR(shift) is not descr or PyArray_NDIM(shift) != 1 or not in_order(shift):
                return None
            if PyArray_SIZE(shift) != PyArray_DIM(<PyArrayObject *>kernel, 1):
                return None
        y = product(x, kernel, self.element_limit)
        if y is None:
            return None
        columns, item = PyArray_DIM(<PyArrayObject *>y, 1), PyArray_ITEMSIZE(<PyArrayObject *>y)
        args[0] = args[2] = bytes_of(y)
        if bias is not None:
            args[1] = bytes_of(bias)
            sums.dims[0], sums.dims[1] = rows, columns
            sums.row_steps[0] = sums.row_steps[2] = columns * item
            sums.row_steps[1] = 0
            sums.steps[0] = sums.steps[1] = sums.steps[2] = 0 if columns == 1 else item
            if columns == 1:  # all rows at once, beside the number
                sums.dims[0], sums.dims[1] = 1, rows
                sums.steps[0] = sums.steps[2] = 0 if rows == 1 else item
            self.add.call_rows(descr, args, &sums)
        if rectifies:
            args[1] = <char *>&zero  # whose bytes are those of a float32, too
            steps[0] = steps[2] = 0 if size_of(y) == 1 else item
            steps[1] = 0
            self.maximum.call(descr, args, size_of(y), steps, True)
        return y


cdef class SmallDense:
    """`dense` in a program: of few rows and a small kernel at once, others by a function.

    Args:
        direct: the facts of `DirectDense`.
        rectifies: whether results below 0 become 0.
        others: the function.
    """

    cdef DirectDense direct
    cdef bint rectifies
    cdef object others

    def __init__(self, tuple direct, bint rectifies, others):
        self.direct, self.rectifies, self.others = DirectDense(*direct), rectifies, others

    def __call__(self, *operands):
        cdef Py_ssize_t count = PyTuple_GET_SIZE(operands)
        if enabled and (count == 2 or count == 3):
            bias = operands[2] if count == 3 else None
            y = self.direct.multiply(operands[0], operands[1], bias, self.rectifies)
            if y is not None:
                return y
        return self.others(*operands)


def matmul(primitive, reference, Py_ssize_t element_limit):
    """The function of `matmul`; what are no small matrices of one dtype goes to `reference`.

    Args:
        primitive: its declaration.
        reference: the Python function.
        element_limit: elements of an input up to which the call of BLAS is `dot`'s.
    """
    cdef Op self = Op(primitive, reference)

    def op(x1=NOTHING, x2=NOTHING, *extra):
        if enabled and not extra:
            y = multiplied(self, x1, x2, element_limit)  # which does not take NOTHING
            if y is not None:
                return y
        return self.by_reference(x1, x2, extra, {})

    return op


cdef object multiplied(Op self, object x1, object x2, Py_ssize_t element_limit):
    if Py_TYPE(x1) is VARIABLE:
        x1 = read(x1)
    if Py_TYPE(x2) is VARIABLE:
        x2 = read(x2)
    if Py_TYPE(x1) is not TENSOR or Py_TYPE(x2) is not TENSOR:
        return None
    one, two = array_of(x1), array_of(x2)
    if not is_array(one) or not is_array(two):
        return None
    if not is_multiplied(PyArray_DESCR(<PyArrayObject *>one)):
        return None
    result = product(one, two, element_limit)
    if result is None:
        return None
    y = wrap(result)
    if PyList_GET_SIZE(TAPES):
        self.record2(x1, x2, y, False)
    return y


cdef inline bint is_multiplied(cnp.PyArray_Descr *descr) noexcept:
    return descr is F32 or descr is F64 or descr is I32 or descr is I64
