"""What classes of users override and set on layers, with Keras's signatures."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops
from trainkit.keras import layers

X = np.ones((2, 3), "float32")


class Doubled(layers.Layer):
    """Its call can't run on shapes."""

    def call(self, x):
        return tk.constant(np.concatenate([x, x], -1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], 2 * input_shape[1])


def test_compute_output_shape_of_the_user_says_what_a_symbolic_call_gives():
    inputs = layers.Input((3,))
    model = keras.Model(inputs, layers.Dense(1)(Doubled()(inputs)))
    assert tuple(model.layers[2].kernel.shape) == (6, 1)
    assert tuple(model(X).shape) == (2, 1)
    mixed = Doubled(dtype="mixed_float16").compute_output_spec(inputs)
    assert (mixed.shape, mixed.dtype.name) == ((None, 6), "float16")


@pytest.mark.parametrize("nest", [tuple, list, lambda s: {"a": s[0], "b": {"c": s[1]}}])
def test_compute_output_shape_of_the_user_may_be_nested(nest):
    class Several(layers.Layer):
        def call(self, x):
            return nest([x * 1.0, x[:, :1]])

        def compute_output_shape(self, input_shape):
            return nest([tuple(input_shape), (input_shape[0], 1)])

    inputs = layers.Input((3,))
    model = keras.Model(inputs, Several()(inputs))
    got, want = model(X), Several()(X)
    assert type(got) is type(want)
    assert [y.shape for y in tk.nest.flatten(got)] == [y.shape for y in tk.nest.flatten(want)]


def test_compute_output_spec_of_the_user_is_what_a_symbolic_call_gives():
    class Told(layers.Layer):
        def call(self, x):
            return tk.constant(np.argmax(x, -1))

        def compute_output_spec(self, x):
            return keras.KerasTensor((x.shape[0],), dtype="int64")

    inputs = layers.Input((3,))
    outputs = Told()(inputs)
    assert (tuple(outputs.shape), outputs.dtype.name) == ((None,), "int64")
    assert keras.Model(inputs, outputs)(X).numpy().tolist() == [0, 0]
    assert Told().compute_output_shape((5, 3)) == (5,)


def test_an_override_may_ask_its_base():
    class Mine(layers.Dense):
        def compute_output_shape(self, input_shape):
            assert super().compute_output_shape(input_shape) == (*input_shape[:-1], 4)
            return (*input_shape[:-1], 4)

    assert tuple(Mine(4)(layers.Input((3,))).shape) == (None, 4)


def test_layers_inside_are_built_before_the_shape_is_asked_for():
    class Around(layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(4)

        def call(self, x):
            return self.dense(x)

        def compute_output_shape(self, input_shape):
            return (input_shape[0], 4)

    around = Around()
    keras.Model(inputs := layers.Input((3,)), around(inputs))
    assert len(around.weights) == 2


def test_several_arguments_of_build_are_those_of_call():
    class Fits(layers.Layer):
        def build(self, b_shape, a_shape):
            self.shapes = (a_shape, b_shape)

        def call(self, a, b=None):
            return a

    fits = Fits()
    fits(X, b=np.ones((5, 1), "float32"))
    assert [tuple(s) for s in fits.shapes] == [(2, 3), (5, 1)]

    class NoSuffix(layers.Layer):
        def build(self, a_shape, b):
            pass

        def call(self, a, b):
            return a

    class Unknown(layers.Layer):
        def build(self, a_shape, c_shape):
            pass

        def call(self, a, b):
            return a

    for kind, name in ((NoSuffix, "'b' is not"), (Unknown, "'c_shape' is not")):
        with pytest.raises(ValueError, match=name):
            kind()(X, X)


def test_add_weight_takes_what_keras_does_by_position_and_refuses_doubles():
    layer = layers.Layer()
    w = layer.add_weight((2, 2), "ones", "float16", aggregation="mean", name="w")
    assert (tuple(w.shape), w.dtype.name, w.aggregation, w.path) == (
        (2, 2),
        "float16",
        "mean",
        f"{layer.name}/w",
    )
    assert float(ops.sum(layer.add_weight("old", (2,), initializer="ones"))) == 2
    with pytest.raises(ValueError, match="shape is given twice"):
        layer.add_weight((2,), shape=(2,))
    with pytest.raises(TypeError, match="by position"):
        layer.add_weight((2,), "ones", "float32", "w")
    with pytest.raises(ValueError, match="aggregation must be one of"):
        layer.add_weight((2,), aggregation="most")
    assert len(layer.weights) == 2


def test_a_weight_may_ask_to_become_its_gradient():
    layer = layers.Layer()
    plain = layer.add_weight((2,), "ones", name="plain")
    told = layer.add_weight((2,), "ones", overwrite_with_gradient=True, name="told")
    optimizer = tk.optimizers.SGD(0.5)
    optimizer.apply([ops.ones(2), ops.full((2,), 7.0)], [plain, told])
    np.testing.assert_array_equal(plain, [0.5, 0.5])
    np.testing.assert_array_equal(told, [7.0, 7.0])


def test_paths_say_which_layers_were_being_built():
    class Inner(layers.Layer):
        def build(self, input_shape):
            self.w = self.add_weight(shape=(1,), name="w")

        def call(self, x):
            return x + self.w

    class Outer(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.first = self.add_weight(shape=(1,), name="first")
            self.inner = Inner(name="inner")

        def call(self, x):
            return self.inner(x)

    outer = Outer(name="outer")
    assert outer.path is None
    outer(X)
    assert [w.path for w in outer.weights] == ["outer/first", "outer/inner/w"]
    assert (outer.path, outer.inner.path) == ("outer", "outer/inner")
    model = keras.Sequential([layers.Input((3,)), layers.Dense(2, name="d")], name="seq")
    assert [w.path for w in model.weights] == ["seq/d/kernel", "seq/d/bias"]
    wrapped = layers.Bidirectional(layers.LSTM(2, name="l"), name="both")
    wrapped.build((None, 4, 3))
    assert (
        wrapped.weights[0].path == "both/forward_l/" + wrapped.forward_layer.cell.name + "/kernel"
    )


def test_a_failed_call_leaves_no_layer_in_the_paths_of_others():
    class Fails(layers.Layer):
        def build(self, input_shape):
            raise RuntimeError("no")

        def call(self, x):
            return x

    with pytest.raises(RuntimeError):
        Fails()(X)
    dense = layers.Dense(1, name="after")
    dense(X)
    assert dense.path == "after"


def test_the_policy_of_a_layer_can_be_set_by_name():
    layer = layers.Dense(2)
    layer(X)
    assert layer(X).dtype.name == "float32"
    layer.dtype_policy = "mixed_bfloat16"
    assert layer.dtype_policy.name == "mixed_bfloat16"
    assert layer.get_config()["dtype"]["config"] == {"name": "mixed_bfloat16"}
    assert layer(X).dtype.name == "bfloat16"
    assert layer.kernel.dtype.name == "float32"
    layer.dtype_policy = "mixed_float16"
    assert layer(X).dtype.name == "float16"
    layer.dtype_policy = "float32"
    assert layer(X).dtype.name == "float32"
    with pytest.raises(ValueError, match="no dtype policy"):
        layer.dtype_policy = "float33"
    assert layer.dtype_policy.name == "float32"


def test_a_weight_that_is_not_cast_stays_so_when_the_policy_changes():
    class Two(layers.Layer):
        def build(self, input_shape):
            self.cast = self.add_weight(shape=(), initializer="ones")
            self.kept = self.add_weight(shape=(), initializer="ones", autocast=False)

        def call(self, x):
            return self.cast.value(), self.kept.value()

    two = Two()
    two(X)
    two.dtype_policy = "mixed_float16"
    assert [y.dtype.name for y in two(X)] == ["float16", "float32"]


def test_metrics_of_layers_inside_are_found_and_are_no_weights():
    class Counting(layers.Layer):
        def __init__(self, inner=None):
            super().__init__()
            self.inner = inner
            self.metric = keras.metrics.MeanSquaredError()

        def call(self, x):
            return x

    outer = Counting(Counting())
    outer(X)
    assert len(outer.metrics) == 2
    assert len(outer.metrics_variables) == 4
    assert outer.weights == []


def test_layers_without_weights_count_as_built_where_keras_says_so():
    assert layers.Dropout(0.5).built
    assert layers.ReLU().built
    assert layers.GlobalMaxPooling2D().built
    assert not layers.Dense(2).built
    assert not layers.Flatten().built

    class Mine(layers.Dropout):
        def build(self, input_shape):
            self.w = self.add_weight(shape=(1,))

    mine = Mine(0.5)
    assert not mine.built
    mine(X)
    assert len(mine.weights) == 1


def test_a_built_layer_takes_no_more_weights():
    class Late(layers.Layer):
        def call(self, x):
            self.w = self.add_weight(shape=())
            return x

    late = Late()
    with pytest.raises(ValueError, match="make them in __init__ or build"):
        late(X)
    assert late.weights == []
    dense = layers.Dense(2)
    dense(X)
    for value in (layers.Dense(1), tk.Variable(1.0)):
        with pytest.raises(ValueError, match="is built"):
            dense.more = value
    dense.kernel = dense.kernel
    dense._tracker.unlock()
    dense.more = layers.Dense(1)
    model = keras.Sequential([layers.Input((3,)), layers.Dense(2)])
    model.add(layers.Dense(1))
    assert len(model.weights) == 4


def test_a_build_that_asks_its_base_first_may_go_on():
    class More(layers.Dense):
        def build(self, input_shape):
            super().build(input_shape)
            self.more = self.add_weight(shape=())

    more = More(2)
    more(X)
    assert len(more.weights) == 3
    with pytest.raises(ValueError, match="is built"):
        more.add_weight(shape=())


def test_only_tensors_come_by_position():
    class Flagged(layers.Layer):
        def call(self, x, flag=False, other=None):
            return -x if flag else x

    flagged = Flagged()
    with pytest.raises(ValueError, match="by its keyword"):
        flagged(X, True)
    with pytest.raises(ValueError, match="by its keyword"):
        flagged(layers.Input((3,)), True)
    assert float(ops.sum(flagged(X, flag=True))) == -6
    assert float(ops.sum(flagged(X, None, [X, X]))) == 6


def test_unknown_arguments_raise_what_keras_and_python_do():
    for error in (TypeError, ValueError):
        with pytest.raises(error, match="colour"):
            layers.Dense(2, colour=1)
    with pytest.raises(ValueError, match="trainable must be a bool"):
        layers.Dense(2, trainable=1)


def test_an_empty_batch_has_no_activity_to_regularize():
    layer = layers.Dense(2, activity_regularizer="l2")
    layer(np.zeros((0, 3), "float32"))
    assert [float(loss) for loss in layer.losses] == [0.0]


class Scaled(layers.Dense):
    """Says some arguments of its base once more, and hands on the others."""

    def __init__(self, units, activation=None, kernel_initializer="ones", factor=1.0, **kwargs):
        super().__init__(
            units, activation=activation, kernel_initializer=kernel_initializer, **kwargs
        )
        self.factor = factor

    def call(self, x):
        return super().call(x) * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class Tripled(layers.Wrapper):
    """Takes the layer that its base takes."""

    def __init__(self, layer, times=3, **kwargs):
        super().__init__(layer, **kwargs)
        self.times = times

    def call(self, x):
        return self.layer(x) * self.times

    def get_config(self):
        return {**super().get_config(), "times": self.times}


def test_the_config_of_a_base_has_arguments_that_a_subclass_names_too():
    config = Scaled(3, "relu", factor=2.0, bias_initializer="ones").get_config()
    assert (config["units"], config["activation"], config["factor"]) == (3, "relu", 2.0)
    assert config["kernel_initializer"]["class_name"] == "Ones"
    inputs = layers.Input((3,))
    outputs = Tripled(layers.Dense(2), 4)(Scaled(3, "relu", factor=2.0)(inputs))
    model = tk.Model(inputs, outputs)
    again = tk.Model.from_config(model.get_config(), {"Scaled": Scaled, "Tripled": Tripled})
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())


def test_shapes_of_the_first_call_in_a_model():
    left, right = layers.Input((5,)), layers.Input((2,))
    dense, joined = layers.Dense(3), layers.Concatenate()
    model = tk.Model([left, right], joined([dense(left), right]))
    assert (dense.input_shape, dense.output_shape) == ((None, 5), (None, 3))
    assert (joined.input_shape, joined.output_shape) == ([(None, 3), (None, 2)], (None, 5))
    assert model.layers[0].input_shape == model.layers[0].output_shape == [(None, 5)]
    assert not hasattr(layers.Dense(3), "input_shape")
    with pytest.raises(AttributeError, match="never called on the symbolic tensors"):
        layers.Dense(3).output_shape  # noqa: B018

    class Shaped(layers.Layer):
        def __init__(self, output_shape):
            super().__init__()
            self.output_shape = output_shape

    assert Shaped((3, 4)).output_shape == (3, 4)


class Attending(layers.Layer):
    """Layers inside, a `build` and an output shape of its own, and a `call` that needs a mask."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def build(self, input_shape):
        self.inner = keras.Sequential([layers.Dense(4), layers.Dense(1)])
        super().build(input_shape)

    def call(self, x, mask=None):
        if mask is None:
            raise ValueError("a mask is needed")
        return self.inner(x)[..., 0] * tk.cast(mask, "float32")

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:2])


def test_a_build_that_ends_with_that_of_its_base_does_not_run_call():
    inputs = layers.Input((5, 3))
    attended = Attending()
    model = keras.Model(inputs, attended(layers.Masking()(inputs)))
    assert [w.shape for w in attended.weights] == [(3, 4), (4,), (4, 1), (1,)]
    assert model(np.ones((2, 5, 3), "float32")).shape == (2, 5)
    alone = Attending()
    alone.build((None, 5, 3))
    assert alone.built
    with pytest.raises(ValueError, match="a mask is needed"):
        alone(np.ones((2, 5, 3), "float32"))


def test_a_model_builds_what_is_inside_from_its_own_build():
    class Own(keras.Model):
        def build(self, input_shape):
            self.dense = layers.Dense(2)
            super().build(input_shape)

        def call(self, x):
            return self.dense(x)

    model = Own()
    model.build((None, 3))
    assert len(model.weights) == 2


def test_whole_floats_are_sizes_of_an_output_shape():
    class Halved(layers.Layer):
        def call(self, x):
            return tk.reduce_sum(tk.reshape(x, (-1, x.shape[1] // 2, 2)), -1)

        def compute_output_shape(self, input_shape):
            return (None, input_shape[1] / 2)

    assert Halved()(layers.Input((6,))).shape == (None, 3)
    with pytest.raises(ValueError, match=r"Halved.*gave the size 2\.5"):
        Halved()(layers.Input((5,)))


def test_what_is_no_output_shape_is_shown():
    class Joined(layers.Layer):
        def call(self, x):
            return ops.concatenate(x, -1)

        def compute_output_shape(self, input_shape):
            return (input_shape[0], 7)

    inputs = [layers.Input((3,)), layers.Input((4,))]
    with pytest.raises(ValueError, match=r"Joined.*gave \(\(None, 3\), 7\), which is no shape"):
        Joined()(inputs)
