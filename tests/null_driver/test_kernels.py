"""Kernels that trainkit writes keep what a thread works with in registers, and not in too many.

The compiler says both; a kernel of more than 64 registers leaves room for few warps on a
multiprocessor, and one with a stack works in memory.
"""

import pytest

import trainkit as tk
from tests.null_driver import ceilings, kernels, steps
from tests.null_driver.counting import counted
from trainkit.optimizers import Optimizer

ELSEWHERE = (Optimizer, tk.optimizers.LossScaleOptimizer, tk.optimizers.MultiOptimizer)
OPTIMIZERS = sorted(
    name
    for name, found in vars(tk.optimizers).items()
    if isinstance(found, type) and issubclass(found, Optimizer) and found not in ELSEWHERE
)
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool")


@pytest.mark.parametrize("policy", steps.POLICIES)
@pytest.mark.parametrize("name", steps.NAMES)
def test_kernels_of_a_step_have_few_registers(name, policy):
    counts, first, _ = steps.measured(name, policy, True)
    eager, _, _ = steps.measured(name, policy, False)
    now, most = ceilings.registers(counts, first, eager), ceilings.wide(f"{name} {policy}")
    assert 0 < now <= most
    assert most == ceilings.ROOM or now == most, f"lower it to {now}: {ceilings.AGAIN}"


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_kernels_of_an_optimizer_have_few_registers(name, compiled):
    weights = [tk.Variable(tk.ones(shape)) for shape in ((3, 4), (4,), (5, 2, 2))]
    grads = [tk.ones(w.shape) for w in weights]
    rule = getattr(tk.optimizers, name)()

    def step():
        rule.apply_gradients(zip(grads, weights, strict=True))

    step = tk.function(step) if compiled else step
    with counted() as counts:
        for _ in range(5):
            step()
    assert ceilings.registers(counts) <= ceilings.ROOM


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_of_every_dtype_compile(dtype):
    x = tk.cast(tk.constant([[1, 0, 1], [0, 1, 1]]), dtype)

    @tk.function
    def chain(x):
        y = tk.where(tk.equal(x, x), x, tk.zeros_like(x))
        if dtype == "bool":
            return tk.logical_not(tk.logical_and(y, x))
        y = y * x + tk.abs(x)
        return tk.exp(tk.tanh(y) - y) if tk.as_dtype(dtype).is_floating else tk.maximum(y, x) - y

    with counted() as counts:
        for _ in range(5):
            chain(x)
    assert 0 < ceilings.registers(counts) <= ceilings.ROOM


def test_arguments_of_other_sizes_than_the_parameters_are_refused(cupy):
    text = 'extern "C" __global__ void sized(float *x, int n) { x[n] = 0; }'
    kernel = cupy.RawKernel(text, "sized")
    x = cupy.zeros(3, "float32")
    kernel((1,), (1,), (x, cupy.int32(1)))
    with pytest.raises(kernels.ArgumentSizes, match="argument 1 has 8 bytes, its parameter 4"):
        kernel((1,), (1,), (x, 1))
    with pytest.raises(kernels.ArgumentSizes, match="1 arguments for 2 parameters"):
        kernel((1,), (1,), (x,))


def test_what_the_compiler_says_is_read(cupy):
    text = """extern "C" __global__ void heavy(float *x, int n) {
        __shared__ float near[100];
        float kept[50];
        for (int i = 0; i < n; i++) kept[x[i] > 0 ? i : 0] = near[i] = x[i];
        __syncthreads();
        x[threadIdx.x] = kept[n] + near[n];
    }"""
    before = len(kernels.RECORDED)
    cupy.RawKernel(text, "heavy").compile()
    (found,) = kernels.RECORDED[before:]
    del kernels.RECORDED[before:]
    assert (found.stack, found.shared, found.sizes) == (200, 400, (8, 4))
    assert 8 <= found.registers <= 64
