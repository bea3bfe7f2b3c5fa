# Formulas by element: lists of NumPy's loops, for so many elements at a time as the first cache holds.


cdef enum:
    # Of a formula; `formulas.MOST_STEPS` is no more.
    MOST_STEPS = 16
    MOST_INPUTS = 3
    MOST_OPERANDS = 3
    # Elements at a time, of which the operands of a step fit into the first cache.
    BLOCK = 2048
    # Bytes between results in scratch memory, so that they don't lie a multiple of 4096 apart:
    # processors take a read behind a write at such a distance for one of the same address.
    GAP = 192


cdef enum StepKind:
    LOOP_STEP
    WHERE_STEP
    CAST_STEP  # of truth values to floats


cdef struct Operand:
    # The number of an input or a step; -1 for a number.
    int source
    # The number, or where in the list of settings it is from, else -1.
    int named
    double number


cdef class Formula:
    """The steps of a body as `formulas.steps_of` gives them."""

    cdef int inputs
    cdef int count
    cdef list loops
    cdef list names
    cdef Operand operands[MOST_STEPS][MOST_OPERANDS]
    cdef int operand_counts[MOST_STEPS]
    cdef StepKind kinds[MOST_STEPS]
    cdef bint takes_bools[MOST_STEPS]  # instead of floats; a choice, behind its condition
    cdef bint gives_bools[MOST_STEPS]
    cdef int slots[MOST_STEPS]  # where in scratch memory each result but the last one lies
    cdef int slot_count
    cdef bint serves_f32
    cdef bint serves_f64
    cdef bint serves_f16

    def __cinit__(self, int inputs, steps):
        cdef int i, k
        cdef list last_uses = [0] * len(steps)
        cdef list free = []
        self.inputs, self.count = inputs, len(steps)
        self.loops, self.names = [], []
        for i, (function, sources, step_numbers) in enumerate(steps):
            self.operand_counts[i] = len(sources)
            for k, (source, number) in enumerate(zip(sources, step_numbers)):
                self.operands[i][k].source, self.operands[i][k].named = source, -1
                self.operands[i][k].number = 0
                if type(number) is str:
                    if number not in self.names:
                        self.names.append(number)
                    self.operands[i][k].named = self.names.index(number)
                elif number is not None:
                    self.operands[i][k].number = number
                elif source >= inputs:
                    last_uses[source - inputs] = i
            self.add_step(i, function)
        for i in range(self.count - 1):
            if free:
                self.slots[i] = free.pop()
            else:
                self.slots[i] = self.slot_count
                self.slot_count += 1
            # Only what no later step reads is written over, and never by the step that reads it.
            for k in range(i):
                if last_uses[k] == i:
                    free.append(self.slots[k])
        self.serves_f32, self.serves_f64 = self.serves(F32), self.serves(F64)
        self.serves_f16 = self.serves_halves()

    cdef int add_step(self, int i, function) except -1:
        """Learn what step `i` does, whose operands are known."""
        cdef bint first_is_bool = self.is_bool(self.operands[i][0].source)
        cdef bint last_is_bool = self.is_bool(self.operands[i][self.operand_counts[i] - 1].source)
        cdef Loops loops = None
        self.kinds[i], self.takes_bools[i] = LOOP_STEP, first_is_bool
        self.gives_bools[i] = False
        if function == "where":
            self.kinds[i], self.takes_bools[i] = WHERE_STEP, last_is_bool
            self.gives_bools[i] = last_is_bool
        elif function == "cast":
            self.kinds[i] = CAST_STEP
        else:
            loops = Loops(CLIP_UFUNC if function == "clip" else function)
            self.gives_bools[i] = first_is_bool or loops.gives_bool
        self.loops.append(loops)
        return 0

    cdef inline bint is_bool(self, int source) noexcept:
        return source >= self.inputs and self.gives_bools[source - self.inputs]

    cdef bint serves(self, cnp.PyArray_Descr *descr):
        """Whether all steps have loops for this dtype."""
        cdef Loops loops
        cdef int i
        for i, loops in enumerate(self.loops):
            if loops is None:
                continue
            if self.takes_bools[i]:
                if not loops.has_kind(BOOL):
                    return False
            elif not (loops.has(descr) if loops.gives_bool else loops.has_kind(descr)):
                return False
        return True

    cdef bint serves_halves(self):
        """Whether all steps have bits of float16's loops where each is rounded from float32."""
        cdef Loops loops
        if not WIDE_HALVES or not self.serves_f32:
            return False
        for loops in self.loops:
            if loops is not None and not loops.is_wide(F16) and not (
                loops.ufunc in NEVER_ROUNDED or loops.ufunc is CLIP_UFUNC
            ):
                return False
        return True

    cdef bint round_numbers(self, double *numbers, double *rounded) except -1:
        """The numbers of all operands as float16 has them, by step and operand; False as above."""
        cdef int i, k, count
        cdef float value
        cdef Loops loops
        for i in range(self.count):
            loops = <Loops>PyList_GET_ITEM(self.loops, i)
            count = self.operand_counts[i]
            for k in range(count):
                if self.operands[i][k].source >= 0:
                    continue
                number = self.operands[i][k].number
                if self.operands[i][k].named >= 0:
                    number = numbers[self.operands[i][k].named]
                if not half_number(number, F16, loops is not None and loops.gives_bool, &value):
                    return False
                rounded[i * MOST_OPERANDS + k] = value
        return True

    cdef object run_halves(self, list arrays, dict settings):
        """`run` of float16, computed in float32 and rounded by each step."""
        cdef PyArrayObject *like = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.npy_intp n = PyArray_SIZE(like), start = 0, some
        cdef double numbers[MOST_STEPS]
        cdef double rounded[MOST_STEPS * MOST_OPERANDS]
        cdef float inputs[MOST_INPUTS][WIDENED]
        cdef float results[WIDENED]
        cdef char *bases[MOST_INPUTS]
        cdef char *scratch
        cdef char *to
        cdef int i
        cdef bint gives_bool = self.gives_bools[self.count - 1]
        if not self.serves_f16 or n == 0 or not self.numbers_of(settings, numbers):
            return None
        if not self.round_numbers(numbers, rounded):
            return None
        y = empty(PyArray_NDIM(like), PyArray_DIMS(like), BOOL if gives_bool else F16)
        to = bytes_of(y)
        scratch = <char *>PyMem_Malloc(self.slot_count * (WIDENED * 4 + GAP) + 1)
        if scratch is NULL:
            raise MemoryError
        while start < n:
            some = min(n - start, <cnp.npy_intp>WIDENED)
            for i in range(self.inputs):
                widen(F16, bytes_of(arrays[i + 1]) + 2 * start, inputs[i], some)
                bases[i] = <char *>inputs[i]
            self.run_part(
                cnp.NPY_FLOAT, bases, scratch, to + start if gives_bool else <char *>results, 0,
                some, 4, some == 1, NULL, rounded,
            )
            if not gives_bool:
                narrow(F16, results, to + 2 * start, some)
            start += some
        PyMem_Free(scratch)
        return y

    cdef bint numbers_of(self, dict settings, double *numbers) except -1:
        """Put the settings into `numbers`; False where one is none that is exactly a float64."""
        cdef int i
        if len(self.names) != PyDict_Size(settings):
            return False
        for i in range(len(self.names)):
            value = setting(settings, self.names[i])
            if not number_of(value, &numbers[i]):
                return False
        return True

    cdef object run(self, list arrays, dict settings):
        """The result on `arrays[1:]`, of one shape and dtype in C order; `None` for other settings."""
        cdef PyArrayObject *like = <PyArrayObject *>PyList_GET_ITEM(arrays, 1)
        cdef cnp.PyArray_Descr *descr = PyArray_DESCR(like)
        cdef cnp.npy_intp n = PyArray_SIZE(like), item = PyArray_ITEMSIZE(like), start, some
        cdef double numbers[MOST_STEPS]
        cdef char *bases[MOST_INPUTS]
        cdef char *scratch
        cdef char *to
        cdef int i
        if not (self.serves_f32 if descr is F32 else self.serves_f64 and descr is F64):
            return None
        if n == 0 or not self.numbers_of(settings, numbers):
            return None
        y = empty(
            PyArray_NDIM(like), PyArray_DIMS(like),
            BOOL if self.gives_bools[self.count - 1] else descr,
        )
        to = PyArray_BYTES(<PyArrayObject *>y)
        some = n if n < BLOCK else BLOCK
        scratch = <char *>PyMem_Malloc(self.slot_count * (some * item + GAP) + 1)
        if scratch is NULL:
            raise MemoryError
        for i in range(self.inputs):
            bases[i] = PyArray_BYTES(<PyArrayObject *>PyList_GET_ITEM(arrays, i + 1))
        start = 0
        while start < n:
            some = n - start if n - start < BLOCK else BLOCK
            self.run_part(
                kind_of(descr), bases, scratch, to, start, some, item, n == 1, numbers, NULL
            )
            start += some
        PyMem_Free(scratch)
        return y

    cdef void run_part(
        self, int kind, char **bases, char *scratch, char *to, cnp.npy_intp start,
        cnp.npy_intp n, cnp.npy_intp item, bint single, double *numbers, double *rounded
    ):
        """All steps on `n` elements from `start` on.

        `rounded` are numbers by step and operand for steps that are rounded to float16, else NULL.
        """
        cdef cnp.npy_intp slot_bytes = n * item + GAP
        cdef cnp.npy_intp steps[MOST_OPERANDS + 1]
        cdef cnp.npy_intp size
        cdef char *args[MOST_OPERANDS + 1]
        cdef float floats[MOST_OPERANDS]
        cdef double doubles[MOST_OPERANDS]
        cdef int i, k, count
        cdef bint has_number
        cdef Operand *operand
        for i in range(self.count):
            count = self.operand_counts[i]
            has_number = False
            for k in range(count):
                operand = &self.operands[i][k]
                size = 1 if self.is_bool(operand.source) else item
                steps[k] = 0 if single else size
                if operand.source >= self.inputs:
                    args[k] = scratch + self.slots[operand.source - self.inputs] * slot_bytes
                elif operand.source >= 0:
                    args[k] = bases[operand.source] + start * item
                else:
                    if rounded is not NULL:
                        doubles[k] = rounded[i * MOST_OPERANDS + k]
                    else:
                        doubles[k] = operand.number if operand.named < 0 else numbers[operand.named]
                    floats[k] = <float>doubles[k]
                    steps[k] = 0
                    has_number = True
                    args[k] = <char *>&floats[k] if kind == cnp.NPY_FLOAT else <char *>&doubles[k]
            size = 1 if self.gives_bools[i] else item
            args[count] = (
                to + start * size if i == self.count - 1 else scratch + self.slots[i] * slot_bytes
            )
            steps[count] = 0 if single else size
            if rounded is NULL or not self.run_rounded(i, args, n, steps):
                self.run_step(i, kind, args, n, steps, has_number and not single)

    cdef bint run_rounded(self, int i, char **args, cnp.npy_intp n, cnp.npy_intp *steps):
        """A step whose results are rounded to float16, or chosen as its loops choose."""
        cdef cnp.npy_uint16 halves[WIDENED]
        cdef Loops loops = <Loops>PyList_GET_ITEM(self.loops, i)
        if loops is None or self.takes_bools[i]:
            return False
        if loops.extreme_f16 != NO_EXTREME:
            choose_max_or_min(
                loops.extreme_f16, <float *>args[0], <float *>args[1], <float *>args[2], n,
                steps[0], steps[1],
            )
            return True
        if not loops.rounds:
            return False
        loops.call_of(cnp.NPY_FLOAT, args, n, steps)
        narrow(F16, <float *>args[2], <char *>halves, n)
        widen(F16, <char *>halves, <float *>args[2], n)
        return True

    cdef void run_step(
        self, int i, int kind, char **args, cnp.npy_intp n, cnp.npy_intp *steps, bint has_number
    ):
        cdef Loops loops
        if self.kinds[i] == WHERE_STEP:
            choose(
                args[3], args[0], args[1], args[2], n, 0 if n == 1 else steps[1],
                0 if n == 1 else steps[2],
                1 if self.gives_bools[i] else 4 if kind == cnp.NPY_FLOAT else 8,
            )
        elif self.kinds[i] == CAST_STEP:
            if kind == cnp.NPY_FLOAT:
                floats_of(args[0], <float *>args[1], n)
            else:
                floats_of(args[0], <double *>args[1], n)
        else:
            loops = <Loops>PyList_GET_ITEM(self.loops, i)
            if self.takes_bools[i]:
                loops.call_kind(cnp.NPY_BOOL, args, n, steps)
            elif loops.gives_bool:
                loops.call_of(kind, args, n, steps)
            else:
                loops.call_elements(kind, args, n, steps, has_number)


cdef void floats_of(const char *x, Float *y, cnp.npy_intp n) noexcept nogil:
    """1 for truth values that are true, 0 for the others."""
    cdef cnp.npy_intp i
    for i in range(n):
        y[i] = x[i] != 0


cdef extern from *:
    """
    /* y = mask ? a : b, where a step of 0 says that an operand is one element. */
    #define TK_CHOOSE(NAME, TARGET, TYPE) \
        TARGET static void NAME( \
            TYPE *y, const char *mask, const TYPE *a, const TYPE *b, Py_ssize_t n, int one_a, \
            int one_b \
        ) { \
            TYPE x = *a, z = *b; \
            Py_ssize_t i; \
            if (one_a && one_b) \
                for (i = 0; i < n; i++) y[i] = mask[i] ? x : z; \
            else if (one_a) \
                for (i = 0; i < n; i++) { z = b[i]; y[i] = mask[i] ? x : z; } \
            else if (one_b) \
                for (i = 0; i < n; i++) { x = a[i]; y[i] = mask[i] ? x : z; } \
            else \
                for (i = 0; i < n; i++) { x = a[i]; z = b[i]; y[i] = mask[i] ? x : z; } \
        }
    #define TK_CHOOSE_ALL(SUFFIX, TARGET) \
        TK_CHOOSE(choose_1##SUFFIX, TARGET, uint8_t) \
        TK_CHOOSE(choose_2##SUFFIX, TARGET, uint16_t) \
        TK_CHOOSE(choose_4##SUFFIX, TARGET, uint32_t) \
        TK_CHOOSE(choose_8##SUFFIX, TARGET, uint64_t)
    TK_CHOOSE_ALL(_wide, TK_WIDE)
    TK_CHOOSE_ALL(_narrow, )

    #define TK_CHOOSE_CASE(BITS, TYPE) \
        case BITS: \
            (is_wide ? choose_##BITS##_wide : choose_##BITS##_narrow)( \
                (TYPE *)y, mask, (const TYPE *)a, (const TYPE *)b, n, step_a == 0, step_b == 0); \
            break;

    static void choose_elements(
        int is_wide, void *y, const char *mask, const void *a, const void *b, Py_ssize_t n,
        Py_ssize_t step_a, Py_ssize_t step_b, int item
    ) {
        switch (item) {
            TK_CHOOSE_CASE(1, uint8_t)
            TK_CHOOSE_CASE(2, uint16_t)
            TK_CHOOSE_CASE(4, uint32_t)
            TK_CHOOSE_CASE(8, uint64_t)
        }
    }
    """
    void choose_elements(
        bint is_wide, void *y, const char *mask, const void *a, const void *b, Py_ssize_t n,
        Py_ssize_t step_a, Py_ssize_t step_b, int item) nogil


cdef inline void choose(
    char *y, const char *mask, const char *a, const char *b, cnp.npy_intp n, cnp.npy_intp step_a,
    cnp.npy_intp step_b, int item,
) noexcept nogil:
    """`n` elements of `item` bytes each of `a` where the mask is true, else of `b`."""
    choose_elements(WIDE_HALVES, y, mask, a, b, n, step_a, step_b, item)


# Of three operands, under no public name.
cdef object CLIP_UFUNC = np._core.umath.clip


cdef bint number_of(object x, double *number) noexcept:
    """Whether `x` is a Python number that a float64 holds as it is."""
    cdef int overflow = 0
    cdef long long integer
    if type(x) is float:
        number[0] = <double>x
        return True
    if type(x) is not int:
        return False
    integer = PyLong_AsLongLongAndOverflow(x, &overflow)
    if overflow or integer > 1 << 53 or integer < -(1 << 53):
        return False
    number[0] = <double>integer
    return True


def cubes(x):
    """x * x * x of floats in C order, in one pass; `None` for other arrays."""
    y = like_floats(x)
    if y is None:
        return None
    if PyArray_DESCR(<PyArrayObject *>x) is F32:
        cube_all(<float *>bytes_of(x), <float *>bytes_of(y), size_of(x))
    else:
        cube_all(<double *>bytes_of(x), <double *>bytes_of(y), size_of(x))
    return y


def squared_distances(x, double centre):
    """(x - centre)**2 of floats in C order, in one pass; `None` for other arrays."""
    y = like_floats(x)
    if y is None:
        return None
    if PyArray_DESCR(<PyArrayObject *>x) is F32:
        square_all(<float *>bytes_of(x), <float *>bytes_of(y), size_of(x), <float>centre)
    else:
        square_all(<double *>bytes_of(x), <double *>bytes_of(y), size_of(x), centre)
    return y


cdef inline char *bytes_of(object x) noexcept:
    return PyArray_BYTES(<PyArrayObject *>x)


cdef inline cnp.npy_intp size_of(object x) noexcept:
    return PyArray_SIZE(<PyArrayObject *>x)


cdef object like_floats(object x):
    """A new array like `x`, `None` if that is none of floats in C order."""
    cdef PyArrayObject *a
    if not is_array(x):
        return None
    a = <PyArrayObject *>x
    if not in_order(a) or not is_float(PyArray_DESCR(a)):
        return None
    return empty(PyArray_NDIM(a), PyArray_DIMS(a), PyArray_DESCR(a))


# Each operation rounds, as ufuncs one after the other do.


cdef void cube_all(Float *x, Float *y, cnp.npy_intp n) noexcept:
    cdef cnp.npy_intp i
    for i in range(n):
        y[i] = x[i] * x[i] * x[i]


cdef void square_all(Float *x, Float *y, cnp.npy_intp n, Float centre) noexcept:
    cdef cnp.npy_intp i
    cdef Float away
    for i in range(n):
        away = x[i] - centre
        y[i] = away * away
