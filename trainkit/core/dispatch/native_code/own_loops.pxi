# Inner loops of our own, with the bits of NumPy's, where those take several times as long.
#
# NumPy's maxima beside a number and its signs go element by element; its quotients and rests of
# floats call `fmod`. These are plain loops over elements that follow one another, of which
# compilers make vector code.

ctypedef void (*ElementLoop)(
    char **args, cnp.npy_intp n, cnp.npy_intp *steps
) noexcept nogil

ctypedef fused Float:
    float
    double


cdef struct OwnLoop:
    # The ufunc's name, a loop for each dtype, and whether they serve only where an operand is one
    # number: for arrays alone NumPy has vector code.
    const char *name
    ElementLoop f32
    ElementLoop f64
    bint beside_number


cdef void largest(Float *a, Float *b, Float *y, cnp.npy_intp n, bint number_first) noexcept nogil:
    """max(a, b), one of which is a number. Of equal ones, as 0.0 and -0.0 are, it is the second."""
    cdef cnp.npy_intp i
    cdef Float number = a[0] if number_first else b[0]
    if number != number:
        for i in range(n):
            y[i] = number if number_first or a[i] == a[i] else a[i]
    elif number_first:
        for i in range(n):
            y[i] = number if number > b[i] else b[i]
    else:
        for i in range(n):
            y[i] = number if a[i] <= number else a[i]


cdef void smallest(Float *a, Float *b, Float *y, cnp.npy_intp n, bint number_first) noexcept nogil:
    cdef cnp.npy_intp i
    cdef Float number = a[0] if number_first else b[0]
    if number != number:
        for i in range(n):
            y[i] = number if number_first or a[i] == a[i] else a[i]
    elif number_first:
        for i in range(n):
            y[i] = number if number < b[i] else b[i]
    else:
        for i in range(n):
            y[i] = number if a[i] >= number else a[i]


cdef void signs(Float *x, Float *y, cnp.npy_intp n) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(n):
        y[i] = x[i] if x[i] != x[i] else <Float>((x[i] > 0) - (x[i] < 0))


cdef void largest_f32(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    largest(<float *>args[0], <float *>args[1], <float *>args[2], n, steps[0] == 0)


cdef void largest_f64(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    largest(<double *>args[0], <double *>args[1], <double *>args[2], n, steps[0] == 0)


cdef void smallest_f32(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    smallest(<float *>args[0], <float *>args[1], <float *>args[2], n, steps[0] == 0)


cdef void smallest_f64(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    smallest(<double *>args[0], <double *>args[1], <double *>args[2], n, steps[0] == 0)


cdef void signs_f32(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    signs(<float *>args[0], <float *>args[1], n)


cdef void signs_f64(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    signs(<double *>args[0], <double *>args[1], n)


cdef void multiply_all(Float *x, Float *y, cnp.npy_intp n, Float factor) noexcept nogil:
    cdef cnp.npy_intp i
    for i in range(n):
        y[i] = x[i] * factor


# A degree in radians, and a radian in degrees, as NumPy makes them.
cdef double PI = 3.141592653589793238462643383279502884
cdef float RADIANS_F32 = <float>PI / <float>180
cdef float DEGREES_F32 = <float>180 / <float>PI
cdef double RADIANS_F64 = PI / 180
cdef double DEGREES_F64 = 180 / PI


cdef void radians_f32(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    multiply_all(<float *>args[0], <float *>args[1], n, RADIANS_F32)


cdef void radians_f64(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    multiply_all(<double *>args[0], <double *>args[1], n, RADIANS_F64)


cdef void degrees_f32(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    multiply_all(<float *>args[0], <float *>args[1], n, DEGREES_F32)


cdef void degrees_f64(char **args, cnp.npy_intp n, cnp.npy_intp *steps) noexcept nogil:
    multiply_all(<double *>args[0], <double *>args[1], n, DEGREES_F64)


cdef enum:
    OWN_LOOP_COUNT = 5

cdef OwnLoop[OWN_LOOP_COUNT] OWN_LOOPS
OWN_LOOPS[0] = OwnLoop("maximum", largest_f32, largest_f64, True)
OWN_LOOPS[1] = OwnLoop("minimum", smallest_f32, smallest_f64, True)
OWN_LOOPS[2] = OwnLoop("sign", signs_f32, signs_f64, False)
OWN_LOOPS[3] = OwnLoop("deg2rad", radians_f32, radians_f64, False)
OWN_LOOPS[4] = OwnLoop("rad2deg", degrees_f32, degrees_f64, False)


cdef const OwnLoop *own_loop_of(object ufunc):
    """The loops of ours that stand for a ufunc's; NULL where there are none.

    Which of two zeros a maximum is differs between processors, and so may all else: what has other
    bits than NumPy here is not used.
    """
    cdef bytes name = ufunc.__name__.encode()
    cdef int i
    for i in range(OWN_LOOP_COUNT):
        if name == OWN_LOOPS[i].name and has_bits_of(&OWN_LOOPS[i], ufunc):
            return &OWN_LOOPS[i]
    return NULL


cdef bint has_bits_of(const OwnLoop *own, object ufunc) except -1:
    """Whether a loop of ours gives NumPy's bits for zeros, NaN, infinities and usual numbers."""
    cdef cnp.npy_intp steps[3]
    cdef char *args[3]
    cdef int number_at
    special = [0.0, -0.0, 1.5, -1.5, 3e38, 1e-40, np.nan, -np.nan, np.inf, -np.inf]
    for dtype in (np.float32, np.float64):
        x = np.array(special * 5, dtype)
        y = np.empty_like(x)
        for number in x[: len(special)]:
            beside = np.full(1, number)
            for number_at in range(2):
                args[number_at] = bytes_of(beside)
                args[1 - number_at] = bytes_of(x)
                steps[number_at], steps[1 - number_at] = 0, x.itemsize
                if ufunc.nin == 1:
                    args[0], args[1], steps[0] = bytes_of(x), bytes_of(y), x.itemsize
                    operands = (x,)
                else:
                    args[2] = bytes_of(y)
                    operands = (beside, x) if number_at == 0 else (x, beside)
                (own.f32 if dtype is np.float32 else own.f64)(args, len(x), steps)
                with np.errstate(all="ignore"):
                    if y.tobytes() != ufunc(*operands).tobytes():
                        return False
    return True


# ------------------------------------------------------------------ quotients and rests of floats

ctypedef bint (*DivisionLoop)(
    const float *a, const float *b, float *y, Py_ssize_t n
) noexcept nogil

cdef enum:
    # Elements that are divided anew by NumPy where one of them is out of the ordinary.
    DIVIDED = 256

cdef extern from "math.h" nogil:
    double fabs(double x)
    float copysignf(float x, float sign)


@cython.cdivision(True)
cdef inline float rest_of(float a, float b, int *unusual) noexcept nogil:
    """What `fmod(a, b)` gives but for the sign of 0; `unusual` is set where it may be another.

    A quotient of floats below 2**28 is never rounded up to a whole number in float64, and the
    whole number times the divisor and what is left are exact there.
    """
    cdef double quotient = <double>a / <double>b
    # False for NaN, too, and for a divisor that is 0; 0 * inf would be no remainder.
    unusual[0] |= 1 - (fabs(quotient) < 268435456.0) * (fabs(b) <= 3.4028234663852886e38)
    return <float>(<double>a - <double><int>quotient * <double>b)


# What follows the remainder is done in float32, as NumPy does it. These give False, and nothing of use,
# where an operand is unusual.


cdef bint rests(const float *a, const float *b, float *y, Py_ssize_t n) noexcept nogil:
    """a % b, which has the sign of `b`."""
    cdef Py_ssize_t i
    cdef int unusual = 0
    cdef float remainder
    for i in range(n):
        remainder = rest_of(a[i], b[i], &unusual)
        remainder = remainder + (
            b[i] if (remainder != 0) & ((remainder < 0) != (b[i] < 0)) else <float>0
        )
        y[i] = copysignf(0, b[i]) if remainder == 0 else remainder
    return unusual == 0


cdef bint rests_towards_zero(
    const float *a, const float *b, float *y, Py_ssize_t n
) noexcept nogil:
    """The remainder of a / b that has the sign of `a`."""
    cdef Py_ssize_t i
    cdef int unusual = 0
    for i in range(n):
        y[i] = copysignf(rest_of(a[i], b[i], &unusual), a[i])
    return unusual == 0


@cython.cdivision(True)
cdef bint quotients(const float *a, const float *b, float *y, Py_ssize_t n) noexcept nogil:
    """a // b."""
    cdef Py_ssize_t i
    cdef int unusual = 0
    cdef float remainder, divided, floored
    for i in range(n):
        remainder = rest_of(a[i], b[i], &unusual)
        divided = (a[i] - remainder) / b[i]
        divided = divided - <float>((remainder != 0) & ((remainder < 0) != (b[i] < 0)))
        floored = <float><int>divided
        floored = floored - <float>(floored > divided)
        floored = floored + <float>(divided - floored > <float>0.5)
        y[i] = copysignf(0, a[i] / b[i]) if divided == 0 else floored
    return unusual == 0
