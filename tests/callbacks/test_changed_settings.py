"""Settings of layers and optimizers that callbacks change hold at once, and in resumed runs."""

import dis
import warnings

import numpy as np
import pytest

import trainkit as tk
from tests.callbacks.breaking_off import Kill, Killed
from tests.conformance.layer_table import ROWS
from tests.conformance.test_layers import ABSTRACT, arguments
from trainkit.core.registry import CustomObjectScope
from trainkit.models import part_settings

cb = tk.callbacks
ALL = ("optimizer", "layers", "trainable")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(48, 4)).astype("float32"), RNG.normal(size=(48, 1)).astype("float32")


class Scale(tk.layers.Layer):
    """A layer of the user's own, with a number that a callback lowers."""

    def __init__(self):
        super().__init__()
        self.alpha = 1.0

    def call(self, x):
        return x * self.alpha


class Changes(cb.Callback):
    """Changes what the named parts hold, after batches and at both ends of epochs."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def change(self, model, count):
        block, layers, optimizer = model.layers[0], model.layers[0].layers, model.optimizer
        if "optimizer" in self.what:
            optimizer.clipnorm *= 0.7
            optimizer.weight_decay = 0.1 * count
            optimizer.beta_1 = 0.5
        if "layers" in self.what:
            layers[1].rate *= 0.9
            layers[2].momentum = 0.5
            layers[3].alpha *= 0.8
        if "trainable" in self.what:  # all of the block but its last layer
            block.trainable = False
            layers[4].trainable = True

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.change(self.model, 1)

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.change(self.model, 2)

    def on_epoch_end(self, epoch, logs=None):
        self.change(self.model, 3)


def model_of(eagerly, rate=0.4, seed=1):
    tk.random.set_seed(seed)
    layers = tk.layers
    block = [layers.Dense(6, "relu"), layers.Dropout(rate), layers.BatchNormalization(), Scale()]
    block = tk.Sequential([tk.Input((4,)), *block, layers.Dense(3)])
    model = tk.Sequential([block, layers.Dense(1)])
    model.compile(tk.optimizers.AdamW(0.05, clipnorm=1.0), "mse", run_eagerly=eagerly)
    return model


def train(folder, eagerly, *callbacks, **settings):
    model = model_of(eagerly, **settings)
    backup = cb.BackupAndRestore(folder, save_freq=2, delete_checkpoint=False)
    model.fit(X, Y, 8, epochs=3, verbose=0, callbacks=[*callbacks, backup])
    return np.concatenate([w.ravel() for w in model.get_weights()]), model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return {
        eagerly: train(folder / str(eagerly), eagerly, Changes(ALL)) for eagerly in (True, False)
    }


@pytest.mark.parametrize("eagerly", [True, False])
@pytest.mark.parametrize("after", [3, 5, 9])  # twice in an epoch, once after its end
def test_a_resumed_run_has_the_settings_that_callbacks_have_changed(
    tmp_path, whole, after, eagerly
):
    with pytest.raises(Killed):
        train(tmp_path, eagerly, Changes(ALL), Kill(after))
    resumed, model = train(tmp_path, eagerly, Changes(ALL), seed=2)
    expected, other = whole[eagerly]
    np.testing.assert_array_equal(resumed, expected)
    assert texts_of(model) == texts_of(other)


def texts_of(model):
    return {
        (path, name): text
        for path, texts in part_settings.settings_of(model).items()
        for name, text in texts.items()
        if isinstance(text, str)
    }


def test_a_compiled_step_takes_a_setting_as_an_eager_one_does(tmp_path, whole):
    np.testing.assert_allclose(whole[False][0], whole[True][0], rtol=1e-4, atol=1e-6)
    for number, what in enumerate(ALL):
        without, _ = train(tmp_path / str(number), True, Changes(set(ALL) - {what}))
        assert abs(without - whole[True][0]).max() > 1e-3


def test_a_step_is_traced_anew_only_where_one_of_its_settings_changed():
    model = model_of(False)
    traces = []
    layer = model.layers[0].layers[3]
    layer.call = lambda x, call=layer.call: traces.append(1) or call(x)

    class Other(cb.Callback):
        def on_train_batch_end(self, batch, logs=None):
            Scale().alpha = batch  # of another layer
            layer.alpha = 1.0  # the value that it has

    model.fit(X, Y, 8, epochs=2, verbose=0, callbacks=[Other()])
    assert len(traces) == 2  # an eager step and a trace
    layer.alpha = 0.5
    model.fit(X, Y, 8, epochs=1, verbose=0)
    assert len(traces) == 2 + 2


def test_what_a_program_begins_with_is_its_own(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, True, Changes(("layers", "optimizer")), Kill(9))
    text = "began with rate=0.4 and went on with 0.2624.* begins with 0.3, which stays"
    with pytest.warns(UserWarning, match=text):
        _, model = train(tmp_path, True, rate=0.3)
    assert model.layers[0].layers[1].rate == 0.3
    assert model.layers[0].layers[3].alpha == pytest.approx(0.8**4)  # the rest is taken over


def test_a_function_that_was_changed_is_told_since_it_is_not_stored(tmp_path):
    def swap(epoch, logs):
        model.layers[1].activation = tk.nn.tanh

    model = model_of(True)
    backup = cb.BackupAndRestore(tmp_path, delete_checkpoint=False)
    swapped = cb.LambdaCallback(on_epoch_end=swap)
    model.fit(X, Y, 8, epochs=1, verbose=0, callbacks=[swapped, backup])
    with pytest.warns(UserWarning, match="activation was changed to .*tanh.* in the stored run"):
        train(tmp_path, True)


def test_another_way_to_clip_is_checked_when_it_is_set():
    optimizer, weight = tk.optimizers.SGD(1.0, clipnorm=1.0), tk.Variable([0.0, 0.0])
    for name, value in {"clipvalue": 0.5, "clipnorm": -1.0}.items():
        with pytest.raises(ValueError, match=f"clipnorm.*{name}|{name}"):
            setattr(optimizer, name, value)
    optimizer.apply([tk.constant([3.0, 4.0])], [weight])
    np.testing.assert_allclose(weight.numpy(), [-0.6, -0.8], rtol=1e-6)
    optimizer.clipnorm = None
    optimizer.clipvalue = 0.5
    weight.assign([0.0, 0.0])
    optimizer.apply([tk.constant([3.0, 0.25])], [weight])
    np.testing.assert_allclose(weight.numpy(), [-0.5, -0.25])


def test_bytes_that_are_none_of_ours_change_nothing():
    model = model_of(True)
    before = part_settings.settings_of(model)
    for text in (b"[1]", b'{"optimizer": 3}', b'{"optimizer": {"clipnorm": [1]}}', b"{"):
        with pytest.raises(ValueError, match="settings of the model can't be read"):
            part_settings.take_over(model, np.frombuffer(text, np.uint8), None)
    assert part_settings.settings_of(model) == before


def test_no_layer_changes_its_settings_by_itself():
    """They would be stored with each run, and a compiled step would be traced anew."""
    changed = []
    with CustomObjectScope({}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in ROWS:
            if row.name in ABSTRACT:
                continue
            layer, inputs = row.make(), arguments(row)
            layer(*inputs)
            before = part_settings.settings_of(layer)
            layer(*inputs)
            after = part_settings.settings_of(layer)
            changed += [(row.name, path) for path in after if after[path] != before.get(path)]
    assert not changed


def test_attributes_that_code_assigns_are_those_that_dis_names():
    names = [f"a{i}" for i in range(600)]  # more than one byte counts
    space = {}
    exec("def many(x):\n" + "\n".join(f" x.{n} = x.b.c" for n in names), space)
    for function in (space["many"], tk.layers.Dense.__init__, tk.layers.Dense.call):
        steps = dis.get_instructions(function)
        named = {step.argval for step in steps if step.opname == "STORE_ATTR"}
        assert part_settings._assigned_by(function.__code__) == named
    assert part_settings._assigned_by(space["many"].__code__) == set(names)
    assert part_settings._assigned_by(None) == set()
