# The backward pass over a record, and the vjps of single operations.

cdef Loops ADD = Loops(np.add)


cdef class Step:
    """One kernel of a gradient rule.

    An operand is the number of a register (0 `g`, 1 `y`, 2 and 3 the inputs, then the results of
    steps), or -1 for what stands in `constants`.
    """

    cdef Loops loops
    cdef object kernel
    cdef dict settings
    cdef int count
    cdef int registers[2]
    cdef bint turned[2]
    cdef object constants
    cdef Py_ssize_t element_limit

    def __cinit__(self, kind, kernel, registers, constants, settings):
        self.count = len(registers)
        if not 1 <= self.count <= 2:
            raise ValueError("a step has one or two operands")
        for i in range(self.count):
            self.registers[i] = registers[i]
        self.kernel, self.settings = kernel, settings
        self.constants = tuple([np.asarray(x) if isinstance(x, np.generic) else x for x in constants])
        if kind == "ufunc":
            self.loops = Loops(kernel)
        elif kind == "product":
            self.element_limit = kernel
            self.turned[0], self.turned[1] = settings["turned"]

    cdef inline object operand(self, int i, object g, object y, object a, object b, list results):
        cdef int register = self.registers[i]
        if register < 0:
            return <object>PyTuple_GET_ITEM(self.constants, i)
        if register == 0:
            return g
        if register == 1:
            return y
        if register == 2:
            return a
        if register == 3:
            return b
        return results[register - 4]

    cdef object do(self, object g, object y, object a, object b, list results):
        """The result, or `None` where the step is not for this module."""
        p = self.operand(0, g, y, a, b, results)
        if self.count == 1:
            if self.loops is not None:
                return apply1(self.loops, p) if is_array(p) else None
            return plain(self.kernel(np, p, **self.settings) if self.settings else self.kernel(np, p))
        q = self.operand(1, g, y, a, b, results)
        if self.element_limit:
            return self.product(p, q)
        if self.loops is None:
            if self.settings:
                return plain(self.kernel(np, p, q, **self.settings))
            return plain(self.kernel(np, p, q))
        if not is_array(p):
            return apply2_number(self.loops, q, p, True) if is_array(q) and is_number(p) else None
        if not is_array(q):
            return apply2_number(self.loops, p, q, False) if is_number(q) else None
        return apply2(self.loops, p, q)

    cdef object product(self, object p, object q):
        if not is_array(p) or not is_array(q):
            return None
        if PyArray_NDIM(<PyArrayObject *>p) != 2 or PyArray_NDIM(<PyArrayObject *>q) != 2:
            return None
        if self.turned[0]:
            p = PyArray_Transpose(<PyArrayObject *>p, NULL)
        if self.turned[1]:
            q = PyArray_Transpose(<PyArrayObject *>q, NULL)
        return product(p, q, self.element_limit)


cdef class Rule:
    """The gradient by one input: what comes in as it is, or the result of the last step."""

    cdef tuple steps

    def __cinit__(self, steps):
        self.steps = tuple([Step(*step) for step in steps])

    cdef object gradient(self, object g, object y, object a, object b):
        cdef Py_ssize_t i, count = PyTuple_GET_SIZE(self.steps)
        cdef list results = None
        if count == 0:
            return g
        if count > 1:
            results = []
        for i in range(count):
            result = (<Step><object>PyTuple_GET_ITEM(self.steps, i)).do(g, y, a, b, results)
            if result is None:
                return None
            if results is not None:
                results.append(result)
        return plain(result)


cdef class CompiledVjp:
    """The vjp of an operation of one or two inputs for one dtype.

    Args:
        reference: the Python function that does the same.
        rules: for each input the steps of its rule, none to pass the gradient on, or `None` for
            no gradient. `None` for all where a rule is not made of steps.
        summed: the kernel that sums over axes along which an input was broadcast.
    """

    cdef readonly object reference
    cdef object summed
    cdef Rule first
    cdef Rule second
    cdef bint has_rules

    def __cinit__(self, reference, rules, summed):
        self.reference, self.summed = reference, summed
        if rules is not None:
            self.has_rules = True
            self.first = None if rules[0] is None else Rule(rules[0])
            if len(rules) == 2:
                self.second = None if rules[1] is None else Rule(rules[1])

    cdef bint one(self, object output, object g, object x, needed, dict grads) except -1:
        """Pass an entry of one input; False, and nothing is done, if that is not for this module."""
        if not self.has_rules or not PyArray_SIZE(<PyArrayObject *>g) <= DIRECT:
            return False
        if self.first is None or x not in needed:
            return True
        y, a = plain(array_of(output)), plain(array_of(x))
        if y is None or a is None:
            return False
        gx = self.first.gradient(g, y, a, None)
        if gx is None:
            return False
        accumulate(grads, x, gx)
        return True

    cdef object gradient(self, Rule rule, object g, object y, object a, object b, object like):
        """What a rule gives, summed over axes along which `like`, if any, was broadcast."""
        gx = rule.gradient(g, y, a, b)
        if gx is None or like is None or same_shape(<PyArrayObject *>gx, <PyArrayObject *>like):
            return gx
        return plain(self.summed(np, gx, like))

    cdef bint two(self, object output, object g, object x1, object x2, needed, dict grads) except -1:
        """The same for an entry of two inputs, one of which may be a number."""
        cdef bint number1 = Py_TYPE(x1) is not TENSOR, number2 = Py_TYPE(x2) is not TENSOR
        if not self.has_rules or not PyArray_SIZE(<PyArrayObject *>g) <= DIRECT:
            return False
        y = plain(array_of(output))
        a = x1 if number1 else plain(array_of(x1))
        b = x2 if number2 else plain(array_of(x2))
        if y is None or a is None or b is None:
            return False
        gx1 = gx2 = None
        if not number1 and self.first is not None and x1 in needed:
            gx1 = self.gradient(self.first, g, y, a, b, None if number2 else a)
            if gx1 is None:
                return False
        if not number2 and self.second is not None and x2 in needed:
            gx2 = self.gradient(self.second, g, y, a, b, None if number1 else b)
            if gx2 is None:
                return False
        if gx1 is not None:
            accumulate(grads, x1, gx1)
        if gx2 is not None:
            accumulate(grads, x2, gx2)
        return True


cdef int accumulate(dict grads, object x, object gx) except -1:
    """Add an array to the gradient by `x`, in the memory of the one before if that is nobody's."""
    cdef PyObject *pointer = PyDict_GetItemWithError(grads, x)
    cdef PyArrayObject *to
    if pointer is NULL:
        return PyDict_SetItem(grads, x, gx)
    before = <object>pointer
    if is_array(before) and is_array(gx):
        to = <PyArrayObject *>before
        if (
            is_sole(pointer, 2)  # in the dict, and here
            and PyArray_FLAGS(to) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA)
            == NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA
            and PyArray_DESCR(to) is PyArray_DESCR(<PyArrayObject *>gx)
            and not is_half(PyArray_DESCR(to))
            and same_shape(to, <PyArrayObject *>gx)
        ):
            add_to(before, gx)
            return 0
    one, two = plain(before), plain(gx)
    total = half_sum(before, gx) if one is None or two is None else apply2(ADD, one, two)
    if total is None:
        total = np.add(before, gx)
    return PyDict_SetItem(grads, x, total)


def half_sum(x, y):
    """The sum of two arrays of 16-bit floats, with NumPy's bits; `None` for others."""
    return half_apply2(ADD, x, y)


cdef int add_to(object total, object more) except -1:
    cdef PyArrayObject *a = <PyArrayObject *>total
    cdef PyArrayObject *b = <PyArrayObject *>more
    cdef cnp.npy_intp n = PyArray_SIZE(a)
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    cdef cnp.PyArray_Descr *descr = PyArray_DESCR(a)
    if n > DIRECT or not in_order(a) or not in_order(b) or not ADD.has(descr):
        np.add(total, more, total)
        return 0
    args[0] = args[2] = PyArray_BYTES(a)
    args[1] = PyArray_BYTES(b)
    steps[0] = steps[2] = step_of(a, n)
    steps[1] = step_of(b, n)
    ADD.call(descr, args, n, steps, False)
    return 0


def backward_pass(dict tracked, dict grads, needed, set lasting, vjps_of, of_many, other, on_tensors):
    """Do what `autodiff.backward._backward_pass_on_arrays` does.

    Args:
        tracked: the record of a tape, which is used up.
        grads: arrays by tensor.
        needed: holds the tensors whose gradient is of use.
        lasting: tensors whose gradient stays.
        vjps_of: gives the vjps of a primitive that has none yet.
        of_many: passes an entry that gave several results.
        other: passes any other entry.
        on_tensors: passes one by its rules on tensors.

    Returns:
        What a rule gave that are no plain tensors, else `None`.
    """
    cdef bint keeps = False, has_needed = needed is not tracked, stays
    cdef PyObject *pointer
    cdef set sums = set()
    for x in lasting:
        if tracked[x] is not None:  # a result, which is not only watched
            keeps = True
    while tracked:
        output, entry = tracked.popitem()
        if entry is None:
            continue
        pointer = PyDict_GetItemWithError(grads, output)
        stays = keeps and output in lasting
        if has_needed and not stays:
            needed.discard(output)
        if pointer is not NULL:
            g = <object>pointer
            if not stays:
                PyDict_DelItem(grads, output)
            if passed(entry, output, g, needed, grads, sums, vjps_of):
                continue
            rule = (<object>PyTuple_GET_ITEM(entry, 0)).given_joint
            if rule is None or plain(g) is None:
                unusual = other(entry, output, g, grads, needed, sums)
            elif jointly(rule, entry, output, g, needed, grads):
                continue
            else:
                unusual = on_tensors(entry, output, wrap(g), grads, needed, sums)
        elif type(output) is tuple:
            unusual = of_many(entry, output, grads, needed, lasting, sums)
        else:
            continue
        if unusual is not None:
            return unusual
    return None


cdef bint jointly(
    object rule, tuple entry, object output, object g, needed, dict grads
) except -1:
    """Pass an entry by its joint rule on arrays; False if that declines."""
    cdef Py_ssize_t i, count = PyTuple_GET_SIZE(entry)
    arrays, needs = [g, array_of(output)], []
    for i in range(2, count):
        x = <object>PyTuple_GET_ITEM(entry, i)
        arrays.append(array_of(x) if Py_TYPE(x) is TENSOR else x)
        needs.append(x in needed)
    settings = <object>PyTuple_GET_ITEM(entry, 1)
    gradients = rule(*arrays, needed=needs, **(settings or {}))
    if gradients is NotImplemented:
        return False
    i = 2
    for gx in gradients:
        if needs[i - 2] and gx is not None:
            accumulate(grads, <object>PyTuple_GET_ITEM(entry, i), gx)
        i += 1
    if i != count:
        name = (<object>PyTuple_GET_ITEM(entry, 0)).name
        raise ValueError(f"{name}: the joint rule gave {i - 2} gradients for {count - 2} inputs")
    return True


cdef bint passed(
    tuple entry, object output, object g, needed, dict grads, set sums, vjps_of
) except -1:
    """Pass an entry by its compiled vjp; False, and nothing is done, if it has none.

    What it holds is let go at its end, so that the pass frees results on its way.
    """
    cdef tuple vjps
    cdef CompiledVjp back
    cdef Py_ssize_t count = PyTuple_GET_SIZE(entry), dtype_index
    array = plain(g)
    if array is None or <object>PyTuple_GET_ITEM(entry, 1) is not None:
        return False
    primitive = <object>PyTuple_GET_ITEM(entry, 0)
    written = primitive.array_vjps
    vjps = None if written is None else written.compiled
    if vjps is None:
        vjps = vjps_of(primitive)
    dtype_index = 0 if PyArray_DESCR(<PyArrayObject *>array) is F32 else 1
    if count == 3:
        back = vjps[dtype_index]
        if back is None:
            return False
        x = <object>PyTuple_GET_ITEM(entry, 2)
        return back.one(output, array, x, needed, grads) or not back.reference(
            output, g, x, needed, grads, sums
        )
    if count != 4 or PyTuple_GET_SIZE(vjps) != 6:
        return False
    a, b = <object>PyTuple_GET_ITEM(entry, 2), <object>PyTuple_GET_ITEM(entry, 3)
    if Py_TYPE(b) is not TENSOR:
        back = vjps[3 * dtype_index + 1]
    elif Py_TYPE(a) is not TENSOR:
        back = vjps[3 * dtype_index + 2]
    else:
        back = vjps[3 * dtype_index]
    if back is None:
        return False
    return back.two(output, array, a, b, needed, grads) or not back.reference(
        output, g, a, b, needed, grads, sums
    )
