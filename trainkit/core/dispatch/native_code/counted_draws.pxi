# Draws of few numbers of the Poisson and binomial distributions, by inversion.

cdef extern from "math.h" nogil:
    double fmin(double x, double y)

cdef enum:
    # Terms that are added up before a number is taken as it is.
    MOST_TERMS = 200


cdef class CountedDraws(Direct):
    """Draws of whole numbers, each the least whose cumulated probability is above a uniform one."""

    cdef Loops exp

    cdef object draw_counts(self, list arrays, dict settings, int parameters):
        """Values and the next state; `None` for what is not for this module."""
        cdef Draw draw
        cdef double *room
        cdef cnp.npy_intp i
        cdef cnp.PyArray_Descr *descr = float_descr(setting(settings, "dtype"))
        if descr is NULL or PyList_GET_SIZE(arrays) != 2 + parameters:
            return None
        if not draw_of(arrays[:2], settings, &draw):
            return None
        room = <double *>PyMem_Malloc(6 * MOST_DRAWN * sizeof(double))
        if room is NULL:
            raise MemoryError
        try:
            for i in range(parameters):
                if not parameter_of(arrays[2 + i], &draw, room + i * MOST_DRAWN):
                    return None
            # The body draws a second number for each, which only rejection looks at.
            draw_doubles(draw.state, room + 2 * MOST_DRAWN, draw.count)
            if not self.invert(room, draw.count):
                return None
            values = as_draws(room + 2 * MOST_DRAWN, &draw, descr)
        finally:
            PyMem_Free(room)
        return values, state_behind(draw.state, 2 * draw.count)

    cdef bint invert(self, double *room, cnp.npy_intp n) noexcept:
        """Put counts in place of uniform numbers; False where some are drawn by rejection.

        Args:
            room: vectors of `MOST_DRAWN` numbers: two parameters, uniform ones, and three more.
            n: how many numbers of each count.
        """
        return False

    cdef void apply(self, Loops loops, double *x, double *y, cnp.npy_intp n) noexcept:
        cdef char *args[2]
        cdef cnp.npy_intp steps[2]
        if n == 0:
            return
        args[0], args[1] = <char *>x, <char *>y
        steps[0] = steps[1] = 0 if n == 1 else sizeof(double)
        loops.call(F64, args, n, steps, False)


cdef class DirectPoisson(CountedDraws):
    """Draws of the Poisson distribution, for means below 10."""

    def __init__(self, exp):
        self.exp = Loops(exp)

    cdef object run(self, list arrays, dict settings):
        return self.draw_counts(arrays, settings, 1)

    cdef bint invert(self, double *room, cnp.npy_intp n) noexcept:
        cdef double *mean = room
        cdef double *u = room + 2 * MOST_DRAWN
        cdef double *start = u + MOST_DRAWN
        cdef double term, total
        cdef cnp.npy_intp i
        cdef int k
        for i in range(n):
            # NaN and infinity, too, are left to NumPy.
            if not mean[i] < 10:
                return False
            start[i] = -mean[i] if mean[i] > 0 else 0.0
        self.apply(self.exp, start, start, n)
        for i in range(n):
            term = total = start[i]
            k = 0
            while k < MOST_TERMS - 1 and u[i] >= total:
                k += 1
                term = term * mean[i] / k
                total += term
            u[i] = k
        return True


cdef class DirectBinomial(CountedDraws):
    """Draws of the binomial distribution, for expected counts below 10."""

    cdef Loops log1p

    def __init__(self, exp, log1p):
        self.exp, self.log1p = Loops(exp), Loops(log1p)

    cdef object run(self, list arrays, dict settings):
        return self.draw_counts(arrays, settings, 2)

    cdef bint invert(self, double *room, cnp.npy_intp n) noexcept:
        cdef double *count = room
        cdef double *p = room + MOST_DRAWN
        cdef double *u = p + MOST_DRAWN
        cdef double *start = u + MOST_DRAWN
        cdef double *rare = start + MOST_DRAWN
        cdef double term, total, ratio
        cdef cnp.npy_intp i
        cdef int k
        for i in range(n):
            # NaN, and counts without an end, are left to NumPy.
            if not (0 <= p[i] <= 1 and 0 <= count[i] <= 1e300):
                return False
            rare[i] = 1 - p[i] if p[i] > 0.5 else p[i]
            if count[i] * rare[i] >= 10:
                return False
            start[i] = -rare[i]
        self.apply(self.log1p, start, start, n)
        for i in range(n):
            start[i] = count[i] * start[i]
        self.apply(self.exp, start, start, n)
        for i in range(n):
            term = total = start[i]
            ratio = rare[i] / (1 - rare[i])
            k = 0
            while k < MOST_TERMS - 1 and u[i] >= total:
                k += 1
                term = term * ratio * max(count[i] - k + 1, 0.0) / k
                total += term
            u[i] = fmin(k, count[i])
            if p[i] > 0.5:
                u[i] = count[i] - u[i]
        return True
