# Draws of few random numbers from a generator's state: Philox4x64-10, by the facet `direct`.
#
# A state is three words, (counter low, counter high, key); a block of the stream has four words.
# Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".

cdef extern from *:
    """
    #if defined(__SIZEOF_INT128__)
    static inline npy_uint64 upper_word(npy_uint64 a, npy_uint64 b) {
        return (npy_uint64)(((unsigned __int128)a * b) >> 64);
    }
    #else
    static inline npy_uint64 upper_word(npy_uint64 a, npy_uint64 b) {
        npy_uint64 a_low = a & 0xFFFFFFFFu, a_high = a >> 32;
        npy_uint64 b_low = b & 0xFFFFFFFFu, b_high = b >> 32;
        npy_uint64 middle = a_high * b_low + ((a_low * b_low) >> 32);
        npy_uint64 other = a_low * b_high + (middle & 0xFFFFFFFFu);
        return a_high * b_high + (middle >> 32) + (other >> 32);
    }
    #endif
    /* Block `number` after the one that the state names. */
    static inline void philox_block(
        const npy_uint64 *state, npy_uint64 number, npy_uint64 *words
    ) {
        const npy_uint64 first = 0xD2E7470EE14C6C93u, second = 0xCA5A826395121157u;
        npy_uint64 c0 = state[0] + number, c1 = state[1] + (c0 < number), c2 = 0, c3 = 0;
        npy_uint64 k0 = state[2], k1 = 0, high0, high1;
        for (int i = 0; i < 10; i++) {
            high0 = upper_word(c0, first);
            high1 = upper_word(c2, second);
            c1 ^= high1 ^ k0;
            c3 ^= high0 ^ k1;
            high0 = c0 * first;
            c0 = c1, c1 = c2 * second, c2 = c3, c3 = high0;
            k0 += 0x9E3779B97F4A7C15u;
            k1 += 0xBB67AE8584CAA73Bu;
        }
        words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
    }
    """
    cnp.npy_uint64 upper_word(cnp.npy_uint64 a, cnp.npy_uint64 b) nogil
    void philox_block(
        const cnp.npy_uint64 *state, cnp.npy_uint64 number, cnp.npy_uint64 *words
    ) noexcept nogil

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object x) except? -1

cdef extern from "math.h" nogil:
    double rint(double x)
    double sqrt(double x)
    float sqrtf(float x)

cdef enum:
    # Numbers up to which they are drawn here: beyond it vectors of a kernel gain more than its call
    # costs.
    MOST_DRAWN = 1024
    # Numbers that are drawn by rejection.
    MOST_REJECTED = MOST_DRAWN

cdef cnp.dtype DTYPE_U64 = np.dtype(np.uint64)
cdef cnp.PyArray_Descr *U64 = <cnp.PyArray_Descr *><PyObject *>DTYPE_U64


cdef struct Draw:
    # The shape of a result, how many numbers that are, and the state that they are drawn from.
    int nd
    cnp.npy_intp dims[16]
    cnp.npy_intp count
    const cnp.npy_uint64 *state


cdef bint is_state(list arrays) noexcept:
    """Whether the first array, which lies in order, is a generator's state."""
    cdef PyArrayObject *a = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
    return PyArray_DESCR(a) is U64 and PyArray_NDIM(a) == 1 and PyArray_SIZE(a) == 3


cdef bint draw_of(list arrays, dict settings, Draw *draw) noexcept:
    """Fill `draw`; False for sizes that are tensors, rows of a batch, and many numbers."""
    cdef int i, overflow = 0
    cdef long long n
    shape = setting(settings, "shape")
    if PyList_GET_SIZE(arrays) != 2 or not is_state(arrays) or type(shape) is not tuple:
        return False
    if setting(settings, "rows") is not NOTHING or PyTuple_GET_SIZE(shape) > 16:
        return False
    draw.nd, draw.count = <int>PyTuple_GET_SIZE(shape), 1
    for i in range(draw.nd):
        size = <object>PyTuple_GET_ITEM(shape, i)
        if type(size) is not int:
            return False
        n = PyLong_AsLongLongAndOverflow(size, &overflow)
        if overflow or n < 0 or n > MOST_DRAWN:
            return False
        draw.dims[i] = <cnp.npy_intp>n
        draw.count *= draw.dims[i]
        if draw.count > MOST_DRAWN:
            return False
    draw.state = <const cnp.npy_uint64 *>bytes_of(<object>PyList_GET_ITEM(arrays, 1))
    return True


cdef object state_behind(const cnp.npy_uint64 *state, cnp.npy_intp word_count):
    """The state after so many words; a draw takes one block at least."""
    following = new_state(state)
    move_on(<cnp.npy_uint64 *>bytes_of(following), word_count)
    return following


cdef object new_state(const cnp.npy_uint64 *state):
    """An array of a state's words."""
    cdef cnp.npy_intp size = 3
    words = empty(1, &size, U64)
    memcpy(bytes_of(words), state, 3 * sizeof(cnp.npy_uint64))
    return words


cdef inline void move_on(cnp.npy_uint64 *state, cnp.npy_intp word_count) noexcept:
    """Let a state stand behind so many words; a draw takes one block at least."""
    cdef cnp.npy_uint64 blocks = <cnp.npy_uint64>max((word_count + 3) // 4, 1)
    state[0] += blocks
    state[1] += state[0] < blocks


cdef void draw_singles(const cnp.npy_uint64 *state, float *y, cnp.npy_intp n) noexcept:
    """The upper 24 bits of each half word, the lower half first, as floats in [0, 1)."""
    cdef cnp.npy_uint64 words[4]
    cdef cnp.npy_intp i
    cdef int k
    for i in range(0, n, 8):
        philox_block(state, i >> 3, words)
        for k in range(min(8, n - i)):
            y[i + k] = <float><cnp.npy_int32>((words[k >> 1] >> (8 + 32 * (k & 1))) & 0xFFFFFF)
            y[i + k] *= <float>5.9604644775390625e-08


cdef void draw_doubles(const cnp.npy_uint64 *state, double *y, cnp.npy_intp n) noexcept:
    """The upper 53 bits of each word as floats in [0, 1)."""
    cdef cnp.npy_uint64 words[4]
    cdef cnp.npy_intp i
    cdef int k
    for i in range(0, n, 4):
        philox_block(state, i >> 2, words)
        for k in range(min(4, n - i)):
            y[i + k] = <double><cnp.npy_int64>(words[k] >> 11) * 1.1102230246251565e-16


cdef cnp.npy_intp draw_units(const cnp.npy_uint64 *state, Float *y, cnp.npy_intp n) noexcept:
    """`n` floats in [0, 1); gives how many words they take."""
    if Float is float:
        draw_singles(state, y, n)
        return (n + 1) // 2
    draw_doubles(state, y, n)
    return n


# What is multiplied is stored before something is added, since each of the two is rounded.


cdef void scale_all(Float *y, cnp.npy_intp n, Float scale, Float offset) noexcept:
    cdef cnp.npy_intp i
    if scale != 1:
        for i in range(n):
            y[i] *= scale
    if offset != 0:
        for i in range(n):
            y[i] += offset


cdef class DirectUniform(Direct):
    """Floats in [0, 1), scaled and moved."""

    cdef object run(self, list arrays, dict settings):
        cdef Draw draw
        cdef double scale = 1, offset = 0
        cdef cnp.npy_intp word_count
        cdef cnp.PyArray_Descr *descr = float_descr(setting(settings, "dtype"))
        if descr is NULL or not draw_of(arrays, settings, &draw):
            return None
        factor, addend = setting(settings, "scale"), setting(settings, "offset")
        if factor is not NOTHING and not number_of(factor, &scale):
            return None
        if addend is not NOTHING and not number_of(addend, &offset):
            return None
        y = empty(draw.nd, draw.dims, descr)
        if descr is F32:
            word_count = draw_units(draw.state, <float *>bytes_of(y), draw.count)
            scale_all(<float *>bytes_of(y), draw.count, <float>scale, <float>offset)
        else:
            word_count = draw_units(draw.state, <double *>bytes_of(y), draw.count)
            scale_all(<double *>bytes_of(y), draw.count, scale, offset)
        return y, state_behind(draw.state, word_count)


cdef cnp.PyArray_Descr *float_descr(object name) noexcept:
    """float32 or float64 by its name, NULL for others."""
    if type(name) is not str:
        return NULL
    if name == "float32":
        return F32
    return F64 if name == "float64" else NULL


cdef class NormalLoops:
    """The functions of NumPy by which pairs of uniform numbers become normal ones."""

    cdef Loops log
    cdef Loops cos
    cdef Loops sin

    def __init__(self, log, cos, sin):
        self.log, self.cos, self.sin = Loops(log), Loops(cos), Loops(sin)

    cdef void apply(
        self, Loops loops, cnp.PyArray_Descr *descr, void *x, void *y, cnp.npy_intp n
    ) noexcept:
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        if n == 0:
            return
        args[0], args[1] = <char *>x, <char *>y
        steps[0] = steps[1] = 0 if n == 1 else (4 if descr is F32 else 8)
        loops.call(descr, args, n, steps, False)

cdef inline Float root_of(Float x) noexcept:
    return sqrtf(x) if Float is float else sqrt(x)


cdef cnp.npy_intp draw_normals(
    NormalLoops loops, cnp.PyArray_Descr *descr, const cnp.npy_uint64 *state, Float *y,
    cnp.npy_intp half,
) noexcept:
    """2 * `half` normal numbers; gives how many words they take.

    Source: Box and Muller 1958, "A note on the generation of random normal deviates".
    """
    cdef Float flat[MOST_DRAWN + 1]
    cdef Float *angle = flat + half
    cdef cnp.npy_intp i, word_count = draw_units(state, flat, 2 * half)
    for i in range(half):
        flat[i] = 1 - flat[i]
        angle[i] = <Float>6.283185307179586 * angle[i]
    loops.apply(loops.log, descr, flat, flat, half)
    loops.apply(loops.cos, descr, angle, y, half)
    loops.apply(loops.sin, descr, angle, y + half, half)
    for i in range(half):
        flat[i] = root_of(-2 * flat[i])
        y[i] = flat[i] * y[i]
        y[half + i] = flat[i] * y[half + i]
    return word_count


cdef class DirectNormal(Direct):
    """Draws of the standard normal distribution."""

    cdef NormalLoops loops

    def __init__(self, log, cos, sin):
        self.loops = NormalLoops(log, cos, sin)

    cdef object run(self, list arrays, dict settings):
        cdef Draw draw
        cdef cnp.npy_intp word_count, half
        cdef double normals[MOST_DRAWN + 1]  # room for either dtype
        cdef void *to
        cdef cnp.PyArray_Descr *descr = float_descr(setting(settings, "dtype"))
        if descr is NULL or not draw_of(arrays, settings, &draw):
            return None
        half = (draw.count + 1) // 2
        y = empty(draw.nd, draw.dims, descr)
        to = <void *>bytes_of(y) if draw.count == 2 * half else <void *>normals
        if descr is F32:
            word_count = draw_normals(self.loops, descr, draw.state, <float *>to, half)
        else:
            word_count = draw_normals(self.loops, descr, draw.state, <double *>to, half)
        if draw.count != 2 * half:
            memcpy(bytes_of(y), normals, draw.count * PyArray_ITEMSIZE(<PyArrayObject *>y))
        return y, state_behind(draw.state, word_count)


cdef class DirectIntegers(Direct):
    """Whole numbers of a range."""

    cdef object run(self, list arrays, dict settings):
        cdef Draw draw
        cdef cnp.npy_uint64 words[4]
        cdef cnp.npy_uint64 width, lowest, word
        cdef cnp.npy_intp i
        cdef int k
        cdef bint is_short
        low, high = setting(settings, "low"), setting(settings, "high")
        dtype = setting(settings, "dtype")
        if type(low) is not int or type(high) is not int or type(dtype) is not str:
            return None
        is_short = dtype == "int32"
        if not (is_short or dtype == "int64") or not draw_of(arrays, settings, &draw):
            return None
        width = PyLong_AsUnsignedLongLongMask(high - low)  # 0 for one of 2**64
        lowest = PyLong_AsUnsignedLongLongMask(low)
        y = empty(draw.nd, draw.dims, I32 if is_short else I64)
        for i in range(0, draw.count, 4):
            philox_block(draw.state, i >> 2, words)
            for k in range(min(4, draw.count - i)):
                word = (upper_word(words[k], width) if width else words[k]) + lowest
                if is_short:
                    (<cnp.npy_int32 *>bytes_of(y))[i + k] = <cnp.npy_int32>word
                else:
                    (<cnp.npy_int64 *>bytes_of(y))[i + k] = <cnp.npy_int64>word
        return y, state_behind(draw.state, draw.count)


cdef class DirectKept(Direct):
    """The mask of dropout: sixteen bits decide an element."""

    cdef object run(self, list arrays, dict settings):
        cdef Draw draw
        cdef cnp.npy_uint64 words[4]
        cdef cnp.npy_uint64 limit
        cdef cnp.npy_intp i
        cdef int k
        rate = setting(settings, "rate")
        if type(rate) is not float or not draw_of(arrays, settings, &draw):
            return None
        limit = <cnp.npy_uint64>min(max(rint(<double>rate * 65536), 0.0), 65536.0)
        y = empty(draw.nd, draw.dims, BOOL)
        for i in range(0, draw.count, 16):
            philox_block(draw.state, i >> 4, words)
            for k in range(min(16, draw.count - i)):
                bytes_of(y)[i + k] = ((words[k >> 2] >> (16 * (k & 3))) & 0xFFFF) >= limit
        return y, state_behind(draw.state, (draw.count + 3) // 4)


cdef class DirectDropped(Direct):
    """Elements times `scale` where a mask is true, else times 0."""

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *x = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef PyArrayObject *mask
        cdef double scale = 1
        if PyList_GET_SIZE(arrays) != 3 or not is_float(PyArray_DESCR(x)):
            return None
        if not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        mask = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        if PyArray_DESCR(mask) is not BOOL or not in_order(mask) or not same_shape(x, mask):
            return None
        if not number_of(setting(settings, "scale"), &scale):
            return None
        y = empty(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_DESCR(x))
        if PyArray_DESCR(x) is F32:
            drop(
                <float *>PyArray_BYTES(x), PyArray_BYTES(mask), <float *>bytes_of(y),
                PyArray_SIZE(x), <float>scale,
            )
        else:
            drop(
                <double *>PyArray_BYTES(x), PyArray_BYTES(mask), <double *>bytes_of(y),
                PyArray_SIZE(x), scale,
            )
        return y


cdef void drop(Float *x, char *mask, Float *y, cnp.npy_intp n, Float scale) noexcept:
    cdef cnp.npy_intp i
    for i in range(n):
        y[i] = x[i] * (scale if mask[i] else <Float>0)


cdef class DirectCategorical(Direct):
    """Classes drawn by inversion of the cumulated softmax of a few rows of logits."""

    cdef Loops exp

    def __init__(self, exp):
        self.exp = Loops(exp)

    cdef object run(self, list arrays, dict settings):
        cdef PyArrayObject *logits
        cdef cnp.npy_intp dims[2]
        cdef long long samples
        cdef int overflow = 0
        cdef bint is_short
        count, dtype = setting(settings, "samples"), setting(settings, "dtype")
        if PyList_GET_SIZE(arrays) != 3 or not is_state(arrays) or type(count) is not int:
            return None
        if setting(settings, "rows") is not NOTHING or type(dtype) is not str:
            return None
        if not is_array(<object>PyList_GET_ITEM(arrays, 2)):
            return None
        logits = <PyArrayObject *>PyList_GET_ITEM(arrays, 2)
        is_short = dtype == "int32"
        if not (is_short or dtype == "int64") or not in_order(logits):
            return None
        samples = PyLong_AsLongLongAndOverflow(count, &overflow)
        if overflow or samples < 1 or samples > MOST_DRAWN or PyArray_NDIM(logits) != 2:
            return None
        dims[0], dims[1] = PyArray_DIM(logits, 0), <cnp.npy_intp>samples
        if not is_float(PyArray_DESCR(logits)) or dims[0] * dims[1] > MOST_DRAWN:
            return None
        if not 0 < PyArray_SIZE(logits) <= MOST_DRAWN:
            return None
        return self.draw(arrays, logits, dims, I32 if is_short else I64)

    cdef object draw(
        self, list arrays, PyArrayObject *logits, cnp.npy_intp *dims, cnp.PyArray_Descr *descr
    ):
        cdef cnp.npy_intp i, row, column, k, classes = PyArray_DIM(logits, 1)
        cdef cnp.npy_intp size = PyArray_SIZE(logits), drawn = dims[0] * dims[1]
        cdef const cnp.npy_uint64 *state = <const cnp.npy_uint64 *>bytes_of(
            <object>PyList_GET_ITEM(arrays, 1)
        )
        cdef double cumulated[MOST_DRAWN]
        cdef double units[MOST_DRAWN]
        cdef double *powers
        cdef double largest, unit
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        for i in range(size):
            if PyArray_DESCR(logits) is F32:
                cumulated[i] = (<float *>PyArray_BYTES(logits))[i]
            else:
                cumulated[i] = (<double *>PyArray_BYTES(logits))[i]
        for row in range(dims[0]):
            powers = cumulated + row * classes
            largest = powers[0]
            for i in range(classes):
                if not powers[i] <= 1.7976931348623157e308:  # NaN and inf are left to NumPy
                    return None
                largest = max(largest, powers[i])
            if not largest >= -1.7976931348623157e308:
                return None
            for i in range(classes):
                powers[i] -= largest
        args[0] = args[1] = <char *>cumulated
        steps[0] = steps[1] = 0 if size == 1 else sizeof(double)
        self.exp.call(F64, args, size, steps, False)
        draw_doubles(state, units, drawn)
        y = empty(2, dims, descr)
        for row in range(dims[0]):
            powers = cumulated + row * classes
            for i in range(1, classes):
                powers[i] = powers[i - 1] + powers[i]
            for column in range(dims[1]):
                i = row * dims[1] + column
                unit = units[i] * powers[classes - 1]
                k = 0
                while k < classes - 1 and powers[k] <= unit:
                    k += 1
                if descr is I32:
                    (<cnp.npy_int32 *>bytes_of(y))[i] = <cnp.npy_int32>k
                else:
                    (<cnp.npy_int64 *>bytes_of(y))[i] = k
        return y, state_behind(state, drawn)


cdef struct Gammas:
    # What draws of the gamma distribution are made of, a number for each.
    double alpha[MOST_REJECTED]
    double d[MOST_REJECTED]
    double c[MOST_REJECTED]
    double values[MOST_REJECTED]
    cnp.npy_intp open_places[MOST_REJECTED]
    # Of a round: normal numbers, uniform ones, cubes, and logarithms of the last two.
    double x[MOST_REJECTED + 1]
    double units[2 * MOST_REJECTED]
    double cubes[MOST_REJECTED]
    double log_units[MOST_REJECTED]
    double log_cubes[MOST_REJECTED]


cdef class DirectGamma(Direct):
    """Draws of the gamma distribution of rate 1.

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    """

    cdef NormalLoops loops
    cdef Loops power

    def __init__(self, log, cos, sin, power):
        self.loops, self.power = NormalLoops(log, cos, sin), Loops(power)

    cdef object run(self, list arrays, dict settings):
        cdef Draw draw
        cdef Gammas *g
        cdef cnp.PyArray_Descr *descr = float_descr(setting(settings, "dtype"))
        if descr is NULL or PyList_GET_SIZE(arrays) != 3 or not draw_of(arrays[:2], settings, &draw):
            return None
        g = <Gammas *>PyMem_Malloc(sizeof(Gammas))
        if g is NULL:
            raise MemoryError
        try:
            return self.draw(arrays[2], &draw, g, descr)
        finally:
            PyMem_Free(g)

    cdef object draw(self, object alpha, Draw *draw, Gammas *g, cnp.PyArray_Descr *descr):
        cdef cnp.npy_uint64 state[3]
        cdef cnp.npy_intp i, n = draw.count
        cdef bint is_small = False
        if not parameter_of(alpha, draw, g.alpha):
            return None
        for i in range(n):
            if not 0 < g.alpha[i] <= 1.7976931348623157e308:
                return None
            is_small |= g.alpha[i] < 1
            g.d[i] = (g.alpha[i] + 1 if g.alpha[i] < 1 else g.alpha[i]) - 1.0 / 3.0
            g.c[i] = 1 / sqrt(9 * g.d[i])
        memcpy(state, draw.state, sizeof(state))
        self.reject(g, state, n)
        draw_doubles(state, g.units, 2 * n)
        move_on(state, 2 * n)
        if is_small:
            for i in range(n):
                g.units[i] = 1 - g.units[n + i]
                g.cubes[i] = 1 / max(g.alpha[i], 1e-300)
            self.raise_all(g.units, g.cubes, sizeof(double), g.units, n)
            for i in range(n):
                g.values[i] = g.values[i] * (g.units[i] if g.alpha[i] < 1 else 1)
        return as_draws(g.values, draw, descr), new_state(state)

    cdef void reject(self, Gammas *g, cnp.npy_uint64 *state, cnp.npy_intp n) noexcept:
        """Fill `values`; only elements that were rejected are drawn again."""
        cdef double three = 3, x, v
        cdef cnp.npy_intp i, at, rejected, count = n
        for i in range(n):
            g.open_places[i] = i
        while count:  # each round leaves a few per cent of its elements
            move_on(state, draw_normals(self.loops, F64, state, g.x, (count + 1) // 2))
            draw_doubles(state, g.units, 2 * count)
            move_on(state, 2 * count)
            for i in range(count):
                g.units[i] = 1 - g.units[count + i]
                g.cubes[i] = 1 + g.c[g.open_places[i]] * g.x[i]
            self.raise_all(g.cubes, &three, 0, g.cubes, count)
            self.loops.apply(self.loops.log, F64, g.units, g.log_units, count)
            for i in range(count):
                g.units[i] = g.cubes[i] if g.cubes[i] > 0 else 1
            self.loops.apply(self.loops.log, F64, g.units, g.log_cubes, count)
            rejected = 0
            for i in range(count):
                at, x, v = g.open_places[i], g.x[i], g.units[i]
                if g.cubes[i] > 0 and (
                    g.log_units[i] < 0.5 * x * x + g.d[at] * (1 - v + g.log_cubes[i])
                ):
                    g.values[at] = g.d[at] * v
                else:
                    g.open_places[rejected] = at
                    rejected += 1
            count = rejected

    cdef void raise_all(
        self, double *x, double *exponents, cnp.npy_intp step, double *y, cnp.npy_intp n
    ) noexcept:
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        if n == 0:
            return
        args[0], args[1], args[2] = <char *>x, <char *>exponents, <char *>y
        steps[0] = steps[2] = 0 if n == 1 else sizeof(double)
        steps[1] = 0 if n == 1 else step
        self.power.call(F64, args, n, steps, step == 0)


cdef bint parameter_of(object parameter, Draw *draw, double *to) noexcept:
    """Write a parameter of each draw, of floats or int32; False unless it is one for all or each."""
    cdef PyArrayObject *a
    cdef cnp.npy_intp i, step
    cdef int k
    if not is_array(parameter):
        return False
    a = <PyArrayObject *>parameter
    if not in_order(a) or PyArray_NDIM(a) > draw.nd:
        return False
    if not is_float(PyArray_DESCR(a)) and PyArray_DESCR(a) is not I32:
        return False
    step = 0 if PyArray_SIZE(a) == 1 else 1
    if step:
        if PyArray_NDIM(a) != draw.nd:
            return False
        for k in range(draw.nd):
            if PyArray_DIM(a, k) != draw.dims[k]:
                return False
    for i in range(draw.count):
        if PyArray_DESCR(a) is F32:
            to[i] = (<float *>PyArray_BYTES(a))[i * step]
        elif PyArray_DESCR(a) is I32:
            to[i] = (<cnp.npy_int32 *>PyArray_BYTES(a))[i * step]
        else:
            to[i] = (<double *>PyArray_BYTES(a))[i * step]
    return True


cdef object as_draws(double *values, Draw *draw, cnp.PyArray_Descr *descr):
    """Draws in the shape and dtype that were asked for."""
    cdef cnp.npy_intp i
    y = empty(draw.nd, draw.dims, descr)
    if descr is F64:
        memcpy(bytes_of(y), values, draw.count * sizeof(double))
    else:
        for i in range(draw.count):
            (<float *>bytes_of(y))[i] = <float>values[i]
    return y


def draw(variable, function, tuple dims, dict settings):
    """What a function draws from the state in a variable, which takes the one behind it.

    `None`, with nothing drawn, for other variables than those of a state on the CPU, and where a
    tape hears of reads. The state has the shape, dtype and layout of the one before, which is all
    that `assign` would look at.

    Args:
        variable: of a generator.
        function: of the state, the setting `shape` and others; gives values and the next state.
        dims: the sizes of the values, which are known.
        settings: the others.
    """
    if not enabled or Py_TYPE(variable) is not VARIABLE or PyList_GET_SIZE(TAPES):
        return None
    state = variable._value
    if Py_TYPE(state) is not TENSOR or not is_array(array_of(state)):
        return None
    settings["shape"] = dims
    values, following = function(state, **settings)
    if Py_TYPE(following) is TENSOR and is_array(array_of(following)):
        variable._value = following
    else:
        variable.assign(following)
    return values
