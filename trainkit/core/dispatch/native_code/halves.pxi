# 16-bit floats: widened to float32, computed by the loops of that, and rounded once.
#
# So do NumPy and `ml_dtypes`, number by number; each conversion there takes longer than the
# arithmetic. Conversions here have their bits: those of float16 are the processor's, and without
# them float16 is left to NumPy.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline float wide_bfloat16(uint16_t x) {
        uint32_t bits = (uint32_t)x << 16;
        float y;
        memcpy(&y, &bits, 4);
        return y;
    }

    static inline uint16_t rounded_bfloat16(float x) {
        uint32_t bits;
        memcpy(&bits, &x, 4);
        /* A carry into the exponent is right: it is the next power of 2, or infinity. */
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0; /* of ml_dtypes, which has one of each sign */
        return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <cpuid.h>
    #include <immintrin.h>

    #define TK_WIDE __attribute__((target("avx2,f16c")))

    static int has_wide_halves(void) {
        unsigned a, b, c = 0, d;
        /* Only an operating system that keeps the wide registers says that there is avx2. */
        return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1) && __builtin_cpu_supports("avx2");
    }

    TK_WIDE static void widen_float16(const uint16_t *x, float *y, Py_ssize_t n) {
        Py_ssize_t i = 0;
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
        for (; i < n; i++)
            y[i] = _cvtsh_ss(x[i]);
    }

    TK_WIDE static void round_float16(const float *x, uint16_t *y, Py_ssize_t n) {
        Py_ssize_t i = 0;
        for (; i + 8 <= n; i += 8)
            _mm_storeu_si128((__m128i *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
        for (; i < n; i++)
            y[i] = _cvtss_sh(x[i], 0);
    }
    #elif defined(__aarch64__) && defined(__GNUC__)
    #define TK_WIDE

    static int has_wide_halves(void) { return 1; }

    static void widen_float16(const uint16_t *x, float *y, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) {
            __fp16 half;
            memcpy(&half, x + i, 2);
            y[i] = half;
        }
    }

    static void round_float16(const float *x, uint16_t *y, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) {
            __fp16 half = x[i];
            memcpy(y + i, &half, 2);
        }
    }
    #else
    #define TK_WIDE

    static int has_wide_halves(void) { return 0; }
    static void widen_float16(const uint16_t *x, float *y, Py_ssize_t n) {}
    static void round_float16(const float *x, uint16_t *y, Py_ssize_t n) {}
    #endif

    TK_WIDE static void widen_bfloat16(const uint16_t *x, float *y, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++)
            y[i] = wide_bfloat16(x[i]);
    }

    TK_WIDE static void round_bfloat16(const float *x, uint16_t *y, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++)
            y[i] = rounded_bfloat16(x[i]);
    }
    """
    bint has_wide_halves() nogil
    void widen_float16(const cnp.npy_uint16 *x, float *y, Py_ssize_t n) nogil
    void round_float16(const float *x, cnp.npy_uint16 *y, Py_ssize_t n) nogil
    void widen_bfloat16(const cnp.npy_uint16 *x, float *y, Py_ssize_t n) nogil
    void round_bfloat16(const float *x, cnp.npy_uint16 *y, Py_ssize_t n) nogil

cdef enum:
    # Elements that are widened at once, into memory on the stack; whole vectors of any loop.
    WIDENED = 1024

cdef bint WIDE_HALVES = has_wide_halves()
cdef cnp.dtype DTYPE_F16 = np.dtype(np.float16)
cdef cnp.PyArray_Descr *F16 = <cnp.PyArray_Descr *><PyObject *>DTYPE_F16
cdef cnp.dtype DTYPE_BF16 = np.dtype(ml_dtypes.bfloat16)
cdef cnp.PyArray_Descr *BF16 = <cnp.PyArray_Descr *><PyObject *>DTYPE_BF16

# Those of two operands whose loops of 16-bit floats compute in float32.
cdef frozenset ROUNDED_WIDE = frozenset((np.add, np.subtract, np.multiply, np.divide))
cdef frozenset COMPUTED_WIDE = ROUNDED_WIDE | frozenset(
    (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
)
# What gives one of its operands, or truth values, so that no result of 16-bit floats is rounded.
cdef frozenset NEVER_ROUNDED = frozenset(
    (np.absolute, np.negative, np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_and,
     np.logical_or, np.logical_xor, np.logical_not, np.bitwise_and, np.bitwise_or, np.invert)
)


cdef extern from *:
    """
    /* a or b; of a NaN and another number the NaN. */
    #define TK_EXTREME(COMPARED) \
        for (Py_ssize_t i = 0; i < n; i++) { \
            float x = a[step_a ? i : 0], z = b[step_b ? i : 0]; \
            y[i] = (x COMPARED z) | (x != x) ? x : z; \
        } \
        break;

    TK_WIDE static void choose_max_or_min(
        int kind, const float *a, const float *b, float *y, Py_ssize_t n, int step_a, int step_b
    ) {
        switch (kind) {
            case 2: TK_EXTREME(>=)
            case 3: TK_EXTREME(>)
            case 4: TK_EXTREME(<=)
            case 5: TK_EXTREME(<)
        }
    }
    """
    void choose_max_or_min(
        int kind, const float *a, const float *b, float *y, Py_ssize_t n, bint step_a, bint step_b
    ) nogil


cdef Extreme extreme_of(object ufunc, object dtype) except *:
    """How a maximum or a minimum of 16-bit floats chooses."""
    cdef int kind
    cdef float[64] results
    if not WIDE_HALVES or ufunc not in (np.maximum, np.minimum):
        return NO_EXTREME
    special = [0.0, -0.0, 1.5, -1.5, 60000.0, np.nan, np.inf, -np.inf]
    one, two = np.repeat(special, 8).astype(np.float32), np.tile(special, 8).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = ufunc(one.astype(dtype), two.astype(dtype))
    for kind in range(GREATEST, LEAST_OR_SECOND + 1):
        choose_max_or_min(
            kind, <float *>bytes_of(one), <float *>bytes_of(two), results, 64, True, True
        )
        chosen_values = np.array([results[i] for i in range(64)], np.float32).astype(dtype)
        if chosen_values.tobytes() == expected.tobytes():
            return <Extreme>kind
    return OTHER_ROUNDING


cdef inline bint is_half(cnp.PyArray_Descr *descr) noexcept:
    return WIDE_HALVES and (descr is F16 or descr is BF16)


cdef inline void widen(
    cnp.PyArray_Descr *descr, const char *x, float *y, Py_ssize_t n
) noexcept nogil:
    if descr is F16:
        widen_float16(<const cnp.npy_uint16 *>x, y, n)
    else:
        widen_bfloat16(<const cnp.npy_uint16 *>x, y, n)


cdef inline void narrow(
    cnp.PyArray_Descr *descr, const float *x, char *y, Py_ssize_t n
) noexcept nogil:
    if descr is F16:
        round_float16(x, <cnp.npy_uint16 *>y, n)
    else:
        round_bfloat16(x, <cnp.npy_uint16 *>y, n)


cdef object widened(PyArrayObject *a):
    """An array of 16-bit floats in C order as float32."""
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), F32)
    widen(PyArray_DESCR(a), PyArray_BYTES(a), <float *>bytes_of(y), n)
    return y


cdef object narrowed(object x, cnp.PyArray_Descr *descr):
    """What is float32 among the results of a kernel in a type of 16-bit floats."""
    cdef PyArrayObject *a
    if type(x) is tuple:
        return tuple([narrowed(part, descr) for part in <tuple>x])
    if is_array(x) and in_order(<PyArrayObject *>x):
        a = <PyArrayObject *>x
        if PyArray_DESCR(a) is not F32:
            return x
        y = empty(PyArray_NDIM(a), PyArray_DIMS(a), descr)
        narrow(descr, <float *>PyArray_BYTES(a), bytes_of(y), PyArray_SIZE(a))
        return y
    return x.astype(<object><PyObject *>descr) if x.dtype is DTYPE_F32 else x


cdef object half_apply1(Loops loops, object x):
    """The ufunc of an array of 16-bit floats, or `None` if that is not for this module."""
    cdef PyArrayObject *a
    cdef cnp.PyArray_Descr *descr
    cdef cnp.npy_intp n
    cdef char *from_x
    cdef char *to
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    descr, n = PyArray_DESCR(a), PyArray_SIZE(a)
    if not is_half(descr) or loops.f32 is NULL or n == 0:
        return None
    if not in_order(a):
        x_turned = turned(x)
        if x_turned is not None:
            return turned_back(half_apply1(loops, x_turned))
        return half_apply1(loops, PyArray_NewCopy(a, cnp.NPY_CORDER))
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), BOOL if loops.gives_bool else descr)
    from_x, to = PyArray_BYTES(a), bytes_of(y)
    if n <= DIRECT:
        half_loop1(loops, descr, from_x, to, n)
    else:
        with nogil:
            half_loop1(loops, descr, from_x, to, n)
    return y


cdef void half_loop1(
    Loops loops, cnp.PyArray_Descr *descr, char *x, char *y, cnp.npy_intp n
) noexcept nogil:
    cdef float singles[WIDENED]
    cdef float results[WIDENED]
    cdef cnp.npy_intp start = 0, count
    cdef char *args[2]
    cdef cnp.npy_intp steps[2]
    while start < n:
        count = min(n - start, <cnp.npy_intp>WIDENED)
        widen(descr, x + 2 * start, singles, count)
        args[0], args[1] = <char *>singles, y + start if loops.gives_bool else <char *>results
        steps[0] = 0 if n == 1 else 4
        steps[1] = 0 if n == 1 else 1 if loops.gives_bool else 4
        loops.f32(args, &count, steps, loops.data32)
        if not loops.gives_bool:
            narrow(descr, results, y + 2 * start, count)
        start += count


cdef object half_apply2(Loops loops, object x1, object x2):
    """The ufunc of two such arrays, of one shape, or of rows and one row."""
    cdef PyArrayObject *a
    cdef PyArrayObject *b
    cdef cnp.PyArray_Descr *descr
    cdef cnp.npy_intp rows = 1, n
    cdef char *one
    cdef char *two
    cdef char *to
    if not is_array(x1) or not is_array(x2):
        return None
    a, b = <PyArrayObject *>x1, <PyArrayObject *>x2
    descr, n = PyArray_DESCR(a), PyArray_SIZE(a)
    if not is_half(descr) or PyArray_DESCR(b) is not descr or n == 0 or PyArray_NDIM(a) == 0:
        return None
    if not loops.is_wide(descr):
        return None
    if not in_order(a) or not in_order(b):
        return half_apply2_in_order(loops, x1, x2)
    if not same_shape(a, b):
        n = PyArray_SIZE(b)
        if PyArray_NDIM(b) != 1 or PyArray_DIM(a, PyArray_NDIM(a) - 1) != n or n < 2:
            return None
        rows = PyArray_SIZE(a) // n
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), BOOL if loops.gives_bool else descr)
    one, two, to = PyArray_BYTES(a), PyArray_BYTES(b), bytes_of(y)
    if rows * n <= DIRECT:
        half_rows(loops, descr, one, two, to, rows, n)
    else:
        with nogil:
            half_rows(loops, descr, one, two, to, rows, n)
    return y


cdef object half_apply2_in_order(Loops loops, object x1, object x2):
    """The same of arrays of which one lies in memory in another order at least."""
    cdef PyArrayObject *a = <PyArrayObject *>x1
    cdef PyArrayObject *b = <PyArrayObject *>x2
    one, two = turned(x1), turned(x2)
    if one is not None and two is not None and same_shape(a, b):
        return turned_back(half_apply2(loops, one, two))
    if PyArray_SIZE(a) < PyArray_SIZE(b):
        return None
    return half_apply2(
        loops, x1 if in_order(a) else PyArray_NewCopy(a, cnp.NPY_CORDER),
        x2 if in_order(b) else PyArray_NewCopy(b, cnp.NPY_CORDER),
    )


cdef void half_rows(
    Loops loops, cnp.PyArray_Descr *descr, char *x1, char *x2, char *y, cnp.npy_intp rows,
    cnp.npy_intp n,
) noexcept nogil:
    cdef cnp.npy_intp i, item = 1 if loops.gives_bool else 2
    for i in range(rows):
        half_loop2(loops, descr, x1 + 2 * i * n, x2, y + item * i * n, n)


cdef void half_loop2(
    Loops loops, cnp.PyArray_Descr *descr, char *x1, char *x2, char *y, cnp.npy_intp n
) noexcept nogil:
    cdef float one[WIDENED]
    cdef float two[WIDENED]
    cdef cnp.npy_intp start = 0, count
    while start < n:
        count = min(n - start, <cnp.npy_intp>WIDENED)
        widen(descr, x1 + 2 * start, one, count)
        widen(descr, x2 + 2 * start, two, count)
        half_loop_wide(loops, descr, one, two, 4, 4, y, start, count, n)
        start += count


cdef void half_loop_wide(
    Loops loops, cnp.PyArray_Descr *descr, float *one, float *two, cnp.npy_intp step_one,
    cnp.npy_intp step_two, char *y, cnp.npy_intp start, cnp.npy_intp count, cnp.npy_intp n,
) noexcept nogil:
    """The loop of float32 on `count` elements from `start` on of `n` results."""
    cdef float results[WIDENED]
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    args[0], args[1] = <char *>one, <char *>two
    args[2] = y + start if loops.gives_bool else <char *>results
    steps[0] = 0 if n == 1 else step_one
    steps[1] = 0 if n == 1 else step_two
    steps[2] = 0 if n == 1 else 1 if loops.gives_bool else 4
    if loops.extreme(descr) != NO_EXTREME:
        choose_max_or_min(loops.extreme(descr), one, two, results, count, step_one, step_two)
    else:
        loops.f32(args, &count, steps, loops.data32)
    if not loops.gives_bool:
        narrow(descr, results, y + 2 * start, count)


cdef object half_apply2_number(Loops loops, object x, object number, bint number_first):
    """The same where one side is a Python number, which is rounded to the type of the array."""
    cdef PyArrayObject *a
    cdef cnp.PyArray_Descr *descr
    cdef cnp.npy_intp n
    cdef char *from_x
    cdef char *to
    cdef float rounded
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    descr, n = PyArray_DESCR(a), PyArray_SIZE(a)
    if not is_half(descr) or not loops.is_wide(descr) or n == 0 or PyArray_NDIM(a) == 0:
        return None
    if not in_order(a):
        x_turned = turned(x)
        if x_turned is not None:
            return turned_back(half_apply2_number(loops, x_turned, number, number_first))
        a_copy = PyArray_NewCopy(a, cnp.NPY_CORDER)
        return half_apply2_number(loops, a_copy, number, number_first)
    if not half_number(number, descr, loops.gives_bool, &rounded):
        return None
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), BOOL if loops.gives_bool else descr)
    from_x, to = PyArray_BYTES(a), bytes_of(y)
    if n <= DIRECT:
        half_loop_number(loops, descr, from_x, &rounded, number_first, to, n)
    else:
        with nogil:
            half_loop_number(loops, descr, from_x, &rounded, number_first, to, n)
    return y


cdef void half_loop_number(
    Loops loops, cnp.PyArray_Descr *descr, char *x, float *number, bint number_first, char *y,
    cnp.npy_intp n,
) noexcept nogil:
    cdef float singles[WIDENED]
    cdef cnp.npy_intp start = 0, count
    while start < n:
        count = min(n - start, <cnp.npy_intp>WIDENED)
        widen(descr, x + 2 * start, singles, count)
        if number_first:
            half_loop_wide(loops, descr, number, singles, 0, 4, y, start, count, n)
        else:
            half_loop_wide(loops, descr, singles, number, 4, 0, y, start, count, n)
        start += count


cdef bint half_number(
    object number, cnp.PyArray_Descr *descr, bint is_compared, float *rounded
) except -1:
    """A Python number in a type of 16-bit floats; False where NumPy may round it otherwise.

    Rounded to float32 first it may come to lie in the middle of two halves, where it did not; and
    very great and very small ones are left to NumPy.
    """
    cdef double value
    cdef float single
    cdef cnp.npy_uint32 bits
    cdef cnp.npy_uint16 half
    if not number_of(number, &value):
        return False
    if value != 0 and not 1e-4 < fabs(value) < 6e4:
        return False
    single = <float>value
    memcpy(&bits, &single, 4)
    bits &= 0x1FFF if descr is F16 else 0xFFFF
    if <double>single != value and bits == (0x1000 if descr is F16 else 0x8000):
        return False
    narrow(descr, &single, <char *>&half, 1)
    widen(descr, <char *>&half, rounded, 1)
    # What is compared is compared with the number itself where that has no type of its own.
    return not is_compared or <double>rounded[0] == value
