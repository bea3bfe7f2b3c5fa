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
    if (
        PyArray_DESCR(b) is not descr
        or not is_matrix(a, element_limit)
        or not is_matrix(b, element_limit)
        or PyArray_SIZE(a) == 1
        or PyArray_DIM(a, 1) != PyArray_DIM(b, 0)
    ):
        return None
    if descr is I32 and in_order(a) and in_order(b):
        return product_of_integers(a, b)
    return PyArray_MatrixProduct(x1, x2)


cdef object product_of_integers(PyArrayObject *a, PyArrayObject *b):
    """The product of two matrices of int32 in C order; it wraps around."""
    cdef cnp.npy_intp dims[2]
    cdef cnp.npy_intp n = PyArray_DIM(a, 0), m = PyArray_DIM(a, 1), p = PyArray_DIM(b, 1)
    cdef cnp.npy_intp i, j, k
    cdef unsigned int factor
    cdef unsigned int *left = <unsigned int *>PyArray_BYTES(a)
    cdef unsigned int *right = <unsigned int *>PyArray_BYTES(b)
    cdef unsigned int *row
    cdef unsigned int *to
    dims[0], dims[1] = n, p
    y = empty(2, dims, I32)
    to = <unsigned int *>PyArray_BYTES(<PyArrayObject *>y)
    for i in range(n):
        for j in range(p):
            to[j] = 0
        for k in range(m):
            factor, row = left[k], right + k * p
            for j in range(p):
                to[j] += factor * row[j]
        left += m
        to += p
    return y


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
