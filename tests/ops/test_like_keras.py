"""What operations take and give in Keras, where they took or gave something else."""

import typing

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops
from trainkit.keras import Input, KerasTensor, Model

RNG = np.random.default_rng(3)


def test_no_door_shows_what_it_imports_for_itself():
    hidden = (typing.Any, typing.Callable)
    for door in (ops, ops.numpy, ops.nn, ops.image, ops.linalg):
        assert not [n for n in dir(door) if n[0] != "_" and getattr(door, n) in hidden]


# ------------------------------------------------------------------ functions that were missing


def test_column_stack():
    x, y = np.array([1, 2]), np.array([[3, 4], [5, 6]])
    for pair in ([x, x], [x, y], [y, y]):
        assert np.array_equal(ops.column_stack(pair), np.column_stack(pair))
    assert ops.column_stack([KerasTensor((None,)), KerasTensor((None, 2))]).shape == (None, 3)
    assert ops.numpy.column_stack is ops.column_stack


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power(n):
    x = RNG.normal(size=(2, 3, 3))
    assert np.allclose(ops.matrix_power(x, n), np.linalg.matrix_power(x, n))
    compiled = tk.function(lambda a: ops.linalg.matrix_power(a, n))
    assert np.allclose(compiled(tk.constant(x)), np.linalg.matrix_power(x, n))
    assert ops.matrix_power(KerasTensor((None, 4, 4)), n).shape == (None, 4, 4)


def test_matrix_power_refuses_other_numbers_and_matrices():
    with pytest.raises(TypeError, match="matrix_power"):
        ops.matrix_power(np.eye(2), 1.5)
    with pytest.raises(ValueError, match="square"):
        ops.matrix_power(np.ones((2, 3)), 2)


def test_gammainc():
    assert float(ops.gammainc(1.0, 2.0)) == pytest.approx(1 - np.exp(-2))
    assert ops.gammainc(KerasTensor((2, 1)), KerasTensor((3,))).shape == (2, 3)
    assert ops.gammainc(np.int8(1), np.float16(2)).dtype == "float16"


def test_jvp_and_vectorize_stand_in_their_modules():
    value, slope = ops.linalg.jvp(ops.sin, (0.1,), (0.2,))
    assert float(slope) == pytest.approx(0.2 * np.cos(0.1))
    assert float(value) == pytest.approx(np.sin(0.1))
    assert ops.numpy.vectorize(lambda x: x + 1)(ops.ones((2,))).numpy().tolist() == [2, 2]


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize(
    ("shape", "size", "padding"),
    [
        ((2, 6, 9, 3), 3, "valid"),
        ((2, 7, 9, 1), (4, 3), "same"),
        ((6, 4, 2), (3, 2), "valid"),
        ((1, 4, 6, 5, 2), (2, 3, 4), "same"),
    ],
)
def test_patches_are_put_together_again(shape, size, padding, layout):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    axes = 2 if isinstance(size, int) else len(size)
    if layout == "channels_first":
        x = np.moveaxis(x, -1, -1 - axes)
    settings = {"padding": padding, "data_format": layout}
    parts = ops.image.extract_patches(x, size, **settings)
    spatial = x.shape[-axes:] if layout == "channels_first" else x.shape[-1 - axes : -1]
    whole = ops.image.reconstruct_patches(parts, size, spatial, **settings)
    assert np.array_equal(whole, x)
    symbol = KerasTensor((*[None] * (len(shape) - axes - 1), *parts.shape[-axes - 1 :]))
    found = ops.image.reconstruct_patches(symbol, size, spatial, **settings)
    assert found.shape[-axes - 1 :] == x.shape[-axes - 1 :]


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (TypeError, {"size": "5"}),
        (TypeError, {"output_size": 20}),
        (ValueError, {"size": (5,)}),
        (ValueError, {"output_size": (20, 25)}),
        (ValueError, {"output_size": (30, 20), "padding": "same"}),
        (ValueError, {"padding": "full"}),
        (ValueError, {"size": (4, 4), "output_size": (16, 16)}),
        (NotImplementedError, {"strides": 2}),
    ],
)
def test_patches_that_do_not_fit_are_refused(error, changes):
    arguments = {"size": (5, 5), "output_size": (20, 20), **changes}
    for patches in (np.zeros((1, 4, 4, 75), "float32"), KerasTensor((None, 4, 4, 75))):
        with pytest.raises(error, match="reconstruct_patches"):
            ops.image.reconstruct_patches(patches, **arguments)


# ------------------------------------------------------------------ arguments


def test_arguments_of_keras():
    values, places = ops.top_k(np.array([3.0, 5.0, 5.0]), 2, is_stable=True)
    assert (values.numpy().tolist(), places.numpy().tolist()) == ([5, 5], [1, 2])
    assert ops.multi_hot([1, 2], num_tokens=3).numpy().tolist() == [0, 1, 1]
    with pytest.raises(TypeError, match="num_classes"):
        ops.multi_hot([1])
    assert ops.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((3, 2)), optimize="greedy").shape == (
        2,
        2,
    )
    with pytest.raises(TypeError, match="optimise"):
        ops.einsum("ij->i", np.ones((2, 3)), optimise=True)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    with pytest.warns(UserWarning, match="rms_scaling"):
        y = ops.layer_normalization(x, np.full(3, 2.0, "float32"), rms_scaling=True)
    assert np.allclose(y, 2 * x / np.sqrt(x.var(-1, keepdims=True) + 1e-7), rtol=1e-4)
    assert keras.regularizers.l1_l2 is keras.regularizers.L1L2
    assert keras.regularizers.l1_l2().get_config() == {"l1": 0.0, "l2": 0.0}


def test_lengths_of_windows_may_be_floats():
    for make in (ops.bartlett, ops.blackman, ops.hamming, ops.hanning):
        assert np.allclose(make(np.float32(4)), make(4))
    assert ops.kaiser(5.0, 2.0).shape == (5,)
    with pytest.raises(ValueError, match="bartlett"):
        ops.bartlett("4")


def test_counts_of_eye_are_integers():
    for wrong in (3.0, np.float32(3), ops.array(3, dtype="bfloat16")):
        with pytest.raises(TypeError, match="integer"):
            ops.eye(wrong)
        with pytest.raises(TypeError, match="integer"):
            ops.eye(3, wrong)
    assert ops.eye(np.int8(2), ops.array(3)).shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.reshape(x, (-2, 3)),
        lambda x: ops.reshape(x, (-1, -1)),
        lambda x: ops.roll(x, [1, 2, 3], axis=[0, 1]),
        lambda x: ops.softmax(x, axis=2),
        lambda x: ops.log_softmax(x, axis=-3),
        lambda x: ops.sparsemax(x, axis=2),
    ],
)
def test_what_does_not_fit_is_refused_with_and_without_values(call):
    for x in (ops.ones((2, 3)), KerasTensor((2, 3)), ops.ones((0, 3))):
        with pytest.raises(ValueError, match=r"reshape|roll|axis"):
            call(x)


def test_coordinates_need_an_axis_of_places():
    with pytest.raises(ValueError, match="two axes"):
        ops.image.map_coordinates(np.ones((2, 2, 2)), np.ones(3), 0)
    with pytest.raises(TypeError, match="extract_patches_3d"):
        ops.image.extract_patches_3d(np.ones((1, 4, 4, 4, 1)), (2, 2))


# ------------------------------------------------------------------ empty tensors, dtypes


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_softmax_of_empty_tensors(shape, axis, dtype):
    wanted = "float32" if dtype == "int32" else dtype
    for op in (ops.softmax, ops.log_softmax):
        y = op(ops.zeros(shape, dtype), axis=axis)
        assert (tuple(y.shape), y.dtype) == (shape, wanted)
        compiled = tk.function(lambda x, op=op: op(x, axis=axis))(ops.zeros(shape, dtype))
        assert compiled.shape == shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_normalization_keeps_the_dtype_of_its_input(dtype):
    x, scale = ops.ones((2, 4), dtype), np.ones(4, "float32")
    assert ops.rms_normalization(x, scale).dtype == dtype
    assert ops.rms_normalization(x, keras.Variable(scale)).dtype == dtype
    assert ops.layer_normalization(x, scale, scale).dtype == dtype


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("bfloat16", "int16", "bfloat16"),
        ("float16", "int32", "float16"),
        ("int8", "int8", "float32"),
    ],
)
def test_distances_promote_their_inputs_together(one, other, wanted):
    assert ops.cdist(ops.ones((2, 3), one), ops.ones((4, 3), other)).dtype == wanted


def test_float_labels_count_as_classes():
    labels = np.array([0.0, 2.0, 1.0])
    assert ops.one_hot(labels, 3).numpy().argmax(-1).tolist() == [0, 2, 1]
    assert ops.one_hot(KerasTensor((None, 3)), 5, axis=1).shape == (None, 5, 3)


def test_symbols_without_a_dtype_of_their_own_may_stand_for_positions():
    x, places = KerasTensor((4, 5)), KerasTensor((3,))
    assert ops.take(x, places, axis=0).shape == (3, 5)
    assert ops.scatter(KerasTensor((5, 2)), KerasTensor((5,)), (4, 4)).shape == (4, 4)
    assert ops.in_top_k(KerasTensor((None,)), KerasTensor((None, 10)), k=1).shape == (None,)
    with pytest.raises(ValueError, match="integers"):
        ops.take(np.ones(3), np.array([0.5]))


def test_running_sums_without_nan_take_one_axis_in_a_tuple():
    x = np.array([[1.0, np.nan], [3.0, 4.0]])
    for op, plain in ((ops.nancumsum, np.nancumsum), (ops.nancumprod, np.nancumprod)):
        assert np.array_equal(op(x, axis=(1,)), plain(x, axis=1))
        assert op(x, axis=()).shape == (2, 2)


# ------------------------------------------------------------------ images


IMAGES = RNG.random((2, 6, 7, 3)).astype("float32")
SIZES = {
    "resize": lambda x: ops.image.resize(x, (5, 4)),
    "resize, cropped": lambda x: ops.image.resize(x, (5, 4), crop_to_aspect_ratio=True),
    "resize, framed": lambda x: ops.image.resize(x, (5, 4), pad_to_aspect_ratio=True),
    "crop_images": lambda x: ops.image.crop_images(x, 1, 1, target_height=3, target_width=2),
    "pad_images": lambda x: ops.image.pad_images(x, 1, 1, target_height=9, target_width=12),
    "pad_images by margins": lambda x: ops.image.pad_images(x, 1, 2, 3, 4),
    "gaussian_blur": ops.image.gaussian_blur,
    "affine_transform": lambda x: ops.image.affine_transform(x, [[1.0, 0, 1, 0, 1, 0, 0, 0]] * 2),
}


@pytest.mark.parametrize("case", SIZES)
def test_images_of_unknown_sizes(case):
    call = SIZES[case]
    wanted = call(IMAGES)
    x = Input((None, None, 3))
    model = Model(x, call(x))
    assert np.allclose(model(IMAGES), wanted, atol=1e-6)
    assert np.allclose(model.predict(IMAGES, verbose=0), wanted, atol=1e-6)
    assert np.allclose(Model.from_config(model.get_config())(IMAGES), wanted, atol=1e-6)
    compiled = tk.function(call, input_signature=[tk.TensorSpec((None, None, None, 3))])
    assert np.allclose(compiled(IMAGES), wanted, atol=1e-6)


def test_gradients_through_images_of_unknown_sizes():
    v = tk.Variable(IMAGES)

    def loss(x):
        return ops.sum(ops.image.resize(x, (3, 4)) ** 2)

    compiled = tk.function(loss, input_signature=[tk.TensorSpec((None, None, None, 3))])
    found = []
    for f in (loss, compiled):
        with tk.GradientTape() as tape:
            y = f(v)
        found.append(tape.gradient(y, v).numpy())
    assert np.allclose(*found, atol=1e-6)


@pytest.mark.parametrize("op", [ops.image.crop_images, ops.image.pad_images])
def test_margins_of_unknown_sizes_must_fit(op):
    kind = "cropping" if op is ops.image.crop_images else "padding"
    for wrong in (
        {},
        {"target_height": 3},
        {f"top_{kind}": 1, f"bottom_{kind}": 1, "target_height": 5, "target_width": 2},
        {f"top_{kind}": -1, "target_height": 3, f"left_{kind}": 1, "target_width": 2},
        {f"top_{kind}": 1, "target_height": 0, f"left_{kind}": 1, "target_width": 2},
    ):
        with pytest.raises(ValueError, match=r"_images"):
            op(KerasTensor((None, None, 3)), **wrong)


def test_the_blur_takes_the_width_first():
    dot = np.zeros((7, 7, 1), "float32")
    dot[3, 3] = 1
    flat = ops.image.gaussian_blur(dot, np.array([3, 3]), np.array([0.1, 5.0])).numpy()[..., 0]
    assert flat[:, 3].tolist()[2:5] == pytest.approx([1 / 3] * 3, abs=0.01)
    assert flat[3, 2] == pytest.approx(0, abs=1e-6)


def test_tensorflows_images_have_their_channels_last_whatever_keras_is_told():
    known = {
        name: call(IMAGES)
        for name, call in {
            "gray": tk.image.rgb_to_grayscale,
            "hsv": tk.image.rgb_to_hsv,
            "rgb": tk.image.hsv_to_rgb,
            "small": lambda x: tk.image.resize(x, (3, 3)),
            "edges": tk.image.sobel_edges,
            "hue": lambda x: tk.image.adjust_hue(x, 0.1),
        }.items()
    }
    keras.config.set_image_data_format("channels_first")
    try:
        assert np.array_equal(tk.image.rgb_to_grayscale(IMAGES), known["gray"])
        assert np.array_equal(tk.image.rgb_to_hsv(IMAGES), known["hsv"])
        assert np.array_equal(tk.image.hsv_to_rgb(IMAGES), known["rgb"])
        assert np.array_equal(tk.image.resize(IMAGES, (3, 3)), known["small"])
        assert np.array_equal(tk.image.sobel_edges(IMAGES), known["edges"])
        assert np.array_equal(tk.image.adjust_hue(IMAGES, 0.1), known["hue"])
        patches = tk.image.extract_patches(
            IMAGES, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"
        )
        assert patches.shape == (2, 3, 3, 12)
    finally:
        keras.config.set_image_data_format("channels_last")


# ------------------------------------------------------------------ numbers


def test_each_nan_is_different_and_the_inverse_has_the_shape_of_the_input():
    x = np.array([[3.0, 1.0], [1.0, np.nan], [np.nan, 3.0]], "float32")
    values, first, inverse, counts = ops.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    assert np.array_equal(values, [1, 3, np.nan, np.nan], equal_nan=True)
    assert (first.numpy().tolist(), counts.numpy().tolist()) == ([1, 0, 3, 4], [2, 2, 1, 1])
    assert inverse.numpy().tolist() == [[1, 0], [0, 2], [3, 1]]
    assert np.array_equal(ops.take(values, inverse), x, equal_nan=True)
    assert ops.unique(x, axis=0, return_inverse=True)[1].shape == (3,)
    symbols = ops.unique(KerasTensor((None, 3)), return_inverse=True)
    assert [tuple(s.shape) for s in symbols] == [(None,), (None, 3)]


def test_grids_of_tensors_with_more_axes():
    x, y = np.arange(4.0).reshape(2, 2), np.arange(3.0)
    for indexing in ("xy", "ij"):
        for found, wanted in zip(
            ops.meshgrid(x, y, indexing=indexing), np.meshgrid(x, y, indexing=indexing), strict=True
        ):
            assert np.array_equal(found, wanted)
    assert ops.meshgrid(KerasTensor((None, 3)), KerasTensor((2, 3)))[0].shape == (6, None)


def test_bins_of_nothing_of_bools_and_with_weights():
    nothing = np.zeros((0,), "int32")
    assert ops.bincount(nothing).shape == (0,)
    assert ops.bincount(nothing, minlength=3).numpy().tolist() == [0, 0, 0]
    assert ops.bincount(np.zeros((2, 0), "int32"), minlength=2).shape == (2, 2)
    assert ops.bincount(np.zeros((0, 2), "int32"), minlength=2).shape == (0, 2)
    assert ops.bincount(np.array([True, False, True])).numpy().tolist() == [1, 2]
    x = np.array([1, 0, 1], "int32")
    for kind, wanted in (("int8", "int32"), ("bool", "int32"), ("float16", "float16")):
        counts = ops.bincount(x, weights=np.array([1, 1, 1]).astype(kind))
        assert counts.dtype == wanted
        assert counts.numpy().tolist() == [1, 2]


def test_moments_of_short_floats_stay_finite():
    x = np.array([0, 60000] * 4, "float16")
    mean, variance = ops.moments(x, axes=[0])
    assert float(mean) == 30000
    assert float(variance) == np.finfo("float16").max
    assert ops.moments(ops.cast(x, "bfloat16"), axes=[0])[1].dtype == "bfloat16"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_spread_of_nothing_keeps_the_dtype(dtype):
    wanted = "float32" if dtype == "int32" else dtype
    for op in (ops.var, ops.std):
        assert op(ops.zeros((0, 3), dtype), axis=0).dtype == wanted
        assert np.isnan(op(ops.zeros((0,), dtype)).numpy().astype("float32"))


def test_soft_shrink_of_nan_is_0_as_in_keras():
    x = np.array([np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5], "float32")
    for shape in (x, np.tile(x, 4000)):
        found = ops.soft_shrink(shape).numpy()[:6]
        assert found.tolist() == [0, np.inf, -np.inf, 0.5, -0.5, 0]
    assert np.array_equal(tk.function(ops.soft_shrink)(x), ops.soft_shrink(x))


@pytest.mark.parametrize("order", [0, -1, 2.5, "a", float("inf"), True])
def test_orders_of_normalize_are_whole_numbers(order):
    with pytest.raises(ValueError, match="order"):
        ops.normalize(np.ones(3, "float32"), order=order)


@pytest.mark.parametrize("dtype", ["int32", "float16", "bool"])
def test_signals_are_floats(dtype):
    with pytest.raises(TypeError, match="stft"):
        ops.stft(np.ones(8).astype(dtype), 4, 2, 4)


def test_cuts_lie_within_the_axis_and_rise():
    x = np.arange(4)
    for wrong in ([3, 9], [2, 1], [5]):
        for given in (x, KerasTensor((4,))):
            with pytest.raises(ValueError, match="cuts"):
                ops.split(given, wrong)
    assert [p.numpy().tolist() for p in ops.split(x, [0, 4, -1][:2])] == [[], [0, 1, 2, 3], []]
    assert [p.numpy().tolist() for p in ops.split(x, [1, -1])] == [[0], [1, 2], [3]]


@pytest.mark.parametrize("sizes", [[1, 2], [3, 2], [5, -2], [2, 2, 1]])
def test_sizes_of_pieces_add_up(sizes):
    with pytest.raises(ValueError, match="split"):
        tk.split(tk.constant([1, 2, 3, 4]), sizes)


@pytest.mark.parametrize("sizes", [[1, -1], [-1, 2], [1, -1, 1], [2, 2]])
def test_pieces_of_an_axis_of_unknown_size(sizes):
    x = tk.constant([1.0, 2.0, 3.0, 4.0])
    compiled = tk.function(lambda a: tk.split(a, sizes), input_signature=[tk.TensorSpec((None,))])
    for found, wanted in zip(compiled(x), tk.split(x, sizes), strict=True):
        assert np.array_equal(found, wanted)


def test_powers_of_integer_matrices_are_integers():
    x = np.array([[1, 2], [3, 4]], "int32")
    assert ops.matrix_power(x, 3).dtype == "int32"
    assert np.array_equal(ops.matrix_power(x, 3), np.linalg.matrix_power(x, 3))
    assert ops.matrix_power(x, -1).dtype == "float32"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ctc_gives_float32_for_short_floats(dtype):
    wanted = dtype if dtype == "float64" else "float32"
    logits = ops.cast(RNG.normal(size=(2, 4, 3)), dtype)
    loss = ops.ctc_loss(np.array([[1], [2]]), logits, [1, 1], [4, 3], mask_index=0)
    assert loss.dtype == wanted
    assert ops.ctc_decode(logits, [4, 3], strategy="greedy")[1].dtype == wanted


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_shares_may_be_symbols(name):
    op, x = getattr(ops, name), Input((3,))
    assert op(x, KerasTensor((2,)), axis=1, keepdims=True).shape == (2, None, 1)
    q = Input(batch_shape=(2,))
    model = Model([x, q], op(x, q, axis=1))
    values = RNG.random((4, 3)).astype("float32")
    shares = np.array([0.25, 0.5], "float32")
    assert np.allclose(model([values, shares]), op(values, shares, axis=1), atol=1e-6)
    compiled = tk.function(lambda a, b: op(a, b, axis=1))
    assert np.allclose(
        compiled(tk.constant(values), tk.constant(shares)), op(values, shares, axis=1)
    )


# ------------------------------------------------------------------ random numbers, constraints


def test_seed_generators_are_made_from_their_config():
    made = keras.random.SeedGenerator(seed=42, name="seeds")
    config = keras.saving.serialize_keras_object(made)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == made.get_config() == {"seed": 42, "name": "seeds"}
    assert np.array_equal(again.next(), made.next())
    with pytest.raises(ValueError, match="sead"):
        keras.random.SeedGenerator(sead=1)


def test_random_integers_have_an_integer_dtype():
    with pytest.raises(ValueError, match="integer"):
        keras.random.randint((2,), 0, 4, dtype="float32")


def test_the_base_of_constraints_changes_nothing():
    w = ops.ones((2,))
    assert keras.constraints.Constraint()(w) is w


def test_crops_of_an_unknown_height_need_a_target():
    with pytest.raises(ValueError, match="target_height"):
        ops.image.crop_images(KerasTensor((None, 10, 3)), 2, 3, 4, 5)
    assert ops.image.pad_images(KerasTensor((None, 10, 3)), 2, 3, 4, 5).shape == (None, 18, 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scaled_images_keep_their_float(dtype):
    found = ops.image.scale_and_translate(
        ops.ones((4, 4, 1), dtype), (2, 2, 1), [0.5, 0.5], [0.0, 0.0], (0, 1), "linear"
    )
    assert found.dtype == dtype


@pytest.mark.parametrize("name", ["cbrt", "deg2rad", "rad2deg", "i0", "hypot", "heaviside"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint32", "bool", "float16"])
def test_what_float32_does_not_hold_becomes_float64(name, dtype):
    operation = getattr(ops, name)
    x = ops.cast([1, 0, 1], dtype)
    operands = (x, x) if name in ("hypot", "heaviside") else (x,)
    result_dtype = {"int64": "float64", "float16": "float16"}.get(dtype, "float32")
    y = operation(*operands)
    assert y.dtype == result_dtype
    assert operation(*(KerasTensor(a.shape, a.dtype) for a in operands)).dtype == result_dtype
    compiled = tk.function(operation)(*operands)
    assert compiled.dtype == result_dtype
    exact = operation(*(ops.cast(a, "float64") for a in operands))
    tolerance = 1e-3 if dtype == "float16" else 1e-7
    assert np.allclose(y, exact, rtol=tolerance)
    assert np.array_equal(y, compiled)


def test_whole_numbers_beyond_float32_keep_their_digits():
    large = tk.constant([2**53 - 1, -(2**53) + 1], "int64")
    assert ops.heaviside(0, large).numpy().tolist() == [2**53 - 1, -(2**53) + 1]
    assert ops.hypot(tk.constant([3], "uint32"), tk.constant([4], "int8")).dtype == "float64"
    assert ops.hypot(tk.constant([3], "int64"), tk.constant([4.0])).dtype == "float32"
    assert ops.corrcoef(tk.constant([[1, 2, 4], [3, 1, 0]], "int64")).dtype == "float64"
    assert ops.corrcoef(tk.constant([[1, 2, 4], [3, 1, 0]], "int32")).dtype == "float32"


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap"])
def test_coordinates_in_the_middle_take_the_even_pixel(mode):
    x = np.arange(12, dtype="float32").reshape(3, 4)
    places = np.array([[0.5, 1.5, 0.49, 0.51], [0.5, 1.5, 1.0, 2.5]], "float32")
    assert ops.image.map_coordinates(x, places, 0, mode).numpy().tolist() == [0, 10, 1, 6]


def test_a_loop_over_numbers_gives_tensors():
    for steps in (0, 3):
        total, (count, rows) = ops.fori_loop(
            0, steps, lambda i, v: (v[0] + i, v[1]), (1, [2.0, np.ones(2)])
        )
        assert all(isinstance(t, tk.Tensor) for t in (total, count, rows))
        assert (total.dtype, count.dtype, rows.shape) == ("int32", "float32", (2,))
        assert int(total) == 1 + sum(range(steps))
    array = ops.fori_loop(0, 2, lambda i, a: a.write(i, i), tk.TensorArray("int32", 2))
    assert array.stack().numpy().tolist() == [0, 1]
