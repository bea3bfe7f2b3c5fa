"""Kernels that are declared by a line: what they are shared out by, and that it changes no bit."""

import numpy as np
import pytest

from trainkit.core.cpu.cost_model import BYTE_NANOSECONDS
from trainkit.kernels.elementwise import bias_activation_tuned, elementwise_tuned
from trainkit.kernels.jit import array_kernel
from trainkit.kernels.normalization import norm_tuned
from trainkit.kernels.pooling import pool_tuned
from trainkit.kernels.softmax import softmax_tuned

WIDTH = 37
FILES = bias_activation_tuned, elementwise_tuned, norm_tuned, pool_tuned, softmax_tuned
KERNELS = {
    x.name: x for file in FILES for x in vars(file).values() if type(x) is array_kernel.ArrayKernel
}


@pytest.fixture
def parts(monkeypatch):
    """`parts(kernel, n)` has its calls do the work in `n` parts, whatever it is worth."""

    def set_parts(kernel, count):
        monkeypatch.setattr(array_kernel, "shared", lambda nanoseconds: (0, count))
        monkeypatch.setattr(kernel, "_call", kernel._first_call)
        monkeypatch.setitem(kernel._facts, "fewest", 1)

    return set_parts


def arguments(kernel, rng, rows):
    layouts = kernel._layouts[0].split()
    full = rng.normal(size=(rows, WIDTH)).astype("float32")
    each = rows if kernel._layouts[0].startswith("each") else WIDTH
    values = {
        "flat": full,
        "rows": full,
        "mask": full > 0.3,
        "each": full.reshape(-1)[:each].copy(),
        "ones": None,
        "zeros": None,
        "ids": np.arange(rows) % WIDTH,
        "number": np.float32(0.3),
        "width": WIDTH,
    }
    return [values[layout] for layout in layouts]


@pytest.mark.parametrize("name", KERNELS)
def test_the_number_of_parts_changes_no_bit(name, rng, parts, eager):
    kernel, results = KERNELS[name], []
    operands = arguments(kernel, rng, 1900)
    for count in (1, 2, 3, 7, 16):
        parts(kernel, count)
        result = kernel(*operands)
        arrays = result if isinstance(result, tuple) else (result,)
        results.append([x.tobytes() for x in arrays])
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    ("name", "nbytes"), [("relu", 8), ("relu_gradient", 12), ("where", 13), ("softmax_loss", 4)]
)
def test_work_is_counted_by_what_is_read_and_written(name, nbytes):
    assert KERNELS[name]._facts["nanoseconds"] == pytest.approx(BYTE_NANOSECONDS * nbytes)
