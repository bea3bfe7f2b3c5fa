# Calls of kernels by plans: `trainkit.kernels.repeated.planned_call` says what these are.

cdef enum:
    MOST_AXES = 8

cdef extern from "Python.h":
    object PyObject_Vectorcall(
        object callable, PyObject **arguments, size_t count, PyObject *names)
    PyObject **PySequence_Fast_ITEMS(PyObject *sequence)

cdef extern from *:
    """
    #define TRAINKIT_READABLE \
        (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE)
    """
    int TRAINKIT_READABLE


cdef struct Shape:
    int nd
    cnp.npy_intp dims[MOST_AXES]


cdef int read_shape(Shape *shape, tuple sizes) except -1:
    cdef Py_ssize_t i, nd = PyTuple_GET_SIZE(sizes)
    if nd > MOST_AXES:
        raise ValueError(f"plans have up to {MOST_AXES} axes, not {nd}")
    shape.nd = <int>nd
    for i in range(nd):
        shape.dims[i] = sizes[i]
    return 0


cdef inline bint has_shape(PyArrayObject *a, Shape *shape) noexcept:
    cdef int i
    if PyArray_NDIM(a) != shape.nd:
        return False
    for i in range(shape.nd):
        if PyArray_DIMS(a)[i] != shape.dims[i]:
            return False
    return True


cdef inline object viewed(PyArrayObject *a, Shape *shape):
    """The numbers of an array that lie in order, in another shape; `a` has to outlive it."""
    if has_shape(a, shape):
        return <object>a
    Py_INCREF(DTYPE_F32)
    return PyArray_NewFromDescr(
        &PyArray_Type, F32, shape.nd, shape.dims, NULL, PyArray_BYTES(a), TRAINKIT_READABLE, NULL
    )


@cython.final
cdef class PlannedOperand:
    # What one operand has to be, and where it goes.
    cdef object strips
    cdef tuple positions
    cdef bint is_copied, has_any_shape
    cdef Shape shape, view
    cdef cnp.npy_intp size

    def __init__(self, operand):
        cdef cnp.npy_intp size = 1
        self.positions = operand.positions
        read_shape(&self.view, operand.view)
        self.strips = getattr(operand, "strips", None)
        if self.strips is None:
            self.is_copied, self.has_any_shape = operand.is_copied, operand.shape is None
            if not self.has_any_shape:
                read_shape(&self.shape, operand.shape)
            for n in operand.view:
                size *= n
            self.size = size


@cython.final
cdef class PlannedCall:
    cdef object key, find, tell, owned
    cdef dict ready
    cdef list arguments
    cdef tuple operands, fresh_positions, scratch
    cdef Shape result, result_view
    cdef Py_ssize_t result_position
    cdef readonly object strips

    def __init__(self, plan, owned):
        self.key, self.find, self.owned = plan.key, plan.family.find, owned
        self.ready = plan.family._ready
        self.arguments = list(plan.arguments)
        self.operands = tuple([None if x is None else PlannedOperand(x) for x in plan.operands])
        self.strips = None
        for operand in self.operands:
            if operand is not None and (<PlannedOperand>operand).strips is not None:
                self.strips = (<PlannedOperand>operand).strips
        self.fresh_positions, self.tell = plan.fresh or ((), None)
        read_shape(&self.result, plan.result.shape)
        read_shape(&self.result_view, plan.result.view)
        self.result_position = plan.result.position
        self.scratch = tuple([PlannedResult(new) for new in plan.scratch])

    def __call__(self, *operands):
        return self.run(operands)

    cdef object run(self, tuple operands):
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(operands)
        cdef PlannedResult new
        if count != PyTuple_GET_SIZE(self.operands):
            return None
        # the list refers to what the kernel is given until it ends
        cdef list arguments = self.arguments[:]
        references = []
        for i in range(count):
            if not self.put(arguments, operands[i], self.operands[i], references):
                return None
        kernel = self.ready.get(self.key)
        if not kernel:  # False where it could not be compiled
            kernel = self.find(self.key, 0.0)
            if kernel is None:
                return None
        if self.tell is not None:
            values = self.tell()
            if values is None:
                return None
            for i, value in zip(self.fresh_positions, values):
                arguments[i] = value
        y = empty(self.result.nd, self.result.dims, F32)
        arguments[self.result_position] = viewed(<PyArrayObject *>y, &self.result_view)
        for new in self.scratch:
            scratch = empty(new.shape.nd, new.shape.dims, F32)
            references.append(scratch)
            arguments[new.position] = viewed(<PyArrayObject *>scratch, &new.view)
        PyObject_Vectorcall(
            kernel, PySequence_Fast_ITEMS(<PyObject *>arguments), len(arguments), NULL
        )
        return y

    cdef bint put(self, list arguments, object value, object slot, list references) except -1:
        """Put an operand among the arguments; False where the plan does not have it."""
        cdef PlannedOperand operand
        cdef PyArrayObject *array
        if value is None or slot is None:
            return value is slot
        operand = slot
        if operand.strips is not None:
            # read first: what is let go in between is of this array still
            strips = operand.strips.array
            if strips is None or not is_array(strips):
                return False
            if operand.strips.owner is not value and not operand.strips.are_of(value):
                return False
            value = strips
            references.append(value)
        else:
            if not is_array(value) or PyArray_DESCR(<PyArrayObject *>value) is not F32:
                return False
            array = <PyArrayObject *>value
            if operand.has_any_shape:
                if PyArray_SIZE(array) != operand.size:
                    return False
            elif not has_shape(array, &operand.shape):
                return False
            if PyArray_FLAGS(array) & TRAINKIT_READABLE != TRAINKIT_READABLE:
                if not operand.is_copied:
                    return False
                value = self.owned(value)
                references.append(value)
        view = viewed(<PyArrayObject *>value, &operand.view)
        for position in operand.positions:
            arguments[position] = view
        return True


@cython.final
cdef class PlannedResult:
    # A new array among the arguments.
    cdef Py_ssize_t position
    cdef Shape shape, view

    def __init__(self, new):
        self.position = new.position
        read_shape(&self.shape, new.shape)
        read_shape(&self.view, new.view)


cdef enum:
    # Calls that are remembered: sizes of batches that take turns, and their ranges.
    MOST_CALLS = 8


@cython.final
cdef class Repeating:
    cdef tuple calls
    cdef object otherwise

    def __init__(self, otherwise):
        self.calls, self.otherwise = (), otherwise

    def remember(self, call):
        strips = getattr(call, "strips", None)
        others = self.calls
        if strips is not None:
            others = tuple([x for x in others if getattr(x, "strips", None) in (None, strips)])
        self.calls = (call, *others[:MOST_CALLS - 1])

    def __call__(self, *operands):
        cdef Py_ssize_t i
        cdef tuple calls = self.calls
        for i in range(PyTuple_GET_SIZE(calls)):
            call = <object>PyTuple_GET_ITEM(calls, i)
            if type(call) is PlannedCall:
                result = (<PlannedCall>call).run(operands)
            else:
                result = call(*operands)
            if result is not None:
                return result
        return self.otherwise(*operands)
