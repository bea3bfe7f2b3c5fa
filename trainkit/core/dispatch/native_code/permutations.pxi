# Random orders: numbers in the order of as many random words.

cdef enum:
    # Keys that are sorted by insertion.
    MOST_INSERTED = 32
    # Bits by which more of them are sorted at once, and how often: words that agree in all of these
    # bits, which are their upper ones, are few.
    DIGIT_BITS = 11
    DIGITS = 3
    BUCKETS = 1 << DIGIT_BITS
    MOST_PERMUTED = 1 << 26


cdef struct Keyed:
    cnp.npy_uint64 key
    cnp.npy_int64 number


cdef class DirectPermutation(Direct):
    """The numbers 0 ... n - 1 in the order of as many words."""

    cdef object run(self, list arrays, dict settings):
        cdef cnp.npy_uint64 words[4]
        cdef const cnp.npy_uint64 *state
        cdef cnp.npy_intp i, k, n
        cdef int overflow = 0
        cdef long long size
        cdef Keyed *keyed
        cdef cnp.npy_int64 *order
        shape = setting(settings, "shape")
        if PyList_GET_SIZE(arrays) != 2 or not is_state(arrays) or type(shape) is not tuple:
            return None
        if PyTuple_GET_SIZE(shape) != 1 or type(<object>PyTuple_GET_ITEM(shape, 0)) is not int:
            return None
        size = PyLong_AsLongLongAndOverflow(<object>PyTuple_GET_ITEM(shape, 0), &overflow)
        if overflow or not 0 <= size <= MOST_PERMUTED:
            return None
        n = <cnp.npy_intp>size
        y = empty(1, &n, I64)
        order = <cnp.npy_int64 *>bytes_of(y)
        state = <const cnp.npy_uint64 *>bytes_of(<object>PyList_GET_ITEM(arrays, 1))
        keyed = <Keyed *>PyMem_Malloc(2 * (n + 4) * sizeof(Keyed))
        if keyed is NULL:
            raise MemoryError
        with nogil:
            for i in range(0, n, 4):
                philox_block(state, i >> 2, words)
                for k in range(4):
                    keyed[i + k].key, keyed[i + k].number = words[k], i + k
            sort_keyed(keyed, keyed + n + 4, n)
            for i in range(n):
                order[i] = keyed[i].number
        PyMem_Free(keyed)
        return y, state_behind(state, n)


cdef void sort_keyed(Keyed *keyed, Keyed *other, cnp.npy_intp n) noexcept nogil:
    """Sort by key; equal ones keep their order. `other` is room for as many."""
    cdef cnp.npy_intp i, k
    cdef Keyed one
    cdef int digit
    if n > MOST_INSERTED:
        for digit in range(DIGITS):
            # from the lowest of the bits to the highest, so that the last pass decides first
            sort_by_digit(keyed, other, n, 64 - DIGIT_BITS * (DIGITS - digit))
            memcpy(keyed, other, n * sizeof(Keyed))
    for i in range(1, n):
        one, k = keyed[i], i
        while k > 0 and keyed[k - 1].key > one.key:
            keyed[k] = keyed[k - 1]
            k -= 1
        keyed[k] = one


cdef void sort_by_digit(Keyed *x, Keyed *y, cnp.npy_intp n, int shift) noexcept nogil:
    cdef cnp.npy_intp starts[BUCKETS]
    cdef cnp.npy_intp i, count, start = 0
    memset(starts, 0, sizeof(starts))
    for i in range(n):
        starts[(x[i].key >> shift) & (BUCKETS - 1)] += 1
    for i in range(BUCKETS):
        count = starts[i]
        starts[i] = start
        start += count
    for i in range(n):
        count = (x[i].key >> shift) & (BUCKETS - 1)
        y[starts[count]] = x[i]
        starts[count] += 1
