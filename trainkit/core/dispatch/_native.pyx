# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, binding=True, embedsignature=False
"""The usual cases of the eager path in machine code; `trainkit.core.dispatch.native` is its door.

Everything here is the short way through something that is written in Python as well: operations on
plain tensors of floats in NumPy arrays, their entries on tapes, the backward pass over
such entries, and the lines of a run's journal. What is not usual goes to the Python function that each
of these was made for, which also finds the words of all errors. Small arrays are handed to the inner
loops of NumPy's ufuncs as NumPy would hand them over, so the bits are the same.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport (
    PyDict_Contains, PyDict_DelItem, PyDict_GetItemWithError, PyDict_SetItem, PyDict_Size,
)
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM
from libc.string cimport memcpy, memset

cnp.import_array()
cnp.import_umath()

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t count)
    unsigned long PyThread_get_thread_ident()
    unsigned long PyLong_AsUnsignedLong(object x) except? -1
    Py_ssize_t count_of "Py_REFCNT" (PyObject *x)
    object PyLong_FromVoidPtr(void *p)
    Py_ssize_t PY_SSIZE_T_MAX
    long long PyLong_AsLongLongAndOverflow(object x, int *overflow) except? -1
    bint PyObject_TypeCheck(object x, PyTypeObject *kind)
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
    int PyArray_SetBaseObject(PyArrayObject *array, PyObject *base) except -1
    object PyArray_Transpose(PyArrayObject *array, cnp.PyArray_Dims *axes)
    object PyArray_NewCopy(PyArrayObject *array, cnp.NPY_ORDER order)
    int NPY_ARRAY_C_CONTIGUOUS
    int NPY_ARRAY_F_CONTIGUOUS
    int NPY_ARRAY_ALIGNED
    int NPY_ARRAY_WRITEABLE
    int NPY_ARRAY_OWNDATA

cdef extern from "numpy/arrayscalars.h":
    ctypedef struct PyFloatScalarObject:
        float obval

import ml_dtypes
import numpy as np

cdef enum:
    # Elements up to which a loop is called directly: beyond it a call's own cost is lost in it.
    DIRECT = 4096

VERSION = 22
"""Raised when a name or an argument here changes; `core.dispatch.native` takes none other."""

cdef bint enabled = False

# What `bind` is given.
cdef PyTypeObject *TENSOR = NULL
cdef PyTypeObject *VARIABLE = NULL
cdef Py_ssize_t ARRAY = 0
cdef Py_ssize_t ACTIVATION = 0
cdef PyTypeObject *TAPE = NULL
cdef list TAPES = None
cdef object HEAR_CROSSED = None
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
cdef int NUM_I32 = DTYPE_I32.num
cdef int NUM_I64 = DTYPE_I64.num
cdef cnp.PyArray_Descr *BOOL = <cnp.PyArray_Descr *><PyObject *>DTYPE_BOOL


cdef Py_ssize_t offset_of(kind, str name) except -1:
    """Where the slot `name` lies in objects of a class."""
    slot = kind.__dict__[name]
    return (<PyMemberDescrObject *><PyObject *>slot).d_member.offset


def bind(
    tensor, variable, trace_state, list large_kernels, Py_ssize_t large, errors, call, wrapped
):
    """Learn of the classes and lists of the Python side; called once.

    Args:
        tensor: `Tensor`, whose slots `_array` and `_activation` are read and filled in place.
        variable: `Variable`.
        trace_state: the module.
        large_kernels: `eager.WIDE`.
        large: elements from which `large_kernels` is asked.
        errors: what kernels raise when inputs do not fit.
        call: calls a ufunc, in a file whose warnings are dropped.
        wrapped: makes tensors of what a kernel gives.
    """
    global TENSOR, VARIABLE, ARRAY, ACTIVATION, TAPES, THREAD, WIDE, LARGE, KERNEL_ERRORS, CALL, WRAPPED
    global HEAR_CROSSED
    TENSOR, VARIABLE = <PyTypeObject *>tensor, <PyTypeObject *>variable
    ARRAY, ACTIVATION = offset_of(tensor, "_array"), offset_of(tensor, "_activation")
    TAPES, THREAD = trace_state.TAPES, trace_state.THREAD
    HEAR_CROSSED = trace_state.look_for_crossed_samples
    WIDE, LARGE, KERNEL_ERRORS, CALL, WRAPPED = large_kernels, large, errors, call, wrapped


def activation_of(x):
    """What `trainkit.core.tensor.activation_of` gives."""
    cdef PyObject *entry
    if not PyObject_TypeCheck(x, TENSOR):
        return None
    entry = (<PyObject **>((<char *><PyObject *>x) + ACTIVATION))[0]
    return None if entry is NULL else <object>entry


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


include "native_code/arena.pxi"
include "native_code/aligned.pxi"
include "native_code/arrays.pxi"
include "native_code/ownership.pxi"
include "native_code/own_loops.pxi"
include "native_code/loops.pxi"
include "native_code/series.pxi"
include "native_code/halves.pxi"
include "native_code/formulas.pxi"
include "native_code/direct.pxi"
include "native_code/draws.pxi"
include "native_code/permutations.pxi"
include "native_code/counted_draws.pxi"
include "native_code/reductions.pxi"
include "native_code/row_reductions.pxi"
include "native_code/quantiles.pxi"
include "native_code/indexing.pxi"
include "native_code/scattering.pxi"
include "native_code/rearranging.pxi"
include "native_code/calls.pxi"
include "native_code/products.pxi"
include "native_code/lapack.pxi"
include "native_code/backward.pxi"
include "native_code/journal.pxi"
include "native_code/planned_calls.pxi"
