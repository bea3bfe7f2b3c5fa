"""Layers before a model: categories, bins, ranges, image sizes."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, ShapeError

TOKENS = np.array([[0, 2], [3, 3]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("multi_hot", [[1, 0, 1, 0], [0, 0, 0, 1]]),
        ("count", [[1, 0, 1, 0], [0, 0, 0, 2]]),
        ("one_hot", [[[1, 0, 0, 0], [0, 0, 1, 0]], [[0, 0, 0, 1], [0, 0, 0, 1]]]),
    ],
)
def test_category_encoding(mode, expected):
    assert layers.CategoryEncoding(4, mode)(TOKENS).numpy().tolist() == expected


def test_category_encoding_weighs_and_checks():
    counted = layers.CategoryEncoding(4, "count")(TOKENS, count_weights=[[0.5, 1.0], [1.0, 2.0]])
    assert counted.numpy().tolist() == [[0.5, 0, 1, 0], [0, 0, 0, 3]]
    with pytest.raises(InvalidArgumentError, match=r"must lie in \[0, 3\), they go from 0 to 3"):
        layers.CategoryEncoding(3)(TOKENS)
    with pytest.raises(InvalidArgumentError, match="output_mode='count'"):
        layers.CategoryEncoding(4)(TOKENS, count_weights=TOKENS)


def test_discretization_puts_boundaries_into_the_upper_bin():
    layer = layers.Discretization([0.0, 1.0])
    assert layer(np.array([-1.0, 0.0, 0.5, 1.0, 9.0])).numpy().tolist() == [0, 1, 1, 2, 2]


def test_discretization_learns_bins_of_equal_content():
    values = np.random.default_rng(1).exponential(size=(20_000, 1))
    batches = [values[i : i + 1000] for i in range(0, 20_000, 1000)]
    for data in (values, iter(batches)):
        layer = layers.Discretization(num_bins=4)
        layer.adapt(data)
        shares = np.bincount(layer(values).numpy().ravel()) / len(values)
        np.testing.assert_allclose(shares, 0.25, atol=0.025)
    twin = layers.Discretization(num_bins=4)
    twin.load_state_arrays(layer.state_arrays())
    assert twin.bin_boundaries == layer.bin_boundaries
    with pytest.raises(InvalidArgumentError, match="call adapt"):
        layers.Discretization(num_bins=4)(values)
    with pytest.raises(InvalidArgumentError, match="either bin_boundaries or num_bins"):
        layers.Discretization()


def test_an_empty_text_is_no_word_in_any_mode():
    layer = layers.TextVectorization(output_mode="count", standardize=None, split=None)
    layer.adapt(np.array([["a"], [""], ["b"], ["b"]]))
    assert layer.get_vocabulary() == ["[UNK]", "b", "a"]
    assert layer(np.array([["a"], [""]])).numpy().tolist() == [[0, 0, 1], [0, 0, 0]]


def test_discretization_takes_the_last_value_of_each_part():
    layer = layers.Discretization(num_bins=2, epsilon=0.1)
    layer.adapt(np.arange(100.0))
    np.testing.assert_allclose(layer.bin_boundaries, [49.0], rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 1, (1, 2), None])
def test_normalization_learns_mean_and_variance(axis):
    data = np.random.default_rng(1).normal(3, 2, size=(500, 4, 3))
    whole, pieces = layers.Normalization(axis=axis), layers.Normalization(axis=axis)
    whole.adapt(data)
    pieces.adapt(iter([data[:100], data[100:130], data[130:]]))
    y = whole(data).numpy()
    kept = () if axis is None else (axis,) if isinstance(axis, int) else axis
    reduced = tuple(i for i in range(3) if i not in kept and i - 3 not in kept)
    np.testing.assert_allclose(y.mean(reduced), 0, atol=1e-4)
    np.testing.assert_allclose(y.std(reduced), 1, atol=1e-3)
    np.testing.assert_allclose(pieces(data).numpy(), y, rtol=1e-4, atol=1e-5)
    back = layers.Normalization(axis=axis, invert=True)
    back.adapt(data)
    np.testing.assert_allclose(back(y).numpy(), data, rtol=1e-3, atol=1e-3)


def test_normalization_with_given_moments():
    layer = layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 1.0])
    assert layer(np.array([[3.0, 2.0]])).numpy().tolist() == [[1, 0]]
    with pytest.raises(InvalidArgumentError, match="nothing to adapt"):
        layer.adapt(np.ones((2, 2)))
    with pytest.raises(InvalidArgumentError, match="both mean and variance"):
        layers.Normalization(mean=1.0)


def test_rescaling_makes_floats_of_bytes():
    image = np.array([[0, 255]], "uint8")
    assert layers.Rescaling(1 / 255)(image).numpy().tolist() == [[0, 1]]
    y = layers.Rescaling([1.0, 2.0], offset=[0.0, 1.0])(np.ones((1, 2))).numpy()
    assert y.tolist() == [[1, 3]]


@pytest.mark.parametrize(("scale", "offset"), [(0.5, 0.0), (2.0, 0.5), ([1.0, 0.5], 0.0)])
def test_rescaling_of_integers_refuses_fractions(scale, offset):
    with pytest.raises(ValueError, match="Rescaling 'r' computes with int32"):
        layers.Rescaling(scale, offset, dtype="int32", name="r")
    y = layers.Rescaling(2.0, [1.0, -1.0], dtype="int32")(np.array([[3, 4]]))
    assert y.dtype == "int32"
    np.testing.assert_array_equal(y, [[7, 7]])


def test_rescaling_goes_along_the_channels_where_they_come_first():
    tk.keras.config.set_image_data_format("channels_first")
    try:
        y = layers.Rescaling([1.0, 2.0], offset=[0.0, 1.0])(np.ones((1, 2, 3, 4), "float32"))
    finally:
        tk.keras.config.set_image_data_format("channels_last")
    assert np.unique(y.numpy()[:, 0]).tolist() == [1.0]
    assert np.unique(y.numpy()[:, 1]).tolist() == [3.0]


def test_center_crop_takes_the_middle():
    image = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    assert layers.CenterCrop(2, 4)(image).numpy()[0, :, :, 0].tolist() == [
        [13, 14, 15, 16],
        [19, 20, 21, 22],
    ]
    assert layers.CenterCrop(8, 4)(image).shape == (1, 8, 4, 1)
    first = layers.CenterCrop(2, 4, "channels_first")(np.moveaxis(image, -1, 1))
    assert first.shape == (1, 1, 2, 4)


def test_masking_marks_steps_of_one_value():
    x = np.array([[[1.0, 2.0], [0.0, 0.0], [0.0, 3.0]]], "float32")
    layer = layers.Masking()
    assert layer.compute_mask(x).numpy().tolist() == [[True, False, True]]


@pytest.mark.usefixtures("on_cpu")
def test_embedding_checks_its_indices():
    layer = layers.Embedding(3, 2)
    assert layer(np.array([[0, 2]])).shape == (1, 2, 2)
    with pytest.raises(ValueError, match="embedd"):
        layer(np.array([[0, 3]]))
    table = np.arange(6, dtype="float32").reshape(3, 2)
    given = layers.Embedding(3, 2, weights=[table])
    np.testing.assert_array_equal(given(np.array([2])).numpy(), table[2:])
    tied = layers.ReversibleEmbedding(3, 2)
    scores = tied(np.ones((1, 2), "float32"), reverse=True)
    np.testing.assert_allclose(scores.numpy()[0], tied.get_weights()[0].sum(1), rtol=1e-5)


def test_reshape_explains_sizes_that_do_not_fit():
    x = np.ones((2, 6), "float32")
    assert layers.Reshape((3, -1))(x).shape == (2, 3, 2)
    with pytest.raises(ShapeError, match=r"6 values, target_shape \(4, -1\) does not"):
        layers.Reshape((4, -1))(x)
    with pytest.raises(ShapeError, match="leaves nothing"):
        layers.Cropping1D(2)(np.ones((1, 4, 1)))
    with pytest.raises(InvalidArgumentError, match=r"each of 1 ... 2 once"):
        layers.Permute((1, 3))


def test_merging_layers_check_their_inputs():
    one = np.ones((2, 3), "float32")
    assert layers.add([one, one, one]).numpy().max() == 3
    assert layers.Dot(1)([one, one]).shape == (2, 1)
    with pytest.raises(InvalidArgumentError, match="a list of 2 tensors, got 3"):
        layers.Subtract()([one, one, one])
    with pytest.raises(InvalidArgumentError, match="got one tensor"):
        layers.Add()(one)
    with pytest.raises(ShapeError, match="different sizes"):
        layers.Dot(1)([one, one[:, :2]])


def test_lambda_passes_what_its_function_asks_for():
    seen = {}

    def keep(x, training=None, factor=1.0):
        seen["training"] = training
        return x * factor

    layer = layers.Lambda(keep, arguments={"factor": 3.0})
    assert layer(np.ones((1, 1), "float32"), training=True).numpy().item() == 3
    assert seen["training"] is True
    assert layers.Lambda(keep, output_shape=(7,)).compute_output_shape((None, 2)) == (None, 7)


def test_spectral_normalization_brings_the_largest_singular_value_to_one():
    layer = layers.SpectralNormalization(layers.Dense(4), power_iterations=30)
    layer(np.ones((2, 6), "float32"), training=True)
    singular = np.linalg.svd(layer.layer.kernel.numpy(), compute_uv=False)
    np.testing.assert_allclose(singular[0], 1, rtol=1e-3)
    with pytest.raises(InvalidArgumentError, match="neither a kernel nor embeddings"):
        layers.SpectralNormalization(layers.ReLU())(np.ones((2, 6), "float32"))


@pytest.mark.parametrize(
    ("mode", "shape", "given"),
    [
        ("int", (None, 4, 3), (2, 4, 3)),
        ("count", (None, 3, 3), (2, 4, 3)),
        ("multi_hot", (None, 3, 3), (2, 4, 3)),
        ("one_hot", (None, 4, 3, 3), (2, 4, 3)),
        ("one_hot", (None, 4, 3), (2, 4, 1)),
    ],
)
def test_bins_of_more_axes_are_counted_along_the_second(mode, shape, given):
    layer = layers.Discretization([0.0, 1.0], output_mode=mode)
    y = layer(np.random.default_rng(0).normal(size=given))
    assert (None, *y.shape[1:]) == shape
    assert layer.compute_output_shape((None, *given[1:])) == shape
    symbol = layer(tk.keras.Input(given[1:]))
    assert tuple(symbol.shape) == shape
    assert symbol.dtype == y.dtype


def test_learned_bins_are_in_the_config():
    layer = layers.Discretization(num_bins=3)
    assert layer.get_config()["bin_boundaries"] is None
    layer.adapt(np.arange(30.0))
    again = layers.Discretization.from_config(layer.get_config())
    assert again.bin_boundaries == layer.bin_boundaries
    assert again.num_bins == 3


def test_layers_learn_from_lists_of_batches():
    x = np.random.default_rng(0).normal(3, 2, (32, 4)).astype("float32")
    whole, parts, labelled = (layers.Normalization() for _ in range(3))
    whole.adapt(x)
    parts.adapt([x[:8], x[8:16], x[16:]])
    labelled.adapt([(x[:8], 0), (x[8:], 1)])
    for other in (parts, labelled):
        np.testing.assert_allclose(other.mean, whole.mean, rtol=1e-5)
        np.testing.assert_allclose(other.variance, whole.variance, rtol=1e-4)
    with pytest.raises(TypeError, match="batches that are arrays or tensors, got list"):
        layers.Normalization().adapt(iter([[1.0, 2.0]]))


def test_one_mean_serves_inputs_of_all_ranks():
    layer = layers.Normalization()
    layer.adapt(np.arange(24.0).reshape(2, 4, 3))
    assert layer(np.zeros((5, 6, 4, 3), "float32")).shape == (5, 6, 4, 3)
    with pytest.raises(ShapeError, match="3"):
        layer(np.zeros((5, 4), "float32"))
    given = layers.Normalization(mean=5.0, variance=1.0)
    given.build((3, 7))
    assert given.mean.shape == (1, 7)


def test_unknown_integers_are_shared_out_by_a_hash():
    layer = layers.IntegerLookup(vocabulary=[10], num_oov_indices=4, oov_method="farmhash")
    assert layer([100, 200, 300, 400]).numpy().tolist() == [3, 1, 3, 1]
    remainders = layers.IntegerLookup(vocabulary=[10], num_oov_indices=4)
    assert remainders([100, 201, 302, 403]).numpy().tolist() == [0, 1, 2, 3]
    again = layers.IntegerLookup.from_config(layer.get_config())
    assert again([100, 200]).numpy().tolist() == [3, 1]
    for settings in ({"oov_method": "other"}, {"salt": 3}):
        with pytest.raises(InvalidArgumentError):
            layers.IntegerLookup(**settings)


@pytest.mark.parametrize(
    ("kind", "tokens", "unknown", "settings"),
    [
        (layers.StringLookup, ["a"], list("uvwxyz"), {}),
        (layers.IntegerLookup, [1], [100, 300, 700, 1100], {"oov_method": "farmhash"}),
    ],
)
def test_a_salt_changes_the_hash(kind, tokens, unknown, settings):
    plain = kind(vocabulary=tokens, num_oov_indices=8, **settings)
    salted = kind(vocabulary=tokens, num_oov_indices=8, salt=[137, 42], **settings)
    assert plain(unknown).numpy().tolist() != salted(unknown).numpy().tolist()
    again = kind.from_config(salted.get_config())
    assert again(unknown).numpy().tolist() == salted(unknown).numpy().tolist()
    with pytest.raises(InvalidArgumentError, match="salt must be"):
        kind(salt="a", **settings)


def test_unknown_tokens_may_share_a_name_with_a_known_one():
    layer = layers.IntegerLookup(vocabulary=[1, 2, 3], oov_token=1, mask_token=0)
    assert layer([0, 1, 3, 9]).numpy().tolist() == [0, 2, 4, 1]
    with pytest.raises(InvalidArgumentError, match=r"see \[1\]"):
        layers.IntegerLookup(vocabulary=[2, 1], oov_token=1, invert=True)
    with pytest.raises(InvalidArgumentError, match=r"see \[0\]"):
        layers.IntegerLookup(vocabulary=[2, 0], mask_token=0)


def test_vocabularies_that_keras_has_learned_are_read(tmp_path):
    (tmp_path / "vocabulary.txt").write_text("[UNK]\na\nc\nb")
    config = layers.StringLookup().get_config()
    config |= {"vocabulary": None, "vocabulary_size": 4, "oov_method": "floormod"}
    layer = layers.StringLookup.from_config(config)
    layer.load_assets(str(tmp_path))
    assert layer.get_vocabulary() == ["[UNK]", "a", "c", "b"]
    (tmp_path / "vocabulary.txt").write_text("\n[UNK]\nhello\n")
    text = layers.TextVectorization.from_config(
        {**layers.TextVectorization().get_config(), "vocabulary_size": 3}
    )
    text.load_assets(str(tmp_path))
    assert text.get_vocabulary() == ["", "[UNK]", "hello"]
    text.load_assets(str(tmp_path / "elsewhere"))
    assert text.get_vocabulary() == ["", "[UNK]", "hello"]


def test_moments_are_none_before_the_build():
    layer = tk.layers.Normalization()
    assert layer.mean is None
    assert layer.variance is None
    layer.build((None, 2))
    np.testing.assert_array_equal(layer.mean, [[0.0, 0.0]])
    np.testing.assert_array_equal(layer.variance, [[1.0, 1.0]])
    assert tk.layers.Normalization(mean=1.0, variance=2.0).mean is None


def test_without_a_split_elements_along_the_last_axis_are_tokens():
    words = [["cat", "sat"], ["dog", "cat"]]
    layer = layers.TextVectorization(split=None, vocabulary=["cat", "dog"])
    assert layer(words).numpy().tolist() == [[2, 1], [3, 2]]
    assert layer(["cat", "dog"]).numpy().tolist() == [2, 3]
    counts = layers.TextVectorization(split=None, output_mode="count", vocabulary=["cat", "dog"])
    assert counts(words).numpy().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert tk.function(layer)(tk.constant(words)).numpy().tolist() == [[2, 1], [3, 2]]
    layer = layers.TextVectorization(split=None)
    layer.adapt(words)
    assert sorted(layer.get_vocabulary()[2:]) == ["cat", "dog", "sat"]


def test_several_columns_of_texts_are_not_split():
    layer = layers.TextVectorization(vocabulary=["cat", "dog"])
    with pytest.raises(ShapeError, match=r"texts of shape \(1, 2\) can't be split"):
        layer([["cat", "dog"]])


def test_one_number_of_python_is_encoded():
    one_hot = layers.CategoryEncoding(num_tokens=4, output_mode="one_hot")(3)
    assert one_hot.numpy().tolist() == [[0, 0, 0, 1]]
    assert layers.CategoryEncoding(num_tokens=4)(3).numpy().tolist() == [0, 0, 0, 1]


def test_rows_of_an_array_have_means_of_their_own():
    layer = layers.Normalization(axis=0)
    layer.adapt(np.array([[1.0, 2.0], [3.0, 8.0]], "float32"))
    rows = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    np.testing.assert_allclose(layer(rows), [[-1.0, 1.0], [-1.0, -0.6]], rtol=1e-6)
    with pytest.raises(ShapeError, match="must have known sizes"):
        layers.Normalization().adapt(np.arange(5.0, dtype="float32"))


def test_one_mean_of_all_has_the_rank_of_the_data():
    layer = tk.layers.Normalization(axis=None)
    assert layer.mean is layer.variance is None
    layer.adapt(np.array([[1.0, 2.0], [3.0, 6.0]], "float32"))
    assert layer.mean.numpy().tolist() == [[3.0]]
    assert layer.variance.numpy().tolist() == [[3.5]]
    assert layer(tk.constant([3.0])).shape == (1,)
    given = tk.layers.Normalization(axis=None, mean=1.0, variance=4.0)
    assert float(given([3.0])[0]) == 1
    assert given.mean.shape == (1,)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_counts_are_float32_in_mixed_precision(policy):
    tokens = np.zeros((1, 2049), "int32")
    counts = layers.CategoryEncoding(3, output_mode="count", dtype=policy)(tokens)
    assert (counts.dtype, counts.numpy().tolist()) == ("float32", [[2049, 0, 0]])
    bins = layers.Hashing(2, output_mode="count", dtype=policy)(tokens)
    assert (bins.dtype, float(bins.numpy().max())) == ("float32", 2049)
    inputs = tk.keras.Input((4,), dtype="int32")
    assert layers.CategoryEncoding(3, dtype=policy)(inputs).dtype == "float32"
    model = tk.keras.Model(inputs, layers.CategoryEncoding(3, dtype=policy)(inputs))
    assert model.predict(tokens[:, :4], verbose=0).dtype == np.float32
