"""Models with recurrent layers that keep their state between calls: files, and starting anew."""

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit.layers.rnn.rnn import SequenceState


def stateful(batch):
    return tk.Sequential(
        [
            tk.Input(batch_shape=(batch, None, 2)),
            tk.layers.LSTM(3, stateful=True, return_sequences=True),
            tk.layers.GRU(2, stateful=True),
        ]
    )


@pytest.mark.parametrize("ending", ["weights.h5", "keras", "h5"])
def test_states_between_calls_are_no_weights_of_files(tmp_path, ending):
    path = tmp_path / f"model.{ending}"
    trained, asked = stateful(8), stateful(1)
    trained(np.ones((8, 4, 2), "float32"))
    if ending == "weights.h5":
        trained.save_weights(path)
        asked.load_weights(path)
    else:
        trained.save(path)
        asked.set_weights(tk.models.load_model(path, compile=False).get_weights())
    x = np.ones((1, 4, 2), "float32")
    trained.reset_states()
    np.testing.assert_allclose(asked(x), trained(np.repeat(x, 8, 0))[:1], rtol=1e-6)


def test_states_in_older_files_are_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "model.weights.h5"
    monkeypatch.delattr(SequenceState, "_is_sequence_state")
    stateful(8).save_weights(path)
    monkeypatch.undo()
    assert "layers/lstm/_kept/vars/0" in h5py.File(path)
    stateful(1).load_weights(path)


def test_a_model_and_the_models_inside_begin_anew():
    x = np.ones((2, 4, 2), "float32")
    inner = stateful(2)
    model = tk.Sequential([tk.Input(batch_shape=(2, None, 2)), inner, tk.layers.Dense(1)])
    first = model(x)
    assert not np.allclose(model(x), first)
    model.reset_states()
    np.testing.assert_allclose(model(x), first, rtol=1e-6)


def test_a_model_without_states_has_nothing_to_reset():
    tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)]).reset_states()
