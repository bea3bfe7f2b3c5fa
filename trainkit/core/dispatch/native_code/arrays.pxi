# Tensors, and the arrays in them.


cdef inline object array_of(object x):
    """The array of an exact `Tensor`, or `None`."""
    cdef PyObject *pointer = (<PyObject **>((<char *><PyObject *>x) + ARRAY))[0]
    return <object>pointer if pointer is not NULL else None


cdef inline object wrap(object array):
    """A tensor on `array`."""
    cdef object y = PyType_GenericAlloc(TENSOR, 0)
    Py_INCREF(array)
    (<PyObject **>((<char *><PyObject *>y) + ARRAY))[0] = <PyObject *>array
    return y


cdef object wrap_all(tuple arrays):
    """Tensors on the arrays of a kernel with several results; `WRAPPED` has those in tuples."""
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(arrays)
    cdef list tensors = []
    for i in range(count):
        array = <object>PyTuple_GET_ITEM(arrays, i)
        if type(array) is tuple:
            return WRAPPED(arrays)
        tensors.append(wrap(array))
    return tuple(tensors)


cdef inline void keep_input(object y, object x, object primitive, dict settings):
    """Let the result of an activation refer to what it was made of; not if that is one itself."""
    cdef PyObject **of_y = <PyObject **>((<char *><PyObject *>y) + ACTIVATION)
    cdef PyObject **of_x = <PyObject **>((<char *><PyObject *>x) + ACTIVATION)
    if of_x[0] is NULL:
        entry = (primitive, x, settings)
        Py_INCREF(entry)
        of_y[0] = <PyObject *>entry


cdef inline bint is_array(object x) noexcept:
    return Py_TYPE(x) is &PyArray_Type


cdef inline bint is_large(object x) noexcept:
    """Whether a line of the cache counts where an array like this one begins."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    return is_array(x) and PyArray_SIZE(a) * PyArray_ITEMSIZE(a) >= LINED_BY_NUMPY


cdef inline bint is_number(object x) noexcept:
    return type(x) is float or type(x) is int


cdef enum:
    # Bytes from which on an array begins where a line of the cache does, and from which on NumPy's
    # own arrays do: changing its allocator takes a third of a microsecond.
    LINED = 1 << 14
    LINED_BY_NUMPY = 1 << 17


cdef inline object empty(int nd, cnp.npy_intp *dims, cnp.PyArray_Descr *descr):
    """A new array in C order."""
    cdef int k
    cdef size_t size = cnp.PyDataType_ELSIZE(<cnp.dtype>descr)
    Py_INCREF(<object><PyObject *>descr)
    for k in range(nd):
        size *= dims[k]  # NumPy finds what is too large
    if size >= LINED:
        handler = PyDataMem_GetHandler()
        if <PyObject *>handler is PyDataMem_DefaultHandler or handler is LINES:
            return trainkit_lined_array(descr, nd, dims, size, LINES)
    return PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, NULL, 0, NULL)


def new_array(tuple shape, cnp.dtype dtype):
    """An array of sizes that another array has, whose numbers are not set."""
    cdef cnp.npy_intp dims[64]
    cdef int k, nd = <int>PyTuple_GET_SIZE(shape)
    for k in range(nd):
        dims[k] = shape[k]
    return empty(nd, dims, <cnp.PyArray_Descr *><PyObject *>dtype)


def are_sizes(shape):
    """Whether it is a tuple of plain ints, none of them negative."""
    cdef Py_ssize_t i
    cdef int overflow = 0
    if type(shape) is not tuple:
        return False
    for i in range(PyTuple_GET_SIZE(shape)):
        size = <object>PyTuple_GET_ITEM(shape, i)
        if type(size) is not int or PyLong_AsLongLongAndOverflow(size, &overflow) < 0 or overflow:
            return False
    return True


cdef inline object plain(object array):
    """`array` as a NumPy array if it is one of float32 or float64, or such a number; or `None`."""
    cdef cnp.PyArray_Descr *descr
    if is_array(array):
        descr = PyArray_DESCR(<PyArrayObject *>array)
        return array if descr is F32 or descr is F64 else None
    if Py_TYPE(array) is FLOAT32:
        number = empty(0, NULL, F32)
        (<float *>PyArray_BYTES(<PyArrayObject *>number))[0] = (
            <PyFloatScalarObject *><PyObject *>array
        ).obval
        return number
    if Py_TYPE(array) is FLOAT64:
        return PyArray_FromScalar(array, NULL)
    return None


cdef inline bint in_order(PyArrayObject *a) noexcept:
    cdef int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
    return PyArray_FLAGS(a) & flags == flags


cdef object turned(object x):
    """An array whose axes in reverse order lie in memory, with its axes so; `None` for others."""
    cdef int flags = NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED
    if PyArray_FLAGS(<PyArrayObject *>x) & flags != flags:
        return None
    return PyArray_Transpose(<PyArrayObject *>x, NULL)


cdef object turned_back(object y):
    """`y` with its axes in reverse order; `None` stays."""
    return None if y is None else PyArray_Transpose(<PyArrayObject *>y, NULL)


cdef inline bint same_shape(PyArrayObject *a, PyArrayObject *b) noexcept:
    cdef int i, nd = PyArray_NDIM(a)
    if nd != PyArray_NDIM(b):
        return False
    for i in range(nd):
        if PyArray_DIM(a, i) != PyArray_DIM(b, i):
            return False
    return True


cdef inline bint are_crossed(PyArrayObject *a, PyArrayObject *b) noexcept:
    """Whether the shapes are (n,) and (n, 1), in any order; see crossed_samples.py."""
    cdef PyArrayObject *column = b if PyArray_NDIM(a) == 1 else a
    cdef PyArrayObject *vector = a if PyArray_NDIM(a) == 1 else b
    return (
        PyArray_NDIM(vector) == 1
        and PyArray_NDIM(column) == 2
        and PyArray_DIMS(column)[1] == 1
        and PyArray_DIMS(column)[0] == PyArray_DIMS(vector)[0]
    )


# ---------------------------------------------------------------------- what a tensor is

cdef PyTypeObject *SHAPE = NULL
cdef list COUNTED = None
cdef object SHAPE_OF = None
cdef object DTYPE_OF = None
cdef object OF_F32 = None
cdef object OF_F64 = None
cdef object OF_I32 = None
cdef object OF_I64 = None
cdef object OF_BOOL = None


def bind_properties(shape, list counted, shape_of, dtype_of, dtypes):
    """Learn of what `tensor_shape` and `tensor_dtype` give; called once.

    Args:
        shape: `TensorShape`, a class of tuples without attributes.
        counted: empty where sizes are plain.
        shape_of, dtype_of: the Python functions for other tensors.
        dtypes: the element types by NumPy's.
    """
    global SHAPE, COUNTED, SHAPE_OF, DTYPE_OF, OF_F32, OF_F64, OF_I32, OF_I64, OF_BOOL
    SHAPE, COUNTED, SHAPE_OF, DTYPE_OF = <PyTypeObject *>shape, counted, shape_of, dtype_of
    OF_F32, OF_F64 = dtypes[DTYPE_F32], dtypes[DTYPE_F64]
    OF_I32, OF_I64, OF_BOOL = dtypes[DTYPE_I32], dtypes[DTYPE_I64], dtypes[DTYPE_BOOL]


def tensor_shape(x):
    """The property `Tensor.shape`."""
    cdef PyArrayObject *a
    cdef int i, nd
    if not PyObject_TypeCheck(x, TENSOR) or PyList_GET_SIZE(COUNTED):
        return SHAPE_OF(x)
    array = array_of(x)
    if not is_array(array):
        return SHAPE_OF(x)
    a = <PyArrayObject *>array
    nd = PyArray_NDIM(a)
    shape = PyType_GenericAlloc(SHAPE, nd)
    for i in range(nd):
        size = <object>PyArray_DIM(a, i)
        Py_INCREF(size)
        PyTuple_SET_ITEM(shape, i, size)
    return shape


def tensor_dtype(x):
    """The property `Tensor.dtype`."""
    cdef cnp.PyArray_Descr *descr
    if not PyObject_TypeCheck(x, TENSOR):
        return DTYPE_OF(x)
    array = array_of(x)
    if not is_array(array):
        return DTYPE_OF(x)
    descr = PyArray_DESCR(<PyArrayObject *>array)
    if descr is F32:
        return OF_F32
    if descr is I32:
        return OF_I32
    if descr is I64:
        return OF_I64
    if descr is BOOL:
        return OF_BOOL
    return OF_F64 if descr is F64 else DTYPE_OF(x)
