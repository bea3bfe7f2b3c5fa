# Sums and products of the rows of a matrix, in NumPy's order: several rows share the wait.
#
# NumPy adds up a row of up to 128 numbers in eight sums, one for each of eight numbers that follow
# one another, and a longer row in halves:
#
#     def pairwise(x):
#         if len(x) > 128:
#             half = len(x) // 2 // 8 * 8
#             return pairwise(x[:half]) + pairwise(x[half:])
#         r = [sum(x[i::8]) for i in range(8)]  # of what fills whole eights; the rest one by one
#         return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
#
# Each sum waits for the one before it. Four rows at a time wait together, and have vectors.

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    /* Pairwise sums of four rows of 8 to 128 floats each: a vector holds the eight of a row. */
    TK_AVX2 static void add_four_wide(
        const float *x, Py_ssize_t stride, Py_ssize_t n, float *y
    ) {
        const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        __m256 s0 = _mm256_loadu_ps(x), s1 = _mm256_loadu_ps(x1);
        __m256 s2 = _mm256_loadu_ps(x2), s3 = _mm256_loadu_ps(x3);
        Py_ssize_t i = 8, last = n - n % 8;
        for (; i < last; i += 8) {
            s0 = _mm256_add_ps(s0, _mm256_loadu_ps(x + i));
            s1 = _mm256_add_ps(s1, _mm256_loadu_ps(x1 + i));
            s2 = _mm256_add_ps(s2, _mm256_loadu_ps(x2 + i));
            s3 = _mm256_add_ps(s3, _mm256_loadu_ps(x3 + i));
        }
        /* neighbours, then their sums; each half of the vector has a number of every row then */
        s0 = _mm256_hadd_ps(_mm256_hadd_ps(s0, s1), _mm256_hadd_ps(s2, s3));
        _mm_storeu_ps(y, _mm_add_ps(_mm256_castps256_ps128(s0), _mm256_extractf128_ps(s0, 1)));
        for (; i < n; i++) {
            y[0] += x[i];
            y[1] += x1[i];
            y[2] += x2[i];
            y[3] += x3[i];
        }
    }
    #else
    static void add_four_wide(const float *x, Py_ssize_t stride, Py_ssize_t n, float *y) {}
    #endif
    """
    void add_four_wide(const float *x, Py_ssize_t stride, Py_ssize_t n, float *y) nogil

cdef bint WIDE_SUMS = has_avx2()

cdef enum:
    TOGETHER = 4
    ADDED_AT_ONCE = 128
    MULTIPLIED_TOGETHER = 8


cdef void add_four(Float *x, Py_ssize_t stride, Py_ssize_t n, Float *y) noexcept nogil:
    """Pairwise sums of four rows of `n` numbers, `stride` apart."""
    cdef Float more[TOGETHER]
    cdef Py_ssize_t i, k, half
    if n < 8:
        for k in range(TOGETHER):
            y[k] = 0
            for i in range(n):
                y[k] += x[k * stride + i]
    elif n <= ADDED_AT_ONCE:
        add_four_blocks(x, stride, n, y)
    else:
        half = n // 16 * 8
        add_four(x, stride, half, y)
        add_four(x + half, stride, n - half, more)
        for k in range(TOGETHER):
            y[k] += more[k]


cdef void add_four_blocks(
    Float *x, Py_ssize_t stride, Py_ssize_t n, Float *y
) noexcept nogil:
    """The same of 8 to 128 numbers each."""
    cdef Float sums[8 * TOGETHER]
    cdef Float *s
    cdef Float *x1 = x + stride
    cdef Float *x2 = x1 + stride
    cdef Float *x3 = x2 + stride
    cdef Py_ssize_t i = 8, j, k, last = n - n % 8
    if Float is float:
        if WIDE_SUMS:
            add_four_wide(x, stride, n, y)
            return
    for j in range(8):
        sums[j] = x[j]
        sums[8 + j] = x1[j]
        sums[16 + j] = x2[j]
        sums[24 + j] = x3[j]
    while i < last:
        for j in range(8):
            sums[j] += x[i + j]
        for j in range(8):
            sums[8 + j] += x1[i + j]
        for j in range(8):
            sums[16 + j] += x2[i + j]
        for j in range(8):
            sums[24 + j] += x3[i + j]
        i += 8
    for k in range(TOGETHER):
        s = sums + 8 * k
        y[k] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
        for i in range(last, n):
            y[k] += x[k * stride + i]


cdef inline Float *squared(Float *x, Py_ssize_t n, Float *squares) noexcept nogil:
    """`n` numbers as they are, or their squares if there is memory for those."""
    cdef Py_ssize_t i
    if squares is NULL:
        return x
    for i in range(n):
        squares[i] = x[i] * x[i]
    return squares


cdef void add_rows(
    Float *x, Py_ssize_t rows, Py_ssize_t n, Float *y, Float *squares
) noexcept nogil:
    """Sums of rows, or of their squares, for which there is memory of `TOGETHER` rows then."""
    cdef Py_ssize_t row = 0, k
    cdef Float sums[TOGETHER]
    while row < rows:
        if row + TOGETHER <= rows:
            add_four(squared(x + row * n, TOGETHER * n, squares), n, n, sums)
            for k in range(TOGETHER):
                y[row + k] = sums[k] + 0  # NumPy begins with 0, so that no sum is -0.0
            row += TOGETHER
        else:
            # The one row stands for those that are not there.
            add_four(squared(x + row * n, n, squares), 0, n, sums)
            y[row] = sums[0] + 0
            row += 1


cdef inline Float add_quarters(Float *x, Py_ssize_t n) noexcept nogil:
    """The sum of a vector whose quarters NumPy adds up by themselves, side by side."""
    cdef Float sums[TOGETHER]
    add_four(x, n // 4, n // 4, sums)
    return (sums[0] + sums[1]) + (sums[2] + sums[3]) + 0


cdef void multiply_rows(Float *x, Py_ssize_t rows, Py_ssize_t n, Float *y) noexcept nogil:
    cdef Py_ssize_t row = 0, i, k
    cdef Float p[MULTIPLIED_TOGETHER]
    while row < rows:
        for k in range(MULTIPLIED_TOGETHER):
            p[k] = 1
        if row + MULTIPLIED_TOGETHER <= rows:
            for i in range(n):
                for k in range(MULTIPLIED_TOGETHER):
                    p[k] = p[k] * x[k * n + i]
            for k in range(MULTIPLIED_TOGETHER):
                y[row + k] = p[k]
            row += MULTIPLIED_TOGETHER
            x += MULTIPLIED_TOGETHER * n
        else:
            for i in range(n):
                p[0] = p[0] * x[i]
            y[row] = p[0]
            row += 1
            x += n


cdef enum Reduced:
    SUMS
    SQUARE_SUMS
    PRODUCTS


cdef object reduced_rows(object x, Reduced kind):
    cdef PyArrayObject *a
    cdef cnp.npy_intp rows, n
    cdef char *x_bytes
    cdef char *y_bytes
    cdef char *squares = NULL
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    if not in_order(a) or PyArray_NDIM(a) != 2 or not is_float(PyArray_DESCR(a)):
        return None
    rows, n = PyArray_DIM(a, 0), PyArray_DIM(a, 1)
    y = empty(1, &rows, PyArray_DESCR(a))
    x_bytes, y_bytes = bytes_of(x), bytes_of(y)
    if kind == SQUARE_SUMS:
        squares = <char *>PyMem_Malloc(TOGETHER * n * PyArray_ITEMSIZE(a))
        if squares is NULL:
            raise MemoryError
    if PyArray_DESCR(a) is F32:
        with nogil:
            if kind == PRODUCTS:
                multiply_rows(<float *>x_bytes, rows, n, <float *>y_bytes)
            else:
                add_rows(<float *>x_bytes, rows, n, <float *>y_bytes, <float *>squares)
    else:
        with nogil:
            if kind == PRODUCTS:
                multiply_rows(<double *>x_bytes, rows, n, <double *>y_bytes)
            else:
                add_rows(<double *>x_bytes, rows, n, <double *>y_bytes, <double *>squares)
    PyMem_Free(squares)
    return y


cdef dict ROWS_AS_NUMPY = {}


cdef bint has_rows_of_numpy(Reduced kind) except -1:
    """Whether rows are reduced in the order of this NumPy, which may be another in a later one."""
    if kind not in ROWS_AS_NUMPY:
        ufunc = np.multiply if kind == PRODUCTS else np.add
        same = True
        for n in (5, 131, 1000):
            x = np.cos(np.arange(9.0 * n)).reshape(9, n) * 2
            for dtype in (np.float32, np.float64):
                rows = x.astype(dtype)
                reduced = reduced_rows(rows, kind).tobytes()
                operands = np.square(rows) if kind == SQUARE_SUMS else rows
                same = same and reduced == ufunc.reduce(operands, 1).tobytes()
        ROWS_AS_NUMPY[kind] = same
    return ROWS_AS_NUMPY[kind]


def row_sums(x):
    """Sums of the rows of a matrix of floats in C order, as NumPy makes them; `None` for others."""
    return reduced_rows(x, SUMS) if has_rows_of_numpy(SUMS) else None


def vector_sum(x):
    """The sum of a long vector of floats, as NumPy makes it, in an array without axes.

    `None` for vectors whose quarters NumPy does not add up by themselves, and other arrays.
    """
    cdef PyArrayObject *a
    cdef Py_ssize_t n
    if not is_array(x) or not has_rows_of_numpy(SUMS):
        return None
    a = <PyArrayObject *>x
    n = PyArray_SIZE(a)
    if not in_order(a) or PyArray_NDIM(a) != 1 or not is_float(PyArray_DESCR(a)):
        return None
    if n < 8 * ADDED_AT_ONCE or n % 32:
        return None
    y = empty(0, NULL, PyArray_DESCR(a))
    if PyArray_DESCR(a) is F32:
        (<float *>bytes_of(y))[0] = add_quarters(<float *>PyArray_BYTES(a), n)
    else:
        (<double *>bytes_of(y))[0] = add_quarters(<double *>PyArray_BYTES(a), n)
    return y


cdef extern from *:
    """
    /* Sums of 16 numbers each, 256 apart, one after the other, of blocks of 16 times 256. A vector
       of sums is made of 16 streams of memory, each of which goes on without a jump. */
    #define TK_SUMS_OF_SIXTEEN(NAME, TARGET) \
        TARGET static void NAME(const float *x, float *restrict y, Py_ssize_t blocks) { \
            for (; blocks > 0; blocks--, x += 16 * 256, y += 256) \
                for (int k = 0; k < 256; k++) { \
                    float sum = x[k]; \
                    for (int i = 1; i < 16; i++) sum += x[i * 256 + k]; \
                    y[k] = sum; \
                } \
        }
    TK_SUMS_OF_SIXTEEN(sums_of_sixteen_wide, TK_WIDE)
    TK_SUMS_OF_SIXTEEN(sums_of_sixteen_narrow, )
    """
    void sums_of_sixteen_wide(const float *x, float *y, Py_ssize_t blocks) nogil
    void sums_of_sixteen_narrow(const float *x, float *y, Py_ssize_t blocks) nogil

cdef enum:
    SUMMED_BLOCK = 16 * 256
    # Blocks of which there is room for the sums on the stack; longer vectors are a kernel's.
    MOST_SUMMED_BLOCKS = 64

cdef Reducer SUM_REDUCER = Reducer(np.add)


def long_sum(x):
    """The sum of float32 in C order as `reductions_tuned` makes it, in an array without axes.

    Sums of 16 numbers in columns of 256 come first, and are added up as NumPy does. `None` for
    other arrays, and for sizes at which the parts are added up in another way.
    """
    cdef PyArrayObject *a
    cdef Py_ssize_t n, blocks
    cdef float totals[256 * MOST_SUMMED_BLOCKS]
    cdef float tail_sum
    cdef float *numbers
    cdef Cube cube
    if not is_array(x) or not has_rows_of_numpy(SUMS):
        return None
    a = <PyArrayObject *>x
    n = PyArray_SIZE(a)
    blocks = n // SUMMED_BLOCK
    if PyArray_DESCR(a) is not F32 or not in_order(a) or not 4 <= blocks <= MOST_SUMMED_BLOCKS:
        return None
    numbers = <float *>PyArray_BYTES(a)
    with nogil:
        if WIDE_HALVES:
            sums_of_sixteen_wide(numbers, totals, blocks)
        else:
            sums_of_sixteen_narrow(numbers, totals, blocks)
    y = empty(0, NULL, F32)
    (<float *>bytes_of(y))[0] = add_quarters(totals, 256 * blocks)
    n -= blocks * SUMMED_BLOCK
    if n:
        cube.outer, cube.size, cube.inner = 1, n, 1
        SUM_REDUCER.reduce(
            cnp.NPY_FLOAT, <char *>(numbers + blocks * SUMMED_BLOCK), <char *>&tail_sum, &cube, 4
        )
        (<float *>bytes_of(y))[0] += tail_sum
    return y


def row_square_sums(x):
    """The same of the squares of the numbers."""
    return reduced_rows(x, SQUARE_SUMS) if has_rows_of_numpy(SQUARE_SUMS) else None


def row_products(x):
    """The same of products."""
    return reduced_rows(x, PRODUCTS) if has_rows_of_numpy(PRODUCTS) else None


cdef extern from *:
    """
    #define TK_LANES 32
    /* Products of rows of at least so many numbers: every 32nd is a factor of one product, and the
       halves of these are multiplied until one is left. */
    #define TK_LANE_PRODUCTS(NAME, TARGET, TYPE) \
        TARGET static void NAME(const TYPE *x, TYPE *y, Py_ssize_t rows, Py_ssize_t n) { \
            for (; rows > 0; rows--, x += n, y++) { \
                TYPE products[TK_LANES], last = 1; \
                Py_ssize_t i = TK_LANES; \
                memcpy(products, x, sizeof products); \
                for (; i + TK_LANES <= n; i += TK_LANES) \
                    for (int k = 0; k < TK_LANES; k++) products[k] *= x[i + k]; \
                for (int width = TK_LANES / 2; width > 0; width /= 2) \
                    for (int k = 0; k < width; k++) products[k] *= products[k + width]; \
                for (; i < n; i++) last *= x[i]; \
                *y = products[0] * last; \
            } \
        }
    TK_LANE_PRODUCTS(lane_products_f32_wide, TK_WIDE, float)
    TK_LANE_PRODUCTS(lane_products_f64_wide, TK_WIDE, double)
    TK_LANE_PRODUCTS(lane_products_f32_narrow, , float)
    TK_LANE_PRODUCTS(lane_products_f64_narrow, , double)
    """
    void lane_products_f32_wide(const float *x, float *y, Py_ssize_t rows, Py_ssize_t n) nogil
    void lane_products_f64_wide(const double *x, double *y, Py_ssize_t rows, Py_ssize_t n) nogil
    void lane_products_f32_narrow(const float *x, float *y, Py_ssize_t rows, Py_ssize_t n) nogil
    void lane_products_f64_narrow(const double *x, double *y, Py_ssize_t rows, Py_ssize_t n) nogil
    Py_ssize_t TK_LANES


def lane_products(x):
    """Products of the rows of a matrix of floats in C order, as `reductions_tuned` makes them.

    `None` for other arrays, and for rows that are shorter than the products side by side.
    """
    cdef PyArrayObject *a
    cdef cnp.npy_intp rows, n
    cdef char *x_bytes
    cdef char *y_bytes
    cdef bint is_f32
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    if not in_order(a) or PyArray_NDIM(a) != 2 or not is_float(PyArray_DESCR(a)):
        return None
    rows, n, is_f32 = PyArray_DIM(a, 0), PyArray_DIM(a, 1), PyArray_DESCR(a) is F32
    if n < TK_LANES:
        return None
    y = empty(1, &rows, PyArray_DESCR(a))
    x_bytes, y_bytes = bytes_of(x), bytes_of(y)
    with nogil:
        if is_f32 and WIDE_HALVES:
            lane_products_f32_wide(<float *>x_bytes, <float *>y_bytes, rows, n)
        elif is_f32:
            lane_products_f32_narrow(<float *>x_bytes, <float *>y_bytes, rows, n)
        elif WIDE_HALVES:
            lane_products_f64_wide(<double *>x_bytes, <double *>y_bytes, rows, n)
        else:
            lane_products_f64_narrow(<double *>x_bytes, <double *>y_bytes, rows, n)
    return y
