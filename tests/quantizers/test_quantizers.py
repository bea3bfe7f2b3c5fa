"""Numbers in few bits: scales, zero points, packing, floats of 8 bits."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from trainkit import quantizers
from trainkit.quantizers import fake_quantization, zero_points

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("axis", [-1, 0, (0, 2), [1]])
@pytest.mark.parametrize("on_host", [False, True])
def test_integers_over_their_scale_are_near(dtype, axis, on_host):
    x = tk.cast(RNG.normal(size=(3, 4, 5)), dtype)
    integers, scale = quantizers.AbsMaxQuantizer()(x, axis=axis, to_numpy=on_host)
    assert (integers.dtype, scale.dtype) == ("int8", dtype)
    axes = (axis,) if isinstance(axis, int) else axis
    assert tuple(scale.shape) == tuple(
        1 if i in [a % 3 for a in axes] else n for i, n in enumerate((3, 4, 5))
    )
    near = integers.numpy().astype("float64") / scale.numpy().astype("float64")
    step = 1 / scale.numpy().astype("float64")
    slack = 1e-2 if dtype in ("float16", "bfloat16") else 1e-6
    assert np.all(
        np.abs(near - x.numpy().astype("float64")) <= step * (0.5 + slack) + 64 * slack * step
    )


def test_zeros_have_a_finite_scale():
    integers, scale = quantizers.abs_max_quantize(np.zeros((2, 3), "float32"), axis=-1)
    assert not integers.numpy().any()
    assert np.isfinite(scale).all()


@pytest.mark.parametrize(("rows", "block"), [(8, 4), (10, 4), (3, 128), (256, 128)])
@pytest.mark.parametrize("on_host", [False, True])
def test_groups_have_scales_and_zero_points(rows, block, on_host):
    x = RNG.normal(size=(rows, 6)).astype("float32")
    x[::2], x[1::2] = abs(x[::2]), -abs(x[1::2])  # every group holds 0 in its range
    integers, scale, zero = quantizers.abs_max_quantize_grouped_with_zero_point(
        x, block, to_numpy=on_host
    )
    groups = -(-rows // block)
    assert scale.shape == zero.shape == (groups, 6)
    assert zero.dtype == "int8"
    with tk.device(scale.device):  # where the groups of the rows go
        back = zero_points.dequantize_with_sz_map(
            integers, scale, zero, np.arange(rows) // block, group_axis=0
        )
    step = np.repeat(scale.numpy(), block, axis=0)[:rows]
    assert np.all(np.abs(back.numpy() - x) <= 1.01 * step)


def test_a_group_of_equal_numbers_comes_back():
    x = np.full((8, 3), 0.5, "float32")
    integers, scale, zero = quantizers.abs_max_quantize_grouped_with_zero_point(x, 8)
    back = (integers.numpy() - zero.numpy()) * scale.numpy()
    np.testing.assert_allclose(back, x, atol=0.07)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(1, 2, 3), (4, 5, 6), (9, 1, 7)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("bits", [2, 4])
def test_what_is_packed_comes_back(axis, shape, dtype, bits):
    low = -(2 ** (bits - 1)) if dtype == "int8" else 0
    x = RNG.integers(low, low + 2**bits, shape).astype(dtype)
    pack, unpack = getattr(quantizers, f"pack_int{bits}"), getattr(quantizers, f"unpack_int{bits}")
    packed, packed_shape, length = pack(tk.constant(x), axis=axis, dtype=dtype)
    assert packed.dtype == dtype
    assert tuple(packed.shape) == tuple(packed_shape)
    assert packed.shape[axis] == -(-shape[axis] * bits // 8)
    np.testing.assert_array_equal(unpack(packed, length, axis=axis, dtype=dtype), x)


def test_every_byte_means_what_keras_says():
    x = np.array([[-3, 7], [2, -8], [1, 0]], np.int8)
    np.testing.assert_array_equal(quantizers.pack_int4(x)[0], [[45, -121], [1, 0]])
    np.testing.assert_array_equal(
        quantizers.pack_int4(x.T, axis=1)[0].numpy().T, [[45, -121], [1, 0]]
    )
    y = np.array([[-2, 1], [0, -1], [1, -2], [0, 1], [-1, 0]], np.int8)
    np.testing.assert_array_equal(quantizers.pack_int2(y)[0], [[18, 109], [3, 0]])
    z = np.array([[1], [0], [-1], [1], [0], [-1]])
    np.testing.assert_array_equal(quantizers.pack_ternary(z)[0], [[2 + 3 + 54 + 81], [120]])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_signs_and_zeros_come_back(axis):
    x = RNG.integers(-1, 2, (7, 11))
    packed, shape, length = quantizers.pack_ternary(x, axis=axis)
    assert packed.dtype == "uint8"
    assert shape[axis] == -(-x.shape[axis] // 5)
    np.testing.assert_array_equal(quantizers.unpack_ternary(packed, length, axis=axis), x)


def test_wrong_types_are_refused_with_those_that_fit():
    with pytest.raises(ValueError, match="int8' or 'uint8', got 'int16'"):
        quantizers.pack_int4(np.zeros(2, "int16"), dtype="int16")
    with pytest.raises(TypeError, match="int8, got int32"):
        quantizers.pack_int2(np.zeros(2, "int32"))
    with pytest.raises(TypeError, match="int8 or uint8, got float32"):
        quantizers.unpack_int4(tk.zeros(2), 4)
    with pytest.raises(ValueError, match="value_range"):
        quantizers.AbsMaxQuantizer(value_range=(-300, 300))
    with pytest.raises(ValueError, match=r"float8_e4m3fn.*got 'float7'"):
        quantizers.quantize_and_dequantize(tk.zeros(2), 1.0, "float7", "float32")


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_floats_of_8_bits_are_those_of_ml_dtypes(kind, dtype):
    most = float(ml_dtypes.finfo(kind).max)
    x = RNG.normal(size=20000) * 10.0 ** RNG.integers(-8, 5, 20000)
    ties = np.arange(-17, 18) / 16 * 2.0 ** RNG.integers(-9, 6, 35)
    x = tk.cast(np.concatenate([x, ties, [0.0, most, -most, most * 1.04, 2.0**-30]]), dtype)
    wide = x.numpy().astype("float64" if dtype == "float64" else "float32")
    wanted = np.clip(wide, -most, most).astype(kind).astype("float64")
    got = quantizers.quantize_and_dequantize(x, 1.0, kind, dtype)
    np.testing.assert_array_equal(got.numpy().astype("float64"), wanted)


def test_the_gradient_passes_through_8_bits_where_nothing_is_clipped():
    x = tk.constant([0.3, 1000.0, -2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = quantizers.quantize_and_dequantize(x, 0.5, "float8_e4m3fn", "float32")
    np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 0.0, 1.0])


def test_scale_and_history_of_float8():
    np.testing.assert_allclose(quantizers.compute_float8_scale(3.0, 4.0, 448.0), 3 / 448, rtol=1e-6)
    for amax in (0.0, np.inf, np.nan):
        np.testing.assert_allclose(quantizers.compute_float8_scale(amax, 4.0, 448.0), 4.0)
    history = quantizers.compute_float8_amax_history([[-7.0, 2.0]], tk.constant([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(history, [7.0, 3.0, 1.0])


# ------------------------------------------------------------------ fake quantization


def keras_like(x, low, high, bits, narrow):
    """The formula in float32, written with loops."""
    least, most = int(narrow), 2**bits - 1
    scale = np.float32(high - low) / np.float32(most - least)
    zero = np.floor(np.clip(least - low / scale, least, most) + 0.5)
    start, end = (least - zero) * scale, (most - zero) * scale
    steps = np.floor((np.clip(x, start, end) - start) / scale + 0.5)
    return steps * scale + start, start, end


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-1.3, 2.1), (0.0, 6.0), (-2.0, -0.5), (0.4, 1.7)])
def test_fake_quantization_and_its_gradients(bits, narrow, low, high):
    x = tk.constant(RNG.normal(size=(40,)).astype("float32") * 3)
    ends = tk.Variable(low), tk.Variable(high)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = quantizers.fake_quant_with_min_max_vars(x, *ends, bits, narrow)
        total = tk.reduce_sum(y * tk.range(40.0))
    wanted, start, end = keras_like(x.numpy(), np.float32(low), np.float32(high), bits, narrow)
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    by_x, by_low, by_high = tape.gradient(total, [x, *ends])
    weights = np.arange(40.0)
    below, above = x.numpy() < start, x.numpy() > end
    np.testing.assert_allclose(by_x, weights * ~(below | above))
    np.testing.assert_allclose(by_low, weights[below].sum())
    np.testing.assert_allclose(by_high, weights[above].sum())


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [5, 5000])  # fused loops begin between the two
def test_channels_have_intervals_of_their_own(axis, size):
    shape = [size, 4] if axis == 0 else [4, size]
    channels = shape[axis]
    x = tk.constant(RNG.normal(size=shape).astype("float32"))
    low = -np.linspace(0.5, 2, channels, dtype="float32")
    high = np.linspace(0.3, 3, channels, dtype="float32")

    def run(x):
        return quantizers.fake_quant_with_min_max_vars(x, low, high, axis=axis)

    y = run(x).numpy()
    for i in range(0, channels, max(1, channels // 5)):
        at = (i, slice(None)) if axis == 0 else (slice(None), i)
        np.testing.assert_allclose(
            y[at], keras_like(x.numpy()[at], low[i], high[i], 8, False)[0], atol=1e-5
        )
    np.testing.assert_array_equal(tk.function(run)(x), y)


def test_fake_quantization_keeps_other_dtypes_and_checks_its_ends():
    x = tk.constant(RNG.normal(size=(3, 4)), tk.bfloat16)
    assert fake_quantization.fake_quant_with_min_max_vars(x, -1.0, 1.0).dtype == "bfloat16"
    with pytest.raises(ValueError, match="one number for each channel"):
        quantizers.fake_quant_with_min_max_vars(x, [0.0, 0.0], [1.0, 1.0], axis=0)
    inputs = tk.keras.Input((4,))
    model = tk.keras.Model(inputs, quantizers.fake_quant_with_min_max_vars(inputs, -1.0, 1.0))
    np.testing.assert_allclose(model(np.full((1, 4), 9.0, "float32")), 1.0, atol=0.01)


# ------------------------------------------------------------------ by name


@pytest.mark.parametrize(
    "made",
    [
        quantizers.AbsMaxQuantizer(axis=0, value_range=(-8, 7)),
        quantizers.Int8QuantizationConfig(quantizers.AbsMaxQuantizer(axis=0), None),
        quantizers.Int4QuantizationConfig(block_size=64),
        quantizers.Float8QuantizationConfig(),
        quantizers.TernaryQuantizationConfig(),
        quantizers.GPTQConfig(["text"], len, weight_bits=2, group_size=-1),
        quantizers.AWQConfig(["text"], len, num_grid_points=3),
    ],
    ids=lambda x: type(x).__name__,
)
def test_quantizers_and_configs_go_through_their_description(made):
    config = quantizers.serialize(made)
    again = quantizers.deserialize(config)
    assert type(again) is type(made)
    assert quantizers.serialize(again) == config
    assert tk.keras.saving.deserialize_keras_object(config).get_config() == made.get_config()


def test_get_takes_names_classes_configs_and_objects():
    assert quantizers.get(None) is None
    assert quantizers.get("abs_max_quantizer").value_range == (-127, 127)
    made = quantizers.get(quantizers.AbsMaxQuantizer, value_range=(-8, 7))
    assert quantizers.get(made) is made
    assert quantizers.get(quantizers.serialize(made)).value_range == (-8, 7)
    with pytest.raises(ValueError, match="typo"):
        quantizers.get("typo")
    with pytest.raises(ValueError, match="3 is no quantizer"):
        quantizers.get(3)
    assert tk.keras.Quantizer is quantizers.Quantizer


@pytest.mark.parametrize(
    ("mode", "config", "text"),
    [
        ("int7", None, "Invalid quantization mode"),
        (None, None, "either `mode` or `config`"),
        ("gptq", None, "must pass a `GPTQConfig`"),
        ("int4", quantizers.Int8QuantizationConfig(), "Contradictory"),
        ("int8", 3, "instance of `QuantizationConfig`"),
    ],
)
def test_arguments_that_say_nothing_sensible_are_refused(mode, config, text):
    with pytest.raises(ValueError, match=text):
        quantizers.validate_and_resolve_config(mode, config)


def test_calibration_data_is_in_no_copy_of_a_config():
    import copy

    config = quantizers.GPTQConfig(dataset=["a"], tokenizer=len, quantization_layer_structure={})
    for twin in (copy.deepcopy(config), type(config).from_config(config.get_config())):
        assert twin.dataset is twin.tokenizer is twin.quantization_layer_structure is None
        assert twin.weight_bits == 4


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("shift", [-40.0, -2.0, 0.0, 2.0, 40.0])
def test_numbers_of_one_sign_come_back(signed, bits, shift):
    """Their zero points lie outside of the range, and may not fit into a byte."""
    x = tk.constant(RNG.uniform(-1, 1, (5, 16)).astype("float32") + shift)
    scale, zero, most = zero_points.compute_quantization_parameters(
        x, bits=bits, per_channel=True, group_size=8, signed=signed
    )
    groups = np.arange(16) // 8
    lowest = -(2 ** (bits - 1)) if signed else 0
    shifts = np.repeat(zero.numpy().astype("float32"), 8, axis=1)
    steps = np.repeat(scale.numpy(), 8, axis=1)
    integers = np.clip(np.rint(x.numpy() / steps + shifts), lowest, lowest + float(most))
    back = zero_points.dequantize_with_sz_map(integers, scale, zero, groups)
    assert np.all(np.abs(back - x) <= 1.01 * steps)
