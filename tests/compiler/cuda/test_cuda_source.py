"""The sources of fused kernels, and that the CUDA compiler takes them."""

import itertools
import subprocess

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.kernels.cuda.nvcc import NEEDS_NVCC, machine_code_by_name, machine_code_of, separated
from trainkit.compiler.cuda import cuda_table
from trainkit.compiler.cuda.cuda_source import FEWEST_BY_FOUR, TableSource
from trainkit.compiler.ir import kind_of
from trainkit.core.dtypes import bfloat16
from trainkit.graph.gpu.fused_on_gpu import CUDA, CudaKernel
from trainkit.graph.ir.passes import optimised
from trainkit.graph.ir.written_out_updates import with_updates_written_out
from trainkit.graph.runtime.fusion import fuse
from trainkit.kernels.cuda import cuda_functions

LARGE = FEWEST_BY_FOUR
DTYPES = [*(np.dtype(c) for c in "?bhilqBHILQefd"), bfloat16.dtype]
UFUNCS = sorted(
    name for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and name.islower()
)


def sources(f, *specs):
    with stand_in.in_place():
        traced = tk.function(f).get_concrete_function(*specs).graph
        graph = fuse(optimised(with_updates_written_out(traced)), CUDA)
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


def test_the_text_of_short_floats_rounds_each_result():
    spec = tk.TensorSpec([8], tk.float16)
    (kernel,) = sources(lambda x: x * 2.0 + x, spec)
    assert kernel.text.splitlines()[0] == "#include <cuda_fp16.h>"
    assert kernel.text.splitlines()[4:8] == [
        "    const float v0 = __half2float(p0[i]);",
        "    const float v1 = __half2float(__float2half_rn(v0 * __int_as_float(0x40000000)));",
        "    const float v2 = __half2float(__float2half_rn(v1 + v0));",
        "    p1[i] = __float2half_rn(v2);",
    ]


def test_the_text_of_a_large_kernel_moves_vectors():
    (kernel,) = a_large_chain("float32")
    assert "struct __align__(16) Vector_float32 { float v[4]; };" in kernel.text
    assert "const Vector_float32 q0 = ((const Vector_float32*)(p0))[j];" in kernel.text
    assert "((Vector_float32*)(p2))[j] = q2;" in kernel.text
    (small,) = sources(lambda x: x * 2.0 + 1.0, tk.TensorSpec([FEWEST_BY_FOUR - 1]))
    assert (small.each, "Four" in small.text) == (1, False)


def test_positions_of_large_arrays_take_64_bits():
    spec = tk.TensorSpec([50_000, 50_000], tk.float32)
    (kernel,) = sources(lambda x: x * 2.0 + 1.0, spec)
    assert "const long long step = (long long)gridDim.x" in kernel.text


def every_expression():
    """A kernel for each function and dtype that there is an expression for."""
    for dtype in DTYPES:
        for name in (*UFUNCS, "copy", "where", *(f"cast {d.char}" for d in DTYPES)):
            word, _, wanted = name.partition(" ")
            count = {"where": 3, "copy": 1, "cast": 1}.get(word) or getattr(np, word).nin
            out = next((d for d in DTYPES if wanted == d.char), dtype)
            if word == "cast" and kind_of(dtype) + kind_of(out) in ("fi", "fu"):
                continue
            if word in ("copy", "where", "cast") or cuda_functions.is_known(word, dtype):
                yield word, dtype, count, out


def kernel_of(number, name, dtype, count, out):
    kind = cuda_functions.type_of(dtype)
    kinds = ["bool" if name == "where" and not i else kind for i in range(count)]
    operands = [
        f"p{i}[i]" if k == "bool" else cuda_functions.loaded(f"p{i}[i]", dtype)
        for i, k in enumerate(kinds)
    ]
    text = cuda_functions.expression(name, dtype, operands, out)
    text = cuda_functions.stored(text, out)
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


@NEEDS_NVCC
def test_the_cuda_compiler_takes_every_expression(tmp_path):
    kernels = [kernel_of(i, *found) for i, found in enumerate(every_expression())]
    assert len(kernels) > 300
    text = cuda_functions.headers_for(DTYPES) + "\n".join(kernels)
    made = compiled_by_nvcc(text, tmp_path, "-ptx").decode()
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
    for text in {kernel.text for kernel in found}:
        assert compiled_by_nvcc(text, tmp_path, "-cubin")[:4] == b"\x7fELF"


def a_large_chain(dtype):
    spec = tk.TensorSpec([FEWEST_BY_FOUR], dtype)
    return sources(lambda x, y: tk.nn.relu(x * y + x) * tk.sqrt(y), spec, spec)


@NEEDS_NVCC
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_vectors_of_all_floats_fit_into_registers(tmp_path, dtype):
    (kernel,) = a_large_chain(dtype)
    assert kernel.each == 4
    made = machine_code_of(kernel.text, tmp_path)
    assert (made.spills, made.kernels) == (0, 1)
    assert made.registers < 64


def updates(shapes, dtype="float32", **settings):
    """The kernels of an Adam step that do the same with many weights, of these shapes."""
    weights = [tk.Variable(tk.zeros(shape, dtype)) for shape in shapes]
    rule = tk.optimizers.Adam(0.1, **settings)
    specs = [tk.TensorSpec(shape, dtype) for shape in shapes]
    found = sources(lambda gs: rule.apply(gs, weights), specs)
    return [kernel for kernel in found if isinstance(kernel, TableSource)]


def test_an_update_of_many_weights_is_one_kernel_whatever_their_number_and_shapes():
    many = updates([[5, 7], [7], [LARGE - 1], [7, 2, 3], [7], [7]])
    few = updates([[4], [3, 3]])
    assert [type(kernel) for kernel in (*many, *few)] == [TableSource] * 2
    assert many[0].text == few[0].text
    assert sorted(many[0].sizes) == [7, 7, 7, 35, 42, LARGE - 1]


def test_weights_of_which_one_is_large_are_updated_by_vectors():
    (kernel,) = updates([[3], [LARGE], [5]])
    assert (kernel.each, "Vector_float32 q0" in kernel.text) == (4, True)


def test_more_weights_than_a_table_has_room_for_take_another_launch():
    kernels = updates([[3]] * 200)
    most = max(len(kernel.members) for kernel in kernels)
    assert sum(len(kernel.members) for kernel in kernels) == 200
    assert len(kernels) == -(-200 // most)
    assert 40 <= most <= cuda_table.MOST_MEMBERS
    for kernel in kernels:
        assert cuda_table.layout(len(kernel.members[0]), most).itemsize <= 4096


@NEEDS_NVCC
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_update_of_many_weights_fits_into_registers(tmp_path, dtype):
    kernels = []
    for shape, amsgrad in itertools.product([[40], [512, 512]], [False, True]):
        some = updates([shape] * 12, dtype, amsgrad=amsgrad)
        assert max(len(kernel.members) for kernel in some) == 12
        kernels += some
    text = separated([("update", kernel.text) for kernel in kernels])
    found = machine_code_by_name(text, tmp_path, ("--fmad=false",))
    assert len(found) == len(kernels)
    for code in found.values():
        assert (code.spills, code.registers <= 64) == (0, True), code


def test_unrelated_loops_of_one_shape_are_split_so_that_they_fit_into_registers():
    def f(xs):
        return [tk.sqrt(x * (i + 2.0)) - x / (x + i + 1.0) for i, x in enumerate(xs)]

    found = sources(f, [tk.TensorSpec([40])] * 12)
    assert 1 < len(found) < 12
    assert max(len(kernel.views) for kernel in found) <= 16


@NEEDS_NVCC
def test_the_cuda_compiler_refuses_what_is_wrong(tmp_path):
    with pytest.raises(AssertionError, match="identifier"):
        compiled_by_nvcc('extern "C" __global__ void k() { missing(1.0f); }', tmp_path, "-ptx")
