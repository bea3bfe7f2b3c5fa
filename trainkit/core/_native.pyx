# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, binding=True, embedsignature=False
"""The usual cases of the eager path in machine code; `trainkit.core.native` is its door.

Everything here is the short way through something that is written in Python as well: operations on
plain tensors of float32 or float64 in NumPy arrays, their entries on tapes, and the walk back over
such entries. What is not usual goes to the Python function that each of these was made for, which
also finds the words of all errors. Small arrays are handed to the inner loops of NumPy's ufuncs as
NumPy would hand them over, so the bits are the same.
"""

cimport numpy as cnp
from cpython.dict cimport (
    PyDict_Contains, PyDict_DelItem, PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size,
)
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

cnp.import_array()
cnp.import_umath()

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t count)
    unsigned long PyThread_get_thread_ident()
    unsigned long PyLong_AsUnsignedLong(object x) except? -1
    Py_ssize_t Py_REFCNT(object x)
    object PyLong_FromVoidPtr(void *p)
    long long PyLong_AsLongLongAndOverflow(object x, int *overflow) except? -1
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        PyTypeObject *subtype, cnp.PyArray_Descr *descr, int nd, const cnp.npy_intp *dims,
        const cnp.npy_intp *strides, void *data, int flags, PyObject *obj)
    ctypedef struct PyArrayObject:
        pass
    cnp.PyArray_Descr *PyArray_DESCR(PyArrayObject *array)
    int PyArray_NDIM(PyArrayObject *array)
    cnp.npy_intp *PyArray_DIMS(PyArrayObject *array)
    cnp.npy_intp PyArray_DIM(PyArrayObject *array, int axis)
    cnp.npy_intp PyArray_SIZE(PyArrayObject *array)
    char *PyArray_BYTES(PyArrayObject *array)
    int PyArray_ITEMSIZE(PyArrayObject *array)
    int PyArray_FLAGS(PyArrayObject *array)
    PyTypeObject PyArray_Type
    object PyArray_FromScalar(object scalar, cnp.PyArray_Descr *outcode)
    object PyArray_MatrixProduct(object a, object b)
    object PyArray_Transpose(PyArrayObject *array, void *axes)
    int NPY_ARRAY_C_CONTIGUOUS
    int NPY_ARRAY_F_CONTIGUOUS
    int NPY_ARRAY_ALIGNED
    int NPY_ARRAY_WRITEABLE
    int NPY_ARRAY_OWNDATA

cdef extern from "numpy/arrayscalars.h":
    ctypedef struct PyFloatScalarObject:
        float obval

import numpy as np

cdef enum:
    # Elements up to which a loop is called directly: beyond it a call's own cost is lost in it.
    DIRECT = 4096
    MOST_INPUTS = 8

VERSION = 2
"""Raised when a name or an argument here changes; `core.native` takes none other."""

cdef bint enabled = False

# What `bind` is given.
cdef PyTypeObject *TENSOR = NULL
cdef PyTypeObject *VARIABLE = NULL
cdef Py_ssize_t ARRAY = 0
cdef PyTypeObject *TAPE = NULL
cdef list TAPES = None
cdef object THREAD = None
cdef object WRAPPED = None
cdef list WIDE = None
cdef Py_ssize_t LARGE = 0
cdef object KERNEL_ERRORS = ()
cdef object CALL = None

cdef PyTypeObject *FLOAT32 = <PyTypeObject *>np.float32
cdef PyTypeObject *FLOAT64 = <PyTypeObject *>np.float64
cdef cnp.dtype DTYPE_F32 = np.dtype(np.float32)
cdef cnp.dtype DTYPE_F64 = np.dtype(np.float64)
cdef cnp.dtype DTYPE_BOOL = np.dtype(np.bool_)
cdef cnp.PyArray_Descr *F32 = <cnp.PyArray_Descr *><PyObject *>DTYPE_F32
cdef cnp.PyArray_Descr *F64 = <cnp.PyArray_Descr *><PyObject *>DTYPE_F64
cdef cnp.dtype DTYPE_I32 = np.dtype(np.int32)
cdef cnp.dtype DTYPE_I64 = np.dtype(np.int64)
cdef cnp.PyArray_Descr *I32 = <cnp.PyArray_Descr *><PyObject *>DTYPE_I32
cdef cnp.PyArray_Descr *I64 = <cnp.PyArray_Descr *><PyObject *>DTYPE_I64
cdef cnp.PyArray_Descr *BOOL = <cnp.PyArray_Descr *><PyObject *>DTYPE_BOOL


def bind(tensor, variable, recorder, list wide, Py_ssize_t large, errors, call, wrapped):
    """Learn of the classes and lists of the Python side; called once.

    Args:
        tensor: `Tensor`, whose slot `_array` is read in place.
        variable: `Variable`.
        recorder: the module.
        wide: `callables.WIDE`.
        large: elements from which `wide` is asked.
        errors: what kernels raise when inputs do not fit.
        call: calls a ufunc, in a file whose warnings are dropped.
        wrapped: makes tensors of what a kernel gives.
    """
    global TENSOR, VARIABLE, ARRAY, TAPES, THREAD, WIDE, LARGE, KERNEL_ERRORS, CALL, WRAPPED
    TENSOR, VARIABLE = <PyTypeObject *>tensor, <PyTypeObject *>variable
    slot = tensor.__dict__["_array"]
    ARRAY = (<PyMemberDescrObject *><PyObject *>slot).d_member.offset
    TAPES, THREAD = recorder.TAPES, recorder.THREAD
    WIDE, LARGE, KERNEL_ERRORS, CALL, WRAPPED = wide, large, errors, call, wrapped


def bind_tape(tape):
    """Learn of the class `GradientTape`, whose record is written to in place."""
    global TAPE
    TAPE = <PyTypeObject *>tape


def switch(bint on):
    """Take the short ways, or leave all to the Python functions; gives what was before."""
    global enabled
    before = enabled
    enabled = on
    return before


def is_on():
    """Whether the short ways are taken."""
    return enabled


# ---------------------------------------------------------------------- tensors and arrays


cdef inline object array_of(object x):
    """The array of an exact `Tensor`, or `None`."""
    cdef PyObject *held = (<PyObject **>((<char *><PyObject *>x) + ARRAY))[0]
    return <object>held if held is not NULL else None


cdef inline object wrap(object array):
    """A tensor on `array`."""
    cdef object y = PyType_GenericAlloc(TENSOR, 0)
    Py_INCREF(array)
    (<PyObject **>((<char *><PyObject *>y) + ARRAY))[0] = <PyObject *>array
    return y


cdef inline bint is_array(object x) noexcept:
    return Py_TYPE(x) is &PyArray_Type


cdef inline bint is_number(object x) noexcept:
    return type(x) is float or type(x) is int


cdef inline object empty(int nd, cnp.npy_intp *dims, cnp.PyArray_Descr *descr):
    """A new array in C order."""
    Py_INCREF(<object><PyObject *>descr)
    return PyArray_NewFromDescr(&PyArray_Type, descr, nd, dims, NULL, NULL, 0, NULL)


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
    cdef int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
    return PyArray_FLAGS(a) & wanted == wanted


cdef inline bint same_shape(PyArrayObject *a, PyArrayObject *b) noexcept:
    cdef int i, nd = PyArray_NDIM(a)
    if nd != PyArray_NDIM(b):
        return False
    for i in range(nd):
        if PyArray_DIM(a, i) != PyArray_DIM(b, i):
            return False
    return True


# ---------------------------------------------------------------------- loops of ufuncs


cdef class Loops:
    """The inner loops of a ufunc for float32 and float64."""

    cdef object ufunc
    cdef cnp.PyUFuncGenericFunction f32
    cdef cnp.PyUFuncGenericFunction f64
    cdef void *data32
    cdef void *data64
    cdef bint gives_bool

    def __cinit__(self, cnp.ufunc ufunc):
        cdef int i, k, nin = ufunc.nin, nargs = ufunc.nin + ufunc.nout
        cdef char kind, result
        self.ufunc = ufunc
        if ufunc.nout != 1:
            return
        for i in range(ufunc.ntypes):
            kind = ufunc.types[i * nargs]
            result = ufunc.types[i * nargs + nin]
            for k in range(nin):
                if ufunc.types[i * nargs + k] != kind:
                    kind = -1
            if result != kind and result != cnp.NPY_BOOL:
                continue
            if kind == cnp.NPY_FLOAT and self.f32 is NULL:
                self.f32, self.data32 = ufunc.functions[i], ufunc.data[i]
                self.gives_bool = result == cnp.NPY_BOOL
            elif kind == cnp.NPY_DOUBLE and self.f64 is NULL:
                self.f64, self.data64 = ufunc.functions[i], ufunc.data[i]

    cdef inline cnp.PyArray_Descr *result(self, cnp.PyArray_Descr *descr) noexcept:
        return BOOL if self.gives_bool else descr

    cdef inline bint has(self, cnp.PyArray_Descr *descr) noexcept:
        if descr is F32:
            return self.f32 is not NULL
        return descr is F64 and self.f64 is not NULL

    cdef inline void call(
        self, cnp.PyArray_Descr *descr, char **args, cnp.npy_intp n, cnp.npy_intp *steps
    ) noexcept:
        if descr is F32:
            self.f32(args, &n, steps, self.data32)
        else:
            self.f64(args, &n, steps, self.data64)


cdef inline cnp.npy_intp step_of(PyArrayObject *a, cnp.npy_intp size) noexcept:
    """What NumPy has as the stride of an array in order that it walks over at one go."""
    return 0 if size == 1 else PyArray_ITEMSIZE(a)


cdef object apply1(Loops loops, object x):
    """The ufunc of one array as `plain` gives it, or `None` if that is not for this module."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef char *args[2]
    cdef cnp.npy_intp steps[2]
    if not loops.has(descr):
        return None
    if n > DIRECT or not in_order(a):
        return by_ufunc1(loops, x, n)
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(<PyArrayObject *>y)
    steps[0], steps[1] = step_of(a, n), step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps)
    return y


cdef object by_ufunc1(Loops loops, object x, cnp.npy_intp n):
    if n >= LARGE and PyList_GET_SIZE(WIDE):
        return None
    try:
        return CALL(loops.ufunc, x)
    except KERNEL_ERRORS:
        return None


cdef object by_ufunc2(Loops loops, object x1, object x2, cnp.npy_intp n):
    if n >= LARGE and PyList_GET_SIZE(WIDE):
        return None
    try:
        return CALL(loops.ufunc, x1, x2)
    except KERNEL_ERRORS:
        return None


cdef object apply2(Loops loops, object x1, object x2):
    """The ufunc of two arrays as `plain` gives them, or `None` if that is not for this module."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef PyArrayObject *like
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp size_a, size_b, n, rows, row, i
    cdef char *args[3]
    cdef char *now[3]
    cdef cnp.npy_intp steps[3]
    if PyArray_DESCR(b) is not descr or not loops.has(descr):
        return None
    size_a, size_b = PyArray_SIZE(a), PyArray_SIZE(b)
    n = size_a if size_a >= size_b else size_b
    if n > DIRECT or not in_order(a) or not in_order(b):
        return by_ufunc2(loops, x1, x2, n)
    rows = 1
    if same_shape(a, b) or PyArray_NDIM(b) == 0:
        like = a
        n = size_a
    elif PyArray_NDIM(a) == 0:
        like = b
        n = size_b
    elif (
        PyArray_NDIM(b) == 1 and PyArray_NDIM(a) == 2
        and PyArray_DIM(a, 1) == size_b and size_b > 1 and size_a
    ):
        like = a
        rows, n = PyArray_DIM(a, 0), size_b
    else:
        return by_ufunc2(loops, x1, x2, n)
    y = empty(PyArray_NDIM(like), PyArray_DIMS(like), loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(b)
    args[2] = PyArray_BYTES(<PyArrayObject *>y)
    steps[0], steps[1] = step_of(a, size_a), step_of(b, size_b)
    steps[2] = step_of(<PyArrayObject *>y, n)
    if rows == 1:
        if n:
            loops.call(descr, args, n, steps)
        return y
    for i in range(rows):
        # A loop may change what it is given.
        now[0], now[1], now[2] = args[0] + i * n * steps[0], args[1], args[2] + i * n * steps[2]
        loops.call(descr, now, n, steps)
    return y


cdef object apply2_number(Loops loops, object x, object number, bint number_first):
    """The same where one side is a Python number, which is weak."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef int overflow = 0
    cdef long long whole
    cdef double wide
    cdef float narrow
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    cdef int at_array = 1 if number_first else 0
    if not loops.has(descr):
        return None
    if n > DIRECT or not in_order(a):
        if number_first:
            return by_ufunc2(loops, number, x, n)
        return by_ufunc2(loops, x, number, n)
    if type(number) is float:
        wide = <double>number
    else:
        whole = PyLong_AsLongLongAndOverflow(number, &overflow)
        if overflow or whole > 1 << 53 or whole < -(1 << 53):
            return None
        wide = <double>whole
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), loops.result(descr))
    args[at_array] = PyArray_BYTES(a)
    steps[at_array] = step_of(a, n)
    if descr is F32:
        narrow = <float>wide
        args[1 - at_array] = <char *>&narrow
    else:
        args[1 - at_array] = <char *>&wide
    steps[1 - at_array] = 0
    args[2] = PyArray_BYTES(<PyArrayObject *>y)
    steps[2] = step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps)
    return y


# ---------------------------------------------------------------------- recording


cdef object read(object variable):
    """The value of a variable, which tapes hear of, as `Variable._read` gives it."""
    if THREAD.traces:
        return variable._read()
    value = variable._value
    if PyList_GET_SIZE(TAPES):
        for tape in TAPES:
            if is_mine(tape):
                note(tape, variable, value)
    return value


cdef int note(object tape, object variable, object value) except -1:
    """Tell a tape of a read; a first read of the usual kind is noted here."""
    cdef dict reads, tracked
    cdef list seen
    cdef cnp.PyArray_Descr *descr
    if Py_TYPE(tape) is TAPE:
        reads = tape._reads
        key = PyLong_FromVoidPtr(<PyObject *>variable)
        known = reads.get(key)
        if known is None:
            if not tape._watches_variables or not variable.trainable:
                return 0
            array = array_of(value) if Py_TYPE(value) is TENSOR else None
            if is_array(array):
                descr = PyArray_DESCR(<PyArrayObject *>array)
                if descr is F32 or descr is F64:
                    reads[key] = (variable, [value])
                    (<list>tape._variables).append(variable)
                    tracked = tape.tracked
                    tracked.setdefault(value)
                    (<set>tape._leaves).add(value)
                    return 0
        else:
            seen = <list>(<tuple>known)[1]
            if seen[PyList_GET_SIZE(seen) - 1] is value:
                return 0
    tape.note_variable(variable, value)
    return 0


cdef inline bint is_mine(object tape) except -1:
    """Whether a tape belongs to this thread."""
    return PyLong_AsUnsignedLong(tape.thread) == PyThread_get_thread_ident()


cdef class Op:
    """What an operation's short way needs to know."""

    cdef object primitive
    cdef object reference
    cdef Loops loops
    cdef bint has_rules

    def __cinit__(self, primitive, reference, *facts):
        self.primitive, self.reference = primitive, reference

    cdef bint differentiable(self) except -1:
        """Whether there are gradient rules; once there, they stay."""
        if not self.has_rules:
            self.has_rules = self.primitive.recorded
        return self.has_rules

    cdef int record1(self, object x, object y) except -1:
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            if PyDict_Contains(tracked, x) and is_mine(tape):
                if self.differentiable():
                    PyDict_SetItem(tracked, y, (self.primitive, None, x))
                else:
                    tape.note_exit(self.primitive.name, (x,))
        return 0

    cdef int record2(self, object x1, object x2, object y) except -1:
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            if (
                PyDict_Contains(tracked, x1) or PyDict_Contains(tracked, x2)
            ) and is_mine(tape):
                if self.differentiable():
                    PyDict_SetItem(tracked, y, (self.primitive, None, x1, x2))
                else:
                    tape.note_exit(self.primitive.name, (x1, x2))
        return 0

    cdef object unary(self, object x):
        """The result, or `None` if the call is not usual."""
        if Py_TYPE(x) is VARIABLE:
            x = read(x)
        if Py_TYPE(x) is not TENSOR:
            return None
        array = plain(array_of(x))
        if array is None:
            return None
        result = apply1(self.loops, array)
        if result is None:
            return None
        y = wrap(result)
        if PyList_GET_SIZE(TAPES):
            self.record1(x, y)
        return y

    cdef object binary(self, object x1, object x2):
        """The result, or `None` if the call is not usual."""
        if Py_TYPE(x1) is VARIABLE:
            x1 = read(x1)
        if Py_TYPE(x2) is VARIABLE:
            x2 = read(x2)
        if Py_TYPE(x1) is TENSOR:
            one = plain(array_of(x1))
            if one is None:
                return None
            if Py_TYPE(x2) is TENSOR:
                two = plain(array_of(x2))
                if two is None:
                    return None
                result = apply2(self.loops, one, two)
            elif is_number(x2):
                result = apply2_number(self.loops, one, x2, False)
            else:
                return None
        elif Py_TYPE(x2) is TENSOR and is_number(x1):
            two = plain(array_of(x2))
            if two is None:
                return None
            result = apply2_number(self.loops, two, x1, True)
        else:
            return None
        if result is None:
            return None
        y = wrap(result)
        if PyList_GET_SIZE(TAPES):
            self.record2(x1, x2, y)
        return y


def unary_ufunc(primitive, reference):
    """The function of a ufunc of one input; what is not usual goes to `reference`."""
    cdef Op self = Op(primitive, reference)
    self.loops = Loops(primitive.kernel)

    def op(x):
        if enabled:
            y = self.unary(x)
            if y is not None:
                return y
        return self.reference(x)

    return op


def binary_ufunc(primitive, reference):
    """The function of a ufunc of two inputs; what is not usual goes to `reference`."""
    cdef Op self = Op(primitive, reference)
    self.loops = Loops(primitive.kernel)

    def op(x1, x2):
        if enabled:
            y = self.binary(x1, x2)
            if y is not None:
                return y
        return self.reference(x1, x2)

    return op


# ---------------------------------------------------------------------- other kernels


cdef class Kernel(Op):
    """A kernel `(np, *arrays, **settings)` of NumPy arrays, called on tensors.

    Args:
        primitive, reference: as for `Op`.
        one_dtype: inputs of several dtypes are not for this module.
        floats_only: nor are inputs of other dtypes than float32 and float64.
    """

    cdef object kernel
    cdef bint one_dtype
    cdef bint floats_only

    def __init__(self, primitive, reference, one_dtype, floats_only):
        self.kernel = primitive.kernel
        self.one_dtype, self.floats_only = one_dtype, floats_only

    cdef object run(self, tuple inputs, dict settings):
        """The result, or `None` if the call is not usual."""
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(inputs)
        cdef cnp.PyArray_Descr *descr
        cdef cnp.PyArray_Descr *first = NULL
        cdef list ready = [np]
        cdef bint has_variable = False
        for i in range(count):
            if Py_TYPE(<object>PyTuple_GET_ITEM(inputs, i)) is VARIABLE:
                has_variable = True
        if has_variable:
            inputs = tuple([read(x) if Py_TYPE(x) is VARIABLE else x for x in inputs])
        for i in range(count):
            x = <object>PyTuple_GET_ITEM(inputs, i)
            if x is None:
                ready.append(None)
                continue
            if Py_TYPE(x) is not TENSOR:
                return None
            array = array_of(x)
            if not is_array(array):
                return None
            descr = PyArray_DESCR(<PyArrayObject *>array)
            if self.floats_only and descr is not F32 and descr is not F64:
                return None
            if first is NULL:
                first = descr
            elif self.one_dtype and descr is not first:
                return None
            ready.append(array)
        try:
            if PyDict_Size(settings):
                result = self.kernel(*ready, **settings)
            else:
                result = self.kernel(*ready)
        except KERNEL_ERRORS as error:
            result = self.primitive.again(error, inputs, settings)
        y = WRAPPED(result) if type(result) is tuple else wrap(result)
        if PyList_GET_SIZE(TAPES):
            self.record(inputs, y, settings)
        return y

    cdef int record(self, tuple inputs, object y, dict settings) except -1:
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            for x in inputs:
                if PyDict_Contains(tracked, x):
                    break
            else:
                continue
            if not is_mine(tape):
                continue
            if not self.differentiable():
                tape.note_exit(self.primitive.name, inputs)
                continue
            given = settings if PyDict_Size(settings) else None
            PyDict_SetItem(tracked, y, (self.primitive, given) + inputs)
            if type(y) is tuple:
                for part in y:
                    PyDict_SetItem(tracked, part, None)
        return 0


def unary(primitive, reference, bint floats_only):
    """The function of a kernel of one input with settings."""
    cdef Kernel self = Kernel(primitive, reference, False, floats_only)

    def op(x, **settings):
        if enabled:
            y = self.run((x,), settings)
            if y is not None:
                return y
        return self.reference(x, **settings)

    return op


def binary(primitive, reference, bint one_dtype):
    """The function of a kernel of two inputs without settings."""
    cdef Kernel self = Kernel(primitive, reference, one_dtype, False)

    def op(x1, x2):
        if enabled and x1 is not None and x2 is not None:
            y = self.run((x1, x2), {})
            if y is not None:
                return y
        return self.reference(x1, x2)

    return op


def general(primitive, reference, bint one_dtype, bint floats_only):
    """The function of any other kernel; inputs may be `None`."""
    cdef Kernel self = Kernel(primitive, reference, one_dtype, floats_only)

    def op(*inputs, **settings):
        if enabled:
            y = self.run(inputs, settings)
            if y is not None:
                return y
        return self.reference(*inputs, **settings)

    return op


# ---------------------------------------------------------------------- products of matrices


cdef inline bint is_matrix(PyArrayObject *a, cnp.npy_intp most) noexcept:
    """Whether `dot` is the shorter way for a matrix, as `ops.products.product` has it."""
    cdef cnp.npy_intp size = PyArray_SIZE(a)
    return (
        PyArray_NDIM(a) == 2
        and size <= most
        and size > 0
        and PyArray_FLAGS(a) & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS) != 0
        and PyArray_FLAGS(a) & NPY_ARRAY_ALIGNED != 0
    )


cdef object product(object x1, object x2, cnp.npy_intp most):
    """`x1.dot(x2)` of small matrices of one dtype, `None` for others."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    if (
        PyArray_DESCR(b) is not descr
        or not is_matrix(a, most)
        or not is_matrix(b, most)
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


def matmul(primitive, reference, Py_ssize_t most):
    """The function of `matmul`; what are no small matrices of one dtype goes to `reference`.

    Args:
        primitive: its declaration.
        reference: the Python function.
        most: elements of an input up to which the call of BLAS is `dot`'s.
    """
    cdef Op self = Op(primitive, reference)

    def op(x1, x2):
        if enabled:
            y = multiplied(self, x1, x2, most)
            if y is not None:
                return y
        return self.reference(x1, x2)

    return op


cdef object multiplied(Op self, object x1, object x2, Py_ssize_t most):
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
    result = product(one, two, most)
    if result is None:
        return None
    y = wrap(result)
    if PyList_GET_SIZE(TAPES):
        self.record2(x1, x2, y)
    return y


cdef inline bint is_multiplied(cnp.PyArray_Descr *descr) noexcept:
    return descr is F32 or descr is F64 or descr is I32 or descr is I64


# ---------------------------------------------------------------------- the walk back

cdef enum:
    SMALL = 16  # a sum of fewer elements is made in new memory

cdef Loops ADD = Loops(np.add)


cdef class Step:
    """One kernel of a gradient rule.

    An operand is the number of a register (0 `g`, 1 `y`, 2 and 3 the inputs, then the results of
    steps), or -1 for what stands in `given`.
    """

    cdef Loops loops
    cdef object kernel
    cdef dict settings
    cdef int count
    cdef int places[2]
    cdef bint turned[2]
    cdef object given
    cdef Py_ssize_t most

    def __cinit__(self, kind, kernel, places, given, settings):
        self.count = len(places)
        if not 1 <= self.count <= 2:
            raise ValueError("a step has one or two operands")
        for i in range(self.count):
            self.places[i] = places[i]
        self.kernel, self.settings = kernel, settings
        self.given = tuple([np.asarray(x) if isinstance(x, np.generic) else x for x in given])
        if kind == "ufunc":
            self.loops = Loops(kernel)
        elif kind == "product":
            self.most = kernel
            self.turned[0], self.turned[1] = settings["turned"]

    cdef inline object operand(self, int i, object g, object y, object a, object b, list made):
        cdef int place = self.places[i]
        if place < 0:
            return <object>PyTuple_GET_ITEM(self.given, i)
        if place == 0:
            return g
        if place == 1:
            return y
        if place == 2:
            return a
        if place == 3:
            return b
        return made[place - 4]

    cdef object do(self, object g, object y, object a, object b, list made):
        """The result, or `None` where the step is not for this module."""
        p = self.operand(0, g, y, a, b, made)
        if self.count == 1:
            if self.loops is not None:
                return apply1(self.loops, p) if is_array(p) else None
            return plain(self.kernel(np, p, **self.settings) if self.settings else self.kernel(np, p))
        q = self.operand(1, g, y, a, b, made)
        if self.most:
            return self.product(p, q)
        if self.loops is None:
            if self.settings:
                return plain(self.kernel(np, p, q, **self.settings))
            return plain(self.kernel(np, p, q))
        if not is_array(p):
            return apply2_number(self.loops, q, p, True) if is_array(q) and is_number(p) else None
        if not is_array(q):
            return apply2_number(self.loops, p, q, False) if is_number(q) else None
        return apply2(self.loops, p, q)

    cdef object product(self, object p, object q):
        if not is_array(p) or not is_array(q):
            return None
        if PyArray_NDIM(<PyArrayObject *>p) != 2 or PyArray_NDIM(<PyArrayObject *>q) != 2:
            return None
        if self.turned[0]:
            p = PyArray_Transpose(<PyArrayObject *>p, NULL)
        if self.turned[1]:
            q = PyArray_Transpose(<PyArrayObject *>q, NULL)
        return product(p, q, self.most)


cdef class Rule:
    """The gradient by one input: what comes in as it is, or the result of the last step."""

    cdef tuple steps

    def __cinit__(self, steps):
        self.steps = tuple([Step(*step) for step in steps])

    cdef object gradient(self, object g, object y, object a, object b):
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(self.steps)
        cdef list made = None
        if count == 0:
            return g
        if count > 1:
            made = []
        for i in range(count):
            result = (<Step><object>PyTuple_GET_ITEM(self.steps, i)).do(g, y, a, b, made)
            if result is None:
                return None
            if made is not None:
                made.append(result)
        return result


cdef class Back:
    """The way back through an operation of one or two inputs for one dtype.

    Args:
        reference: the Python function that does the same.
        rules: for each input the steps of its rule, none to pass the gradient on, or `None` for
            no gradient. `None` for all where a rule is not made of steps.
        summed: the kernel that sums over axes along which an input was broadcast.
    """

    cdef readonly object reference
    cdef object summed
    cdef Rule first
    cdef Rule second
    cdef bint known

    def __cinit__(self, reference, rules, summed):
        self.reference, self.summed = reference, summed
        if rules is not None:
            self.known = True
            self.first = None if rules[0] is None else Rule(rules[0])
            if len(rules) == 2:
                self.second = None if rules[1] is None else Rule(rules[1])

    cdef bint one(self, object output, object g, object x, needed, dict grads) except -1:
        """Pass an entry of one input; False, and nothing is done, if that is not for this module."""
        if not self.known or not PyArray_SIZE(<PyArrayObject *>g) <= DIRECT:
            return False
        if self.first is None or x not in needed:
            return True
        y, a = plain(array_of(output)), plain(array_of(x))
        if y is None or a is None:
            return False
        gx = self.first.gradient(g, y, a, None)
        if gx is None:
            return False
        deliver(grads, x, gx)
        return True

    cdef bint two(self, object output, object g, object x1, object x2, needed, dict grads) except -1:
        """The same for an entry of two inputs, one of which may be a number."""
        cdef bint number1 = Py_TYPE(x1) is not TENSOR, number2 = Py_TYPE(x2) is not TENSOR
        if not self.known or not PyArray_SIZE(<PyArrayObject *>g) <= DIRECT:
            return False
        y = plain(array_of(output))
        a = x1 if number1 else plain(array_of(x1))
        b = x2 if number2 else plain(array_of(x2))
        if y is None or a is None or b is None:
            return False
        gx1 = gx2 = None
        if not number1 and self.first is not None and x1 in needed:
            gx1 = self.first.gradient(g, y, a, b)
            if gx1 is None:
                return False
            if not number2 and not same_shape(<PyArrayObject *>gx1, <PyArrayObject *>a):
                gx1 = plain(self.summed(np, gx1, a))
        if not number2 and self.second is not None and x2 in needed:
            gx2 = self.second.gradient(g, y, a, b)
            if gx2 is None:
                return False
            if not number1 and not same_shape(<PyArrayObject *>gx2, <PyArrayObject *>b):
                gx2 = plain(self.summed(np, gx2, b))
        if gx1 is not None:
            deliver(grads, x1, gx1)
        if gx2 is not None:
            deliver(grads, x2, gx2)
        return True


cdef int deliver(dict grads, object x, object gx) except -1:
    """Add an array to the gradient by `x`, in the memory of the one before if that is nobody's."""
    cdef PyObject *held = PyDict_GetItemWithError(grads, x)
    cdef PyArrayObject *to
    if held is NULL:
        return PyDict_SetItem(grads, x, gx)
    before = <object>held
    if is_array(before):
        to = <PyArrayObject *>before
        if (
            PyArray_SIZE(to) >= SMALL
            and Py_REFCNT(before) == 2  # in the dict, and here
            and PyArray_FLAGS(to) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA)
            == NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA
            and PyArray_DESCR(to) is PyArray_DESCR(<PyArrayObject *>gx)
            and same_shape(to, <PyArrayObject *>gx)
        ):
            add_to(before, gx)
            return 0
    before = plain(before)
    total = None if before is None else apply2(ADD, before, gx)
    if total is None:
        total = np.add(<object>held, gx)
    return PyDict_SetItem(grads, x, total)


cdef int add_to(object total, object more) except -1:
    cdef PyArrayObject *a = <PyArrayObject *>total
    cdef PyArrayObject *b = <PyArrayObject *>more
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    if n > DIRECT or not in_order(a) or not in_order(b) or not ADD.has(descr):
        np.add(total, more, total)
        return 0
    args[0] = args[2] = PyArray_BYTES(a)
    args[1] = PyArray_BYTES(b)
    steps[0] = steps[2] = step_of(a, n)
    steps[1] = step_of(b, n)
    ADD.call(descr, args, n, steps)
    return 0


def walk(dict tracked, dict grads, needed, set kept, ways_of, of_many, other, on_tensors):
    """Do what `autodiff.walk._walk_arrays` does.

    Args:
        tracked: the record of a tape, which is used up.
        grads: arrays by tensor.
        needed: holds the tensors whose gradient is of use.
        kept: tensors whose gradient stays.
        ways_of: gives the ways back of a primitive whose rules have none yet.
        of_many: passes an entry that gave several results.
        other: passes any other entry.
        on_tensors: passes one by its rules on tensors.

    Returns:
        What a rule gave that are no plain tensors, else `None`.
    """
    cdef bint keeps = False, has_needed = needed is not tracked, stays
    cdef PyObject *held
    cdef set sums = set()
    for x in kept:
        if tracked[x] is not None:  # a result, which is not only watched
            keeps = True
    while tracked:
        output, entry = tracked.popitem()
        if entry is None:
            continue
        held = PyDict_GetItemWithError(grads, output)
        stays = keeps and output in kept
        if has_needed and not stays:
            needed.discard(output)
        if held is not NULL:
            g = <object>held
            if not stays:
                PyDict_DelItem(grads, output)
            if passed(entry, output, g, needed, grads, sums, ways_of):
                continue
            rule = (<object>PyTuple_GET_ITEM(entry, 0)).given_joint
            if rule is None or plain(g) is None:
                odd = other(entry, output, g, grads, needed, sums)
            elif jointly(rule, entry, output, g, needed, grads):
                continue
            else:
                odd = on_tensors(entry, output, wrap(g), grads, needed, sums)
        elif type(output) is tuple:
            odd = of_many(entry, output, grads, needed, kept, sums)
        else:
            continue
        if odd is not None:
            return odd
    return None


cdef bint jointly(
    object rule, tuple entry, object output, object g, needed, dict grads
) except -1:
    """Pass an entry by its joint rule on arrays; False if that declines."""
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(entry)
    given, wanted = [g, array_of(output)], []
    for i in range(2, count):
        x = <object>PyTuple_GET_ITEM(entry, i)
        given.append(array_of(x) if Py_TYPE(x) is TENSOR else x)
        wanted.append(x in needed)
    settings = <object>PyTuple_GET_ITEM(entry, 1)
    found = rule(*given, needed=wanted, **(settings or {}))
    if found is NotImplemented:
        return False
    i = 2
    for gx in found:
        if wanted[i - 2] and gx is not None:
            deliver_any(grads, <object>PyTuple_GET_ITEM(entry, i), gx)
        i += 1
    if i != count:
        name = (<object>PyTuple_GET_ITEM(entry, 0)).name
        raise ValueError(f"{name}: the joint rule gave {i - 2} gradients for {count - 2} inputs")
    return True


cdef int deliver_any(dict grads, object x, object gx) except -1:
    """`deliver` of an array of any dtype."""
    cdef PyObject *held
    if is_array(gx) and plain(gx) is not None:
        return deliver(grads, x, gx)
    held = PyDict_GetItemWithError(grads, x)
    return PyDict_SetItem(grads, x, gx if held is NULL else np.add(<object>held, gx))


cdef bint passed(
    tuple entry, object output, object g, needed, dict grads, set sums, ways_of
) except -1:
    """Pass an entry by its way back; False, and nothing is done, if it has none.

    What it holds is let go at its end, so that the walk frees results as it passes them.
    """
    cdef tuple ways
    cdef Back back
    cdef Py_ssize_t count = PyTuple_GET_SIZE(entry), wide
    array = plain(g)
    if array is None or <object>PyTuple_GET_ITEM(entry, 1) is not None:
        return False
    primitive = <object>PyTuple_GET_ITEM(entry, 0)
    rules = primitive.array_rules
    ways = None if rules is None else rules.compiled
    if ways is None:
        ways = ways_of(primitive)
    wide = 0 if PyArray_DESCR(<PyArrayObject *>array) is F32 else 1
    if count == 3:
        back = ways[wide]
        if back is None:
            return False
        x = <object>PyTuple_GET_ITEM(entry, 2)
        return back.one(output, array, x, needed, grads) or not back.reference(
            output, g, x, needed, grads, sums
        )
    if count != 4 or PyTuple_GET_SIZE(ways) != 6:
        return False
    a, b = <object>PyTuple_GET_ITEM(entry, 2), <object>PyTuple_GET_ITEM(entry, 3)
    if Py_TYPE(b) is not TENSOR:
        back = ways[3 * wide + 1]
    elif Py_TYPE(a) is not TENSOR:
        back = ways[3 * wide + 2]
    else:
        back = ways[3 * wide]
    if back is None:
        return False
    return back.two(output, array, a, b, needed, grads) or not back.reference(
        output, g, a, b, needed, grads, sums
    )
