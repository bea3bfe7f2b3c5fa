"""What every layer inherits."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.names import reset_names, unique_name
from trainkit.core.tensor import convert_to_tensor
from trainkit.core.variable import Variable
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer


class Affine(Layer):
    def __init__(self, units, activity_regularizer=None, **kwargs):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.units = units

    def build(self, input_shape):
        self.shift = self.add_weight("shift", (self.units,), initializer="zeros", trainable=False)
        self.kernel = self.add_weight("kernel", (input_shape[-1], self.units))

    def call(self, x):
        return ops.matmul(x, self.kernel) + self.shift


class Stack(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [Affine(4), Affine(2)]

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x)
        return x


class Seen(Layer):
    """Keeps what `training` was."""

    def call(self, x, training=None):
        self.__dict__["seen"] = training
        return x


class Outer(Layer):
    def __init__(self):
        super().__init__()
        self.inner = Seen()

    def call(self, x):
        return self.inner(x)


X = np.ones((3, 5), "float32")


def test_weights_are_made_at_the_first_call_and_trainable_ones_come_first():
    layer = Affine(2)
    assert not layer.built
    assert layer.weights == []
    assert layer(X).shape == (3, 2)
    assert layer.built
    assert [w.name for w in layer.weights] == ["kernel", "shift"]
    assert [w.path for w in layer.weights] == [f"{layer.name}/kernel", f"{layer.name}/shift"]
    assert layer.trainable_variables == [layer.kernel]
    assert layer.non_trainable_weights == [layer.shift]
    assert layer.count_params() == 12


def test_layers_in_lists_belong_to_the_layer_in_order():
    stack = Stack()
    stack(X)
    assert [tuple(w.shape) for w in stack.weights] == [(5, 4), (4,), (4, 2), (2,)]
    assert len(stack.trainable_weights) == 2


def test_variables_set_directly_are_weights():
    class Direct(Layer):
        def __init__(self):
            super().__init__()
            self.w = Variable([1.0], name="w")
            self.more = [Variable([2.0]), Variable([3.0], trainable=False)]

        def call(self, x):
            return x * self.w

    layer = Direct()
    assert len(layer.weights) == 3
    assert len(layer.trainable_weights) == 2
    layer.w = Variable([5.0])
    del layer.more
    assert [float(w.numpy()[0]) for w in layer.weights] == [5.0]


def test_layers_that_hold_each_other_are_walked_once():
    class Friend(Layer):
        def __init__(self):
            super().__init__()
            self.dense = Affine(2)

        def call(self, x):
            return self.dense(x)

    one, two = Friend(), Friend()
    one.friend, two.friend = two, one
    one(X)
    two(X)
    assert len(one.weights) == len(two.weights) == 4
    one.trainable = False
    assert two.dense.kernel.trainable is False
    assert one.losses == []


def test_trainable_reaches_down_and_comes_back():
    stack = Stack()
    stack(X)
    stack.trainable = False
    assert stack.trainable_weights == []
    assert stack.blocks[0].kernel.trainable is False
    assert len(stack.non_trainable_weights) == 4
    assert [tuple(w.shape) for w in stack.weights] == [(5, 4), (4,), (4, 2), (2,)]
    stack.trainable = True
    assert stack.blocks[0].kernel.trainable is True
    assert stack.blocks[0].shift.trainable is False


def test_set_weights_changes_all_or_nothing():
    layer = Affine(2)
    layer(X)
    before = layer.get_weights()
    with pytest.raises(ShapeError, match=r"'shift' has shape \(2,\).*\(3,\)"):
        layer.set_weights([np.zeros((5, 2)), np.zeros(3)])
    with pytest.raises(ValueError, match="has 2 weights, 1 arrays"):
        layer.set_weights([np.zeros((5, 2))])
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    layer.set_weights([np.zeros((5, 2)), np.ones(2)])
    np.testing.assert_array_equal(layer(X).numpy(), np.ones((3, 2)))


def test_training_is_that_of_the_argument_then_of_the_caller_then_the_default():
    seen = Seen()
    seen(X)
    assert seen.seen is None
    seen(X, training=True)
    assert seen.seen is True
    with pytest.raises(ValueError, match="by its keyword"):
        seen(X, True)
    outer = Outer()
    outer(X, training=True)
    assert outer.inner.seen is True
    outer(X)
    assert outer.inner.seen is None

    class Default(Layer):
        def call(self, x, training=False):
            self.__dict__["seen"] = training
            return x

    layer = Default()
    layer(X)
    assert layer.seen is False

    class Between(Layer):
        def call(self, x, training=None, factor=1.0):
            self.__dict__["seen"] = training
            return x * factor

    between = Between()
    assert float(ops.sum(between(X, training=True, factor=2.0))) == 30
    assert between.seen is True
    between(X, None, factor=2.0)
    assert between.seen is None


def test_losses_are_those_of_the_last_call():
    class Penalty(Layer):
        def call(self, x):
            self.add_loss(ops.sum(x))
            return x

    class Holder(Layer):
        def __init__(self):
            super().__init__()
            self.one, self.two = Penalty(), Penalty()

        def call(self, x):
            return self.two(self.one(x))

    holder = Holder()
    holder(X)
    holder(X)
    assert [float(loss) for loss in holder.losses] == [15.0, 15.0]
    with pytest.raises(InvalidArgumentError, match="add_loss takes tensors"):
        holder.one.add_loss(X)


def test_regularizers_and_activity_regularizer_count_as_losses():
    layer = Affine(2, activity_regularizer="l2")
    layer(X)
    layer.kernel.regularizer = lambda w: ops.sum(w)
    layer.set_weights([np.full((5, 2), 0.5, "float32"), np.zeros(2)])
    layer(X)
    np.testing.assert_allclose(
        [float(v) for v in layer.losses], [0.01 * 6 * 2.5**2 / 3, 5.0], rtol=1e-6
    )


def test_shapes_are_found_without_building():
    layer = Affine(7)
    assert layer.compute_output_shape((None, 5)) == (None, 7)
    assert not layer.built
    assert layer.weights == []


def test_float_inputs_are_cast_to_the_compute_dtype():
    layer = Affine(2, dtype="float64")
    assert layer(X).dtype.name == "float64"
    assert Affine(2)(X.astype("float64")).dtype.name == "float32"
    assert Affine(2)([[1.0, 2.0]]).shape == (1, 2)


def test_mixed_precision_computes_in_half_and_keeps_whole_weights():
    layer = Affine(2, dtype="mixed_float16")
    x = convert_to_tensor(X)
    with GradientTape() as tape:
        y = layer(x)
        loss = ops.sum(y)
    assert y.dtype.name == "float16"
    assert layer.kernel.dtype.name == "float32"
    assert layer.kernel.value().dtype.name == "float32"
    assert tape.gradient(loss, layer.kernel).dtype.name == "float32"


def test_input_of_another_size_names_layer_and_weights():
    class Strict(Affine):
        def build(self, input_shape):
            super().build(input_shape)
            self.input_spec = InputSpec(min_ndim=2, axes={-1: input_shape[-1]})

    layer = Strict(2, name="head")
    layer(X)
    with pytest.raises(ShapeError) as caught:
        layer(np.ones((3, 6), "float32"))
    text = str(caught.value)
    assert "layer 'head' (Strict)" in text
    assert "has size 6, the layer was built for 5" in text
    assert "(3, 6) float32" in text
    assert "kernel  (5, 2)" in text
    assert "Make a new layer for this input" in text


def test_an_error_of_an_operation_names_the_innermost_layer():
    class Wrong(Layer):
        def call(self, x):
            return ops.matmul(x, x)

    outer = Outer()
    outer.inner = Wrong(name="wrong")
    with pytest.raises(ShapeError, match=r"matmul in layer 'wrong' \(Wrong\)") as caught:
        outer(X)
    assert "outer" not in str(caught.value)


def test_a_failed_first_call_leaves_everything_unbuilt():
    stack = Stack()

    class Broken(Affine):
        def call(self, x):
            raise ValueError("no")

    stack.blocks.append(Broken(1))
    with pytest.raises(ValueError, match="no"):
        stack(X)
    assert not stack.built
    assert not stack.blocks[0].built
    assert stack.weights == []
    stack.blocks.pop()
    assert stack(np.ones((2, 9), "float32")).shape == (2, 2)


def test_config_round_trip_and_unknown_arguments():
    layer = Affine(3, name="mine", trainable=False)
    config = layer.get_config()
    assert config.pop("dtype") == tk.keras.dtype_policies.serialize(layer.dtype_policy)
    assert config == {"name": "mine", "trainable": False, "units": 3}
    again = Affine.from_config(config)
    assert again.get_config() == layer.get_config()
    with pytest.raises(TypeError, match="wide"):
        Affine(3, wide=True)


def test_copies_share_nothing():
    stack = Stack()
    stack(X)
    for twin in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        np.testing.assert_array_equal(twin(X).numpy(), stack(X).numpy())
        twin.blocks[0].kernel.assign(np.zeros((5, 4), "float32"))
        assert twin.weights[0] is twin.blocks[0].kernel
        assert np.any(stack.blocks[0].kernel.numpy() != 0)


def test_names_count_up_and_hold_no_memory():
    reset_names()
    assert [unique_name("x"), unique_name("x"), unique_name("x")] == ["x", "x_1", "x_2"]
    assert Affine(1).name == "affine"
    assert Affine(1).name == "affine_1"
    with pytest.raises(ValueError, match="without '/'"):
        Affine(1, name="a/b")


def test_forgetting_super_init_is_explained():
    class Forgetful(Layer):
        def __init__(self):
            pass

        def call(self, x):
            return x

    with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
        Forgetful()(X)


def test_masks_travel_through_layers_and_die_with_their_tensors():
    from trainkit.core import masks

    class Maker(Layer):
        def __init__(self):
            super().__init__()
            self.supports_masking = True

        def call(self, x):
            return x + 0.0

        def compute_mask(self, x, previous_mask=None):
            return ops.not_equal(ops.sum(x, axis=1), 0.0)

    class Taker(Layer):
        def call(self, x, mask=None):
            self.__dict__["mask"] = mask
            return x

    gc.collect()
    held = len(masks.HELD)
    taker = Taker()
    taker(X)
    assert taker.mask is None
    y = Maker()(X)
    taker(y)
    assert taker.mask.numpy().tolist() == [True] * 3
    taker.__dict__["mask"] = None
    del y
    gc.collect()
    assert len(masks.HELD) == held


def test_weights_without_an_attribute_are_parts_too():
    class Loose(Layer):
        def build(self, input_shape):
            for _ in range(2):
                self.add_weight("w", (1,))

        def call(self, x):
            return x

    layer = Loose()
    layer(X)
    assert list(layer.parts()) == ["w", "w_1"]
    assert len(layer.weights) == 2


def test_add_weight_takes_a_shape_first_as_keras_3_does():
    layer = Layer()
    w = layer.add_weight((2, 3), "ones")
    assert w.shape == (2, 3)
    assert w.numpy().sum() == 6
    with pytest.raises(ShapeError, match="must be known"):
        layer.add_weight("w", (None, 2))


def test_masks_of_traced_tensors_die_with_their_graph():
    from trainkit.graph.tracing.function import function
    from trainkit.layers import LSTM, Masking

    masking, lstm = Masking(), LSTM(2)
    x = np.ones((2, 3, 1), "float32")
    x[0, 2] = 0
    expected = lstm(masking(convert_to_tensor(x))).numpy()
    traced = function(lambda x: lstm(masking(x)))
    np.testing.assert_allclose(traced(x).numpy(), expected, rtol=1e-6)
    assert not np.allclose(expected[0], expected[1])
    graph = weakref.ref(traced.get_concrete_function(convert_to_tensor(x)).graph)
    del traced
    gc.collect()
    assert graph() is None


def test_names_are_those_of_keras_and_survive_copies():
    """What a program makes is numbered as TensorFlow numbers it, what layers make is not."""
    layer = tk.layers.Dense(2, name="d")
    layer.build((None, 3))
    model = tk.Sequential([tk.Input((3,)), tk.layers.BatchNormalization()])
    optimizer = tk.optimizers.SGD(momentum=0.9)
    optimizer.build([layer.kernel])
    named = [
        (layer.kernel, "kernel"),
        (model.layers[0].moving_mean, "moving_mean"),
        (optimizer.iterations, "iteration"),
        (optimizer.variables[-1], "d_kernel_momentum"),
        (tk.metrics.Precision().variables[0], "true_positives"),
        (tk.Variable(1.0, name="w"), "w:0"),
    ]
    for variable, name in named:
        assert variable.name == name
        assert copy.deepcopy(variable).name == name
        assert pickle.loads(pickle.dumps(variable)).name == name


class LateOuter(tk.layers.Layer):
    """Makes no layer anew, and calls one inside for the first time after it was built itself."""

    def __init__(self):
        super().__init__()
        self.first, self.second = tk.layers.Dense(3), LateFailing()
        self.both = False

    def call(self, x):
        return self.second(self.first(x)) if self.both else self.first(x)


class LateFailing(tk.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = tk.layers.Dense(2)
        self.fails = True

    def call(self, x):
        x = self.inner(x)
        if self.fails:
            raise RuntimeError("not yet")
        return x


def test_a_failed_first_call_inside_a_built_layer_leaves_no_weights():
    layer, x = LateOuter(), tk.ones((2, 4))
    layer(x)
    layer.both = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not yet"):
            layer(x)
        assert not layer.second.built
        assert not layer.second.inner.built
        assert layer.second.inner.weights == []
    layer.second.fails = False
    assert layer(x).shape == (2, 2)
    assert layer.second.inner.built


def test_arguments_for_a_base_pass_through_a_catch_all_of_any_name():
    class Sized(tk.layers.Layer):
        def __init__(self, size, **kwargs):
            super().__init__(**kwargs)
            self.kept = size

    class Named(Sized):
        def __init__(self, **options):
            super().__init__(**options)

    assert Named(size=3, name="x").get_config()["size"] == 3
    assert Named.from_config(Named(size=3).get_config()).kept == 3


class WithVariables(Layer):
    def build(self, input_shape):
        self.plain = tk.Variable(1.0, name="plain")
        self.ours = tk.keras.Variable(1.0, name="ours")
        self.weight = self.add_weight((2,), name="weight")

    def call(self, x):
        return x * self.plain


class Around(Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = WithVariables(name="inner")

    def call(self, x):
        return self.inner(x)


def test_variables_of_a_build_are_named_after_their_layers():
    around = Around(name="around")
    around(tk.ones((1, 2)))
    inner = around.inner
    assert inner.plain.name == "around/inner/plain:0"
    assert inner.ours.path == "around/inner/ours"
    assert (inner.weight.name, inner.weight.path) == ("weight", "around/inner/weight")
    assert tk.get_current_name_scope() == ""


def test_a_build_that_fails_leaves_its_scope():
    class Failing(Layer):
        def build(self, input_shape):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        Failing()(tk.ones((1, 2)))
    assert tk.get_current_name_scope() == ""
