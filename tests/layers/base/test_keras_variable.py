"""`keras.Variable` and `keras.name_scope`."""

import copy
import pickle
import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.keras import Variable, initializers, layers, name_scope, optimizers


def test_an_initializer_of_a_shape_makes_the_value():
    v = Variable(initializers.Ones(), shape=(2, 3))
    assert v.shape == (2, 3)
    assert v.dtype == "float32"
    assert Variable("zeros", (4,), "int32").numpy().tolist() == [0] * 4
    assert Variable(lambda shape, dtype: np.full(shape, 2.0), shape=[2]).numpy().tolist() == [2, 2]
    drawn = Variable(initializers.RandomNormal(seed=1), shape=(2, 2), dtype="float16")
    assert drawn.dtype == "float16"
    assert drawn.numpy().any()


def test_values_keep_their_dtype_and_lists_take_the_one_asked_for():
    assert Variable([1, 2]).dtype == "int32"
    assert Variable(np.ones(2)).dtype == "float64"
    assert Variable([1.5, 2.5], dtype="int32").numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("error", "arguments", "settings"),
    [
        (ValueError, (lambda shape, dtype: 1.0,), {}),
        (ValueError, ("ones",), {}),
        (ValueError, ("ones", (2, None)), {}),
        (ValueError, ("ones", (2, -1)), {}),
        (ValueError, ("ones", (2, 1.5)), {}),
        (ValueError, ("ones", 3), {}),
        (ValueError, (1.0,), {"name": "a/b"}),
        (ValueError, (1.0,), {"name": 3}),
        (ValueError, (1.0,), {"aggregation": "max"}),
        (ValueError, (1.0,), {"synchronization": "never"}),
        (NotImplementedError, (1.0,), {"layout": "rows"}),
        (TypeError, (1.0,), {"trainble": True}),
    ],
)
def test_wrong_arguments_are_refused(error, arguments, settings):
    with pytest.raises(error):
        Variable(*arguments, **settings)


def test_names_and_paths():
    assert Variable(1.0, name="gain").name == "gain"
    assert Variable(1.0).name.startswith("variable")
    with name_scope("outer") as outer, name_scope("inner"):
        assert outer.name == "outer"
        assert Variable(1.0, name="gain").path == "outer/inner/gain"
        with name_scope("far", override_parent="/some/where"):
            assert Variable(1.0, name="gain").path == "some/where/far/gain"
        with tk.name_scope("tf"):
            assert Variable(1.0, name="gain").path == "outer/inner/tf/gain"
    assert Variable(1.0, name="gain").path == "gain"


def test_a_scope_opened_again_by_its_caller_counts_once():
    with name_scope("a", caller=(me := object())), name_scope("a", caller=me):
        assert Variable(1.0, name="v").path == "a/v"
        with name_scope("a"):
            assert Variable(1.0, name="v").path == "a/a/v"
    with pytest.raises(ValueError, match="name_scope"):
        name_scope("a/b")


def test_scopes_belong_to_their_thread():
    paths = []
    with name_scope("outer"):
        thread = threading.Thread(target=lambda: paths.append(Variable(1.0, name="v").path))
        thread.start()
        thread.join()
    assert paths == ["v"]


def test_operators_are_those_of_keras_ops():
    v = Variable([1, 2, 3])
    assert (v / 2).dtype == "float32"
    assert (2 / v).dtype == "float32"
    assert (v / Variable([1, 2, 3])).dtype == "float32"
    assert (v + 0.5).dtype == "float32"
    assert (v + 1).dtype == "int32"
    assert (2**v).numpy().tolist() == [2, 4, 8]
    assert (np.array([1, 0, 3], np.int32) == v).numpy().tolist() == [True, False, True]
    assert (v & Variable([0, 1, 2])).numpy().tolist() == [False, True, True]
    assert (0 | v).dtype == "bool"
    assert (v ^ 1).numpy().tolist() == [False, False, False]
    assert (~Variable([True, False])).numpy().tolist() == [False, True]
    assert (np.ones((2, 3), np.float32) @ Variable(np.ones((3, 2), np.float32))).shape == (2, 2)
    assert round(Variable([1.26]), 1).numpy().tolist() == pytest.approx([1.3])
    with pytest.raises(ValueError, match="broadcast"):
        v == ops.ones((2,))  # noqa: B015


def test_only_scalars_are_python_numbers():
    assert int(Variable(3.7)) == 3
    assert float(Variable(2)) == 2.0
    for make in (int, float, bool):
        with pytest.raises(TypeError):
            make(Variable([1.0, 2.0]))
    with pytest.raises(TypeError):
        bool(Variable(1.0))


def test_assigning_casts_and_gives_the_new_value():
    v = Variable([1.0, 2.0])
    given = v.assign(ops.ones((2,), "float64"))
    assert given.dtype == "float32"
    assert v.assign_add(np.array([1.0, 2.0])).numpy().tolist() == [2, 3]
    assert v.assign_sub(1).numpy().tolist() == [1, 2]
    assert v.assign_add(Variable([1, 1])).numpy().tolist() == [2, 3]
    assert given.numpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="shape"):
        v.assign([1.0])
    assert v.numpy().tolist() == [2, 3]


def test_it_trains_in_functions_and_outside_of_them():
    v = Variable([1.0, 2.0])

    def step():
        with tk.GradientTape() as tape:
            loss = ops.sum(v * v)
        v.assign_sub(0.1 * tape.gradient(loss, v))
        return v.value + 0

    eager = step().numpy()
    v.assign([1.0, 2.0])
    compiled = tk.function(step)
    assert np.array_equal(compiled().numpy(), eager)
    compiled()
    assert v.numpy() == pytest.approx(np.array([0.64, 1.28]))


def test_every_variable_is_one():
    layer = layers.Dense(2)
    layer.build((None, 3))
    assert isinstance(layer.kernel, Variable)
    assert isinstance(tk.Variable(1.0), Variable)
    assert isinstance(Variable(1.0), tk.Variable)
    assert not isinstance(ops.ones(()), Variable)

    class Own(Variable):
        pass

    assert isinstance(Own(1.0), Own)
    assert not isinstance(Variable(1.0), Own)


def test_layers_read_it_in_their_compute_dtype():
    class Scale(layers.Layer):
        def __init__(self, autocast):
            super().__init__(dtype="mixed_float16")
            self.gain = Variable("ones", shape=(2,), autocast=autocast)
            self.places = Variable([0, 1], trainable=False)

        def call(self, x):
            return x * self.gain + self.places

    x = ops.ones((1, 2))
    assert Scale(True)(x).dtype == "float16"
    assert Scale(False)(x).dtype == "float32"
    assert [w.dtype.name for w in Scale(True).weights] == ["float32", "int32"]
    assert Scale(True).gain.value.dtype == "float32"


def test_functions_on_it_must_be_functions():
    v = Variable("ones", shape=(2,))
    for name in ("regularizer", "constraint"):
        setattr(v, name, abs)
        setattr(v, name, None)
        with pytest.raises(ValueError, match=name):
            setattr(v, name, "abs")
    with pytest.raises(TypeError):
        v.overwrite_with_gradient = "true"


@pytest.mark.parametrize("compiled", [False, True])
def test_optimizers_overwrite_the_variables_that_ask_for_it(compiled):
    scale, w = Variable([1.0]), Variable([1.0])
    scale.overwrite_with_gradient = True
    optimizer = optimizers.SGD(0.5)

    def step():
        optimizer.apply([ops.ones((1,)) * 7, ops.ones((1,))], [scale, w])

    run = tk.function(step) if compiled else step
    run()
    run()
    assert (scale.numpy().tolist(), w.numpy().tolist()) == ([7.0], [0.0])
    optimizer.apply([ops.ones((1,)) * 3], [scale])
    assert scale.numpy().tolist() == [3.0]
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_copies_are_whole_and_their_own(copied):
    v = Variable([1.0], trainable=False, autocast=False, aggregation="sum", name="gain")
    v.constraint = initializers.get  # any function that pickles by its name
    twin = copied(v)
    twin.assign([2.0])
    assert v.numpy().tolist() == [1.0]
    assert type(twin) is type(v)
    assert (twin.name, twin.path, twin.trainable, twin.autocast) == ("gain", "gain", False, False)
    assert (twin.aggregation, twin.constraint) == ("sum", initializers.get)


def test_texts():
    v = Variable(np.array([1.0, 2.0], np.float32), name="v")
    assert repr(v) == "<Variable path=v, shape=(2,), dtype=float32, value=[1. 2.]>"
