"""Layers that number by a hash; the expected values are those of Keras on TensorFlow."""

import numpy as np
import pytest

import trainkit as tk

K = tk.keras
L = K.layers
LETTERS = [["A"], ["B"], ["C"], ["D"], ["E"]]

# length of the text, to_hash_bucket_fast, to_hash_bucket, to_hash_bucket_strong with key [1, -2]
HASHES = [
    (0, 1936946117179621456, 105434511174508092, 1583518726171341606),
    (1, 766514606110392583, 8657254332378762977, 1222676178368040414),
    (3, 2132208747034518315, 3007874956599697069, 906957230254746276),
    (4, 2588378801319085037, 2904222415311465897, 871736561240302462),
    (7, 6933499702323716644, 2922599844218734391, 788468028570478405),
    (8, 5586677343848734015, 2569401916268528547, 7551433866437598194),
    (16, 8350774953139450413, 4767178262679214384, 4492654450089319219),
    (17, 9078253161012546321, 968865782189421928, 4996654040204826027),
    (32, 3573193511297055919, 8948528768411329299, 5721626946314197830),
    (33, 4871673252001531229, 5793423219575864078, 2647593324530743120),
    (64, 6620226107321115647, 2987522060668369911, 4260175507467491606),
    (65, 6174860497557876440, 8533035411958661203, 101988423618947627),
    (128, 1237897304513744187, 6268941337728951848, 5970620111866478631),
    (129, 52476400822662787, 8319655268627271320, 322725404438896),
    (200, 2190672947546088352, 3035767911491288148, 7937106022117726618),
]


@pytest.mark.parametrize("call", [lambda f: f, tk.function])
def test_texts_have_the_numbers_of_tensorflow(call):
    texts = [bytes((7 * i * i + 13 * n) % 256 for i in range(n)) for n, *_ in HASHES]
    most, s = 2**63 - 1, tk.strings
    x = tk.constant(texts)
    fast = call(lambda x: s.to_hash_bucket_fast(x, most))(x)
    plain = call(lambda x: s.to_hash_bucket(x, most))(x)
    strong = call(lambda x: s.to_hash_bucket_strong(x, most, [1, -2]))(x)
    assert fast.dtype == plain.dtype == strong.dtype == tk.int64
    found = zip(map(len, texts), fast.tolist(), plain.tolist(), strong.tolist(), strict=True)
    assert list(found) == HASHES


def test_hashing_gives_bins():
    assert L.Hashing(3)(LETTERS).numpy().ravel().tolist() == [1, 0, 1, 1, 2]
    assert L.Hashing(3, salt=133)(LETTERS).numpy().ravel().tolist() == [0, 0, 2, 1, 0]
    assert L.Hashing(3, salt=[133, 137])(LETTERS).numpy().ravel().tolist() == [1, 2, 1, 0, 2]
    masked = L.Hashing(3, mask_value="")(tk.constant([["A"], ["B"], [""], ["C"], ["D"]]))
    assert masked.numpy().ravel().tolist() == [1, 1, 0, 2, 2]
    assert L.Hashing(5, mask_value=0)(tk.constant([3, 0, -7])).numpy().tolist() == [2, 0, 3]
    assert L.Hashing(5)(tk.constant([3.9, 0.2])).numpy().tolist() == (
        L.Hashing(5)(tk.constant([3, 0])).numpy().tolist()
    )


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_hashing_gives_vectors(mode):
    found = L.Hashing(3, output_mode=mode)(tk.constant(LETTERS[:3]))
    assert (found.dtype, found.numpy().tolist()) == (tk.float32, [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    if mode != "one_hot":
        times = 2 if mode == "count" else 1
        row = L.Hashing(3, output_mode=mode)(tk.constant([["A", "B", "C"]]))
        assert row.numpy().tolist() == [[1, times, 0]]


def test_crossing_joins_features():
    a, b = tk.constant(["A", "B", "A", "B", "A"]), tk.constant([101, 101, 101, 102, 102])
    assert L.HashedCrossing(5)((a, b)).numpy().tolist() == [1, 4, 1, 1, 3]
    assert L.HashedCrossing(7)((a, b, a)).numpy().tolist() == [2, 0, 2, 6, 1]
    columns = L.HashedCrossing(5)((a[:, None], b[:, None]))
    assert columns.numpy().tolist() == [[1], [4], [1], [1], [3]]
    hot = L.HashedCrossing(5, output_mode="one_hot")((a, b))
    assert hot.numpy().argmax(-1).tolist() == [1, 4, 1, 1, 3]
    assert L.HashedCrossing(5)((a[0], b[0])).numpy() == 1


def test_models_and_data_sets_hash(tmp_path):
    a, b = K.Input((1,), dtype="string", name="a"), K.Input((1,), dtype="int64", name="b")
    crossed = L.HashedCrossing(5, output_mode="one_hot")((a, b))
    single = L.Hashing(4, salt=9, mask_value="A", output_mode="multi_hot")(a)
    net = K.Model({"a": a, "b": b}, L.Dense(1)(L.Concatenate()([crossed, single])))
    x = {"a": np.array([["A"], ["B"]]), "b": np.array([[1], [2]])}
    net.compile("sgd", "mse")
    net.fit(x, np.ones((2, 1)), verbose=0)
    net.save(tmp_path / "net.keras")
    again = K.models.load_model(tmp_path / "net.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), net.predict(x, verbose=0))
    layer = L.Hashing(3)
    data = tk.data.Dataset.from_tensor_slices(LETTERS).batch(2).map(layer)
    assert data.element_spec == tk.TensorSpec((None, 1), tk.int64)
    assert np.concatenate(list(data.as_numpy_iterator())).ravel().tolist() == [1, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: L.Hashing(0), "num_bins"),
        (lambda: L.Hashing(3, salt="x"), "salt must be an int or two"),
        (lambda: L.Hashing(3, dtype="float32"), "dtype"),
        (lambda: L.Hashing(3, sparse=True, output_mode="count"), "sparse"),
        (lambda: L.Hashing(3, output_mode="tf_idf"), "output_mode"),
        (lambda: L.Hashing(3, mask_value=0)(["a"]), "mask_value 0 is no element"),
        (lambda: L.HashedCrossing(3)([tk.constant("a")]), "two or more"),
        (lambda: L.HashedCrossing(3)([tk.ones(2), tk.ones(3)]), r"\(2,\), \(3,\)"),
        (lambda: L.HashedCrossing(3)([tk.ones((2, 2)), tk.ones((2, 2))]), r"\(batch, 1\)"),
        (lambda: L.HashedCrossing(3)([tk.ones(2), tk.ones(2)]), "text and integers"),
        (lambda: tk.strings.to_hash_bucket_fast([1], 3), "takes text, got int32"),
        (lambda: tk.strings.to_hash_bucket(["a"], 0), "num_buckets"),
        (lambda: tk.strings.to_hash_bucket_strong(["a"], 3, [1]), "two ints"),
    ],
)
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises((tk.errors.InvalidArgumentError, ValueError), match=words):
        call()


@pytest.mark.parametrize("values", [["a", "bb"], [["a"], ["bb"]], [1, 2], "a"])
def test_lists_and_texts_of_python_become_vectors(values):
    layer = tk.layers.Hashing(4, output_mode="one_hot")
    np.testing.assert_array_equal(layer(values), layer(tk.constant(values)))


def test_a_text_and_a_number_of_python_are_crossed():
    for mode in ("int", "one_hot"):
        layer = tk.layers.HashedCrossing(5, output_mode=mode)
        want = layer((tk.constant("A"), tk.constant(1)))
        np.testing.assert_array_equal(layer(("A", 1)), want)
