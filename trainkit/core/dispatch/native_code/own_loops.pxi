# Inner loops of our own, with the bits of NumPy's, where those take several times as long.
#
# NumPy's maxima beside a number, limits and signs go element by element; its quotients and rests of
# floats call `fmod`. These are plain loops over elements that follow one another, of which
# compilers make vector code, wider where the processor has AVX2.

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


cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
    #define TK_AVX2 __attribute__((target("avx2")))
    #else
    static int has_avx2(void) { return 0; }
    #define TK_AVX2
    #endif

    #define TK_LOOP(NAME, TARGET) TARGET static void NAME(char **args, npy_intp n, npy_intp *steps)

    /* A maximum or a minimum, one of whose operands is a number. Of equal ones, as 0.0 and -0.0
       are, it is the second. */
    #define TK_EXTREME_LOOP(NAME, TARGET, TYPE, AHEAD, BEHIND) \
        TK_LOOP(NAME, TARGET) { \
            const TYPE *a = (const TYPE *)args[0], *b = (const TYPE *)args[1]; \
            TYPE *y = (TYPE *)args[2], number = steps[0] == 0 ? a[0] : b[0]; \
            npy_intp i; \
            if (number != number) \
                for (i = 0; i < n; i++) y[i] = steps[0] == 0 || a[i] == a[i] ? number : a[i]; \
            else if (steps[0] == 0) \
                for (i = 0; i < n; i++) y[i] = number AHEAD b[i] ? number : b[i]; \
            else \
                for (i = 0; i < n; i++) y[i] = a[i] BEHIND number ? number : a[i]; \
        }

    /* What lies between two numbers; a NaN stays. */
    #define TK_CLIP_LOOP(NAME, TARGET, TYPE) \
        TK_LOOP(NAME, TARGET) { \
            const TYPE *x = (const TYPE *)args[0]; \
            const TYPE *low = (const TYPE *)args[1], *high = (const TYPE *)args[2]; \
            TYPE *y = (TYPE *)args[3], least = low[0], most = high[0], z; \
            int numbers = steps[1] == 0 && steps[2] == 0 && least == least && most == most; \
            npy_intp i; \
            for (i = 0; numbers && i < n; i++) { \
                z = x[i] < least ? least : x[i]; \
                y[i] = z > most ? most : z; \
            } \
            for (; i < n; i++) { \
                z = x[i]; \
                if (!(z != z || z >= low[steps[1] ? i : 0])) z = low[steps[1] ? i : 0]; \
                y[i] = z != z || z <= high[steps[2] ? i : 0] ? z : high[steps[2] ? i : 0]; \
            } \
        }

    #define TK_SIGN_LOOP(NAME, TARGET, TYPE) \
        TK_LOOP(NAME, TARGET) { \
            const TYPE *x = (const TYPE *)args[0]; \
            TYPE *y = (TYPE *)args[1]; \
            for (npy_intp i = 0; i < n; i++) \
                y[i] = x[i] != x[i] ? x[i] : (TYPE)((x[i] > 0) - (x[i] < 0)); \
        }

    #define TK_PI 3.141592653589793238462643383279502884
    #define TK_PRODUCT_LOOP(NAME, TARGET, TYPE, FACTOR) \
        TK_LOOP(NAME, TARGET) { \
            const TYPE *x = (const TYPE *)args[0]; \
            TYPE *y = (TYPE *)args[1], factor = FACTOR; \
            for (npy_intp i = 0; i < n; i++) y[i] = x[i] * factor; \
        }

    /* Radians and degrees as NumPy makes them. */
    #define TK_OWN_LOOPS(SUFFIX, TARGET, TYPE) \
        TK_EXTREME_LOOP(largest_##SUFFIX, TARGET, TYPE, >, <=) \
        TK_EXTREME_LOOP(smallest_##SUFFIX, TARGET, TYPE, <, >=) \
        TK_CLIP_LOOP(clips_##SUFFIX, TARGET, TYPE) \
        TK_SIGN_LOOP(signs_##SUFFIX, TARGET, TYPE) \
        TK_PRODUCT_LOOP(radians_##SUFFIX, TARGET, TYPE, (TYPE)TK_PI / (TYPE)180) \
        TK_PRODUCT_LOOP(degrees_##SUFFIX, TARGET, TYPE, (TYPE)180 / (TYPE)TK_PI)

    TK_OWN_LOOPS(f32, , float)
    TK_OWN_LOOPS(f64, , double)
    TK_OWN_LOOPS(f32_wide, TK_AVX2, float)
    TK_OWN_LOOPS(f64_wide, TK_AVX2, double)

    typedef void (*tk_element_loop)(char **, npy_intp, npy_intp *);
    typedef struct {
        const char *name; tk_element_loop f32, f64; int beside_number;
    } tk_own_loop;

    /* By name; 0 behind the last one. */
    #define TK_OWN(NAME, LOOP, BESIDE) \
        {NAME, wide ? LOOP##_f32_wide : LOOP##_f32, wide ? LOOP##_f64_wide : LOOP##_f64, BESIDE},
    static int trainkit_own_loop(int index, tk_own_loop *loop) {
        int wide = has_avx2();
        tk_own_loop loops[] = {
            TK_OWN("maximum", largest, 1) TK_OWN("minimum", smallest, 1)
            TK_OWN("clip", clips, 1) TK_OWN("sign", signs, 0)
            TK_OWN("deg2rad", radians, 0) TK_OWN("rad2deg", degrees, 0)
        };
        if (index == sizeof loops / sizeof *loops) return 0;
        *loop = loops[index];
        return 1;
    }
    """
    bint has_avx2() nogil
    int trainkit_own_loop(int index, OwnLoop *loop)


cdef enum:
    MOST_OWN_LOOPS = 16

cdef OwnLoop[MOST_OWN_LOOPS] OWN_LOOPS
cdef int OWN_LOOP_COUNT = 0
while trainkit_own_loop(OWN_LOOP_COUNT, &OWN_LOOPS[OWN_LOOP_COUNT]):
    OWN_LOOP_COUNT += 1


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
    cdef cnp.npy_intp steps[4]
    cdef char *args[4]
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
                if ufunc.nin != 2:
                    args[0], args[1], steps[0] = bytes_of(x), bytes_of(y), x.itemsize
                    operands = (x,)
                    if ufunc.nin == 3:
                        limit = x[number_at * 2 :][:1]  # above and below, and zeros
                        args[1], args[2], args[3] = bytes_of(beside), bytes_of(limit), bytes_of(y)
                        steps[1] = steps[2] = 0
                        operands = (x, beside, limit)
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
