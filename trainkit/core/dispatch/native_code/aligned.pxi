# Arrays that begin where a line of the cache does, while a graph runs.
#
# malloc gives addresses that are multiples of 16, and of large blocks 16 above a multiple of 64: each
# vector of 64 bytes then lies in two lines of the cache, and is read and written as two.

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif

    #define TRAINKIT_LINE ((size_t)64)
    #define TRAINKIT_HUGE ((size_t)1 << 22)

    /* In front of the numbers: what malloc gave, and how much was asked for. */
    typedef struct { void *block; size_t size; } trainkit_front;

    static int trainkit_huge_pages = 0;

    static void *trainkit_placed(char *block, size_t size)
    {
        char *numbers;
        if (block == NULL) return NULL;
        numbers = (char *)(((uintptr_t)block + TRAINKIT_LINE) & ~(uintptr_t)(TRAINKIT_LINE - 1));
        ((trainkit_front *)numbers)[-1].block = block;
        ((trainkit_front *)numbers)[-1].size = size;
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (trainkit_huge_pages && size >= TRAINKIT_HUGE) {  /* as NumPy does */
            size_t page = 4096, gap = page - (uintptr_t)numbers % page;
            madvise(numbers + gap, size - gap, MADV_HUGEPAGE);
        }
    #endif
        return numbers;
    }

    static void *trainkit_malloc(void *context, size_t size)
    {
        if (size > SIZE_MAX - TRAINKIT_LINE) return NULL;
        return trainkit_placed((char *)malloc(size + TRAINKIT_LINE), size);
    }

    static void *trainkit_calloc(void *context, size_t count, size_t each)
    {
        if (each != 0 && count > (SIZE_MAX - TRAINKIT_LINE) / each) return NULL;
        return trainkit_placed((char *)calloc(1, count * each + TRAINKIT_LINE), count * each);
    }

    static void trainkit_free(void *context, void *numbers, size_t size)
    {
        if (numbers != NULL) free(((trainkit_front *)numbers)[-1].block);
    }

    static void *trainkit_realloc(void *context, void *numbers, size_t size)
    {
        void *moved = trainkit_malloc(context, size);
        if (moved != NULL && numbers != NULL) {
            size_t before = ((trainkit_front *)numbers)[-1].size;
            memcpy(moved, numbers, before < size ? before : size);
            trainkit_free(context, numbers, before);
        }
        return moved;
    }

    static PyDataMem_Handler trainkit_handler = {
        "trainkit_lines", 1,
        {NULL, trainkit_malloc, trainkit_calloc, trainkit_realloc, trainkit_free}
    };
    """
    ctypedef struct PyDataMem_Handler:
        pass
    PyDataMem_Handler trainkit_handler
    int trainkit_huge_pages
    object PyDataMem_SetHandler(object handler)
    PyObject *PyDataMem_DefaultHandler
    object PyCapsule_New(void *pointer, const char *name, void *destructor)

cdef object LINES = PyCapsule_New(&trainkit_handler, b"mem_handler", NULL)


def use_huge_pages(bint used):
    """Whether the system is asked for huge pages where an array has 4 MB or more."""
    global trainkit_huge_pages
    trainkit_huge_pages = used


cdef class AlignedRun:
    """Calls a function whose new arrays begin where a line of the cache does.

    Where somebody has given NumPy an allocator of his own, that one stays.
    """

    cdef object function

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        before = PyDataMem_SetHandler(LINES)
        if <PyObject *>before is not PyDataMem_DefaultHandler:
            PyDataMem_SetHandler(before)
            return self.function(*arguments)
        try:
            return self.function(*arguments)
        finally:
            PyDataMem_SetHandler(before)
