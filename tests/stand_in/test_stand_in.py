"""The stand-in for CuPy refuses what CuPy refuses, and counts what CuPy would copy."""

import importlib.util
import json
import operator

import numpy as np
import pytest

from tests import stand_in
from tests.stand_in import facts, memory


@pytest.fixture
def ledger():
    with stand_in.in_place() as ledger:
        yield ledger


@pytest.fixture
def cupy(ledger):
    import cupy

    return cupy


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_facts_are_those_of_the_installed_cupy():
    import cupy

    if "stand-in" in cupy.__version__:
        pytest.skip("CuPy is the stand-in in this run")
    kept, found = json.loads(facts.FILE.read_text()), facts.of_cupy(cupy)
    if kept["version"].split(".")[:2] != found["version"].split(".")[:2]:
        pytest.skip(f"the facts are those of CuPy {kept['version']}")
    assert found["ufuncs"] == kept["ufuncs"]
    assert found["functions"] == kept["functions"]
    assert found["methods"] == kept["methods"]


def test_an_array_has_the_methods_of_cupy_and_no_others(cupy):
    known = set(json.loads(facts.FILE.read_text())["methods"])
    ours = {name for name in dir(cupy.ndarray) if not name.startswith("_") or name[:2] == "__"}

    class Plain:  # what Python itself gives to each class
        __slots__ = ("__weakref__",)

    assert ours - set(dir(Plain)) <= known


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        lambda x: np.add(x, np.ones(3)),
        lambda x: x + np.ones(3),
        lambda x: np.ones(3) * x,
        lambda x: np.maximum(np.array(1.0), x),
        lambda x: np.where(x > 0, x, np.zeros(3)),
        lambda x: np.concatenate([x, np.ones(3)]),
        lambda x: np.exp(x, out=np.empty(3)),
        lambda x: operator.index(x[0].astype(int)),
        lambda x: range(x[0].astype(int)),
        lambda x: np.take(x, x.astype(int), mode="clip"),
    ],
)
def test_what_would_mix_devices_or_is_not_there_raises(cupy, use):
    with pytest.raises(TypeError):
        use(cupy.ones(3))


def test_values_of_the_host_are_not_assigned(cupy):
    x = cupy.zeros(3)
    with pytest.raises(ValueError, match="cannot be used for fill"):
        x[:2] = np.ones(2)
    x[:] = np.ones(3)
    x[0] = 5
    assert x.get().tolist() == [5, 1, 1]


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp"])
def test_few_ufuncs_reduce(cupy, name):
    with pytest.raises(NotImplementedError, match=rf"cupy_{name}.reduce"):
        getattr(cupy, name).reduce(cupy.ones(3))


def test_results_stay_on_the_device(cupy, ledger):
    x = cupy.arange(6.0).reshape(2, 3)
    for y in (x.sum(), x[0, 1], x.max(0), np.exp(x), np.sum(x), x == 1, 2 * x, x.argmax()):
        assert type(y) is cupy.ndarray
    assert x.sum().shape == ()
    assert (ledger.to_host, ledger.to_device) == ([], [])


def test_dtypes_are_chosen_as_cupy_does(cupy):
    short = cupy.ones(3, "float16")
    assert (short * 2.0).dtype == "float16"
    assert (short * np.float64(2)).dtype == "float64"
    assert (cupy.ones(3, "int32") / 2).dtype == "float64"
    assert cupy.isfinite(cupy.ones(3, "int8")).dtype == bool
    with pytest.raises(TypeError, match="Wrong type"):
        cupy.bitwise_and(cupy.ones(3), cupy.ones(3))
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cupy.asarray(["text"])


def test_positions_outside_wrap_around(cupy):
    x = cupy.arange(4.0)
    assert x[cupy.asarray([5, -1])].get().tolist() == [1, 3]
    assert cupy.take(x, cupy.asarray([4, 7])).get().tolist() == [0, 3]


@pytest.mark.parametrize("read", [float, int, bool, complex, str, lambda x: x.item()])
def test_every_way_to_read_is_noted(cupy, ledger, read):
    read(cupy.ones(()))
    assert ledger.to_host == [((), "float64")]


def test_what_is_sent_is_noted_and_numbers_are_not(cupy, ledger):
    x = cupy.asarray(np.ones((2, 3), "float32"))
    x = x * 2 + np.float32(1)
    x[[0, 1]]
    cupy.asarray(3.0)
    cupy.full(5, 2.0)
    assert ledger.to_device == [((2, 3), "float32"), ((2,), "int64")]


def test_a_selection_by_values_makes_the_host_wait(cupy, ledger):
    x = cupy.arange(4.0)
    x[x > 1]
    cupy.nonzero(x)
    assert ledger.waits == ["a mask as an index", "nonzero"]


def test_views_share_memory_and_copies_do_not(cupy):
    x = cupy.zeros((2, 3))
    x[0, 1][...] = 5
    x.T[2, 1] = 7
    x.reshape(-1)[0] = 1
    x.copy()[:] = 9
    assert x.get().tolist() == [[1, 5, 0], [0, 0, 7]]


def windows(cupy, x):
    return cupy.lib.stride_tricks.sliding_window_view(x, 3)


def strided(cupy, x):
    return cupy.lib.stride_tricks.as_strided(x, (6, 6), (0, 8))


@pytest.mark.parametrize("view", [windows, strided, lambda cupy, x: cupy.broadcast_to(x, (4, 6))])
def test_views_that_repeat_elements_lie_in_the_memory_of_the_array(cupy, view):
    x = cupy.arange(6.0)
    y = view(cupy, x)
    assert y.nbytes > x.nbytes
    for z in (y, y[1], y[:, 1:]):
        assert z.data.mem is x.data.mem
    assert memory.around(x.data.ptr + x.nbytes) is not x.data.mem
    x[:] = cupy.full(6, 5.0)
    assert set(y.get().ravel()) == {5}


def test_afterwards_the_machine_is_as_before():
    from trainkit.core import devices

    before = devices.all_devices()
    with stand_in.in_place():
        assert devices.current().name == "/device:GPU:0"
    assert devices.all_devices() == before
