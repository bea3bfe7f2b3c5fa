# Arrays that begin where a line of the cache does.
#
# malloc gives addresses that are multiples of 16, and of large blocks 16 above a multiple of 64: each
# vector of 64 bytes then lies in two lines of the cache, and is read and written as two. Results of
# eager calls begin there, too, from `LINED` bytes on: a sum of two arrays that the second cache
# holds takes half as long with vectors of 64 bytes.

cdef extern from *:
    """
    /* In front of the numbers: what malloc gave, or NULL where they lie in the arena; how much was
       asked for; and by which run, as which of its arrays. */
    typedef struct { void *block; size_t size; uint64_t run; uint32_t index; } trainkit_front;

    #define TRAINKIT_FRONT(numbers) (((trainkit_front *)(numbers))[-1])

    /* Numbers behind their front, both from a line of the cache on. */
    static void *trainkit_placed(size_t size, int zeros)
    {
        trainkit_run *run = trainkit_current;
        uint32_t index = UINT32_MAX;
        char *block = NULL, *numbers = NULL;
        if (size > SIZE_MAX - 2 * TRAINKIT_LINE) return NULL;
        if (run != NULL && size >= TRAINKIT_LEAST && size < TRAINKIT_ARENA
                && run->count < TRAINKIT_COUNTED) {
            uint32_t lines = (uint32_t)((size + 2 * TRAINKIT_LINE - 1) / TRAINKIT_LINE);
            index = run->count++;
            run->now[index] = 2 * lines + 1;
            if (run->lines[index] == lines) numbers = trainkit_take(lines);
        }
        if (numbers != NULL) {
            numbers += TRAINKIT_LINE;
            if (zeros) memset(numbers, 0, size);
        } else {
            size_t whole = size + 2 * TRAINKIT_LINE;
            block = (char *)(zeros ? calloc(1, whole) : malloc(whole));
            if (block == NULL) return NULL;
            numbers = block + 2 * TRAINKIT_LINE - 1;
            numbers -= (uintptr_t)numbers % TRAINKIT_LINE;
            trainkit_ask_for_huge_pages(numbers, size);
        }
        TRAINKIT_FRONT(numbers).block = block;
        TRAINKIT_FRONT(numbers).size = size;
        TRAINKIT_FRONT(numbers).run = run == NULL ? 0 : run->number;
        TRAINKIT_FRONT(numbers).index = index;
        return numbers;
    }

    static void *trainkit_malloc(void *context, size_t size)
    {
        return trainkit_placed(size, 0);
    }

    static void *trainkit_calloc(void *context, size_t count, size_t each)
    {
        if (each != 0 && count > SIZE_MAX / each) return NULL;
        return trainkit_placed(count * each, 1);
    }

    static void trainkit_free(void *context, void *numbers, size_t size)
    {
        trainkit_run *run = trainkit_current;
        trainkit_front *front;
        if (numbers == NULL) return;
        front = &TRAINKIT_FRONT(numbers);
        if (run != NULL && front->run == run->number && front->index < run->count)
            run->now[front->index] &= ~(uint32_t)1;
        if (front->block != NULL) free(front->block);
        else trainkit_give_back((char *)numbers - TRAINKIT_LINE);
    }

    static void *trainkit_realloc(void *context, void *numbers, size_t size)
    {
        void *moved = trainkit_malloc(context, size);
        if (moved != NULL && numbers != NULL) {
            size_t before = TRAINKIT_FRONT(numbers).size;
            memcpy(moved, numbers, before < size ? before : size);
            trainkit_free(context, numbers, before);
        }
        return moved;
    }

    static PyDataMem_Handler trainkit_handler = {
        "trainkit_lines", 1,
        {NULL, trainkit_malloc, trainkit_calloc, trainkit_realloc, trainkit_free}
    };

    /* A new array of `size` bytes, at least TRAINKIT_LINED, whose memory the handler frees. */
    static PyObject *trainkit_lined_array(
        PyArray_Descr *descr, int nd, npy_intp const *dims, size_t size, PyObject *handler)
    {
        PyObject *array;
        void *numbers = trainkit_placed(size, 0);
        if (numbers == NULL) {
            Py_DECREF(descr);
            return PyErr_NoMemory();
        }
        array = PyArray_NewFromDescr(
            &PyArray_Type, descr, nd, dims, NULL, numbers, NPY_ARRAY_CARRAY, NULL);
        if (array == NULL) {
            trainkit_free(NULL, numbers, size);
            return NULL;
        }
        PyTraceMalloc_Track(389047, (uintptr_t)numbers, size);  /* as NumPy does */
        Py_INCREF(handler);
        ((PyArrayObject_fields *)array)->mem_handler = handler;
        PyArray_ENABLEFLAGS((PyArrayObject *)array, NPY_ARRAY_OWNDATA);
        return array;
    }
    """
    ctypedef struct PyDataMem_Handler:
        pass
    PyDataMem_Handler trainkit_handler
    object trainkit_lined_array(
        cnp.PyArray_Descr *descr, int nd, const cnp.npy_intp *dims, size_t size, object handler)
    object PyDataMem_GetHandler()
    object PyDataMem_SetHandler(object handler)
    PyObject *PyDataMem_DefaultHandler
    object PyCapsule_New(void *pointer, const char *name, void *destructor)

cdef object LINES = PyCapsule_New(&trainkit_handler, b"mem_handler", NULL)


cdef object begin_lines():
    """Let new arrays of this thread begin so; gives what `end_lines` takes."""
    before = PyDataMem_SetHandler(LINES)
    if <PyObject *>before is not PyDataMem_DefaultHandler:
        PyDataMem_SetHandler(before)  # somebody's own, or LINES
        return None
    return before


cdef inline int end_lines(object before) except -1:
    if before is not None:
        PyDataMem_SetHandler(before)
    return 0


def use_huge_pages(bint used):
    """Whether the system is asked for huge pages where an array has 4 MB or more."""
    global trainkit_huge_pages
    trainkit_huge_pages = used


cdef class AlignedRun:
    """Calls a function whose new arrays begin where a line of the cache does.

    What ends before the call does may lie in the arena. Where somebody has given NumPy an allocator
    of his own, that one stays.
    """

    cdef object function
    cdef bint comes_back
    cdef trainkit_run run

    def __init__(self, function, bint comes_back):
        self.function, self.comes_back = function, comes_back

    def __call__(self, *arguments):
        before = begin_lines()
        if before is None:
            return self.function(*arguments)
        cdef bint counts = self.comes_back and trainkit_begin(&self.run)
        try:
            return self.function(*arguments)
        finally:
            if counts:
                trainkit_end(&self.run)
            end_lines(before)
