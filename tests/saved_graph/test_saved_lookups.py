"""Layers that number integers, and loops of unknown length, in files and their reader."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.saved_graph import standalone

pytestmark = pytest.mark.usefixtures("plain_kernels")

layers = tk.layers
IDS = np.array([[3, 9], [4, -7], [123456789012345678, 5]])
LAYERS = [
    layers.IntegerLookup(vocabulary=[9, 5, 3]),
    layers.IntegerLookup(vocabulary=[9, 5, 3], mask_token=4, num_oov_indices=2),
    layers.IntegerLookup(vocabulary=[9, 5, 3], num_oov_indices=3, oov_method="farmhash"),
    layers.IntegerLookup(vocabulary=[], num_oov_indices=3, oov_method="farmhash", salt=[1, 2]),
    layers.IntegerLookup(vocabulary=[9, 5, 3], output_mode="multi_hot"),
    layers.IntegerLookup(vocabulary=[9, 5, 3], output_mode="tf_idf", idf_weights=[1.0, 0.5, 2.0]),
    layers.IntegerLookup(vocabulary=[9, 5, 3], invert=True),
    layers.IntegerLookup(vocabulary=[9, 5, 3], invert=True, vocabulary_dtype="int32", oov_token=-2),
    layers.Hashing(7),
    layers.Hashing(7, mask_value=3, salt=[1, 2]),
    layers.Hashing(5, output_mode="count", salt=9),
    layers.Hashing(5, dtype="int32"),
]


def saved(function, spec, path):
    f = tk.function(function, input_signature=[spec])
    tk.saved_graph.save(f, path)
    return f


@pytest.mark.parametrize("number", range(len(LAYERS)))
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_layers_that_number_integers_are_saved_and_read(number, dtype, tmp_path):
    layer = LAYERS[number]
    ids = (IDS % (1 << 31)).astype(dtype)
    f = saved(layer, tk.TensorSpec([None, None], dtype), tmp_path / "f.h5")
    expected = f(tk.constant(ids)).numpy()
    for load in (tk.saved_graph.load, standalone.load):
        y = np.asarray(
            load(tmp_path / "f.h5")(tk.constant(ids) if load is tk.saved_graph.load else ids)
        )
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


def test_crossed_features_are_saved_and_read(tmp_path):
    layer = layers.HashedCrossing(7, output_mode="one_hot")
    specs = [tk.TensorSpec([None], tk.int64), tk.TensorSpec([None], tk.int64)]
    f = tk.function(lambda a, b: layer((a, b)), input_signature=specs)
    tk.saved_graph.save(f, tmp_path / "f.h5")
    a, b = IDS[:, 0], IDS[:, 1]
    expected = layer((a, b)).numpy()
    np.testing.assert_array_equal(standalone.load(tmp_path / "f.h5")(a, b), expected)
    again = tk.saved_graph.load(tmp_path / "f.h5")(tk.constant(a), tk.constant(b))
    np.testing.assert_array_equal(again.numpy(), expected)


def test_a_file_has_the_vocabulary_that_the_layer_has_when_it_is_saved(tmp_path):
    layer = layers.IntegerLookup(vocabulary=[1, 2])
    f = saved(layer, tk.TensorSpec([None], tk.int64), tmp_path / "before.h5")
    layer.set_vocabulary([2, 1])
    tk.saved_graph.save(f, tmp_path / "after.h5")
    assert standalone.load(tmp_path / "before.h5")(np.array([1, 2])).tolist() == [1, 2]
    assert standalone.load(tmp_path / "after.h5")(np.array([1, 2])).tolist() == [2, 1]


def test_unknown_integers_are_refused_where_there_is_no_number_for_them(tmp_path):
    layer = layers.IntegerLookup(vocabulary=[1, 2], num_oov_indices=0)
    saved(layer, tk.TensorSpec([None], tk.int64), tmp_path / "f.h5")
    assert standalone.load(tmp_path / "f.h5")(np.array([2, 1])).tolist() == [1, 0]
    with pytest.raises(standalone.GraphError, match="7 is not in the vocabulary"):
        standalone.load(tmp_path / "f.h5")(np.array([2, 7]))
    with pytest.raises(tk.errors.InvalidArgumentError, match="7 is not in the vocabulary"):
        tk.saved_graph.load(tmp_path / "f.h5")(tk.constant([2, 7], tk.int64))


def test_a_model_that_numbers_integers_is_exported(tmp_path):
    model = tk.Sequential([layers.IntegerLookup(vocabulary=[9, 5]), layers.Embedding(3, 2)])
    model(np.array([[9]]))
    model.export(tmp_path / "m", verbose=False)
    run = standalone.load(tmp_path / "m")
    ids = np.array([[5], [9], [8]])
    y = run(ids.astype(run.inputs[0][2]))
    y = y["output_0"] if isinstance(y, dict) else y
    np.testing.assert_array_equal(y, model(ids).numpy())


@pytest.mark.parametrize("layer", [layers.StringLookup(vocabulary=["a"]), layers.Hashing(3)])
def test_text_is_in_no_file(layer, tmp_path):
    with pytest.raises(tk.errors.UnimplementedError, match=r"can't be saved|hold numbers"):
        saved(layer, tk.TensorSpec([None], tk.string), tmp_path / "f.h5")
    assert not (tmp_path / "f.h5").exists()


SEQUENCES = [
    [layers.LSTM(3)],
    [layers.LSTM(3, return_sequences=True, go_backwards=True)],
    [layers.Masking(), layers.LSTM(3)],
    [layers.Bidirectional(layers.LSTM(3))],
    [layers.RNN(layers.LSTMCell(3))],
    [layers.GRU(3, reset_after=False)],
]


@pytest.mark.parametrize("parts", SEQUENCES, ids=lambda parts: parts[-1].name)
def test_recurrence_over_an_unknown_number_of_steps_is_read(parts, tmp_path):
    model = tk.Sequential(parts)
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    x[1, 3:] = 0
    model(x)
    f = saved(model, tk.TensorSpec([None, None, 4]), tmp_path / "f.h5")
    run = standalone.load(tmp_path / "f.h5")
    for steps in (1, 5):
        np.testing.assert_array_equal(run(x[:, :steps]), f(tk.constant(x[:, :steps])).numpy())
