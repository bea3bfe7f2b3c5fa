# Factors and solutions of real matrices by LAPACK, called on the memory of arrays.
#
# Fortran's matrices have columns side by side, so that a matrix in C order is its transpose there.
# What has a form for the transpose works where the matrix lies; QR and LU are copied turned.
#
# Sizes are 64 bits here. A library of 32 reads the lower half, which comes first: others are not
# bound. The pivots that it writes are read by `pivot_at`.

ctypedef cnp.npy_int64 Size

ctypedef void (*FactorLU)(
    Size *m, Size *n, void *a, Size *lda, void *pivots, Size *info) noexcept nogil
ctypedef void (*InvertLU)(
    Size *n, void *a, Size *lda, void *pivots, void *work, Size *count, Size *info) noexcept nogil
ctypedef void (*FactorCholesky)(
    const char *side, Size *n, void *a, Size *lda, Size *info, size_t length) noexcept nogil
ctypedef void (*FactorQR)(
    Size *m, Size *n, void *a, Size *lda, void *scales, void *work, Size *count, Size *info
) noexcept nogil
ctypedef void (*MakeQ)(
    Size *m, Size *n, Size *k, void *a, Size *lda, void *scales, void *work, Size *count,
    Size *info,
) noexcept nogil
ctypedef void (*SolveTriangle)(
    const char *side, const char *triangle, const char *turned, const char *unit, Size *m, Size *n,
    void *factor, void *a, Size *lda, void *b, Size *ldb, size_t, size_t, size_t, size_t
) noexcept nogil
ctypedef void (*SolveTriangleForOne)(
    const char *triangle, const char *turned, const char *unit, Size *n, void *a, Size *lda,
    void *x, Size *step, size_t, size_t, size_t
) noexcept nogil


cdef struct Lapack:
    # The functions for one dtype, NULL where they are not known.
    FactorLU getrf
    InvertLU getri
    FactorCholesky potrf
    FactorQR geqrf
    MakeQ orgqr
    SolveTriangle trsm
    SolveTriangleForOne trsv


cdef Lapack LAPACK_F32
cdef Lapack LAPACK_F64
cdef Size PIVOT_BYTES = 0

cdef enum:
    # Columns for which QR has work memory: its blocks have no more.
    QR_BLOCK = 64
    # Sides of the squares in which matrices are turned, so that both lie in the first cache.
    TURNED_AT_ONCE = 16

cdef extern from "math.h" nogil:
    double log(double x)
    float logf(float x)


def bind_lapack(addresses, Py_ssize_t pivot_bytes):
    """Learn where LAPACK's functions are.

    Args:
        addresses: by names such as "sgetrf", those of `Lapack` for `s` and `d`.
        pivot_bytes: of an integer.
    """
    global PIVOT_BYTES
    cdef Lapack *functions
    for letter in "sd":
        functions = &LAPACK_F32 if letter == "s" else &LAPACK_F64
        functions.getrf = <FactorLU><size_t>addresses[letter + "getrf"]
        functions.getri = <InvertLU><size_t>addresses[letter + "getri"]
        functions.potrf = <FactorCholesky><size_t>addresses[letter + "potrf"]
        functions.geqrf = <FactorQR><size_t>addresses[letter + "geqrf"]
        functions.orgqr = <MakeQ><size_t>addresses[letter + "orgqr"]
        functions.trsm = <SolveTriangle><size_t>addresses[letter + "trsm"]
        functions.trsv = <SolveTriangleForOne><size_t>addresses[letter + "trsv"]
    PIVOT_BYTES = pivot_bytes


cdef inline Size pivot_at(Size *pivots, Py_ssize_t i) noexcept nogil:
    """The row, counted from 0, with which row i was exchanged."""
    if PIVOT_BYTES == 8:
        return pivots[i] - 1
    return (<cnp.npy_int32 *>pivots)[i] - 1


cdef struct Stack:
    # Matrices in C order, one after the other.
    Lapack *functions
    Size count
    Size rows
    Size columns
    Size item
    char *data


cdef bint stack_of(object x, Stack *stack) noexcept:
    """Describe matrices of floats in C order that are not empty; False for others."""
    cdef PyArrayObject *a
    cdef int i, nd
    if not is_array(x) or PIVOT_BYTES == 0:
        return False
    a = <PyArrayObject *>x
    nd = PyArray_NDIM(a)
    if nd < 2 or nd > 32 or not in_order(a) or not is_float(PyArray_DESCR(a)):
        return False
    if not PyArray_SIZE(a):
        return False
    stack.functions = &LAPACK_F32 if PyArray_DESCR(a) is F32 else &LAPACK_F64
    stack.rows, stack.columns = PyArray_DIM(a, nd - 2), PyArray_DIM(a, nd - 1)
    stack.count = PyArray_SIZE(a) // (stack.rows * stack.columns)
    stack.item, stack.data = PyArray_ITEMSIZE(a), PyArray_BYTES(a)
    return True


cdef object matrices_like(object x, Size rows, Size columns):
    """New matrices of another size in the place of those of `x`."""
    cdef PyArrayObject *a = <PyArrayObject *>x
    cdef cnp.npy_intp dims[32]
    cdef int i, nd = PyArray_NDIM(a)
    for i in range(nd - 2):
        dims[i] = PyArray_DIM(a, i)
    dims[nd - 2], dims[nd - 1] = rows, columns
    return empty(nd, dims, PyArray_DESCR(a))


cdef object copied(object x, Stack *stack):
    """A copy, of which `stack` speaks from now on."""
    y = matrices_like(x, stack.rows, stack.columns)
    memcpy(bytes_of(y), stack.data, stack.count * stack.rows * stack.columns * stack.item)
    stack.data = bytes_of(y)
    return y


cdef void *memory(size_t size) except NULL:
    cdef void *block = PyMem_Malloc(size)
    if block is NULL:
        raise MemoryError
    return block


cdef void turn_all(
    Float *x, Float *y, Size rows, Size columns, Size x_step, Size y_step
) noexcept nogil:
    """y[j, i] = x[i, j]; `x_step` and `y_step` are numbers between rows."""
    cdef Size i, j, first_row = 0, first_column, last_row, last_column
    while first_row < rows:
        last_row = min(first_row + TURNED_AT_ONCE, rows)
        first_column = 0
        while first_column < columns:
            last_column = min(first_column + TURNED_AT_ONCE, columns)
            for i in range(first_row, last_row):
                for j in range(first_column, last_column):
                    y[j * y_step + i] = x[i * x_step + j]
            first_column = last_column
        first_row = last_row


cdef void turn(
    Stack *stack, char *x, char *y, Size rows, Size columns, Size x_step, Size y_step
) noexcept nogil:
    if stack.item == 4:
        turn_all(<float *>x, <float *>y, rows, columns, x_step, y_step)
    else:
        turn_all(<double *>x, <double *>y, rows, columns, x_step, y_step)


def cholesky_factors(x):
    """Lower triangular factors of square matrices; `None` where LAPACK finds none, or can't look."""
    cdef Stack stack
    cdef Size k, i, n, info = 0
    cdef char *at
    if not stack_of(x, &stack) or stack.rows != stack.columns:
        return None
    y = copied(x, &stack)
    n = stack.rows
    with nogil:
        for k in range(stack.count):
            at = stack.data + k * n * n * stack.item
            # the lower triangle in C order, which is the upper one here
            stack.functions.potrf(b"U", &n, at, &n, &info, 1)
            if info:
                break
            for i in range(n):
                memset(at + (i * n + i + 1) * stack.item, 0, (n - i - 1) * stack.item)
    return None if info else y


def qr_factors(x, bint complete):
    """q and r as `ops.qr` has them; `None` for arrays that LAPACK is not called on."""
    cdef Stack stack
    cdef Size k, i, n, m, short, q_columns, count, info = 0
    cdef char *block
    cdef char *scales
    cdef char *work
    cdef char *q_data
    cdef char *r_data
    if not stack_of(x, &stack):
        return None
    n, m = stack.rows, stack.columns
    short = min(n, m)
    q_columns = n if complete else short  # columns of q, rows of r
    q, r = matrices_like(x, n, q_columns), matrices_like(x, q_columns, m)
    q_data, r_data = bytes_of(q), bytes_of(r)
    count = max(n, m) * QR_BLOCK
    block = <char *>memory((n * max(m, q_columns) + short + count) * stack.item)
    scales = block + n * max(m, q_columns) * stack.item
    work = scales + short * stack.item
    with nogil:
        for k in range(stack.count):
            turn(&stack, stack.data + k * n * m * stack.item, block, n, m, m, n)
            stack.functions.geqrf(&n, &m, block, &n, scales, work, &count, &info)
            turn(&stack, block, r_data, m, q_columns, n, m)
            for i in range(1, q_columns):
                memset(r_data + i * m * stack.item, 0, min(i, m) * stack.item)
            stack.functions.orgqr(&n, &q_columns, &short, block, &n, scales, work, &count, &info)
            turn(&stack, block, q_data, q_columns, n, n, q_columns)
            q_data += n * q_columns * stack.item
            r_data += q_columns * m * stack.item
    PyMem_Free(block)
    return q, r


def lu_factors(x):
    """Both triangles and the pivots as `ops.lu_factor` has them; `None` if a pivot is 0."""
    cdef Stack stack
    cdef Size k, i, n, m, short, info = 0
    cdef cnp.npy_intp dims[32]
    cdef char *block
    cdef char *to
    cdef Size *pivots
    cdef cnp.npy_int32 *rows
    if not stack_of(x, &stack):
        return None
    n, m = stack.rows, stack.columns
    short = min(n, m)
    y = matrices_like(x, n, m)
    for i in range(PyArray_NDIM(<PyArrayObject *>x) - 2):
        dims[i] = PyArray_DIM(<PyArrayObject *>x, i)
    dims[PyArray_NDIM(<PyArrayObject *>x) - 2] = short
    exchanges = empty(PyArray_NDIM(<PyArrayObject *>x) - 1, dims, I32)
    to, rows = bytes_of(y), <cnp.npy_int32 *>bytes_of(exchanges)
    pivots = <Size *>memory(short * sizeof(Size) + n * m * stack.item)
    block = <char *>(pivots + short)
    with nogil:
        for k in range(stack.count):
            turn(&stack, stack.data + k * n * m * stack.item, block, n, m, m, n)
            stack.functions.getrf(&n, &m, block, &n, pivots, &info)
            if info:
                break
            turn(&stack, block, to, m, n, n, m)
            to += n * m * stack.item
            for i in range(short):
                rows[k * short + i] = <cnp.npy_int32>pivot_at(pivots, i)
    PyMem_Free(pivots)
    return None if info else (y, exchanges)


def permutations_of(pivots, Size rows):
    """The matrices p with p @ l @ u = x for the pivots that `lu_factors` gives, float32.

    `None` for arrays of another kind.
    """
    cdef PyArrayObject *a
    cdef cnp.npy_intp dims[32]
    cdef Size i, k, other, count, short
    cdef int axis, nd
    cdef cnp.npy_int32 *exchanges
    cdef float *to
    cdef Size *order
    if not is_array(pivots):
        return None
    a = <PyArrayObject *>pivots
    nd = PyArray_NDIM(a)
    if nd < 1 or nd > 31 or not in_order(a) or PyArray_DESCR(a) is not I32 or not PyArray_SIZE(a):
        return None
    for axis in range(nd - 1):
        dims[axis] = PyArray_DIM(a, axis)
    dims[nd - 1] = dims[nd] = rows
    short = PyArray_DIM(a, nd - 1)
    count = PyArray_SIZE(a) // short
    exchanges = <cnp.npy_int32 *>PyArray_BYTES(a)
    for i in range(count * short):
        if not 0 <= exchanges[i] < rows or short > rows:
            return None
    y = empty(nd + 1, dims, F32)
    to = <float *>bytes_of(y)
    memset(to, 0, count * rows * rows * sizeof(float))
    order = <Size *>memory(rows * sizeof(Size))
    for k in range(count):
        for i in range(rows):
            order[i] = i
        for i in range(short):
            other = exchanges[k * short + i]
            order[i], order[other] = order[other], order[i]
        for i in range(rows):
            to[order[i] * rows + i] = 1
        to += rows * rows
    PyMem_Free(order)
    return y


def inverses(x):
    """The inverses of square matrices; `None` if a pivot is 0."""
    cdef Stack stack
    cdef Size k, n, count, info = 0
    cdef char *at
    cdef Size *pivots
    if not stack_of(x, &stack) or stack.rows != stack.columns:
        return None
    y = copied(x, &stack)
    n = stack.rows
    count = n * QR_BLOCK
    pivots = <Size *>memory(n * sizeof(Size) + count * stack.item)
    with nogil:
        for k in range(stack.count):
            at = stack.data + k * n * n * stack.item
            stack.functions.getrf(&n, &n, at, &n, pivots, &info)
            if not info:
                stack.functions.getri(&n, at, &n, pivots, pivots + n, &count, &info)
            if info:
                break
            if stack.item == 4:
                drop_signs_of_zeros(<float *>at, n * n)
            else:
                drop_signs_of_zeros(<double *>at, n * n)
    PyMem_Free(pivots)
    return None if info else y


cdef void drop_signs_of_zeros(Float *x, Size n) noexcept nogil:
    """Make 0.0 of -0.0, which the inverse of a triangle has where a solution has none."""
    cdef Size i
    for i in range(n):
        x[i] = x[i] + 0


cdef void log_determinant(
    Float *a, Size n, Size *pivots, Float *sign, Float *size
) noexcept nogil:
    """Of the factors of a matrix, in NumPy's order."""
    cdef Size i
    cdef Float diagonal
    sign[0], size[0] = 1, 0
    for i in range(n):
        diagonal = a[i * n + i]
        if pivot_at(pivots, i) != i:
            sign[0] = -sign[0]
        if diagonal < 0:
            sign[0], diagonal = -sign[0], -diagonal
        size[0] += logf(diagonal) if Float is float else log(diagonal)


cdef extern from "math.h" nogil:
    double exp(double x)
    float expf(float x)


def determinants(x):
    """The determinants of square matrices; `None` if a pivot is 0."""
    cdef Size k
    cdef char *signs_at
    cdef char *sizes_at
    parts = log_determinants(x)
    if parts is None:
        return None
    signs_at, sizes_at = bytes_of(parts[0]), bytes_of(parts[1])
    for k in range(size_of(parts[0])):
        if PyArray_DESCR(<PyArrayObject *>x) is F32:
            (<float *>signs_at)[k] *= expf((<float *>sizes_at)[k])
        else:
            (<double *>signs_at)[k] *= exp((<double *>sizes_at)[k])
    return parts[0]


def log_determinants(x):
    """Signs of the determinants and logarithms of their magnitudes; `None` if a pivot is 0."""
    cdef Stack stack
    cdef Size k, n, info = 0
    cdef char *block
    cdef char *signs_at
    cdef char *sizes_at
    cdef Size *pivots
    if not stack_of(x, &stack) or stack.rows != stack.columns:
        return None
    n = stack.rows
    nd = PyArray_NDIM(<PyArrayObject *>x) - 2
    signs_of = empty(nd, PyArray_DIMS(<PyArrayObject *>x), PyArray_DESCR(<PyArrayObject *>x))
    sizes_of = empty(nd, PyArray_DIMS(<PyArrayObject *>x), PyArray_DESCR(<PyArrayObject *>x))
    signs_at, sizes_at = bytes_of(signs_of), bytes_of(sizes_of)
    pivots = <Size *>memory(n * sizeof(Size) + n * n * stack.item)
    block = <char *>(pivots + n)
    with nogil:
        for k in range(stack.count):
            memcpy(block, stack.data + k * n * n * stack.item, n * n * stack.item)
            stack.functions.getrf(&n, &n, block, &n, pivots, &info)
            if info:
                break
            if stack.item == 4:
                log_determinant(
                    <float *>block, n, pivots, <float *>signs_at + k, <float *>sizes_at + k
                )
            else:
                log_determinant(
                    <double *>block, n, pivots, <double *>signs_at + k, <double *>sizes_at + k
                )
    PyMem_Free(pivots)
    return None if info else (signs_of, sizes_of)


cdef bint are_solved(object a, object b, Stack *left, Stack *right) noexcept:
    """Describe square matrices and as many right sides in the same dtype; False for others."""
    cdef PyArrayObject *of_a
    cdef PyArrayObject *of_b
    cdef int i
    if not stack_of(a, left) or not stack_of(b, right) or left.item != right.item:
        return False
    of_a, of_b = <PyArrayObject *>a, <PyArrayObject *>b
    if left.rows != left.columns or left.rows != right.rows:
        return False
    if PyArray_NDIM(of_a) != PyArray_NDIM(of_b):
        return False
    for i in range(PyArray_NDIM(of_a) - 2):
        if PyArray_DIM(of_a, i) != PyArray_DIM(of_b, i):
            return False
    return True


cdef void divide_by_triangle(
    Stack *stack, const char *triangle, const char *unit, Size n, Size m, char *a, char *y
) noexcept nogil:
    """Solve x @ t = y for x, in place, by a triangle t of Fortran's `a`; y is m by n there."""
    cdef double one64 = 1
    cdef float one32 = 1
    cdef Size step = 1
    if m == 1:
        stack.functions.trsv(triangle, b"T", unit, &n, a, &n, y, &step, 1, 1, 1)
        return
    stack.functions.trsm(
        b"R", triangle, b"N", unit, &m, &n,
        <void *>&one32 if stack.item == 4 else <void *>&one64, a, &n, y, &m, 1, 1, 1, 1,
    )


cdef bint has_zero(Float *a, Size n) noexcept nogil:
    """Whether a 0 is on the diagonal."""
    cdef Size i
    for i in range(n):
        if a[i * n + i] == 0:
            return True
    return False


def triangle_solutions(a, b, bint lower):
    """The x with t @ x = b for a triangle t of each matrix; `None` if a 0 is on its diagonal."""
    cdef Stack left, right
    cdef Size k, n, m
    cdef char *at
    cdef bint is_singular = False
    if not are_solved(a, b, &left, &right):
        return None
    y = copied(b, &right)
    n, m = right.rows, right.columns
    with nogil:
        for k in range(left.count):
            at = left.data + k * n * n * left.item
            if has_zero(<float *>at, n) if left.item == 4 else has_zero(<double *>at, n):
                is_singular = True
                break
            divide_by_triangle(
                &left, b"U" if lower else b"L", b"N", n, m, at, right.data + k * n * m * left.item
            )
    return None if is_singular else y


def solutions(a, b):
    """The x with a @ x = b for square matrices; `None` if a pivot is 0."""
    cdef Stack left, right
    cdef Size k, i, other, n, m, info = 0
    cdef char *block
    cdef char *to
    cdef char *row
    cdef Size *pivots
    if not are_solved(a, b, &left, &right):
        return None
    y = copied(b, &right)
    n, m = right.rows, right.columns
    pivots = <Size *>memory(n * sizeof(Size) + (n * n + m) * left.item)
    block = <char *>(pivots + n)
    row = block + n * n * left.item
    with nogil:
        for k in range(left.count):
            memcpy(block, left.data + k * n * n * left.item, n * n * left.item)
            # the transpose is p @ l @ u, so transpose(x) @ p @ l @ u = transpose(b)
            left.functions.getrf(&n, &n, block, &n, pivots, &info)
            if info:
                break
            to = right.data + k * n * m * left.item
            divide_by_triangle(&left, b"U", b"N", n, m, block, to)
            divide_by_triangle(&left, b"L", b"U", n, m, block, to)
            for i in range(n - 1, -1, -1):
                other = pivot_at(pivots, i)
                if other != i:
                    memcpy(row, to + i * m * left.item, m * left.item)
                    memcpy(to + i * m * left.item, to + other * m * left.item, m * left.item)
                    memcpy(to + other * m * left.item, row, m * left.item)
    PyMem_Free(pivots)
    return None if info else y
