"""Products of 16-bit floats as steps of compiled loops: the bits of the operations alone."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.cpu.processor import processor_facts
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.fusion import FusedKernel, fuse
from trainkit.kernels.jit import bfloat16_pairs
from trainkit.ops.neural.dense import _dense, dense_gradient

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")

DTYPES = ["bfloat16", "float16"]
SIZES = [(1, 1, 1), (3, 5, 7), (13, 33, 31), (32, 64, 64), (16, 64, 10), (70, 300, 40)]


@pytest.fixture(params=["tiles", "pairs", "float32"])
def pairs(request, monkeypatch):
    """As processors with AMX-BF16, with AVX512-BF16 and with neither multiply."""
    has_pairs, has_tiles = request.param != "float32", request.param == "tiles"
    if has_pairs and "avx512_bf16" not in processor_facts()[1]:
        pytest.skip("this processor has no AVX512-BF16")
    if has_tiles and not bfloat16_pairs.has_bfloat16_tiles():
        pytest.skip("this processor has no AMX-BF16")
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_pairs", lambda: has_pairs)
    monkeypatch.setattr(bfloat16_pairs, "has_bfloat16_tiles", lambda: has_tiles)


def tensors(rng, dtype, *shapes):
    return [tk.cast(tk.constant(rng.normal(size=s).astype("float32")), dtype) for s in shapes]


def assert_one_run(f, *args):
    """That all of `f` is one run of compiled code, with the bits of its operations alone."""
    function = tk.function(f, jit_compile=True)
    graph = fuse(optimised(function.get_concrete_function(*args).graph))
    names = [n.primitive.name for n in graph.nodes if n.kind == "op"]
    assert all(n.kind != "op" or isinstance(n.primitive, FusedKernel) for n in graph.nodes), names
    pairs = zip(tk.nest.flatten(f(*args)), tk.nest.flatten(function(*args)), strict=True)
    for eager, compiled in pairs:
        assert (eager.dtype, eager.shape) == (compiled.dtype, compiled.shape)
        bits = eager.numpy().view("uint16"), compiled.numpy().view("uint16")
        np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dense_layer_is_part_of_the_run_around_it(pairs, rng, dtype, size, activation):
    rows, depth, columns = size
    x, w, b = tensors(rng, dtype, (rows, depth), (depth, columns), (columns,))
    assert_one_run(lambda x, w, b: tk.tanh(_dense(x * x, w, b, activation=activation)), x, w, b)


@pytest.mark.parametrize("wanted", [(True, True, True), (False, True, True), (True, False, False)])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_a_dense_layer_are_part_of_it(pairs, rng, dtype, size, activation, wanted):
    rows, depth, columns = size
    shapes = (rows, columns), (rows, columns), (rows, depth), (depth, columns)

    def f(*arrays):
        return dense_gradient(*arrays, activation=activation, wanted=wanted)

    assert_one_run(f, *tensors(rng, dtype, *shapes))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_transposes_and_of_stacks_by_a_matrix_are_part_of_it(pairs, rng, dtype):
    a, b, stack = tensors(rng, dtype, (9, 14), (9, 21), (2, 5, 9))
    assert_one_run(lambda a, b: tk.matmul(a + a, b, transpose_a=True), a, b)
    assert_one_run(lambda a, b: tk.matmul(b[:, ::2], a, transpose_a=True) * 2.0, a, b)
    assert_one_run(lambda x, w: tk.matmul(x, w) * 2.0, stack, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_for_several_threads_stays_a_node(rng, dtype):
    x, w = tensors(rng, dtype, (600, 400), (400, 360))
    graph = tk.function(lambda x, w: tk.tanh(tk.matmul(x + x, w))).get_concrete_function(x, w).graph
    names = [n.primitive.name for n in fuse(optimised(graph)).nodes if n.kind == "op"]
    assert names == ["fused", "matmul", "fused"]


def latest_graph(function, x):
    """The graph of the program that served a call."""
    function(x)
    general = function.get_concrete_function().graph.program().general
    return next(p.graph for p in general._programs if p.run(x._array) is not None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_code_of_unknown_sizes_has_the_same_bits(rng, dtype):
    w, b = tensors(rng, dtype, (24, 20), (20,))
    spec = tk.TensorSpec([None, 24], getattr(tk, dtype))

    def f(x):
        with tk.GradientTape() as tape:
            tape.watch([x, w, b])
            y = tk.tanh(_dense(x * x, w, b, activation="relu"))
        return y, *tape.gradient(y, [x, w, b])

    compiled = tk.function(f, input_signature=[spec], jit_compile=True)
    for rows in (17, 40, 3, 64, 1, 31):
        (x,) = tensors(rng, dtype, (rows, 24))
        if rows > 1:  # of one row there is a program of its own
            graph = latest_graph(compiled, x)
            assert [n.primitive.name for n in graph.nodes if n.kind == "op"] == ["fused"], rows
        for one, two in zip(f(x), compiled(x), strict=True):
            np.testing.assert_array_equal(one.numpy().view("uint16"), two.numpy().view("uint16"))
