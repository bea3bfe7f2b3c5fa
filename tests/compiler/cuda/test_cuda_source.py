"""The sources of fused kernels, and that the CUDA compiler takes them."""

import shutil
import subprocess

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.compiler.cuda import cuda_functions
from trainkit.compiler.ir import Number
from trainkit.graph.gpu.fused_on_gpu import CUDA, CudaKernel
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.fusion import fuse

DTYPES = [np.dtype(c) for c in "?bhilqBHILQfd"]
UFUNCS = sorted(
    name for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and name.islower()
)


def sources(f, *specs):
    with stand_in.in_place():
        graph = fuse(optimised(tk.function(f).get_concrete_function(*specs).graph), CUDA)
        return [
            kernel
            for node in graph.nodes
            if node.kind == "op" and isinstance(node.primitive, CudaKernel)
            for kernel in node.primitive.code.kernels
        ]


def test_the_text_of_a_small_kernel():
    (kernel,) = sources(lambda x, y: x * 2.0 + y, tk.TensorSpec([2, 3]), tk.TensorSpec([3]))
    assert kernel.size == 6
    assert kernel.text.splitlines()[1:] == [
        "  const int step = (int)gridDim.x * blockDim.x;",
        "  for (int i = (int)blockIdx.x * blockDim.x + threadIdx.x; i < 6; i += step) {",
        "    const int i1 = i % 3;",
        "    const int r1 = i / 3;",
        "    const int i0 = r1;",
        "    const float v0 = p0[i0 * 3 + i1];",
        "    const float v1 = p1[i1];",
        "    const float v2 = v0 * __int_as_float(0x40000000);",
        "    const float v3 = v2 + v1;",
        "    p2[i0 * 3 + i1] = v3;",
        "  }",
        "}",
    ]


def test_positions_of_large_arrays_take_64_bits():
    spec = tk.TensorSpec([50_000, 50_000], tk.float32)
    (kernel,) = sources(lambda x: x * 2.0 + 1.0, spec)
    assert "const long long step = (long long)gridDim.x" in kernel.text


def every_expression():
    """A kernel for each function and dtype that there is an expression for."""
    for dtype in DTYPES:
        for name in (*UFUNCS, "copy", "where", *(f"cast {d}" for d in DTYPES)):
            word, _, wanted = name.partition(" ")
            count = {"where": 3, "copy": 1, "cast": 1}.get(word) or getattr(np, word).nin
            given = tuple(Number(dtype.type(1), dtype) for _ in range(count))
            if word == "cast" and dtype.kind + np.dtype(wanted).kind in ("fi", "fu"):
                continue
            if word in ("copy", "where", "cast") or cuda_functions.is_known(word, given):
                yield word, dtype, count, np.dtype(wanted or dtype)


def kernel_of(number, name, dtype, count, out):
    kind = cuda_functions.type_of(dtype)
    operands = [f"p{i}[i]" for i in range(count)]
    kinds = ["bool" if name == "where" and not i else kind for i in range(count)]
    text = cuda_functions.expression(name, dtype, operands, out)
    parameters = ", ".join(f"const {k}* p{i}" for i, k in enumerate(kinds))
    return (
        f'extern "C" __global__ void k{number}({parameters}, {cuda_functions.type_of(out)}* y) {{\n'
        f"  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  y[i] = {text};\n}}\n"
    )


def compiled_by_nvcc(text, folder, kind):
    path = folder / "kernels.cu"
    path.write_text(text)
    command = ["nvcc", kind, "-arch=sm_90", "--fmad=false", "-o", str(folder / "out"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return (folder / "out").read_bytes()


NEEDS_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")


@NEEDS_NVCC
def test_the_cuda_compiler_takes_every_expression(tmp_path):
    kernels = [kernel_of(i, *found) for i, found in enumerate(every_expression())]
    assert len(kernels) > 300
    made = compiled_by_nvcc("\n".join(kernels), tmp_path, "-ptx").decode()
    assert made.count(".entry") == len(kernels)


@NEEDS_NVCC
def test_the_cuda_compiler_makes_machine_code_of_a_training_step(tmp_path):
    model = tk.Sequential([tk.layers.Dense(8, activation="silu"), tk.layers.Dense(1)])
    rule = tk.optimizers.AdamW(0.01, clipvalue=1.0)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.nn.softplus(model(x) * y))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    model(tk.zeros([4, 5]))
    found = sources(step, tk.TensorSpec([4, 5]), tk.TensorSpec([4, 1]))
    assert len(found) >= 2
    text = "\n".join(dict.fromkeys(kernel.text for kernel in found))
    assert compiled_by_nvcc(text, tmp_path, "-cubin")[:4] == b"\x7fELF"


@NEEDS_NVCC
def test_the_cuda_compiler_refuses_what_is_wrong(tmp_path):
    with pytest.raises(AssertionError, match="identifier"):
        compiled_by_nvcc('extern "C" __global__ void k() { missing(1.0f); }', tmp_path, "-ptx")
