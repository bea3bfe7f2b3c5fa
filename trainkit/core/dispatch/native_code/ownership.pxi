# Whether nobody else holds an array: `trainkit.core.dispatch.ownership` says what for.


# Set by `trust_counts`; where threads count on their own nothing is ever written in place.
cdef bint counts_are_trusted = False


def trust_counts(bint trusted):
    """Ask counts of references from now on, or take every array for held by others."""
    global counts_are_trusted
    counts_are_trusted = trusted


cdef inline bint is_sole(PyObject *x, Py_ssize_t references) noexcept:
    """Whether there are no more references to `x` than these; a bare pointer is none."""
    return counts_are_trusted and count_of(x) == references


def sole_array(variable):
    """What `trainkit.core.dispatch.ownership.sole_array` gives."""
    value = variable._value
    if not is_sole(<PyObject *>value, 2):  # in the variable, and here
        return None
    array = value._array
    if not is_sole(<PyObject *>array, 2):  # in the value, and here
        return None
    return array if array.base is None else None
