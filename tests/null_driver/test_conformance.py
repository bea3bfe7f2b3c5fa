"""CuPy takes every primitive's forward and backward pass in float32, float16 and bfloat16."""

import re

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor

CASES = {f"{i}-{case}": case for i, case in enumerate(all_cases())}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": bfloat16.dtype}
# What these say where a number that a kernel would have computed is 0.
SAID_OF_ZEROS = {
    "cholesky": "not positive definite",
    "ctc_loss": "target_length must lie",
    "lu_factor": "Singular matrix",
    "repeat": "could not be broadcast",
    "reshape_sized": "cannot reshape",
    "tile_sum_sized": "cannot reshape",
}
# Of what CuPy refuses still, by the dtype and the primitive; what it takes has to go from here.
REFUSED = {}


def rows():
    """A parameter for each case and dtype."""
    for name, case in CASES.items():
        for dtype in DTYPES:
            reason = REFUSED.get((dtype, case.name))
            marks = [pytest.mark.xfail(reason=reason)] if reason else []
            yield pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}")


def taped(case, dtype):
    """Run a case and send gradients back, with floats in `dtype`."""
    given = [
        convert_to_tensor(x.astype(dtype if x.dtype == np.float64 else x.dtype))
        if isinstance(x, np.ndarray)
        else x
        for x in case.inputs
    ]
    watched = [x for x in given if isinstance(x, Tensor) and x.dtype.is_differentiable]
    with GradientTape() as tape:
        tape.watch(watched)
        results = nest.flatten(case.op(*given, **case.settings))
        results = [y for y in results if y.dtype.is_differentiable]
    return tape.gradient(results, watched)


@pytest.mark.parametrize(("name", "dtype"), list(rows()))
def test_cupy_refuses_nothing(name, dtype):
    case, dtype = CASES[name], DTYPES[dtype]
    try:
        with tk.device("/cpu:0"):
            taped(case, dtype)
    except (TypeError, ValueError) as error:
        pytest.skip(f"not on the CPU either: {error}")
    try:
        taped(case, dtype)
    except InvalidArgumentError as error:
        if not re.search(SAID_OF_ZEROS.get(case.name, "(?!)"), str(error)):
            raise
