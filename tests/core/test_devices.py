"""Device names, contexts, and what is said where there is no GPU."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from trainkit.core import devices
from trainkit.core.errors import DeviceError
from trainkit.ops.sampling import generators

NAMES = ["/cpu:0", "CPU:0", "cpu", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"]


@pytest.mark.parametrize("name", NAMES)
def test_all_spellings_of_the_cpu(name):
    assert devices.parse(name) is devices.CPU
    with tk.device(name):
        assert tk.constant(1.0).device == "/device:CPU:0"


@pytest.mark.parametrize("name", ["tpu:0", "", "/cpu0"])
def test_what_is_no_name_says_so(name):
    with pytest.raises(DeviceError, match=r"is not a device name; this machine has /device:CPU:0"):
        tk.device(name)


@pytest.mark.parametrize("name", ["/gpu:99", "/cpu:1"])
def test_what_is_not_there_lists_what_is(name):
    with pytest.raises(DeviceError, match=r"not on this machine, which has /device:CPU:0") as info:
        tk.device(name)
    assert "pip install 'cupy-cuda13x[ctk]>=" in str(info.value)
    assert isinstance(info.value, ValueError)


def test_gpu_of_a_tensor_without_a_gpu(monkeypatch):
    monkeypatch.setattr(devices, "gpu_count", lambda: 0)
    devices.parse.cache_clear()
    with pytest.raises(DeviceError, match="For a GPU install the CuPy"):
        tk.constant(1.0).gpu()
    devices.parse.cache_clear()


def test_contexts_nest_and_end_with_an_error():
    before = devices.current()
    with tk.device("/cpu:0"), pytest.raises(KeyError), tk.device(devices.CPU):
        raise KeyError
    assert devices.current() is before


def test_a_device_is_one_object_with_a_name():
    assert repr(devices.CPU) == "<Device /device:CPU:0>"
    assert devices.CPU.xp is np
    assert devices.all_devices()[0] is devices.CPU
    with tk.device(tk.config.list_logical_devices("CPU")[0]):
        assert devices.current() is devices.CPU


def test_arrays_know_where_they_are():
    array = np.ones(2)
    assert devices.device_of(array) is devices.CPU
    assert devices.device_of(np.float32(1)) is devices.CPU
    assert devices.to_device(array, devices.CPU) is array
    assert devices.to_numpy(array) is array


def test_results_stay_where_their_inputs_are(device):
    with tk.device(device):
        x = tk.constant([1.0, 2.0])
    assert (x + 1).device == x.device
    assert (x + 1).cpu().numpy().tolist() == [2.0, 3.0]


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(generators._Global, "generator", None)  # others made it on the CPU
    with stand_in.in_place(gpus=2):
        yield


def _of_variables():
    x = tk.Variable(tk.random.normal((4, 4)))
    with tk.GradientTape() as tape:
        y = tk.reduce_sum(tk.matmul(x, tk.ones((4, 2))) ** 2)
    return x, y, tape.gradient(y, x)


def _of_a_function():
    x, w = tk.ones((2, 4)), tk.Variable(tk.eye(4))

    @tk.function
    def f(x):
        for _ in tk.range(2):
            x = tk.nn.relu(tk.matmul(x, w) + tk.constant([1.0, 2.0, 3.0, 4.0]))
        return x

    return [f(x) for _ in range(6)]


def _of_a_model():
    layers = tk.keras.layers
    model = tk.keras.Sequential(
        [
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    x, y = np.ones((20, 6, 6, 2), "float32"), np.ones((20, 1), "float32")
    model.fit(x, y, batch_size=8, epochs=3, verbose=0)
    slots = [v for v in model.optimizer.variables if v.shape.rank]
    return [*model.weights, *slots, model(x)]


def _of_a_recurrent_model():
    layers = tk.keras.layers
    model = tk.keras.Sequential(
        [layers.Embedding(10, 4, mask_zero=True), layers.LSTM(4, dropout=0.1), layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    x, y = np.ones((20, 6), "int32"), np.ones((20, 1), "float32")
    model.fit(x, y, batch_size=8, epochs=3, verbose=0)
    return [*model.weights, model(x)]


def _of_data():
    rows = np.ones((8, 2), "float32")
    dataset = tk.data.Dataset.from_tensor_slices(rows).map(lambda x: x + 1).batch(4).prefetch(1)
    return list(dataset)


MADE = {
    "constants": lambda: [tk.constant([1.0]), tk.ones(2), tk.range(3), tk.eye(2), tk.zeros(3)],
    "draws": lambda: [
        tk.random.normal((3,)),
        tk.random.uniform((2,)),
        tk.random.shuffle(tk.range(5)),
        tk.random.Generator.from_seed(1).normal((3,)),
    ],
    "gradients": _of_variables,
    "function": _of_a_function,
    "model": _of_a_model,
    "recurrent model": _of_a_recurrent_model,
    "data": _of_data,
}


@pytest.mark.parametrize("what", MADE)
def test_all_that_is_made_for_a_gpu_lies_there(two_gpus, what):
    for name in ("/gpu:1", "/gpu:0"):
        with tk.device(name):
            made = MADE[what]()
        assert {x.device for x in made} == {f"/device:GPU:{name[-1]}"}
    assert tk.ones(2).device == "/device:GPU:0"  # outside all is as before


def test_contexts_of_gpus_nest(two_gpus):
    with tk.device("/gpu:1"):
        with tk.device("/cpu:0"):
            assert tk.ones(2).device == "/device:CPU:0"
        with tk.device("/gpu:0"):
            assert tk.ones(2).device == "/device:GPU:0"
        assert tk.ones(2).device == "/device:GPU:1"


def test_tensors_of_two_gpus_are_refused_by_name(two_gpus):
    x, y = tk.ones(2).gpu(0), tk.ones(2).gpu(1)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"GPU:0 and /device:GPU:1; bring"):
        x + y
    v = tk.Variable(x)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"GPU:0 and /device:GPU:1; bring"):
        v.assign_add(y)
    assert v.assign(y + 1).device == "/device:GPU:0"
    assert v.numpy().tolist() == [2.0, 2.0]


def test_an_operation_runs_on_the_gpu_of_its_inputs(two_gpus):
    x = tk.constant([1.0, 2.0]).gpu(1)
    assert (x * 2 + tk.square(x)).device == "/device:GPU:1"


@pytest.mark.parametrize("op", ["assign_add", "assign_sub"])
@pytest.mark.parametrize(("home", "lies"), [("/cpu:0", "/gpu:0"), ("/gpu:0", "/cpu:0")])
def test_what_another_device_adds_to_a_variable_is_refused_by_name(op, home, lies):
    with stand_in.in_place():
        with tk.device(home):
            v = tk.Variable([1.0, 2.0])
        with tk.device(lies):
            x = tk.constant([1.0, 2.0])
        with pytest.raises(tk.errors.InvalidArgumentError, match="bring them to one device"):
            getattr(v, op)(x)
        assert v.numpy().tolist() == [1.0, 2.0]
        assert v.device[-5:].lower() == home[1:]


def test_a_number_of_the_cpu_is_added_to_a_variable_of_a_gpu():
    with stand_in.in_place():
        v = tk.Variable([1.0, 2.0])
        with tk.device("/cpu:0"):
            x = tk.constant(2.0)
        assert v.assign_add(x).numpy().tolist() == [3.0, 4.0]
        assert "GPU" in v.device


def test_positions_of_the_cpu_are_those_of_rows_of_a_gpu():
    with stand_in.in_place():
        x = tk.constant([1.0, 2.0, 3.0])
        with tk.device("/cpu:0"):
            positions = tk.constant([[2], [0], [2]])
        y = tk.scatter_nd(positions, x, [4])
        assert "GPU" in y.device
        assert y.numpy().tolist() == [2.0, 0.0, 4.0, 0.0]
