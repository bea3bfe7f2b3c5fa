# Calls of operations, what tapes hear of them, and reads of variables.


cdef object NOTHING = object()  # an argument that was not given


cdef object read(object variable):
    """The value of a variable, which tapes hear of, as `Variable._read` gives it."""
    if THREAD.traces:
        return variable._read()
    value = variable._value
    if PyList_GET_SIZE(TAPES):
        for tape in TAPES:
            if is_mine(tape):
                note(tape, variable, value)
    return value


cdef int note(object tape, object variable, object value) except -1:
    """Tell a tape of a read; a first read of the usual kind is noted here."""
    cdef dict reads, tracked
    cdef list values
    cdef cnp.PyArray_Descr *descr
    if Py_TYPE(tape) is TAPE:
        reads = tape._reads
        key = PyLong_FromVoidPtr(<PyObject *>variable)
        read = reads.get(key)
        if read is None:
            if not tape._watches_variables or not variable.trainable:
                return 0
            array = array_of(value) if Py_TYPE(value) is TENSOR else None
            if is_array(array):
                descr = PyArray_DESCR(<PyArrayObject *>array)
                if descr is F32 or descr is F64:
                    reads[key] = (variable, [value])
                    (<list>tape._variables).append(variable)
                    tracked = tape.tracked
                    tracked.setdefault(value)
                    (<set>tape._leaves).add(value)
                    return 0
        else:
            values = <list>(<tuple>read)[1]
            if values[PyList_GET_SIZE(values) - 1] is value:
                return 0
    tape.note_variable(variable, value)
    return 0


cdef inline bint is_mine(object tape) except -1:
    """Whether a tape belongs to this thread."""
    return PyLong_AsUnsignedLong(tape.thread) == PyThread_get_thread_ident()


cdef class Op:
    """What an operation's short way needs to know."""

    cdef object primitive
    cdef object reference
    cdef Loops loops
    cdef bint has_rules

    def __cinit__(self, primitive, reference, *facts):
        self.primitive, self.reference = primitive, reference

    cdef object by_reference(self, object x1, object x2, tuple extra, dict settings):
        """What the Python function gives; it has the words where arguments are missing or too many.

        `NOTHING` stands for what was not given.
        """
        if x2 is NOTHING:
            arguments = extra if x1 is NOTHING else (x1,) + extra
        elif x1 is NOTHING:
            return self.reference(x2=x2)
        else:
            arguments = (x1, x2) + extra
        return self.reference(*arguments, **settings)

    cdef object by_names(self, object x1, object x2, tuple extra, object x, object y):
        """The same for inputs that may have TensorFlow's names, `x` and `y`, in place of numbers."""
        if x is not NOTHING and x1 is NOTHING:
            x1, x = x, NOTHING
        if y is not NOTHING and x2 is NOTHING:
            x2, y = y, NOTHING
        twice = {k: v for k, v in (("x", x), ("y", y)) if v is not NOTHING}
        return self.by_reference(x1, x2, extra, twice)

    cdef bint differentiable(self) except -1:
        """Whether there are gradient rules; once there, they stay."""
        if not self.has_rules:
            self.has_rules = self.primitive.recorded
        return self.has_rules

    cdef int record1(self, object x, object y) except -1:
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            if PyDict_Contains(tracked, x) and is_mine(tape):
                if self.differentiable():
                    PyDict_SetItem(tracked, y, (self.primitive, None, x))
                else:
                    tape.note_exit(self.primitive.name, (x,))
        return 0

    cdef int record2(self, object x1, object x2, object y, bint crossed) except -1:
        """Enter a call of two inputs; `crossed` says that they are as `are_crossed` tells."""
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            if (
                PyDict_Contains(tracked, x1) or PyDict_Contains(tracked, x2)
            ) and is_mine(tape):
                if self.differentiable():
                    PyDict_SetItem(tracked, y, (self.primitive, None, x1, x2))
                    if crossed:
                        HEAR_CROSSED(self.primitive, x1, x2, tracked, y)
                else:
                    tape.note_exit(self.primitive.name, (x1, x2))
        return 0

    cdef object unary(self, object x):
        """The result, or `None` if the call is not usual."""
        if Py_TYPE(x) is VARIABLE:
            x = read(x)
        if Py_TYPE(x) is not TENSOR:
            return None
        array = plain(array_of(x))
        if array is None:
            result = half_apply1(self.loops, array_of(x))
        else:
            result = apply1(self.loops, array)
        if result is None:
            return None
        y = wrap(result)
        if PyList_GET_SIZE(TAPES):
            self.record1(x, y)
        return y

    cdef object binary(self, object x1, object x2):
        """The result, or `None` if the call is not usual."""
        cdef bint crossed = False
        if Py_TYPE(x1) is VARIABLE:
            x1 = read(x1)
        if Py_TYPE(x2) is VARIABLE:
            x2 = read(x2)
        if Py_TYPE(x1) is TENSOR:
            one = plain(array_of(x1))
            if one is None:
                result = self.of_halves(x1, x2)
            elif Py_TYPE(x2) is TENSOR:
                two = plain(array_of(x2))
                if two is None:
                    return None
                result = apply2(self.loops, one, two)
                crossed = are_crossed(<PyArrayObject *>one, <PyArrayObject *>two)
            elif is_number(x2):
                result = apply2_number(self.loops, one, x2, False)
            else:
                return None
        elif Py_TYPE(x2) is TENSOR and is_number(x1):
            two = plain(array_of(x2))
            if two is None:
                result = half_apply2_number(self.loops, array_of(x2), x1, True)
            else:
                result = apply2_number(self.loops, two, x1, True)
        else:
            return None
        if result is None:
            return None
        y = wrap(result)
        if PyList_GET_SIZE(TAPES):
            self.record2(x1, x2, y, crossed)
        return y

    cdef object of_halves(self, object x1, object x2):
        """The result of a tensor that may be of 16-bit floats and another, or a Python number."""
        if Py_TYPE(x2) is TENSOR:
            return half_apply2(self.loops, array_of(x1), array_of(x2))
        if is_number(x2):
            return half_apply2_number(self.loops, array_of(x1), x2, False)
        return None


def unary_ufunc(primitive, reference):
    """The function of a ufunc of one input; what is not usual goes to `reference`."""
    cdef Op self = Op(primitive, reference)
    self.loops = Loops(primitive.kernel)

    def op(x=NOTHING, *extra, name=None):
        if enabled and x is not NOTHING and not extra:
            y = self.unary(x)
            if y is not None:
                return y
        return self.by_reference(x, NOTHING, extra, {})

    return op


def binary_ufunc(primitive, reference):
    """The function of a ufunc of two inputs; what is not usual goes to `reference`."""
    cdef Op self = Op(primitive, reference)
    self.loops = Loops(primitive.kernel)

    def op(x1=NOTHING, x2=NOTHING, *extra, x=NOTHING, y=NOTHING, name=None):
        usual = x1 is not NOTHING and x2 is not NOTHING and x is NOTHING and y is NOTHING
        if enabled and usual and not extra:
            result = self.binary(x1, x2)
            if result is not None:
                return result
        return self.by_names(x1, x2, extra, x, y)

    return op


# ---------------------------------------------------------------------- other kernels


cdef class TunedKernel:
    """What runs `(xp, *arrays, **settings)`: a body, or for large NumPy arrays a tuned kernel.

    Args:
        body: serves all arrays.
        run: takes the same but `xp`; gives `None` where the body is to do it.
        min_size: how many elements an input has to have for `run` to be asked.
        position: which input that is.
        min_size_beside: how many the one behind it has to have instead.
    """

    cdef object body
    cdef object run
    cdef Py_ssize_t min_size
    cdef Py_ssize_t position
    cdef Py_ssize_t min_size_beside

    def __init__(
        self, body, run, Py_ssize_t min_size, Py_ssize_t position, Py_ssize_t min_size_beside
    ):
        self.body, self.run = body, run
        self.min_size, self.position, self.min_size_beside = min_size, position, min_size_beside

    cdef inline bint is_for(self, object x, object beside) noexcept:
        if not is_array(x):
            return False
        if PyArray_SIZE(<PyArrayObject *>x) >= self.min_size:
            return True
        return is_array(beside) and PyArray_SIZE(<PyArrayObject *>beside) >= self.min_size_beside

    def __call__(self, *arguments, **settings):
        cdef Py_ssize_t position = self.position + 1, count = PyTuple_GET_SIZE(arguments)
        beside = arguments[position + 1] if position + 1 < count else None
        if position < count and self.is_for(arguments[position], beside):
            result = self.run(*arguments[1:], **settings)
            if result is not None:
                return result
        return self.body(*arguments, **settings)


cdef object tensor_of_number(object x, cnp.PyArray_Descr *descr):
    """A Python number behind a tensor of float32, or an int behind one of int32, as such a tensor.

    `None` for other dtypes, and for a number that this one does not hold.
    """
    cdef double number
    if not is_number(x) or not number_of(x, &number):
        return None
    if descr is F32 and not (number - number == 0 and fabs(number) > 1e38):
        y = empty(0, NULL, F32)
        (<float *>bytes_of(y))[0] = <float>number
    elif descr is I32 and type(x) is int and fabs(number) < 2147483648.0:
        y = empty(0, NULL, I32)
        (<cnp.npy_int32 *>bytes_of(y))[0] = <cnp.npy_int32>number
    else:
        return None
    return wrap(y)


cdef Py_ssize_t most_elements(Direct direct, tuned) except -1:
    """Of how many elements it may be, by the facets, that a call goes neither to kernel nor body.

    Those tuned for large arrays are faster, or have other bits.
    """
    if tuned is not None and tuned.run is not None:
        limit = DIRECT if direct is None else direct.size_limit
        return DIRECT if tuned.exact else min(limit, tuned.fewest - 1)
    return PY_SSIZE_T_MAX if direct is None or direct.any_size else DIRECT


cdef class Kernel(Op):
    """A kernel `(np, *arrays, **settings)` of NumPy arrays, called on tensors.

    Args:
        primitive, reference: as for `Op`.
        one_dtype: inputs of several dtypes are not for this module.
        floats_only: nor are inputs of other dtypes than floats; those of 16 bits become float32.
    """

    cdef object kernel
    cdef TunedKernel tuned
    cdef dict halves  # what is tuned for types of 16-bit floats, `None` without any
    cdef bint one_dtype
    cdef bint floats_only
    cdef Py_ssize_t min_inputs
    cdef Direct direct
    cdef Formula formula
    cdef bint asks_for_steps
    cdef bint keeps_input
    cdef Py_ssize_t element_limit  # of inputs that one of the two serves

    def __init__(self, primitive, reference, one_dtype, floats_only):
        facets = primitive.facets
        form = facets.direct
        if form:
            self.direct = FORMS[form.name](*form.facts)
        self.asks_for_steps = not form and facets.fusible
        if form or self.asks_for_steps:
            self.element_limit = most_elements(self.direct, facets.tuned)
        self.keeps_input = bool(facets.logits_of)
        self.kernel = primitive.body
        self.min_inputs = primitive.fewest_inputs
        self.tuned = primitive.kernel if isinstance(primitive.kernel, TunedKernel) else None
        if self.tuned is not None:
            self.halves = facets.tuned.halves or None
        self.one_dtype, self.floats_only = one_dtype, floats_only

    cdef object run(self, tuple inputs, dict settings):
        """The result, or `None` if the call is not usual."""
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(inputs)
        cdef cnp.PyArray_Descr *descr
        cdef cnp.PyArray_Descr *first = NULL
        cdef cnp.PyArray_Descr *half = NULL  # the type of 16-bit floats of all inputs
        cdef list ready = [np]
        cdef bint has_variable = False
        cdef object before = None
        for i in range(count):
            if Py_TYPE(<object>PyTuple_GET_ITEM(inputs, i)) is VARIABLE:
                has_variable = True
        if has_variable:
            inputs = tuple([read(x) if Py_TYPE(x) is VARIABLE else x for x in inputs])
        for i in range(count):
            x = <object>PyTuple_GET_ITEM(inputs, i)
            if x is None:
                ready.append(None)
                continue
            if Py_TYPE(x) is not TENSOR:
                x = tensor_of_number(x, first) if self.one_dtype else None
                if x is None:
                    return None
                inputs = inputs[:i] + (x,) + inputs[i + 1 :]
            array = array_of(x)
            if not is_array(array):
                return None
            descr = PyArray_DESCR(<PyArrayObject *>array)
            if self.floats_only and not is_float(descr):
                if not is_half(descr) or not in_order(<PyArrayObject *>array):
                    return None
                half, array = descr, widened(<PyArrayObject *>array)
            if first is NULL:
                first = descr
            elif self.one_dtype and descr is not first:
                return None
            ready.append(array)
        try:
            result = self.directly(ready, settings)
            if result is None and PyList_GET_SIZE(ready) > 1 and is_large(ready[1]):
                before = begin_lines()
            if result is None and self.tuned is not None:
                result = self.by_tuned(ready, settings)
            if result is not None:
                pass
            elif PyDict_Size(settings):
                result = self.kernel(*ready, **settings)
            else:
                result = self.kernel(*ready)
            if half is not NULL:
                result = narrowed(result, half)
        except KERNEL_ERRORS as error:
            result = self.primitive.again(error, inputs, settings)
        finally:
            end_lines(before)
        y = wrap_all(<tuple>result) if type(result) is tuple else wrap(result)
        if self.keeps_input:
            keep_input(y, inputs[0], self.primitive, settings)
        if PyList_GET_SIZE(TAPES):
            self.record(inputs, y, settings)
        return y

    cdef inline bint may_copy(self, PyArrayObject *a) noexcept:
        """Whether it is a small vector with gaps, which NumPy reads in the same order."""
        if self.direct is None or self.direct.any_size or PyArray_NDIM(a) != 1:
            return False
        return PyArray_SIZE(a) <= DIRECT and is_number_dtype(PyArray_DESCR(a))

    cdef inline bint serves_all(self, PyArrayObject *a):
        """Whether any number of elements is for `directly`: NumPy's loops of 16-bit floats are slow."""
        if self.direct is None:
            return PyArray_DESCR(a) is F16
        if not self.direct.chooses or not is_half(PyArray_DESCR(a)):
            return False
        return self.halves is None or <object>PyArray_DESCR(a) not in self.halves

    cdef object of_columns(self, list ready, dict settings):
        """What `directly` gives for arrays whose transposes are in order; their axes, turned, are."""
        cdef list arrays = [np]
        cdef Py_ssize_t i
        if self.direct is not None and not self.direct.reduces:
            return None
        for i in range(1, PyList_GET_SIZE(ready)):
            if not is_array(<object>PyList_GET_ITEM(ready, i)):
                return None
            arrays.append(turned(<object>PyList_GET_ITEM(ready, i)))
            if arrays[i] is None:
                return None
        if self.direct is not None:
            settings = turned_axes(settings)
        return None if settings is None else turned_back(self.directly(arrays, settings))

    cdef object directly(self, list ready, dict settings):
        """What NumPy's loops give where the kernel's bits can be had by them alone, or `None`."""
        cdef PyArrayObject *a
        cdef PyArrayObject *b
        cdef Py_ssize_t i, count = PyList_GET_SIZE(ready)
        if self.element_limit == 0 or count < 2 or not is_array(<object>PyList_GET_ITEM(ready, 1)):
            return None
        a = <PyArrayObject *>PyList_GET_ITEM(ready, 1)
        if not in_order(a):
            if is_half(PyArray_DESCR(a)):
                return self.of_columns(ready, settings)
            if self.may_copy(a):
                ready = ready[:]
                ready[1] = PyArray_NewCopy(a, cnp.NPY_CORDER)
                a = <PyArrayObject *>PyList_GET_ITEM(ready, 1)
        if not in_order(a) or PyArray_SIZE(a) > self.element_limit and not self.serves_all(a):
            return None
        if self.direct is not None:
            if (self.direct.widens or self.direct.chooses) and is_half(PyArray_DESCR(a)):
                result = self.direct.run([np, widened(a)], settings)
                if result is None or self.direct.chooses and not are_distinct(result):
                    return None
                return narrowed(result, PyArray_DESCR(a))
            return self.direct.run(ready, settings)
        # NumPy computes with numbers in other ways than with arrays.
        if PyArray_NDIM(a) == 0 or count - 1 > MOST_INPUTS:
            return None
        if not is_float(PyArray_DESCR(a)) and PyArray_DESCR(a) is not F16:
            return None
        for i in range(2, count):
            if not is_array(<object>PyList_GET_ITEM(ready, i)):
                return None
            b = <PyArrayObject *>PyList_GET_ITEM(ready, i)
            if PyArray_DESCR(b) is not PyArray_DESCR(a) or not same_shape(a, b) or not in_order(b):
                return None
        if self.asks_for_steps:
            # Once, and not when it is declared: a body may need what is declared below it.
            self.asks_for_steps = False
            steps = self.primitive.steps()
            if steps is None:
                self.element_limit = 0
            else:
                self.formula = Formula(len(self.primitive.input_names), steps)
        if self.formula is None or self.formula.inputs != count - 1:
            return None
        if PyArray_DESCR(a) is F16:
            return self.formula.run_halves(ready, settings)
        return self.formula.run(ready, settings)

    cdef object by_tuned(self, list ready, dict settings):
        """What the tuned kernel gives; `None` where the body is to do it."""
        cdef Py_ssize_t position = self.tuned.position + 1, count = PyList_GET_SIZE(ready)
        if position >= count:
            return None
        if self.halves is not None:
            x = ready[position]
            if is_array(x) and PyArray_ITEMSIZE(<PyArrayObject *>x) == 2:
                run = self.halves.get(<object>PyArray_DESCR(<PyArrayObject *>x))
                if run is not None:
                    return run(*ready[1:], **settings)
        beside = ready[position + 1] if position + 1 < count else None
        if not self.tuned.is_for(ready[position], beside):
            return None
        return self.tuned.run(*ready[1:], **settings)

    cdef int record(self, tuple inputs, object y, dict settings) except -1:
        cdef dict tracked
        for tape in TAPES:
            tracked = tape.tracked
            for x in inputs:
                if PyDict_Contains(tracked, x):
                    break
            else:
                continue
            if not is_mine(tape):
                continue
            if not self.differentiable():
                tape.note_exit(self.primitive.name, inputs)
                continue
            any_settings = settings if PyDict_Size(settings) else None
            PyDict_SetItem(tracked, y, (self.primitive, any_settings) + inputs)
            if type(y) is tuple:
                for part in y:
                    PyDict_SetItem(tracked, part, None)
        return 0


def unary(primitive, reference, bint floats_only):
    """The function of a kernel of one input with settings."""
    cdef Kernel self = Kernel(primitive, reference, False, floats_only)

    def op(x=NOTHING, *extra, name=None, **settings):
        if enabled and x is not NOTHING and not extra:
            y = self.run((x,), settings)
            if y is not None:
                return y
        return self.by_reference(x, NOTHING, extra, settings)

    return op


def binary(primitive, reference, bint one_dtype):
    """The function of a kernel of two inputs without settings."""
    cdef Kernel self = Kernel(primitive, reference, one_dtype, False)

    def op(x1=NOTHING, x2=NOTHING, *extra, x=NOTHING, y=NOTHING, name=None):
        usual = x1 is not None and x2 is not None and x is NOTHING and y is NOTHING
        if enabled and usual and not extra:
            result = self.run((x1, x2), {})  # which does not take NOTHING
            if result is not None:
                return result
        return self.by_names(x1, x2, extra, x, y)

    return op


def general(primitive, reference, bint one_dtype, bint floats_only):
    """The function of any other kernel; inputs may be `None`."""
    cdef Kernel self = Kernel(primitive, reference, one_dtype, floats_only)

    def op(*inputs, name=None, **settings):
        if enabled and PyTuple_GET_SIZE(inputs) >= self.min_inputs:  # others come by their names
            y = self.run(inputs, settings)
            if y is not None:
                return y
        return self.reference(*inputs, **settings)

    return op
