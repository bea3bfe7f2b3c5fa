"""Initial values: their spread, their repetition, their names."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import initializers, layers
from trainkit.core.errors import ShapeError
from trainkit.ops.sampling import generators

RANDOM = {
    "random_normal": 0.05,
    "random_uniform": 0.1 / np.sqrt(12),
    "truncated_normal": 0.05 * 0.8796,
    "variance_scaling": np.sqrt(1 / 200),
    "glorot_uniform": np.sqrt(2 / 300),
    "glorot_normal": np.sqrt(2 / 300),
    "he_normal": np.sqrt(2 / 200),
    "he_uniform": np.sqrt(2 / 200),
    "lecun_normal": np.sqrt(1 / 200),
    "lecun_uniform": np.sqrt(1 / 200),
}


@pytest.mark.parametrize(("name", "stddev"), RANDOM.items())
def test_random_values_have_their_spread_and_repeat_by_seed(name, stddev):
    kind = type(initializers.get(name))
    one = kind(seed=3)((200, 100)).numpy()
    assert one.dtype == np.float32
    assert abs(one.mean()) < 4 * stddev / np.sqrt(one.size)
    assert abs(one.std() / stddev - 1) < 0.02
    np.testing.assert_array_equal(one, kind(seed=3)((200, 100)).numpy())
    assert not np.array_equal(one, kind(seed=4)((200, 100)).numpy())


def test_without_a_seed_objects_differ_and_set_seed_repeats_them():
    generators.set_seed(1)
    one, two = initializers.GlorotUniform(), initializers.GlorotUniform()
    a, b = one((3, 3)).numpy(), two((3, 3)).numpy()
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(a, one((3, 3)).numpy())
    generators.set_seed(1)
    np.testing.assert_array_equal(initializers.GlorotUniform()((3, 3)).numpy(), a)


def test_a_generator_as_the_seed_moves_on():
    make = initializers.RandomNormal(seed=generators.Generator.from_seed(1))
    assert not np.array_equal(make((3,)).numpy(), make((3,)).numpy())


def test_fans_count_what_a_unit_sees():
    assert initializers.fans(()) == (1, 1)
    assert initializers.fans((7,)) == (7, 7)
    assert initializers.fans((5, 3)) == (5, 3)
    assert initializers.fans((3, 3, 2, 4)) == (18, 36)


def test_fixed_values():
    assert initializers.Zeros()((2,)).numpy().tolist() == [0, 0]
    assert initializers.get("ones")((2,), dtype="int32").numpy().tolist() == [1, 1]
    assert initializers.Constant([1.0, 2.0])((3, 2)).numpy()[2].tolist() == [1, 2]
    np.testing.assert_array_equal(initializers.Identity(2.0)((2, 3)).numpy(), 2 * np.eye(2, 3))
    with pytest.raises(ShapeError, match="matrices"):
        initializers.Identity()((2, 2, 2))


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 3, 4)])
def test_orthogonal_rows_or_columns(shape):
    matrix = initializers.Orthogonal(gain=2.0, seed=1)(shape).numpy().reshape(-1, shape[-1])
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(short @ short.T, 4 * np.eye(len(short)), atol=1e-5)


def test_stft_kernels_are_windowed_waves():
    kernel = initializers.STFT("imag", window=None, scaling=None)((8, 1, 5)).numpy()
    expected = -np.sin(2 * np.pi * np.outer(np.arange(8), np.arange(5)) / 8)
    np.testing.assert_allclose(kernel[:, 0], expected, atol=1e-6)
    windowed = initializers.STFT(scaling="spectrum")((8, 1, 5)).numpy()
    np.testing.assert_allclose(windowed[:, 0, 0].sum(), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="'real' or 'imag'"):
        initializers.STFT("both")


NAMES = {kind.__name__ for kind in initializers.INITIALIZERS.named.values()}


@pytest.mark.parametrize("name", sorted(NAMES - {"Initializer", "RandomInitializer"}))
def test_configs_come_back(name):
    made = initializers.get(name)
    described = initializers.serialize(made)
    again = initializers.deserialize(described)
    assert type(again) is type(made)
    assert again.get_config() == made.get_config()


def test_what_can_be_got():
    own = initializers.Ones()
    assert initializers.get(own) is own
    assert initializers.get(None) is None
    assert isinstance(initializers.get(initializers.Zeros), initializers.Zeros)
    assert initializers.get(np.eye(2))((2, 2)).numpy()[0, 0] == 1
    with pytest.raises(ShapeError, match=r"has shape \(2, 2\), the weight has \(3, 2\)"):
        initializers.get(np.eye(2))((3, 2))
    with pytest.raises(ValueError, match="did you mean 'glorot_uniform'"):
        initializers.get("glorot_unifrom")
    with pytest.raises(TypeError, match="can't be read as an initializer"):
        initializers.get(3)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"scale": 0.0}, "above 0"),
        ({"mode": "fan"}, "fan_in, fan_out, fan_avg"),
        ({"distribution": "cauchy"}, "truncated_normal"),
        ({"seed": "x"}, "an int or a generator"),
    ],
)
def test_bad_settings_are_named(settings, text):
    with pytest.raises(ValueError, match=text):
        initializers.VarianceScaling(**settings)


@pytest.mark.parametrize("window", [None, "hann", "hamming", "tukey", "triang", "boxcar", "bohman"])
def test_stft_kernels_are_waves_times_a_window(window):
    wave = np.cos(2 * np.pi * np.outer(np.arange(16), np.arange(9)) / 16)
    plain = initializers.STFT("real", None)((16, 1, 9)).numpy()[:, 0]
    assert np.allclose(plain, wave, atol=1e-6)
    for scaling in ("density", "spectrum", None):
        kernel = initializers.STFT("real", window, scaling)((16, 1, 9)).numpy()[:, 0]
        shape = kernel[:, 0]
        assert np.allclose(kernel, wave * shape[:, None], atol=1e-6)
        if window is not None and scaling == "density":
            assert np.sum(shape**2) == pytest.approx(1)
        if window is not None and scaling == "spectrum":
            assert np.sum(shape) == pytest.approx(1)


def test_stft_windows_of_numbers_must_fit():
    kernel = initializers.STFT("imag", list(range(1, 5)), None)((4, 1, 3)).numpy()
    assert kernel[1, 0, 1] == pytest.approx(-2)
    with pytest.raises(ShapeError, match="frames"):
        initializers.STFT("imag", [1, 2, 3])((4, 1, 3))
    with pytest.raises(ValueError, match="tukey"):
        initializers.STFT("real", "turkey")


@pytest.mark.parametrize("name", ["he_normal", "glorot_uniform", "LecunNormal", "VarianceScaling"])
def test_axes_of_inputs_and_outputs(name):
    kind = getattr(initializers, name)
    shape = (64, 8, 16)
    plain = kind(seed=1)(shape).numpy().std()
    told = kind(seed=1, input_axes=[0], output_axes=[1, 2])
    n_in, n_out = {"glorot_uniform": ((512 + 1024) / 2, (64 + 128) / 2)}.get(name, (512, 64))
    assert told(shape).numpy().std() / plain == pytest.approx(np.sqrt(n_in / n_out), rel=0.02)
    again = kind.from_config(told.get_config())
    assert (again.input_axes, again.output_axes) == ([0], [1, 2])
    assert np.array_equal(again(shape), told(shape))
    assert kind(seed=1).get_config()["input_axes"] is None


def test_einsum_layers_count_the_axes_that_are_summed_over():
    layer = layers.EinsumDense("abc,cde->abde", (None, 8, 16), kernel_initializer="lecun_normal")
    layer.build((None, 10, 64))
    assert layer.kernel.numpy().std() == pytest.approx(np.sqrt(1 / 64), rel=0.05)
    attention = layers.MultiHeadAttention(8, 16, kernel_initializer="lecun_normal")
    attention.build((None, 10, 64), (None, 10, 64))
    assert attention.query_dense.kernel.numpy().std() == pytest.approx(np.sqrt(1 / 64), rel=0.05)
    own = initializers.LecunNormal(input_axes=[1], output_axes=[0, 2])
    layer = layers.EinsumDense("abc,cde->abde", (None, 8, 16), kernel_initializer=own)
    layer.build((None, 10, 64))
    assert layer.kernel.numpy().std() == pytest.approx(np.sqrt(1 / 8), rel=0.05)


def test_the_fourier_kernel_is_found_by_keras_second_name():
    assert isinstance(initializers.get("STFTInitializer"), initializers.STFT)
    made = initializers.STFT("imag")
    config = initializers.serialize(made)
    config["class_name"] = "STFTInitializer"
    assert initializers.deserialize(config).get_config() == made.get_config()


def test_as_many_values_as_the_shape_has_fill_it_in_their_order():
    kernel = np.arange(9.0).reshape(1, 3, 3)
    wanted = kernel.reshape(3, 3, 1, 1).tolist()
    for value in (kernel, kernel.tolist(), tk.constant(kernel)):
        assert tk.constant_initializer(value)((3, 3, 1, 1)).numpy().tolist() == wanted
    made = initializers.Constant(kernel)((3, 3, 1, 1), dtype="float64")
    assert made.dtype == tk.float64
    layer = tk.layers.Conv2D(1, [3, 3], kernel_initializer=tk.constant_initializer(kernel))
    assert layer(tk.zeros((1, 7, 7, 1))).shape == (1, 5, 5, 1)
    assert initializers.Constant(np.ones((3, 1)))((3, 2)).shape == (3, 2)


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"2 values of shape \(2,\) do not fit the shape \(4,\)"):
        initializers.Constant([1.0, 2.0])((4,))
    with pytest.raises(ShapeError, match=r"4 values of shape \(2, 2\) do not fit .* \(2,\)"):
        initializers.Constant(np.ones((2, 2)))((2,))


@pytest.mark.parametrize("name", [*RANDOM, "orthogonal", "zeros", "ones"])
def test_the_first_update_of_a_weight_writes_over_its_first_values(name):
    with tk.device("/cpu:0"):
        weight = layers.Layer().add_weight((30, 20), initializers.get(name))
    address = weight._value._array.ctypes.data
    with tk.device("/cpu:0"):
        weight.assign_add(tk.ones((30, 20)))
    assert weight._value._array.ctypes.data == address


def test_initializers_of_integers_give_the_dtype_or_raise():
    identity = initializers.Identity(gain=2.0)((2, 2), dtype="int32")
    assert identity.dtype == "int32"
    np.testing.assert_array_equal(identity, [[2, 0], [0, 2]])
    for name in ("orthogonal", "glorot_uniform"):
        with pytest.raises(ValueError, match="gives floats; dtype int32 is not supported"):
            initializers.get(name)((2, 2), dtype="int32")
