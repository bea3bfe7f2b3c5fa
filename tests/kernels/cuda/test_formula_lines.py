"""CUDA C++ that is written from formulas over arrays: each element has the bits of the formula."""

import numpy as np
import pytest

from tests.stand_in import cuda_on_cpu
from trainkit.kernels.cuda.cuda_functions import type_of
from trainkit.kernels.cuda.formula_lines import formula_lines
from trainkit.kernels.elementwise import elementwise_reference

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 6, -6, 1e-30]
FORMULAS = {
    "relu6": elementwise_reference.relu6,
    "relu_gradient": elementwise_reference.relu_gradient,
    "limits": lambda xp, x: xp.clip(x, -0.5, 0.25),
    "one limit": lambda xp, x: xp.clip(x, -np.inf, 0.25) * xp.clip(x, -0.5, np.inf),
    "choice": lambda xp, x: xp.where(x >= 0, x * 3, 1 - x),
    "by numbers": lambda xp, x: x * 0.1 + 1 / (x * x + 1e-3),
}


@pytest.mark.skipif(not cuda_on_cpu.has_compiler(), reason="no g++ for this machine is here")
@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_each_element_has_the_bits_of_the_formula(name, dtype, rng):
    body, real = FORMULAS[name], type_of(dtype)
    lines, result = formula_lines(body, dtype)
    inputs = body.__code__.co_varnames[1 : body.__code__.co_argcount]
    loads = [f"const {real} {x} = {x}s[i];" for x in inputs]
    arrays = ", ".join(f"const {real}* {x}s" for x in inputs)
    run = cuda_on_cpu.built(
        f'extern "C" __global__ void formula({arrays}, {real}* out) {{\n'
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        + "\n".join([*loads, *lines, f"out[i] = {result};\n}}\n"]),
        "formula",
    )
    numbers = [np.concatenate([rng.normal(size=56) * 4, SPECIAL]).astype(dtype) for _ in inputs]
    with np.errstate(all="ignore"):
        expected = body(np, *numbers)
        y = np.empty_like(expected)
        run((2,), (32,), [*numbers, y])
    np.testing.assert_array_equal(y, expected)
    assert np.all((np.signbit(y) == np.signbit(expected)) | np.isnan(expected))


def test_a_number_is_rounded_once_to_the_dtype():
    def body(xp, x):
        return x * (0.1 * 3)

    for dtype, bits in (("float32", "0x3e99999a"), ("float64", "0x3fd3333333333334LL")):
        lines, result = formula_lines(body, np.dtype(dtype))
        assert result == "v0"
        assert bits in lines[0]


def test_a_function_without_an_expression_is_no_kernel():
    with pytest.raises(NotImplementedError, match="sinc has no text of CUDA"):
        formula_lines(lambda xp, x: x.call("sinc"), np.dtype("float32"))
