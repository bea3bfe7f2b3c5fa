"""Arguments of TensorFlow 2.21 and Keras 3 by their names, and what comes of them there."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.core.dispatch.native import python_function


def test_bitwise_functions_take_a_name():
    x, y = tk.constant([6, -1]), tk.constant([3, 1])
    for call, wanted in {
        tk.bitwise.bitwise_and: [2, 1],
        tk.bitwise.bitwise_or: [7, -1],
        tk.bitwise.bitwise_xor: [5, -2],
        tk.bitwise.left_shift: [48, -2],
        tk.bitwise.right_shift: [0, -1],
    }.items():
        np.testing.assert_array_equal(call(x=x, y=y, name="bits"), wanted)
    np.testing.assert_array_equal(tk.bitwise.invert(x=x, name="bits"), [-7, 0])


def test_divide_no_nan_has_both_pairs_of_names():
    np.testing.assert_array_equal(tk.math.divide_no_nan(x=[1.0, 2.0], y=[0.0, 4.0]), [0, 0.5])
    np.testing.assert_array_equal(keras.ops.divide_no_nan(x1=[1.0, 2.0], x2=[0.0, 4.0]), [0, 0.5])


BY_NAME = [  # the values are TensorFlow 2.21's
    (tk.math.xlogy, {"x": [0.0, 1.0], "y": [0.0, 2.0]}, [0.0, 0.6931472]),
    (tk.math.xdivy, {"x": [0.0, 1.0], "y": [0.0, 2.0]}, [0.0, 0.5]),
    (tk.math.xlog1py, {"x": [0.0, 1.0], "y": [0.0, 2.0]}, [0.0, 1.0986123]),
    (tk.math.betainc, {"a": [1.0, 2.0], "b": [2.0, 2.0], "x": [0.5, 0.25]}, [0.75, 0.15625]),
    (tk.math.igamma, {"a": [1.0, 2.0], "x": [2.0, 1.0]}, [0.8646647, 0.2642411]),
    (tk.math.igammac, {"a": [1.0, 2.0], "x": [2.0, 1.0]}, [0.13533528, 0.7357589]),
    (tk.math.polygamma, {"a": [1.0, 2.0], "x": [2.0, 1.0]}, [0.6449341, -2.404114]),
    (tk.math.zeta, {"x": [2.0, 3.0], "q": [1.0, 2.0]}, [1.6449341, 0.2020569]),
    (tk.math.nextafter, {"x1": [1.0], "x2": [2.0]}, [1.0000001]),
    (keras.ops.divide_no_nan, {"x1": [1.0, 2.0], "x2": [0.0, 4.0]}, [0.0, 0.5]),
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", BY_NAME, ids=lambda case: case[0].__name__)
def test_inputs_by_name_are_those_by_position(case, compiled):
    function, inputs, wanted = case
    tensors = {name: tk.constant(values) for name, values in inputs.items()}
    call = function if compiled else python_function(function)
    for given in (inputs, tensors):
        found = call(**given, **({"name": "by_name"} if compiled else {}))
        assert found.dtype == tk.float32
        np.testing.assert_allclose(found, wanted, rtol=2e-6)
    first, *others = tensors.values()
    last = list(tensors)[-1]
    np.testing.assert_allclose(call(first, *others[:-1], **{last: others[-1]}), wanted, rtol=2e-6)
    np.testing.assert_allclose(tk.function(lambda: call(**tensors))(), wanted, rtol=2e-6)


def test_inputs_by_name_have_gradients():
    x = tk.constant([1.0, 2.0])
    for call in (tk.math.xlogy, python_function(tk.math.xlogy)):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = call(x=x, y=x)
        np.testing.assert_allclose(tape.gradient(y, x), np.log([1, 2]) + 1, rtol=1e-6)


def test_an_input_that_is_missing_is_named():
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"missing 1 required.*'y'"):
        tk.math.xlogy(x=[1.0])


def test_accumulate_n_checks_what_is_said_of_its_inputs():
    inputs = [[1, 2], [3, 4]]
    total = tk.math.accumulate_n(inputs, shape=[2], tensor_dtype=tk.int32, name="all")
    np.testing.assert_array_equal(total, [4, 6])
    with pytest.raises(ValueError, match=r"shape \(2,\), not \(3,\)"):
        tk.math.accumulate_n(inputs, shape=(3,))
    with pytest.raises(TypeError, match="int32, and tensor_dtype is float32"):
        tk.math.accumulate_n(inputs, tensor_dtype=tk.float32)


def test_matvec_takes_hints_of_sparseness():
    y = tk.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0], a_is_sparse=False, b_is_sparse=False)
    np.testing.assert_array_equal(y, [3, 7])


def test_names_of_first_arguments():
    assert keras.dtype_policies.get(identifier="mixed_float16").compute_dtype == "float16"
    model = keras.Sequential([keras.Input((4,), ragged=False), keras.layers.Dense(2)])
    assert keras.models.model_from_json(json_string=model.to_json()).output_shape == (None, 2)
    assert keras.saving.serialize_keras_object(obj=keras.layers.Dense(2))["class_name"] == "Dense"
    assert tk.nest.is_nested(seq=[1])
    assert tk.as_dtype(type_value="float64") is tk.float64
    assert tk.autograph.experimental.do_not_convert(func=abs)(-2) == 2
    assert "def " in tk.autograph.to_code(_doubled, experimental_optional_features=None)


def _doubled(x):
    return 2 * x


def test_what_is_not_supported_says_so():
    with pytest.raises(tk.errors.InvalidArgumentError, match="ragged"):
        keras.Input((4,), ragged=True)
    with pytest.raises(ValueError, match="experimental_optional_features"):
        tk.autograph.to_graph(_doubled, experimental_optional_features="ALL")
    with pytest.raises(ValueError, match="preferred_backend is 'torch'"):
        keras.utils.split_dataset(np.arange(4), 0.5, preferred_backend="torch")
    with pytest.raises(tk.errors.UnimplementedError, match="wait=True"):
        tk.data.Dataset.load("nowhere", wait=True)
    with pytest.raises(tk.errors.UnimplementedError, match="shard_func"):
        tk.data.experimental.save(tk.data.Dataset.range(2), "nowhere", shard_func=len)
    with pytest.raises(ValueError, match="communication_options alone"):
        tk.distribute.experimental.MultiWorkerMirroredStrategy(
            communication="AUTO",
            communication_options=tk.distribute.experimental.CommunicationOptions(),
        )


def test_split_dataset_of_tensorflow():
    left, right = keras.utils.split_dataset(np.arange(4), 0.5, preferred_backend="tensorflow")
    assert (len(left), len(right)) == (2, 2)


def test_a_multi_worker_strategy_takes_the_older_name_of_its_implementation():
    auto = tk.distribute.experimental.CollectiveCommunication.AUTO
    strategy = tk.distribute.experimental.MultiWorkerMirroredStrategy(communication=auto)
    assert strategy.num_replicas_in_sync == 1


def test_experimental_choose_from_datasets_goes_on_past_an_empty_one():
    datasets = [tk.data.Dataset.range(1), tk.data.Dataset.range(10, 13)]
    choice = tk.data.Dataset.from_tensor_slices(np.array([0, 0, 1, 1], np.int64))
    chosen = tk.data.experimental.choose_from_datasets(datasets, choice)
    assert [int(x) for x in chosen] == [0, 10, 11]
    assert [int(x) for x in tk.data.Dataset.choose_from_datasets(datasets, choice)] == [0]


def test_summaries_take_names(tmp_path):
    writer = tk.summary.create_file_writer(
        str(tmp_path), name="w", experimental_trackable=True, experimental_mesh=None
    )
    module = tk.Module()
    module.writer = writer
    with writer.as_default():
        assert tk.summary.write("raw", tk.constant([1.0]), step=0, name="raw")
    tk.summary.flush(writer, name="flush")
    writer.close()
    tk.train.Checkpoint(module=module).write(str(tmp_path / "ckpt"))
    with pytest.raises(tk.errors.UnimplementedError, match="experimental_mesh must be None"):
        tk.summary.create_file_writer(str(tmp_path), experimental_mesh=1)


@pytest.mark.parametrize("name", ["variables", "var_list"])
def test_optimizers_are_built_by_either_name(name):
    inner = keras.optimizers.Adam()
    for optimizer in (
        keras.optimizers.SGD(momentum=0.9),
        keras.optimizers.Adam(),
        keras.optimizers.LossScaleOptimizer(inner),
    ):
        optimizer.build(**{name: [tk.Variable(1.0)]})
        assert optimizer.built
        with pytest.raises(TypeError, match="build takes one list of variables"):
            optimizer.build()


def test_optimizers_from_config_take_custom_objects():
    class Halves(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5

        def get_config(self):
            return {}

    config = keras.optimizers.SGD(Halves()).get_config()
    again = keras.optimizers.SGD.from_config(config, custom_objects={"Halves": Halves})
    assert float(again.learning_rate) == 0.5


# ---------------------------------------------------------------------- bad_indices_policy


@pytest.mark.parametrize("graph", [False, True])
def test_ignored_positions_give_zeros_and_change_nothing(graph):
    def calls(x, v):
        ignore = {"bad_indices_policy": "IGNORE"}
        return (
            tk.gather_nd(x, [[0, 1], [5, 0], [-1, 0]], **ignore),
            tk.gather_nd(x, [[0], [5]], **ignore),
            tk.gather_nd(x, [[0], [2]], batch_dims=1, **ignore),
            tk.scatter_nd([[1], [9], [-1]], [5, 6, 7], (4,), **ignore),
            tk.tensor_scatter_nd_add(v, [[1], [9]], [5, 6], **ignore),
            tk.tensor_scatter_nd_sub(v, [[1], [9]], [5, 6], **ignore),
            tk.tensor_scatter_nd_max(v, [[1], [9]], [5, 6], **ignore),
            tk.tensor_scatter_nd_min(v, [[1], [9]], [0, 6], **ignore),
        )

    specs = [tk.TensorSpec((None, None), "int32"), tk.TensorSpec((None,), "int32")]
    run = tk.function(calls, input_signature=specs) if graph else calls
    found = run(tk.constant([[1, 2], [3, 4]]), tk.constant([1, 2, 3]))
    wanted = [  # TensorFlow 2.21's
        [2, 0, 0],
        [[1, 2], [0, 0]],
        [1, 0],
        [0, 5, 0, 0],
        [1, 7, 3],
        [1, -3, 3],
        [1, 5, 3],
        [1, 0, 3],
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_ignored_positions_have_gradients():
    x, u = tk.constant([[1.0, 2.0], [3.0, 4.0]]), tk.constant([5.0, 6.0])
    with tk.GradientTape(persistent=True) as tape:
        tape.watch([x, u])
        picked = tk.gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="IGNORE")
        placed = tk.scatter_nd([[1], [9]], u, (4,), bad_indices_policy="IGNORE")
        added = tk.tensor_scatter_nd_add(x[0], [[1], [9]], u, bad_indices_policy="IGNORE")
    np.testing.assert_array_equal(tape.gradient(picked, x), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(tape.gradient(placed, u), [1, 0])
    np.testing.assert_array_equal(tape.gradient(added, u), [1, 0])
    np.testing.assert_array_equal(tape.gradient(added, x), [[1, 1], [0, 0]])


@pytest.mark.parametrize("policy", ["", "DEFAULT", "ERROR"])
def test_other_policies_refuse_positions_outside_on_a_cpu(policy):
    with tk.device("CPU:0"):
        with pytest.raises(tk.errors.InvalidArgumentError, match="gather_nd"):
            tk.gather_nd([[1, 2], [3, 4]], [[5, 0]], bad_indices_policy=policy)
        with pytest.raises(tk.errors.InvalidArgumentError):
            tk.scatter_nd([[9]], [5], (4,), bad_indices_policy=policy)
        kept = tk.tensor_scatter_nd_add([1, 2, 3], [[1]], [5], bad_indices_policy=policy)
        np.testing.assert_array_equal(kept, [1, 7, 3])


def test_an_unknown_policy_is_refused():
    with pytest.raises(tk.errors.InvalidArgumentError, match="'X'; it can be '' or 'DEFAULT'"):
        tk.gather_nd([1], [[0]], bad_indices_policy="X")


# ---------------------------------------------------------------------- generators


def test_generators_of_a_key_and_a_counter():
    made = tk.random.Generator.from_key_counter(key=5, counter=[2, 3], alg="philox")
    np.testing.assert_array_equal(made.state, [2, 3, 5])
    assert int(made.key) == 5
    same = tk.random.Generator(state=[2, 3, 5], alg="philox")
    np.testing.assert_array_equal(made.normal((3,)), same.normal((3,)))
    made.reset_from_key_counter(key=9, counter=[1, 1])
    np.testing.assert_array_equal(made.state, [1, 1, 9])
    with pytest.raises(ValueError, match="counter of two words"):
        tk.random.Generator.from_key_counter(key=5, counter=2)
    with pytest.raises(ValueError, match="threefry"):
        tk.random.Generator.from_key_counter(key=5, counter=[2], alg="threefry")


def test_a_copied_generator_draws_the_same_and_moves_alone():
    first = tk.random.Generator.from_seed(3)
    first.normal((2,))
    second = tk.random.Generator(copy_from=first)
    np.testing.assert_array_equal(first.normal((3,)), second.normal((3,)))
    first.normal((3,))
    assert first.state.numpy().tolist() != second.state.numpy().tolist()
    with pytest.raises(ValueError, match="one of a seed, a state"):
        tk.random.Generator(copy_from=first, state=[1, 2, 3])


def test_generators_of_one_variable_share_a_stream():
    first = tk.random.Generator.from_seed(3)
    second = tk.random.Generator(state=first.state, alg="philox")
    assert second.state is first.state
    drawn = [first.normal(()), second.normal(()), first.normal(())]
    assert len({float(x) for x in drawn}) == 3
