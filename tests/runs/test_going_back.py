"""`run.at(step)` has the bits that were seen live, and forks go on from there."""

import numpy as np
import pytest

import trainkit as tk
from tests.runs.test_journal import X, Y, fitted, journal, new_model, train
from trainkit.ops.sampling.generators import global_generator


class Seen(tk.callbacks.Callback):
    """Keeps the weights that each step found."""

    def __init__(self):
        super().__init__()
        self.__dict__["weights"] = {}

    def on_train_batch_begin(self, batch, logs=None):
        step = len(self.weights) + 1
        self.weights[step] = [w.copy() for w in self.model.get_weights()]


def dense():
    return new_model()


def convolutional():
    tk.keras.utils.set_random_seed(1)
    model = tk.Sequential(
        [
            tk.Input((4,)),
            tk.layers.Reshape((2, 2, 1)),
            tk.layers.Conv2D(3, 2, padding="same", activation="relu"),
            tk.layers.Flatten(),
            tk.layers.Dropout(0.5),
            tk.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(tk.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    return model


def recurrent():
    tk.keras.utils.set_random_seed(2)
    model = tk.Sequential(
        [tk.Input((4,)), tk.layers.Reshape((4, 1)), tk.layers.LSTM(5), tk.layers.Dense(3)]
    )
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.RMSprop(0.01), loss, run_eagerly=True)
    return model


MODELS = {"dense": dense, "convolutional": convolutional, "recurrent": recurrent}


@pytest.mark.parametrize("name", MODELS)
def test_any_step_is_as_it_was_seen(name, tmp_path):
    seen = Seen()
    fitted(tmp_path / "a", model=MODELS[name](), callbacks=[seen], save_every=5)
    run = tk.runs.open(tmp_path / "a")
    for step in np.random.default_rng(len(name)).choice(np.arange(1, 13), 4, replace=False):
        state = run.at(int(step))
        assert state.verified
        for one, other in zip(state.model.get_weights(), seen.weights[step], strict=True):
            np.testing.assert_array_equal(one, other)
        state.train_step()
        digests = state.digests()
        line = run.journal.at(int(step))
        assert (digests["weights"], digests["slots"]) == (line.weights, line.slots)


def test_the_state_after_the_last_step(tmp_path):
    model = fitted(tmp_path / "a")
    state = tk.runs.open(tmp_path / "a").at(13)
    assert state.verified
    assert state.batch is None
    for one, other in zip(state.model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_change_nothing(tmp_path):
    fitted(tmp_path / "a")
    state = tk.runs.open(tmp_path / "a").at(7)
    before = state.digests()
    gradients, again = state.gradients(), state.gradients()
    assert state.digests() == before
    assert set(gradients) == {v.path for v in state.model.trainable_variables}
    for path in gradients:
        np.testing.assert_array_equal(gradients[path].numpy(), again[path].numpy())


def test_the_process_goes_on_as_if_nothing_was_asked(tmp_path):
    fitted(tmp_path / "a")
    tk.random.set_seed(11)
    before = global_generator().state.numpy()
    tk.runs.open(tmp_path / "a").at(7).gradients()
    np.testing.assert_array_equal(global_generator().state.numpy(), before)
    one = tk.random.normal((3,)).numpy()
    tk.random.set_seed(11)
    np.testing.assert_array_equal(tk.random.normal((3,)).numpy(), one)


@pytest.mark.parametrize("at", [1, 3, 5, 6, 12])
def test_a_fork_with_nothing_changed_ends_in_the_same_bits(tmp_path, at):
    fitted(tmp_path / "a")
    run = tk.runs.open(tmp_path / "a")
    fork = run.fork(at, tmp_path / "b")
    assert [s._replace(seconds=0, waited=0, rate=None) for s in fork.steps] == [
        s._replace(seconds=0, waited=0, rate=None) for s in run.steps[at - 1 :]
    ]
    parent = fork.header["parent"]
    assert (parent["id"], parent["step"]) == (run.id, at)


def test_a_fork_may_have_another_rate_or_optimizer(tmp_path):
    fitted(tmp_path / "a")
    run = tk.runs.open(tmp_path / "a")
    rate = run.fork(8, tmp_path / "rate", learning_rate=0.5)
    assert rate.steps[0].rate == 0.5
    assert rate.steps[0].batch == run.steps[7].batch
    assert rate.steps[-1].weights != run.steps[-1].weights
    other = run.fork(8, tmp_path / "sgd", optimizer=tk.optimizers.SGD(0.1))
    assert other.header["optimizer"]["class_name"] == "SGD"
    assert other.at(10).verified
    with pytest.raises(FileExistsError, match="there is a run"):
        run.fork(3, tmp_path / "sgd")


def test_a_resumed_run_can_be_gone_back_into(tmp_path):
    from tests.runs.test_journal import Stop

    with pytest.raises(RuntimeError):
        fitted(tmp_path / "a", callbacks=[Stop(7, "failed")])
    fitted(tmp_path / "a", callbacks=[Stop(0, "failed")])
    run = tk.runs.open(tmp_path / "a")
    assert [run.at(step).verified for step in (2, 6, 7, 8, 11)] == [True] * 5


def test_a_loop_of_ones_own_is_gone_back_into_by_its_program(tmp_path):
    folder = tmp_path / "a"
    train(folder)
    run = tk.runs.open(folder, program=lambda: train(folder))
    for step in (1, 3, 9, 16):
        state = run.at(step)
        assert state.verified
        assert set(state.parts) == {"model", "optimizer", "data"}
    fork = run.fork(7, tmp_path / "b")
    assert fork.steps[-1].weights == run.steps[-1].weights
    with pytest.raises(RuntimeError, match="in the program"):
        tk.runs.open(folder).at(3)
    with pytest.raises(RuntimeError, match="step of a loop"):
        run.at(2).gradients()


def test_callbacks_that_set_the_rate_are_done_again(tmp_path):
    halve = tk.callbacks.LearningRateScheduler(lambda epoch: 0.02 / 2**epoch)
    fitted(tmp_path / "a", callbacks=[halve], save_every=100)
    run = tk.runs.open(tmp_path / "a")
    assert [run.at(step).verified for step in (4, 6, 11)] == [True] * 3


def test_data_that_is_not_stored_is_asked_for(tmp_path):
    fitted(tmp_path / "a", keep_data=10)
    with pytest.raises(RuntimeError, match="is not stored"):
        tk.runs.open(tmp_path / "a").at(4)
    assert tk.runs.open(tmp_path / "a", data=(X, Y)).at(4).verified
    with pytest.raises(tk.runs.ReplayError, match="in: batch"):
        tk.runs.open(tmp_path / "a", data=(X + 1, Y)).at(1)


def test_a_dataset_is_given_again(tmp_path):
    rows = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(60, seed=4).batch(16)
    new_model().fit(rows, epochs=2, verbose=0, run=journal(tmp_path / "a"))
    run = tk.runs.open(tmp_path / "a", data=rows)
    assert [run.at(step).verified for step in (3, 7)] == [True] * 2


def test_other_data_or_weights_are_noticed(tmp_path):
    fitted(tmp_path / "a")
    run = tk.runs.open(tmp_path / "a", model=lambda: new_model(rate=0.02))
    assert run.at(7).verified  # the rate stands in the checkpoint
    other = tk.runs.open(tmp_path / "a", model=lambda: new_model(layers=[tk.layers.Dense(3)]))
    with pytest.raises(ValueError, match="of another model"):
        other.at(7)


def test_missing_checkpoints_are_said(tmp_path):
    fitted(tmp_path / "a")
    for step, path in tk.runs.open(tmp_path / "a").checkpoints.items():
        if step < 10:
            path.unlink()
    run = tk.runs.open(tmp_path / "a")
    with pytest.raises(RuntimeError, match="the first is after step 10"):
        run.at(4)
    assert run.at(11).verified


@pytest.mark.parametrize("step", [0, -1, 14, 2.5, True])
def test_steps_that_are_none_are_refused(tmp_path, step):
    fitted(tmp_path / "a", epochs=3)
    with pytest.raises(ValueError, match="has steps 1 to 12"):
        tk.runs.open(tmp_path / "a").at(step)


def test_several_steps_in_one_execution(tmp_path):
    tk.keras.utils.set_random_seed(1)
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dropout(0.2), tk.layers.Dense(3)])
    model.compile("adam", "mse", steps_per_execution=2)
    model.fit(X, np.zeros((60, 3), "f"), 16, 2, verbose=0, run=journal(tmp_path / "a"))
    run = tk.runs.open(tmp_path / "a")
    assert [step.step for step in run.steps] == [2, 4, 6, 8]
    assert run.at(7).verified
    for step in (4, 8):  # in the midst of the run, and of its last execution
        with pytest.raises(RuntimeError, match="within an execution of several"):
            run.at(step)


@pytest.mark.parametrize("source", ["stored", "model", "program"])
def test_layers_and_weights_have_the_names_of_the_live_run(tmp_path, source):
    tk.layers.Dense(1)  # so that names have numbers
    folder = tmp_path / "a"
    live = fitted(folder)
    sources = {"stored": {}, "model": {"model": new_model}, "program": {}}
    if source == "program":
        sources["program"]["program"] = lambda: fitted(folder)
    run = tk.runs.open(folder, **sources[source])
    for model in (run.at(7).model, run.at(13).model):
        assert [v.path for v in model.weights] == [v.path for v in live.weights]
        assert [layer.name for layer in model.layers] == [layer.name for layer in live.layers]
    fork = run.fork(8, tmp_path / "b")
    assert fork.header["model"]["weights"] == run.header["model"]["weights"]


def test_a_model_that_its_first_step_builds_has_the_names_of_the_live_run(tmp_path):
    def unbuilt():
        tk.keras.utils.set_random_seed(3)
        model = tk.Sequential([tk.layers.Dense(4), tk.layers.Dense(3, activation="softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy")
        return model

    live = fitted(tmp_path / "a", model=unbuilt())
    for more in ({}, {"model": unbuilt}):
        state = tk.runs.open(tmp_path / "a", **more).at(7)
        assert [v.path for v in state.model.weights] == [v.path for v in live.weights]
