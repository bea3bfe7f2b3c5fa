"""Operations that few models have, in onnxruntime: running products, counts, complex numbers."""

import numpy as np
import pytest

import trainkit as tk
from tests.saved_graph.test_onnx_spectra import compare, rand
from trainkit.core.errors import UnimplementedError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
ops = tk.ops
RNG = np.random.default_rng(8)


def draws(*shapes):
    """A batch of one and of three of each shape."""
    return [tuple(rand(n, *shape) for shape in shapes) for n in (1, 3)]


def whole(n, low, high, dtype="int32"):
    return RNG.integers(low, high, n).astype(dtype)


BY_BATCH = {
    "products": lambda x: (
        tk.math.cumprod(x, 1),
        tk.math.cumprod(x, -1, exclusive=True),
        tk.math.cumprod(x, 1, reverse=True),
    ),
    "log-sums": lambda x: (
        tk.math.cumulative_logsumexp(x, 1),
        tk.math.cumulative_logsumexp(x * 90, 1, reverse=True),
        tk.math.cumulative_logsumexp(x, 2, exclusive=True),
    ),
    "quantiles": lambda x: (
        ops.quantile(x, [0.1, 0.5, 1.0], axis=-1),
        ops.median(x, axis=(1, 2), keepdims=True),
        ops.percentile(x, 30, axis=1, method="nearest"),
        ops.quantile(x, 0.3, axis=1, method="midpoint"),
    ),
    "diagonals": lambda x: (
        tk.linalg.diag_part(x),
        ops.diagonal(x, 1, 1, 2),
        ops.diagonal(x, -2, axis1=2, axis2=1),
        tk.linalg.diag(x[:, 0]),
        ops.trace(x, axis1=1, axis2=2),
    ),
    "determinants": lambda x: ops.det(x[:, :4, :4]),
    "tests": lambda x: (
        ops.signbit(x),
        ops.signbit(x * 0),
        ops.angle(x),
        ops.saturate_cast(x * 300, "uint8"),
        ops.all(tk.math.is_finite(x)),
    ),
    "losses": lambda x: (
        tk.nn.sigmoid_cross_entropy_with_logits(tk.abs(x), x * 30),
        tk.nn.softmax_cross_entropy_with_logits(tk.nn.softmax(x), x),
        tk.nn.sparse_softmax_cross_entropy_with_logits(tk.argmax(x, axis=-1), x),
    ),
    "positions": lambda x: ops.unravel_index(tk.argmax(tk.reshape(x, [-1, 20]), 1), (4, 5)),
}


@pytest.mark.parametrize("name", BY_BATCH)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_they_are_written_for_any_batch(name, tmp_path):
    shape = (4, 5)
    compare(BY_BATCH[name], [tk.TensorSpec([None, *shape])], draws(shape), tmp_path / "f.onnx")


@pytest.mark.parametrize("batch_counts", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_largest_values_of_windows_and_their_places(padding, batch_counts, tmp_path):
    def f(x):
        return tk.nn.max_pool_with_argmax(
            x, (3, 2), 2, padding, include_batch_in_index=batch_counts
        )

    spec = tk.TensorSpec([None, 6, 5, 3])
    compare(f, [spec], draws((6, 5, 3)), tmp_path / "f.onnx")
    with pytest.raises(UnimplementedError, match="height, width and channels are not known"):
        compare(f, [tk.TensorSpec([None, None, 5, 3])], [], tmp_path / "f.onnx")


@pytest.mark.parametrize("radius", [0, 2, 9])
def test_local_response_normalization(radius, tmp_path):
    def f(x):
        return tk.nn.local_response_normalization(x, radius, 1.5, 0.3, 0.75)

    compare(f, [tk.TensorSpec([None, None, 5, 7])], draws((6, 5, 7)), tmp_path / "f.onnx")
    with pytest.raises(UnimplementedError, match="number of channels is not known"):
        compare(f, [tk.TensorSpec([None, 3, 5, None])], [], tmp_path / "f.onnx")


def test_powers_and_vectors_on_diagonals_beside_the_main_one(tmp_path):
    def f(x):
        return ops.vander(x, 4), ops.diag(x, 2), ops.diag(x, -1), ops.diagflat(x)

    compare(f, [tk.TensorSpec([3])], [(rand(3),)], tmp_path / "f.onnx")


@pytest.mark.parametrize("length", [1, 2, 7])
def test_quantiles_of_values_that_are_no_numbers(length, tmp_path):
    x = rand(2, length)
    x[0, 0] = np.nan
    compare(lambda x: ops.quantile(x, 0.4, axis=1), [tk.TensorSpec([None, length])], [(x,)],
            tmp_path / "f.onnx")  # fmt: skip


def test_windows_and_products_of_runs(tmp_path):
    def f(x):
        return ops.unfold(x, 2)

    def g(x):
        return ops.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 0), stride=2)

    for function in (f, g):
        compare(function, [tk.TensorSpec([None, 2, 6, 7])], draws((2, 6, 7)), tmp_path / "f.onnx")
    specs = [tk.TensorSpec([8]), tk.TensorSpec([3])]
    for mode in ("valid", "same"):
        compare(lambda x, w, m=mode: ops.correlate(x, w, m), specs, [(rand(8), rand(3))],
                tmp_path / "f.onnx")  # fmt: skip


def test_counts_of_whole_numbers(tmp_path):
    def f(x, w):
        counts = ops.histogram(w, 4, (-1.0, 1.0))
        return (
            ops.bincount(x), ops.bincount(x, minlength=9), ops.bincount(x, weights=w),
            tk.math.bincount(x, maxlength=3), *counts,
        )  # fmt: skip

    inputs = [(whole(n, 0, 6), rand(n)) for n in (1, 20)]
    inputs.append((np.zeros(0, "int32"), np.zeros(0, "float32")))
    specs = [tk.TensorSpec([None], "int32"), tk.TensorSpec([None])]
    compare(f, specs, inputs, tmp_path / "f.onnx")


def test_edges_of_a_histogram_belong_to_one_bin(tmp_path):
    x = np.array([-1, -0.5, 0, 0.5, 1, 1.1, -1.1, np.nan], "float32")
    compare(lambda x: ops.histogram(x, 4, (-1.0, 1.0)), [tk.TensorSpec([None])], [(x[:7],)],
            tmp_path / "f.onnx")  # fmt: skip


def test_different_values(tmp_path):
    def f(x):
        values, inverse = tk.unique(x)
        return values, inverse, *tk.unique_with_counts(x)

    inputs = [(np.array([3, 1, 3, 2, 1], "int64"),), (np.array([7], "int64"),)]
    compare(f, [tk.TensorSpec([None], "int64")], inputs, tmp_path / "f.onnx")

    def rising(x):
        return ops.unique(x, return_index=True, return_inverse=True, return_counts=True)

    compare(rising, [tk.TensorSpec([None], "int64")], inputs, tmp_path / "f.onnx")


@pytest.mark.parametrize("count", [1, 4])
def test_extremes_products_and_sums_of_segments(count, tmp_path):
    def f(x, ids):
        results = ops.segment_max(x, ids, count), ops.segment_sum(x, ids, count)
        return *results, tk.math.unsorted_segment_prod(x, ids, count)

    inputs = [(rand(5, 2), whole(5, 0, count)), (rand(1, 2), whole(1, 0, count))]
    specs = [tk.TensorSpec([None, 2]), tk.TensorSpec([None], "int32")]
    compare(f, specs, inputs, tmp_path / "f.onnx")


def test_an_unknown_integer_raises_in_the_runtime_too(tmp_path):
    layer = tk.layers.IntegerLookup(vocabulary=[7, 3, 11], num_oov_indices=0, mask_token=None)
    x = np.array([[3, 7], [11, 3]], "int64")
    spec = tk.TensorSpec([None, 2], "int64")
    compare(layer, [spec], [(x,)], tmp_path / "f.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
    with pytest.raises(Exception, match=r"(?i)out of data bounds"):
        session.run(None, {session.get_inputs()[0].name: x + 1})


# ---------------------------------------------------------------------- complex numbers


def spectrum_by_hand(x):
    y = tk.signal.rfft(x)
    z = tk.reshape(y, [-1, 2, 3, 1])
    turned = z * tk.exp(tk.complex(0.0, 0.5)) / (tk.squeeze(z, -1)[..., None] + 3.0)
    return tk.abs(turned), tk.math.real(tk.exp(z)), tk.math.imag(tk.exp(z))


def arranged(x):
    y = tk.signal.rfft(x)
    both = tk.concat([y, tk.math.conj(y)], 1)
    stacked = tk.stack([y, -y], 1)
    chosen = tk.where(tk.abs(y) > 1, y, tk.zeros_like(y))
    parts = [tk.reduce_sum(both, 1), tk.reduce_mean(stacked, [1]), chosen, tk.square(y)]
    return [part for y in parts for part in (tk.math.real(y), tk.math.imag(y))]


def angles(x):
    y = tk.signal.rfft(x)
    logs = tk.math.log(y)
    same = tk.equal(y, y)
    return tk.math.angle(y[:, 1:3]), tk.math.real(logs), tk.math.imag(logs[:, 1:3]), same


def products(x):
    y = tk.reshape(tk.signal.rfft(x), [-1, 2, 3])
    z = tk.matmul(y, tk.transpose(tk.math.conj(y), [0, 2, 1]))
    return tk.math.real(z), tk.math.imag(z)


@pytest.mark.parametrize("function", [spectrum_by_hand, arranged, angles, products])
def test_complex_numbers_of_any_batch(function, tmp_path):
    # onnxruntime's DFT has two digits less than NumPy's
    compare(function, [tk.TensorSpec([None, 10])], draws((10,)), tmp_path / "f.onnx", 5e-3)


# ---------------------------------------------------------------------- lengths


def lengths(x):
    return tk.norm(x), tk.norm(x, axis=-1), tk.norm(x, axis=[1, 2], keepdims=True)


def test_lengths_of_any_batch(tmp_path):
    compare(lengths, [tk.TensorSpec([None, 4, 5])], draws((4, 5)), tmp_path / "f.onnx", 1e-5)


# ---------------------------------------------------------------------- what can't be written


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: tk.linalg.cholesky(x), "LAPACK"),
        (lambda x: tk.linalg.inv(x), "LAPACK"),
        (lambda x: tk.math.lgamma(x), "ONNX has no such function"),
        (lambda x: ops.histogram(tk.reshape(x, [-1]), 3), "give range="),
        (lambda x: ops.unique(x, size=3), "unique with size="),
        (lambda x: ops.nanquantile(x, 0.3, axis=1), "quantiles that leave NaN out"),
        (lambda x: ops.quantile(x, 0.3, axis=0), "along an axis of unknown size"),
        (lambda x: tk.gradients_of_square(x), "it belongs to a gradient"),
    ],
)
def test_others_say_why(function, message, tmp_path):
    if message.startswith("it belongs"):

        def function(x):
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = tk.nn.relu(x @ x)
            return tape.gradient(y, x)

    traced = tk.function(function, input_signature=[tk.TensorSpec([None, 4, 4])])
    with pytest.raises(UnimplementedError, match=message):
        tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx")


@pytest.mark.parametrize(
    "function",
    [tk.nn.relu6, ops.hard_tanh, lambda x: ops.clip(x, -0.5, 0.25), lambda x: ops.clip(x, 1, -1)],
    ids=["relu6", "hard_tanh", "clip", "limits the wrong way round"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_limits_are_one_node(function, dtype, tmp_path):
    path = tmp_path / "m.onnx"
    signature = [tk.TensorSpec([None, 8], dtype)]
    tk.saved_graph.export_onnx(tk.function(function, input_signature=signature), path)
    x = np.array([[np.nan, -np.inf, -7, -0.5, 0, 0.375, 6.5, np.inf]], dtype)
    session = onnxruntime.InferenceSession(str(path))
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds == ["Clip", "Identity"]
    expected = function(tk.constant(x))
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(tk.onnx.load(path)(tk.constant(x)), expected)


def test_a_rectifier_with_a_ceiling_comes_back(tmp_path):
    path = tmp_path / "m.onnx"
    signature = [tk.TensorSpec([None, 8])]
    tk.saved_graph.export_onnx(tk.function(tk.nn.relu6, input_signature=signature), path)
    model = tk.onnx.load(path)
    graph = tk.function(lambda x: model(x)).get_concrete_function(tk.ones((2, 8))).graph
    assert "relu6" in [node.primitive.name for node in graph.nodes if node.kind == "op"]


def test_limits_that_are_tensors_or_of_integers_stay_two_nodes(tmp_path):
    path = tmp_path / "m.onnx"
    signature = [tk.TensorSpec([None], "int32"), tk.TensorSpec([None], "float32")]
    draws = [(np.arange(-4, 12, dtype="int32"), rand(16))]
    compare(lambda n, x: (ops.clip(n, 0, 6), ops.clip(x, -1.0, x + 1.0)), signature, draws, path)
    assert "Clip" not in [node.op_type for node in onnx.load(path).graph.node]
