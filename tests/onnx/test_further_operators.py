"""Detection, spectra and windows that are put back, beside plain formulas in NumPy."""

import itertools

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import fill_graph, write
from trainkit.core.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from trainkit.saved_graph.onnx.onnx_messages import GraphProto

RNG = np.random.default_rng(5)


def rand(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def node(tmp_path, op_type, inputs, constants=None, outputs="y", version=18, **attributes):
    """A model of one node; `inputs` are (name, shape[, dtype]), in the order of the node."""
    names = [x if isinstance(x, str) else x[0] for x in inputs]
    declared = [x for x in inputs if not isinstance(x, str)]
    nodes = [(op_type, " ".join(names), outputs, attributes)]
    path = write(tmp_path / "m.onnx", nodes, declared, outputs, constants or {}, version)
    return tk.onnx.load(path, trainable=False)


# ------------------------------------------------------------------ detection

BOXES = np.float32([[[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [10, 10, 0, 0]]])
SCORES = np.float32([[[0.9, 0.8, 0.7, 0.95], [0.1, 0.2, 0.3, 0.05]]])


def suppression(tmp_path, most=3, overlap=0.5, threshold=0.15):
    constants = {"most": np.int64(most), "o": np.float32(overlap), "t": np.float32(threshold)}
    inputs = [("b", ["N", "K", 4]), ("s", ["N", "C", "K"]), "most", "o", "t"]
    return node(tmp_path, "NonMaxSuppression", inputs, constants)


def test_boxes_that_better_ones_cover_are_dropped(tmp_path):
    model = suppression(tmp_path)
    expected = [[0, 0, 3], [0, 0, 2], [0, 1, 2], [0, 1, 1]]  # box 3 covers 0, its corners turned
    np.testing.assert_array_equal(model({"b": BOXES, "s": SCORES}), expected)
    traced = tk.function(lambda b, s: model({"b": b, "s": s}))
    np.testing.assert_array_equal(traced(BOXES, SCORES), expected)
    np.testing.assert_array_equal(suppression(tmp_path, 1)({"b": BOXES, "s": SCORES})[:, 2], [3, 2])


def test_no_box_stays_of_none(tmp_path):
    model = suppression(tmp_path, 0)
    assert model({"b": BOXES, "s": SCORES}).shape == (0, 3)
    empty = {"b": np.zeros((1, 0, 4), "f"), "s": np.zeros((1, 2, 0), "f")}
    assert suppression(tmp_path)(empty).shape == (0, 3)


def test_boxes_and_scores_that_do_not_fit_raise(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"\(1, 4, 4\) and scores of shape \(1, 2, 3\)"):
        suppression(tmp_path)({"b": BOXES, "s": SCORES[..., :3]})
    with pytest.raises(InvalidArgumentError, match=r"overlap 1\.5 lies outside of 0 to 1"):
        suppression(tmp_path, overlap=1.5)({"b": BOXES, "s": SCORES})
    with pytest.raises(InvalidArgumentError, match="they have to be"):
        node(tmp_path, "NonMaxSuppression", [("b", ["K", 4]), ("s", ["C", "K"])])


def regions(tmp_path, **settings):
    inputs = [("x", ["N", 2, "H", "W"]), ("r", ["R", 4]), ("i", ["R"], "int64")]
    settings = {"output_height": 2, "output_width": 2, **settings}
    return node(tmp_path, "RoiAlign", inputs, **settings)


def ramp(batch=1):
    """Images whose pixels are 10 y + x, and 100 more in the second channel."""
    y, x = np.mgrid[:8, :9]
    return np.broadcast_to(np.stack([10 * y + x, 100 + 10 * y + x]), (batch, 2, 8, 9)).astype("f")


@pytest.mark.parametrize("ratio", [0, 2])
def test_elements_of_a_region_are_means_of_its_points(ratio, tmp_path):
    model = regions(tmp_path, sampling_ratio=ratio)
    data = {"x": ramp(2), "r": np.float32([[1, 2, 5, 6]]), "i": np.int64([1])}
    # elements are 2 x 2 pixels, of a linear image: their middles lie at 2 and 4, less 0.5 each
    expected = [[10 * y + x for x in (1.5, 3.5)] for y in (2.5, 4.5)]
    for function in (model, tk.function(model)):
        np.testing.assert_allclose(function(data)[0, 0], expected, rtol=1e-5)
        np.testing.assert_allclose(function(data)[0, 1], np.float32(expected) + 100, rtol=1e-5)


def test_gradients_reach_the_images_of_regions(tmp_path):
    model = regions(tmp_path)
    x = tk.Variable(ramp())
    data = {"r": np.float32([[1, 2, 5, 6]]), "i": np.int64([0])}

    @tk.function
    def slope():
        with tk.GradientTape() as tape:
            total = tk.reduce_sum(model({"x": x, **data}))
        return tape.gradient(total, x)

    np.testing.assert_allclose(np.sum(slope()), 8.0, rtol=1e-5)  # 2 channels of 4 means


def test_regions_that_ask_for_much_are_refused(tmp_path):
    data = {"x": ramp(), "i": np.int64([0])}
    with pytest.raises(ResourceExhaustedError, match="points are asked for in each element"):
        regions(tmp_path)({**data, "r": np.float32([[0, 0, 1e9, 1e9]])})
    with pytest.raises(InvalidArgumentError, match="no finite number"):
        regions(tmp_path)({**data, "r": np.float32([[0, 0, np.nan, 1]])})
    with pytest.raises(ResourceExhaustedError, match="points are asked for"):
        regions(tmp_path, sampling_ratio=1 << 20)
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        regions(tmp_path, output_height=1 << 20, output_width=1 << 20)
    with pytest.raises(InvalidArgumentError, match="has no elements"):
        regions(tmp_path, output_height=0)
    with pytest.raises(InvalidArgumentError, match="and not one of avg, max"):
        regions(tmp_path, mode="median")
    inputs = [("x", [1, 2, "H", "W"]), ("r", ["R", 5]), ("i", ["R"], "int64")]
    with pytest.raises(InvalidArgumentError, match=r"regions \(None, 5\) have to be"):
        node(tmp_path, "RoiAlign", inputs)


# ------------------------------------------------------------------ spectra


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_are_those_of_numpy(length, inverse, tmp_path):
    x = rand(3, 6, 2, 2)
    constants = {} if length is None else {"n": np.int64(length), "a": np.int64(-3)}
    inputs = [("x", ["N", "T", "C", 2]), *constants]
    settings = {"inverse": inverse} | ({"axis": 1} if length is None else {})
    version = 17 if length is None else 20
    model = node(tmp_path, "DFT", inputs, constants, version=version, **settings)
    transform = np.fft.ifft if inverse else np.fft.fft
    y = transform(x[..., 0] + 1j * x[..., 1], length, axis=1)
    np.testing.assert_allclose(model(x), np.stack([y.real, y.imag], -1), rtol=1e-4, atol=1e-5)


def test_half_of_a_spectrum_goes_there_and_back(tmp_path):
    x = rand(3, 7, 1)
    half = node(tmp_path, "DFT", [("x", ["N", "T", 1])], onesided=1, axis=1)(x)
    y = np.fft.rfft(x[..., 0], axis=1)
    np.testing.assert_allclose(half, np.stack([y.real, y.imag], -1), rtol=1e-4, atol=1e-5)
    constants = {"n": np.int64(7)}
    settings = {"onesided": 1, "inverse": 1, "axis": 1}
    model = node(tmp_path, "DFT", [("x", ["N", "T", 2]), "n"], constants, **settings)
    np.testing.assert_allclose(model(half), x, rtol=1e-4, atol=1e-5)


def test_spectra_of_unfit_signals_raise(tmp_path):
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        node(tmp_path, "DFT", [("x", ["N", 6, 1]), "n"], {"n": np.int64(1 << 40)})
    with pytest.raises(InvalidArgumentError, match="length -1 has no elements"):
        node(tmp_path, "DFT", [("x", ["N", 6, 1]), "n"], {"n": np.int64(-1)})
    with pytest.raises(InvalidArgumentError, match="its last axis has to be 1"):
        node(tmp_path, "DFT", [("x", ["N", 6, 3])])
    with pytest.raises(UnimplementedError, match="say its size by input_shapes="):
        node(tmp_path, "DFT", [("x", ["N", 6, "P"])])
    with pytest.raises(InvalidArgumentError, match="goes along another"):
        node(tmp_path, "DFT", [("x", ["N", 6, 1])], axis=2)


def frames(tmp_path, step, length, size="T", **settings):
    constants = {"s": np.int64(step), "n": np.int64(length), "w": np.hanning(4).astype("f")}
    return node(tmp_path, "STFT", [("x", ["N", size, 1]), "s", "w", "n"], constants, **settings)


def test_frames_of_a_signal_are_transformed(tmp_path):
    model = frames(tmp_path, 3, 4)
    for size in (4, 11):
        x = rand(2, size, 1)
        pieces = np.stack([x[:, i : i + 4, 0] for i in range(0, size - 3, 3)], axis=1)
        y = np.fft.rfft(pieces * np.hanning(4))
        expected = np.stack([y.real, y.imag], -1)
        np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)


def test_frames_that_are_none_raise(tmp_path):
    with pytest.raises(InvalidArgumentError, match="window of 4 elements does not fit frames of 5"):
        frames(tmp_path, 3, 5)
    with pytest.raises(InvalidArgumentError, match="every 0 are none"):
        frames(tmp_path, 0, 4)
    with pytest.raises(InvalidArgumentError, match="3 elements has no frame of 4"):
        frames(tmp_path, 1, 4, 3)
    with pytest.raises(UnimplementedError, match="length of a frame has to be known"):
        node(tmp_path, "STFT", [("x", ["N", "T", 1]), "s"], {"s": np.int64(1)})


def mel(tmp_path, **values):
    inputs = {"n": np.int64(8), "l": np.int64(16), "r": np.int64(8000), "a": np.float32(0),
              "b": np.float32(4000), **values}  # fmt: skip
    names = ["n", "l", "r", "a", "b"]
    model = node(tmp_path, "MelWeightMatrix", [("n", [], "int64"), *names[1:]],
                 {name: inputs[name] for name in names[1:]})  # fmt: skip
    return model(inputs["n"])


def test_mel_weights_are_triangles(tmp_path):
    weights = np.asarray(mel(tmp_path, l=np.int64(256)))
    assert weights.shape == (129, 8)
    assert weights.min() == 0.0
    np.testing.assert_array_equal(weights.max(0), 1.0)
    assert (np.diff(weights.argmax(0)) > 0).all()


def test_mel_weights_that_are_none_raise(tmp_path):
    with pytest.raises(InvalidArgumentError, match="lie outside of the 9 frequencies"):
        mel(tmp_path, b=np.float32(9000))
    with pytest.raises(InvalidArgumentError, match="lie outside"):
        mel(tmp_path, a=np.float32(-1e9))
    with pytest.raises(InvalidArgumentError, match="0 bins of a transform of length 16"):
        mel(tmp_path, n=np.int64(0))
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        mel(tmp_path, n=np.int64(1 << 40))


def test_windows_of_a_size_known_later(tmp_path):
    model = node(tmp_path, "HannWindow", [("n", [], "int64")], periodic=0)
    np.testing.assert_allclose(tk.function(model)(np.int64(5)), np.hanning(5), atol=1e-6)


# ------------------------------------------------------------------ windows that are put back


def test_columns_are_added_into_images(tmp_path):
    constants = {"i": np.int64([4, 5]), "b": np.int64([2, 3])}
    model = node(tmp_path, "Col2Im", [("x", ["N", "K", "L"]), "i", "b"], constants)
    x = rand(2, 2 * 6, 9)
    expected = np.zeros((2, 2, 4, 5), "f")
    columns = x.reshape(2, 2, 2, 3, 3, 3)
    for a, b, i, j in itertools.product(range(2), range(3), range(3), range(3)):
        expected[:, :, i + a, j + b] += columns[:, :, a, b, i, j]
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


def test_columns_that_do_not_fit_raise(tmp_path):
    def columns(image, block, shape=("N", 6, 9), **settings):
        constants = {"i": np.int64(image), "b": np.int64(block)}
        node(tmp_path, "Col2Im", [("x", list(shape)), "i", "b"], constants, **settings)

    with pytest.raises(InvalidArgumentError, match="6 elements and 3 x 4 positions"):
        columns([4, 6], [2, 3])
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        columns([4, -5], [2, 3])
    with pytest.raises(InvalidArgumentError, match="do not fit 2 spatial axes"):
        columns([4, 5], [2, 3], pads=[1])
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        columns([1 << 20, 1 << 20], [1, 1], ("N", 1, "L"))
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        columns([1 << 14, 1 << 14], [1 << 13, 1 << 13], ("N", "K", "L"))


def unpooling(tmp_path, shape=("N", 1, 2, 2), target=None, kernel=(2, 2)):
    inputs = [("x", list(shape)), ("p", list(shape), "int64")]
    constants = {} if target is None else {"t": np.int64(target)}
    settings = {"kernel_shape": list(kernel), "strides": [2, 2]}
    return node(tmp_path, "MaxUnpool", inputs + ["t"] * (target is not None), constants, **settings)


def test_values_go_where_pooling_saw_them(tmp_path):
    data = {"x": np.float32([[[[1, 2], [3, 4]]]]), "p": np.int64([[[[5, 7], [8, 15]]]])}
    expected = np.zeros(16, "f")
    expected[[5, 7, 8, 15]] = 1, 2, 3, 4
    expected = expected.reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(unpooling(tmp_path)(data), expected)
    padded = unpooling(tmp_path, target=(1, 1, 5, 6))(data)
    np.testing.assert_array_equal(padded, np.pad(expected, [(0, 0), (0, 0), (0, 1), (0, 2)]))


def test_values_that_fit_nowhere_raise(tmp_path):
    data = {"x": np.zeros((1, 1, 2, 2), "f"), "p": np.full((1, 1, 2, 2), 16)}
    with pytest.raises((InvalidArgumentError, IndexError), match="16"):
        unpooling(tmp_path)(data)
    with pytest.raises(InvalidArgumentError, match=r"\(1, 1, 3, 4\) is smaller"):
        unpooling(tmp_path, (1, 1, 2, 2), (1, 1, 3, 4))
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        unpooling(tmp_path, kernel=(1 << 20, 1 << 20))
    with pytest.raises(ResourceExhaustedError, match=r"with strides .* make 2,097,152 elements"):
        unpooling(tmp_path, ("N", 1, "H", "W"), kernel=(1 << 20, 2))
    with pytest.raises(ResourceExhaustedError, match="elements are made from less"):
        unpooling(tmp_path, target=(1, 1, 1 << 20, 1 << 20))


def deformed(tmp_path, offsets=("N", 18, 6, 5), kernel=None, **settings):
    kernel = rand(2, 3, 3, 3) if kernel is None else kernel
    inputs = [("x", ["N", 3, 6, 5]), "w", ("o", list(offsets))]
    return node(tmp_path, "DeformConv", inputs, {"w": kernel}, version=19,
                **{"pads": [1, 1, 1, 1], **settings}), kernel  # fmt: skip


def test_offsets_of_nothing_are_a_convolution(tmp_path):
    model, kernel = deformed(tmp_path)
    x = rand(2, 3, 6, 5)
    plain = node(tmp_path, "Conv", [("x", ["N", 3, 6, 5]), "w"], {"w": kernel}, pads=[1, 1, 1, 1])
    y = model({"x": x, "o": np.zeros((2, 18, 6, 5), "f")})
    np.testing.assert_allclose(y, plain(x), rtol=1e-4, atol=1e-5)
    down = np.zeros((2, 9, 2, 6, 5), "f")
    down[:, :, 0] = 1  # every element looks one row below
    y = model({"x": x, "o": down.reshape(2, 18, 6, 5)})
    below = np.pad(x[:, :, 1:], [(0, 0), (0, 0), (0, 1), (0, 0)])
    np.testing.assert_allclose(y[:, :, 1:], plain(below)[:, :, 1:], rtol=1e-4, atol=1e-5)


def test_offsets_that_do_not_fit_raise(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"offsets of shape .*17, 6, 5.* should have"):
        deformed(tmp_path, ("N", 17, 6, 5))
    with pytest.raises(InvalidArgumentError, match="2 groups and 1 groups of offsets do not fit"):
        deformed(tmp_path, group=2)


def test_cubic_samples_at_pixels_are_the_pixels(tmp_path):
    settings = {"mode": "cubic", "align_corners": 1}
    inputs = [("x", ["N", 1, "H", "W"]), ("g", ["N", "A", "B", 2])]
    model = node(tmp_path, "GridSample", inputs, version=20, **settings)
    x = rand(1, 1, 5, 5)
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, 5)] * 2), axis=-1)[None].astype("f")
    np.testing.assert_allclose(model({"x": x, "g": points}), x, rtol=1e-4, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="'cubist', and not one of"):
        node(tmp_path, "GridSample", inputs, version=20, mode="cubist")


def test_uniques_of_a_graph(tmp_path):
    model = node(tmp_path, "Unique", [("x", ["N"])], outputs="y first back counts")
    results = tk.function(model)(np.float32([3, 1, 3, 2, 1]))
    parts = [results[name].numpy().tolist() for name in ("y", "first", "back", "counts")]
    assert parts == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1, 0], [2, 1, 2]]


# ------------------------------------------------------------------ Scan of opset 8


def scan_of_batches(tmp_path, directions):
    body = [("Add", "s x", "t", {}), ("Identity", "t", "c", {})]
    graph = fill_graph(GraphProto(), body, [("s", [2]), ("x", [2])], "t c")
    inputs = [("n", ["B"], "int64"), ("s", ["B", 2]), ("x", ["B", "T", 2])]
    settings = {"body": graph, "num_scan_inputs": 1, "directions": directions}
    return node(tmp_path, "Scan", inputs, None, "state out", 8, **settings)


@pytest.mark.parametrize("backwards", [0, 1])
def test_items_of_a_batch_are_scanned_as_far_as_they_go(backwards, tmp_path):
    model = scan_of_batches(tmp_path, [backwards])
    lengths, s, x = np.int64([4, 1, 3]), rand(3, 2), rand(3, 4, 2)
    for function in (model, tk.function(model)):
        results = function({"n": lengths, "s": s, "x": x})
        for i, length in enumerate(lengths):
            steps = x[i, :length][:: -1 if backwards else 1]
            sums = s[i] + np.cumsum(steps, axis=0)
            np.testing.assert_allclose(results["state"][i], sums[-1], rtol=1e-5)
            np.testing.assert_allclose(results["out"][i, :length], sums, rtol=1e-5)
            np.testing.assert_array_equal(results["out"][i, length:], 0)


def test_directions_of_other_inputs_raise(tmp_path):
    with pytest.raises(InvalidArgumentError, match="do not fit 1 scan inputs"):
        scan_of_batches(tmp_path, [0, 1])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
def test_padding_is_no_place_of_the_least_number(tmp_path, dtype):
    least = -np.inf if dtype == "float32" else np.iinfo(dtype).min
    settings = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    inputs = [("x", [1, 1, 4, 4], dtype)]
    model = node(tmp_path, "MaxPool", inputs, outputs="y i", **settings)
    y, places = model({"x": np.full((1, 1, 4, 4), least, dtype)}).values()
    assert y.numpy().ravel().tolist() == [least] * 9
    assert places.numpy().ravel().tolist() == [0, 1, 3, 4, 5, 7, 12, 13, 15]
