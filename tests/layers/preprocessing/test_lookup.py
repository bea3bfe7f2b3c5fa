"""Layers that number tokens; the expected values are Keras's."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

K = tk.keras
L = K.layers
TEXTS = ["The cat sat.", "the dog, the END!"]


def vectorized(**settings):
    layer = L.TextVectorization(**settings)
    layer.adapt(TEXTS)
    return layer


def test_texts_have_numbers():
    layer = L.StringLookup(vocabulary=["a", "b"])
    assert layer(tk.constant([["a"], ["z"], ["b"]])).numpy().tolist() == [[1], [0], [2]]
    assert layer(["b", "a"]).dtype == tk.int64
    assert layer.get_vocabulary() == ["[UNK]", "a", "b"]
    assert layer.vocabulary_size() == 3
    masked = L.StringLookup(vocabulary=["", "[UNK]", "a"], mask_token="")
    assert masked(["", "a", "q"]).numpy().tolist() == [0, 2, 1]
    back = L.StringLookup(vocabulary=["a", "b"], invert=True)
    assert back([0, 1, 2, 9]).numpy().tolist() == [b"[UNK]", b"a", b"b", b"[UNK]"]
    strict = L.StringLookup(vocabulary=["a"], num_oov_indices=0)
    assert strict(["a"]).numpy().tolist() == [0]
    with pytest.raises(tk.errors.InvalidArgumentError, match="b'q' is not in the vocabulary"):
        strict(["q"])


def test_unknown_tokens_share_several_numbers():
    texts = L.StringLookup(vocabulary=["a"], num_oov_indices=3)
    assert texts(["a", "x", "y", "z", "w"]).numpy().tolist() == [3, 2, 2, 1, 2]
    assert texts.get_vocabulary() == ["[UNK]"] * 3 + ["a"]
    numbers = L.IntegerLookup(vocabulary=[7], num_oov_indices=3)
    assert numbers(np.array([7, 1, 2, -1, 30])).numpy().tolist() == [3, 1, 2, 2, 0]
    masked = L.IntegerLookup(vocabulary=[7], num_oov_indices=2, mask_token=0)
    assert masked(np.array([7, 0, 1, 2])).numpy().tolist() == [3, 0, 2, 1]
    again = L.StringLookup.from_config(texts.get_config())
    assert again(["x", "z"]).numpy().tolist() == [2, 1]


@pytest.mark.parametrize("mode", ["multi_hot", "count", "tf_idf"])
def test_the_mask_token_counts_in_no_vector(mode):
    settings = {"vocabulary": ["a"], "mask_token": "", "output_mode": mode}
    layer = L.StringLookup(**settings, idf_weights=[0.5] if mode == "tf_idf" else None)
    weight = 0.5 if mode == "tf_idf" else 1
    found = layer(tk.constant([["a", ""], ["", "z"], ["", ""]]))
    assert found.numpy().tolist() == [[0, weight], [weight, 0], [0, 0]]


VECTORS = {
    "one_hot": (["a", "z"], [[0, 1, 0], [1, 0, 0]]),
    "multi_hot": ([["a", "a"], ["z", "b"]], [[0, 1, 0], [1, 0, 1]]),
    "count": ([["a", "a"], ["z", "b"]], [[0, 2, 0], [1, 0, 1]]),
}


@pytest.mark.parametrize("mode", VECTORS)
def test_texts_have_vectors(mode):
    given, wanted = VECTORS[mode]
    found = L.StringLookup(vocabulary=["a", "b"], output_mode=mode)(given)
    assert (found.dtype, found.numpy().tolist()) == (tk.int64, wanted)
    layer = L.StringLookup(vocabulary=["a", "b"], output_mode=mode, dtype="float32")
    assert layer(given).dtype == tk.int64  # as in Keras
    assert L.StringLookup.from_config(layer.get_config())(given).dtype == tk.int64
    wide = L.StringLookup(5, vocabulary=["a", "b"], output_mode=mode, pad_to_max_tokens=True)(given)
    assert wide.shape == (2, 5)


def test_a_vocabulary_is_learned_most_frequent_first():
    layer = L.StringLookup()
    layer.adapt(tk.data.Dataset.from_tensor_slices(["x", "y", "x", "z", "q"]).batch(2))
    assert layer.get_vocabulary() == ["[UNK]", "x", "z", "y", "q"]
    numbers = L.IntegerLookup(max_tokens=4)
    numbers.adapt(np.array([5, 5, 3, 3, 3, 9, 1]))
    assert numbers.get_vocabulary() == [-1, 3, 5, 9]
    assert numbers(np.array([3, 5, 77])).numpy().tolist() == [1, 2, 0]
    assert numbers.get_vocabulary(include_special_tokens=False) == [3, 5, 9]


def test_texts_are_standardized_split_and_numbered():
    layer = vectorized(max_tokens=10, output_sequence_length=4)
    assert layer.get_vocabulary() == ["", "[UNK]", "the", "sat", "end", "dog", "cat"]
    assert layer(tk.constant(["the cat zzz", "dog"])).numpy().tolist() == [
        [2, 6, 1, 0],
        [5, 0, 0, 0],
    ]
    assert vectorized()(tk.constant(["the", "a dog"])).numpy().tolist() == [[2, 0], [1, 5]]
    assert layer("the cat").shape == (4,)
    assert layer(tk.constant([["the cat"]])).shape == (1, 4)


def test_texts_as_vectors_of_words():
    weighted = L.TextVectorization(output_mode="tf_idf")
    weighted.adapt(["a b b", "a c"])
    assert weighted.get_vocabulary() == ["[UNK]", "b", "a", "c"]
    found = weighted(tk.constant(["a b b z"]))
    np.testing.assert_allclose(found, [[0.63237333, 1.3862944, 0.51082563, 0]], rtol=1e-6)
    for mode, wanted in (("multi_hot", [1, 1, 1, 0]), ("count", [1, 2, 1, 0])):
        layer = L.TextVectorization(output_mode=mode)
        layer.adapt(["a b b", "a c"])
        assert layer(tk.constant(["a b b z"])).numpy().tolist() == [wanted]


@pytest.mark.parametrize(("old", "new"), [("binary", "multi_hot"), ("tf-idf", "tf_idf")])
def test_older_names_of_modes(old, new):
    assert L.TextVectorization(output_mode=old).output_mode == new
    assert L.StringLookup(output_mode=old).output_mode == new


def test_layers_take_tables():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 3.0], "b": [2.0, 6.0]})
    layer = L.Normalization()
    layer.adapt(table)
    np.testing.assert_allclose(layer(table), [[-1, -1], [1, 1]])
    assert L.StringLookup(vocabulary=["x"])(pandas.Series(["x", "y"])).numpy().tolist() == [1, 0]
    assert L.Dense(2)(table).shape == (2, 2)


def learned(texts, **settings):
    layer = L.TextVectorization(**settings)
    layer.adapt(texts)
    return layer.get_vocabulary(include_special_tokens=False)


def test_other_ways_to_take_texts_apart():
    assert learned(["a b c"], ngrams=2) == ["c", "b c", "b", "a b", "a"]
    assert learned(["ab a"], split="character") == ["a", "b", " "]
    assert learned(["A b"], standardize=None) == ["b", "A"]
    assert learned(
        ["a-b A"], standardize=tk.strings.lower, split=lambda t: tk.strings.split(t, "-")
    ) == ["b a", "a"]


def model(inner, width):
    return K.Sequential(
        [
            K.Input((1,), dtype="string"),
            inner,
            L.Embedding(width, 4),
            L.GlobalAveragePooling1D(),
            L.Dense(1),
        ]
    )


@pytest.mark.parametrize("eagerly", [False, True])
def test_models_take_text(eagerly, tmp_path):
    net = model(vectorized(output_sequence_length=4), 9)
    net.compile("sgd", "mse", run_eagerly=eagerly)
    x, y = np.array([["the cat"], ["dog"]]), np.array([1.0, 0.0])
    history = net.fit(x, y, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    data = tk.data.Dataset.from_tensor_slices((x, y)).batch(1)
    assert np.isfinite(net.evaluate(data, verbose=0))
    path = tmp_path / "model.keras"
    net.save(path)
    again = K.models.load_model(path)
    np.testing.assert_array_equal(again.predict(x, verbose=0), net.predict(x, verbose=0))


def test_models_take_text_among_other_inputs():
    text, number = K.Input((1,), dtype="string", name="t"), K.Input((1,), name="n")
    hot = L.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(text)
    out = L.Dense(1)(L.Concatenate()([tk.cast(hot, "float32"), number]))
    net = K.Model({"t": text, "n": number}, out)
    net.compile("sgd", "mse")
    net.fit({"t": np.array(["a", "b"]), "n": np.ones(2)}, np.ones(2), verbose=0)
    assert net({"t": tk.constant([["a"]]), "n": tk.constant([[1.0]])}).shape == (1, 1)


def test_data_sets_are_mapped():
    layer = vectorized(output_sequence_length=3)
    data = tk.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(layer)
    assert data.element_spec == tk.TensorSpec((None, 3), tk.int64)
    assert next(iter(data)).numpy().tolist() == [[2, 6, 3], [2, 5, 2]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: L.StringLookup(vocabulary=["a", "a"]), "each token once"),
        (lambda: L.StringLookup(vocabulary=["a", "[UNK]"], invert=True), "only at its start"),
        (lambda: L.StringLookup(2, vocabulary=["a", "b"]), "has room for 1"),
        (lambda: L.StringLookup(1), "leaves no room"),
        (lambda: L.StringLookup(num_oov_indices=-1), "num_oov_indices"),
        (lambda: L.StringLookup(output_mode="hot"), "output_mode"),
        (lambda: L.StringLookup(vocabulary=["a"], output_mode="tf_idf"), "idf_weights"),
        (lambda: L.StringLookup(vocabulary=["a"])([1]), "takes text"),
        (lambda: L.IntegerLookup(vocabulary=[1])(["a"]), "takes integers"),
        (lambda: L.StringLookup(output_mode="count")(["a"]), "call adapt first"),
        (lambda: L.TextVectorization(split="words"), "split"),
        (lambda: L.TextVectorization(ragged=True), "ragged"),
        (lambda: L.TextVectorization()(tk.constant([1])), "takes text"),
    ],
)
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises((tk.errors.InvalidArgumentError, ValueError), match=words):
        call()


def test_numbers_of_a_gpu_have_texts():
    with stand_in.in_place():
        back = L.StringLookup(vocabulary=["a", "b"], invert=True)
        assert back(tk.constant([1, 2, 9])).numpy().tolist() == [b"a", b"b", b"[UNK]"]
        numbers = L.IntegerLookup(num_oov_indices=1)
        numbers.adapt(tk.constant([7, 7, 5]))
        found = numbers(tk.constant([5, 7, 1]))
        assert found.numpy().tolist() == [2, 1, 0]
        assert "GPU" in found.device
        assert "GPU" in L.Hashing(3)(tk.constant([1, 2])).device
        assert L.HashedCrossing(5)((tk.constant([1]), tk.constant([2]))).shape == (1,)


@pytest.mark.parametrize("ngrams", ["invalid", 0, -1, (), (2, 0), (1.5,), 2.0])
def test_numbers_of_neighbouring_words_are_checked(ngrams):
    with pytest.raises(ValueError, match=r"TextVectorization: ngrams must be None, a positive int"):
        L.TextVectorization(ngrams=ngrams)


def test_some_numbers_of_neighbouring_words():
    assert learned(["a b c"], ngrams=(2, 3)) == ["b c", "a b c", "a b"]
    layer = L.TextVectorization(ngrams=[1, 2])
    assert L.TextVectorization.from_config(layer.get_config()).ngrams == (1, 2)


def test_weights_of_special_tokens_that_the_vocabulary_lists_are_theirs():
    words = ["[UNK]", "p", "q"]
    layer = L.StringLookup(vocabulary=words, output_mode="tf_idf", idf_weights=[0.7, 0.2, 0.4])
    texts = tk.constant([["p", "z", "z"], ["q", "q", "p"]])
    expected = np.float32([[1.4, 0.2, 0.0], [0.0, 0.2, 0.8]])
    np.testing.assert_allclose(layer(texts), expected, rtol=1e-6)
    config = layer.get_config()
    assert config["vocabulary"] == words
    np.testing.assert_allclose(config["idf_weights"], [0.7, 0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(L.StringLookup.from_config(config)(texts), expected, rtol=1e-6)
    average = L.StringLookup(vocabulary=["p", "q"], output_mode="tf_idf", idf_weights=[0.2, 0.4])
    np.testing.assert_allclose(average(texts)[0], [0.6, 0.2, 0.0], rtol=1e-6)
    assert average.get_config()["vocabulary"] == ["p", "q"]


UNLEARNED = {
    "integers": lambda: L.IntegerLookup()(np.array([1, 2])),
    "texts": lambda: L.StringLookup()(["a"]),
    "texts of numbers": lambda: L.StringLookup(invert=True)(np.array([0, 1])),
    "words": lambda: L.TextVectorization()(["a b"]),
    "in a function": lambda: tk.function(L.IntegerLookup())(tk.constant([1])),
    "in a data set": lambda: list(
        tk.data.Dataset.from_tensor_slices(["a"]).batch(1).map(L.StringLookup())
    ),
}


@pytest.mark.parametrize("name", UNLEARNED)
def test_without_a_vocabulary_nothing_is_called_unknown(name):
    with pytest.raises(tk.errors.FailedPreconditionError, match="no vocabulary yet; call adapt"):
        UNLEARNED[name]()


def test_a_model_may_be_made_before_its_vocabulary(tmp_path):
    tokens, layer = tk.Input((3,), dtype="int64"), L.IntegerLookup()
    model = tk.Model(tokens, layer(tokens))
    data = np.array([[7, 9, 9]])
    with pytest.raises(tk.errors.FailedPreconditionError, match="no vocabulary yet"):
        model.predict(data, verbose=0)
    with pytest.raises(tk.errors.FailedPreconditionError, match="no vocabulary yet"):
        model.export(str(tmp_path / "model"))
    layer.adapt(data)
    np.testing.assert_array_equal(model.predict(data, verbose=0), [[2, 1, 1]])
    layer.reset_state()
    with pytest.raises(tk.errors.FailedPreconditionError, match="no vocabulary yet"):
        layer(data)
    assert L.StringLookup(vocabulary=[])(["a"]).numpy().tolist() == [0]  # it has one


@pytest.mark.parametrize("mode", VECTORS)
def test_a_loaded_layer_gives_vectors_of_the_same_dtype(tmp_path, mode):
    inputs = tk.keras.Input((1,), dtype="string")
    text = L.TextVectorization(vocabulary=["a", "b"], output_mode="count")
    outputs = [L.StringLookup(vocabulary=["a", "b"], output_mode=mode)(inputs), text(inputs)]
    model = tk.keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    loaded = tk.keras.models.load_model(tmp_path / "model.keras")
    for m in (model, loaded, tk.keras.models.clone_model(model)):
        results = m.predict(tk.constant([["a"], ["z"]]), verbose=0)
        assert [y.dtype for y in results] == ["int64", "int64"]


def test_weights_of_words_are_floats_in_a_layer_of_integers():
    layer = L.StringLookup(vocabulary=["a"], output_mode="tf_idf", idf_weights=[0.5], dtype="int32")
    assert layer(["a"]).numpy().tolist() == [0.0, 0.5]


@pytest.mark.parametrize("make", [L.StringLookup, L.TextVectorization])
def test_an_adapt_that_fails_leaves_the_vocabulary(make):
    layer = make(output_mode="tf_idf")
    layer.adapt(["a", "b", "a"])

    def broken():
        yield "c"
        raise OSError("the disk is gone")

    before = (layer.get_vocabulary(), layer(["a"]).numpy().tolist())
    signature = tk.TensorSpec((), tk.string)
    with pytest.raises(Exception, match="the disk is gone"):
        layer.adapt(tk.data.Dataset.from_generator(broken, output_signature=signature).batch(1))
    assert (layer.get_vocabulary(), layer(["a"]).numpy().tolist()) == before
    layer.adapt(["c"])
    assert layer.vocabulary_size() == 2
