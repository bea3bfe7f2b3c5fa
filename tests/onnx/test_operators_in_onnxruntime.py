"""Single operators beside onnxruntime, on random inputs; skipped where it is not installed."""

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import fill_graph, onnx_model
from trainkit.saved_graph.onnx.onnx_messages import GraphProto

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)


def rand(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def compare(op_type, inputs, attributes, tmp_path, version=18, *, known=(), outputs="y"):
    """Run one node in both, with a first input of unknown sizes but those of the axes `known`."""
    while inputs[-1] is None:
        inputs = inputs[:-1]
    names = [f"i{n}" for n in range(len(inputs))]
    used = [name if x is not None else '""' for name, x in zip(names, inputs, strict=True)]
    arrays = {n: np.asarray(x) for n, x in zip(names, inputs, strict=True) if x is not None}
    first = names[0]
    shape = [n if i in known else f"d{i}" for i, n in enumerate(arrays[first].shape)]
    model = onnx_model(
        [(op_type, " ".join(used).replace('""', "-"), outputs, attributes)],
        [(first, shape, arrays[first].dtype.name)],
        outputs,
        {n: x for n, x in arrays.items() if n != first},
        version,
    )
    for i, name in enumerate(model.graph.node[0].input):
        if name == "-":
            model.graph.node[0].input[i] = ""
    for output in model.graph.output:
        output.ClearField("type")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options)
    expected = session.run(None, {first: arrays[first]})[0]
    loaded = tk.onnx.load(path, trainable=False)
    graph_layer = loaded.layers[-1]
    for function in (loaded, graph_layer, tk.function(graph_layer)):
        result = np.asarray(function(tk.constant(arrays[first])))
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)


def random_boxes(batch, count):
    corners = RNG.integers(0, 12, (batch, count, 2, 2)).astype(np.float32)
    return corners.reshape(batch, count, 4)  # in either order, some of them empty


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("least", [None, 0.0, 0.4])
def test_non_max_suppression(center, share, least, tmp_path):
    scores = RNG.integers(0, 5, (2, 3, 20)).astype(np.float32) / 5  # many are equal
    boxes = random_boxes(2, 20)
    boxes = np.abs(boxes) + 1 if center else boxes
    inputs = [boxes, scores, np.int64([5]), np.float32([share])]
    inputs += [] if least is None else [np.float32([least])]
    compare("NonMaxSuppression", inputs, {"center_point_box": center}, tmp_path)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("version", [10, 16])
@pytest.mark.parametrize("ratio", [0, 1, 3])
def test_roi_align(mode, version, ratio, tmp_path):
    regions = RNG.uniform(-4, 24, (6, 2)).astype(np.float32)
    regions = np.concatenate([regions, regions + RNG.uniform(0, 14, (6, 2))], 1).astype(np.float32)
    inputs = [np.abs(rand(2, 3, 9, 11)), regions, np.int64([0, 1, 1, 0, 1, 0])]
    settings = {
        "mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": ratio,
        "spatial_scale": 0.5,
    }  # fmt: skip
    compare("RoiAlign", inputs, settings, tmp_path, version)


@pytest.mark.parametrize("version", [17, 20])
@pytest.mark.parametrize("settings", [{}, {"inverse": 1}, {"onesided": 1}])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 12])
def test_dft(version, settings, parts, length, tmp_path):
    if settings == {"onesided": 1} and parts == 2:
        pytest.skip("the half of a spectrum is that of real numbers")
    inputs = [rand(2, 8, 3, parts), None if length is None else np.int64(length)]
    if version == 17:
        settings = {**settings, "axis": 1}
    else:
        inputs.append(np.int64(1))
    compare("DFT", inputs, settings, tmp_path, version, known=(3,))


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("has_window", [False, True])
def test_stft(onesided, has_window, tmp_path):
    window = rand(8) if has_window else None
    inputs = [rand(2, 31, 1), np.int64(3), window, np.int64(8)]
    compare("STFT", inputs, {"onesided": onesided}, tmp_path, known=(2,))


@pytest.mark.parametrize("bins", [1, 4, 40])
def test_mel_weight_matrix(bins, tmp_path):
    inputs = [np.int64(bins), np.int64(64), np.int64(8000), np.float32(20), np.float32(3900)]
    compare("MelWeightMatrix", inputs, {}, tmp_path)


@pytest.mark.parametrize(
    ("image", "block", "settings"),
    [
        ((6, 7), (2, 3), {}),
        ((6, 7), (2, 3), {"strides": [2, 2], "pads": [1, 0, 0, 2]}),
        ((8, 5), (3, 2), {"dilations": [2, 3]}),
        ((4, 5, 3), (2, 2, 1), {"strides": [1, 2, 1]}),
    ],
)
def test_col2im(image, block, settings, tmp_path):
    count = len(image)
    strides = settings.get("strides", [1] * count)
    rates = settings.get("dilations", [1] * count)
    pads = settings.get("pads", [0] * 2 * count)
    steps = [
        (n + pads[i] + pads[i + count] - (block[i] - 1) * rates[i] - 1) // strides[i] + 1
        for i, n in enumerate(image)
    ]
    x = rand(2, 3 * int(np.prod(block)), int(np.prod(steps)))
    compare("Col2Im", [x, np.int64(image), np.int64(block)], settings, tmp_path)


@pytest.mark.parametrize("shape", [None, (2, 3, 6, 8)])
def test_max_unpool(shape, tmp_path):
    x = rand(2, 3, 3, 4)
    places = RNG.permutation(2 * 3 * 6 * 8)[: x.size].reshape(x.shape)
    inputs = [x, places, None if shape is None else np.int64(shape)]
    settings = {"kernel_shape": [2, 2], "strides": [2, 2]}
    compare("MaxUnpool", inputs, settings, tmp_path)


@pytest.mark.parametrize(
    ("groups", "offset_groups", "settings"),
    [
        (1, 1, {}),
        (2, 1, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        (1, 2, {"dilations": [2, 1], "pads": [1, 1, 1, 1]}),
        (2, 4, {"strides": [1, 2]}),
    ],
)
@pytest.mark.parametrize("has_mask", [False, True])
def test_deform_conv(groups, offset_groups, settings, has_mask, tmp_path):
    x, kernel = rand(2, 4, 7, 8), rand(6, 4 // groups, 3, 2)
    pads = settings.get("pads", [0] * 4)
    strides, rates = settings.get("strides", [1, 1]), settings.get("dilations", [1, 1])
    outs = [
        (n + pads[i] + pads[i + 2] - (k - 1) * rates[i] - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip((7, 8), (3, 2), strict=True))
    ]
    offsets = 2 * rand(2, offset_groups * 12, *outs)
    mask = np.abs(rand(2, offset_groups * 6, *outs)) if has_mask else None
    settings = {**settings, "group": groups, "offset_group": offset_groups}
    inputs = [x, kernel, offsets, rand(6) if has_mask else None, mask]
    compare("DeformConv", inputs, settings, tmp_path, 19, known=(1,))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(axis, is_sorted, tmp_path):
    settings = {"sorted": is_sorted} | ({} if axis is None else {"axis": axis})
    x = np.float32([[2, 1, 1, 2], [2, 1, 1, 2], [0, 3, 3, 0]])
    compare("Unique", [x], settings, tmp_path)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("mode", ["cubic", "linear", "nearest"])
def test_grid_sample(padding, corners, mode, tmp_path):
    grid = RNG.uniform(-2, 2, (2, 4, 5, 2)).astype(np.float32)
    settings = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    compare("GridSample", [rand(2, 3, 6, 7), grid], settings, tmp_path, 20)


@pytest.mark.parametrize("target", [(9, 7), (10, 8), (8, 6), (7, 5)])
@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolutions_reach_a_shape(target, auto, tmp_path):
    settings = {"strides": [3, 2], "output_shape": list(target), "auto_pad": auto}
    inputs = [rand(2, 1, 3, 3), rand(1, 2, 3, 3)]
    compare("ConvTranspose", inputs, settings, tmp_path, known=(2, 3))


@pytest.mark.parametrize("lengths", [None, [4, 1, 3]])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_of_opset_8(lengths, backwards, tmp_path):
    nodes = [("Add", "s x", "t", {}), ("Mul", "t x", "out", {}), ("Identity", "t", "copy", {})]
    body = fill_graph(GraphProto(), nodes, [("s", [2]), ("x", [2])], "copy out")
    body.name = "body"
    for output in body.output:
        output.type.tensor_type.shape.dim.add(dim_value=2)
    settings = {"body": body, "num_scan_inputs": 1, "directions": [backwards]}
    node = ("Scan", "n s x" if lengths else "- s x", "state out", settings)
    inputs = [("s", ["B", 2]), ("x", ["B", "T", 2])]
    inputs += [("n", ["B"], "int64")] if lengths else []
    model = onnx_model([node], inputs, "state out", {}, 8)
    model.ir_version = 3
    for i, name in enumerate(model.graph.node[0].input):
        model.graph.node[0].input[i] = "" if name == "-" else name
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    values = {"s": rand(3, 2), "x": rand(3, 4, 2)} | ({"n": np.int64(lengths)} if lengths else {})
    expected = onnxruntime.InferenceSession(path).run(None, values)
    results = tk.onnx.load(path)(values)
    for name, y in zip(("state", "out"), expected, strict=True):
        np.testing.assert_allclose(results[name], y, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_local_response_normalization(size, tmp_path):
    settings = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}
    compare("LRN", [rand(2, 5, 3, 4)], settings, tmp_path, known=(1,))


def test_local_response_normalization_over_an_even_number_of_channels(tmp_path):
    # which onnxruntime refuses: the specification counts one more channel behind than before
    settings = {"size": 4, "alpha": 0.8, "beta": 0.5, "bias": 2.0}
    model = onnx_model(
        [("LRN", "x", "y", settings)], [("x", ["n", 5, 3, 4], "float32")], "y", {}, 18
    )
    path, x = tmp_path / "m.onnx", rand(2, 5, 3, 4)
    path.write_bytes(model.SerializeToString())
    squares = np.pad(x**2, ((0, 0), (1, 2), (0, 0), (0, 0)))
    total = sum(squares[:, i : i + 5] for i in range(4))
    result = np.asarray(tk.onnx.load(path, trainable=False)(tk.constant(x)))
    np.testing.assert_allclose(result, x / np.sqrt(2.0 + 0.2 * total), rtol=1e-5)
