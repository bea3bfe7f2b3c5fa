# Lines of a journal for the steps that have nothing unusual: `StepReader.read`, `encode_step` and
# `sealed` of trainkit/journal in one, a fifth of their time.

from libc.math cimport isfinite
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strlen

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char code, int digits, int flags, int *kind) except NULL
    void PyMem_Free(void *memory)
    int PyDict_Next(object mapping, Py_ssize_t *at, PyObject **key, PyObject **value)

cdef enum:
    HASH = 32
    MOST_NUMBERS = 32
    LONGEST_NUMBER = 24
    LINE = 512

cdef bytes HEXADECIMAL = b"0123456789abcdef"


cdef inline int put_number(char *text, int at, double value, int digits) except -1:
    """Write a number as `%.{digits}g` does; gives where it ends."""
    cdef char *number = PyOS_double_to_string(value, c'g', digits, 0, NULL)
    cdef int length = <int>strlen(number)
    memcpy(text + at, number, length)
    PyMem_Free(number)
    return at + length


cdef inline bint read_scalar(PyObject *value, double *number):
    """Read a Python float, or a tensor of one float32 or float64 in NumPy's memory."""
    cdef PyObject *array
    cdef cnp.PyArray_Descr *descr
    if Py_TYPE(<object>value) is <PyTypeObject *>float:
        number[0] = <double><object>value
        return True
    if Py_TYPE(<object>value) is not TENSOR:
        return False
    array = (<PyObject **>((<char *>value) + ARRAY))[0]
    if array is NULL or not is_array(<object>array) or PyArray_NDIM(<PyArrayObject *>array):
        return False
    descr = PyArray_DESCR(<PyArrayObject *>array)
    if descr is F32:
        number[0] = (<float *>PyArray_BYTES(<PyArrayObject *>array))[0]
        return True
    if descr is F64:
        number[0] = (<double *>PyArray_BYTES(<PyArrayObject *>array))[0]
        return True
    return False


cdef inline int read_logs(dict logs, list names, double *loss, double *metrics) except -2:
    """Read the loss, and the metrics in the order of `names`; how many, or -1: not these."""
    cdef Py_ssize_t at = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef int count = 0
    cdef bint has_loss = False
    while PyDict_Next(logs, &at, &key, &value):
        if count < PyList_GET_SIZE(names) and <object>key == names[count]:
            if count == MOST_NUMBERS or not read_scalar(value, &metrics[count]):
                return -1
            if not isfinite(metrics[count]):
                return -1
            count += 1
        elif <object>key == "loss" and read_scalar(value, loss) and isfinite(loss[0]):
            has_loss = True
        else:
            return -1
    return count if has_loss and count == PyList_GET_SIZE(names) else -1


def usual_lines(
    list waiting, Py_ssize_t index, reader, list names, bytes head, list ready, sha256, int room
):
    """Make lines up to the first item that has something unusual.

    Args:
        waiting: facts of steps, times and other things.
        index: of the first item to look at.
        reader: the `StepReader`, which is moved on.
        names: of the metrics that lines have now.
        head: the hash of the line before.
        ready: where lines are appended.
        sha256: of hashlib.
        room: the length of a line is below it, up to its link.

    Returns:
        The index of the item that is to be read by Python, or the length of `waiting`; and the hash
        of the last line.
    """
    cdef double end = reader.end, waited = reader.waited, mean = reader.mean
    cdef double now, total, loss, before, seconds
    cdef double[MOST_NUMBERS] metrics
    cdef long long epoch = reader.epoch, rows = reader.rows, mean_rows = reader.mean_rows
    cdef long long step = reader.step, of_step, of_rows, rows_so_far, rows_before
    cdef bint averages = bool(reader.averages)
    cdef object rate = reader.rate, item, digest
    cdef char[LINE] text
    cdef int at, count, i
    cdef unsigned char byte
    cdef const char *hexadecimal = HEXADECIMAL
    if len(head) != HASH or room > LINE - HASH - LONGEST_NUMBER * 4:
        return index, head
    memcpy(text, <char *>head, HASH)
    try:
        while index < PyList_GET_SIZE(waiting):
            item = waiting[index]
            if type(item) is float:
                end = item
                index += 1
                continue
            if type(item) is not tuple or PyTuple_GET_SIZE(item) != 7 or (<tuple>item)[6] is not rate:
                break
            if type((<tuple>item)[0]) is not float or type((<tuple>item)[3]) is not float:
                break
            if type((<tuple>item)[1]) is not int or type((<tuple>item)[2]) is not int:
                break
            if type((<tuple>item)[4]) is not int or type((<tuple>item)[5]) is not dict:
                break
            if <long long>(<tuple>item)[2] != epoch:
                break
            now, of_step, total = (<tuple>item)[0], (<tuple>item)[1], (<tuple>item)[3]
            of_rows = (<tuple>item)[4]
            count = read_logs((<tuple>item)[5], names, &loss, metrics)
            seconds = now - end
            if count < 0 or not total - waited > 5e-8 or not isfinite(seconds):
                break
            rows_so_far = rows + of_rows
            before = loss
            if averages and of_rows:
                if rows_so_far > of_rows:
                    if rows_so_far == mean_rows:
                        break
                    loss = (loss * rows_so_far - mean * mean_rows) / (rows_so_far - mean_rows)
                else:
                    loss = loss * rows_so_far / rows_so_far
                if not isfinite(loss):
                    break
            at = HASH + snprintf(
                text + HASH, LINE - HASH, b'{"n":%lld,"e":%lld,"l":', of_step, epoch
            )
            at = put_number(text, at, loss, 9)
            memcpy(text + at, b',"t":', 5)
            at = put_number(text, at + 5, seconds * 1e3, 4)
            memcpy(text + at, b',"d":', 5)
            at = put_number(text, at + 5, (total - waited) * 1e3, 3)
            if count:
                memcpy(text + at, b',"m":', 5)
                at += 5
                for i in range(count):
                    text[at] = c',' if i else c'['
                    at = put_number(text, at + 1, metrics[i], 9)
                    if at - HASH >= room:
                        break
                text[at] = c']'
                at += 1
            if at - HASH >= room:
                break
            # from here on the item counts
            digest = sha256(text[:at]).digest()
            if averages and of_rows:
                mean, mean_rows = before, rows_so_far
            rows, waited, step, end = rows_so_far, total, of_step, now
            memcpy(text + at, b',"c":"', 6)
            for i in range(4):
                byte = (<bytes>digest)[i]
                text[at + 6 + 2 * i] = hexadecimal[byte >> 4]
                text[at + 7 + 2 * i] = hexadecimal[byte & 15]
            memcpy(text + at + 14, b'"}\n', 3)
            ready.append(text[HASH:at + 17])
            head = digest
            memcpy(text, <char *>head, HASH)
            index += 1
    finally:
        reader.end, reader.waited, reader.mean, reader.mean_rows = end, waited, mean, mean_rows
        reader.rows, reader.step = rows, step
    return index, head


def usual_facts(double now, steps, epoch, waited, list batches, logs, optimizer):
    """The `StepEvent` of one batch whose logs are plain tensors, or `None`: Python has to look.

    Args:
        now: the time.
        steps: the number of the step.
        epoch: its number.
        waited: seconds in the epoch up to there.
        batches: of the step.
        logs: of the step.
        optimizer: whose `_learning_rate`, if it is a variable, has the value `_value`.
    """
    cdef Py_ssize_t at = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef object first, array, rate
    if PyList_GET_SIZE(batches) != 1 or type(logs) is not dict:
        return None
    while PyDict_Next(logs, &at, &key, &value):
        if Py_TYPE(<object>value) is not TENSOR:
            return None
    first = batches[0]
    while type(first) is tuple and PyTuple_GET_SIZE(first):
        first = (<tuple>first)[0]
    if Py_TYPE(first) is not TENSOR:
        return None
    array = array_of(first)
    if not is_array(array) or not PyArray_NDIM(<PyArrayObject *><PyObject *>array):
        return None
    rate = getattr(optimizer, "_learning_rate", None)
    rate = getattr(rate, "_value", None)
    return now, steps, epoch, waited, PyArray_DIM(<PyArrayObject *><PyObject *>array, 0), logs, rate
