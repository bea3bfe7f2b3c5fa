# Chebyshev series by Clenshaw's recurrence, some elements at a time in registers.

cdef extern from *:
    """
    /* y = the series of c at t: NumPy's steps, each product and sum rounded by itself. Processors
       whose compilers may fuse the two are left to NumPy. */
    #define TK_SERIES(NAME, TYPE, LANES) \
        TK_AVX2 static void NAME( \
            const TYPE *c, int count, const TYPE *t, TYPE *y, Py_ssize_t n \
        ) { \
            for (Py_ssize_t i = 0; i < n; i += LANES) { \
                TYPE x[LANES] = {0}, twice[LANES], one[LANES], two[LANES], z[LANES]; \
                Py_ssize_t some = n - i < LANES ? n - i : LANES; \
                memcpy(x, t + i, some * sizeof(TYPE)); \
                for (int k = 0; k < LANES; k++) { \
                    twice[k] = 2 * x[k]; \
                    one[k] = two[k] = 0 * x[k]; \
                } \
                for (int j = count - 1; j > 0; j--) \
                    for (int k = 0; k < LANES; k++) { \
                        z[k] = twice[k] * one[k] - two[k] + c[j]; \
                        two[k] = one[k]; \
                        one[k] = z[k]; \
                    } \
                for (int k = 0; k < LANES; k++) z[k] = x[k] * one[k] - two[k] + c[0]; \
                memcpy(y + i, z, some * sizeof(TYPE)); \
            } \
        }
    TK_SERIES(series_f32, float, 32)
    TK_SERIES(series_f64, double, 16)
    """
    void series_f32(const float *c, int count, const float *t, float *y, Py_ssize_t n) nogil
    void series_f64(const double *c, int count, const double *t, double *y, Py_ssize_t n) nogil

cdef enum:
    MOST_COEFFICIENTS = 64


def series(tuple coefficients, t):
    """The Chebyshev series at an array of floats in [-1, 1]; `None` where NumPy is to make it."""
    cdef PyArrayObject *a = <PyArrayObject *>t
    cdef double c64[MOST_COEFFICIENTS]
    cdef float c32[MOST_COEFFICIENTS]
    cdef Py_ssize_t n
    cdef int i, count = <int>PyTuple_GET_SIZE(coefficients)
    cdef char *x
    cdef char *to
    cdef bint is_f32
    if not has_avx2() or not is_array(t) or not 0 < count <= MOST_COEFFICIENTS:
        return None
    n = PyArray_SIZE(a)
    if not in_order(a) or not is_float(PyArray_DESCR(a)) or n == 0:
        return None
    for i in range(count):
        c64[i] = coefficients[i]
        c32[i] = <float>c64[i]
    y = empty(PyArray_NDIM(a), PyArray_DIMS(a), PyArray_DESCR(a))
    x, to, is_f32 = PyArray_BYTES(a), bytes_of(y), PyArray_DESCR(a) is F32
    with nogil:
        if is_f32:
            series_f32(c32, count, <float *>x, <float *>to, n)
        else:
            series_f64(c64, count, <double *>x, <double *>to, n)
    return y
