# Inner loops of ufuncs for float32 and float64, called on small arrays as NumPy would call them.

# NumPy's own declaration of `ufunc` differs from version to version, and some leave `types` out.
ctypedef void (*NumpyLoop)(
    char **args, const cnp.npy_intp *n, const cnp.npy_intp *steps, void *data
) noexcept nogil

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct UfuncFields "PyUFuncObject":
        int nin
        int nout
        int ntypes
        NumpyLoop *functions
        void **data
        const char *types


cdef enum Extreme:
    NO_EXTREME
    OTHER_ROUNDING  # NumPy's or `ml_dtypes`'s choice is none of those below
    GREATEST  # of equal ones, as 0.0 and -0.0 are, the first
    GREATEST_OR_SECOND
    LEAST
    LEAST_OR_SECOND


cdef inline bint is_float(cnp.PyArray_Descr *descr) noexcept:
    return descr is F32 or descr is F64


cdef inline bint is_number_dtype(cnp.PyArray_Descr *descr) noexcept:
    """Whether it is one of the dtypes that this module knows."""
    return is_float(descr) or descr is I32 or descr is I64 or descr is BOOL


cdef inline int kind_of(cnp.PyArray_Descr *descr) noexcept:
    """NumPy's number of a dtype that this module knows."""
    if descr is F32:
        return cnp.NPY_FLOAT
    if descr is F64:
        return cnp.NPY_DOUBLE
    if descr is I32:
        return NUM_I32
    return NUM_I64 if descr is I64 else cnp.NPY_BOOL


cdef object POWER = np.power


cdef struct RowCalls:
    # Two operands and a matrix, row by row: sizes, and bytes from row to row and from number to number.
    cnp.npy_intp dims[2]
    cnp.npy_intp row_steps[3]
    cnp.npy_intp steps[3]


cdef class Loops:
    """The inner loops of a ufunc: for float32 and float64, and by NumPy's numbers of dtypes.

    The latter are those whose result has the dtype of the operands.
    """

    cdef object ufunc
    cdef const OwnLoop *own
    cdef NumpyLoop f32
    cdef NumpyLoop f64
    cdef void *data32
    cdef void *data64
    cdef bint gives_bool
    cdef bint computes_wide  # 16-bit floats in float32
    cdef bint rounds  # what gives other floats than its operands are
    cdef Extreme extreme_f16  # how it chooses, if that is what it does
    cdef Extreme extreme_bf16
    cdef NumpyLoop by_kind[cnp.NPY_DOUBLE + 1]
    cdef void *data_by_kind[cnp.NPY_DOUBLE + 1]

    def __cinit__(self, cnp.ufunc ufunc):
        cdef UfuncFields *fields = <UfuncFields *><PyObject *>ufunc
        cdef int i, k, nin = fields.nin, nargs = fields.nin + fields.nout
        cdef char kind, result
        self.ufunc = ufunc
        self.own = own_loop_of(ufunc)
        self.computes_wide = ufunc in COMPUTED_WIDE
        self.rounds = ufunc in ROUNDED_WIDE
        self.extreme_f16 = extreme_of(ufunc, DTYPE_F16)
        self.extreme_bf16 = extreme_of(ufunc, DTYPE_BF16)
        if fields.nout != 1:
            return
        for i in range(fields.ntypes):
            kind = fields.types[i * nargs]
            result = fields.types[i * nargs + nin]
            for k in range(nin):
                if fields.types[i * nargs + k] != kind:
                    kind = -1
            if result != kind and result != cnp.NPY_BOOL:
                continue
            if 0 <= kind <= cnp.NPY_DOUBLE and result == kind and self.by_kind[kind] is NULL:
                self.by_kind[kind] = fields.functions[i]
                self.data_by_kind[kind] = fields.data[i]
            if kind == cnp.NPY_FLOAT and self.f32 is NULL:
                self.f32, self.data32 = fields.functions[i], fields.data[i]
                self.gives_bool = result == cnp.NPY_BOOL
            elif kind == cnp.NPY_DOUBLE and self.f64 is NULL:
                self.f64, self.data64 = fields.functions[i], fields.data[i]

    cdef inline Extreme extreme(self, cnp.PyArray_Descr *descr) noexcept nogil:
        return self.extreme_f16 if descr is F16 else self.extreme_bf16

    cdef inline bint is_wide(self, cnp.PyArray_Descr *descr) noexcept:
        """Whether two operands of a type of 16-bit floats are computed, or chosen, in float32."""
        return self.computes_wide or self.extreme(descr) > OTHER_ROUNDING

    cdef inline cnp.PyArray_Descr *result(self, cnp.PyArray_Descr *descr) noexcept:
        return BOOL if self.gives_bool else descr

    cdef inline bint has(self, cnp.PyArray_Descr *descr) noexcept:
        if descr is F32:
            return self.f32 is not NULL
        return descr is F64 and self.f64 is not NULL

    cdef inline void call(
        self, cnp.PyArray_Descr *descr, char **args, cnp.npy_intp n, cnp.npy_intp *steps,
        bint beside_number,
    ) noexcept:
        """One result for each element, by whichever loop is faster."""
        cdef bint is_f32 = descr is F32
        run_loop(
            self.own_of(cnp.NPY_FLOAT if is_f32 else cnp.NPY_DOUBLE, beside_number),
            self.f32 if is_f32 else self.f64, self.data32 if is_f32 else self.data64,
            args, n, steps,
        )

    cdef inline ElementLoop own_of(self, int kind, bint beside_number) noexcept:
        """The loop of ours that stands for NumPy's; NULL where there is none."""
        if self.own is NULL or (self.own.beside_number and not beside_number):
            return NULL
        if kind == cnp.NPY_FLOAT:
            return self.own.f32
        return self.own.f64 if kind == cnp.NPY_DOUBLE else NULL

    cdef void call_rows(self, cnp.PyArray_Descr *descr, char **args, RowCalls *rows) noexcept:
        """NumPy's loop on one row after the other."""
        cdef bint is_f32 = descr is F32
        cdef NumpyLoop loop = self.f32 if is_f32 else self.f64
        cdef void *data = self.data32 if is_f32 else self.data64
        cdef char *now[3]
        cdef cnp.npy_intp i, k
        with nogil:
            for i in range(rows.dims[0]):
                for k in range(3):  # a loop may change what it is given
                    now[k] = args[k] + i * rows.row_steps[k]
                loop(now, &rows.dims[1], rows.steps, data)

    cdef inline bint has_kind(self, cnp.PyArray_Descr *descr) noexcept:
        return is_number_dtype(descr) and self.by_kind[kind_of(descr)] is not NULL

    cdef inline void call_kind(
        self, int kind, char **args, cnp.npy_intp n, cnp.npy_intp *steps
    ) noexcept:
        self.by_kind[kind](args, &n, steps, self.data_by_kind[kind])

    cdef inline void call_of(
        self, int kind, char **args, cnp.npy_intp n, cnp.npy_intp *steps
    ) noexcept:
        """The loop for floats, whatever it gives."""
        if kind == cnp.NPY_FLOAT:
            self.f32(args, &n, steps, self.data32)
        else:
            self.f64(args, &n, steps, self.data64)

    cdef inline void call_elements(
        self, int kind, char **args, cnp.npy_intp n, cnp.npy_intp *steps, bint beside_number
    ) noexcept:
        run_loop(
            self.own_of(kind, beside_number), self.by_kind[kind], self.data_by_kind[kind],
            args, n, steps,
        )


cdef inline void run_loop(
    ElementLoop own, NumpyLoop theirs, void *data, char **args, cnp.npy_intp n,
    cnp.npy_intp *steps,
) noexcept:
    """Run the loop of ours where there is one, else NumPy's; others may run beside a long one."""
    if n > DIRECT:
        with nogil:
            if own is NULL:
                theirs(args, &n, steps, data)
            else:
                own(args, n, steps)
    elif own is NULL or n == 1:  # whose operands all have steps of 0
        theirs(args, &n, steps, data)
    else:
        own(args, n, steps)


cdef inline cnp.npy_intp step_of(PyArrayObject *a, cnp.npy_intp size) noexcept:
    """What NumPy has as the stride of an array in order that it goes over at once."""
    return 0 if size == 1 else PyArray_ITEMSIZE(a)


cdef enum:
    FEW = LINED >> 3  # so many numbers are no large result


cdef inline object like_few(PyArrayObject *a, cnp.PyArray_Descr *descr):
    """A new array of the shape of `a`, which has `FEW` numbers at most."""
    Py_INCREF(<object><PyObject *>descr)
    return PyArray_NewFromDescr(
        &PyArray_Type, descr, PyArray_NDIM(a), PyArray_DIMS(a), NULL, NULL, 0, NULL)


# A small array in order takes the first lines of these functions alone: what stands in functions
# beside them would cost it as much as the loop does.


cdef object apply1(Loops loops, object x):
    """The ufunc of one array as `plain` gives it, or `None` if that is not for this module."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef char *args[2]
    cdef cnp.npy_intp steps[2]
    if not loops.has(descr):
        return None
    if not in_order(a) or n > FEW:
        return apply1_to_any(loops, x)
    y = like_few(a, loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(<PyArrayObject *>y)
    steps[0], steps[1] = step_of(a, n), step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps, False)
    return y


cdef object apply1_to_any(Loops loops, object x):
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef char *args[2]
    cdef cnp.npy_intp steps[2]
    if are_many(n) and loops.own_of(kind_of(descr), False) is NULL:
        return None
    if not in_order(a):
        of_columns = turned(x)
        return by_ufunc(loops, (x,)) if of_columns is None else turned_back(apply1(loops, of_columns))
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(<PyArrayObject *>y)
    steps[0], steps[1] = step_of(a, n), step_of(<PyArrayObject *>y, n)
    loops.call(descr, args, n, steps, False)
    return y


cdef inline bint are_many(cnp.npy_intp n) noexcept:
    """Whether so many elements are for many cores."""
    return n >= LARGE and PyList_GET_SIZE(WIDE) > 0


cdef object by_ufunc(Loops loops, tuple inputs):
    """What the ufunc itself gives, `None` where it raises."""
    cdef object before = None
    if is_large(inputs[0]) or is_large(inputs[PyTuple_GET_SIZE(inputs) - 1]):
        before = begin_lines()
    try:
        return CALL(loops.ufunc, *inputs)
    except KERNEL_ERRORS:
        return None
    finally:
        end_lines(before)


cdef object apply2(Loops loops, object x1, object x2):
    """The ufunc of two arrays as `plain` gives them, or `None` if that is not for this module."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef PyArrayObject *like = a
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    if PyArray_DESCR(b) is not descr or not loops.has(descr):
        return None
    if not in_order(a) or not in_order(b):
        return apply2_to_any(loops, x1, x2)
    if PyArray_NDIM(b) and not same_shape(a, b):
        if PyArray_NDIM(a):
            return apply2_to_any(loops, x1, x2)
        like = b
    n = PyArray_SIZE(like)
    if n > FEW:
        return apply2_to_any(loops, x1, x2)
    y = like_few(like, loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(b)
    args[2] = PyArray_BYTES(<PyArrayObject *>y)
    steps[0] = 0 if PyArray_NDIM(a) == 0 else step_of(a, n)
    steps[1] = 0 if PyArray_NDIM(b) == 0 else step_of(b, n)
    steps[2] = step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps, PyArray_NDIM(a) == 0 or PyArray_NDIM(b) == 0)
    return y


cdef object apply2_to_any(Loops loops, object x1, object x2):
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    cdef PyArrayObject *like
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp size_a, size_b, n
    cdef RowCalls rows
    cdef cnp.npy_intp *shape
    cdef bint is_by_rows
    cdef bint beside_number
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    size_a, size_b = PyArray_SIZE(a), PyArray_SIZE(b)
    n = size_a if size_a >= size_b else size_b
    beside_number = PyArray_NDIM(a) == 0 or PyArray_NDIM(b) == 0
    is_by_rows, like = in_order(a) and in_order(b) and are_rows(a, b, &rows), a
    if not is_by_rows and are_many(n) and not (
        beside_number and loops.own_of(kind_of(descr), True) is not NULL
    ):
        return None
    if not in_order(a) or not in_order(b):
        one, two = turned(x1), turned(x2)
        if one is None or two is None or not (beside_number or same_shape(a, b)):
            return by_ufunc(loops, (x1, x2))
        return turned_back(apply2(loops, one, two))
    # A loop of powers takes other ways for one exponent than where NumPy repeats it.
    if is_by_rows and rows.steps[1] == 0 and loops.ufunc is POWER:
        return by_ufunc(loops, (x1, x2))
    if is_by_rows:  # of any size, as NumPy takes its time between rows
        shape = rows.dims
    elif same_shape(a, b) or PyArray_NDIM(b) == 0:
        shape = PyArray_DIMS(a)
        n = size_a
    elif PyArray_NDIM(a) == 0:
        like, shape = b, PyArray_DIMS(b)
        n = size_b
    else:
        return by_ufunc(loops, (x1, x2))
    y = empty(2 if is_by_rows else PyArray_NDIM(like), shape, loops.result(descr))
    args[0], args[1] = PyArray_BYTES(a), PyArray_BYTES(b)
    args[2] = PyArray_BYTES(<PyArrayObject *>y)
    if is_by_rows:
        rows.steps[2] = PyArray_ITEMSIZE(<PyArrayObject *>y)
        rows.row_steps[2] = rows.dims[1] * rows.steps[2]
        loops.call_rows(descr, args, &rows)
        return y
    steps[0], steps[1] = step_of(a, size_a), step_of(b, size_b)
    steps[2] = step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps, beside_number)
    return y


cdef bint are_rows(PyArrayObject *a, PyArrayObject *b, RowCalls *rows) noexcept:
    """Whether rows of `a`, or numbers of a column of it, meet one row or a column of numbers."""
    cdef cnp.npy_intp n, m, item = PyArray_ITEMSIZE(a), size_b = PyArray_SIZE(b)
    cdef bint is_row = PyArray_NDIM(b) == 1 or (PyArray_NDIM(b) == 2 and PyArray_DIM(b, 0) == 1)
    if PyArray_NDIM(a) != 2 or size_b < 2:
        return False
    n, m = PyArray_DIM(a, 0), PyArray_DIM(a, 1)
    rows.dims[0], rows.dims[1] = n, m
    rows.row_steps[0], rows.row_steps[1] = m * item, 0
    rows.steps[0], rows.steps[1] = item, item
    if is_row and m == size_b:
        return n > 1 or (n == 1 and PyArray_NDIM(b) == 1)
    if n < 2:
        return False
    if is_row and m == 1:
        rows.dims[1], rows.steps[0] = size_b, 0
        return True
    rows.row_steps[1], rows.steps[1] = item, 0
    return PyArray_NDIM(b) == 2 and m > 1 and PyArray_DIM(b, 1) == 1 and size_b == n


cdef object apply2_number(Loops loops, object x, object number, bint number_first):
    """The same where one side is a Python number, which is weak."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef int overflow = 0
    cdef long long integer
    cdef double number_double
    cdef float number_float
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    cdef int at_array = 1 if number_first else 0
    if not loops.has(descr):
        return None
    if not in_order(a):
        return apply2_number_to_any(loops, x, number, number_first)
    if are_many(n) and loops.own_of(kind_of(descr), True) is NULL:
        return None
    if type(number) is float:
        number_double = <double>number
    else:
        integer = PyLong_AsLongLongAndOverflow(number, &overflow)
        if overflow or integer > 1 << 53 or integer < -(1 << 53):
            return None
        number_double = <double>integer
    if n > FEW:
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), loops.result(descr))
    else:
        y = like_few(a, loops.result(descr))
    args[at_array] = PyArray_BYTES(a)
    steps[at_array] = step_of(a, n)
    if descr is F32:
        number_float = <float>number_double
        args[1 - at_array] = <char *>&number_float
    else:
        args[1 - at_array] = <char *>&number_double
    steps[1 - at_array] = 0
    args[2] = PyArray_BYTES(<PyArrayObject *>y)
    steps[2] = step_of(<PyArrayObject *>y, n)
    if n:
        loops.call(descr, args, n, steps, True)
    return y


cdef object apply2_number_to_any(Loops loops, object x, object number, bint number_first):
    cdef PyArrayObject *a = <PyArrayObject *>x
    if are_many(PyArray_SIZE(a)) and loops.own_of(kind_of(PyArray_DESCR(a)), True) is NULL:
        return None
    of_columns = turned(x)
    if of_columns is None:
        return by_ufunc(loops, (number, x) if number_first else (x, number))
    return turned_back(apply2_number(loops, of_columns, number, number_first))
