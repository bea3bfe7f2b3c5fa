"""What CuPy 14 does not do, or only with a copy or a wait, beside what the signatures say.

Read off CuPy's source, and compared with real CuPy over the driver that does nothing: the tables
in tests/stand_in/refusals.py are run by both.
"""

import ml_dtypes
import numpy as np

from tests.stand_in import streams, transfers

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# These sort by Thrust, which knows no bfloat16 and waits for the device at its end.
SORTING = {"sort", "argsort", "lexsort", "partition", "argpartition", "msort", "isin"}
SORTING |= {"median", "nanmedian", "percentile", "quantile", "unique"}
JOINING = {"concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"}
SCANS = {"cumsum", "cumprod", "nancumsum", "nancumprod"}
CHECKED = SORTING | JOINING | SCANS | {"einsum"}
_MANY = 8  # as many arrays are copied one by one
_LARGE = 2 << 20  # and so are arrays that have so many bytes on average


def check(short, args, kwargs):
    """Refuse the call of `cupy.<short>`, one of `CHECKED`, or note the copies and waits in it."""
    arrays = list(streams.arrays_in((args, kwargs)))
    if short in SORTING:
        note_sort(short, arrays)
    if short in JOINING:
        note_join(arrays)
    if short == "einsum" and sum(a.dtype == BFLOAT16 for a in arrays) > 1:
        refuse_product()
    if short in SCANS and np.dtype(kwargs.get("dtype") or args[0].dtype) == BFLOAT16:
        raise RuntimeError('CompileException: no operator "+=" or "*=" matches these operands')


def note_sort(why, arrays):
    """A sort by Thrust."""
    if any(a.dtype == BFLOAT16 and a.size > 1 for a in arrays):
        raise NotImplementedError("Sorting arrays with dtype 'bfloat16' is not supported")
    transfers.note_wait(why)
    streams.refuse_wait(why)


def note_join(arrays):
    """A join: of many small arrays the addresses go to the device as an array of their own.

    Where they are not alike, the steps and the places in the result go along.
    """
    first = arrays[0]
    total = sum(a.nbytes for a in arrays)
    if len(arrays) <= _MANY or any(a.dtype != first.dtype for a in arrays):
        return
    if total >= _LARGE * len(arrays):
        return
    alike = all(a.flags.c_contiguous and a.shape == first.shape for a in arrays)
    for _ in range(1 if alike else 3):
        transfers.note_sent(np.empty(len(arrays), np.int64))


def refuse_product():
    """What cuBLAS's batched call does not know goes to a kernel for integers."""
    raise TypeError("data type 'E' not understood")
