# Formulas by element: lists of NumPy's loops, for so many elements at a time as the first cache holds.


cdef enum:
    # Of a formula; `formulas.MOST_STEPS` is no more.
    MOST_STEPS = 16
    MOST_INPUTS = 3
    # Elements at a time, of which the operands of a step fit into the first cache.
    BLOCK = 2048
    # Bytes between results in scratch memory, so that they don't lie a multiple of 4096 apart:
    # processors take a read behind a write at such a distance for one of the same address.
    GAP = 192


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
    cdef Operand operands[MOST_STEPS][2]
    cdef int operand_counts[MOST_STEPS]
    cdef int slots[MOST_STEPS]  # where in scratch memory each result but the last one lies
    cdef int slot_count
    cdef bint serves_f32
    cdef bint serves_f64

    def __cinit__(self, int inputs, steps):
        cdef int i, k
        cdef list last_uses = [0] * len(steps)
        cdef list free = []
        self.inputs, self.count = inputs, len(steps)
        self.loops, self.names = [], []
        for i, (ufunc, sources, step_numbers) in enumerate(steps):
            self.loops.append(Loops(ufunc))
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

    cdef bint serves(self, cnp.PyArray_Descr *descr):
        """Whether all steps have loops from this dtype to itself."""
        cdef Loops loops
        for loops in self.loops:
            if not loops.has_kind(descr):
                return False
        return True

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
        y = empty(PyArray_NDIM(like), PyArray_DIMS(like), descr)
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
            self.run_part(kind_of(descr), bases, scratch, to, start * item, some, item, n == 1, numbers)
            start += some
        PyMem_Free(scratch)
        return y

    cdef void run_part(
        self, int kind, char **bases, char *scratch, char *to, cnp.npy_intp offset,
        cnp.npy_intp n, cnp.npy_intp item, bint single, double *numbers
    ):
        """All steps on `n` elements, `offset` bytes from the first ones."""
        cdef cnp.npy_intp slot_bytes = n * item + GAP
        cdef cnp.npy_intp steps[3]
        cdef cnp.npy_intp step = 0 if single else item
        cdef char *args[3]
        cdef float floats[2]
        cdef double doubles[2]
        cdef int i, k, count
        cdef bint has_number
        cdef Operand *operand
        cdef Loops loops
        for i in range(self.count):
            count = self.operand_counts[i]
            has_number = False
            for k in range(count):
                operand = &self.operands[i][k]
                if operand.source >= self.inputs:
                    args[k] = scratch + self.slots[operand.source - self.inputs] * slot_bytes
                    steps[k] = step
                elif operand.source >= 0:
                    args[k], steps[k] = bases[operand.source] + offset, step
                else:
                    doubles[k] = operand.number if operand.named < 0 else numbers[operand.named]
                    floats[k] = <float>doubles[k]
                    steps[k] = 0
                    has_number = True
                    args[k] = <char *>&floats[k] if kind == cnp.NPY_FLOAT else <char *>&doubles[k]
            args[count] = to + offset if i == self.count - 1 else scratch + self.slots[i] * slot_bytes
            steps[count] = step
            loops = <Loops>PyList_GET_ITEM(self.loops, i)
            loops.call_elements(kind, args, n, steps, has_number and not single)


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
